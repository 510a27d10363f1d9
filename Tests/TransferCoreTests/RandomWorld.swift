@testable import TransferCore

/// Clients, servers, disks and kills at random from one seed, around a core whose changes go to a model store. A part
/// file is modelled as the version of each of its bytes, so that a splice of two versions is seen.
struct RandomWorld {
  static let contentLength = 100

  struct PartFile {
    /// The version that each byte is of.
    var bytes: [Int] = []
    var synced = 0
  }

  var bench = Bench()
  var shell = ModelShell()
  var store = ModelStore()
  var words: RandomWords
  var files: [String: PartFile] = [:]
  /// What the server has now; grows when the content is replaced.
  var version = 1
  /// The version that an attempt's answer is of.
  var served: [AttemptID: Int] = [:]
  var bootNumber = 1
  var peers: [PeerID] = [1, 2, 3].map(PeerID.init(rawValue:))

  // What was promised.
  var accepted: Set<TaskID> = []
  var removed: Set<TaskID> = []
  var endings: [TaskID: TaskState.Ending] = [:]
  var acknowledged: Set<ModelStore.DeliveryKey> = []
  /// Requests that may not be repeated, as often as they were sent whole.
  var sentWhole: [TaskID: Int] = [:]

  var faults: [String] = []
  var counts: [String: Int] = [:]

  init(seed: UInt64) { words = RandomWords(seed: seed) }

  mutating func below(_ bound: Int) -> Int { Int(words.next() % UInt64(max(bound, 1))) }
  mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
  mutating func pick<Element>(_ elements: [Element]) -> Element? {
    elements.isEmpty ? nil : elements[below(elements.count)]
  }

  mutating func count(_ what: String) { counts[what, default: 0] += 1 }

  // MARK: One step

  mutating func step() {
    bench.advance(.milliseconds(below(200)))
    switch below(100) {
    case 0..<14: command()
    case 14..<26: answerStore()
    case 26..<40: openFiles()
    case 40..<56: respond()
    case 56..<78: moveBytes()
    case 78..<84: endAttempt()
    case 84..<91: finalize()
    case 91..<95: passTime()
    case 95: leave()
    case 96: if chance(15) { version += 1 }
    case 97: tick(.storeChanged(degraded: bench.core.degraded == nil && chance(30) ? "The disk is full." : nil))
    case 98: if chance(40) { changeConditions() }
    default: if chance(30) { restart() }
    }
  }

  /// One tick: effects without a promise run at once, the others when the changes are durable. A kill may come between.
  mutating func tick(_ event: Event?) {
    if let event { shell.note(event) }
    let effects = (event.map { bench.core.handle($0, at: bench.now) } ?? []) + bench.core.admit(at: bench.now)
    finishTick(effects)
  }

  private mutating func finishTick(_ effects: [Effect]) {
    for effect in effects where !effect.needsCommit { run(effect) }
    if below(1500) == 0 { return restart() }
    let changes = bench.core.takeChanges()
    for refusal in store.apply(changes) { faults.append("The store would refuse: \(refusal).") }
    // The delicate moment: the row is written, and what it speaks of is not done yet.
    let isDelicate = effects.contains { if case .releaseBody = $0 { true } else { false } }
    if below(isDelicate ? 5 : 1500) == 0 { return restart() }
    for effect in effects where effect.needsCommit {
      guard bench.core.isStillMeant(effect) else { continue }
      run(effect)
    }
    check()
  }

  private mutating func run(_ effect: Effect) {
    let waiting = shell.wires.filter {
      $0.verdict == .takeWhole && $0.order.judgement.resume != nil && !$0.isReleased
    }
    shell.run(effect)
    switch effect {
    case .begin(let order, _):
      bench.core.began(order.attempt)
      if case .partFile(let path) = order.sink, order.judgement.resume == nil, files[path] == nil {
        files[path] = PartFile()
      }
    case .releaseBody(let attempt):
      for wire in waiting where wire.order.attempt == attempt { truncate(wire.order, to: 0) }
    case .removeFiles(let paths): for path in paths { files[path] = nil }
    case .reply(_, .enqueued(let outcomes)):
      for case .accepted(let id, _, let existed, _) in outcomes {
        if store.entries[id] == nil { faults.append("Task \(id) was accepted and has no row.") }
        if !existed { accepted.insert(id) }
      }
    case .offer(let peer, let record):
      let key = ModelStore.DeliveryKey(session: record.session, number: record.number)
      if acknowledged.contains(key) { faults.append("Result \(record.number) is offered again.") }
      if store.deliveries[key] != record { faults.append("Result \(record.number) is offered and has no row.") }
      if bench.core.sessions[record.session]?.attached != peer { faults.append("A stranger is offered a result.") }
    case .ask(let peer, let id):
      if store.entries[id]?.state != .asking { faults.append("Task \(id) asks, and its row does not say so.") }
      if bench.core.tasks[id].flatMap({ bench.core.sessions[$0.entry.session] })?.attached != peer {
        faults.append("A stranger is asked.")
      }
    case .announce, .endSession, .prepare, .discardPreparation, .loadDetails, .openFiles, .stop, .finalize, .reply,
      .foreground, .app:
      break
    }
  }

