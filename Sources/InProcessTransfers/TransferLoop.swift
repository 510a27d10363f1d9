import CurlEngine
import LinuxSystem
import TransferCore

/// The loop of a ``TransferHome``: it plays the shell's part of docs/internals/TransferCore.md, with a store in memory
/// in place of SQLite and calls in place of a protocol. Belongs to its thread.
final class TransferLoop {
  /// What the loop knows of a transfer beside the core.
  struct Work {
    var transfer: LocalTransfer
    var attempt: AttemptID?
    var holds: Holds = []
    /// The program decides about the present response: its body is kept aside.
    var isInQuestion = false
    var keptBody: [UInt8] = []
    /// It came to its end.
    var isKeptWhole = false
    /// What an attempt was given last. Where no byte of it was read (a server that was turned away in the handshake),
    /// the next attempt gets it too.
    var feed: (feed: BodyFeed, length: Int64?)?
    /// What the program provided for the next attempt.
    var freshFeed: (feed: BodyFeed, length: Int64?)?
    /// Opened files that wait for a body.
    var awaitsBody: AttemptID?
    /// It heard that it waits for a network.
    var knowsThatItWaits = false
  }

  struct Holds: OptionSet {
    let rawValue: UInt8
    static let suspended = Holds(rawValue: 1)
    static let listener = Holds(rawValue: 2)
  }

  /// Transfers at once over all hosts: each costs a descriptor, and a program may have only 1024 of them.
  private static let runningLimit = 256
  static let peer = PeerID(rawValue: 1)

  let mailbox: Mailbox<TransferHome.Message>
  let loop: EventLoop
  let files: FileWorkers
  let bridge: EventLoopBridge
  let engine: CurlEngine
  let folder: String
  let surroundings: TransferHome.Surroundings
  var core: Core
  var works: [TaskID: Work] = [:]
  /// Rows, so to speak: what the core may ask for again.
  var details: [TaskID: TaskDetails] = [:]
  var tokens: [Int64: TransferHome.Message] = [:]
  var sessionsOpened: Int64 = 0
  /// Files of downloads that stand in the folder.
  var made: Set<String> = []
  var opening: [AttemptID: OpenOrder] = [:]
  var opened: [AttemptID: LocalFiles] = [:]
  var effects: [Effect] = []
  var firstEffect = 0
  // Conditions (TransferLoop+Conditions.swift).
  var need: TransferHome.Need?
  var watched: Constraints = []
  var now = ClockReading(boot: .now(), wall: WallInstant(milliseconds: Clocks.wallMilliseconds()), randomWord: 0)
  private var lastToken: Int64 = 0
  private var messages: [TransferHome.Message] = []
  private var hasMessages = false
  private var engineEvents: [EngineEvent] = []
  private var hasBacklog = false
  private var random = RandomWords(seed: Clocks.randomWord())

  /// Turns for as long as the process lives.
  static func run(_ mailbox: Mailbox<TransferHome.Message>, _ surroundings: TransferHome.Surroundings) {
    let loop: TransferLoop
    do {
      loop = try TransferLoop(mailbox, surroundings)
    } catch {
      return refuseAll(mailbox, unavailable("\(error)"))
    }
    while loop.turn() {}
    refuseAll(mailbox, unavailable("its loop cannot wait"))
  }

  static func unavailable(_ cause: String) -> TransferFailure {
    TransferFailure(
      .internalFault, .permanent,
      detail: "Transfers are not possible in this process (\(cause)); look at its limits (ulimit -n, -u).")
  }

  private static func refuseAll(_ mailbox: Mailbox<TransferHome.Message>, _ failure: TransferFailure) {
    while (try? Syscall.poll(mailbox.descriptor, for: .readable, timeoutMilliseconds: nil)) != nil {
      for message in mailbox.drain() {
        if case .start(let transfer) = message { transfer.listener.transferEnded(.failed(failure, nil), MetricsLog()) }
      }
    }
  }

  private init(_ mailbox: Mailbox<TransferHome.Message>, _ surroundings: TransferHome.Surroundings) throws {
    self.mailbox = mailbox
    self.surroundings = surroundings
    loop = try EventLoop()
    files = try FileWorkers()
    bridge = try EventLoopBridge(loop)
    engine = try bridge.makeEngine()
    let root = surroundings.temporaryFolder.hasPrefix("/") ? surroundings.temporaryFolder : "/tmp"
    let name = "ferry-\(String(Clocks.randomWord(), radix: 36))"
    folder = "\(root.hasSuffix("/") ? String(root.dropLast()) : root)/\(name)"
    core = Core(
      Core.Configuration(managedFolder: root, bootID: "this process", runningLimit: Self.runningLimit))
    app = name
    LeftoverFolder.goesWithProcess(folder)
    _ = try loop.register(descriptor: mailbox.descriptor, interest: .readable) { [unowned self] _ in
      hasMessages = true
    }
    startConditions()
  }

