#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import WireProtocol

  extension DaemonConnection: DaemonLine {
    func call<R: Decodable & Sendable>(_ request: ClientRequest, returning: R.Type) throws(ConnectionFailure) -> R {
      try call(request, returning: returning, timeout: .seconds(120))
    }
  }

  extension SessionRegistry {
    /// The registry of this process. Its connection is opened by the first session and lives as long as the process.
    ///
    /// The program's identity is the variable `FERRY_APP_ID`, else the name of its executable.
    static let shared = SessionRegistry(
      app: AppIdentifier.standard(ProcessInfo.processInfo.environment),
      network: .fromEnvironment(ProcessInfo.processInfo.environment)
    ) { registry throws(ConnectionFailure) in
      let connection = try DaemonConnection.open(
        client: "BackgroundURLSession/0.1", environment: ProcessInfo.processInfo.environment
      ) { registry.receive($0) }
      _ = connection.onReconnect { registry.reconnected() }
      return connection
    }
  }
#endif
