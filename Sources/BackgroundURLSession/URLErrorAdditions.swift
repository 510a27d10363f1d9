#if !canImport(Darwin)
  public import Foundation

  // FoundationNetworking already has NSURLSessionTransferSizeUnknown, and Foundation
  // NSURLErrorBackgroundTaskCancelledReasonKey.

  // swift-format-ignore: AlwaysUseLowerCamelCase
  /// The key of a download's resume data in an error's `userInfo`.
  public let NSURLSessionDownloadTaskResumeData = "NSURLSessionDownloadTaskResumeData"
  // swift-format-ignore: AlwaysUseLowerCamelCase
  /// The key of an upload's resume data in an error's `userInfo`.
  public let NSURLSessionUploadTaskResumeData = "NSURLSessionUploadTaskResumeData"
  // swift-format-ignore: AlwaysUseLowerCamelCase
  /// The key of the reason why no network could be used in an error's `userInfo`.
  public let NSURLErrorNetworkUnavailableReasonKey = "NSURLErrorNetworkUnavailableReasonKey"

  extension URLError {
    /// Why the system cancelled a background task.
    public enum BackgroundTaskCancelledReason: Int, Sendable {
      /// The person ended the app.
      case userForceQuitApplication = 0
      /// Background updates are turned off for the app.
      case backgroundUpdatesDisabled = 1
      /// The system lacked what the task needed.
      case insufficientSystemResources = 2
    }

    /// Why no network could be used.
    public enum NetworkUnavailableReason: Int, Sendable {
      /// Only a cellular network was there, and the task must not use it.
      case cellular = 0
      /// Only an expensive network was there, and the task must not use it.
      case expensive = 1
      /// Only a constrained network was there, and the task must not use it.
      case constrained = 2
    }

    /// What `downloadTask(withResumeData:)` needs to continue a download; nil when it cannot be continued.
    public var downloadTaskResumeData: Data? { userInfo[NSURLSessionDownloadTaskResumeData] as? Data }

    /// What `uploadTask(withResumeData:)` needs to continue an upload; nil when it cannot be continued.
    public var uploadTaskResumeData: Data? { userInfo[NSURLSessionUploadTaskResumeData] as? Data }

    /// Why the system cancelled a background task; nil when it did not.
    public var backgroundTaskCancelledReason: BackgroundTaskCancelledReason? {
      (userInfo[NSURLErrorBackgroundTaskCancelledReasonKey] as? Int)
        .flatMap(BackgroundTaskCancelledReason.init(rawValue:))
    }

    /// Why no network could be used, with the code `notConnectedToInternet`; nil when that was not the cause. A
    /// cellular network is an expensive one here.
    public var networkUnavailableReason: NetworkUnavailableReason? {
      (userInfo[NSURLErrorNetworkUnavailableReasonKey] as? Int).flatMap(NetworkUnavailableReason.init(rawValue:))
    }
  }
#endif
