@testable import TransferCore

/// Every life that one task can have: a breadth-first walk over all answers that its surroundings can give. States that
/// differ only in clocks and counters are one.
struct LifeExploration {
  enum Place: String, CaseIterable, Comparable {
    case new, suspended, waiting, running, asking, finalizing, succeeded, failed, cancelled, gone

    static func < (left: Self, right: Self) -> Bool {
      allCases.firstIndex(of: left) ?? 0 < allCases.firstIndex(of: right) ?? 0
    }

    init(_ state: TaskState?, isComing: Bool) {
      switch state {
      case nil: self = isComing ? .new : .gone
      case .suspended: self = .suspended
      case .waiting: self = .waiting
      case .running: self = .running
      case .asking: self = .asking
      case .finalizing: self = .finalizing
      case .finished(.succeeded): self = .succeeded
      case .finished(.failed): self = .failed
      case .finished(.cancelled): self = .cancelled
      }
    }
  }

  struct Edge: Hashable, Comparable {
    var from: Place
    var event: String
    var to: Place

    static func < (left: Self, right: Self) -> Bool {
      (left.from, left.event, left.to) < (right.from, right.event, right.to)
    }
  }

  struct Node {
    var bench: Bench
    var shell: ModelShell
    var store: ModelStore
    var isEnqueued = false
    /// The task's end, once it had one.
    var ending: TaskState.Ending?
    var acknowledged: Set<DeliveryNumber> = []
    /// What a store would not have committed.
    var refused: [String] = []
    /// Of the last step.
    var effects: [Effect] = []
  }

  static let task = TaskID(rawValue: 1)
  static let session = SessionID(rawValue: 1)

  var draft: TaskDraft
  private(set) var edges: Set<Edge> = []
  private(set) var places: [Place: Int] = [:]
  private(set) var verdicts: [String: Int] = [:]
  var faults: [String] = []
  private(set) var steps = 0
  private var nodes: [Node] = []
  private var indices: [Key: Int] = [:]
  /// For each node, those from which one step leads to it.
  private var sources: [[Int]] = []

  /// Tells fewer states apart, so that the walk takes a second and not a minute.
  var isCoarse: Bool

  init(_ draft: TaskDraft, isCoarse: Bool) {
    self.draft = draft
    self.isCoarse = isCoarse
  }

  var stateCount: Int { nodes.count }

  mutating func run(limit: Int = 200_000) {
    var first = Node(bench: Bench(), shell: ModelShell(), store: ModelStore())
    _ = first.bench.open()
    settle(&first, [])
    enter(first)
    var next = 0
    while next < nodes.count, nodes.count < limit, faults.isEmpty {
      let from = next
      next += 1
      for step in steps(from: nodes[from]) {
        var node = nodes[from]
        let before = place(node)
        apply(step, to: &node)
        steps += 1
        let after = place(node)
        if before != after { edges.insert(Edge(from: before, event: step.label, to: after)) }
        if case .event(.responded(_, _, let verdict)) = step { verdicts[verdict.name, default: 0] += 1 }
        check(node, after: step, from: before)
        let index = enter(node)
        sources[index].append(from)
      }
    }
    if next < nodes.count, faults.isEmpty { faults.append("The walk did not end in \(limit) states.") }
    if faults.isEmpty { checkEnds() }
  }

  private func place(_ node: Node) -> Place {
    Place(
      node.bench.state(Self.task),
      isComing: !node.isEnqueued || !node.shell.preparations.isEmpty)
  }

  @discardableResult
  private mutating func enter(_ node: Node) -> Int {
    let key = Key(node, isCoarse: isCoarse)
    if let known = indices[key] { return known }
    indices[key] = nodes.count
    nodes.append(node)
    sources.append([])
    places[place(node), default: 0] += 1
    return nodes.count - 1
  }

  /// From every state some path leads to an end.
  private mutating func checkEnds() {
    var reached = [Bool](repeating: false, count: nodes.count)
    var stack = nodes.indices.filter { [.succeeded, .failed, .cancelled, .gone].contains(place(nodes[$0])) }
    for index in stack { reached[index] = true }
    while let index = stack.popLast() {
      for source in sources[index] where !reached[source] {
        reached[source] = true
        stack.append(source)
      }
    }
    for (index, isReached) in reached.enumerated() where !isReached {
      faults.append("No path leads to an end from \(place(nodes[index])): \(Key(nodes[index], isCoarse: isCoarse))")
    }
  }
}

// MARK: Steps

extension LifeExploration {
  enum Step {
    case event(Event)
    case command(Command)
    case enqueue(TaskDraft)
    case time
    case restart(boot: String)

