import FoundationEssentials
import LinuxSystem
package import WireProtocol

/// The one connection of a process to its daemon.
///
/// A thread of its own reads; requests are written by the threads that make them. When the connection breaks, it is
/// made again: first the sessions open themselves again (``onReconnect(_:)``), then the requests that have no reply
/// are sent again in their order. Every request of the protocol may be sent twice.
///
/// While no daemon can be reached for ``ReconnectPolicy/patience``, requests fail with `daemonUnavailable`; the
/// connection goes on trying, and they work again when it succeeds.
package final class DaemonConnection: Sendable {
  private let core: ConnectionCore

  private init(core: ConnectionCore) { self.core = core }

  deinit { core.close() }

  /// Connects to the daemon, starting it where none runs and `startsDaemon` allows, and says hello. Blocks.
  ///
  /// - Parameters:
  ///   - client: name and version of the program for the daemon's log, as "ferry/0.1".
  ///   - environment: where to look (FERRY_HOME, XDG_*, FERRY_DAEMON, PATH); see ``DaemonDialer``.
  ///   - deadline: how long to try.
  ///   - onNotification: called in order on the connection's thread. It may use this connection, blocking calls
  ///     included; while it runs nothing else is delivered.
  ///   - onCaughtUp: called on the connection's thread when all that has arrived was delivered, and now and then
  ///     before: the moment to wake whoever waits for some of it, once and not for each.
  package static func open(
    client: String, environment: [String: String], startsDaemon: Bool = true, deadline: Duration = .seconds(10),
    reconnecting policy: ReconnectPolicy = ReconnectPolicy(),
    onCaughtUp: @escaping @Sendable () -> Void = {}, onNotification: @escaping @Sendable (DaemonNotification) -> Void
  ) throws(ConnectionFailure) -> DaemonConnection {
    let dialer = DaemonDialer(client: client, environment: environment)
    let core: ConnectionCore
    do {
      core = try ConnectionCore(
        dialer: dialer, startsDaemon: startsDaemon, policy: policy, onNotification: onNotification,
        onCaughtUp: onCaughtUp)
    } catch {
      throw .daemonUnavailable("this process cannot open a connection: \(error)")
    }
    let stream = try core.firstDial(deadline: deadline)
    try core.startThread(with: stream)
    return DaemonConnection(core: core)
  }

  /// What the daemon said of itself, last.
  package var daemon: HelloResult? { core.shared.withLock { $0.hello } }

  /// Sends a request and waits for its result. Blocks; also on the connection's own thread, where notifications wait
  /// meanwhile and a broken connection is `lost` at once.
  package func call<R: Decodable & Sendable>(
    _ request: ClientRequest, returning: R.Type, timeout: Duration = .seconds(120)
  ) throws(ConnectionFailure) -> R {
    try Self.decode(R.self, core.call(request, timeout: timeout))
  }

  /// As ``call(_:returning:timeout:)`` without blocking a thread.
  package func callAsync<R: Decodable & Sendable>(
    _ request: ClientRequest, returning: R.Type, timeout: Duration = .seconds(120)
  ) async throws(ConnectionFailure) -> R {
    let outcome = await withCheckedContinuation { continuation in
      core.submit(request, timeout: timeout) { continuation.resume(returning: $0) }
    }
    return try Self.decode(R.self, outcome.get())
  }

  /// As ``callAsync(_:returning:timeout:)``; `completion` runs on the connection's thread, before anything that the
  /// daemon sent after the reply is delivered. (Or at once on this thread, where the request cannot be sent at all.)
  package func request<R: Decodable & Sendable>(
    _ request: ClientRequest, returning: R.Type, timeout: Duration = .seconds(120),
    completion: @escaping @Sendable (Result<R, ConnectionFailure>) -> Void
  ) {
    core.submit(request, timeout: timeout) { outcome in
      completion(
        outcome.flatMap { line in
          Result { () throws(ConnectionFailure) in try Self.decode(R.self, line) }
        })
    }
  }

  /// Sends a request whose reply nobody awaits. It is sent again after a reconnect until it was answered. Blocks while
  /// too many wait; false (and nothing is sent) when the connection is closed, or full while no daemon can be reached.
  @discardableResult
  package func send(_ request: ClientRequest) -> Bool { core.send(request) }

  /// Called on the connection's thread after each reconnect, before anything else is sent: what it asks with
  /// ``call(_:returning:timeout:)`` goes out first. When a call is `lost`, the body should return: it is called again
  /// with the next reconnect.
  package func onReconnect(_ body: @escaping @Sendable () -> Void) -> ConnectionObserver {
    core.observe(.reconnected(body))
  }

  /// Called on the connection's thread when no daemon could be reached for ``ReconnectPolicy/patience``.
  package func onUnavailable(_ body: @escaping @Sendable (ConnectionFailure) -> Void) -> ConnectionObserver {
    core.observe(.unavailable(body))
  }

  package func remove(_ observer: ConnectionObserver) { core.remove(observer) }

  /// Ends the connection; requests without a reply fail with `closed`. A notification that is being handled is the
  /// last.
  package func close() { core.close() }

  private static func decode<R: Decodable>(_ type: R.Type, _ line: Data) throws(ConnectionFailure) -> R {
    do {
      return try WireCoding.decodeResult(type, line)
    } catch {
      throw .refused(error)
    }
  }
}

/// Names a registered body, to remove it.
package struct ConnectionObserver: Hashable, Sendable {
  let number: Int
}

/// How a broken connection is made again.
package struct ReconnectPolicy: Sendable {
  /// The first pause; it doubles up to `longestPause`. A daemon that is restarted by its supervisor is back in well
  /// under a second.
  package var firstPause: Duration = .milliseconds(10)
  package var longestPause: Duration = .seconds(1)
  /// A daemon is started only if none came back in this time: the supervisor or systemd goes first.
  package var startsDaemonAfter: Duration = .seconds(5)
  /// After this, waiting requests fail; trying goes on.
  package var patience: Duration = .seconds(30)
  package init() {}
}
