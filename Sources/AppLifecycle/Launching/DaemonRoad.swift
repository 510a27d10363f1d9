#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import WireProtocol

  /// What the app says to the daemon, and hears of it: a connection of its own, or a script in tests.
  protocol DaemonRoad: Sendable {
    /// Blocks until the daemon answered.
    func ask(_ request: ClientRequest) throws(ConnectionFailure)
    /// Does not wait; the request outlives a broken connection.
    func tell(_ request: ClientRequest)
  }

  /// Called on the connection's thread.
  struct DaemonEvents: Sendable {
    var woken: @Sendable (AppWakeNotice) -> Void
    var reconnected: @Sendable () -> Void
  }

  typealias DaemonRoadOpener =
    @Sendable (_ environment: [String: String], DaemonEvents) throws(ConnectionFailure) -> any DaemonRoad

  extension DaemonConnection: DaemonRoad {
    func ask(_ request: ClientRequest) throws(ConnectionFailure) {
      _ = try call(request, returning: EmptyResult.self, timeout: .seconds(30))
    }

    func tell(_ request: ClientRequest) { _ = send(request) }

    /// Starts a daemon where none runs. Blocks.
    static let forLifeCycle: DaemonRoadOpener = { environment, events throws(ConnectionFailure) in
      let connection = try open(client: "AppLifecycle/0.1", environment: environment) { notification in
        if case .appWake(let notice) = notification { events.woken(notice) }
      }
      _ = connection.onReconnect { events.reconnected() }
      return connection
    }
  }

  enum Diagnostics {
    /// One line to standard error.
    static func log(_ line: String) {
      FileHandle.standardError.write(Data("AppLifecycle: \(line)\n".utf8))
    }
  }
#endif
