/// What a client may ask, one case a method. The table in ``name`` and the two switches of the coding are the only
/// places that list the methods; `docs/Protocol.md` describes each.
package enum ClientRequest: Hashable, Sendable {
  case hello(HelloParameters)
  case sessionOpen(SessionOpenParameters)
  case sessionClose(SessionCloseParameters)
  case sessionInvalidate(SessionInvalidateParameters)
  case taskEnqueue(TaskEnqueueParameters)
  case taskResume(TaskIdentifiersParameters)
  case taskSuspend(TaskIdentifiersParameters)
  case taskCancel(TaskIdentifiersParameters)
  case taskRemove(TaskIdentifiersParameters)
  case taskUpdate(TaskUpdateParameters)
  case taskAnswer(TaskAnswerParameters)
  case taskList(TaskListParameters)
  case taskShow(TaskShowParameters)
  case taskWatch(TaskWatchParameters)
  case deliveryAcknowledge(DeliveryAcknowledgeParameters)
  case conditionsShow(EmptyParameters)
  case conditionsSet(ConditionsSetParameters)
  case conditionsClear(ConditionsClearParameters)
  case daemonStatus(EmptyParameters)
  case daemonStop(EmptyParameters)
  case appRegister(AppRegisterParameters)
  case appList(EmptyParameters)
  case appShow(AppParameters)
  case appRemove(AppParameters)
  case appFront(AppParameters)
  case appForceQuit(AppParameters)
  case appAttach(AppAttachParameters)
  case appState(AppStateParameters)
  case appHandled(AppHandledParameters)
  case daemonRestart(EmptyParameters)

  package enum Name: String, CaseIterable, Codable, Sendable {
    case hello
    case sessionOpen = "session.open"
    case sessionClose = "session.close"
    case sessionInvalidate = "session.invalidate"
    case taskEnqueue = "task.enqueue"
    case taskResume = "task.resume"
    case taskSuspend = "task.suspend"
    case taskCancel = "task.cancel"
    case taskRemove = "task.remove"
    case taskUpdate = "task.update"
    case taskAnswer = "task.answer"
    case taskList = "task.list"
    case taskShow = "task.show"
    case taskWatch = "task.watch"
    case deliveryAcknowledge = "delivery.acknowledge"
    case conditionsShow = "conditions.show"
    case conditionsSet = "conditions.set"
    case conditionsClear = "conditions.clear"
    case daemonStatus = "daemon.status"
    case daemonStop = "daemon.stop"
    case appRegister = "app.register"
    case appList = "app.list"
    case appShow = "app.show"
    case appRemove = "app.remove"
    case appFront = "app.front"
    case appForceQuit = "app.forceQuit"
    case appAttach = "app.attach"
    case appState = "app.state"
    case appHandled = "app.handled"
    case daemonRestart = "daemon.restart"
  }

  package var name: Name {
    switch self {
    case .hello: .hello
    case .sessionOpen: .sessionOpen
    case .sessionClose: .sessionClose
    case .sessionInvalidate: .sessionInvalidate
    case .taskEnqueue: .taskEnqueue
    case .taskResume: .taskResume
    case .taskSuspend: .taskSuspend
    case .taskCancel: .taskCancel
    case .taskRemove: .taskRemove
    case .taskUpdate: .taskUpdate
    case .taskAnswer: .taskAnswer
    case .taskList: .taskList
    case .taskShow: .taskShow
    case .taskWatch: .taskWatch
    case .deliveryAcknowledge: .deliveryAcknowledge
    case .conditionsShow: .conditionsShow
    case .conditionsSet: .conditionsSet
    case .conditionsClear: .conditionsClear
    case .daemonStatus: .daemonStatus
    case .daemonStop: .daemonStop
    case .appRegister: .appRegister
    case .appList: .appList
    case .appShow: .appShow
    case .appRemove: .appRemove
    case .appFront: .appFront
    case .appForceQuit: .appForceQuit
    case .appAttach: .appAttach
    case .appState: .appState
    case .appHandled: .appHandled
    case .daemonRestart: .daemonRestart
    }
  }
}

package struct EmptyParameters: Codable, Hashable, Sendable {
  package init() {}
}

/// The first request on every connection.
package struct HelloParameters: Codable, Hashable, Sendable {
  /// The protocol version that the client speaks; see ``WireVersion``.
  package var version: Int
  /// Name and version of the client program, for the log: "ferry/0.1".
  package var client: String
  package init(version: Int = WireVersion.current, client: String) {
    self.version = version
    self.client = client
  }
}

