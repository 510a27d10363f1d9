import TransferCore

/// A connection between one process of an app and one life of the daemon. Messages keep their order and take time.
final class Connection {
  enum Arrival {
    case command(Command, Int64)
    case closed
  }

  enum Message {
    case reply(Int64, Reply)
    case offer(DeliveryRecord, TaskView?)
    case announced(TaskView)
    case response(TaskID, ResponseHead)
    case data(TaskID, Span)
    case sessionEnded(SessionID)
    case asked(TaskID, Question, Int64)
    case hangUp
    case wake(session: String, launch: Int64)
  }

  let peer: PeerID
  unowned let world: Simulation
  unowned let app: SimulatedApp
  private let process: Int
  let processID: Int32
  /// The launch that started the process.
  let launch: Int64?
  var inbox: [Arrival] = []
  private var lastToApp: Int64 = 0
  private var lastToDaemon: Int64 = 0

  /// - Parameter isOther: a second process of the app.
  init(_ peer: PeerID, _ app: SimulatedApp, _ world: Simulation, isOther: Bool = false) {
    self.peer = peer
    self.app = app
    self.world = world
    process = app.process
    processID = isOther ? Int32(1_000_000_000 + peer.rawValue) : app.processID
    launch = isOther ? nil : app.launchNumber
  }

  /// From the daemon.
  func send(_ message: Message) {
    lastToApp = max(lastToApp + 1, world.now + world.dice.nanoseconds(milliseconds: 0...3))
    world.schedule(at: lastToApp) { [self] in
      guard app.process == process, app.isAlive, app.connection === self else { return }
      app.take(message)
    }
  }

  func hangUp() { send(.hangUp) }

  /// From the app.
  func post(_ arrival: Arrival) {
    lastToDaemon = max(lastToDaemon + 1, world.now + world.dice.nanoseconds(milliseconds: 0...3))
    world.schedule(at: lastToDaemon) { [self] in
      guard let living = world.daemon, living.peers[peer] === self else { return }
      inbox.append(arrival)
      living.wake()
    }
  }
}

/// A client program: it writes down what it wants before it asks, and what it got before it acknowledges.
final class SimulatedApp {
  struct Wish {
    var key: String
    var draft: TaskDraft
    var id: TaskID?
    /// The daemon refused it, or its result was collected.
    var isOver = false
  }

  let index: Int
  unowned let world: Simulation
  let key: SessionKey
  /// False: the command's way, which watches and removes in place of collecting.
  let collects: Bool
  private let limit: Int

  // What is on its disk.
  private(set) var wishes: [Wish] = []
  private var lastWish = 0
  /// Resume data that it has not used.
  private var tickets: [ResumeToken] = []
  /// What it had removed: it does not look for those files any more.
  private var removed: Set<TaskID> = []

  // The process.
  var process = 0
  var processID: Int32 { Int32(index * 10_000_000 + process) }
  var isAlive = false
  /// Set in a process that the daemon started.
  var launchNumber: Int64?
  /// It has closed its session, and waits in the background.
  var isDozing = false
  let isRegistered: Bool
  private(set) var connection: Connection?
  var session: SessionID?
  private var isOpening = false
  private var sequence: Int64 = 0
  private var pending: [(sequence: Int64, peer: PeerID, command: Command)] = []
  private var pickedUp: Set<TaskID> = []
  private var buffers: [TaskID: Content] = [:]
  /// Results in hand that were not handled yet.
  private var offers: [(DeliveryRecord, TaskView?)] = []
  /// What this process has handled: its acknowledgement is on its way.
  private var handled: Set<StoreImage.DeliveryKey> = []

  init(_ index: Int, _ world: Simulation) {
    self.index = index
    self.world = world
    collects = index != 2
    key = SessionKey(app: "app\(index)", identifier: "main")
    limit = world.dice.pick([1, 2, 6])
    isRegistered = collects && world.dice.below(4) > 0
  }

  var isSettled: Bool { pending.isEmpty && wishes.allSatisfy { $0.isOver || $0.id != nil } }

  func isWatching(_ session: SessionKey) -> Bool { !collects && isAlive && session == key }

  // MARK: Life

  func launch() {
    guard !isAlive else { return comeToFront() }
    process += 1
    isAlive = true
    launchNumber = nil
    world.trace("app \(index) starts")
    connect()
    act()
  }

