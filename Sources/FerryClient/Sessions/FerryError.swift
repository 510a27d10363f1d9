package import WireProtocol

/// Why something could not be asked of the daemon. `message` names the cause and, where there is one, the remedy.
///
/// Not to be mixed up with a task that failed: that is a ``TaskOutcome``.
public struct FerryError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Compare with the constants; more may come with later releases.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    let name: String
    init(_ name: String) { self.name = name }

    /// Stable, for logs.
    public var description: String { name }

    /// No daemon answers and none could be started.
    public static let daemonUnavailable = Code("daemonUnavailable")
    /// The connection broke again and again; the request may have been carried out.
    public static let connectionLost = Code("connectionLost")
    /// The daemon did not answer in time; the request may have been carried out.
    public static let timedOut = Code("timedOut")
    /// The daemon and this library have no version of the protocol in common: update the older one.
    public static let versionMismatch = Code("versionMismatch")
    /// The session, or ``Ferry``, was closed by this program.
    public static let closed = Code("closed")
    /// A parameter is outside of its bounds; the message names it.
    public static let invalidArgument = Code("invalidArgument")
    /// Another process is attached to the session.
    public static let sessionInUse = Code("sessionInUse")
    /// The daemon has no such session; one that was invalidated goes with its last result.
    public static let sessionUnknown = Code("sessionUnknown")
    /// The session takes no new tasks.
    public static let sessionInvalidated = Code("sessionInvalidated")
    /// The daemon has no such task: it was removed, or its result acknowledged.
    public static let taskUnknown = Code("taskUnknown")
    /// The URL is no absolute one of http or https.
    public static let invalidURL = Code("invalidURL")
    /// Another task writes to that destination.
    public static let destinationClaimed = Code("destinationClaimed")
    /// The destination's folder is missing, is not writable or does not answer, or the destination is a folder.
    public static let destinationUnusable = Code("destinationUnusable")
    /// Something is at the destination, and ``Collision/fail`` was asked for.
    public static let destinationExists = Code("destinationExists")
    /// There is no file at an upload's path.
    public static let sourceMissing = Code("sourceMissing")
    /// An upload's source is no regular file, cannot be read, or cannot be kept safe.
    public static let sourceUnusable = Code("sourceUnusable")
    /// The daemon cannot store work just now.
    public static let degraded = Code("degraded")
    /// The daemon holds as many tasks as it takes: remove some first.
    public static let tooManyTasks = Code("tooManyTasks")
    /// The daemon is about to end: ask again in a moment.
    public static let stopping = Code("stopping")
    /// The resume data is damaged or another program's, or was used before.
    public static let resumeDataInvalid = Code("resumeDataInvalid")
    /// The task asks nothing, or something else by now.
    public static let notAsking = Code("notAsking")
    /// The Swift task that waited was cancelled; what it waited for goes on.
    public static let cancelled = Code("cancelled")
    /// The daemon and this library do not understand one another: a defect of one of them.
    public static let internalError = Code("internalError")
  }

  /// What kind of trouble it is, to decide by.
  public let code: Code
  /// One or two sentences for people: the cause and, where there is one, the remedy.
  public let message: String

  package init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  /// The message.
  public var description: String { message }
}

extension FerryError {
  package init(_ failure: ConnectionFailure) {
    switch failure.kind {
    case .daemonUnavailable: self.init(.daemonUnavailable, failure.message)
    case .lost: self.init(.connectionLost, failure.message)
    case .versionMismatch: self.init(.versionMismatch, failure.message)
    case .timedOut: self.init(.timedOut, failure.message)
    case .closed: self.init(.closed, failure.message)
    case .refused:
      if let error = failure.wireError {
        self.init(error)
      } else {
        self.init(.internalError, failure.message)
      }
    }
  }

  package init(_ error: WireError) {
    let code: Code =
      switch error.name {
      case .parseError, .invalidRequest, .methodNotFound, .internalError: .internalError
      case .invalidParameters: .invalidArgument
      case .versionUnsupported: .versionMismatch
      case .sessionInUse: .sessionInUse
      case .sessionUnknown: .sessionUnknown
      case .sessionInvalidated: .sessionInvalidated
      case .taskUnknown: .taskUnknown
      case .appUnknown: .invalidArgument
      case .invalidURL: .invalidURL
      case .destinationClaimed: .destinationClaimed
      case .destinationUnusable: .destinationUnusable
      case .destinationExists: .destinationExists
      case .sourceMissing: .sourceMissing
      case .sourceUnusable: .sourceUnusable
      case .degraded: .degraded
      case .tooManyTasks: .tooManyTasks
      case .stopping: .stopping
      case .resumeDataInvalid: .resumeDataInvalid
      case .notAsking: .notAsking
      }
    self.init(code, error.message)
  }
}
