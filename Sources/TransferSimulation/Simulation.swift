import TransferCore

package struct SimulationOptions: Sendable {
  package var seed: UInt64
  /// Core events until faults stop and everything must end.
  package var events: Int
  /// Fault kinds that stay off.
  package var without: [FaultKind]
  /// Fault kinds that are on, and strike often.
  package var always: [FaultKind]
  package var bug: PlantedBug?
  /// Keep the last lines of what happened.
  package var isTraced: Bool
  /// Print each line as it happens.
  package var isVerbose: Bool

  package init(
    seed: UInt64, events: Int, without: [FaultKind] = [], always: [FaultKind] = [], bug: PlantedBug? = nil,
    isTraced: Bool = false,
    isVerbose: Bool = false
  ) {
    self.seed = seed
    self.events = events
    self.without = without
    self.always = always
    self.bug = bug
    self.isTraced = isTraced
    self.isVerbose = isVerbose
  }
}

package struct SimulationReport: Sendable {
  package var options: SimulationOptions
  package var events: Int
  /// The checker that found something, and what; nil when all is well.
  package var checker: String?
  package var finding: String
  package var enabledFaults: [FaultKind]
  package var coverage: Coverage
  package var traceHash: UInt64
  /// How much time passed in the world.
  package var simulated: Duration
  package var tail: [String]
}