  func die() {
    guard isAlive else { return }
    world.trace("app \(index) dies")
    isAlive = false
    isDozing = false
    if let launch = launchNumber { tellEnd(of: launch, .exited(code: 1)) }
    launchNumber = nil
    connection?.post(.closed)
    connection = nil
    session = nil
    pending.removeAll()
    buffers.removeAll()
    offers.removeAll()
    handled.removeAll()
    pickedUp.removeAll()
    comeBackWhenCalm()
  }

  /// The socket breaks while both sides live.
  func disconnect() {
    guard isAlive, let connection else { return }
    connection.post(.closed)
    lose()
  }

  private func lose() {
    connection = nil
    session = nil
    later(10...800) { $0.connect() }
  }

  func calmDown() {
    // What it did not acknowledge comes again when it comes again.
    if !isAlive { launch() } else if connection == nil { connect() } else { disconnect() }
    tidy()
  }

  func later(_ milliseconds: ClosedRange<Int>, _ body: @escaping (SimulatedApp) -> Void) {
    let process = process
    world.schedule(after: world.dice.nanoseconds(milliseconds: milliseconds)) { [unowned self] in
      guard isAlive, self.process == process else { return }
      body(self)
    }
  }

  func connect() {
    guard isAlive, connection == nil else { return }
    guard let daemon = world.daemon, !daemon.isDead else { return later(50...500) { $0.connect() } }
    world.lastPeer += 1
    let made = Connection(PeerID(rawValue: world.lastPeer), self, world)
    connection = made
    isOpening = false
    daemon.accept(made)
    open()
  }

  func open() {
    isDozing = false
    guard connection != nil, !isOpening else { return }
    isOpening = true
    let network = NetworkSettings(maximumConnectionsPerHost: limit)
    ask(
      .openSession(
        key, attach: collects, collectsResults: collects, network: network, answersChallenges: collects))
  }

  // MARK: Asking

  func ask(_ command: Command) {
    guard let connection else { return }
    sequence += 1
    pending.append((sequence, connection.peer, command))
    if case .remove(let ids) = command { removed.formUnion(ids) }
    world.tell(.asked(app: index, command))
    connection.post(.command(command, sequence))
  }

  /// After a reconnect a client sends again what had no reply.
  private func askAgain() {
    let lost = pending.filter { $0.peer != connection?.peer }
    pending.removeAll { $0.peer != connection?.peer }
    for item in lost {
      switch item.command {
      // It has just opened the session anew; a close that was lost with the connection is done.
      case .openSession, .closeSession, .foreground: continue
      case .invalidateSession, .enqueue, .resume, .suspend, .cancel, .remove, .update, .answer, .acknowledge, .app:
        ask(item.command)
      }
    }
  }

  /// What it does by itself, now and then. A process that the daemon started only collects.
  func act() {
    guard !world.isCalm, launchNumber == nil else { return }
    if let session {
      switch world.dice.below(10) {
      case 0...3: enqueue(in: session)
      case 4...7: control(session)
      default: meddle(session)
      }
    }
    later(50...2500) { $0.act() }
  }

  private func enqueue(in session: SessionID) {
    let open = wishes.count { !$0.isOver }
    guard open < 14 else {
      // Its list is full: it lets all go on, and gives one up.
      guard !knownIDs.isEmpty else { return }
      ask(.resume(knownIDs))
      return ask(.cancel([world.dice.pick(knownIDs)]))
    }
    var drafts: [TaskDraft] = []
    for _ in 0..<world.dice.within(1...3) {
      lastWish += 1
      let draft = withTicket(makeDraft("w\(index)-\(lastWish)"))
      let wish = Wish(key: "w\(index)-\(lastWish)", draft: draft)
      wishes.append(wish)
      drafts.append(wish.draft)
    }
    ask(.enqueue(session, drafts))
  }

  /// The draft, perhaps one that goes on from a part that was kept.
  private func withTicket(_ draft: TaskDraft) -> TaskDraft {
    guard draft.kind == .download, let ticket = tickets.first, world.dice.below(2) == 0 else { return draft }
    var resuming = draft
    resuming.resumeToken = ticket
    if !world.strikes(.ticketUsedAgain, perMille: 200) { tickets.removeFirst() }
    return resuming
  }

  private var knownIDs: [TaskID] { wishes.filter { !$0.isOver }.compactMap(\.id) }

