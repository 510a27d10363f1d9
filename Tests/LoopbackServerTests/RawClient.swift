import Glibc

/// A client of plain sockets, so that tests see every byte, and every byte can be sent.
final class RawClient {
  let descriptor: Int32
  private(set) var received: [UInt8] = []
  /// Whether the last read ended with a reset instead of an orderly end.
  private(set) var wasReset = false

  init?(port: UInt16, receiveBufferByteCount: Int32? = nil) {
    descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    if var size = receiveBufferByteCount {
      _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, 4)
    }
    // A deadline for every blocking call, so that a broken server fails a test instead of hanging it.
    var limit = timeval(tv_sec: 20, tv_usec: 0)
    _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let code = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        unsafe connect(descriptor, generic, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    if code != 0 {
      close(descriptor)
      return nil
    }
  }

  private var isClosed = false

  deinit { leave() }

  func leave() {
    if !isClosed { close(descriptor) }
    isClosed = true
  }

  @discardableResult
  func send(_ text: String) -> Bool { send(Array(text.utf8)) }

  @discardableResult
  func send(_ bytes: [UInt8]) -> Bool {
    var sent = 0
    while sent < bytes.count {
      let rest = Array(bytes[sent...])
      let count = unsafe Glibc.send(descriptor, rest, rest.count, CInt(MSG_NOSIGNAL))
      if count <= 0 { return false }
      sent += count
    }
    return true
  }

  func finishSending() { _ = shutdown(descriptor, CInt(SHUT_WR)) }

  /// Reads once; false at the end, at a reset and at the deadline.
  private func readSome() -> Bool {
    var part = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe recv(descriptor, &part, part.count, 0)
    if count < 0 && errno == ECONNRESET { wasReset = true }
    guard count > 0 else { return false }
    received += part[..<count]
    return true
  }

  /// Everything up to the end of the connection.
  func readToEnd() -> [UInt8] {
    while readSome() {}
    defer { received = [] }
    return received
  }

  /// Reads until `count` bytes are there, and takes them.
  func read(count: Int) -> [UInt8] {
    while received.count < count, readSome() {}
    let taken = Array(received.prefix(count))
    received.removeFirst(taken.count)
    return taken
  }

  /// Reads a response's head and takes it.
  func readHead() -> ReceivedHead? {
    while true {
      if let end = received.firstEnd(of: Array("\r\n\r\n".utf8)) {
        let text = String(decoding: received[..<end], as: UTF8.self)
        received.removeFirst(end)
        return ReceivedHead(text)
      }
      if !readSome() { return nil }
    }
  }

  /// Asks with GET and these extra lines, and reads head and body by Content-Length.
  func get(_ target: String, _ lines: String...) -> (head: ReceivedHead, body: [UInt8])? {
    send("GET \(target) HTTP/1.1\r\nHost: x\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
    guard let head = readHead() else { return nil }
    return (head, read(count: head.contentLength ?? 0))
  }
}

struct ReceivedHead {
  let status: Int
  let lines: [String]

  init?(_ text: String) {
    lines = text.split(whereSeparator: \.isNewline).map(String.init)
    guard let first = lines.first, first.hasPrefix("HTTP/1.1 "), let code = Int(first.dropFirst(9).prefix(3)) else {
      return nil
    }
    status = code
  }

  subscript(name: String) -> String? {
    let prefix = name.lowercased() + ": "
    return lines.first { $0.lowercased().hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
  }

  var contentLength: Int? { self["Content-Length"].flatMap { Int($0) } }
}

extension [UInt8] {
  func firstEnd(of pattern: [UInt8]) -> Int? {
    guard count >= pattern.count else { return nil }
    return (0...(count - pattern.count)).first {
      self[$0] == pattern[0] && Array(self[$0..<$0 + pattern.count]) == pattern
    }
    .map { $0 + pattern.count }
  }
}
