/// The stored life of a task. Why a waiting task waits is not stored: it is computed (see ``Blockers``).
package enum TaskState: Hashable, Sendable {
  case suspended
  case waiting
  case running(AttemptID)
  /// Only the app can say how it goes on; see ``Question``.
  case asking
  /// All bytes are in; they are being checked, synced and placed.
  case finalizing
  case finished(Ending)

  package enum Ending: String, CaseIterable, Hashable, Sendable {
    case succeeded, failed, cancelled
  }

  package var isFinished: Bool {
    if case .finished = self { true } else { false }
  }

  package var attempt: AttemptID? {
    if case .running(let attempt) = self { attempt } else { nil }
  }
}

/// The compact part of a task: in memory for every task, however many wait.
///
/// Swift lays members out as they are written, so small ones stand where the padding behind an optional would be.
package struct TaskEntry: Hashable, Sendable {
  package var id: TaskID
  package var session: SessionID
  /// `taskIdentifier`: counted from 1 within the session.
  package var number: Int64
  package var state: TaskState
  package var kind: TaskKind
  /// Sending the request again does no harm: its method is idempotent, or it carries an Idempotency-Key.
  package var isRepeatable: Bool
  /// 0 … 255; 128 is URLSession's default of 0.5.
  package var priority: UInt8
  package var isDiscretionary: Bool
  /// Conditions that the task requires, beside the network that its host does.
  package var constraints: Constraints
  /// The app is to be asked before the first attempt: the task was given a date, and that is to come or has come.
  package var asksFirst: Bool
  /// Scheme, host and port of the original URL, as ``Origin`` writes them: what concurrency is counted by.
  package var origin: String
  /// Body bytes held (a download) or received (an upload's response).
  package var received: Int64
  /// Body bytes sent in the current attempt.
  package var sent: Int64
  /// Attempts so far, resumptions included.
  package var attempts: Int64
  /// Failures in a row without verified progress: the exponent of the backoff.
  package var failures: Int64
  /// Bytes that will be received; nil while unknown.
  package var expected: Int64?
  /// Discretionary, it waits for good conditions until so many seconds before its deadline.
  package var urgentSeconds: UInt32
  /// No attempt before this moment (backoff, Retry-After, `earliestBeginDate`).
  package var notBefore: WallInstant?
  /// The task ends at this moment (`timeoutIntervalForResource`); nil while it is suspended, for only tasks that may
  /// run are subject to it.
  package var deadline: WallInstant?
  /// When it reached `finished`.
  package var finishedAt: WallInstant?

  package init(
    id: TaskID, session: SessionID, number: Int64, kind: TaskKind, state: TaskState, origin: String,
    isRepeatable: Bool = true, priority: UInt8 = 128, isDiscretionary: Bool = false,
    constraints: Constraints = [], urgentSeconds: UInt32 = 0, received: Int64 = 0, sent: Int64 = 0,
    expected: Int64? = nil, attempts: Int64 = 0, failures: Int64 = 0, notBefore: WallInstant? = nil,
    deadline: WallInstant? = nil, finishedAt: WallInstant? = nil, asksFirst: Bool = false
  ) {
    self.id = id
    self.session = session
    self.number = number
    self.kind = kind
    self.state = state
    self.origin = origin
    self.isRepeatable = isRepeatable
    self.priority = priority
    self.isDiscretionary = isDiscretionary
    self.constraints = constraints
    self.urgentSeconds = urgentSeconds
    self.received = received
    self.sent = sent
    self.expected = expected
    self.attempts = attempts
    self.failures = failures
    self.notBefore = notBefore
    self.deadline = deadline
    self.finishedAt = finishedAt
    self.asksFirst = asksFirst
  }
}

