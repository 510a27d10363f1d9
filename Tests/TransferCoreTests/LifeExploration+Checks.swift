@testable import TransferCore

extension LifeExploration {
  /// What makes two states the same: all that decides what can happen next, without clocks and numbers.
  struct Key: Hashable {
    var place: Place
    var isEnqueued: Bool
    var phase: ActiveTask.Phase?
    var verdict: String?
    var hops: Int
    var method: String?
    var madeProgress: Bool
    var awaitsFirstByte: Bool
    var held: Int
    var wholeSent: Bool
    var restarts: Int64
    var hasFailed: Bool
    var failure: FailureCode?
    var isResident: Bool
    var isUnreadable: Bool
    var isUnreconciled: Bool
    var isQueued: Bool
    var isAsleep: Bool
    var isAttached: Bool
    var isInvalidated: Bool
    var hasSession: Bool
    var deliveries: [DeliveryKind]
    var offered: Int
    var loads: Int
    var preparations: Int
    var finalizing: Int
    var heldCommands: [String]
    var isReleased: Bool
    var asked: Int64?
    var isOtherBoot: Bool
    var stored: Place
    var satisfied: Constraints
    var isUrgent: Bool

    private mutating func blur() {
      method = nil
      madeProgress = false
      wholeSent = false
      hops = 0
      restarts = min(restarts, 1)
      failure = nil
      deliveries = deliveries.isEmpty ? [] : [.completion]
      offered = min(offered, 1)
      finalizing = min(finalizing, 1)
      heldCommands = heldCommands.isEmpty ? [] : [""]
      isOtherBoot = false
      asked = asked.map { _ in 0 }
      isQueued = false
      stored = .gone
      isInvalidated = place == .gone && isInvalidated
    }

    init(_ node: Node, isCoarse: Bool) {
      let core = node.bench.core
      let id = LifeExploration.task
      let cell = core.tasks[id]
      let work = core.active[id]
      let progress = core.details[id]?.progress ?? node.store.details[id]?.progress
      let session = core.sessions[LifeExploration.session]
      place = Place(cell?.entry.state, isComing: !node.isEnqueued || !node.shell.preparations.isEmpty)
      stored = Place(node.store.entries[id]?.state, isComing: false)
      isEnqueued = node.isEnqueued
      phase = work?.phase
      verdict = work?.verdict?.name
      hops = min(work?.hops ?? 0, 1)
      method = work?.request?.method
      madeProgress = work?.madeProgress ?? false
      awaitsFirstByte = work?.awaitsFirstByte ?? false
      held = progress?.resumePoint.map { $0.offset > 0 ? 2 : 1 } ?? 0
      wholeSent = work != nil && (cell?.entry.sent ?? 0) > 0
      restarts = min(progress?.restarts ?? 0, 2)
      hasFailed = (cell?.entry.failures ?? 0) > 0
      failure = cell?.entry.state == .finalizing ? progress?.failure?.code : nil
      isResident = core.details[id] != nil
      isUnreadable = core.unreadable.contains(id)
      isUnreconciled = core.unreconciled.contains(id)
      isQueued = cell?.isQueued ?? false
      isAsleep = cell?.wakeAt.map { $0 > node.bench.now.boot } ?? false
      isAttached = session?.attached != nil
      isInvalidated = session?.record.isInvalidated ?? false
      hasSession = session != nil
      deliveries = session?.deliveries.records.map(\.kind) ?? []
      offered = node.shell.offers.count
      loads = node.shell.loads.count
      preparations = node.shell.preparations.count
      finalizing = node.shell.finalizing.count
      heldCommands = core.heldCommands.commands.map(\.name).sorted()
      isReleased = node.shell.wires.contains { $0.isReleased }
      asked = work?.resume?.offset
      isOtherBoot = progress.map { $0.bootID != core.configuration.bootID } ?? false
      satisfied = core.admission.satisfied
      isUrgent = cell?.isUrgent ?? false
      if isCoarse { blur() }
    }
  }

  mutating func check(_ node: Node, after step: Step, from before: Place) {
    var found = node.bench.core.violations() + node.shell.violations(node.bench.core) + node.refused
    found += promises(node)
    let after = Place(node.bench.state(Self.task), isComing: false)
    let isEnd: (Place) -> Bool = { [.succeeded, .failed, .cancelled].contains($0) }
    if isEnd(before), after != before, after != .gone { found.append("A finished task became \(after).") }
    for record in node.shell.offers where node.acknowledged.contains(record.number) {
      found.append("Result \(record.number) is offered after its acknowledgement.")
    }
    for words in found { faults.append("\(before), then \(step.label): \(words)") }
  }