package enum WireVersion {
  package static let current = 1
}

/// Opens (and makes, where it is new) the session that an app named.
package struct SessionOpenParameters: Codable, Hashable, Sendable {
  package var app: String
  package var identifier: String
  /// True: this connection becomes the session's one client and is sent its deliveries. False: it only enqueues.
  package var attach: Bool
  /// False: results are kept for `task.list` and `task.show`, and no delivery is queued. Fixed when the session is
  /// made.
  package var collectsResults: Bool
  package var network: WireNetwork
  /// False: the app is not launched for the session's results, which wait until it comes by. Absent: true.
  package var sendsLaunchEvents: Bool?
  /// True: an earlier invalidation is taken back, as by a process that makes the session anew.
  package var revives: Bool?
  /// True: completions that are delivered to this connection tell what was measured.
  package var wantsMetrics: Bool?
  /// The client handles `task.question`; absent: it does not, and a server's 401 is an answer like any other.
  package var answersChallenges: Bool?
  package init(
    app: String, identifier: String, attach: Bool, collectsResults: Bool, network: WireNetwork,
    sendsLaunchEvents: Bool? = nil, revives: Bool? = nil, wantsMetrics: Bool? = nil, answersChallenges: Bool? = nil
  ) {
    self.revives = revives
    self.wantsMetrics = wantsMetrics
    self.app = app
    self.identifier = identifier
    self.attach = attach
    self.collectsResults = collectsResults
    self.network = network
    self.sendsLaunchEvents = sendsLaunchEvents
    self.answersChallenges = answersChallenges
  }
}

/// The client's view of the network, taken from its environment.
package struct WireNetwork: Codable, Hashable, Sendable {
  package var httpProxy: String?
  package var httpsProxy: String?
  package var noProxy: String?
  package var certificateFile: String?
  package var maximumConnectionsPerHost: Int?
  package var tls: WireTLS?
  package init(
    httpProxy: String? = nil, httpsProxy: String? = nil, noProxy: String? = nil, certificateFile: String? = nil,
    maximumConnectionsPerHost: Int? = nil, tls: WireTLS? = nil
  ) {
    self.httpProxy = httpProxy
    self.httpsProxy = httpsProxy
    self.noProxy = noProxy
    self.certificateFile = certificateFile
    self.maximumConnectionsPerHost = maximumConnectionsPerHost
    self.tls = tls
  }
}

/// Detaches; the session and its tasks go on.
package struct SessionCloseParameters: Codable, Hashable, Sendable {
  package var session: Int64
  package init(session: Int64) { self.session = session }
}

package struct SessionInvalidateParameters: Codable, Hashable, Sendable {
  package var session: Int64
  /// True: unfinished tasks are cancelled. False: they finish first.
  package var cancel: Bool
  package init(session: Int64, cancel: Bool) {
    self.session = session
    self.cancel = cancel
  }
}

package struct TaskEnqueueParameters: Codable, Hashable, Sendable {
  package var session: Int64
  /// 1 … ``WireLimits/tasksInBatch``.
  package var tasks: [WireTaskSpecification]
  package init(session: Int64, tasks: [WireTaskSpecification]) {
    self.session = session
    self.tasks = tasks
  }
}

/// What one task is to do. Absent members take the defaults that `docs/Protocol.md` lists.
package struct WireTaskSpecification: Codable, Hashable, Sendable {
  /// "download", "upload" or "data".
  package var kind: String
  package var url: String
  package var method: String?
  package var headers: [WireHeader]?
  /// Names of headers that are dropped when a redirect leaves the origin, and are never shown.
  package var secretHeaders: [String]?
  /// Absolute path of an upload's body.
  package var source: String?
  /// A small request body of a download or data task, in base 64; at most ``WireLimits/bodyBytes`` decoded.
  package var body: String?
  /// Absolute path for a download; absent: the daemon's own folder.
  package var destination: String?
  /// "fail", "replace" or "rename".
  package var collision: String?
  package var sha256: String?
  /// "any" or "successOnly".
  package var statusRule: String?
  package var keepsEncoding: Bool?
  package var requestTimeoutSeconds: Double?
  package var resourceTimeoutSeconds: Double?
  package var description: String?
  /// 0 … 1
  package var priority: Double?
  package var isDiscretionary: Bool?
  /// Names of conditions that it waits for: "unmetered", "unconstrained", "externalPower" and others.
  package var requires: [String]?
  /// Bytes that the client expects, header fields included: ``TaskSnapshot/clientExpectsToSend``.
  package var clientExpectsToSend: Int64?
  package var clientExpectsToReceive: Int64?
  package var earliestBeginMilliseconds: Int64?
  /// True: the task waits for `task.resume`, as URLSession's tasks do.
  package var isSuspended: Bool?
  /// Enqueueing again under the same key returns the task that the key already has.
  package var key: String?
  /// A POST or PATCH without an Idempotency-Key header gets one, the same on every attempt.
  package var addsIdempotencyKey: Bool?
  /// Go on from this kept part, 32 hex digits. It also says what is asked of whom, and where it goes: `url`, `method`,
  /// `headers`, `body`, `destination`, `sha256`, `statusRule` and `keepsEncoding` are ignored.
  package var resumeToken: String?
  /// In place of the session's `answersChallenges`.
  package var answersChallenges: Bool?
  /// With a date to begin at: the client is asked (`task.question`) when it has come.
  package var asksBeforeBegin: Bool?
  /// In place of the session's, member by member.
  package var tls: WireTLS?
  /// Shown to the URL's own origin when it asks, and to nobody else.
  package var credential: WireCredential?
  package var proxyCredential: WireCredential?

  package init(kind: String, url: String) {
    self.kind = kind
    self.url = url
  }
}

