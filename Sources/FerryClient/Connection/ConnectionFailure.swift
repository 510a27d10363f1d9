package import WireProtocol

/// Why a request has no result. `message` names the cause and, where there is one, the remedy.
package struct ConnectionFailure: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Kind: Hashable, Sendable {
    /// No daemon answers and none could be started.
    case daemonUnavailable
    /// The daemon answered with an error; `wireError` has it.
    case refused
    /// The connection ended before the answer came, and the request is not sent again.
    case lost
    /// The daemon and this client speak no common version of the protocol.
    case versionMismatch
    /// The daemon is connected and did not answer in time. The request may have been carried out.
    case timedOut
    /// `close()` was called.
    case closed
  }

  package let kind: Kind
  package let message: String
  /// Set only for `refused`.
  package let wireError: WireError?

  private init(_ kind: Kind, _ message: String, _ wireError: WireError? = nil) {
    self.kind = kind
    self.message = message
    self.wireError = wireError
  }

  package static func daemonUnavailable(_ reason: String) -> Self { Self(.daemonUnavailable, reason) }
  package static func refused(_ error: WireError) -> Self { Self(.refused, error.message, error) }
  package static func lost(_ reason: String) -> Self { Self(.lost, reason) }
  package static func versionMismatch(_ reason: String) -> Self { Self(.versionMismatch, reason) }
  package static func timedOut(_ reason: String) -> Self { Self(.timedOut, reason) }
  package static var closed: Self { Self(.closed, "the connection to ferryd was closed by this program") }

  package var description: String { message }
}
