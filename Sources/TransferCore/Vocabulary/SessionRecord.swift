/// Who owns a session: the app, and the string that it chose. (The user is the daemon's own.)
package struct SessionKey: Hashable, Sendable {
  package var app: String
  package var identifier: String

  package init(app: String, identifier: String) {
    self.app = app
    self.identifier = identifier
  }
}

/// How the session's transfers reach the network, as its client's environment says.
package struct NetworkSettings: Hashable, Sendable {
  /// Proxy URL for `http` targets; nil is none.
  package var httpProxy: String?
  /// Proxy URL for `https` targets; nil is none.
  package var httpsProxy: String?
  /// Comma-separated hosts that are reached without a proxy.
  package var noProxy: String
  /// PEM file of trusted certificates in place of the system's (`SSL_CERT_FILE`).
  package var certificateFile: String?
  /// 1 … 64; URLSession's default is 6.
  package var maximumConnectionsPerHost: Int
  package var tls: TLSSettings?

  package init(
    httpProxy: String? = nil, httpsProxy: String? = nil, noProxy: String = "", certificateFile: String? = nil,
    maximumConnectionsPerHost: Int = 6, tls: TLSSettings? = nil
  ) {
    self.httpProxy = httpProxy
    self.httpsProxy = httpsProxy
    self.noProxy = noProxy
    self.certificateFile = certificateFile
    self.maximumConnectionsPerHost = maximumConnectionsPerHost
    self.tls = tls
  }
}

package struct SessionRecord: Hashable, Sendable {
  package var id: SessionID
  package var key: SessionKey
  package var network: NetworkSettings
  /// Results wait in the delivery queue for an attached client; else (the command's sessions) they are only kept.
  package var collectsResults: Bool
  /// `finishTasksAndInvalidate` was called: no new tasks, gone when the last result is acknowledged.
  package var isInvalidated: Bool
  /// The number that the next task gets.
  package var nextTaskNumber: Int64
  /// The number that the next delivery gets.
  package var nextDelivery: Int64
  /// Some result has been queued since the last finish-events delivery.
  package var owesFinishEvents: Bool
  /// Since when nobody is attached and it has no tasks; nil while it is used.
  package var unusedSince: WallInstant?
  /// Not stored: what is stored is a background session.
  package var conduct = SessionConduct.background
  /// The app is launched when results wait and nobody is attached.
  package var sendsLaunchEvents: Bool
  /// Its client can be asked for credentials.
  package var answersChallenges: Bool

  package init(
    id: SessionID, key: SessionKey, network: NetworkSettings = NetworkSettings(), collectsResults: Bool = true,
    isInvalidated: Bool = false, nextTaskNumber: Int64 = 1, nextDelivery: Int64 = 1, owesFinishEvents: Bool = false,
    sendsLaunchEvents: Bool = true, unusedSince: WallInstant? = nil, answersChallenges: Bool = false
  ) {
    self.id = id
    self.key = key
    self.network = network
    self.collectsResults = collectsResults
    self.isInvalidated = isInvalidated
    self.nextTaskNumber = nextTaskNumber
    self.nextDelivery = nextDelivery
    self.owesFinishEvents = owesFinishEvents
    self.sendsLaunchEvents = sendsLaunchEvents
    self.unusedSince = unusedSince
    self.answersChallenges = answersChallenges
  }
}

package enum DeliveryKind: String, CaseIterable, Hashable, Sendable {
  /// A finished download's file: the daemon's until this is acknowledged.
  case file
  /// The spooled body of an upload's response.
  case body
  /// A task's last word.
  case completion
  /// All results of the session that were waiting have been offered.
  case finishEvents
}

/// One numbered result, offered until it is acknowledged.
package struct DeliveryRecord: Hashable, Sendable {
  package var session: SessionID
  package var number: DeliveryNumber
  package var kind: DeliveryKind
  /// Nil only for `finishEvents`.
  package var task: TaskID?
  package var queuedAt: WallInstant

  package init(session: SessionID, number: DeliveryNumber, kind: DeliveryKind, task: TaskID?, queuedAt: WallInstant) {
    self.session = session
    self.number = number
    self.kind = kind
    self.task = task
    self.queuedAt = queuedAt
  }
}