/// A field line, on the wire an array of two strings.
package struct WireHeader: Hashable, Sendable {
  package var name: String
  package var value: String
  package init(name: String, value: String) {
    self.name = name
    self.value = value
  }
}

extension WireHeader: Codable {
  package init(from decoder: any Decoder) throws {
    var pair = try decoder.unkeyedContainer()
    name = try pair.decode(String.self)
    value = try pair.decode(String.self)
    guard pair.isAtEnd else {
      throw DecodingError.dataCorruptedError(in: pair, debugDescription: "a header is an array of two strings")
    }
  }

  package func encode(to encoder: any Encoder) throws {
    var pair = encoder.unkeyedContainer()
    try pair.encode(name)
    try pair.encode(value)
  }
}

package struct TaskIdentifiersParameters: Codable, Hashable, Sendable {
  package var ids: [Int64]
  /// Of `task.cancel` only: keep what was fetched where it can be continued, and tell by which token.
  package var producesResumeData: Bool?
  package init(ids: [Int64], producesResumeData: Bool? = nil) {
    self.ids = ids
    self.producesResumeData = producesResumeData
  }
}

/// Changes what may change after creation. Absent members stay as they are.
package struct TaskUpdateParameters: Codable, Hashable, Sendable {
  package var id: Int64
  package var description: String?
  package var priority: Double?
  package var earliestBeginMilliseconds: Int64?
  package var clientExpectsToSend: Int64?
  package var clientExpectsToReceive: Int64?
  /// Members that go back to what they are where nobody says anything: "description", "earliestBegin",
  /// "clientExpectsToSend", "clientExpectsToReceive".
  package var clear: [String]?
  package init(id: Int64, description: String? = nil, priority: Double? = nil, earliestBeginMilliseconds: Int64? = nil)
  {
    self.id = id
    self.description = description
    self.priority = priority
    self.earliestBeginMilliseconds = earliestBeginMilliseconds
  }
}

/// One page of tasks in the order of their ids.
package struct TaskListParameters: Codable, Hashable, Sendable {
  /// Only tasks with a larger id.
  package var after: Int64?
  /// At most so many; the daemon gives at most ``WireLimits/tasksInPage``.
  package var limit: Int?
  /// Only this session's.
  package var session: Int64?
  /// Only tasks that have not finished.
  package var isUnfinishedOnly: Bool?
  package init(after: Int64? = nil, limit: Int? = nil, session: Int64? = nil, isUnfinishedOnly: Bool? = nil) {
    self.after = after
    self.limit = limit
    self.session = session
    self.isUnfinishedOnly = isUnfinishedOnly
  }
}

package struct TaskShowParameters: Codable, Hashable, Sendable {
  package var id: Int64
  package init(id: Int64) { self.id = id }
}

/// Asks for `task.progress` and `task.state` notifications, and for nothing else.
package struct TaskWatchParameters: Codable, Hashable, Sendable {
  /// These tasks; absent: all.
  package var ids: [Int64]?
  package init(ids: [Int64]? = nil) { self.ids = ids }
}

package struct DeliveryAcknowledgeParameters: Codable, Hashable, Sendable {
  package var session: Int64
  package var numbers: [Int64]
  package init(session: Int64, numbers: [Int64]) {
    self.session = session
    self.numbers = numbers
  }
}
