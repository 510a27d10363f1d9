import Glibc

/// A port of the loopback that the kernel chose. It stays bound here, without listening, so that nobody else is given
/// it before the server that listens on it has started (socket(7): two sockets with SO_REUSEADDR may share an address
/// of which neither listens yet).
package final class ReservedPort: Sendable {
  package let number: UInt16
  private let descriptor: Int32

  package init() throws {
    let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    guard raw >= 0 else { throw SocketFailure.last("socket") }
    let made = StreamSocket(descriptor: raw)
    do throws(SocketFailure) {
      for option in [SO_REUSEADDR, SO_REUSEPORT] { try made.setOption(SOL_SOCKET, option, 1) }
      try made.bindLoopback(ipv6: false, port: 0)
      number = try made.boundPort()
    } catch {
      made.close()
      throw error
    }
    descriptor = raw
  }

  deinit { close(descriptor) }
}
