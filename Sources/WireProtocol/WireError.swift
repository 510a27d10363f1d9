/// An error reply. `name` is stable; `message` names the cause and the remedy.
package struct WireError: Error, Codable, Hashable, Sendable, CustomStringConvertible {
  package var name: Name
  package var message: String

  package init(_ name: Name, _ message: String) {
    self.name = name
    self.message = message
  }

  package var description: String { "\(name.rawValue): \(message)" }

  package enum Name: String, CaseIterable, Codable, Sendable {
    // JSON-RPC 2.0's own.
    case parseError, invalidRequest, methodNotFound, invalidParameters, internalError
    // Ferry's.
    case versionUnsupported
    /// Another process is attached to the session (URLError −996).
    case sessionInUse
    case sessionUnknown
    /// The session takes no new tasks.
    case sessionInvalidated
    case taskUnknown
    case invalidURL
    /// Another task of this daemon writes to that path.
    case destinationClaimed
    case destinationUnusable
    case destinationExists
    case sourceMissing
    case sourceUnusable
    /// The daemon cannot store work just now, and says why.
    case degraded
    case tooManyTasks
    case stopping
    /// No app of that id is registered.
    case appUnknown
    /// What resume data refers to is not there: used, too old, or another app's.
    case resumeDataInvalid
    /// The task asks nothing, or something else by now.
    case notAsking

    /// The number on the wire (JSON-RPC 2.0 section 5.1).
    package var code: Int {
      switch self {
      case .parseError: -32700
      case .invalidRequest: -32600
      case .methodNotFound: -32601
      case .invalidParameters: -32602
      case .internalError: -32603
      case .versionUnsupported: -32001
      case .sessionInUse: -32002
      case .sessionUnknown: -32003
      case .sessionInvalidated: -32004
      case .taskUnknown: -32005
      case .invalidURL: -32006
      case .destinationClaimed: -32007
      case .destinationUnusable: -32008
      case .destinationExists: -32009
      case .sourceMissing: -32010
      case .sourceUnusable: -32011
      case .degraded: -32012
      case .tooManyTasks: -32013
      case .stopping: -32014
      case .appUnknown: -32020
      case .resumeDataInvalid: -32021
      case .notAsking: -32022
      }
    }
  }
}

/// Bounds of the wire, each with its reason.
package enum WireLimits {
  /// A message longer than this ends the connection: nothing that we send or take needs more, and it bounds a peer's
  /// memory.
  package static let messageBytes = 4 * 1024 * 1024
  /// One batch must fit a message and one transaction, with room.
  package static let tasksInBatch = 2000
  /// A page must fit a message.
  package static let tasksInPage = 1000
  /// A peer that does not read is cut off when so much waits for it.
  package static let unsentBytes = 16 * 1024 * 1024
  /// Deliveries in flight to one client; more are sent as it acknowledges.
  package static let unacknowledgedDeliveries = 256
  /// A request body that travels in the message; larger ones are uploads from a file.
  package static let bodyBytes = 1024 * 1024
  package static let urlBytes = 64 * 1024
  package static let headerCount = 200
  package static let headerBytes = 64 * 1024
  package static let identifierBytes = 1024
  package static let descriptionBytes = 64 * 1024
}