    var label: String {
      switch self {
      case .event(let event): event.name
      case .command(let command): command.name
      case .enqueue: "enqueue"
      case .time: "time passes"
      case .restart: "daemon restarts"
      }
    }
  }

  func steps(from node: Node) -> [Step] {
    let task = Self.task
    var steps: [Step] = []
    if !node.isEnqueued { steps.append(.enqueue(draft)) }
    for id in node.shell.loads {
      steps.append(.event(.detailsLoaded(id, node.store.details[id])))
      steps.append(.event(.detailsLoaded(id, nil)))
    }
    for preparation in node.shell.preparations {
      for outcome in [
        PreparedTask.Outcome.ready(source: draft.sourcePath.map { _ in .pinned() }, destination: draft.destination),
        .refused(Refusal(.sourceMissing, "There is no such file.")),
      ] {
        steps.append(.event(.prepared(preparation.token, [PreparedTask(task: task, outcome: outcome)])))
      }
    }
    for attempt in node.shell.opening {
      for length in draft.kind == .data ? [nil] : [Int64?(0), 40, 100] {
        steps.append(.event(.filesOpened(attempt, OpenedFiles(partBytes: length, freeBytes: nil))))
      }
      steps.append(.event(.filesOpened(attempt, OpenedFiles(partBytes: 40, freeBytes: 1))))
      steps.append(.event(.filesFailed(attempt, TransferFailure(.fileWriteFailed, .transient, detail: "I/O."))))
      steps.append(.event(.filesFailed(attempt, TransferFailure(.sourceChanged, .permanent, detail: "Changed."))))
    }
    for wire in node.shell.wires { steps += answers(wire, node) }
    for order in node.shell.finalizing {
      steps.append(.event(.finalized(order.task, .placed(path: order.partPath, bytes: 100, sha256: nil))))
      steps.append(.event(.finalized(order.task, .placed(path: order.partPath, bytes: 0, sha256: nil))))
      for (code, retryability) in [
        (FailureCode.noSpace, Retryability.transient), (.digestMismatch, .permanent), (.partFileLost, .transient),
        (.fileExists, .permanent),
      ] {
        steps.append(.event(.finalized(order.task, .failed(TransferFailure(code, retryability, detail: "It failed.")))))
      }
    }
    steps += commands(node)
    // Each life meets the want of what it requires.
    for conditions in [Conditions.unrestricted, isDiscretionary ? Conditions(hasExternalPower: false) : offline]
    where conditions != node.bench.core.conditions { steps.append(.event(.conditionsChanged(conditions))) }
    if node.bench.core.nextDeadline != nil { steps.append(.time) }
    steps.append(.restart(boot: "boot-1"))
    steps.append(.restart(boot: "boot-2"))
    return steps
  }

  private var isDiscretionary: Bool { draft.isDiscretionary }
  private var offline: Conditions { Conditions(network: .none) }

  private func commands(_ node: Node) -> [Step] {
    guard node.isEnqueued else { return [] }
    let task = Self.task
    let session = Self.session
    var steps: [Step] = [
      .command(.resume([task])), .command(.suspend([task])), .command(.cancel([task])), .command(.remove([task])),
      .command(.update(task, TaskChange(earliestBegin: node.bench.now.wall + .seconds(30)))),
      .command(.closeSession(session)), .event(.peerLeft(Bench.peer)),
      .command(.invalidateSession(session, cancel: false)), .command(.invalidateSession(session, cancel: true)),
    ]
    if node.bench.core.sessions[session] != nil {
      steps.append(
        .command(
          .openSession(
            SessionKey(app: "app", identifier: "s"), attach: true, collectsResults: true, network: NetworkSettings(),
            answersChallenges: true)))
    }
    // A client that was asked answers, also when the question is no more.
    if node.shell.questions.contains(task) {
      for answer in [
        Answer.credential(user: "ann", password: Secret("secret")), .proceed, .cancel,
        .request(RequestChange(headers: [("Authorization", "Bearer fresh")])),
      ] { steps.append(.command(.answer(task, question: nil, answer))) }
    }
    for record in node.shell.offers { steps.append(.command(.acknowledge(session, [record.number]))) }
    return steps
  }

