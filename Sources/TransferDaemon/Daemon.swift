import CurlEngine
import DeviceConditions
import Glibc
import LinuxSystem
import TransferCore
import TransferStore
import WireProtocol

/// The daemon's parts, put together; one thread turns its loop. Read `Daemon+Tick` first.
final class Daemon {
  static let version = "0.1"

  /// Facts that other threads report to the loop.
  enum Report: Sendable {
    case stored(StoreThread.Outcome)
    case reserve(isHeld: Bool)
    case read(Int64, StoreThread.Reading)
    case prepared(RequestToken, [PreparedTask])
    case opened(AttemptID, Swift.Result<FileJobs.Opened, FileJobs.FileFailure>)
    case finalized(FileWorkers.Work, String, [(TaskID, FinalizeOutcome)])
    case found([String], [TaskID])
    case removed(FileJobs.Removal)
    case app(AppReport)
    case device(DeviceFacts)
  }

  let directories: FerryDirectories
  let log: Log
  let loop: EventLoop
  let mailbox: Mailbox<Report>
  let files: FileWorkers
  let store: StoreThread
  /// Where the database really is, and what transfers leave free on its filesystem.
  let recordsPath: String
  let recordsRoom: KeptRoom
  let quarantined: [String]
  let startedAt = BootInstant.now()
  let exitsWhenIdle: Duration?
  let bridge: EventLoopBridge
  let engine: CurlEngine
  var core: Core

  // Peers.
  var listener: Listener
  var listening: EventLoop.Registration?
  /// Set while no connection can be taken (no descriptors, say).
  var listensAgainAt: BootInstant?
  let mountWatch: OwnedDescriptor
  var peers: [PeerID: Peer] = [:]
  /// In the order of their connecting: what a tick goes through.
  var peerOrder: [PeerID] = []
  /// Where the next turn begins in it: behind the last one that this turn had time for.
  var firstPeer = 0
  var lastPeer: Int64 = 0
  var watchersOfAll: [PeerID] = []
  var watchers: [TaskID: [PeerID]] = [:]
  /// Who began to watch in this turn, and what.
  var newWatches: [(peer: PeerID, tasks: [TaskID])] = []
  var unflushed: [PeerID] = []
  /// Clients that are told something when a commit is durable (Daemon+Holding.swift), and whether some of it does not
  /// know yet when.
  var holding: [PeerID] = []
  var hasNewHolds = false

  // Conditions (ConditionsDesk.swift).
  var desk = ConditionsDesk()
  var device: DeviceConditions?
  var watchedConditions: Constraints = []
  /// Somebody asked to see all of them.
  var demandedByPeers: Constraints = []
  var conditionQuestions: [RequestToken] = []

  // Commits.
  var nextBatch = StoreThread.Batch(number: 1)
  /// Details that the core waits for, read with the next batches.
  var wantedLoads = LoadQueue()
  var isCommitInFlight = false
  /// Somebody waits for what is in `nextBatch`.
  var isCommitAwaited = false
  var lastCommitEnd = BootInstant(nanoseconds: 0)
  /// When a commit that nobody waits for is handed over at the latest.
  var nextCommitAt: BootInstant?
  /// The batch that is on its way, kept until it is in.
  var submitted = StoreThread.Batch(number: 0)
  var submittedAt = BootInstant(nanoseconds: 0)
  var failedBatch: StoreThread.Batch?
  var retryCommitAt: BootInstant?
  /// When it is looked again whether the disk has room for the reserve.
  var reserveCheckAt: BootInstant?
  var lastDurable: Int64 = 0
  /// Tasks whose row is not on the disk yet; with the commit that brings it, in order.
  var unrecorded: Set<TaskID> = []
  var unrecordedOrder: [(commit: Int64, task: TaskID)] = []
  /// Effects that wait for a commit, in order.
  var gated: [(commit: Int64, effect: Effect)] = []
  var firstGated = 0
  /// How many announcements of the task's state wait for their commits, and the newest of these. A state is told as it
  /// is now: only when none waits is that on the disk.
  var announcing: [TaskID: (count: Int, commit: Int64)] = [:]
  var commits: Int64 = 0

