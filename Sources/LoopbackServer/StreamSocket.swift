import Glibc

/// A failed socket call: which one, and its errno.
struct SocketFailure: Error {
  let operation: String
  let code: Int32

  static func last(_ operation: String) -> SocketFailure { SocketFailure(operation: operation, code: errno) }

  var reason: String {
    var text = [CChar](repeating: 0, count: 256)
    guard unsafe strerror_r(code, &text, text.count) == 0 else { return "\(operation): errno \(code)" }
    let message = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return "\(operation): \(message) (errno \(code))"
  }
}

/// A connected or listening TCP socket, blocking unless said otherwise. Whoever made it closes it.
struct StreamSocket {
  let descriptor: Int32

  /// A non-blocking, close-on-exec socket bound to the loopback address of one family, not yet listening.
  static func bound(
    ipv6: Bool, port: UInt16, configuration: LocalServer.Configuration
  ) throws(SocketFailure) -> StreamSocket {
    let kind = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    let descriptor = socket(ipv6 ? AF_INET6 : AF_INET, kind, 0)
    guard descriptor >= 0 else { throw .last("socket") }
    let made = StreamSocket(descriptor: descriptor)
    do throws(SocketFailure) {
      try made.setOption(SOL_SOCKET, SO_REUSEADDR, 1)
      if ipv6 { try made.setOption(CInt(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
      // Accepted sockets inherit these; set later they would come after the window was announced.
      if let count = configuration.sendBufferByteCount {
        try made.setOption(SOL_SOCKET, SO_SNDBUF, CInt(clamping: count))
      }
      if let count = configuration.receiveBufferByteCount {
        try made.setOption(SOL_SOCKET, SO_RCVBUF, CInt(clamping: count))
      }
      try made.bindLoopback(ipv6: ipv6, port: port)
      return made
    } catch {
      made.close()
      throw error
    }
  }

  func listen() throws(SocketFailure) {
    guard Glibc.listen(descriptor, 4096) == 0 else { throw .last("listen") }
  }

  /// Refuses connections from now on; the port stays bound to this socket until it is closed.
  func stopListening() { _ = shutdown(descriptor, CInt(SHUT_RDWR)) }

  /// Makes this descriptor mean `other`, whose own descriptor is closed: a thread that is about to use the number
  /// meets a socket of ours, never a stranger's file.
  func become(_ other: StreamSocket) throws(SocketFailure) {
    defer { other.close() }
    guard dup2(other.descriptor, descriptor) >= 0 else { throw .last("dup2") }
    _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
  }

  func bindLoopback(ipv6: Bool, port: UInt16) throws(SocketFailure) {
    let code: CInt
    if ipv6 {
      var address = sockaddr_in6()
      address.sin6_family = sa_family_t(AF_INET6)
      address.sin6_port = port.bigEndian
      unsafe address.sin6_addr.__in6_u.__u6_addr8.15 = 1
      code = unsafe Self.withGeneric(&address) { address, size in unsafe bind(descriptor, address, size) }
    } else {
      var address = sockaddr_in()
      address.sin_family = sa_family_t(AF_INET)
      address.sin_port = port.bigEndian
      address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
      code = unsafe Self.withGeneric(&address) { address, size in unsafe bind(descriptor, address, size) }
    }
    guard code == 0 else { throw .last("bind") }
  }

  // SAFETY: sockaddr_in and sockaddr_in6 begin with the fields of sockaddr; the size passed is the real one.
  private static func withGeneric<Address>(
    _ address: inout Address, _ body: (UnsafeMutablePointer<sockaddr>, socklen_t) -> CInt
  ) -> CInt {
    unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        unsafe body(generic, socklen_t(MemoryLayout<Address>.size))
      }
    }
  }

  /// The port this socket is bound to (both families keep it at the same place).
  func boundPort() throws(SocketFailure) -> UInt16 {
    var address = sockaddr_in6()
    let code = unsafe Self.withGeneric(&address) { address, size in
      var size = size
      return unsafe getsockname(descriptor, address, &size)
    }
    guard code == 0 else { throw .last("getsockname") }
    return UInt16(bigEndian: address.sin6_port)
  }

  /// One waiting connection made blocking, or nil when none waits.
  func accept() throws(SocketFailure) -> StreamSocket? {
    let accepted = Glibc.accept(descriptor, nil, nil)
    if accepted < 0 {
      switch errno {
      case EAGAIN, EINTR, ECONNABORTED, EINVAL: return nil
      default: throw .last("accept")
      }
    }
    _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
    let socket = StreamSocket(descriptor: accepted)
    try? socket.setOption(CInt(IPPROTO_TCP), TCP_NODELAY, 1)
    return socket
  }

  func setOption(_ level: CInt, _ name: CInt, _ value: CInt) throws(SocketFailure) {
    var value = value
    guard unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<CInt>.size)) == 0 else {
      throw .last("setsockopt")
    }
  }

  /// Sends all of `bytes`; MSG_NOSIGNAL, because a peer that left must not end the process with SIGPIPE.
  func send(_ bytes: UnsafeRawBufferPointer) throws(SocketFailure) {
    var rest = unsafe bytes[...]
    while unsafe !rest.isEmpty {
      let part = unsafe UnsafeRawBufferPointer(rebasing: rest)
      let count = unsafe Glibc.send(descriptor, part.baseAddress, part.count, CInt(MSG_NOSIGNAL))
      if count < 0 {
        if errno == EINTR { continue }
        throw .last("send")
      }
      unsafe rest = rest.dropFirst(count)
    }
  }

  /// Waits for some bytes; 0 is the end of the peer's stream.
  func receive(into buffer: UnsafeMutableRawBufferPointer) throws(SocketFailure) -> Int {
    while true {
      let count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
      if count >= 0 { return count }
      if errno != EINTR { throw .last("recv") }
    }
  }

  /// Bytes written that the peer's kernel has not acknowledged (tcp(7), SIOCOUTQ).
  var unacknowledgedByteCount: Int {
    var count: CInt = 0
    return unsafe ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
  }

  /// Ends both directions, which wakes a thread blocked on this socket.
  func shutDown() { _ = shutdown(descriptor, CInt(SHUT_RDWR)) }

  /// Sends FIN; the peer can still send.
  func finishSending() { _ = shutdown(descriptor, CInt(SHUT_WR)) }

  /// Resets the connection: RST instead of FIN (socket(7), SO_LINGER with time 0). Dissolving the association
  /// (connect(2), AF_UNSPEC) does it at once, even if a process started meanwhile inherited this descriptor.
  func reset() {
    var option = linger(l_onoff: 1, l_linger: 0)
    _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    var nowhere = sockaddr(sa_family: sa_family_t(AF_UNSPEC), sa_data: sockaddr().sa_data)
    _ = unsafe connect(descriptor, &nowhere, socklen_t(MemoryLayout<sockaddr>.size))
  }

  func close() { _ = Glibc.close(descriptor) }
}
