package struct EmptyResult: Codable, Hashable, Sendable {
  package init() {}
}

package struct HelloResult: Codable, Hashable, Sendable {
  package var version: Int
  /// "ferryd/0.1"
  package var daemon: String
  package var pid: Int32
  /// Names of optional abilities; a client ignores the ones that it does not know.
  package var capabilities: [String]
  package init(version: Int, daemon: String, pid: Int32, capabilities: [String]) {
    self.version = version
    self.daemon = daemon
    self.pid = pid
    self.capabilities = capabilities
  }
}

package struct SessionOpenResult: Codable, Hashable, Sendable {
  package var session: Int64
  /// The `taskIdentifier` that the next task of the session gets.
  package var nextTaskNumber: Int64
  package var isNew: Bool
  package init(session: Int64, nextTaskNumber: Int64, isNew: Bool) {
    self.session = session
    self.nextTaskNumber = nextTaskNumber
    self.isNew = isNew
  }
}

package struct TaskEnqueueResult: Codable, Hashable, Sendable {
  /// In the order of the request.
  package var tasks: [EnqueuedTask]
  package init(tasks: [EnqueuedTask]) { self.tasks = tasks }
}

/// Either a receipt (`id`, `number`) or the error that kept this one task out.
package struct EnqueuedTask: Codable, Hashable, Sendable {
  package var id: Int64?
  package var number: Int64?
  /// True when the key already had this task.
  package var existed: Bool?
  /// How an upload's source was kept safe: "reflink", "hardLink", "copy" or "none".
  package var pin: String?
  package var error: WireError?
  package init(
    id: Int64? = nil, number: Int64? = nil, existed: Bool? = nil, pin: String? = nil, error: WireError? = nil
  ) {
    self.id = id
    self.number = number
    self.existed = existed
    self.pin = pin
    self.error = error
  }
}

package struct TaskListResult: Codable, Hashable, Sendable {
  package var tasks: [TaskSnapshot]
  /// Pass as `after` for the next page; absent on the last one.
  package var next: Int64?
  package init(tasks: [TaskSnapshot], next: Int64? = nil) {
    self.tasks = tasks
    self.next = next
  }
}

package struct TaskShowResult: Codable, Hashable, Sendable {
  package var task: TaskSnapshot
  package init(task: TaskSnapshot) { self.task = task }
}

/// The ids that the request reached; the others are in `unknown`.
package struct TaskIdentifiersResult: Codable, Hashable, Sendable {
  package var ids: [Int64]
  package var unknown: [Int64]
  /// What `task.cancel` with `producesResumeData` kept; absent for other requests.
  package var kept: [WireKeptPart]?
  package init(ids: [Int64], unknown: [Int64], kept: [WireKeptPart]? = nil) {
    self.ids = ids
    self.unknown = unknown
    self.kept = kept
  }
}

/// A part that a task left behind, from which a new one can go on.
package struct WireKeptPart: Codable, Hashable, Sendable {
  /// The task that it was kept from.
  package var id: Int64
  /// 32 hex digits.
  package var resumeToken: String
  /// Bytes that are held.
  package var received: Int64
  package init(id: Int64, resumeToken: String, received: Int64) {
    self.id = id
    self.resumeToken = resumeToken
    self.received = received
  }
}

