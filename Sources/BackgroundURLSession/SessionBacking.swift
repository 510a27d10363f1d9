#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import TransferCore

  /// Who carries a session's tasks out: the daemon (``AttachedSession``), or this process.
  ///
  /// ``URLSession`` and ``URLSessionTask`` are what a program sees; they keep what is the same for every session, and
  /// hand the rest to this.
  protocol SessionBacking: AnyObject, Sendable {
    var configuration: URLSessionConfiguration { get }
    var queue: CallbackQueue { get }
    var delegate: (any URLSessionDelegate)? { get }
    /// The object that delegates are handed, and the delegates; no owner once the session is invalid.
    var audience: (owner: URLSession?, delegates: Delegates) { get }
    /// In the order of their numbers.
    var unfinishedTasks: [URLSessionTask] { get }
    /// False: a completion handler ends the program, as on Apple's systems in background sessions.
    var takesHandlers: Bool { get }

    /// The program invalidates the session.
    func invalidate(cancel: Bool)

    /// A suspended task. One that cannot be carried out says why when it is resumed.
    func makeTask<Made: URLSessionTask>(_ make: Maker<Made>, _ order: TaskOrder) -> Made
    /// The last suspension was taken back.
    func run(_ task: URLSessionTask)
    /// The first suspension of a task that ran.
    func pause(_ task: URLSessionTask)
    /// The task is marked as canceling already.
    func cancel(_ task: URLSessionTask)
    func cancel(_ task: URLSessionTask, byProducingResumeData handler: @escaping @Sendable (Data?) -> Void)
    func update(_ task: URLSessionTask, _ change: TaskUpdate)
    /// The delegate wants a data task to become another one.
    func convert(_ task: URLSessionTask, _ disposition: URLSession.ResponseDisposition)
  }

  typealias Maker<Made> = (any SessionBacking, TaskFields) -> Made

  /// What a task is to be made from.
  struct TaskOrder: Sendable {
    var kind: TaskKind
    /// Nil for a task that is made from resume data.
    var request: URLRequest?
    /// The file of an upload.
    var source: URL?
    /// The bytes of an upload.
    var body: Data?
    /// The body comes from the request's stream, or from one that the delegate makes.
    var isStreamed = false
    var resumeData: Data?
    /// What the resume data names, where it is this process's.
    var resumeToken: ResumeToken?
    /// Takes the result in place of the delegate.
    var handler: TaskHandler?
    /// Of this task alone.
    var delegate: (any URLSessionTaskDelegate)?

    init(_ kind: TaskKind, _ request: URLRequest?) {
      self.kind = kind
      self.request = request
    }
  }

  /// Who takes a task's result in place of the delegate.
  enum TaskHandler: Sendable {
    case data(@Sendable (Data?, URLResponse?, (any Error)?) -> Void)
    /// The file is removed when the closure has returned.
    case file(@Sendable (URL?, URLResponse?, (any Error)?) -> Void)
    case bytes(ByteSource)
  }

  /// What a program changes of a task.
  enum TaskUpdate: Sendable {
    case description(String?)
    case priority(Float)
    case earliestBegin(Date?)
    case clientExpectsToSend(Int64?)
    case clientExpectsToReceive(Int64?)
  }

  /// The delegate, under each of the protocols that it conforms to.
  struct Delegates: Sendable {
    let session: (any URLSessionDelegate)?
    let task: (any URLSessionTaskDelegate)?
    let data: (any URLSessionDataDelegate)?
    let download: (any URLSessionDownloadDelegate)?

    /// Of two objects: who is asked about connections, and who about a task.
    init(session: (any URLSessionDelegate)?, task: (any URLSessionTaskDelegate)?) {
      self.session = session
      self.task = task
      data = task as? any URLSessionDataDelegate
      download = task as? any URLSessionDownloadDelegate
    }

    init(_ delegate: (any URLSessionDelegate)?) {
      session = delegate
      task = delegate as? any URLSessionTaskDelegate
      data = delegate as? any URLSessionDataDelegate
      download = delegate as? any URLSessionDownloadDelegate
    }
  }

  // MARK: The order of callbacks

  extension SessionBacking {
    /// Queues a message of the session.
    func post(_ body: @escaping @Sendable (URLSession, Delegates) -> Void) {
      queue.append {
        let (owner, delegates) = self.audience
        if let owner { body(owner, delegates) }
      }
    }

    /// Queues a message of a task; it waits while the task waits for its delegate's decision.
    func post(_ task: URLSessionTask, _ body: @escaping @Sendable (URLSession, Delegates) -> Void) {
      task.fields.withLock {
        $0.callbacks.append {
          let (owner, delegates) = self.audience
          if let owner { body(owner, delegates) }
        }
      }
      queue.append { task.takeTurn() }
    }

    /// Tells the delegate what came and went since it heard last; nothing where nothing did.
    func reportCounts(of task: URLSessionTask, _ owner: URLSession, _ delegates: Delegates) {
      let (fields, received, sent) = task.fields.withLock { fields in
        fields.isProgressQueued = false
        let received = fields.received - fields.reportedReceived
        // A body that is sent again counts from its start.
        let sent = fields.sent < fields.reportedSent ? fields.sent : fields.sent - fields.reportedSent
        fields.reportedReceived = fields.received
        fields.reportedSent = fields.sent
        if let progress = fields.progress { URLSessionTask.show(fields, in: progress) }
        return (fields, received, sent)
      }
      if sent > 0 {
        delegates.task?.urlSession(
          owner, task: task, didSendBodyData: sent, totalBytesSent: fields.sent,
          totalBytesExpectedToSend: fields.expectedToSend)
      }
      if received > 0, let task = task as? URLSessionDownloadTask {
        delegates.download?.urlSession(
          owner, downloadTask: task, didWriteData: received, totalBytesWritten: fields.received,
          totalBytesExpectedToWrite: fields.expectedToReceive)
      }
    }

    /// Tells the delegate from where a download goes on.
    func reportResumption(of task: URLSessionTask, at offset: Int64, _ owner: URLSession, _ delegates: Delegates) {
      guard let download = task as? URLSessionDownloadTask else { return }
      let expected = task.fields.withLock { fields in
        fields.reportedReceived = offset
        return fields.expectedToReceive
      }
      delegates.download?.urlSession(
        owner, downloadTask: download, didResumeAtOffset: offset, expectedTotalBytes: expected)
    }

    /// The delegate decided what is to happen with a data task's response.
    func decide(_ disposition: URLSession.ResponseDisposition, for task: URLSessionTask) {
      let isFirst = task.fields.withLock {
        guard $0.isAwaitingDisposition, !$0.hasDisposition else { return false }
        $0.hasDisposition = true
        $0.discardsBody = disposition != .allow
        return true
      }
      guard isFirst else { return }
      switch disposition {
      case .allow: break
      case .cancel: task.cancel()
      case .becomeDownload, .becomeStream: convert(task, disposition)
      }
      let turns = task.fields.withLock { fields in
        fields.isAwaitingDisposition = false
        fields.hasDisposition = false
        defer { fields.skippedTurns = 0 }
        return fields.skippedTurns
      }
      for _ in 0..<turns { queue.append { task.takeTurn() } }
    }
  }

  extension URLSessionTask {
    /// Runs the next callback of the task, unless it waits for its delegate's decision.
    func takeTurn() {
      let callback: Callback? = fields.withLock {
        guard !$0.isAwaitingDisposition else {
          $0.skippedTurns += 1
          return nil
        }
        return $0.callbacks.popFirst()
      }
      callback?()
    }
  }
#endif