  /// What the rows and the core say of the task is the same where it matters after a restart.
  private func promises(_ node: Node) -> [String] {
    let core = node.bench.core
    guard let entry = core.tasks[Self.task]?.entry else {
      return node.store.entries[Self.task] == nil ? [] : ["A removed task has a row."]
    }
    guard let row = node.store.entries[Self.task] else { return ["The task has no row."] }
    var found: [String] = []
    switch (entry.state, row.state) {
    // Rows are not written for what a restart does again without harm.
    case (.running, .waiting), (.running, .running), (.finalizing, .waiting), (.finalizing, .running):
      let wasSent = node.shell.wires.contains { $0.order.task == Self.task }
      if !entry.isRepeatable, wasSent, row.state.attempt == nil { found.append("A request is sent without a row.") }
      if entry.kind == .upload, entry.state == .finalizing { found.append("An upload's answer has no row.") }
    case (let state, let stored): if state != stored { found.append("The row says \(stored), the core \(state).") }
    }
    let queued = core.sessions[Self.session]?.deliveries.records ?? []
    if queued != node.store.state.deliveries { found.append("The rows of the results are others.") }
    let completions = queued.filter { $0.kind == .completion }
    if completions.count > 1 { found.append("The task has two outcomes.") }
    if let held = core.details[Self.task], let stored = node.store.details[Self.task], entry.state.isFinished,
      held.progress != stored.progress
    {
      found.append("The result's details and their row differ: \(held.progress) / \(stored.progress)")
    }
    return found
  }
}

extension ModelShell {
  /// The shell did what the event tells.
  mutating func note(_ event: Event) {
    switch event {
    case .detailsLoaded(let id, _): loads.removeAll { $0 == id }
    case .prepared(let token, _): preparations.removeAll { $0.token == token }
    case .filesOpened(let attempt, _), .filesFailed(let attempt, _): opening.removeAll { $0 == attempt }
    case .responded(let attempt, _, let verdict):
      for index in wires.indices where wires[index].order.attempt == attempt { wires[index].verdict = verdict }
    case .ended(let attempt, _, _): wires.removeAll { $0.order.attempt == attempt }
    case .finalized(let id, _): finalizing.removeAll { $0.task == id }
    case .peerLeft: offers = []
    case .handedOver:
      opening.removeAll()
      wires.removeAll()
    case .commanded, .progressed, .synced, .storeChanged, .measured, .drainRequested, .app,
      .conditionsChanged:
      break
    }
  }
}

extension ResponseVerdict {
  static let allNames = [
    "takeWhole", "continueAt", "alreadyComplete", "restart", "redirect", "retryLater", "ask", "reject",
  ]

  var name: String {
    switch self {
    case .takeWhole: "takeWhole"
    case .continueAt: "continueAt"
    case .alreadyComplete: "alreadyComplete"
    case .restart: "restart"
    case .redirect: "redirect"
    case .retryLater: "retryLater"
    case .ask: "ask"
    case .reject: "reject"
    }
  }
}

extension Event {
  /// As a person would say it.
  var name: String {
    switch self {
    case .commanded(let command, _): command.name
    case .peerLeft: "client leaves"
    case .prepared(_, let tasks):
      if case .refused? = tasks.first?.outcome { "files are refused" } else { "files are in order" }
    case .detailsLoaded(_, let details): details == nil ? "record is unreadable" : "record is loaded"
    case .filesOpened: "files are open"
    case .filesFailed: "files cannot be opened"
    case .responded: "answer begins"
    case .progressed: "progress"
    case .synced: "bytes are durable"
    case .ended(_, let end, _): end.name
    case .finalized(_, .placed): "result is placed"
    case .finalized(_, .failed(let failure)): "placing fails: \(failure.code.rawValue)"
    case .storeChanged(let reason, _): reason == nil ? "store recovers" : "store fails"
    case .app: "a process of an app changes"
    case .measured: "measured"
    case .drainRequested: "a restart is asked for"
    case .handedOver: "another daemon takes over"
    case .conditionsChanged(let conditions):
      conditions.satisfied == .all ? "conditions are good" : "conditions are not met"
    }
  }
}

extension AttemptEnd {
  var name: String {
    switch self {
    case .complete: "answer is complete"
    case .redirected: "redirect"
    case .discarded: "answer is refused"
    case .failed(let failure), .untrusted(let failure, _): "attempt fails: \(failure.retryability.rawValue)"
    }
  }
}

extension Command {
  var name: String {
    switch self {
    case .openSession: "client attaches"
    case .closeSession: "client closes session"
    case .invalidateSession(_, let cancel): cancel ? "invalidate and cancel" : "finish and invalidate"
    case .enqueue: "enqueue"
    case .resume: "resume"
    case .suspend: "suspend"
    case .cancel: "cancel"
    case .remove: "remove"
    case .update: "update"
    case .answer(_, _, .cancel): "answer: cancel"
    case .answer(_, _, .proceed): "answer: default"
    case .answer: "answer"
    case .acknowledge: "acknowledge"
    case .foreground: "client decides"
    case .app: "app"
    }
  }
}
