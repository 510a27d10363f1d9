import Foundation
import Glibc
import Synchronization

/// A server on a loopback port of the kernel's choice whose every connection runs a script on its own thread: for
/// answers that no server library would send.
final class ScriptedServer: Sendable {
  let port: UInt16
  private let listener: Int32
  private let accepted = Atomic<Int>(0)

  var url: String { "http://127.0.0.1:\(port)" }
  var connectionCount: Int { accepted.load(ordering: .acquiring) }

  init(_ script: @escaping @Sendable (Peer) -> Void) {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        precondition(unsafe bind(listener, $0, length) == 0)
        precondition(listen(listener, 64) == 0)
        precondition(unsafe getsockname(listener, $0, &length) == 0)
      }
    }
    self.listener = listener
    port = UInt16(bigEndian: address.sin_port)
    let thread = Thread { [weak self] in
      while true {
        let connection = accept(listener, nil, nil)
        if connection < 0 {
          if errno == EINTR { continue }
          break
        }
        self?.accepted.add(1, ordering: .acquiringAndReleasing)
        Thread.detachNewThread {
          let peer = Peer(connection)
          script(peer)
          peer.close()
        }
      }
      close(listener)
    }
    thread.start()
  }

  deinit { shutdown(listener, Int32(SHUT_RDWR)) }
}

/// One accepted connection.
final class Peer: @unchecked Sendable {
  private var descriptor: Int32
  private var buffered: [UInt8] = []

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  /// The request line and fields, without the blank line; nil when the client left.
  func readHead() -> String? {
    while true {
      if let end = endOfHead {
        let head = String(decoding: buffered[..<end], as: UTF8.self)
        buffered.removeFirst(end + 4)
        return head
      }
      if !fill() { return nil }
    }
  }

  private var endOfHead: Int? {
    guard buffered.count >= 4 else { return nil }
    return (0...(buffered.count - 4)).first {
      buffered[$0] == 13 && buffered[$0 + 1] == 10 && buffered[$0 + 2] == 13 && buffered[$0 + 3] == 10
    }
  }

  func readBody(_ count: Int) -> [UInt8]? {
    while buffered.count < count { if !fill() { return nil } }
    defer { buffered.removeFirst(count) }
    return Array(buffered[..<count])
  }

  /// Returns when the client closed its end.
  func waitForEnd() {
    buffered = []
    while fill() { buffered = [] }
  }

  private func fill() -> Bool {
    var chunk = [UInt8](repeating: 0, count: 65536)
    let count = unsafe recv(descriptor, &chunk, chunk.count, 0)
    guard count > 0 else { return false }
    buffered += chunk[..<count]
    return true
  }

  func send(_ text: String) { _ = send(Array(text.utf8)) }

  @discardableResult func send(_ bytes: [UInt8]) -> Bool {
    var done = 0
    while done < bytes.count {
      let count = unsafe bytes.withUnsafeBytes {
        unsafe Glibc.send(descriptor, $0.baseAddress! + done, bytes.count - done, Int32(MSG_NOSIGNAL))
      }
      if count <= 0 { return false }
      done += count
    }
    return true
  }

  /// Closes with RST instead of FIN.
  func reset() {
    var option = linger(l_onoff: 1, l_linger: 0)
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    close()
  }

  func close() {
    if descriptor >= 0 { Glibc.close(descriptor) }
    descriptor = -1
  }
}
