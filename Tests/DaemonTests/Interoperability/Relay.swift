import Glibc
import LinuxSystem
import Synchronization
import Testing

/// Between a client and a server: it counts connections, keeps what the client said first, lets so many bytes of
/// answers through and then no more until it is told, and can delay every byte.
final class Relay: Sendable {
  private struct State {
    var connections = 0
    /// The first bytes of each connection, towards the server.
    var openings: [[UInt8]] = []
    var passed = 0
    /// Bytes of answers, over all connections, after which none go on.
    var limit = Int.max
    var isOver = false
  }

  let port: UInt16
  private let listener: Int32
  private let target: UInt16
  private let delayMilliseconds: Int32
  private let state = Mutex(State())

  /// - Parameter delayMilliseconds: what a byte takes in each direction.
  init(to target: UInt16, limit: Int = .max, delayMilliseconds: Int32 = 0) throws {
    self.target = target
    self.delayMilliseconds = delayMilliseconds
    state.withLock { $0.limit = limit }
    let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    try #require(raw >= 0)
    listener = raw
    var address = Self.loopback(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    // SAFETY: each call is given the size of the structure that it reads or fills.
    let isListening = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(raw, $0, length) == 0 && listen(raw, 64) == 0 && getsockname(raw, $0, &length) == 0
      }
    }
    try #require(isListening)
    port = UInt16(bigEndian: address.sin_port)
    try Self.startThread { [self] in accept() }
  }

  /// Ends all connections; the threads end with them.
  func stop() {
    state.withLock { $0.isOver = true }
    shutdown(listener, Int32(SHUT_RDWR))
  }

  var connections: Int { state.withLock(\.connections) }
  var passed: Int { state.withLock(\.passed) }
  var openings: [String] { state.withLock { $0.openings.map { String(decoding: $0, as: UTF8.self) } } }
  func letAllPass() { state.withLock { $0.limit = .max } }

  static func canConnect(to port: UInt16) throws -> Bool {
    guard let raw = dial(port) else { return false }
    close(raw)
    return true
  }

  // MARK: Threads

  private static func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
    return address
  }

  private static func dial(_ port: UInt16) -> Int32? {
    let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    var address = loopback(port)
    // SAFETY: connect is given the size of the structure that it reads.
    let isConnected = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
    if isConnected { return raw }
    close(raw)
    return nil
  }

  private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  private static func startThread(_ run: @escaping @Sendable () -> Void) throws {
    var thread = pthread_t()
    let body = unsafe Unmanaged.passRetained(Body(run))
    // SAFETY: the reference that is passed is taken over by the thread.
    let result = unsafe pthread_create(&thread, nil, threadEntry, body.toOpaque())
    try #require(result == 0)
    pthread_detach(thread)
  }

  private static let threadEntry: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
    if let argument = unsafe argument { unsafe Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
    return nil
  }

  private func accept() {
    defer { close(listener) }
    while !state.withLock(\.isOver) {
      let client = Glibc.accept(listener, nil, nil)
      guard client >= 0 else { return }
      guard let server = Self.dial(target) else {
        close(client)
        continue
      }
      state.withLock { $0.connections += 1 }
      try? Self.startThread { [self] in carry(client, server) }
    }
  }

  /// Bytes under way in one direction.
  private struct Direction {
    var from: Int32
    var to: Int32
    var isAnswer: Bool
    var waiting: [(due: ContinuousClock.Instant, bytes: [UInt8])] = []
    var isEnded = false
    var isDone = false
  }

  private func carry(_ client: Int32, _ server: Int32) {
    defer {
      close(client)
      close(server)
    }
    var opening: [UInt8] = []
    var directions = [
      Direction(from: client, to: server, isAnswer: false), Direction(from: server, to: client, isAnswer: true),
    ]
    while !state.withLock(\.isOver), !directions.allSatisfy(\.isDone) {
      for index in directions.indices {
        guard step(&directions[index], &opening) else {
          record(opening)
          return
        }
      }
      var polled = directions.filter { !$0.isEnded && $0.waiting.count < 64 && mayRead($0) }.map {
        pollfd(fd: $0.from, events: Int16(POLLIN), revents: 0)
      }
      _ = unsafe poll(&polled, nfds_t(polled.count), 2)
    }
    record(opening)
  }

  private func record(_ opening: [UInt8]) { state.withLock { $0.openings.append(opening) } }

  private func mayRead(_ direction: Direction) -> Bool {
    !direction.isAnswer || state.withLock { $0.passed < $0.limit }
  }

  /// Reads what is there, writes what is due; false when the connection is over.
  private func step(_ direction: inout Direction, _ opening: inout [UInt8]) -> Bool {
    if !direction.isEnded, direction.waiting.count < 64, mayRead(direction) {
      var chunk = [UInt8](repeating: 0, count: 1 << 16)
      let count = unsafe recv(direction.from, &chunk, chunk.count, Int32(MSG_DONTWAIT))
      if count > 0 {
        let bytes = Array(chunk[..<count])
        if direction.isAnswer {
          state.withLock { $0.passed += count }
        } else if opening.count < 1 << 16 {
          opening += bytes
        }
        direction.waiting.append((.now + .milliseconds(delayMilliseconds), bytes))
      } else if count == 0 {
        direction.isEnded = true
      } else if errno != EAGAIN && errno != EINTR {
        return false
      }
    }
    while let first = direction.waiting.first, first.due <= .now {
      var done = 0
      while done < first.bytes.count {
        let left = first.bytes.count - done
        // SAFETY: `left` bytes are there behind `done`.
        let count = unsafe first.bytes.withUnsafeBytes {
          unsafe send(direction.to, $0.baseAddress.map { unsafe $0 + done }, left, Int32(MSG_NOSIGNAL))
        }
        guard count > 0 else { return false }
        done += count
      }
      direction.waiting.removeFirst()
    }
    if direction.isEnded, direction.waiting.isEmpty, !direction.isDone {
      direction.isDone = true
      shutdown(direction.to, Int32(SHUT_WR))
    }
    return true
  }
}
