#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking
  internal import Synchronization

  /// One transfer of a session: this object shows it and steers it.
  ///
  /// A session makes tasks suspended. Those of background sessions are the daemon's, and durable: a task that was
  /// created survives the process. Within a process one task has one object.
  public class URLSessionTask: NSObject, @unchecked Sendable {
    /// Where a task stands.
    public enum State: Int, Sendable {
      /// It is worked on, or waits until it can be.
      case running = 0
      /// It waits for ``URLSessionTask/resume()``.
      case suspended = 1
      /// ``URLSessionTask/cancel()`` was called; the last message is still to come.
      case canceling = 2
      /// It has ended; its last message was sent.
      case completed = 3
    }

    /// 0.5, the priority of a task that nobody gave one.
    public static let defaultPriority: Float = 0.5
    /// 0.25
    public static let lowPriority: Float = 0.25
    /// 0.75
    public static let highPriority: Float = 0.75

    let session: any SessionBacking
    let fields: Mutex<TaskFields>

    init(session: any SessionBacking, fields: TaskFields) {
      self.session = session
      self.fields = Mutex(fields)
      super.init()
    }

    /// Counts a session's tasks from 1; kept over processes. Negative for a task that the daemon did not take.
    public var taskIdentifier: Int { fields.withLock { $0.number } }

    /// The request that the task was made with. In a later process URL and method only.
    public var originalRequest: URLRequest? { fields.withLock { $0.originalRequest } }

    /// The request after redirects.
    public var currentRequest: URLRequest? { fields.withLock { $0.currentRequest } }

    /// The task's own delegate, asked in place of the session's. Background sessions do not use it, as on Apple's
    /// systems. Default: nil.
    public var delegate: (any URLSessionTaskDelegate)? {
      get { fields.withLock { $0.delegate } }
      set { fields.withLock { $0.delegate = newValue } }
    }

    /// The final response's head; nil before it came.
    public var response: URLResponse? { fields.withLock { $0.response } }

    /// Body bytes received so far, in all attempts that count.
    public var countOfBytesReceived: Int64 { fields.withLock { $0.received } }

    /// Body bytes sent so far; goes back when the body is sent again.
    public var countOfBytesSent: Int64 { fields.withLock { $0.sent } }

    /// Bytes of the body to send; 0 where there is none.
    public var countOfBytesExpectedToSend: Int64 { fields.withLock { $0.expectedToSend } }

    /// Bytes of the body to receive; `NSURLSessionTransferSizeUnknown` (−1) while unknown.
    public var countOfBytesExpectedToReceive: Int64 { fields.withLock { $0.expectedToReceive } }

    /// The program's guess of bytes to send, headers included. Default: `NSURLSessionTransferSizeUnknown`.
    ///
    /// Kept by the daemon, and found by later processes. A negative number is the default.
    public var countOfBytesClientExpectsToSend: Int64 {
      get { fields.withLock { $0.clientExpectsToSend } }
      set {
        let count = newValue < 0 ? NSURLSessionTransferSizeUnknown : newValue
        fields.withLock { $0.clientExpectsToSend = count }
        session.update(self, .clientExpectsToSend(count < 0 ? nil : count))
      }
    }

    /// The program's guess of bytes to receive, headers included. Default: `NSURLSessionTransferSizeUnknown`.
    ///
    /// Kept by the daemon, and found by later processes. A download waits while the disk has no room for it. A negative
    /// number is the default.
    public var countOfBytesClientExpectsToReceive: Int64 {
      get { fields.withLock { $0.clientExpectsToReceive } }
      set {
        let count = newValue < 0 ? NSURLSessionTransferSizeUnknown : newValue
        fields.withLock { $0.clientExpectsToReceive = count }
        session.update(self, .clientExpectsToReceive(count < 0 ? nil : count))
      }
    }

    /// The program's own words, kept by the daemon and found by later processes. Default: nil.
    ///
    /// At most 64 KiB of UTF-8; an empty string comes back as nil.
    public var taskDescription: String? {
      get { fields.withLock { $0.taskDescription } }
      set {
        fields.withLock { $0.taskDescription = newValue }
        session.update(self, .description(newValue))
      }
    }

    /// 0 … 1, between the tasks of this user. Default: ``defaultPriority``.
    public var priority: Float {
      get { fields.withLock { $0.priority } }
      set {
        let value = min(max(newValue.isNaN ? Self.defaultPriority : newValue, 0), 1)
        fields.withLock { $0.priority = value }
        session.update(self, .priority(value))
      }
    }

    /// The task starts no earlier. Default: nil, at once. Kept by the daemon, and found by later processes.
    public var earliestBeginDate: Date? {
      get { fields.withLock { $0.earliestBeginDate } }
      set {
        fields.withLock { $0.earliestBeginDate = newValue }
        session.update(self, .earliestBegin(newValue))
      }
    }

    /// Default: true. Kept, and not acted on.
    public var prefersIncrementalDelivery: Bool {
      get { fields.withLock { $0.prefersIncrementalDelivery } }
      set { fields.withLock { $0.prefersIncrementalDelivery = newValue } }
    }

    /// Where the task stands, as this process last heard.
    public var state: State {
      fields.withLock {
        if $0.isCompleted { return .completed }
        if $0.isCanceling { return .canceling }
        return $0.suspensions > 0 ? .suspended : .running
      }
    }

    /// Why the task failed: a `URLError`. Nil while it runs, and when it succeeded.
    public var error: (any Error)? { fields.withLock { $0.error } }

    /// Bytes of the body, done and to do; updated on the session's delegate queue.
    ///
    /// Cancelling, pausing and resuming it does the same to the task.
    public var progress: Progress {
      fields.withLock { fields in
        if let progress = fields.progress { return progress }
        let progress = Progress(parent: nil, userInfo: nil)
        progress.kind = .file
        progress.isCancellable = true
        progress.isPausable = true
        progress.cancellationHandler = { [weak self] in self?.cancel() }
        progress.pausingHandler = { [weak self] in self?.suspend() }
        progress.resumingHandler = { [weak self] in self?.resume() }
        Self.show(fields, in: progress)
        fields.progress = progress
        return progress
      }
    }

    /// Takes one ``suspend()`` back; the task runs when none is left. A new task has one.
    public func resume() {
      let mayRun = fields.withLock {
        guard !$0.isCompleted, !$0.isCanceling, $0.suspensions > 0 else { return false }
        $0.suspensions -= 1
        return $0.suspensions == 0
      }
      if mayRun { session.run(self) }
    }

    /// Stops the task until ``resume()`` was called as often as this. What was received is kept.
    public func suspend() {
      let mustPause = fields.withLock {
        guard !$0.isCompleted, !$0.isCanceling else { return false }
        $0.suspensions += 1
        return $0.suspensions == 1
      }
      if mustPause { session.pause(self) }
    }

    /// Ends the task; its last message is `didCompleteWithError` with `URLError.cancelled`. Legal on suspended tasks.
    public func cancel() {
      let mayCancel = fields.withLock {
        guard !$0.isCompleted, !$0.isCanceling else { return false }
        $0.isCanceling = true
        return true
      }
      if mayCancel { session.cancel(self) }
    }

    static func show(_ fields: TaskFields, in progress: Progress) {
      let isUpload = fields.expectedToSend > 0
      progress.totalUnitCount = isUpload ? fields.expectedToSend : fields.expectedToReceive
      progress.completedUnitCount = isUpload ? fields.sent : fields.received
    }
  }

  /// A request whose response goes to the delegate piece by piece. It needs the process: when that goes, the task of a
  /// background session waits, and ends with `URLError.backgroundSessionWasDisconnected` after a grace.
  public class URLSessionDataTask: URLSessionTask, @unchecked Sendable {}

  /// An upload; that of a background session outlives the process.
  public class URLSessionUploadTask: URLSessionDataTask, @unchecked Sendable {
    /// Cancels, and offers what a later upload needs to continue: nil, as there are no resumable uploads yet.
    public func cancel(byProducingResumeData completionHandler: @escaping @Sendable (Data?) -> Void) {
      session.cancel(self, byProducingResumeData: completionHandler)
    }

    /// As ``cancel(byProducingResumeData:)``.
    public func cancelByProducingResumeData() async -> Data? {
      await withCheckedContinuation { continuation in
        cancel { continuation.resume(returning: $0) }
      }
    }
  }

  /// A download into a file; that of a background session outlives the process.
  public class URLSessionDownloadTask: URLSessionTask, @unchecked Sendable {
    /// Cancels, and offers what ``URLSession/downloadTask(withResumeData:)`` needs to continue: nil when the server
    /// gave no validator to trust, nothing was received, or the request was no plain GET. `completionHandler` runs on
    /// the session's delegate queue, before the task's last message.
    ///
    /// The data is small and opaque: the daemon keeps the bytes for seven days, and the request with its credentials.
    /// In other sessions this process keeps them, and they go with it.
    public func cancel(byProducingResumeData completionHandler: @escaping @Sendable (Data?) -> Void) {
      session.cancel(self, byProducingResumeData: completionHandler)
    }

    /// As ``cancel(byProducingResumeData:)``.
    public func cancelByProducingResumeData() async -> Data? {
      await withCheckedContinuation { continuation in
        cancel { continuation.resume(returning: $0) }
      }
    }
  }
#endif
