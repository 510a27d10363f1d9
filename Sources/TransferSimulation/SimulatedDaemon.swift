import TransferCore

/// One life of the daemon: the real core in a shell that mirrors `Daemon+Tick` and `Daemon+Effects` of the real one,
/// with workers and a store thread that take time, fail, and die with it.
final class SimulatedDaemon {
  enum Report {
    case stored(number: Int64, failure: String?, loaded: [(TaskID, TaskDetails?)])
    case read(Int64, [(TaskID, TaskDetails?)])
    case prepared(RequestToken, [PreparedTask])
    case opened(AttemptID, OpenedParts?, TransferFailure?)
    case finalized(String, [(TaskID, FinalizeOutcome)])
    case found([(path: String, task: TaskID)])
    case app(AppEvent)
    case restartRequested
  }

  struct OpenedParts {
    var part: Inode?
    var source: Inode?
    var freeBytes: Int64
    var isPlaced = false
  }

  struct Batch {
    var number: Int64
    var changes: [StoreChange] = []
    var loads: [TaskID] = []
    /// How many ticks it gathers.
    var ticks = 0
  }

  unowned let world: Simulation
  var core: Core
  private(set) lazy var engine = SimulatedEngine(world, self)
  private(set) var isDead = false

  // The tick.
  private var isTickDue = false
  /// When a restart waits no longer for transfers that cannot be continued.
  private var restartDue: BootInstant?
  private var tickNumber = 0
  private let engineBudget: Int
  var mailbox: [Report] = []

  // Peers.
  var peers: [PeerID: Connection] = [:]
  private var peerOrder: [PeerID] = []

  // Commits.
  private var nextBatch = Batch(number: 1)
  private(set) var isCommitInFlight = false
  private var submitted = Batch(number: 0)
  private var failedBatch: Batch?
  private var retryCommitAt: BootInstant?
  private var lastDurable: Int64 = 0
  private(set) var gated: [(commit: Int64, effect: Effect)] = []
  private var firstGated = 0
  /// Announcements of a task's state among the gated effects.
  private(set) var announcing: [TaskID: Int] = [:]

  /// Tasks whose rows are not on the disk yet, with the commit that brings them.
  private var unrecorded: [TaskID: Int64] = [:]

  // Work of other threads.
  var readers: [Int64: ([(TaskID, TaskDetails?)]) -> Void] = [:]
  private var lastReader: Int64 = 0
  private var arrivedReadings: [(reader: Int64, readings: [(TaskID, TaskDetails?)])] = []
  var offerReads = 0
  var opening: Set<AttemptID> = []
  var opened: [AttemptID: OpenedParts] = [:]
  var finalizing: [String: [FinalizeOrder]] = [:]
  var busyFolders: Set<String> = []
  /// Files whose removal is on its way.
  var removing: [String] = []
  private var lastNamesJob: Int64 = 0
  private var storeJobs: [() -> Void] = []
  private var isStoreBusy = false

  init(_ world: Simulation) {
    self.world = world
    engineBudget = world.dice.pick([64, 1024])
    let configuration = Core.Configuration(managedFolder: Places.managed, bootID: "boot-\(world.bootNumber)")
    var stored = world.store.state
    let pinned = world.disk.list(Places.sources).compactMap(Places.owner(of:))
    stored.lastTaskID = max(stored.lastTaskID, pinned.max() ?? stored.lastTaskID)
    let (core, effects) = Core.restoring(stored, configuration, at: world.reading())
    self.core = core
    perform(effects)
    sweep()
    wake()
  }

  // MARK: Time

  /// Something waits: a tick follows soon.
  func wake() {
    guard !isTickDue, !isDead else { return }
    isTickDue = true
    let delay = world.dice.below(4) == 0 ? world.dice.nanoseconds(milliseconds: 0...3) : 20_000
    world.schedule(after: delay) { [weak self] in self?.tick() }
  }

