import Glibc
import LinuxSystem
import TransferCore
import TransferDaemon
import WireProtocol

/// The daemon's end of a connection, beside a reader that is too simple to be wrong.
enum PeerTarget {
  static func run(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    // Bare numbers: the peer owns one end, `second` the other.
    var second: OwnedDescriptor?
    let peer = Peer(
      id: PeerID(rawValue: 1), descriptor: try UnixSocket.socketPair().split(second: &second), processID: getpid())
    guard let theirs = second.take() else { return }
    var scratch = [UInt8](repeating: 0, count: 1 << 16)
    var model = Model()
    while !source.isEmpty, !model.isOver {
      let piece = piece(&source)
      var sent = 0
      while sent < piece.count, !model.isOver {
        if let count = try UnixSocket.send(theirs.raw, piece.span.extracting(droppingFirst: sent)), count > 0 {
          model.append(piece[sent..<(sent + count)])
          sent += count
        }
        // As the loop does: one read, then all that is complete.
        peer.receive(into: &scratch)
        try drain(peer, &model)
      }
    }
    guard !model.isOver else { return }
    shutdown(theirs.raw, Int32(SHUT_WR))
    for _ in 0..<1000 {
      peer.receive(into: &scratch)
      try drain(peer, &model)
      if model.isOver { return }
    }
    throw FuzzFinding("the end of the connection is not seen")
  }

  /// Some bytes as they are, or a run of one: short, or so long that a few reach the limit.
  private static func piece(_ source: inout ByteSource) -> [UInt8] {
    let kind = source.byte()
    if kind < 0xC0 { return Array(source.bytes(Int(kind % 64) + 1)) }
    let byte = source.byte()
    return [UInt8](repeating: byte, count: kind < 0xFF ? Int(kind - 0xBF) << 6 : Int(source.byte() % 32 + 1) << 16)
  }

  private static func drain(_ peer: Peer, _ model: inout Model) throws {
    while !model.isOver, let arrival = peer.next() {
      switch arrival {
      case .line(let line):
        guard let expected = model.nextLine() else { throw FuzzFinding("a line that nobody sent") }
        try require(expected.elementsEqual(line), "a line differs from what was sent")
        try require(line.count <= WireLimits.messageBytes, "a line longer than allowed")
      case .violation:
        try require(model.isTooLong, "a violation without a line that is too long")
        model.isOver = true
      case .closed:
        try require(!model.hasLine, "the end came before the last line")
        model.isOver = true
      }
    }
  }

  private struct Model {
    private var bytes: [UInt8] = []
    private var start = 0
    var isOver = false

    mutating func append(_ more: ArraySlice<UInt8>) { bytes.append(contentsOf: more) }
    var hasLine: Bool { bytes[start...].contains(0x0A) }
    var isTooLong: Bool {
      (bytes[start...].firstIndex(of: 0x0A) ?? bytes.count) - start > WireLimits.messageBytes
    }
    mutating func nextLine() -> ArraySlice<UInt8>? {
      guard let end = bytes[start...].firstIndex(of: 0x0A) else { return nil }
      defer { start = end + 1 }
      return bytes[start..<end]
    }
  }
}
