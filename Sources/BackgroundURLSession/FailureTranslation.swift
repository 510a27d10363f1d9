#if !canImport(Darwin)
  internal import Foundation
  internal import TransferCore
  internal import WireProtocol

  /// From the daemon's failures to the `URLError`s that URLSession's users know.
  enum FailureTranslation {
    /// The `URLError.Code` of each of the daemon's failures (Apple's NSURLError.h; apple-api 1.5).
    static func urlErrorCode(of code: FailureCode) -> URLError.Code {
      switch code {
      case .hostNotFound: .cannotFindHost
      case .connectionRefused: .cannotConnectToHost
      case .connectionLost, .lengthMismatch, .partFileLost, .outcomeUnknown: .networkConnectionLost
      case .timedOut, .resourceTimedOut: .timedOut
      case .networkUnavailable: .notConnectedToInternet
      case .secureConnectionFailed: .secureConnectionFailed
      case .certificateUntrusted: .serverCertificateUntrusted
      case .proxyFailed: .cannotConnectToHost
      case .pinnedKeyMismatch: .serverCertificateUntrusted
      case .clientCertificateRequired: .clientCertificateRequired
      case .clientCertificateRejected, .clientCertificateUnusable: .clientCertificateRejected
      case .httpStatus, .badServerResponse, .rangeUnsatisfiable: .badServerResponse
      case .tooManyRedirects: .httpTooManyRedirects
      case .redirectForbidden: .redirectToNonExistentLocation
      case .credentialsRequired, .proxyCredentialsRequired: .userAuthenticationRequired
      case .digestMismatch: .cannotDecodeRawData
      case .contentDecodingFailed: .cannotDecodeContentData
      case .bodyTooLarge: .dataLengthExceedsMaximum
      case .noSpace, .fileWriteFailed: .cannotWriteToFile
      case .fileExists, .destinationUnavailable: .cannotCreateFile
      case .fileReadFailed: .cannotOpenFile
      case .sourceMissing: .fileDoesNotExist
      case .sourceChanged: .requestBodyStreamExhausted
      case .sourceUnreadable: .noPermissionsToReadFile
      case .sessionDisconnected: .backgroundSessionWasDisconnected
      case .recordUnreadable, .internalFault: .unknown
      case .unsupportedURL: .unsupportedURL
      case .invalidRequest: .badURL
      }
    }

    /// The error of a transfer in this process.
    static func error(of failure: TransferFailure, url: URL?, resumeData: Data?) -> URLError {
      make(
        urlErrorCode(of: failure.code), failure.detail, url: url,
        also: holding(resumeData).merging(unavailability(failure.domain, failure.number)) { $1 })
    }

    /// What a new download needs to go on from one, as an error's `userInfo` holds it.
    private static func holding(_ resumeData: Data?) -> [String: Any] {
      resumeData.map { [NSURLSessionDownloadTaskResumeData: $0] } ?? [:]
    }

    /// A failed or cancelled task's error; nil for one that succeeded.
    static func error(of task: TaskSnapshot) -> URLError? {
      switch task.state {
      case "cancelled": return cancellation(of: task)
      case "failed": break
      default: return nil
      }
      guard let failure = task.error else {
        return make(.unknown, "The task failed, and the daemon did not say why.", url: URL(string: task.url))
      }
      guard failure.code != "cancelled" else { return cancellation(of: task) }
      let code = FailureCode(rawValue: failure.code).map(urlErrorCode(of:)) ?? .unknown
      return make(
        code, failure.detail, url: URL(string: task.currentURL ?? task.url),
        also: holding(resumeData(of: task)).merging(unavailability(failure.domain, failure.number)) { $1 })
    }

    /// Of the constraints that were not met, as ``Constraints`` numbers them; for `userInfo`.
    private static func unavailability(_ domain: String?, _ number: Int) -> [String: Any] {
      guard domain == "condition" else { return [:] }
      let missing = Constraints(rawValue: UInt8(clamping: number))
      let reason: URLError.NetworkUnavailableReason? =
        missing.contains(.unmetered) ? .expensive : missing.contains(.unconstrained) ? .constrained : nil
      return reason.map { [NSURLErrorNetworkUnavailableReasonKey: $0.rawValue] } ?? [:]
    }

    private static func resumeData(of task: TaskSnapshot) -> Data? {
      task.resumeToken.flatMap { ResumeTicket.data(token: $0, received: task.received) }
    }

    /// The error of a request that the daemon refused.
    static func error(of refusal: WireError, url: URL?) -> URLError {
      let code: URLError.Code =
        switch refusal.name {
        case .sessionInUse: .backgroundSessionInUseByAnotherProcess
        case .invalidURL: .unsupportedURL
        case .destinationClaimed, .destinationUnusable, .destinationExists: .cannotCreateFile
        case .resumeDataInvalid: .cannotWriteToFile
        case .sourceMissing: .fileDoesNotExist
        case .sourceUnusable: .noPermissionsToReadFile
        case .degraded: .cannotWriteToFile
        case .sessionUnknown, .sessionInvalidated, .stopping, .versionUnsupported: .backgroundSessionWasDisconnected
        case .parseError, .invalidRequest, .methodNotFound, .invalidParameters, .internalError, .taskUnknown,
          .tooManyTasks, .appUnknown, .notAsking:
          .unknown
        }
      return make(code, refusal.message, url: url)
    }

    static func cancellation(url: URL?, resumeData: Data? = nil) -> URLError {
      make(.cancelled, "cancelled", url: url, also: holding(resumeData))
    }

    /// With the reason where it was the person who ended the app (apple-api 1.6, force quit).
    private static func cancellation(of task: TaskSnapshot) -> URLError {
      let error = cancellation(url: URL(string: task.url), resumeData: resumeData(of: task))
      guard task.cancelCause == CancelCause.forceQuit.rawValue else { return error }
      var userInfo = error.userInfo
      userInfo[NSURLErrorBackgroundTaskCancelledReasonKey] =
        URLError.BackgroundTaskCancelledReason.userForceQuitApplication.rawValue
      return URLError(.cancelled, userInfo: userInfo)
    }

    /// The error of everything that needs the daemon while it cannot be reached.
    static func disconnection(_ cause: String, url: URL? = nil) -> URLError {
      make(.backgroundSessionWasDisconnected, "Lost connection to background transfer service: \(cause)", url: url)
    }

    /// Apple's NSURLErrorFailingURLStringErrorKey, whose name is deprecated and whose value `URLError.failureURLString`
    /// still reads.
    static let failingURLStringKey = "NSErrorFailingURLStringKey"

    static func make(
      _ code: URLError.Code, _ description: String, url: URL? = nil, also others: [String: Any] = [:]
    ) -> URLError {
      var userInfo = others
      userInfo[NSLocalizedDescriptionKey] = description
      if let url {
        userInfo[NSURLErrorFailingURLErrorKey] = url
        userInfo[failingURLStringKey] = url.absoluteString
      }
      return URLError(code, userInfo: userInfo)
    }
  }
#endif