/// The changing part of a task that only a running, finished or shown task needs.
package struct TaskProgress: Hashable, Sendable {
  package var taskDescription: String?
  /// Set when a part file with a validator is held.
  package var resumePoint: ResumePoint?
  /// The boot in which `resumePoint` was written: in the same boot the part file's own length counts.
  package var bootID: String
  /// The last response whose body was taken.
  package var response: ResponseHead?
  /// Why it failed, or why it waits after a failed attempt.
  package var failure: TransferFailure?
  package var cancelCause: CancelCause?
  /// The coding that the collected bytes still have.
  package var contentEncoding: String?
  /// Where the finished file stands: the destination, or the daemon's own folder.
  package var filePath: String?
  /// The spooled response body of an upload.
  package var bodyPath: String?
  /// SHA-256 of the content in hex, where it was computed.
  package var sha256: String?
  /// False when the response was delimited by the end of the connection.
  package var isLengthVerified: Bool
  /// Bytes that were fetched and thrown away.
  package var wasted: Int64
  /// Restarts from 0 that the server forced on us in a row (failure case 24), see ``Limits/restarts``.
  package var restarts: Int64
  /// What the engine measured.
  package var metrics: MetricsLog
  /// Since when it is paused, asks, or waits after a failure.
  package var heldSince: WallInstant?
  /// The date before which its owner does not want it begun; kept for its owner, also when it is over.
  package var earliestBegin: WallInstant?
  /// Bytes that its owner expects to send and to receive, header fields included; nil: it did not say.
  package var hintToSend: Int64?
  package var hintToReceive: Int64?
  /// What is asked while the task is in `asking`; nil there where ``TaskEntry/asksFirst`` says it.
  package var question: Question?
  package var access: TaskAccess?

  package init(
    taskDescription: String? = nil, resumePoint: ResumePoint? = nil, bootID: String = "",
    response: ResponseHead? = nil, failure: TransferFailure? = nil, cancelCause: CancelCause? = nil,
    contentEncoding: String? = nil, filePath: String? = nil, bodyPath: String? = nil, sha256: String? = nil,
    isLengthVerified: Bool = true,
    wasted: Int64 = 0, restarts: Int64 = 0, metrics: MetricsLog = MetricsLog(), heldSince: WallInstant? = nil,
    earliestBegin: WallInstant? = nil, hintToSend: Int64? = nil, hintToReceive: Int64? = nil,
    question: Question? = nil, access: TaskAccess? = nil
  ) {
    self.taskDescription = taskDescription
    self.resumePoint = resumePoint
    self.bootID = bootID
    self.response = response
    self.failure = failure
    self.cancelCause = cancelCause
    self.contentEncoding = contentEncoding
    self.filePath = filePath
    self.bodyPath = bodyPath
    self.sha256 = sha256
    self.isLengthVerified = isLengthVerified
    self.wasted = wasted
    self.restarts = restarts
    self.metrics = metrics
    self.heldSince = heldSince
    self.earliestBegin = earliestBegin
    self.hintToSend = hintToSend
    self.hintToReceive = hintToReceive
    self.question = question
    self.access = access
  }
}

/// What is needed of a task beyond its entry; loaded when the task is admitted or shown.
package struct TaskDetails: Hashable, Sendable {
  private var boxedPlan: Boxed<TaskPlan>
  private var boxedProgress: Boxed<TaskProgress>

  package init(plan: TaskPlan, progress: TaskProgress) {
    boxedPlan = Boxed(plan)
    boxedProgress = Boxed(progress)
  }

  package var plan: TaskPlan {
    // SAFETY: as of ``Boxed/value``.
    unsafeAddress { unsafe boxedPlan.address }
    unsafeMutableAddress { unsafe boxedPlan.ownAddress }
  }

  package var progress: TaskProgress {
    // SAFETY: as of ``Boxed/value``.
    unsafeAddress { unsafe boxedProgress.address }
    unsafeMutableAddress { unsafe boxedProgress.ownAddress }
  }

  /// Something that is to be forgotten when the task has ended.
  package var hasSecrets: Bool {
    progress.access != nil || plan.request.hasSecrets || plan.tls?.keyPassword != nil
  }

  /// What every attempt starts from.
  package var request: TransferRequest { progress.access?.replacement ?? plan.request }
}