  // MARK: Surroundings

  func wirePath(_ order: AttemptOrder) -> String? {
    if case .partFile(let path) = order.sink { path } else { nil }
  }

  mutating func truncate(_ order: AttemptOrder, to length: Int) {
    guard let path = wirePath(order) else { return }
    var file = files[path] ?? PartFile()
    file.bytes.removeLast(max(0, file.bytes.count - length))
    file.synced = min(file.synced, length)
    files[path] = file
  }

  mutating func answerStore() {
    if let preparation = pick(shell.preparations) {
      let prepared = preparation.orders.map { order in
        let isRefused = chance(10)
        return PreparedTask(
          task: order.task,
          outcome: isRefused
            ? .refused(Refusal(.sourceMissing, "None."))
            : .ready(source: order.sourcePath.map { _ in .pinned() }, destination: order.destination))
      }
      count("prepared")
      return tick(.prepared(preparation.token, prepared))
    }
    guard let id = pick(shell.loads) else { return }
    count("loaded")
    tick(.detailsLoaded(id, store.details[id]))
  }

  mutating func openFiles() {
    guard let attempt = pick(shell.opening), let id = bench.core.owner(attempt) else { return }
    if chance(6) {
      return tick(.filesFailed(attempt, TransferFailure(.fileWriteFailed, .transient, detail: "I/O.")))
    }
    let part = bench.core.details[id]?.plan.partPath ?? ""
    let length = bench.core.details[id]?.plan.kind == .data ? nil : Int64(files[part]?.bytes.count ?? 0)
    tick(.filesOpened(attempt, OpenedFiles(partBytes: length, freeBytes: chance(5) ? 1 : nil)))
  }

  mutating func respond() {
    guard let wire = pick(shell.wires.filter { $0.verdict == nil }) else { return }
    let order = wire.order
    if chance(20) { return tick(.progressed(order.attempt, held: 0, sent: order.body == .none ? 0 : 50)) }
    if order.body != .none { note(sent: order) }
    let head = answer(order)
    let verdict = ResponseTable.judge(head, order.judgement)
    count(verdict.name)
    served[order.attempt] = version
    // What the engine does when it judged: a body that replaces what is held waits for its release.
    switch verdict {
    case .takeWhole: if order.judgement.resume == nil, chance(90) { truncate(order, to: 0) }
    case .continueAt(let offset): if chance(90) { truncate(order, to: Int(offset)) }
    case .alreadyComplete, .restart, .redirect, .retryLater, .ask, .reject: break
    }
    tick(.responded(order.attempt, head, verdict))
  }

  /// The server has the whole request now.
  private mutating func note(sent order: AttemptOrder) {
    guard let entry = bench.core.tasks[order.task]?.entry, !entry.isRepeatable else { return }
    sentWhole[order.task, default: 0] += 1
  }

  /// An answer of the server, which replaces its content, forgets about If-Range, and lies about ranges.
  private mutating func answer(_ order: AttemptOrder) -> ResponseHead {
    let tag = "\"v\(version)\""
    switch below(20) {
    case 0: return .ok(status: 503)
    case 1: return .ok(status: 404)
    case 2: return .ok(status: 401)
    case 3:
      var head = ResponseHead.ok(status: 302)
      head.headers.set("Location", to: "/next")
      return head
    case 4: return .ok(etag: nil)
    default: break
    }
    guard let resume = order.judgement.resume else { return .ok(etag: tag) }
    let isCurrent = order.request.headers["If-Range"] == tag
    if resume.offset >= 100 { return .ok(etag: tag, status: 416) }
    switch below(8) {
    case 0: return .ok(etag: tag)
    case 1: return .part(max(0, resume.offset - 10), etag: tag)
    case 2: return .part(resume.offset, etag: tag)
    default: return isCurrent ? .part(resume.offset, etag: tag) : .ok(etag: tag)
    }
  }

