/// What the daemon tells a client unasked.
package enum DaemonNotification: Hashable, Sendable {
  /// Counters of a running task, coalesced: at most one a tick and task.
  case taskProgress(TaskProgressNotice)
  /// A watched task changed its state.
  case taskState(TaskStateNotice)
  /// A resumption was accepted by the server (or refused: offset 0).
  case taskResumed(TaskResumedNotice)
  /// A data task's response head.
  case taskResponse(TaskResponseNotice)
  /// Body bytes of a data task.
  case taskData(TaskBytesNotice)
  /// A watched task is no more: it was removed, its last result was acknowledged, or its retention ended.
  case taskRemoved(TaskRemovedNotice)
  /// A task of the session asks its client; offered again to each client that attaches, until it is answered.
  case taskQuestion(TaskQuestionNotice)
  /// A result, offered until it is acknowledged.
  case delivery(DeliveryNotice)
  /// The session was invalidated and has nothing left; it is gone.
  case sessionEnded(SessionEndedNotice)
  /// The daemon ends the connection, and why.
  case goodbye(GoodbyeNotice)
  /// A session of the app that this connection speaks for has something to collect.
  case appWake(AppWakeNotice)

  package enum Name: String, CaseIterable, Codable, Sendable {
    case taskProgress = "task.progress"
    case taskState = "task.state"
    case taskResumed = "task.resumed"
    case taskResponse = "task.response"
    case taskData = "task.data"
    case taskRemoved = "task.removed"
    case taskQuestion = "task.question"
    case delivery
    case sessionEnded = "session.ended"
    case goodbye
    case appWake = "app.wake"
  }

  package var name: Name {
    switch self {
    case .taskProgress: .taskProgress
    case .taskState: .taskState
    case .taskResumed: .taskResumed
    case .taskResponse: .taskResponse
    case .taskData: .taskData
    case .taskRemoved: .taskRemoved
    case .taskQuestion: .taskQuestion
    case .delivery: .delivery
    case .sessionEnded: .sessionEnded
    case .goodbye: .goodbye
    case .appWake: .appWake
    }
  }
}

package struct TaskProgressNotice: Codable, Hashable, Sendable {
  package var id: Int64
  package var received: Int64
  package var expected: Int64?
  package var sent: Int64
  package init(id: Int64, received: Int64, expected: Int64?, sent: Int64) {
    self.id = id
    self.received = received
    self.expected = expected
    self.sent = sent
  }
}

package struct TaskStateNotice: Codable, Hashable, Sendable {
  package var task: TaskSnapshot
  package init(task: TaskSnapshot) { self.task = task }
}

package struct TaskResumedNotice: Codable, Hashable, Sendable {
  package var id: Int64
  package var offset: Int64
  package var expected: Int64?
  package init(id: Int64, offset: Int64, expected: Int64?) {
    self.id = id
    self.offset = offset
    self.expected = expected
  }
}

package struct TaskResponseNotice: Codable, Hashable, Sendable {
  package var id: Int64
  package var response: WireResponse
  package init(id: Int64, response: WireResponse) {
    self.id = id
    self.response = response
  }
}

package struct TaskBytesNotice: Codable, Hashable, Sendable {
  package var id: Int64
  /// Base 64.
  package var bytes: String
  package init(id: Int64, bytes: String) {
    self.id = id
    self.bytes = bytes
  }
}

package struct TaskRemovedNotice: Codable, Hashable, Sendable {
  package var id: Int64
  package init(id: Int64) { self.id = id }
}

package struct DeliveryNotice: Codable, Hashable, Sendable {
  package var session: Int64
  package var number: Int64
  /// "file", "body", "completion" or "finishEvents".
  package var kind: String
  /// Absent only for "finishEvents".
  package var task: TaskSnapshot?
  package init(session: Int64, number: Int64, kind: String, task: TaskSnapshot?) {
    self.session = session
    self.number = number
    self.kind = kind
    self.task = task
  }
}

package struct SessionEndedNotice: Codable, Hashable, Sendable {
  package var session: Int64
  package init(session: Int64) { self.session = session }
}

package struct GoodbyeNotice: Codable, Hashable, Sendable {
  package var reason: String
  /// The next daemon answers under the same process id in a moment.
  package var isRestart: Bool?

  package init(reason: String, isRestart: Bool? = nil) {
    self.reason = reason
    self.isRestart = isRestart
  }
}
