#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import WireProtocol

  enum TaskKind: String, Sendable {
    case download, upload, data
  }

  /// Everything about a task that changes; one lock guards it.
  struct TaskFields: Sendable {
    /// The daemon's id; nil for a task that the daemon never took.
    var id: Int64?
    var number: Int
    var originalRequest: URLRequest?
    var currentRequest: URLRequest?
    var response: URLResponse?
    var received: Int64 = 0
    var expectedToReceive: Int64 = NSURLSessionTransferSizeUnknown
    var sent: Int64 = 0
    var expectedToSend: Int64 = 0
    var clientExpectsToSend: Int64 = NSURLSessionTransferSizeUnknown
    var clientExpectsToReceive: Int64 = NSURLSessionTransferSizeUnknown
    var taskDescription: String?
    var priority: Float = URLSessionTask.defaultPriority
    var earliestBeginDate: Date?
    var prefersIncrementalDelivery = true
    /// The task runs at 0; a new one starts at 1.
    var suspensions = 1
    var isCanceling = false
    var isCompleted = false
    /// Counts as unfinished until its completion was delivered. False for a task that had ended before this process
    /// knew of it.
    var isListed = true
    var error: URLError?
    /// Why the daemon did not take it; told when the task is resumed.
    var refusal: URLError?
    /// What the delegate was told of the counts, last.
    var reportedReceived: Int64 = 0
    var reportedSent: Int64 = 0
    var isProgressQueued = false
    /// The spooled response body of an upload could not be read.
    var bodyFailure: URLError?
    /// The question that the delegate has in hand, or has answered last.
    var askedQuestion: Int64?
    var progress: Progress?
    /// How a task of this process is carried out; nil in background sessions, and after its end.
    var run: TaskRun?
    /// The task's own delegate, asked in place of the session's.
    var delegate: (any URLSessionTaskDelegate)?
    var callbacks = FIFO<Callback>()
    /// Body bytes of a data task that came before its response's head.
    var earlyBytes: [Data] = []
    /// The head came, and the delegate's decision about it was asked for.
    var hasQueuedResponse = false
    /// The delegate has not yet said what is to happen with a data task's response.
    var isAwaitingDisposition = false
    /// It has, and what follows from that is being done.
    var hasDisposition = false
    /// Turns on the queue that passed while it had not.
    var skippedTurns = 0
    /// The delegate refused the body.
    var discardsBody = false

    init(number: Int) { self.number = number }

    /// A task that an earlier process made, or that only a delivery tells of.
    init(_ task: TaskSnapshot) {
      number = Int(clamping: task.number)
      id = task.id
      originalRequest = RequestTranslation.request(of: task, isCurrent: false)
      apply(task)
      isListed = !Self.isFinal(task.state)
      suspensions = task.state == "suspended" ? 1 : 0
      taskDescription = task.description.flatMap { $0.isEmpty ? nil : $0 }
      priority = Float(task.priority)
      earliestBeginDate = task.earliestBeginMilliseconds.map { Date(timeIntervalSince1970: Double($0) / 1000) }
      clientExpectsToSend = task.clientExpectsToSend ?? NSURLSessionTransferSizeUnknown
      clientExpectsToReceive = task.clientExpectsToReceive ?? NSURLSessionTransferSizeUnknown
      reportedReceived = task.received
      reportedSent = task.sent
    }

    /// Of the download that a data task becomes when its response has come.
    func ofDownload(numbered number: Int) -> TaskFields {
      var fields = TaskFields(number: number)
      fields.originalRequest = originalRequest
      fields.currentRequest = currentRequest
      fields.response = response
      fields.expectedToReceive = expectedToReceive
      fields.sent = sent
      fields.reportedSent = sent
      fields.expectedToSend = expectedToSend
      fields.taskDescription = taskDescription
      fields.priority = priority
      fields.suspensions = suspensions
      fields.run = run
      fields.delegate = delegate
      return fields
    }

    /// What the daemon decides; what the program decides (description, priority, suspension) stays.
    mutating func apply(_ task: TaskSnapshot) {
      received = task.received
      expectedToReceive = task.expected ?? NSURLSessionTransferSizeUnknown
      sent = task.sent
      expectedToSend = task.expectedToSend ?? (task.kind == "upload" ? expectedToSend : 0)
      if let wire = task.response { response = RequestTranslation.response(wire) ?? response }
      if let url = task.currentURL.flatMap(URL.init(string:)), url != currentRequest?.url {
        currentRequest = originalRequest
        currentRequest?.url = url
      } else if currentRequest == nil {
        currentRequest = RequestTranslation.request(of: task, isCurrent: true)
      }
    }

    static func isFinal(_ state: String) -> Bool {
      state == "succeeded" || state == "failed" || state == "cancelled"
    }
  }
#endif