  private func control(_ session: SessionID) {
    guard world.strikes(.taskControl, perMille: 300) else { return }
    if world.strikes(.unknownIdentifier, perMille: 100) {
      ask(.cancel([TaskID(rawValue: 1_000_000_000)]))
      ask(.acknowledge(session, [DeliveryNumber(rawValue: 77_777), DeliveryNumber(rawValue: -1)]))
      ask(.update(TaskID(rawValue: -4), TaskChange(priority: 3)))
    }
    guard !knownIDs.isEmpty else { return }
    let id = world.dice.pick(knownIDs)
    switch world.dice.below(9) {
    case 0, 1: ask(.suspend([id]))
    case 2, 3, 4: ask(.resume([id]))
    case 5: ask(.cancel([id], producesResumeData: world.dice.below(3) > 0))
    case 6: ask(.remove([id]))
    case 7: ask(.update(id, TaskChange(taskDescription: "x", priority: UInt8(world.dice.below(256)))))
    default:
      let date = world.wall + .milliseconds(world.dice.within(-5000...60_000))
      ask(.update(id, TaskChange(earliestBegin: date)))
    }
  }

  private func meddle(_ session: SessionID) {
    if world.strikes(.sessionInvalidation, perMille: 10) {
      ask(.invalidateSession(session, cancel: world.dice.below(2) == 0))
    } else if collects, world.strikes(.sessionClosing, perMille: 40) {
      ask(.closeSession(session))
      open()
    } else if collects, world.strikes(.secondProcess, perMille: 60) {
      intrude()
    } else if isRegistered, world.strikes(.background, perMille: 60) {
      doze(session)
    }
  }

  /// Another process tries to attach to the same session, and ends.
  private func intrude() {
    guard let daemon = world.daemon, !daemon.isDead else { return }
    world.lastPeer += 1
    let other = Connection(PeerID(rawValue: world.lastPeer), self, world, isOther: true)
    daemon.accept(other)
    other.post(
      .command(
        .openSession(
          key, attach: true, collectsResults: true, network: NetworkSettings(maximumConnectionsPerHost: limit)), 1))
    world.schedule(after: world.dice.nanoseconds(milliseconds: 100...2000)) { other.post(.closed) }
  }

  // MARK: Hearing

  func take(_ message: Connection.Message) {
    switch message {
    case .reply(let sequence, let reply):
      guard let index = pending.firstIndex(where: { $0.sequence == sequence }) else { return }
      let command = pending.remove(at: index).command
      world.tell(.replied(app: self.index, command, reply))
      take(reply, to: command)
    case .offer(let record, let view):
      world.tell(.offered(app: index, process: process, record, view))
      offers.append((record, view))
      if offers.count == 1 { collectSoon() }
    case .announced(let view):
      world.tell(.announced(app: index, view))
      if !collects, view.entry.state.isFinished { later(0...2000) { $0.pickUp(view) } }
    case .response(let id, _): buffers[id] = buffers[id] ?? Content()
    case .data(let id, let span): buffers[id, default: Content()].append(span)
    case .sessionEnded(let id):
      guard session == id else { return }
      session = nil
      later(0...200) { $0.open() }
    case .asked(let id, let question, let number): answerLater(id, question, number)
    case .hangUp: lose()
    case .wake(_, let launch): woken(launch)
    }
  }

  private func take(_ reply: Reply, to command: Command) {
    if case .openSession = command { isOpening = false }
    switch (command, reply) {
    case (.openSession, .sessionOpened(let id, _, _)):
      session = id
      if isRegistered { register() }
      askAgain()
      resumeWishes(in: id)
    case (.openSession, _): later(200...3000) { $0.open() }
    case (.cancel, .cancelled(_, _, let kept)):
      for part in kept where !tickets.contains(part.token) { tickets.append(part.token) }
    case (.answer, .identifiers): world.coverage.note(.answerTaken)
    case (.answer, .refused): world.coverage.note(.answerRefused)
    case (.enqueue(_, let drafts), .enqueued(let outcomes)):
      // It may die before it wrote the answer down, and then asks again under the same keys.
      if world.strikes(.forgottenReply, perMille: 60) {
        die()
        world.schedule(after: world.dice.nanoseconds(milliseconds: 100...5000)) { [unowned self] in launch() }
        return
      }
      for (draft, outcome) in zip(drafts, outcomes) { note(outcome, draft) }
    case (.enqueue, .refused(let refusal)):
      if refusal.name == .degraded { return later(500...4000) { $0.retryWishes() } }
      // It goes when its last result was collected, and its successor may be opened.
      if refusal.name == .sessionInvalidated {
        // In the calm `tidy` asks again, or the same question would be most of what happens.
        return world.isCalm ? () : later(2000...20_000) { $0.retryWishes() }
      }
      session = nil
      later(2000...20_000) { $0.open() }
    default: break
    }
  }

  private func retryWishes() {
    if let session { resumeWishes(in: session) }
  }