  private func tick() {
    guard !isDead else { return }
    isTickDue = false
    tickNumber += 1
    let now = world.reading()
    var effects: [Effect] = []
    gatherConditions(now, &effects)
    gatherReports(now, &effects)
    gatherEngine(now, &effects)
    gatherPeers(now, &effects)
    let isLast = gatherRestart(now, &effects)
    if world.strikes(.crashInTick, perMille: 1) { return world.crashDaemon() }
    var later = now
    if world.bug == .impatient { later.boot = later.boot + .seconds(3600) }
    effects += core.admit(at: later)
    commit()
    perform(effects)
    passOnReadings()
    guard !isDead else { return }
    // What it hands over is in a commit on its way, which may be lost like any other.
    if isLast { return world.crashDaemon() }
    world.noteTick()
    sleep(now)
  }

  private func sleep(_ now: ClockReading) {
    if !engine.queue.isEmpty || peerOrder.contains(where: { peers[$0]?.inbox.isEmpty == false }) { return wake() }
    // The real one waits for a second first.
    if gated.isEmpty, !isCommitInFlight, failedBatch == nil, world.rests() {
      world.coverage.note(.rested)
      core.rest()
    }
    guard let due = [core.nextDeadline, retryCommitAt, restartDue].compactMap({ $0 }).min() else { return }
    let number = tickNumber
    let delay = max(0, (due - now.boot).nanosecondsClamped)
    world.schedule(after: delay) { [weak self] in
      guard let self, tickNumber == number else { return }
      tick()
    }
  }

  // MARK: Restart

  /// Somebody asked for it.
  func restartSoon() { post(.restartRequested) }

  /// True in its last tick.
  private func gatherRestart(_ now: ClockReading, _ effects: inout [Effect]) -> Bool {
    guard let due = restartDue, core.drainees.isEmpty || due <= now.boot else { return false }
    effects += handle(.handedOver, now)
    return true
  }

  // MARK: Gather

  func handle(_ event: Event, _ now: ClockReading) -> [Effect] {
    world.note(event)
    let before = core.staleEvents
    let effects = core.handle(event, at: now)
    if core.staleEvents > before { world.coverage.note(.staleEventDropped) }
    return effects
  }

  private func gatherConditions(_ now: ClockReading, _ effects: inout [Effect]) {
    guard world.device != core.conditions else { return }
    let isBetter = world.device.satisfied.isSuperset(of: core.conditions.satisfied)
    if world.bug == .conditionsIgnored, !isBetter { return }
    let before = core.runningCount
    effects += handle(.conditionsChanged(world.device), now)
    if core.runningCount < before { world.coverage.note(.stoppedByConditions) }
  }

  private func gatherReports(_ now: ClockReading, _ effects: inout [Effect]) {
    let reports = mailbox
    mailbox.removeAll()
    for report in reports {
      switch report {
      case .stored(let number, let failure, let loaded): committed(number, failure, loaded, now, &effects)
      case .read(let number, let readings): arrivedReadings.append((number, readings))
      case .prepared(let token, let tasks): effects += handle(.prepared(token, tasks), now)
      case .opened(let attempt, let parts, let failure): tookFiles(attempt, parts, failure, now, &effects)
      case .finalized(let folder, let outcomes):
        for (task, outcome) in outcomes { effects += handle(.finalized(task, outcome), now) }
        busyFolders.remove(folder)
        startFinalizing(folder)
      case .app(let event):
        effects += handle(.app(event), now)
        if world.bug == .budgetNotDoubled, case .launched(let app, _, _) = event {
          effects += handle(.commanded(.app(.front(app)), RequestToken(peer: PeerID(rawValue: 0), sequence: 0)), now)
        }
      case .found(let files):
        let orphans = files.filter { !core.mustKeepFiles(of: $0.task) }.map(\.path)
        if !orphans.isEmpty { effects.append(.removeFiles(orphans)) }
      case .restartRequested:
        guard restartDue == nil else { continue }
        restartDue = now.boot + Limits.drain
        effects += handle(.drainRequested, now)
      }
      guard !isDead else { return }
    }
    if let due = retryCommitAt, due <= now.boot {
      retryCommitAt = nil
      if let batch = failedBatch {
        failedBatch = nil
        submit(batch)
      }
    }
  }

