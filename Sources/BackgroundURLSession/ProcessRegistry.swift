#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import WireProtocol

  extension DaemonConnection: DaemonLine {
    func call<R: Decodable & Sendable>(_ request: ClientRequest, returning: R.Type) throws(ConnectionFailure) -> R {
      try call(request, returning: returning, timeout: .seconds(120))
    }

    func ask<R: Decodable & Sendable>(
      _ request: ClientRequest, returning: R.Type,
      completion: @escaping @Sendable (Result<R, ConnectionFailure>) -> Void
    ) {
      self.request(request, returning: returning, timeout: .seconds(120), completion: completion)
    }
  }

  extension SessionRegistry {
    /// The registry of this process. Its connection is opened by the first session and lives as long as the process.
    static let shared = connected(in: ProcessInfo.processInfo.environment)

    /// Whom to connect to, as which program, and through which proxies: all of it is the environment's.
    ///
    /// The program's identity is the variable `FERRY_APP_ID`, else the name of its executable.
    static func connected(in environment: [String: String]) -> SessionRegistry {
      SessionRegistry(
        app: AppIdentifier.standard(environment), network: .fromEnvironment(environment)
      ) { registry throws(ConnectionFailure) in
        let connection = try DaemonConnection.open(
          client: "BackgroundURLSession/0.1", environment: environment
        ) { registry.receive($0) }
        _ = connection.onReconnect { registry.reconnected() }
        return connection
      }
    }
  }
#endif
