/// All decisions of the daemon: `(state, event) → effects`. It imports nothing, reads no clock and no file; what it
/// knows of the world came in as an ``Event``.
///
/// Read on in `Core+Commands` (what clients ask), `Core+Attempts` (a task on the wire), `Core+Endings` (results),
/// `Core+Deliveries` (who is told) and `Reconciliation` (what a restart makes of what it finds).
package struct Core: Hashable, Sendable {
  package struct Configuration: Hashable, Sendable {
    /// Folder under which the daemon keeps part files and finished files, without a slash at its end.
    package var managedFolder: String
    /// Names the present boot of the machine.
    package var bootID: String
    /// A result that nobody collects is kept so long.
    package var retention: Duration
    /// Transfers at once over all hosts.
    package var runningLimit: Int
    package var launches: LaunchPolicy

    package init(
      managedFolder: String, bootID: String, retention: Duration = Limits.retention,
      runningLimit: Int = Limits.running, launches: LaunchPolicy = .standard
    ) {
      self.managedFolder = managedFolder
      self.bootID = bootID
      self.retention = retention
      self.runningLimit = runningLimit
      self.launches = launches
    }
  }

  package let configuration: Configuration
  package internal(set) var tasks = TaskTable()
  package internal(set) var sessions = SessionTable()
  package internal(set) var apps = AppTable()
  var admission = Admission()
  var timers = BinaryHeap<Timer>()
  /// Tasks on their way to or on the wire.
  var active: [TaskID: ActiveTask] = [:]
  var attemptOwners: [AttemptID: TaskID] = [:]
  /// Details in memory: of every active or changed task, and of some that wait.
  var details: [TaskID: TaskDetails] = [:]
  var detailsOrder: [TaskID] = []
  /// Tasks in line whose details were asked for before their turn.
  var prefetched: Set<TaskID> = []
  /// Batches whose files are being looked at.
  var intakes: [RequestToken: Intake] = [:]
  /// Commands that wait until the details of their tasks are loaded.
  var heldCommands = CommandQueue()
  /// Tasks whose details the store could not read.
  var unreadable: Set<TaskID> = []
  /// Tasks that were changed or ended without their details, so that something of them was lost: a fault of ours, which
  /// the simulation looks for.
  private(set) var changedBlindly: [TaskID] = []
  /// Restored tasks whose details are needed to finish what the last daemon began; see ``conclude(_:_:)``.
  var unreconciled: Set<TaskID> = []
  var destinationOwners: [UInt64: TaskID] = [:]
  var keyOwners: [KeyDigest: TaskID] = [:]
  /// Part files of tasks that have ended, by their token; see `Core+KeptParts`.
  var keptParts: [ResumeToken: KeptPart] = [:]
  /// Oldest first.
  var keptOrder: [ResumeToken] = []
  /// By the task whose id stands in the file's name.
  var keptOf: [TaskID: ResumeToken] = [:]
  /// Parts that a batch is about to take, while its files are looked at.
  var claimedParts: Set<ResumeToken> = []
  /// Task → whose part file it goes on in; and who does so now.
  var adoptions: [TaskID: TaskID] = [:]
  var adoptedBy: [TaskID: TaskID] = [:]
  /// Another daemon is about to take over: nothing new begins.
  package internal(set) var isDraining = false
  var lastTaskID = TaskID(rawValue: 0)
  var lastSessionID = SessionID(rawValue: 0)
  var lastAttempt = AttemptID(rawValue: 0)
  /// Why new work is refused; nil where it is taken.
  package internal(set) var degraded: String?
  /// Nothing can be stored, not even the end of a task.
  package internal(set) var isStuck = false
  /// Since when it is.
  var degradedSince: WallInstant?
  package internal(set) var conditions = Conditions.unrestricted
  var unmetSince = UnmetSince()
  /// The last conditions that were known had no network.
  var wasOffline = false
  /// What some task has required since the start; see ``noteDemand(_:)``.
  package internal(set) var demanded: Constraints = []
  /// Waiting tasks of foreground sessions whose constraints may not be met; see ``judgeConditions(_:)``.
  var unjudged: [TaskID] = []
  /// Events that were about nothing that exists any more.
  package internal(set) var staleEvents = 0

  // The work of one tick.
  var effects: [Effect] = []
  var changes: [StoreChange] = []
  var removals: [StoreChange] = []
  var dirtyTasks: [TaskID] = []
  var random = RandomWords(seed: 0)
  /// Wall clock minus boot clock, in milliseconds, by which calendar dates were turned into moments; nil before the
  /// first reading.
  var wallOffset: Int64?

  package init(_ configuration: Configuration) {
    self.configuration = configuration
    admission.runningLimit = configuration.runningLimit
  }

  /// When something is due although no event came; nil: never. A moment that has passed: more is due than one tick
  /// takes (``Limits/dueInTick``).
  package var nextDeadline: BootInstant? {
    [admission.nextDeadline, timers.top?.at, apps.nextDeadline].compactMap { $0 }.min()
  }

  /// Takes one fact in.
  package mutating func handle(_ event: Event, at now: ClockReading) -> [Effect] {
    random = RandomWords(seed: now.randomWord ^ UInt64(bitPattern: lastAttempt.rawValue) ^ random.next())
    switch event {
    case .commanded(let command, let token): receive(command, token, now)
    case .peerLeft(let peer):
      detach(peer, now)
      leaveApps(peer, now)
    case .prepared(let token, let prepared): accept(prepared, token, now)
    case .detailsLoaded(let id, let loaded): take(loaded, of: id, now)
    case .filesOpened(let attempt, let files): begin(attempt, files, now)
    case .filesFailed(let attempt, let failure): filesFailed(attempt, failure, now)
    case .responded(let attempt, let head, let verdict): note(head, verdict, attempt, now)
    case .progressed(let attempt, let held, let sent): noteProgress(attempt, held: held, sent: sent)
    case .synced(let attempt, let offset): noteSync(attempt, offset)
    case .ended(let attempt, let ending, let requestWasSent): end(attempt, ending, requestWasSent, now)
    case .finalized(let id, let outcome): finalized(id, outcome, now)
    case .storeChanged(let reason, let isWriting):
      isStuck = reason != nil && !isWriting
      degradedSince = reason.map { _ in degradedSince ?? now.wall }
      degraded = reason
    case .conditionsChanged(let conditions): take(conditions, now)
    case .app(let event): handle(event, now)
    case .measured(let attempt, let metrics): note(metrics, attempt)
    case .drainRequested: beginDraining()
    case .handedOver: handOver(now)
    }
    return takeEffects()
  }

  /// Once a tick: what has become due, and tasks for the slots that are free.
  package mutating func admit(at now: ClockReading) -> [Effect] {
    followWallClock(now)
    fireTimers(now)
    for id in admission.wake(at: now.boot) { line(up: id, now) }
    judgeConditions(now)
    while !isDraining, let place = admission.popCandidate(at: now.boot) {
      let id = place.task
      guard let cell = tasks[id], admission.isCurrent(place, cell) else { continue }
      tasks[id]?.isQueued = false
      guard mayRun(cell, now) else {
        if let wakeAt = cell.wakeAt, wakeAt > now.boot { line(up: id, now) }
        continue
      }
      if cell.entry.asksFirst {
        askFirst(id)
        continue
      }
      admission.occupy(cell.lane, at: now.wall)
      start(id, now)
    }
    turnApps(now)
    return takeEffects()
  }

  /// The changes since the last call, one row at most once, in an order in which they can be applied.
  package mutating func takeChanges() -> [StoreChange] {
    // Removals first: what they free (a session's name, a task's key) may have been taken again in the same tick.
    var ordered = removals
    for record in sessions.takeDirty() { ordered.append(.putSession(record)) }
    for change in apps.takeDirty() { ordered.append(.app(change)) }
    for id in dirtyTasks {
      guard let cell = tasks[id] else { continue }
      if cell.isNew, let held = details[id] {
        ordered.append(.addTask(cell.entry, held))
      } else {
        ordered.append(.updateTask(cell.entry, progress: cell.isProgressDirty ? details[id]?.progress : nil))
      }
      tasks[id]?.clearDirt()
    }
    for change in changes where isStillMeant(change) { ordered.append(change) }
    dirtyTasks.removeAll(keepingCapacity: true)
    changes.removeAll(keepingCapacity: true)
    removals.removeAll(keepingCapacity: true)
    // Many of the order may be of tasks that are gone.
    if detailsOrder.count > 2 * details.count + 64 { forgetOrderOfGone() }
    if details.count > 2 * Limits.residentDetails { evictDetails(keeping: Limits.residentDetails) }
    return ordered
  }

  /// False for what went in the same tick, and may never have had a row.
  private func isStillMeant(_ change: StoreChange) -> Bool {
    switch change {
    case .addDelivery(let record):
      sessions[record.session] != nil && record.task.map { tasks[$0] != nil } ?? true
    case .addKeptPart(let part): keptParts[part.token] != nil
    case .putSession, .removeSession, .addTask, .updateTask, .removeTask, .forgetSecrets, .removeDelivery,
      .removeKeptPart, .app:
      true
    }
  }

  /// Details where they are in memory; else the store has them.
  package func residentDetails(_ id: TaskID) -> TaskDetails? { details[id] }

  /// Whether they are. (Asking for them would copy them.)
  func isResident(_ id: TaskID) -> Bool { details.index(forKey: id) != nil }

  /// They are in the store: what changes or ends the task must wait for them.
  func lacksDetails(_ id: TaskID) -> Bool { !isResident(id) && !unreadable.contains(id) }

  /// Whether an effect that waited for its commit is still meant: to be asked just before it is run. The stop of an
  /// attempt waits for nothing, so it may have come before the attempt's own begin, which would then be nobody's; a
  /// result may have gone, or its client, before it could be offered.
  ///
  /// Mutating only for its caller: a struct in a class is copied for each call that does not claim it as `inout`.
  package mutating func isStillMeant(_ effect: Effect) -> Bool {
    switch effect {
    case .begin(let order, _): owner(order.attempt) != nil
    case .releaseBody(let attempt), .openFiles(let attempt, _): owner(attempt) != nil
    case .finalize(let order): tasks[order.task]?.entry.state == .finalizing
    case .offer(let peer, let record):
      sessions[record.session].map { $0.attached == peer && $0.deliveries.contains(record.number) } ?? false
    case .app(let effect): isStillMeant(effect)
    case .ask(let peer, let id):
      tasks[id].map { $0.entry.state == .asking && sessions[$0.entry.session]?.attached == peer } ?? false
    case .reply, .announce, .endSession, .prepare, .discardPreparation, .loadDetails, .stop, .removeFiles,
      .foreground:
      true
    }
  }

  /// The task of an attempt that is on the wire.
  package func taskOnWire(_ attempt: AttemptID) -> TaskID? { owner(attempt) }

  package var runningCount: Int { admission.running }

  /// Some work is unfinished, or a date lies ahead: the daemon must not go away.
  package var hasUnfinishedWork: Bool {
    sessions.unfinishedCount > 0 || !intakes.isEmpty || hasUnfinishedLaunches
  }

  // MARK: Inside

  /// Arms a timer. Those that nothing waits for any more are let go when they are the most: a program that runs for
  /// weeks makes one for each task, and its task is gone in a second.
  mutating func arm(_ timer: Timer) {
    timers.push(timer)
    guard timers.count > 1024, timers.count > 4 * (tasks.count + sessions.count) else { return }
    let table = tasks
    timers = BinaryHeap(
      timers.elements.filter { timer in
        switch timer.subject {
        case .deadline(let id): table[id]?.deadlineAt == timer.at
        case .retention(let id), .finalizing(let id), .urgency(let id): table[id] != nil
        case .dataGrace, .keptPart, .session: true
        }
      })
  }

  private mutating func takeEffects() -> [Effect] {
    // Not `removeAll(keepingCapacity:)`: the caller still holds the old storage, so that a new one, as large as the
    // largest tick's, would be made for each event.
    defer { effects = [] }
    return effects
  }

  /// Notes that the row of a task must be written; `progress` also its second half.
  mutating func touch(_ id: TaskID, progress: Bool = false) {
    if progress { noteBlindness(id) }
    guard tasks.noteDirt(of: id, progress: progress) else { return }
    dirtyTasks.append(id)
  }

  mutating func noteBlindness(_ id: TaskID) {
    if lacksDetails(id), tasks[id] != nil { changedBlindly.append(id) }
  }

  mutating func keepResident(_ id: TaskID, _ held: TaskDetails) {
    if details.updateValue(held, forKey: id) == nil { detailsOrder.append(id) }
  }

  /// Nothing happens for now: details that nobody needs are read again when somebody does. For moments in which every
  /// change is in the store.
  package mutating func rest() {
    evictDetails(keeping: 0)
    tidyLanes()
  }

  private mutating func tidyLanes() {
    guard admission.isUntidy else { return }
    var isUsed = [Bool](repeating: false, count: admission.lanes.count)
    tasks.forEach { isUsed[Int($0.lane)] = true }
    tasks.moveLanes(admission.tidy(isUsed))
  }

  /// Lets go of the oldest details that nobody needs now. While the store cannot write, its rows are not the truth, and
  /// everything stays.
  private mutating func evictDetails(keeping kept: Int) {
    // A command that waits needs the details of all its tasks at once.
    guard !isStuck, heldCommands.isEmpty else { return }
    forgetOrderOfGone()
    let evictable = detailsOrder.filter { !needsDetails($0) }
    // First those that have the longest to wait: the oldest of the waiting ones are the next to run.
    let waiting = evictable.filter { tasks[$0]?.entry.state == .waiting }.sorted(by: >)
    let others = evictable.filter { tasks[$0]?.entry.state != .waiting }
    for id in (waiting + others).prefix(max(0, details.count - kept)) { details[id] = nil }
    forgetOrderOfGone()
  }

  private mutating func forgetOrderOfGone() { detailsOrder = detailsOrder.filter { isResident($0) } }

  private func needsDetails(_ id: TaskID) -> Bool {
    guard let cell = tasks[id] else { return false }
    return active[id] != nil || cell.isDirty || cell.entry.state == .finalizing
  }
}