  mutating func moveBytes() {
    guard let wire = pick(shell.wires.filter { $0.verdict?.takesBody == true }) else { return }
    let order = wire.order
    if wire.verdict == .takeWhole, order.judgement.resume != nil, !wire.isReleased { return }
    guard let path = wirePath(order) else {
      return tick(.progressed(order.attempt, held: Int64(10 + below(80)), sent: 0))
    }
    // The truncation that the engine queued has come to the disk by the first write.
    if served[order.attempt].map({ $0 > 0 }) == true {
      if case .continueAt(let offset)? = wire.verdict {
        truncate(order, to: Int(offset))
      } else {
        truncate(order, to: 0)
      }
    }
    let of = abs(served[order.attempt] ?? version)
    served[order.attempt] = -of
    let room = Self.contentLength - (files[path]?.bytes.count ?? 0)
    let more = min(room, 1 + below(60))
    files[path, default: PartFile()].bytes += [Int](repeating: of, count: more)
    let held = files[path]?.bytes.count ?? 0
    // Bytes on the disk of which the core was not told yet.
    if chance(15) { return }
    let lives = counts["restart"]
    tick(.progressed(order.attempt, held: Int64(held), sent: 0))
    // A kill ends this life of the daemon, and the next one counts its attempts anew.
    guard chance(40), counts["restart"] == lives, shell.wires.contains(where: { $0.order.attempt == order.attempt })
    else { return }
    files[path]?.synced = held
    tick(.synced(order.attempt, offset: Int64(held)))
  }

  mutating func endAttempt() {
    guard let wire = pick(shell.wires) else { return }
    let order = wire.order
    let path = wirePath(order)
    let held = path.flatMap { files[$0]?.bytes.count } ?? 0
    let end: AttemptEnd
    switch wire.verdict {
    case .takeWhole, .continueAt:
      let isWhole = held == Self.contentLength && (served[order.attempt] ?? 0) < 0
      end =
        isWhole || path == nil
        ? .complete(TransferSummary(held: Int64(held), isLengthVerified: true))
        : .failed(TransferFailure(.connectionLost, .transient, detail: "Lost."))
    case .redirect: end = .redirected(location: chance(50) ? "http://host.test/next" : "http://other.test/next")
    case .alreadyComplete, .restart, .retryLater, .ask, .reject: end = .discarded
    case nil: end = .failed(TransferFailure(.connectionRefused, .transient, detail: "Refused."))
    }
    count(end.name)
    let wasSent = wire.verdict != nil
    served[order.attempt] = nil
    tick(.ended(order.attempt, end, requestWasSent: wasSent))
  }

  mutating func finalize() {
    guard let order = pick(shell.finalizing) else { return }
    let bytes = files[order.partPath]?.bytes ?? []
    let isDownload = bench.core.tasks[order.task]?.entry.kind == .download
    if isDownload, Int64(bytes.count) != order.held {
      count("length mismatch")
      return tick(.finalized(order.task, .failed(TransferFailure(.lengthMismatch, .transient, detail: "Length."))))
    }
    if chance(8) {
      return tick(.finalized(order.task, .failed(TransferFailure(.noSpace, .transient, detail: "Full."))))
    }
    if isDownload, bench.core.tasks[order.task]?.entry.state == .finalizing {
      if Set(bytes).count > 1 { faults.append("Task \(order.task) splices the versions \(Set(bytes).sorted()).") }
      if bytes.count != Self.contentLength {
        faults.append("Task \(order.task) is delivered with \(bytes.count) bytes.")
      }
    }
    count("placed")
    tick(.finalized(order.task, .placed(path: order.partPath, bytes: Int64(bytes.count), sha256: nil)))
  }

  mutating func passTime() {
    if let due = bench.core.nextDeadline { bench.advance(max(due - bench.now.boot, .zero)) }
    if chance(3) { bench.wall += Int64(below(7_200_000)) - 3_600_000 }
    tick(nil)
  }

  /// Now and then something is missing; mostly everything is as it should be.
  private mutating func changeConditions() {
    var conditions = Conditions.unrestricted
    switch below(6) {
    case 0: conditions.network = .none
    case 1: conditions.network = .available(isExpensive: true, isConstrained: chance(50))
    case 2: conditions.hasExternalPower = false
    case 3: conditions.pending = Constraints(rawValue: UInt8(below(128)))
    default: break
    }
    count(conditions == .unrestricted ? "conditions are good" : "conditions are bad")
    tick(.conditionsChanged(conditions))
  }

  mutating func leave() {
    guard let peer = pick(peers) else { return }
    for session in bench.core.sessions.order where bench.core.sessions[session]?.attached == peer {
      shell.forgetOffers(of: session)
    }
    tick(.peerLeft(peer))
  }

  /// kill -9, or a reboot that loses what was not synced.
  mutating func restart() {
    count("restart")
    if chance(30) {
      bootNumber += 1
      for path in files.keys.sorted() {
        guard var file = files[path] else { continue }
        let kept = file.synced + below(file.bytes.count - file.synced + 1)
        // Blocks that were allocated and never written read as something else.
        file.bytes = file.bytes[..<file.synced] + [Int](repeating: -1, count: kept - file.synced)
        files[path] = file
      }
    }
    let configuration = Core.Configuration(
      managedFolder: Bench.configuration.managedFolder, bootID: "boot-\(bootNumber)")
    let (core, effects) = Core.restoring(store.state, configuration, at: bench.now)
    compare(core)
    bench.core = core
    shell = ModelShell()
    served = [:]
    finishTick(effects + bench.core.admit(at: bench.now))
  }
}
