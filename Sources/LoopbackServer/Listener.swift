import Glibc

/// The listening sockets of a server, which can refuse connections for a while and keep their port.
final class Listener: Sendable {
  private struct State {
    var isAccepting = true
    /// Whether the sockets are fresh, so that they can listen. On Linux a socket that was shut down never gets a
    /// connection again, though listen(2) succeeds.
    var canListen = true
    var isClosed = false
  }

  let port: UInt16
  private let sockets: [StreamSocket]
  private let configuration: LocalServer.Configuration
  private let wakeup: Wakeup
  private let state = Monitor(State())

  init(_ configuration: LocalServer.Configuration) throws(LocalServer.StartFailure) {
    guard let wakeup = Wakeup() else {
      throw LocalServer.StartFailure(port: configuration.port, reason: SocketFailure.last("pipe").reason)
    }
    self.wakeup = wakeup
    self.configuration = configuration
    // A port that is free for IPv4 may be taken for IPv6; then the kernel is asked for another one.
    var attemptsLeft = configuration.port == 0 ? 16 : 1
    while true {
      attemptsLeft -= 1
      do throws(SocketFailure) {
        (port, sockets) = try Self.listen(configuration)
        return
      } catch {
        guard attemptsLeft > 0, error.code == EADDRINUSE else {
          throw LocalServer.StartFailure(port: configuration.port, reason: error.reason)
        }
      }
    }
  }

  private static func listen(
    _ configuration: LocalServer.Configuration
  ) throws(SocketFailure) -> (UInt16, [StreamSocket]) {
    var made: [StreamSocket] = []
    do throws(SocketFailure) {
      let first = try StreamSocket.bound(ipv6: false, port: configuration.port, configuration: configuration)
      made.append(first)
      let port = try first.boundPort()
      if configuration.listensOnIPv6 {
        made.append(try StreamSocket.bound(ipv6: true, port: port, configuration: configuration))
      }
      for socket in made { try socket.listen() }
      return (port, made)
    } catch {
      for socket in made { socket.close() }
      throw error
    }
  }

  /// Blocks until connections wait or somebody calls ``wake()``.
  func next() -> [StreamSocket] {
    let isAccepting = state.read { $0.isAccepting }
    var entries = [pollfd(fd: wakeup.readEnd, events: Int16(POLLIN), revents: 0)]
    if isAccepting {
      entries += sockets.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
    }
    _ = unsafe poll(&entries, nfds_t(entries.count), -1)
    if entries[0].revents != 0 {
      wakeup.drain()
      return []
    }
    var accepted: [StreamSocket] = []
    for (entry, socket) in zip(entries.dropFirst(), sockets) where entry.revents != 0 {
      do throws(SocketFailure) {
        if let connection = try socket.accept() { accepted.append(connection) }
      } catch {
        // No descriptor or memory left: the connection goes on waiting in the kernel; try again in a moment rather
        // than spin.
        var wait = pollfd(fd: wakeup.readEnd, events: Int16(POLLIN), revents: 0)
        _ = unsafe poll(&wait, 1, 50)
      }
    }
    return accepted
  }

  func wake() { wakeup.signal() }

  /// Refuses connections. Fresh sockets take over the port before the old ones let it go, so nobody can take it.
  func pause() {
    state.withLock { state in
      guard !state.isClosed, state.isAccepting else { return }
      state.isAccepting = false
      for socket in sockets { socket.stopListening() }
      do throws(SocketFailure) {
        try renew()
        state.canListen = true
      } catch {
        // No descriptor left. The old sockets keep the port, and resume() tries again.
        state.canListen = false
      }
    }
    wake()
  }

  private func renew() throws(SocketFailure) {
    for (index, socket) in sockets.enumerated() {
      try socket.become(StreamSocket.bound(ipv6: index == 1, port: port, configuration: configuration))
    }
  }

  func resume() throws(LocalServer.StartFailure) {
    try state.withLock { state throws(LocalServer.StartFailure) in
      guard !state.isClosed, !state.isAccepting else { return }
      do throws(SocketFailure) {
        if !state.canListen { try renew() }
        state.canListen = false
        for socket in sockets { try socket.listen() }
      } catch {
        throw LocalServer.StartFailure(port: port, reason: error.reason)
      }
      state.isAccepting = true
    }
    wake()
  }

  func close() {
    state.withLock { state in
      guard !state.isClosed else { return }
      state.isClosed = true
      for socket in sockets { socket.close() }
    }
  }
}
