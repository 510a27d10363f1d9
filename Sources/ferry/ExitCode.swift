import TransferCore
import WireProtocol

/// What `ferry` ends with, one number a cause. The numbers are part of the interface: docs/Commands.md lists them,
/// `ferry help exit-codes` prints this table, and a number never changes its meaning.
enum ExitCode: Int32, CaseIterable, Sendable {
  case success = 0
  /// Something that has no number of its own.
  case failure = 1
  case usage = 2
  /// The number of "program is not running" in the LSB's table for init scripts, which `systemctl status` uses as well.
  case daemonUnavailable = 3
  case unknownTask = 4
  case network = 5
  case security = 6
  case server = 7
  case digest = 8
  case content = 9
  case destination = 10
  case source = 11
  case timedOut = 12
  case cancelled = 13
  case outcomeUnknown = 14
  case refused = 15
  /// 128 + SIGINT, so that a shell script stops at Ctrl-C as it does for other programs.
  case detached = 130

  var meaning: String {
    switch self {
    case .success: "everything that was asked for is done"
    case .failure: "a failure that has no number of its own; the message says which"
    case .usage: "the command line or the request is not valid; nothing was sent"
    case .daemonUnavailable: "the daemon does not run (daemon status) or cannot be reached or started"
    case .unknownTask: "there is no task, or no app, with that id"
    case .network: "name look-up, connection, proxy or network failed"
    case .security: "TLS: no secure connection, or a certificate that is not trusted"
    case .server: "the server's answer: an error status, a refused redirect, no valid HTTP"
    case .digest: "the content is not what --sha256 says"
    case .content: "the content arrived incomplete or could not be decoded"
    case .destination: "the file to write: it exists, is claimed or cannot be written"
    case .source: "the file to send: missing, changed meanwhile, or unreadable"
    case .timedOut: "a time limit ran out"
    case .cancelled: "the task was cancelled"
    case .outcomeUnknown: "the server may have acted on a request whose answer was lost"
    case .refused: "the daemon takes no new work just now, or not for this session"
    case .detached: "Ctrl-C; a transfer that was handed over goes on"
    }
  }

  /// For a task that failed.
  static func of(_ code: FailureCode) -> ExitCode {
    switch code {
    case .hostNotFound, .connectionRefused, .connectionLost, .networkUnavailable, .proxyFailed: .network
    case .secureConnectionFailed, .certificateUntrusted, .pinnedKeyMismatch, .clientCertificateRequired,
      .clientCertificateRejected, .clientCertificateUnusable:
      .security
    case .httpStatus, .tooManyRedirects, .redirectForbidden, .badServerResponse, .credentialsRequired,
      .proxyCredentialsRequired:
      .server
    case .digestMismatch: .digest
    case .lengthMismatch, .contentDecodingFailed, .rangeUnsatisfiable, .bodyTooLarge: .content
    case .noSpace, .fileExists, .destinationUnavailable, .fileReadFailed, .fileWriteFailed, .partFileLost: .destination
    case .sourceMissing, .sourceChanged, .sourceUnreadable: .source
    case .timedOut, .resourceTimedOut: .timedOut
    case .outcomeUnknown: .outcomeUnknown
    case .unsupportedURL, .invalidRequest: .usage
    case .sessionDisconnected, .recordUnreadable, .internalFault: .failure
    }
  }

  /// For a request that the daemon refused.
  static func of(_ name: WireError.Name) -> ExitCode {
    switch name {
    case .parseError, .invalidRequest, .methodNotFound, .internalError: .failure
    case .versionUnsupported: .daemonUnavailable
    case .invalidParameters, .invalidURL: .usage
    case .taskUnknown, .appUnknown: .unknownTask
    case .destinationClaimed, .destinationUnusable, .destinationExists: .destination
    case .sourceMissing, .sourceUnusable: .source
    case .sessionInUse, .sessionUnknown, .sessionInvalidated, .degraded, .tooManyTasks, .stopping, .notAsking: .refused
    case .resumeDataInvalid: .usage
    }
  }

  /// For a task that has ended; nil for one that has not.
  static func of(_ task: TaskSnapshot) -> ExitCode? {
    switch task.state {
    case "succeeded": .success
    case "cancelled": .cancelled
    // A newer daemon may know causes that this program does not.
    case "failed": task.error.flatMap { FailureCode(rawValue: $0.code) }.map(of) ?? .failure
    default: nil
    }
  }
}

/// Why a command ends without having done what it was asked: one message for standard error, one exit code.
struct CommandFailure: Error, Equatable, Sendable {
  var code: ExitCode
  /// Names the cause and, where there is one, the remedy. May hold text from outside; it is escaped when printed.
  var message: String
  /// True for a mistake in the command line: the help page has the remedy.
  var isUsage = false

  init(_ code: ExitCode, _ message: String) {
    self.code = code
    self.message = message
  }

  init(_ error: WireError) {
    self.init(ExitCode.of(error.name), error.message)
  }

  static func usage(_ message: String) -> CommandFailure {
    var failure = CommandFailure(.usage, message)
    failure.isUsage = true
    return failure
  }
}