/// A seeded world around the real core: clocks, network, servers, disk, store, apps, and a daemon that dies. One
/// thread, no clock and no chance of its own: the same options give the same history.
package final class Simulation {
  let options: SimulationOptions
  var dice: Dice
  /// Apart from the others, so that rest changes nothing in a seed that has none.
  private var restDice: Dice
  private let isRestful: Bool
  var faults: FaultPlan
  let bug: PlantedBug?

  // Time.
  private(set) var now: Int64 = 0
  private var bootStart: Int64 = 0
  private(set) var bootNumber = 1
  var wallOffsetMilliseconds: Int64 = 0 {
    didSet { if wallOffsetMilliseconds != oldValue { wallSettings += 1 } }
  }
  /// How often the calendar clock was set: set there and back, it shows what it would have shown.
  private(set) var wallSettings = 0
  private var agenda = BinaryHeap<Due>()
  private var happenings: [Int64: () -> Void] = [:]
  private var lastHappening: Int64 = 0

  // Things.
  let disk = Disk()
  var store = StoreImage()
  var servers: Servers
  private(set) var daemon: SimulatedDaemon?
  var apps: [SimulatedApp] = []
  var lastPeer: Int64 = 0
  var networkDownUntil: Int64 = 0
  /// What the device's sources say, and when they may say that all is well again.
  var device = Conditions.unrestricted
  var deviceChangesAt: Int64 = 0
  var storeFailsUntil: Int64 = 0
  var diskFullUntil: Int64 = 0

  // Books.
  private(set) var events = 0
  private(set) var violation: Violation?
  var coverage = Coverage()
  private var hash: UInt64 = 0xCBF2_9CE4_8422_2325
  private var tail: [String] = []
  private var checkers: [any Checker] = []
  private var ticks = 0
  var isCalm: Bool { faults.isCalm }

  private struct Due: Hashable, Comparable, Sendable {
    var at: Int64
    var number: Int64
    static func < (left: Self, right: Self) -> Bool {
      left.at != right.at ? left.at < right.at : left.number < right.number
    }
  }

  package init(_ options: SimulationOptions) {
    self.options = options
    bug = options.bug
    dice = Dice(seed: options.seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
    restDice = Dice(seed: options.seed &* 0x9E37_79B9_7F4A_7C15 &+ 2)
    isRestful = restDice.below(2) == 0
    faults = FaultPlan(&dice, without: options.without, always: options.always)
    servers = Servers(&dice, objects: 6)
    checkers = Checkers.all()
    for index in 0..<3 { apps.append(SimulatedApp(index, self)) }
    startDaemon()
    for app in apps { schedule(after: dice.nanoseconds(milliseconds: 0...500)) { app.launch() } }
    schedule(after: 200_000_000) { [unowned self] in changeWeather() }
  }

  /// Whether a daemon that has nothing to do lets go of what it can read again: in half of the seeds, and there at one
  /// of four times.
  func rests() -> Bool { isRestful && restDice.below(4) == 0 }

  // MARK: Running

  /// Runs the world to its end.
  package func run() -> SimulationReport {
    // Hosts may ask for a rest of a day, and apps have nothing to add meanwhile.
    let bound: Int64 = 90 * 86_400_000_000_000
    while violation == nil, events < options.events, now < bound, step() {}
    if violation == nil { settle() }
    coverage.note(faults: faults.struck)
    return SimulationReport(
      options: options, events: events, checker: violation?.checker, finding: violation?.text ?? "",
      enabledFaults: faults.enabled, coverage: coverage, traceHash: hash, simulated: .nanoseconds(now), tail: tail)
  }

  private func step() -> Bool {
    guard let due = agenda.pop() else { return false }
    now = max(now, due.at)
    happenings.removeValue(forKey: due.number)?()
    return true
  }

  /// Faults stop: within three days all work has ended, was told, and nothing is left.
  private func settle() {
    faults.isCalm = true
    networkDownUntil = 0
    device = .unrestricted
    storeFailsUntil = 0
    diskFullUntil = 0
    disk.isFull = false
    wallOffsetMilliseconds = 0
    trace("faults stop")
    if daemon == nil { startDaemon() }
    for app in apps { app.calmDown() }
    let end = now + 3 * 86_400_000_000_000
    while violation == nil, now < end, !isSettled, step() {}
    guard violation == nil else { return }
    let inTime = isSettled
    if inTime {
      // One more start: the sweep removes what no task owns.
      daemon?.die()
      startDaemon()
      let sweepEnd = now + 60_000_000_000
      while violation == nil, now < sweepEnd, step() {}
    }
    if violation == nil { tell(.settled(inTime: inTime)) }
  }

  private var isSettled: Bool {
    guard let daemon, daemon.core.tasks.count == 0, daemon.isQuiet, store.deliveries.isEmpty else { return false }
    return apps.allSatisfy(\.isSettled)
  }

  func schedule(after nanoseconds: Int64, _ body: @escaping () -> Void) {
    schedule(at: now.addingClamped(max(0, nanoseconds)), body)
  }

  func schedule(at moment: Int64, _ body: @escaping () -> Void) {
    lastHappening += 1
    happenings[lastHappening] = body
    agenda.push(Due(at: moment, number: lastHappening))
  }

  func reading() -> ClockReading {
    ClockReading(
      boot: BootInstant(nanoseconds: now - bootStart + 1_000_000_000),
      wall: WallInstant(milliseconds: 1_700_000_000_000 + now / 1_000_000 + wallOffsetMilliseconds),
      randomWord: dice.word())
  }

  /// The latest that the wall clock has ever told.
  private(set) var latestWall = WallInstant(milliseconds: 0)

  /// The wall clock without a new random word.
  var wall: WallInstant {
    WallInstant(milliseconds: 1_700_000_000_000 + now / 1_000_000 + wallOffsetMilliseconds)
  }

  var boot: BootInstant { BootInstant(nanoseconds: now - bootStart + 1_000_000_000) }

  /// The machine slept: clocks that count suspend went on, and nothing was done.
  func suspendMachine(for nanoseconds: Int64) { now += nanoseconds }

  // MARK: The daemon's lives

  func startDaemon() {
    guard daemon == nil || daemon?.isDead == true else { return }
    tell(.daemonStarted)
    let started = SimulatedDaemon(self)
    guard !started.isDead else { return }
    daemon = started
    for checker in checkers {
      if let text = (checker as? AcceptedWorkChecker)?.compare(started.core, with: store) {
        report(checker.name, text)
      }
    }
  }

  func crashDaemon() {
    guard let dying = daemon, !dying.isDead else { return }
    trace("daemon dies")
    coverage.note(.restartAfterCrash)
    noteDeath(of: dying)
    dying.die()
    daemon = nil
    tell(.daemonDied(isReboot: false))
    for app in apps { app.connection?.hangUp() }
    schedule(after: dice.nanoseconds(milliseconds: 10...2000)) { [unowned self] in startDaemon() }
  }

  func reboot() {
    trace("reboot")
    coverage.note(.restartAfterReboot)
    if let dying = daemon {
      noteDeath(of: dying)
      dying.die()
    }
    daemon = nil
    tell(.daemonDied(isReboot: true))
    for app in apps { app.die() }
    let before = disk.names.values.reduce(Int64(0)) { $0 + $1.content.length }
    disk.loseCache(&dice, at: now)
    let after = disk.names.values.reduce(Int64(0)) { $0 + $1.content.length }
    if after < before { coverage.note(.rebootTookBytes) }
    now += dice.nanoseconds(milliseconds: 2000...60_000)
    bootStart = now
    bootNumber += 1
    schedule(after: dice.nanoseconds(milliseconds: 10...2000)) { [unowned self] in startDaemon() }
    for app in apps { schedule(after: dice.nanoseconds(milliseconds: 100...20_000)) { app.launch() } }
  }

  private func noteDeath(of dying: SimulatedDaemon) {
    var finalizing = false
    dying.core.tasks.forEach { if $0.entry.state == .finalizing { finalizing = true } }
    if finalizing { coverage.note(.crashWhileFinalizing) }
    let placed = disk.names.keys.contains { disk.names[$0].map { disk.isPublished($0) } ?? false }
    if finalizing, placed { coverage.note(.crashAfterPlacing) }
    if !dying.engine.isEmpty { coverage.note(.crashWithDirtyPart) }
  }

  // MARK: Books

  func strikes(_ kind: FaultKind, perMille: Int) -> Bool {
    let does = faults.strikes(kind, &dice, perMille: perMille)
    if does { trace("fault \(kind)") }
    return does
  }

  func tell(_ fact: Fact) {
    for checker in checkers {
      guard let text = checker.take(fact, in: self) else { continue }
      report(checker.name, text)
    }
  }

  func report(_ checker: String, _ text: String) {
    guard violation == nil else { return }
    trace("VIOLATION \(checker): \(text)")
    violation = Violation(checker: checker, text: text)
  }

  func note(_ event: Event) {
    events += 1
    coverage.note(event)
    mix(UInt64(bitPattern: now))
    mix(Self.digest(event))
    trace("event \(event)")
  }

  func note(_ effect: Effect) {
    coverage.note(effect)
    if case .announce(_, .progress) = effect { return }
    mix(0x5555)
    trace("effect \(effect)")
  }

  func noteTick() {
    ticks += 1
    latestWall = max(latestWall, wall)
    if let core = daemon?.core, ticks % 5 == 0 || isCalm {
      core.tasks.forEach { coverage.note($0.entry.state) }
    }
    tell(.ticked)
  }

  /// Enough of an event to tell two histories apart, without `Hasher`, which is seeded anew in each process.
  private static func digest(_ event: Event) -> UInt64 {
    switch event {
    case .commanded(_, let token): UInt64(bitPattern: token.peer.rawValue &* 1000 &+ token.sequence)
    case .peerLeft(let peer): UInt64(bitPattern: peer.rawValue) ^ 0x100
    case .prepared(let token, _): UInt64(bitPattern: token.sequence) ^ 0x200
    case .detailsLoaded(let id, _): UInt64(bitPattern: id.rawValue) ^ 0x300
    case .filesOpened(let attempt, let files): UInt64(bitPattern: attempt.rawValue &+ (files.partBytes ?? -1)) ^ 0x400
    case .filesFailed(let attempt, _): UInt64(bitPattern: attempt.rawValue) ^ 0x500
    case .responded(let attempt, let head, _): UInt64(bitPattern: attempt.rawValue) ^ UInt64(head.status) << 32
    case .progressed(let attempt, let held, let sent): UInt64(bitPattern: attempt.rawValue &+ held << 20 &+ sent << 40)
    case .synced(let attempt, let offset): UInt64(bitPattern: attempt.rawValue &+ offset << 24) ^ 0x600
    case .ended(let attempt, _, let wasSent): UInt64(bitPattern: attempt.rawValue) ^ (wasSent ? 0x700 : 0x800)
    case .finalized(let id, _): UInt64(bitPattern: id.rawValue) ^ 0x900
    case .storeChanged(let degraded, _): degraded == nil ? 0xA00 : 0xB00
    case .app: 0xC00
    case .measured(let attempt, _): UInt64(bitPattern: attempt.rawValue) ^ 0xC00
    case .drainRequested: 0xD00
    case .handedOver: 0xE00
    case .conditionsChanged(let conditions): UInt64(conditions.satisfied.rawValue) ^ 0xC00
    }
  }

  private func mix(_ word: UInt64) { hash = (hash ^ word) &* 0x100_0000_01B3 }

  func trace(_ text: @autoclosure () -> String) {
    guard options.isTraced || options.isVerbose else { return }
    let line = "\(Double(now / 1_000_000) / 1000) s  \(text())"
    if options.isVerbose { print(line) }
    tail.append(line)
    if tail.count > 4000 { tail.removeFirst(2000) }
  }
}