/// A digest of (session, key): 128 bits, so that keys need not stay in memory as text.
package struct KeyDigest: Hashable, Sendable {
  private var high: UInt64
  private var low: UInt64

  package init(session: SessionID, key: String) {
    high = FNV.hash(key, seed: UInt64(bitPattern: session.rawValue))
    low = FNV.hash(key, seed: high ^ 0x9E37_79B9_7F4A_7C15)
  }
}

/// FNV-1a with a seed; for tables inside one process, where nobody profits from a collision.
package enum FNV {
  package static func hash(_ text: String, seed: UInt64 = 0) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325 ^ seed
    for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return hash
  }
}

/// Something that becomes due. Stale ones are recognised when they fire.
package struct Timer: Hashable, Comparable, Sendable {
  package enum Subject: Hashable, Sendable {
    case deadline(TaskID)
    case retention(TaskID)
    case keptPart(ResumeToken)
    /// Nobody uses it.
    case session(SessionID)
    case dataGrace(SessionID)
    /// Placing a result failed for want of space.
    case finalizing(TaskID)
    /// A discretionary task has waited for good conditions for long enough.
    case urgency(TaskID)
  }

  package var at: BootInstant
  package var subject: Subject

  package static func < (left: Self, right: Self) -> Bool { left.at < right.at }
}

