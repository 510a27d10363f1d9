/// Why a task or one of its attempts did not succeed. Each has one stable name on the wire and one exit code of
/// `ferry`.
package enum FailureCode: String, CaseIterable, Hashable, Sendable {
  // The network and the peer.
  case hostNotFound, connectionRefused, connectionLost, timedOut, networkUnavailable
  case secureConnectionFailed, certificateUntrusted, proxyFailed
  case pinnedKeyMismatch, clientCertificateRequired, clientCertificateRejected, clientCertificateUnusable
  // What the server said.
  case httpStatus, tooManyRedirects, redirectForbidden, badServerResponse, credentialsRequired
  case proxyCredentialsRequired
  // What arrived.
  case lengthMismatch, digestMismatch, contentDecodingFailed, rangeUnsatisfiable, bodyTooLarge
  // This machine.
  case noSpace, fileExists, destinationUnavailable, fileReadFailed, fileWriteFailed, partFileLost
  // The source of an upload.
  case sourceMissing, sourceChanged, sourceUnreadable
  /// The server may have acted on a request that is not safe to repeat, and its answer was lost.
  case outcomeUnknown
  // The task's own limits.
  case resourceTimedOut, sessionDisconnected, recordUnreadable
  // The request itself.
  case unsupportedURL, invalidRequest
  case internalFault
}

package enum Retryability: String, Hashable, Sendable {
  /// The same request may succeed later.
  case transient
  /// It will not get better by itself.
  case permanent
}

/// A failure with what a person needs to act on it.
package struct TransferFailure: Hashable, Sendable {
  package var code: FailureCode
  package var retryability: Retryability
  /// The space that `number` belongs to: "curl", "errno", "http"; empty where there is none.
  package var domain: String
  package var number: Int
  /// One sentence, without secrets: names the cause and, where there is one, the remedy.
  package var detail: String
  /// Seconds after which the server asked to be tried again, already clamped; nil where it did not say.
  package var retryAfterSeconds: Int?

  package init(
    _ code: FailureCode, _ retryability: Retryability, domain: String = "", number: Int = 0, detail: String,
    retryAfterSeconds: Int? = nil
  ) {
    self.code = code
    self.retryability = retryability
    self.domain = domain
    self.number = number
    self.detail = detail
    self.retryAfterSeconds = retryAfterSeconds
  }
}

package enum CancelCause: String, Hashable, Sendable {
  /// The app or the person asked for it.
  case requested
  case sessionInvalidated
  case forceQuit
}