  private func gatherEngine(_ now: ClockReading, _ effects: inout [Effect]) {
    guard !isDead else { return }
    for report in engine.drain(limit: engineBudget) {
      let attempt = presentAttempt(report.attempt)
      switch report {
      case .responded(_, let head, let verdict): effects += handle(.responded(attempt, head, verdict), now)
      case .progressed(_, let held, let sent): effects += handle(.progressed(attempt, held: held, sent: sent), now)
      case .received(_, let span): passOn(span, of: attempt)
      case .synced(_, let offset): effects += handle(.synced(attempt, offset: offset), now)
      case .ended(_, let end, let wasSent):
        let isHidden = world.bug == .nonRepeatableRetried && !mayRepeat(attempt)
        effects += handle(.ended(attempt, end, requestWasSent: wasSent && !isHidden), now)
      }
    }
  }

  private func mayRepeat(_ attempt: AttemptID) -> Bool {
    core.taskOnWire(attempt).flatMap { core.tasks[$0]?.entry.isRepeatable } ?? true
  }

  /// The planted fault: an old attempt's events count for whatever runs now.
  private func presentAttempt(_ attempt: AttemptID) -> AttemptID {
    guard world.bug == .staleAttemptAccepted, core.taskOnWire(attempt) == nil else { return attempt }
    var present: AttemptID?
    core.tasks.forEach { cell in if let running = cell.entry.state.attempt { present = present ?? running } }
    return present ?? attempt
  }

  private func gatherPeers(_ now: ClockReading, _ effects: inout [Effect]) {
    for id in peerOrder {
      var budget = 8
      while !isDead, budget > 0, let peer = peers[id], !peer.inbox.isEmpty {
        budget -= 1
        switch peer.inbox.removeFirst() {
        case .command(let command, let sequence):
          let token = RequestToken(peer: id, sequence: sequence)
          effects += noteProcess(command, of: peer, now)
          effects += handle(.commanded(world.bent(command), token), now)
        case .closed:
          peers[id] = nil
          peerOrder.removeAll { $0 == id }
          if world.bug == .deliveryDroppedOnDetach { dropOffers(of: id, now, &effects) }
          effects += handle(.peerLeft(id), now)
        }
      }
    }
  }

  private func dropOffers(of peer: PeerID, _ now: ClockReading, _ effects: inout [Effect]) {
    for session in core.sessions.order where core.sessions[session]?.attached == peer {
      let numbers = core.sessions[session]?.deliveries.records.map(\.number) ?? []
      let token = RequestToken(peer: peer, sequence: -1)
      if !numbers.isEmpty { effects += handle(.commanded(.acknowledge(session, numbers), token), now) }
    }
  }

  func accept(_ connection: Connection) {
    peers[connection.peer] = connection
    peerOrder.append(connection.peer)
  }

  // MARK: Commit

  private func commit() {
    let changes = core.takeChanges()
    for case .addTask(let entry, _) in changes { unrecorded[entry.id] = nextBatch.number }
    if !changes.isEmpty { nextBatch.ticks += 1 }
    nextBatch.changes += changes
    submitNextBatch()
  }

  func load(_ id: TaskID) {
    nextBatch.loads.append(id)
    submitNextBatch()
  }

  private func submitNextBatch() {
    guard !isCommitInFlight, failedBatch == nil, !nextBatch.changes.isEmpty || !nextBatch.loads.isEmpty else { return }
    let batch = nextBatch
    nextBatch = Batch(number: batch.number + 1)
    if batch.ticks > 1 { world.coverage.note(.groupCommit) }
    submit(batch)
  }

