/// A fact that reached the daemon, in the past tense. Events of an attempt, a peer or a task that is no more are
/// dropped and counted: none can trap.
package enum Event: Hashable, Sendable {
  case commanded(Command, RequestToken)
  case peerLeft(PeerID)
  /// The worker looked at sources and destinations of one `enqueue`.
  case prepared(RequestToken, [PreparedTask])
  /// The store answered ``Effect/loadDetails(_:)``; nil when the row cannot be read.
  case detailsLoaded(TaskID, TaskDetails?)
  case filesOpened(AttemptID, OpenedFiles)
  case filesFailed(AttemptID, TransferFailure)
  case responded(AttemptID, ResponseHead, ResponseVerdict)
  /// Bytes held in the part file (or given to the client), and body bytes sent.
  case progressed(AttemptID, held: Int64, sent: Int64)
  /// The part file is durable up to this offset.
  case synced(AttemptID, offset: Int64)
  /// The attempt is over and holds no descriptor. `requestWasSent`: some byte of the request may have reached the
  /// server.
  case ended(AttemptID, AttemptEnd, requestWasSent: Bool)
  case finalized(TaskID, FinalizeOutcome)
  /// What the engine measured of an attempt, or of one hop; directly before its ``ended(_:_:requestWasSent:)``.
  case measured(AttemptID, TransactionMetrics)
  /// Another daemon is to take over soon, and takes over now.
  case drainRequested
  case handedOver
  /// The store cannot write (a reason), or can again (nil).
  /// - Parameter isWriting: what is decided is still stored, out of the last room that there is.
  case storeChanged(degraded: String?, isWriting: Bool = false)
  case app(AppEvent)
  /// The device's conditions are others now, and have been for a moment.
  case conditionsChanged(Conditions)
}

/// What a client asked for, checked by the shell: sizes, URLs and field syntax are in order.
package enum Command: Hashable, Sendable {
  /// - revives: take an earlier invalidation back.
  case openSession(
    SessionKey, attach: Bool, collectsResults: Bool, network: NetworkSettings, sendsLaunchEvents: Bool = true,
    revives: Bool = false, answersChallenges: Bool = false)
  case closeSession(SessionID)
  case invalidateSession(SessionID, cancel: Bool)
  case enqueue(SessionID, [TaskDraft])
  case resume([TaskID])
  case suspend([TaskID])
  /// - producesResumeData: keep what was fetched where it can be continued, and tell by which token.
  case cancel([TaskID], producesResumeData: Bool = false)
  /// Cancels what runs and forgets the task and its files.
  case remove([TaskID])
  case update(TaskID, TaskChange)
  /// What the app says to a task's question; `question` is the one that it means (``Core/questionNumber(_:)``), nil
  /// whichever is asked now.
  case answer(TaskID, question: Int64?, Answer)
  case acknowledge(SessionID, [DeliveryNumber])
  case foreground(ForegroundCommand)
  case app(AppCommand)
}

/// A task as a client described it, before files were looked at.
package struct TaskDraft: Hashable, Sendable {
  package var kind: TaskKind
  package var request: TransferRequest
  package var origin: String
  /// Absolute, not yet canonical.
  package var sourcePath: String?
  /// A small request body that came with the command, in place of a source.
  package var body: [UInt8]?
  package var destination: Destination = .managed
  package var expectedSHA256: String?
  package var statusRule: StatusRule = .successOnly
  package var keepsEncoding = false
  package var requestTimeout: Duration = .seconds(60)
  package var resourceTimeout: Duration = .seconds(604_800)
  package var key: String?
  package var taskDescription: String?
  package var priority: UInt8 = 128
  package var isDiscretionary = false
  /// Without ``Constraints/network``, which the host says.
  package var constraints: Constraints = []
  package var earliestBegin: WallInstant?
  /// Bytes that the client expects, header fields included.
  package var hintToSend: Int64?
  package var hintToReceive: Int64?
  package var isSuspended = false
  /// Go on from this kept part, which also says what is asked of whom.
  package var resumeToken: ResumeToken?
  package var answersChallenges: Bool?
  package var asksBeforeBegin = false
  package var tls: TLSSettings?
  /// Certificates that the app has accepted before.
  package var accepted: [AcceptedCertificate] = []
  /// For the origin of the request; sent where that asks for it.
  package var user: String?
  package var password: Secret?
  package var proxyUser: String?
  package var proxyPassword: Secret?

  package init(kind: TaskKind, request: TransferRequest, origin: String) {
    self.kind = kind
    self.request = request
    self.origin = origin
  }

  /// Idempotent by its method, or made so by a key that the server knows it by.
  var isRepeatable: Bool {
    kind != .data && (request.isIdempotent || request.headers.contains("Idempotency-Key"))
  }
}

/// Absent members stay as they are.
package struct TaskChange: Hashable, Sendable {
  package var taskDescription: String?
  package var priority: UInt8?
  package var earliestBegin: WallInstant?
  package var hintToSend: Int64?
  package var hintToReceive: Int64?
  /// Members that go back to what they are where nobody says anything.
  package var clears: Set<Clearable> = []

  package enum Clearable: String, CaseIterable, Hashable, Sendable {
    case description, earliestBegin, clientExpectsToSend, clientExpectsToReceive
  }

  package init(taskDescription: String? = nil, priority: UInt8? = nil, earliestBegin: WallInstant? = nil) {
    self.taskDescription = taskDescription
    self.priority = priority
    self.earliestBegin = earliestBegin
  }
}

/// What the worker is to look at before a task is accepted.
package struct PrepareOrder: Hashable, Sendable {
  package var task: TaskID
  package var sourcePath: String?
  /// To be kept as a file of ours, from which every attempt sends it.
  package var body: [UInt8]?
  package var destination: Destination

  package init(task: TaskID, sourcePath: String?, body: [UInt8]? = nil, destination: Destination) {
    self.task = task
    self.sourcePath = sourcePath
    self.body = body
    self.destination = destination
  }
}

package struct PreparedTask: Hashable, Sendable {
  package var task: TaskID
  package var outcome: Outcome

  package enum Outcome: Hashable, Sendable {
    /// The source is pinned; the destination is canonical.
    case ready(source: UploadSource?, destination: Destination)
    case refused(Refusal)
  }

  package init(task: TaskID, outcome: Outcome) {
    self.task = task
    self.outcome = outcome
  }
}

package struct OpenedFiles: Hashable, Sendable {
  /// The part file's own length in bytes; nil when the attempt has none.
  package var partBytes: Int64?
  /// Free bytes on the part file's filesystem; nil when unknown.
  package var freeBytes: Int64?
  /// The destination shows this very file (or what it was decoded to): a daemon that died, or a folder that could not
  /// be synced, left it placed and not recorded. It was checked and synced before it got that name.
  package var isPlaced: Bool

  package init(partBytes: Int64?, freeBytes: Int64?, isPlaced: Bool = false) {
    self.partBytes = partBytes
    self.freeBytes = freeBytes
    self.isPlaced = isPlaced
  }
}

package enum FinalizeOutcome: Hashable, Sendable {
  /// Checked, durable and in its place.
  case placed(path: String, bytes: Int64, sha256: String?)
  case failed(TransferFailure)
}