/// A task as a client sees it. The names are stable; `ferry list --json` and `ferry show --json` print just this.
package struct TaskSnapshot: Codable, Hashable, Sendable {
  package var id: Int64
  package var session: String
  package var app: String
  package var sessionID: Int64
  package var number: Int64
  package var kind: String
  /// "suspended", "waiting", "running", "asking", "finalizing", "succeeded", "failed" or "cancelled".
  package var state: String
  /// Why it does not run now, in words; absent when it runs or has ended well.
  package var reason: String?
  package var method: String
  package var url: String
  /// After redirects.
  package var currentURL: String?
  /// Secrets are `<redacted>`.
  package var headers: [WireHeader]?
  package var received: Int64
  /// Absent while unknown.
  package var expected: Int64?
  package var sent: Int64
  package var expectedToSend: Int64?
  /// The finished file.
  package var file: String?
  /// The spooled response body of an upload.
  package var body: String?
  package var response: WireResponse?
  package var error: WireFailure?
  package var attempts: Int64
  package var description: String?
  package var priority: Double
  package var sha256: String?
  package var isLengthVerified: Bool?
  package var validator: String?
  package var wasted: Int64?
  package var pin: String?
  package var createdMilliseconds: Int64
  package var finishedMilliseconds: Int64?
  /// The earliest moment of the next attempt, where one is set.
  package var nextAttemptMilliseconds: Int64?
  /// Of a cancelled task: "requested", "sessionInvalidated" or "forceQuit".
  package var cancelCause: String?
  /// When the result goes if nobody collects it.
  package var expiresMilliseconds: Int64?
  /// A new task can go on from what this one left behind.
  package var resumeToken: String?
  package var metrics: WireMetrics?
  package var isDiscretionary: Bool?
  /// Names of the conditions that it waits for.
  package var requires: [String]?
  /// The date before which its owner does not want it begun, also when that is over.
  package var earliestBeginMilliseconds: Int64?
  /// Bytes that its owner expects, header fields included.
  package var clientExpectsToSend: Int64?
  package var clientExpectsToReceive: Int64?
  /// All that keeps it from running now; only in `task.show`.
  package var blockers: [WireBlocker]?
  /// What a task in "asking" wants to know.
  package var question: WireQuestion?

  package init(
    id: Int64, session: String, app: String, sessionID: Int64, number: Int64, kind: String, state: String,
    method: String, url: String, received: Int64, sent: Int64, attempts: Int64, priority: Double,
    createdMilliseconds: Int64
  ) {
    self.id = id
    self.session = session
    self.app = app
    self.sessionID = sessionID
    self.number = number
    self.kind = kind
    self.state = state
    self.method = method
    self.url = url
    self.received = received
    self.sent = sent
    self.attempts = attempts
    self.priority = priority
    self.createdMilliseconds = createdMilliseconds
  }
}

package struct WireResponse: Codable, Hashable, Sendable {
  package var status: Int
  package var headers: [WireHeader]
  package var url: String
  package var httpVersion: String
  package init(status: Int, headers: [WireHeader], url: String, httpVersion: String) {
    self.status = status
    self.headers = headers
    self.url = url
    self.httpVersion = httpVersion
  }
}

/// Why a task failed or waits.
package struct WireFailure: Codable, Hashable, Sendable {
  /// A name of `FailureCode`, or "cancelled".
  package var code: String
  package var isTransient: Bool
  /// "curl", "errno", "http" or "".
  package var domain: String
  package var number: Int
  package var detail: String
  package init(code: String, isTransient: Bool, domain: String, number: Int, detail: String) {
    self.code = code
    self.isTransient = isTransient
    self.domain = domain
    self.number = number
    self.detail = detail
  }
}

package struct DaemonStatusResult: Codable, Hashable, Sendable {
  package var pid: Int32
  package var version: String
  package var stateDirectory: String
  package var socket: String
  package var log: String
  package var uptimeSeconds: Int64
  package var tasks: [String: Int64]
  package var sessions: Int64
  package var peers: Int64
  package var commits: Int64
  /// Why the daemon refuses new work, when it does.
  package var degraded: String?
  /// True while nothing can be stored, not even what frees room.
  package var isStuck: Bool?
  package var quarantined: [String]
  /// Counts of loop turns by how long they took: upper bound in microseconds → turns.
  package var turnMicroseconds: [String: Int64]
  /// Parts that are kept for tasks which go on from them, and their bytes.
  package var keptParts: Int64?
  package var keptBytes: Int64?
  /// True while it lets transfers end before another daemon takes over.
  package var isRestarting: Bool?
  package init(
    pid: Int32, version: String, stateDirectory: String, socket: String, log: String, uptimeSeconds: Int64,
    tasks: [String: Int64], sessions: Int64, peers: Int64, commits: Int64, degraded: String?, quarantined: [String],
    turnMicroseconds: [String: Int64]
  ) {
    self.pid = pid
    self.version = version
    self.stateDirectory = stateDirectory
    self.socket = socket
    self.log = log
    self.uptimeSeconds = uptimeSeconds
    self.tasks = tasks
    self.sessions = sessions
    self.peers = peers
    self.commits = commits
    self.degraded = degraded
    self.quarantined = quarantined
    self.turnMicroseconds = turnMicroseconds
  }
}