  private func submit(_ batch: Batch) {
    isCommitInFlight = true
    submitted = batch
    onStoreThread { [unowned self] in
      let failure = batch.changes.isEmpty ? nil : world.storeFailure()
      if failure == nil { world.commit(batch.changes) }
      if failure != nil { world.coverage.note(.commitFailed) }
      let loaded = batch.loads.map { ($0, world.store.reading($0)) }
      isCommitInFlight = false
      let isHidden = world.bug == .commitNotRetried
      post(.stored(number: batch.number, failure: isHidden ? nil : failure, loaded: loaded))
    }
  }

  /// Jobs of the store thread run one after another, and each takes time.
  private func onStoreThread(_ job: @escaping () -> Void) {
    storeJobs.append(job)
    turnStore()
  }

  private func turnStore() {
    guard !isStoreBusy, !storeJobs.isEmpty else { return }
    isStoreBusy = true
    let isSlow = world.strikes(.slowStore, perMille: 30)
    world.schedule(after: world.dice.nanoseconds(milliseconds: isSlow ? 200...4000 : 0...8)) { [weak self] in
      guard let self, !isDead else { return }
      isStoreBusy = false
      storeJobs.removeFirst()()
      turnStore()
    }
  }

  private var newestCommit: Int64 { nextBatch.changes.isEmpty ? nextBatch.number - 1 : nextBatch.number }

  private func committed(
    _ number: Int64, _ failure: String?, _ loaded: [(TaskID, TaskDetails?)], _ now: ClockReading,
    _ effects: inout [Effect]
  ) {
    if let failure {
      failedBatch = submitted
      retryCommitAt = now.boot + .seconds(1)
      effects += handle(.storeChanged(degraded: failure), now)
      return
    }
    if core.degraded != nil { effects += handle(.storeChanged(degraded: nil), now) }
    lastDurable = number
    unrecorded = unrecorded.filter { $0.value > number }
    for (id, details) in loaded { effects += handle(.detailsLoaded(id, details), now) }
    submitNextBatch()
  }

  private func runGated() {
    while !isDead, firstGated < gated.count, gated[firstGated].commit <= lastDurable {
      firstGated += 1
      let effect = gated[firstGated - 1].effect
      // A state is told as it is now, so it may be newer than this commit: then the announcement behind it tells it.
      if case .announce(let id, .state) = effect, let count = announcing[id] {
        announcing[id] = count > 1 ? count - 1 : nil
        if count > 1 { continue }
      }
      if core.isStillMeant(effect) { carryOut(effect) }
    }
    if firstGated == gated.count {
      gated.removeAll(keepingCapacity: true)
      firstGated = 0
    }
  }

  // MARK: Act

  func perform(_ effects: [Effect]) {
    let commit = newestCommit
    var free: [Effect] = []
    for effect in reordered(effects) {
      guard waits(effect), commit > lastDurable || firstGated < gated.count else {
        free.append(effect)
        continue
      }
      gated.append((commit, effect))
      if case .announce(let id, .state) = effect { announcing[id, default: 0] += 1 }
    }
    runGated()
    for effect in free { if isDead { noteLostRemoval(effect) } else { carryOut(effect) } }
  }

  private func passOnReadings() {
    let arrived = arrivedReadings
    arrivedReadings.removeAll()
    for (number, readings) in arrived where !isDead { readers.removeValue(forKey: number)?(readings) }
  }

  /// A removal follows its commit, and dies with the daemon although that commit may be in.
  func noteLostRemoval(_ effect: Effect) {
    guard case .removeFiles(let paths) = effect else { return }
    for path in paths { world.disk.lostRemovals.insert(path) }
  }

  /// Whether the effect may run only when its tick is durable; planted faults forget it.
  private func waits(_ effect: Effect) -> Bool {
    switch (world.bug, effect) {
    case (.acknowledgeBeforeCommit, .reply), (.offerBeforeCommit, .offer), (.beginBeforeCommit, .begin),
      (.removedBeforeCommit, .removeFiles):
      false
    default: effect.needsCommit && !isOnRecord(effect)
    }
  }

  private func isOnRecord(_ effect: Effect) -> Bool { effect.needsRowOf.map { unrecorded[$0] == nil } ?? false }