  /// What an engine may report of an attempt.
  private func answers(_ wire: ModelShell.Wire, _ node: Node) -> [Step] {
    let attempt = wire.order.attempt
    func ended(_ end: AttemptEnd, sent: Bool = true) -> Step { .event(.ended(attempt, end, requestWasSent: sent)) }
    func failed(_ code: FailureCode, _ retryability: Retryability, sent: Bool) -> Step {
      ended(.failed(TransferFailure(code, retryability, detail: "It failed.")), sent: sent)
    }
    var steps = [
      failed(.connectionRefused, .transient, sent: false), failed(.connectionLost, .transient, sent: true),
      failed(.certificateUntrusted, .permanent, sent: false),
      .event(.progressed(attempt, held: 0, sent: 50)),
    ]
    guard let verdict = wire.verdict else { return steps + responses(wire) }
    switch verdict {
    case .takeWhole, .continueAt:
      if wire.order.judgement.resume == nil || wire.isReleased || verdict != .takeWhole {
        steps.append(.event(.progressed(attempt, held: 60, sent: 50)))
        steps.append(.event(.synced(attempt, offset: 60)))
        steps.append(ended(.complete(TransferSummary(held: 100, isLengthVerified: true))))
      }
    case .redirect:
      steps.append(ended(.redirected(location: "http://other.test/next")))
      steps.append(ended(.redirected(location: "ftp://other.test/next")))
    case .alreadyComplete, .restart, .retryLater, .ask, .reject: steps.append(ended(.discarded))
    }
    return steps
  }

  private func responses(_ wire: ModelShell.Wire) -> [Step] {
    let attempt = wire.order.attempt
    let later = TransferFailure(.httpStatus, .transient, domain: "http", number: 503, detail: "503.")
    var slow = later
    slow.retryAfterSeconds = 120
    let credentials = TransferFailure(.credentialsRequired, .permanent, detail: "401.")
    let missing = TransferFailure(.httpStatus, .permanent, detail: "404.")
    var steps: [Step] = [
      .event(.responded(attempt, .ok(), .takeWhole)),
      .event(.responded(attempt, .ok(etag: nil), .takeWhole)),
      .event(.responded(attempt, .ok(status: 307), .redirect)),
      .event(.responded(attempt, .ok(status: 303), .redirect)),
      .event(.responded(attempt, .ok(status: 503), .retryLater(later))),
      .event(.responded(attempt, .ok(status: 503), .retryLater(slow))),
      .event(.responded(attempt, .ok(status: 404), .reject(missing))),
    ]
    if let resume = wire.order.judgement.resume {
      steps.append(.event(.responded(attempt, .part(resume.offset), .continueAt(resume.offset))))
      steps.append(.event(.responded(attempt, .ok(status: 416), .restart(reason: "No range."))))
      steps.append(.event(.responded(attempt, .ok(status: 416), .alreadyComplete)))
      steps.append(.event(.responded(attempt, .ok(status: 401), .ask(credentials))))
    }
    return steps
  }

  func apply(_ step: Step, to node: inout Node) {
    switch step {
    case .event(let event):
      node.shell.note(event)
      settle(&node, node.bench.handle(event))
    case .command(let command):
      switch command {
      case .closeSession, .openSession:
        node.shell.questions = []
        node.shell.forgetOffers(of: Self.session)
      case .acknowledge(_, let numbers):
        node.shell.offers.removeAll { numbers.contains($0.number) }
        node.acknowledged.formUnion(numbers)
      case .invalidateSession, .enqueue, .resume, .suspend, .cancel, .remove, .update, .foreground, .app: break
      case .answer(let id, _, _): node.shell.questions.removeAll { $0 == id }
      }
      node.bench.sequence += 1
      let token = RequestToken(peer: Bench.peer, sequence: node.bench.sequence)
      settle(&node, node.bench.handle(.commanded(command, token)))
    case .enqueue(let draft):
      node.isEnqueued = true
      node.bench.sequence += 1
      let token = RequestToken(peer: Bench.peer, sequence: node.bench.sequence)
      settle(&node, node.bench.handle(.commanded(.enqueue(Self.session, [draft]), token)))
    case .time:
      if let due = node.bench.core.nextDeadline {
        node.bench.advance(max(due - node.bench.now.boot, .zero) + .milliseconds(1))
      }
      settle(&node, node.bench.admit())
    case .restart(let boot):
      let configuration = Core.Configuration(managedFolder: Bench.configuration.managedFolder, bootID: boot)
      let (core, effects) = Core.restoring(node.store.state, configuration, at: node.bench.now)
      node.bench.core = core
      node.shell = ModelShell()
      settle(&node, effects + node.bench.admit())
    }
  }

  /// The end of a tick: its changes are committed, and its effects run.
  private func settle(_ node: inout Node, _ effects: [Effect]) {
    _ = node.bench.take()
    node.refused += node.store.apply(node.bench.core.takeChanges())
    for case .begin(let order, _) in effects { node.bench.core.began(order.attempt) }
    node.shell.run(effects)
    node.shell.removedFiles = []
    node.effects = effects
  }
}