  // Work of other threads.
  var readers: [Int64: Reader] = [:]
  var lastReader: Int64 = 0
  var arrivedReadings: [(reader: Int64, reading: StoreThread.Reading)] = []
  /// What the store could not be asked, and when it is asked again.
  var unansweredReaders: [Int64] = []
  var unansweredLoads: [TaskID] = []
  var retryReadsAt: BootInstant?
  /// Reads of details for offers that are on their way: later offers queue behind them.
  var offerReads = 0
  var opening: [AttemptID: Void] = [:]
  /// What this turn has to open, for one job a filesystem.
  var openings: [(worker: Worker, orders: [(AttemptID, OpenOrder)])] = []
  /// Before it no file is opened on the loop's thread.
  var opensHereFrom = BootInstant(nanoseconds: 0)
  var opened: [AttemptID: FileJobs.Opened] = [:]
  var preparing: [RequestToken: (remaining: Int, done: [PreparedTask])] = [:]
  var finalizing: [FinalizeQueue] = []
  var finalizesAgainAt: BootInstant?

  // Apps.
  let environment = ProcessEnvironment.current()
  let appWatch: FolderWatch
  var launchedApps: [LaunchedApp] = []
  let scopes: AppScopes
  /// Why the last launched app has no scope, for the log.
  var lastUnscoped: ScopeFailure?
  /// The folder of registrations; nil where there is none to be watched.
  var appFolder: String?
  var outputFolder: Int32 = -1
  var isTrimming = false
  var refusedRegistrations: [RefusedRegistration] = []

  // The tick.
  var scratch = [UInt8](repeating: 0, count: 64 << 10)
  /// Other threads have reported something.
  var hasReports = false
  /// Files to remove at the end of the turn.
  var removals: [String] = []
  var discards = PartDiscards()
  /// For the core's choices, none of which is a secret: seeded by the kernel once, not asked in every turn.
  var random = RandomWords(seed: Clocks.randomWord())
  var engineEvents: [EngineEvent] = []
  /// Tasks whose state changed and is still to be told: in this turn, or soon where it is one that passes by itself.
  var changed: [TaskID] = []
  var passing: [TaskID] = []
  var untoldSet: Set<TaskID> = []
  var nextPassing: BootInstant?
  var progressed: [TaskID] = []
  var progressedSet: Set<TaskID> = []
  var nextProgress: BootInstant?
  /// Body bytes of data tasks that this turn brought.
  var clientBytes: [(client: PeerID, attempt: AttemptID, notice: TaskBytesNotice)] = []
  var pausedForClient: [AttemptID: PeerID] = [:]
  var hasBacklog = false
  var isStopping = false
  /// When a restart waits no longer for transfers that cannot be continued.
  var restartDue: BootInstant?
  /// This process becomes the next daemon when it has stopped.
  var isRestarting = false
  /// Tasks whose results go soon, to be logged in this turn.
  var expiring: [TaskID] = []
  var idleSince: BootInstant?
  /// When it is looked whether the daemon is at rest; nil: it is. A start is work, too.
  var restsAt: BootInstant? = BootInstant.now()
  var lastWork = BootInstant.now()
  var turns = TurnHistogram()

  /// Starts from what is stored. Blocks while the database is read.
  init(_ options: DaemonOptions, listener: consuming Listener, log: Log) throws(DaemonFailure) {
    directories = options.directories
    self.log = log
    exitsWhenIdle = options.exitsWhenIdle
    scopes = AppScopes(runtimeFolder: environment["XDG_RUNTIME_DIR"].flatMap { $0.hasPrefix("/") ? $0 : nil })
    self.listener = listener
    do {
      loop = try EventLoop()
      mailbox = try Mailbox<Report>()
      files = try FileWorkers()
      mountWatch = try FilesystemMap.openChangeWatch()
      appWatch = try FolderWatch()
      try Files.makePrivateDirectory(options.managedFolder)
      try Files.makePrivateDirectory(options.sourcesFolder)
      var reserve = StateReserve(in: directories.state)
      recordsRoom = KeptRoom(bytes: reserve.sizeBytes)
      var (opened, state, leftovers) = try StoreThread.open(path: options.databasePath, &reserve)
      recordsPath = Files.realPath(options.databasePath) ?? options.databasePath
      let wasDamaged = opened.recovered != nil
      if let note = opened.recovered { log.write(.error, "The database was damaged: \(note)") }
      state.lastTaskID = max(state.lastTaskID, Self.lastNamed(options, rowsWereLost: wasDamaged))
      quarantined = state.quarantined.map { "\($0.table) \($0.rowID): \($0.reason)" }
      store = try StoreThread(opened, reserve)
      bridge = try EventLoopBridge(loop)
      engine = try bridge.makeEngine()
      let bootID = try Clocks.bootID()
      let reading = Self.readClock(randomWord: Clocks.randomWord())
      let (core, effects) = Core.restoring(
        state,
        Core.Configuration(
          managedFolder: options.managedFolder, bootID: bootID, retention: options.retention,
          launches: LaunchPolicy.of(environment)),
        at: reading)
      self.core = core
      for note in quarantined { log.write(.error, "A stored row could not be read and was set aside: \(note)") }
      log.write(.notice, "ferryd \(Self.version) started with \(core.tasks.count) tasks in \(directories.state)")
      try watchBasics()
      checkReserve()
      startConditions()
      perform(effects)
      removals += leftovers.map(\.path)
      removeGathered()
      watchApps()
      // Of what lost rows spoke of, something may still be wanted.
      if !wasDamaged { sweep(options) }
    } catch let error as DaemonFailure {
      throw error
    } catch {
      throw DaemonFailure("\(error)")
    }
  }