/// What is known of a task only while it is on its way to or on the wire.
package struct ActiveTask: Hashable, Sendable {
  package enum Phase: Hashable, Sendable {
    case loading, opening, onTheWire
    /// The attempt is over: the client of a foreground session decides about a redirect, or about a challenge.
    case deciding
  }

  package var phase: Phase
  package var attempt: AttemptID
  /// This hop's request, without the fields that one attempt adds.
  package var request: TransferRequest?
  package var hops = 0
  /// This attempt follows a redirect.
  package var cameByRedirect = false
  /// What the client decides about, where it is no redirect.
  package var challenge: PendingChallenge?
  /// What the client gave a credential for, last.
  package var answered: Challenge?
  /// The server that was turned away last.
  package var shown: ShownServer?
  /// What this attempt asked to continue.
  package var resume: ResumePoint?
  package var verdict: ResponseVerdict?
  package var head: ResponseHead?
  /// The body was accepted, and none of it is known to be in the part file: until then the file may hold what it held
  /// before, for which the new validator does not vouch.
  package var awaitsFirstByte = false
  /// What the row will vouch for from the first byte of a whole body on.
  package var newPoint: ResumePoint?
  /// Some byte of the representation arrived in this attempt.
  package var madeProgress = false
  package var beganAt: BootInstant
  /// The request is not sent before its row says so, and nothing of it has been: see ``Core/began(_:)``.
  package var awaitsRecord = false
  /// What a whole body has room for: free bytes of the filesystem, and those that it would replace. Nil where unknown.
  package var roomBytes: Int64?
  /// Suspended without leaving the wire; it holds no slot.
  package var isPaused = false
}

/// A challenge before the client of a foreground session.
package struct PendingChallenge: Hashable, Sendable {
  package var challenge: Challenge
  /// How the task ends where nothing is said to the challenge and no response came with it.
  package var failure: TransferFailure
}

/// A batch whose sources and destinations are being looked at.
package struct Intake: Hashable, Sendable {
  package var session: SessionID
  package var slots: [Slot]

  package enum Slot: Hashable, Sendable {
    case settled(EnqueueOutcome)
    case pending(TaskID, TaskDraft)
  }

  func isPreparing(_ id: TaskID) -> Bool {
    slots.contains { slot in
      if case .pending(id, _) = slot { true } else { false }
    }
  }
}
