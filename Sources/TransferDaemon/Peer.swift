package import LinuxSystem
package import TransferCore
import WireProtocol

/// One connected client: its bytes, in and out. It knows lines, not their meaning.
package final class Peer {
  package enum Arrival {
    /// A line without its newline.
    case line(ArraySlice<UInt8>)
    /// No more bytes come.
    case closed
    /// The peer broke the protocol of lines; the reason is sent before the connection ends.
    case violation(String)
  }

  let id: PeerID
  let processID: Int32
  let descriptor: Int32
  var registration: EventLoop.Registration?
  /// For the log; what `hello` said.
  var client = "unknown"
  var hasSaidHello = false
  /// Completions that it is offered tell what was measured.
  var wantsMetrics = false
  /// Set when the connection is to end as soon as what waits is sent.
  var isClosing = false
  private var input: [UInt8] = []
  private var scanned = 0
  private var consumed = 0
  private var sawEnd = false
  private var output: [UInt8] = []
  private var sent = 0
  /// Where in `output` what waits for a commit begins; both numbers grow. There are two at most, for so many commits
  /// are not durable: the one on its way and the next.
  private var holds: [(offset: Int, commit: Int64)] = []
  /// As it is registered.
  var interest: EventLoop.Interest = .readable
  /// It stands in the daemon's list of those to flush.
  var isUnflushed = false
  /// Tasks that it watches one by one.
  var watched: [TaskID] = []
  /// Requests in work: their place in the order of arrival, and the id that the client gave.
  private var awaited: [Int64: Int64] = [:]
  private var lastRequest: Int64 = 0

  package init(id: PeerID, descriptor: consuming OwnedDescriptor, processID: Int32) {
    self.id = id
    self.descriptor = descriptor.take()
    self.processID = processID
  }

  deinit { _ = OwnedDescriptor(adopting: descriptor) }

  var unsentBytes: Int { output.count - sent }
  /// Those that may not go yet.
  var heldBytes: Int { holds.first.map { output.count - $0.offset } ?? 0 }
  /// Those that only the socket keeps back.
  var sendableBytes: Int { unsentBytes - heldBytes }

  // MARK: Answers

  /// Names a request for the core; a notification (no id) is never answered (JSON-RPC 2.0 section 4.1).
  func expectAnswer(to requestID: Int64?) -> RequestToken {
    lastRequest += 1
    awaited[lastRequest] = requestID
    return RequestToken(peer: id, sequence: lastRequest)
  }

  func takeAnswer(_ token: RequestToken) -> Int64? { awaited.removeValue(forKey: token.sequence) }

  // MARK: In

  /// Reads what is there, within bounds: a peer that sends faster than we work waits in its own socket.
  package func receive(into scratch: inout [UInt8]) {
    guard !sawEnd, input.count - consumed <= WireLimits.messageBytes else { return }
    compact()
    do throws(SystemError) {
      // One read a turn: epoll is level-triggered, and other peers come first.
      guard let received = try UnixSocket.receive(descriptor, into: &scratch) else { return }
      if received.count == 0 { sawEnd = true }
      // Descriptors belong to no message of this protocol version; they are closed by going out of scope.
      input.append(contentsOf: scratch[..<received.count])
    } catch {
      sawEnd = true
    }
  }

  /// The next thing that arrived; nil when nothing complete is there.
  package func next() -> Arrival? {
    if let newline = input[scanned...].firstIndex(of: 0x0A) {
      let line = input[consumed..<newline]
      consumed = newline + 1
      scanned = consumed
      if line.count > WireLimits.messageBytes { return .violation(Self.tooLong) }
      return .line(line)
    }
    scanned = input.count
    if input.count - consumed > WireLimits.messageBytes { return .violation(Self.tooLong) }
    return sawEnd ? .closed : nil
  }

  private static let tooLong = "a message is longer than \(WireLimits.messageBytes) bytes"

  private func compact() {
    guard consumed > 0 else { return }
    if consumed == input.count {
      input.removeAll(keepingCapacity: input.capacity <= 1 << 17)
    } else if consumed > 1 << 16 {
      input.removeFirst(consumed)
    } else {
      return
    }
    scanned -= consumed
    consumed = 0
  }

  // MARK: Out

  /// - Parameter commit: the line waits for it, and so does all that is sent later: a connection is told things in
  ///   their order.
  func send(_ line: [UInt8], after commit: Int64? = nil) {
    if sent > 1 << 16, sent * 2 > output.count {
      output.removeFirst(sent)
      for index in holds.indices { holds[index].offset -= sent }
      sent = 0
    }
    if let commit, holds.last.map({ $0.commit < commit }) ?? true { holds.append((output.count, commit)) }
    output.append(contentsOf: line)
  }

  /// What waits for a commit that there is nothing for waits for the newest that there is.
  func lowerHolds(to newest: Int64) {
    while let last = holds.last, last.commit > newest {
      holds.removeLast()
      if holds.last.map({ $0.commit < newest }) ?? true { holds.append((last.offset, newest)) }
    }
  }

  /// Lets go what waited for this commit, or for one before it.
  func release(through commit: Int64) { holds.removeAll { $0.commit <= commit } }

  /// Forgets what waits: it will not be so in this daemon's life.
  func dropHeld() {
    guard let first = holds.first else { return }
    output.removeLast(output.count - first.offset)
    holds.removeAll()
  }

  /// Sends what the socket takes of what may go. False: the connection is broken.
  func flush() -> Bool {
    // Held in a local for the span; sharing the buffer costs nothing, for nobody writes meanwhile.
    let waiting = output
    let end = holds.first?.offset ?? waiting.count
    do throws(SystemError) {
      while sent < end {
        try FaultPoint.reach("peer.reply")
        guard let count = try UnixSocket.send(descriptor, waiting.span.extracting(sent..<end)) else { return true }
        sent += count
      }
      guard holds.isEmpty else { return true }
      output.removeAll(keepingCapacity: output.capacity <= 1 << 17)
      sent = 0
      return true
    } catch {
      return false
    }
  }
}