  /// The highest task id that a file of ours is named by. A source is pinned before its task is on record, and so under
  /// an id that the database may not know to be given; after the loss of rows a result can be too.
  private static func lastNamed(_ options: DaemonOptions, rowsWereLost: Bool) -> TaskID {
    let folders = rowsWereLost ? [options.sourcesFolder, options.managedFolder] : [options.sourcesFolder]
    return folders.flatMap(FileJobs.named(in:)).map(\.task).max() ?? TaskID(rawValue: 0)
  }

  static func readClock(randomWord: UInt64) -> ClockReading {
    ClockReading(boot: .now(), wall: WallInstant(milliseconds: Clocks.wallMilliseconds()), randomWord: randomWord)
  }

  private func watchBasics() throws(SystemError) {
    _ = try loop.register(descriptor: mailbox.descriptor, interest: .readable) { [unowned self] _ in
      hasReports = true
    }
    _ = try loop.register(descriptor: mountWatch.raw, interest: .priority) { [unowned self] _ in files.refresh() }
    listening = try loop.register(descriptor: listener.descriptor, interest: .readable) { [unowned self] _ in
      acceptPeers()
    }
    _ = try loop.register(descriptor: listener.signals.descriptor, interest: .readable) { [unowned self] _ in
      takeSignals()
    }
  }

  private func takeSignals() {
    while let arrival = try? listener.signals.next() {
      log.write(.notice, "Stopping on signal \(arrival.number) of process \(arrival.senderProcessID).")
      isStopping = true
    }
  }

  /// Files in our folders that no row speaks of: a predecessor died between making and recording them.
  private func sweep(_ options: DaemonOptions) {
    for folder in [options.managedFolder, options.sourcesFolder] {
      guard let worker = files.worker(for: folder, .names) else { continue }
      worker.submit { [mailbox] in
        let found = FileJobs.named(in: folder)
        mailbox.post(.found(found.map(\.path), found.map(\.task)))
      }
    }
  }
}

/// Why a daemon cannot start, for the person who started it.
struct DaemonFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

struct DaemonOptions {
  var directories: FerryDirectories
  var exitsWhenIdle: Duration?
  /// A result that nobody collects is kept so long.
  var retention = Limits.retention
  var databasePath: String { directories.state + "/ferry.sqlite" }
  /// The suffix that ported programs know from Apple's systems.
  var managedFolder: String { directories.state + "/com.apple.nsurlsessiond/Downloads" }
  var sourcesFolder: String { directories.state + "/sources" }
}

/// The socket that clients connect to, and the signals that end the daemon: what must exist before anything else.
struct Listener: ~Copyable {
  var socket: OwnedDescriptor
  var signals: SignalSource
  var descriptor: Int32 { socket.raw }
}

/// How long the loop's turns took, in powers of two of a microsecond.
struct TurnHistogram {
  private var counts = [Int64](repeating: 0, count: 32)

  mutating func note(microseconds: Int64) {
    let slot = microseconds <= 1 ? 0 : min(31, 64 - (microseconds - 1).leadingZeroBitCount)
    counts[slot] += 1
  }

  /// Upper bound in microseconds → turns.
  var byBound: [String: Int64] {
    var table: [String: Int64] = [:]
    for (slot, count) in counts.enumerated() where count > 0 { table["\(Int64(1) << slot)"] = count }
    return table
  }
}

/// Results of one folder's filesystem that wait for the batch before them.
struct FinalizeQueue {
  var folder: String
  var work: FileWorkers.Work
  var waiting: [FinalizeOrder] = []
  var isBusy = false
}
