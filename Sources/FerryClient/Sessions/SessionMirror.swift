package import WireProtocol

/// Which deliveries of a session this process was given, so that none is handled twice while the process lives.
///
/// The daemon offers a delivery until it is acknowledged: again after each reconnect, under the same number.
package struct DeliveryLedger: Hashable, Sendable {
  package enum Verdict: Hashable, Sendable {
    /// To be handed to the program.
    case isNew
    /// The program has it already and is not done.
    case isInHand
    /// The program is done with it; the acknowledgement was lost.
    case needsAcknowledgement
  }

  private enum Stage: Hashable, Sendable { case inHand, handled }
  private var stages: [Int64: Stage] = [:]

  package init() {}

  package mutating func offered(_ number: Int64) -> Verdict {
    switch stages[number] {
    case nil:
      stages[number] = .inHand
      return .isNew
    case .inHand: return .isInHand
    case .handled: return .needsAcknowledgement
    }
  }

  /// The program is done with these; an acknowledgement is on its way.
  package mutating func handled(_ numbers: [Int64]) {
    for number in numbers { stages[number] = .handled }
  }

  /// The daemon has the acknowledgement: it never offers them again.
  package mutating func confirmed(_ numbers: [Int64]) {
    for number in numbers { stages[number] = nil }
  }

  /// Deliveries that the program has and is not done with.
  package var inHand: [Int64] { stages.filter { $0.value == .inHand }.keys.sorted() }
}

/// A client's picture of one session: its tasks as far as they were seen, and its deliveries. Pure: notices in,
/// changes out.
package struct SessionMirror: Sendable {
  package enum Change: Hashable, Sendable {
    /// Counters grew.
    case progressed(TaskSnapshot)
    /// State, reason or anything else changed.
    case changed(TaskSnapshot)
    /// An attempt continues at the offset; 0: it had to start again.
    case resumed(TaskSnapshot, offset: Int64)
    case responded(task: Int64, WireResponse)
    case bytes(task: Int64, base64: String)
    /// To be handed to the program.
    case delivered(DeliveryNotice)
    /// To be acknowledged again, and not shown.
    case acknowledgeAgain([Int64])
    case ended
  }

  /// The durable id; nil until the session was opened.
  package private(set) var session: Int64?
  package private(set) var tasks: [Int64: TaskSnapshot] = [:]
  package var deliveries = DeliveryLedger()
  /// Tasks whose counters may go down once: a daemon that was restarted knows less than it had told.
  private var mayGoDown: Set<Int64> = []

  package init() {}

  /// The session was opened, for the first time or again. False: it is another one than before (the daemon lost its
  /// state), and what was known of tasks and deliveries is void.
  package mutating func opened(_ result: SessionOpenResult) -> Bool {
    defer { session = result.session }
    // A daemon without its state may give the same id again, to a session that it did not know.
    guard session == nil || session == result.session && !result.isNew else {
      tasks = [:]
      mayGoDown = []
      deliveries = DeliveryLedger()
      return false
    }
    mayGoDown = Set(tasks.keys)
    return true
  }

  /// What a list or show told. Unlike a notice it makes no change to report.
  package mutating func learned(_ snapshot: TaskSnapshot) {
    guard snapshot.sessionID == session else { return }
    _ = merge(snapshot)
  }

  /// The task's record is gone.
  package mutating func forget(_ task: Int64) {
    tasks[task] = nil
    mayGoDown.remove(task)
  }

  package mutating func apply(_ notification: DaemonNotification) -> [Change] {
    switch notification {
    case .taskProgress(let notice): return progressed(notice)
    // The question stands in the snapshot.
    case .taskQuestion(let notice): return apply(.taskState(TaskStateNotice(task: notice.task)))
    case .taskState(let notice):
      guard notice.task.sessionID == session else { return [] }
      let before = tasks[notice.task.id]
      let merged = merge(notice.task)
      return before == merged ? [] : [.changed(merged)]
    case .taskResumed(let notice):
      guard var task = tasks[notice.id] else { return [] }
      task.received = notice.offset
      if let expected = notice.expected { task.expected = expected }
      tasks[notice.id] = task
      mayGoDown.remove(notice.id)
      return [.resumed(task, offset: notice.offset)]
    case .taskResponse(let notice):
      return tasks[notice.id] == nil ? [] : [.responded(task: notice.id, notice.response)]
    case .taskData(let notice):
      return tasks[notice.id] == nil ? [] : [.bytes(task: notice.id, base64: notice.bytes)]
    case .delivery(let notice): return delivered(notice)
    case .sessionEnded(let notice): return notice.session == session ? [.ended] : []
    case .taskRemoved, .goodbye, .appWake: return []
    }
  }

  private mutating func progressed(_ notice: TaskProgressNotice) -> [Change] {
    guard var task = tasks[notice.id] else { return [] }
    let before = task
    if mayGoDown.remove(notice.id) != nil {
      task.received = notice.received
      task.sent = notice.sent
    } else {
      task.received = max(task.received, notice.received)
      task.sent = max(task.sent, notice.sent)
    }
    if let expected = notice.expected { task.expected = expected }
    tasks[notice.id] = task
    return task == before ? [] : [.progressed(task)]
  }

  /// Within one attempt counters only grow; notices of the two kinds may overtake one another.
  private mutating func merge(_ snapshot: TaskSnapshot) -> TaskSnapshot {
    var merged = snapshot
    if mayGoDown.remove(snapshot.id) == nil, let before = tasks[snapshot.id], before.attempts == snapshot.attempts,
      before.state == snapshot.state
    {
      merged.received = max(before.received, snapshot.received)
      merged.sent = max(before.sent, snapshot.sent)
    }
    tasks[snapshot.id] = merged
    return merged
  }

  private mutating func delivered(_ notice: DeliveryNotice) -> [Change] {
    guard notice.session == session else { return [] }
    if let task = notice.task { _ = merge(task) }
    switch deliveries.offered(notice.number) {
    case .isNew: return [.delivered(notice)]
    case .isInHand: return []
    case .needsAcknowledgement: return [.acknowledgeAgain([notice.number])]
    }
  }
}