  private func resumeWishes(in session: SessionID) {
    var asked: Set<String> = []
    for item in pending {
      if case .enqueue(_, let drafts) = item.command { asked.formUnion(drafts.compactMap(\.key)) }
    }
    let missing = wishes.filter { $0.id == nil && !$0.isOver && !asked.contains($0.key) }
    guard !missing.isEmpty else { return }
    world.coverage.note(.enqueuedAgain)
    ask(.enqueue(session, missing.map(\.draft)))
  }

  private func note(_ outcome: EnqueueOutcome, _ draft: TaskDraft) {
    guard let index = wishes.firstIndex(where: { $0.key == draft.key }) else { return }
    switch outcome {
    case .accepted(let id, _, _, _): wishes[index].id = id
    case .refused: wishes[index].isOver = true
    }
  }

  // MARK: Collecting

  /// Results are handled one after another, in their order.
  private func collectSoon() {
    later(world.strikes(.lateAcknowledgement, perMille: 100) ? 2000...90_000 : 0...120) { app in
      guard !app.offers.isEmpty else { return }
      let (record, view) = app.offers.removeFirst()
      app.collect(record, view)
      if !app.offers.isEmpty { app.collectSoon() }
    }
  }

  private func collect(_ record: DeliveryRecord, _ view: TaskView?) {
    let name = StoreImage.DeliveryKey(session: record.session, number: record.number)
    if let view, !handled.contains(name) { look(at: view, record.kind) }
    handled.insert(name)
    if world.strikes(.missingAcknowledgement, perMille: 60) { return }
    ask(.acknowledge(record.session, [record.number]))
    if record.kind == .completion, let id = record.task { finishWish(id) }
    if record.kind == .finishEvents { reportSoon() }
    if world.strikes(.doubleAcknowledgement, perMille: 60) { ask(.acknowledge(record.session, [record.number])) }
  }

  private func finishWish(_ id: TaskID) {
    for index in wishes.indices where wishes[index].id == id { wishes[index].isOver = true }
    if wishes.count > 200 { wishes.removeAll { $0.isOver } }
  }

  /// The command saw the end of its task: it looks at the file, and has the record removed.
  private func pickUp(_ view: TaskView) {
    guard pickedUp.insert(view.entry.id).inserted else { return }
    look(at: view, .completion)
    ask(.remove([view.entry.id]))
    finishWish(view.entry.id)
  }

  private func look(at view: TaskView, _ kind: DeliveryKind) {
    guard view.entry.state == .finished(.succeeded), !removed.contains(view.entry.id) else { return }
    if view.entry.kind == .data, kind == .completion {
      let content = buffers.removeValue(forKey: view.entry.id) ?? Content()
      // Bytes that were on a connection when it broke are lost: the client counts, and takes fewer for a failure.
      if content.length == view.entry.received { world.tell(.received(view, content)) }
    }
    // A managed file belongs to the app with its own delivery; by the completion it may be gone.
    let isManaged = view.plan?.destination == .managed
    switch kind {
    case .file, .body: break
    case .completion: if isManaged, collects { return }
    case .finishEvents: return
    }
    guard let path = kind == .body ? view.progress?.bodyPath : view.progress?.filePath else { return }
    world.tell(.collected(view, path: path, world.disk.names[path]?.content))
  }

  // MARK: The calm at the end

  /// Now and then it looks through its list, wakes what sleeps, and clears what has ended.
  func tidy() {
    guard world.isCalm else { return }
    if let session, let core = world.daemon?.core {
      var sleeping: [TaskID] = []
      var ended: [TaskID] = []
      var dated: [TaskID] = []
      core.tasks.forEach { cell in
        guard cell.entry.session == session else { return }
        switch cell.entry.state {
        case .suspended, .asking: sleeping.append(cell.entry.id)
        case .finished: if !collects { ended.append(cell.entry.id) }
        case .waiting:
          // A date that it chose while the clock was wrong lies far ahead, and is honoured: it changes its mind.
          if cell.entry.failures == 0, let date = cell.entry.notBefore, date > world.wall + .seconds(3600) {
            dated.append(cell.entry.id)
          }
        case .running, .finalizing: break
        }
      }
      if !sleeping.isEmpty { ask(.resume(sleeping)) }
      if !ended.isEmpty { ask(.remove(ended)) }
      for id in dated { ask(.update(id, TaskChange(earliestBegin: world.wall))) }
      resumeWishes(in: session)
    }
    later(20_000...600_000) { $0.tidy() }
  }
}