  private func reordered(_ effects: [Effect]) -> [Effect] {
    guard world.bug == .finishEventsEarly else { return effects }
    func isEnd(_ effect: Effect) -> Bool {
      if case .offer(_, let record) = effect { record.kind == .finishEvents } else { false }
    }
    return effects.filter(isEnd) + effects.filter { !isEnd($0) }
  }

  // MARK: Threads

  func post(_ report: Report) {
    guard !isDead else { return }
    mailbox.append(report)
    wake()
  }

  /// Runs a worker's job after a while, if the daemon still lives.
  func onWorker(_ milliseconds: ClosedRange<Int>, _ job: @escaping (SimulatedDaemon) -> Void) {
    let isSlow = world.strikes(.slowDisk, perMille: 20)
    world.schedule(after: world.dice.nanoseconds(milliseconds: isSlow ? 300...3000 : milliseconds)) { [weak self] in
      guard let self, !isDead else { return }
      job(self)
    }
  }

  /// Runs a job about names: those of one filesystem run one after another, in the order in which they were given.
  func onNames(_ milliseconds: ClosedRange<Int>, _ job: @escaping (SimulatedDaemon) -> Void) {
    let isSlow = world.strikes(.slowDisk, perMille: 20)
    let delay = world.dice.nanoseconds(milliseconds: isSlow ? 300...3000 : milliseconds)
    lastNamesJob = max(lastNamesJob + 1, world.now + delay)
    world.schedule(at: lastNamesJob) { [weak self] in
      guard let self, !isDead else { return }
      job(self)
    }
  }

  func read(_ ids: [TaskID], then body: @escaping ([(TaskID, TaskDetails?)]) -> Void) {
    lastReader += 1
    let number = lastReader
    readers[number] = body
    onStoreThread { [unowned self] in post(.read(number, ids.map { ($0, world.store.reading($0)) })) }
  }

  private func sweep() {
    for folder in [Places.managed, Places.sources] {
      onWorker(1...400) { daemon in
        daemon.post(
          .found(daemon.world.disk.list(folder).compactMap { path in Places.owner(of: path).map { (path, $0) } }))
      }
    }
  }

  // MARK: The end

  /// Killed: what it had in memory is gone. A commit that was on its way is in, or is not.
  func die() {
    guard !isDead else { return }
    isDead = true
    if firstGated < gated.count { world.coverage.note(.crashWithGatedEffects) }
    if engine.holdsBodies { world.coverage.note(.crashWithBodyHeld) }
    if isCommitInFlight, !submitted.changes.isEmpty {
      world.coverage.note(.crashWithCommitInFlight)
      if world.dice.below(2) == 0 {
        world.coverage.note(.inFlightCommitSurvived)
        world.commit(submitted.changes)
      } else {
        world.coverage.note(.inFlightCommitLost)
      }
    }
    for path in removing { world.disk.lostRemovals.insert(path) }
    for waiting in gated[firstGated...] { noteLostRemoval(waiting.effect) }
    engine.die()
    peers.removeAll()
    readers.removeAll()
    storeJobs.removeAll()
  }

  var isQuiet: Bool {
    engine.isEmpty && engine.queue.isEmpty && mailbox.isEmpty && gated.isEmpty && !isCommitInFlight
      && failedBatch == nil && nextBatch.changes.isEmpty && busyFolders.isEmpty && removing.isEmpty
  }
}

/// Where the daemon and its clients keep files.
enum Places {
  static let managed = "/state/Downloads"
  static let sources = "/state/sources"
  static let home = "/home/user"

  /// "…/ferry-17.tmp" → 17
  static func owner(of path: String) -> TaskID? {
    guard let slash = path.lastIndex(of: "/") else { return nil }
    let name = path[path.index(after: slash)...]
    guard name.hasPrefix("ferry-"), let dot = name.firstIndex(of: ".") else { return nil }
    return Int64(name[name.index(name.startIndex, offsetBy: 6)..<dot]).map { TaskID(rawValue: $0) }
  }

  static func folder(of path: String) -> String { path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "/" }
}