  /// The name of the folder, as the core's paths have it.
  let app: String

  // MARK: One turn

  /// False when the loop cannot go on.
  private func turn() -> Bool {
    do throws(SystemError) {
      if hasBacklog { try loop.poll() } else { try loop.wait(until: nextDeadline) }
    } catch {
      return false
    }
    hasBacklog = false
    now = ClockReading(
      boot: .now(), wall: WallInstant(milliseconds: Clocks.wallMilliseconds()), randomWord: random.next())
    if hasMessages {
      hasMessages = false
      mailbox.drain(into: &messages)
      for message in messages { take(message) }
      messages.removeAll(keepingCapacity: true)
    }
    gatherEngine()
    watchConditions()
    effects += core.admit(at: now)
    perform()
    keep(core.takeChanges())
    return true
  }

  private var nextDeadline: BootInstant? {
    switch (core.nextDeadline, engine.nextDeadline) {
    case (let first?, let second?): min(first, second)
    case (let first, let second): first ?? second
    }
  }

  func handle(_ event: Event) { effects += core.handle(event, at: now) }

  @discardableResult
  func command(_ command: Command, for message: TransferHome.Message? = nil) -> RequestToken {
    lastToken += 1
    if let message { tokens[lastToken] = message }
    let token = RequestToken(peer: Self.peer, sequence: lastToken)
    handle(.commanded(command, token))
    return token
  }

  private func gatherEngine() {
    engine.turn(now: now.boot)
    engineEvents.removeAll(keepingCapacity: true)
    engine.drainEvents(into: &engineEvents, limit: 1024)
    for event in engineEvents { take(event) }
    if engine.hasEvents { hasBacklog = true }
  }

  private func take(_ event: EngineEvent) {
    switch event {
    case .informed(let attempt, let head):
      if let task = core.taskOnWire(attempt) { works[task]?.transfer.listener.transferInformed(head) }
    case .responded(let attempt, let head, let verdict):
      let task = core.taskOnWire(attempt)
      handle(.responded(attempt, head, verdict))
      guard let task, let work = works[task] else { return }
      works[task]?.isInQuestion = verdict.isForClient
      if verdict.takesBody { work.transfer.listener.transferResponded(head) }
    case .progressed(let attempt, let held, let sent):
      let task = core.taskOnWire(attempt)
      handle(.progressed(attempt, held: held, sent: sent))
      if let task { works[task]?.transfer.listener.transferProgressed(received: held, sent: sent) }
    case .received(let attempt, let bytes): pass(bytes, of: attempt)
    case .synced(let attempt, let offset): handle(.synced(attempt, offset: offset))
    case .ended(let attempt, let end, let facts):
      if let task = core.taskOnWire(attempt) {
        works[task]?.attempt = nil
        works[task]?.isKeptWhole = facts.discardedWhole
      }
      if let metrics = facts.metrics { handle(.measured(attempt, metrics)) }
      handle(.ended(attempt, blamingNetwork(end), requestWasSent: facts.requestWasSent))
    }
  }

  /// Without a network a name is not found either; what the program wants to hear is that there is none.
  private func blamingNetwork(_ end: AttemptEnd) -> AttemptEnd {
    guard case .failed(var failure) = end, failure.code == .hostNotFound, !surroundings.isOnline() else { return end }
    failure.code = .networkUnavailable
    failure.detail = "No network is there. \(failure.detail)"
    return .failed(failure)
  }

  private func pass(_ bytes: [UInt8], of attempt: AttemptID) {
    guard let task = core.taskOnWire(attempt), let work = works[task] else { return }
    if work.isInQuestion {
      works[task]?.keptBody += bytes
    } else if !work.transfer.listener.transferReceived(bytes) {
      hold(task, .listener)
    }
  }

  // MARK: Holding a transfer back

  func hold(_ task: TaskID, _ reason: Holds) {
    guard let work = works[task] else { return }
    works[task]?.holds.insert(reason)
    if work.holds.isEmpty, let attempt = work.attempt { engine.pause(attempt) }
  }

  func letGo(_ task: TaskID, _ reason: Holds) {
    guard let work = works[task], work.holds.contains(reason) else { return }
    works[task]?.holds.remove(reason)
    if work.holds == reason, let attempt = work.attempt { engine.unpause(attempt) }
  }

  // MARK: The store

  /// Nothing outlives the process, so a commit is done when it is asked for.
  private func keep(_ changes: [StoreChange]) {
    for change in changes {
      switch change {
      case .addTask(let entry, let held): details[entry.id] = held
      case .updateTask(let entry, let progress?): details[entry.id]?.progress = progress
      case .removeTask(let id): details[id] = nil
      case .forgetSecrets(let id, let plan): details[id]?.plan = plan
      case .updateTask(_, nil), .putSession, .removeSession, .addDelivery, .removeDelivery, .addKeptPart,
        .removeKeptPart, .app:
        break
      }
    }
  }
}