/// One change of the stored state. A tick's changes are one transaction, applied in order. (`indirect`: see
/// ``Effect``.)
package enum StoreChange: Hashable, Sendable {
  indirect case putSession(SessionRecord)
  case removeSession(SessionID)
  indirect case addTask(TaskEntry, TaskDetails)
  /// `progress` is nil where only the entry changed.
  indirect case updateTask(TaskEntry, progress: TaskProgress?)
  /// The task's deliveries go with it.
  case removeTask(TaskID)
  /// The task has ended or is gone: its plan has no secrets any more, and no file may hold what they were. A plan whose
  /// row is gone is not put back.
  indirect case forgetSecrets(TaskID, TaskPlan)
  case addDelivery(DeliveryRecord)
  case removeDelivery(SessionID, DeliveryNumber)
  indirect case app(AppChange)
  indirect case addKeptPart(KeptPart)
  case removeKeptPart(ResumeToken)
}

/// All that a daemon needs to go on where its predecessor ended.
package struct StoredState: Hashable, Sendable {
  package var sessions: [SessionRecord]
  /// In order of their ids. `running` and `finalizing` come back with attempt 0 (no attempt outlives the daemon).
  package var tasks: [TaskEntry]
  /// In order of session, then number.
  package var deliveries: [DeliveryRecord]
  /// Keys of tasks that were enqueued under one: (session, key, task).
  package var keys: [TaskKey]
  /// Destination paths of the tasks that have not finished: no two tasks may write to one.
  package var claims: [DestinationClaim]
  package var apps: [AppRecord]
  /// In order of app, then number.
  package var launches: [LaunchRecord]
  /// Oldest first.
  package var keptParts: [KeptPart]
  /// In the order of the tasks' ids.
  package var adoptions: [PartAdoption]
  /// Highest ids ever given; ids are never used twice.
  package var lastTaskID: TaskID
  package var lastSessionID: SessionID
  /// Rows that could not be read: set aside, reported, and not in `tasks`.
  package var quarantined: [QuarantinedRow]

  package init(
    sessions: [SessionRecord] = [], tasks: [TaskEntry] = [], deliveries: [DeliveryRecord] = [], keys: [TaskKey] = [],
    claims: [DestinationClaim] = [], apps: [AppRecord] = [], launches: [LaunchRecord] = [],
    keptParts: [KeptPart] = [], adoptions: [PartAdoption] = [],
    lastTaskID: TaskID = TaskID(rawValue: 0),
    lastSessionID: SessionID = SessionID(rawValue: 0),
    quarantined: [QuarantinedRow] = []
  ) {
    self.sessions = sessions
    self.tasks = tasks
    self.deliveries = deliveries
    self.keys = keys
    self.claims = claims
    self.apps = apps
    self.launches = launches
    self.keptParts = keptParts
    self.adoptions = adoptions
    self.lastTaskID = lastTaskID
    self.lastSessionID = lastSessionID
    self.quarantined = quarantined
  }
}

package struct TaskKey: Hashable, Sendable {
  package var session: SessionID
  package var key: String
  package var task: TaskID

  package init(session: SessionID, key: String, task: TaskID) {
    self.session = session
    self.key = key
    self.task = task
  }
}

package struct DestinationClaim: Hashable, Sendable {
  package var task: TaskID
  package var path: String

  package init(task: TaskID, path: String) {
    self.task = task
    self.path = path
  }
}

package struct QuarantinedRow: Hashable, Sendable {
  package var table: String
  package var rowID: Int64
  package var reason: String

  package init(table: String, rowID: Int64, reason: String) {
    self.table = table
    self.rowID = rowID
    self.reason = reason
  }
}
