#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking
  internal import Synchronization
  internal import WireProtocol

  /// A group of transfers with one configuration and one delegate.
  ///
  /// The tasks of ``shared``, and of sessions with a ``URLSessionConfiguration/default`` or
  /// ``URLSessionConfiguration/ephemeral`` configuration, are carried out by this process and end with it. They take
  /// completion handlers and have `async` forms; no daemon is needed.
  ///
  /// The tasks of a session with a ``URLSessionConfiguration/background(withIdentifier:)`` configuration are carried
  /// out by the daemon `ferryd` and outlive the process. A later process that makes a session with the same identifier
  /// finds its tasks in ``allTasks`` and gets their results through its delegate. Of these sessions:
  ///
  /// - Making a session blocks until the daemon answered; where none runs, one is started. If none can be reached,
  ///   tasks fail with `URLError.backgroundSessionWasDisconnected`, whose description says what to do.
  /// - One process at a time has a session: in a second one it becomes invalid at once, with
  ///   `URLError.backgroundSessionInUseByAnotherProcess`.
  /// - A second object with the same identifier in one process is bound to the first, whose delegate is used.
  ///
  /// In every session the delegate is kept until the session is invalid. All its methods but `didCreateTask` are
  /// called on ``delegateQueue``, one at a time, also when that queue could run several.
  open class URLSession: NSObject, @unchecked Sendable {
    /// What to do with a challenge.
    public enum AuthChallengeDisposition: Int, Sendable {
      /// Use the credential that comes with this.
      case useCredential = 0
      /// As if the delegate had no such method.
      case performDefaultHandling = 1
      /// End the task.
      case cancelAuthenticationChallenge = 2
      /// Try the next protection space.
      case rejectProtectionSpace = 3
    }

    /// What to do with a data task's response.
    public enum ResponseDisposition: Int, Sendable {
      /// End the task.
      case cancel = 0
      /// Receive the body.
      case allow = 1
      /// Receive the body into a file; not possible in a background session, where it ends the task.
      case becomeDownload = 2
      /// Ends the task: there are no stream tasks.
      case becomeStream = 3
    }

    /// What to do with a request whose time has come.
    public enum DelayedRequestDisposition: Int, Sendable {
      /// Use it as it is.
      case continueLoading = 0
      /// Use the request that comes with this.
      case useNewRequest = 1
      /// End the task.
      case cancel = 2
    }

    /// Who carries the tasks out.
    let backing: any SessionBacking
    private let chosenDescription = Mutex<String?>(nil)

    /// A session without a delegate. A background one takes its results from the daemon and drops them.
    public convenience init(configuration: URLSessionConfiguration) {
      self.init(configuration: configuration, delegate: nil, delegateQueue: nil)
    }

    /// Makes a session; with a background configuration it is the one that this names, with its tasks and results.
    ///
    /// - Parameters:
    ///   - configuration: is copied.
    ///   - delegate: is kept until the session is invalid.
    ///   - queue: where the delegate is called; nil: a serial queue of the session's own.
    public convenience init(
      configuration: URLSessionConfiguration, delegate: (any URLSessionDelegate)?, delegateQueue queue: OperationQueue?
    ) {
      self.init(configuration: configuration, delegate: delegate, delegateQueue: queue, registry: .shared)
    }

    init(
      configuration: URLSessionConfiguration, delegate: (any URLSessionDelegate)?, delegateQueue queue: OperationQueue?,
      registry: SessionRegistry
    ) {
      guard let identifier = configuration.identifier else {
        let ordinary = OrdinarySession(configuration.snapshot(), delegate: delegate, queue: queue ?? Self.serialQueue())
        backing = ordinary
        super.init()
        ordinary.belongs(to: self)
        return
      }
      registry.openings.lock()
      defer { registry.openings.unlock() }
      let (attached, isNew) = registry.session(identifier) { registry in
        AttachedSession(
          identifier: identifier, configuration: configuration.snapshot(), delegate: delegate,
          queue: queue ?? Self.serialQueue(), registry: registry)
      }
      backing = attached
      super.init()
      if isNew {
        attached.belongs(to: self)
        registry.attach(attached)
      } else {
        Diagnostics.log("A background URLSession with identifier \(identifier) already exists!")
      }
    }

    private static func serialQueue() -> OperationQueue {
      let queue = OperationQueue()
      queue.maxConcurrentOperationCount = 1
      queue.name = "BackgroundURLSession delegate queue"
      return queue
    }

    private init(shared configuration: URLSessionConfiguration) {
      let ordinary = OrdinarySession(configuration, delegate: nil, queue: Self.serialQueue(), isShared: true)
      backing = ordinary
      super.init()
      ordinary.belongs(to: self)
    }

    private static let process = URLSession(shared: .default)

    /// The session of this process with the default configuration and no delegate. Invalidating it does nothing.
    public class var shared: URLSession { process }

    // MARK: Properties

    /// A copy of what the session was made with.
    public var configuration: URLSessionConfiguration { backing.configuration.snapshot() }

    /// Nil when the session is invalid.
    public var delegate: (any URLSessionDelegate)? { backing.delegate }

    /// Where the delegate is called.
    public var delegateQueue: OperationQueue { backing.queue.operations }

    /// The program's own words for this object. Default: nil. Not kept by the daemon.
    public var sessionDescription: String? {
      get { chosenDescription.withLock { $0 } }
      set { chosenDescription.withLock { $0 = newValue } }
    }

    // MARK: Tasks

    /// A download; suspended, and in a background session durable when this returns.
    public func downloadTask(with request: URLRequest) -> URLSessionDownloadTask {
      backing.makeTask(URLSessionDownloadTask.init(session:fields:), TaskOrder(.download, request))
    }

    /// A GET of `url` into a file; suspended, and in a background session durable when this returns.
    public func downloadTask(with url: URL) -> URLSessionDownloadTask {
      downloadTask(with: URLRequest(url: url))
    }

    /// A download that goes on where another one ended; suspended, and in a background session durable when this
    /// returns. The delegate hears by `didResumeAtOffset` from which byte.
    ///
    /// Resume data can be used once, within seven days: that of background sessions by any background session of the
    /// program, that of others by any other session of this process. Other data (used, damaged, another program's, or
    /// Apple's) gives a task that fails with `URLError.cannotWriteToFile`.
    public func downloadTask(withResumeData resumeData: Data) -> URLSessionDownloadTask {
      var order = TaskOrder(.download, nil)
      order.resumeData = resumeData
      return backing.makeTask(URLSessionDownloadTask.init(session:fields:), order)
    }

    /// The upload of a file; suspended, and in a background session durable when this returns: the file may be removed
    /// or changed from then on. In other sessions it is read while it is sent.
    ///
    /// The body that `request` may have is ignored. A file that cannot be read ends the program, as on Apple's systems.
    public func uploadTask(with request: URLRequest, fromFile fileURL: URL) -> URLSessionUploadTask {
      guard Refusal.canRead(fileURL) else { Refusal.unreadable(fileURL) }
      var order = TaskOrder(.upload, request)
      order.source = fileURL
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// A task that fails with `URLError.cannotOpenFile`: the daemon has no resumable uploads yet.
    public func uploadTask(withResumeData resumeData: Data) -> URLSessionUploadTask {
      var order = TaskOrder(.upload, nil)
      order.resumeData = resumeData
      return backing.makeTask(URLSessionUploadTask.init(session:fields:), order)
    }

    /// A request whose response goes to the delegate; suspended.
    public func dataTask(with request: URLRequest) -> URLSessionDataTask {
      backing.makeTask(URLSessionDataTask.init(session:fields:), TaskOrder(.data, request))
    }

    /// A GET of `url` whose response goes to the delegate; suspended.
    public func dataTask(with url: URL) -> URLSessionDataTask {
      dataTask(with: URLRequest(url: url))
    }

    /// The tasks that have not ended, those of earlier processes included. `completionHandler` runs on
    /// ``delegateQueue``.
    public func getTasksWithCompletionHandler(
      _ completionHandler:
        @escaping @Sendable ([URLSessionDataTask], [URLSessionUploadTask], [URLSessionDownloadTask]) -> Void
    ) {
      backing.queue.append { [backing] in
        let all = backing.unfinishedTasks
        let uploads = all.compactMap { $0 as? URLSessionUploadTask }
        let downloads = all.compactMap { $0 as? URLSessionDownloadTask }
        let data = all.compactMap { $0 is URLSessionUploadTask ? nil : $0 as? URLSessionDataTask }
        completionHandler(data, uploads, downloads)
      }
    }

    /// The tasks that have not ended, by kind: data, uploads, downloads.
    public var tasks: ([URLSessionDataTask], [URLSessionUploadTask], [URLSessionDownloadTask]) {
      get async {
        await withCheckedContinuation { continuation in
          getTasksWithCompletionHandler { continuation.resume(returning: ($0, $1, $2)) }
        }
      }
    }

    /// The tasks that have not ended, those of earlier processes included. `completionHandler` runs on
    /// ``delegateQueue``.
    public func getAllTasks(completionHandler: @escaping @Sendable ([URLSessionTask]) -> Void) {
      backing.queue.append { [backing] in completionHandler(backing.unfinishedTasks) }
    }

    /// The tasks that have not ended, those of earlier processes included, in the order of their identifiers.
    public var allTasks: [URLSessionTask] {
      get async {
        await withCheckedContinuation { continuation in
          getAllTasks { continuation.resume(returning: $0) }
        }
      }
    }

    // MARK: The end

    /// The session takes no more tasks; when the present ones have ended the delegate gets `didBecomeInvalidWithError`.
    public func finishTasksAndInvalidate() { backing.invalidate(cancel: false) }

    /// The session takes no more tasks and cancels the present ones; then the delegate gets
    /// `didBecomeInvalidWithError`.
    public func invalidateAndCancel() { backing.invalidate(cancel: true) }

    /// Nothing to do: there is no cache. `completionHandler` runs on ``delegateQueue``.
    public func flush(completionHandler: @escaping @Sendable () -> Void) {
      backing.queue.append(completionHandler)
    }

    /// As ``flush(completionHandler:)``.
    public func flush() async {
      await withCheckedContinuation { continuation in flush { continuation.resume() } }
    }

    /// Removes the cookies of the configuration's storage; `completionHandler` runs on ``delegateQueue``.
    public func reset(completionHandler: @escaping @Sendable () -> Void) {
      backing.configuration.httpCookieStorage?.removeCookies(since: .distantPast)
      backing.queue.append(completionHandler)
    }

    /// As ``reset(completionHandler:)``.
    public func reset() async {
      await withCheckedContinuation { continuation in reset { continuation.resume() } }
    }
  }
#endif
