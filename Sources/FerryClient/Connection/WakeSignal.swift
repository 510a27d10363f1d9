import Glibc
import LinuxSystem

/// Ends another thread's poll(2). Waking twice before the other looks is one wake.
struct WakeSignal: ~Copyable, Sendable {
  private let ends: SocketPair

  init() throws(SystemError) {
    ends = try UnixSocket.socketPair(nonblocking: true)
  }

  /// Readable while a wake is not taken.
  var descriptor: Int32 { ends.second.raw }

  func wake() {
    var byte: UInt8 = 1
    // A full buffer means that a wake is pending already.
    _ = unsafe send(ends.first.raw, &byte, 1, Int32(MSG_NOSIGNAL))
  }

  func take() {
    var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    while unsafe recv(ends.second.raw, &bytes, 32, 0) > 0 {}
  }
}
