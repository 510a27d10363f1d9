import CurlEngine
import LinuxSystem
import TransferCore
import TransferStore
import WireProtocol

/// What each effect does to the outside world.
extension Daemon {
  func carryOut(_ effect: Effect) {
    // Whatever else a client hears comes behind the states before it.
    if case .offer(let peer, let record) = effect {
      // The result itself says how its task ended.
      tellStates(sparing: peer, of: record.task)
    } else if effect.isHeard {
      tellStates()
    }
    switch effect {
    case .reply(let token, let reply): answer(token, reply)
    case .announce(let id, let announcement): announce(id, announcement)
    case .offer(let peer, let record): offer(record, to: peer)
    case .ask(let peer, let id): ask(id, peer)
    case .endSession(let peer, let session): say(.sessionEnded(SessionEndedNotice(session: session.rawValue)), to: peer)
    case .prepare(let token, let orders): prepare(token, orders)
    case .discardPreparation(let ids): removeFiles(ids.map(sourcePath))
    case .loadDetails(let id):
      wantedLoads.append(id)
      submitNextBatch()
    case .openFiles(let attempt, let order): openFiles(attempt, order)
    case .begin(let order, _):
      core.began(order.attempt)
      begin(order)
    case .releaseBody(let attempt): engine.releaseBody(attempt)
    case .stop(let attempt): stop(attempt)
    case .finalize(let order): finalize(order)
    case .removeFiles(let paths): removeFiles(paths)
    // The daemon has background sessions only.
    case .foreground: break
    case .app(let effect): carryOut(effect)
    }
  }

  // MARK: Preparation

  private func sourcePath(_ id: TaskID) -> String { "\(directories.state)/sources/ferry-\(id).source" }

  /// One job for each filesystem that the batch touches.
  private func prepare(_ token: RequestToken, _ orders: [PrepareOrder]) {
    preparing[token] = (orders.count, [])
    let sources = directories.state + "/sources"
    var groups: [(worker: Worker?, orders: [PrepareOrder])] = []
    for order in orders {
      let worker = files.worker(for: placeToTouch(order), .names)
      if let index = groups.firstIndex(where: { $0.worker === worker }) {
        groups[index].orders.append(order)
      } else {
        groups.append((worker, [order]))
      }
    }
    for (worker, orders) in groups {
      let isTaken = worker?.submit { [mailbox] in
        mailbox.post(.prepared(token, FileJobs.prepare(orders, sources: sources)))
      }
      if isTaken != true {
        let refusal = Refusal(.destinationUnusable, "The filesystem does not answer; its queue is full.")
        mailbox.post(.prepared(token, orders.map { PreparedTask(task: $0.task, outcome: .refused(refusal)) }))
      }
    }
  }

  private func placeToTouch(_ order: PrepareOrder) -> String {
    if let source = order.sourcePath { return source }
    if case .file(let path, _) = order.destination { return path }
    return directories.state
  }

  func prepared(_ token: RequestToken, _ tasks: [PreparedTask], _ now: ClockReading, _ effects: inout [Effect]) {
    guard var entry = preparing[token] else { return }
    entry.remaining -= tasks.count
    entry.done += tasks
    preparing[token] = entry.remaining > 0 ? entry : nil
    if entry.remaining <= 0 { effects += core.handle(.prepared(token, entry.done), at: now) }
  }

  // MARK: Attempts

  private func openFiles(_ attempt: AttemptID, _ order: OpenOrder) {
    guard let path = order.partPath ?? order.source?.pinnedPath else {
      opening[attempt] = ()
      return mailbox.post(.opened(attempt, .success(FileJobs.Opened())))
    }
    guard let worker = files.worker(for: path, .names) else { return refuse(attempt) }
    opening[attempt] = ()
    if let index = openings.firstIndex(where: { $0.worker === worker }) {
      openings[index].orders.append((attempt, order))
    } else {
      openings.append((worker, [(attempt, order)]))
    }
  }

  /// A call that takes longer has waited for its disk: then opening is the workers' for the next second.
  private static let openingPatience = Duration.milliseconds(5)

  /// Opens what the turn has to: part files of local filesystems here, so that their requests leave in this turn
  /// (decision 0002), all else on the workers, each told of as soon as it is open.
  func openGathered(_ now: ClockReading) {
    guard !openings.isEmpty else { return }
    let gathered = openings
    openings.removeAll(keepingCapacity: true)
    var effects: [Effect] = []
    for (worker, orders) in gathered {
      var left: [(AttemptID, OpenOrder)] = []
      for (attempt, order) in orders where opening[attempt] != nil {
        if mayOpenHere(order) { openHere(attempt, order, now, &effects) } else { left.append((attempt, order)) }
      }
      guard !left.isEmpty else { continue }
      let jobs = left.map { ($0.0, $0.1, $0.1.partPath.flatMap(keptRoom)) }
      let isTaken = worker.submit { [mailbox, jobs] in
        for (attempt, order, room) in jobs { mailbox.post(.opened(attempt, FileJobs.open(order, leaving: room))) }
      }
      if !isTaken { for (attempt, _) in left { refuse(attempt) } }
    }
    guard !effects.isEmpty else { return }
    commit()
    perform(effects)
  }

  private func mayOpenHere(_ order: OpenOrder) -> Bool {
    guard let path = order.partPath, order.source == nil else { return false }
    return opensHereFrom <= .now() && files.isLocal(path)
  }

  private func openHere(_ attempt: AttemptID, _ order: OpenOrder, _ now: ClockReading, _ effects: inout [Effect]) {
    let began = BootInstant.now()
    openedFiles(attempt, FileJobs.open(order, leaving: order.partPath.flatMap(keptRoom)), now, &effects)
    let end = BootInstant.now()
    if end - began > Self.openingPatience { opensHereFrom = end + .seconds(1) }
  }

  private func refuse(_ attempt: AttemptID) {
    opening[attempt] = ()
    let failure = TransferFailure(
      .destinationUnavailable, .transient, detail: "The filesystem of the file does not answer.")
    mailbox.post(.opened(attempt, .failure(FileJobs.FileFailure(failure))))
  }

  func openedFiles(
    _ attempt: AttemptID, _ result: Swift.Result<FileJobs.Opened, FileJobs.FileFailure>, _ now: ClockReading,
    _ effects: inout [Effect]
  ) {
    guard opening.removeValue(forKey: attempt) != nil else {
      // The attempt was stopped meanwhile.
      if case .success(let files) = result { files.closeAll() }
      return
    }
    switch result {
    case .success(let files):
      opened[attempt] = files
      let sizes = OpenedFiles(
        partBytes: files.partBytes, freeBytes: files.freeBytes, isPlaced: files.isPlaced)
      effects += core.handle(.filesOpened(attempt, sizes), at: now)
    case .failure(let failure): effects += core.handle(.filesFailed(attempt, failure.failure), at: now)
    }
  }

  private func begin(_ order: AttemptOrder) {
    guard let held = opened.removeValue(forKey: order.attempt) else { return }
    var part: PartFile?
    var body: BodyFile?
    if let descriptor = held.part, case .partFile(let path) = order.sink, let access = access(path) {
      part = PartFile(descriptor: descriptor, size: held.partBytes ?? 0, access: access)
    } else if let descriptor = held.part {
      _ = OwnedDescriptor(adopting: descriptor)
    }
    if let descriptor = held.source, case .file(let source) = order.body, let access = access(source.pinnedPath) {
      body = BodyFile(descriptor: descriptor, access: access)
    } else if let descriptor = held.source {
      _ = OwnedDescriptor(adopting: descriptor)
    }
    FaultPoint.pass("engine.begin")
    engine.start(order, part: part, body: body)
  }

  private func access(_ path: String) -> FileAccess? {
    guard let worker = files.worker(for: path, .transfer) else { return nil }
    var access = FileAccess(isLocal: files.isLocal(path), worker: worker)
    access.keptRoom = keptRoom(path)
    return access
  }

  /// What is left free where a file shares its disk with the daemon's records; nil elsewhere.
  private func keptRoom(_ path: String) -> KeptRoom? {
    path.hasPrefix(directories.state + "/") || files.areTogether(path, recordsPath) ? recordsRoom : nil
  }

  private func stop(_ attempt: AttemptID) {
    opening[attempt] = nil
    pausedForClient[attempt] = nil
    opened.removeValue(forKey: attempt)?.closeAll()
    engine.stop(attempt)
  }

  // MARK: Results

  private func finalize(_ order: FinalizeOrder) {
    let work: FileWorkers.Work =
      order.expectedSHA256 != nil || order.contentEncoding != nil ? .content : .durability
    let folder = Files.parent(of: order.partPath)
    if let index = finalizing.firstIndex(where: { $0.folder == folder && $0.work == work }) {
      finalizing[index].waiting.append(order)
    } else {
      finalizing.append(FinalizeQueue(folder: folder, work: work, waiting: [order]))
    }
    startFinalizing(work, folder)
  }

  /// A batch of this folder is done; the results that gathered meanwhile are the next.
  func finalizeNext(_ work: FileWorkers.Work, _ folder: String) {
    guard let index = finalizing.firstIndex(where: { $0.folder == folder && $0.work == work }) else { return }
    finalizing[index].isBusy = false
    if finalizing[index].waiting.isEmpty { finalizing.remove(at: index) } else { startFinalizing(work, folder) }
  }

  private func startFinalizing(_ work: FileWorkers.Work, _ folder: String) {
    guard let index = finalizing.firstIndex(where: { $0.folder == folder && $0.work == work }),
      !finalizing[index].isBusy
    else { return }
    let batch = Array(finalizing[index].waiting.prefix(Finalizing.batchLimit))
    let room = batch.first.flatMap { keptRoom($0.partPath) }
    let isTaken = files.worker(for: folder, work)?.submit { [mailbox] in
      mailbox.post(.finalized(work, folder, Finalizing.run(batch, leaving: room)))
    }
    guard isTaken == true else {
      finalizesAgainAt = finalizesAgainAt ?? .now() + .seconds(1)
      return
    }
    finalizing[index].waiting.removeFirst(batch.count)
    finalizing[index].isBusy = true
  }

  /// Batches that no worker took.
  func finalizeAgain(_ now: ClockReading) {
    guard let due = finalizesAgainAt, due <= now.boot else { return }
    finalizesAgainAt = nil
    for queue in finalizing { startFinalizing(queue.work, queue.folder) }
  }

  func removeFiles(_ paths: [String]) { removals += paths }

  /// Files in one job: bounds how long an attempt waits for its own files behind it.
  private static let removalBatch = 64

  /// Hands over what the turn removes, one job for many files: a thread that is woken for each costs more than the
  /// call.
  func removeGathered() {
    guard !removals.isEmpty else { return }
    var groups: [(worker: Worker?, paths: [String])] = []
    for path in removals {
      let worker = files.worker(for: path, .names)
      if let index = groups.lastIndex(where: { $0.worker === worker && $0.paths.count < Self.removalBatch }) {
        groups[index].paths.append(path)
      } else {
        groups.append((worker, [path]))
      }
    }
    removals.removeAll(keepingCapacity: true)
    for (worker, paths) in groups {
      let isTaken = worker?.submit { [mailbox] in
        let removal = FileJobs.remove(paths)
        if !removal.isOrdinary { mailbox.post(.removed(removal)) }
      }
      if isTaken != true { discards.note(failed: paths, at: .now()) }
    }
  }

  // MARK: Telling clients

  /// Who hears of a task: those who watch it, those who watch all, and its session's client.
  func audience(of id: TaskID) -> [PeerID] {
    var audience = watchersOfAll
    for peer in watchers[id] ?? [] where !audience.contains(peer) { audience.append(peer) }
    if let session = core.tasks[id]?.entry.session, let attached = core.sessions[session]?.attached,
      !audience.contains(attached)
    {
      audience.append(attached)
    }
    return audience
  }

  private func announce(_ id: TaskID, _ announcement: Announcement) {
    switch announcement {
    case .progress:
      if progressedSet.insert(id).inserted {
        progressed.append(id)
        if nextProgress == nil { nextProgress = BootInstant.now() + Self.progressInterval }
      }
    case .state: noteChange(id)
    case .expiring:
      expiring.append(id)
      noteChange(id)
    case .resumed(let offset):
      tellAtOnce(id)
      let notice = TaskResumedNotice(id: id.rawValue, offset: offset, expected: core.tasks[id]?.entry.expected)
      for peer in audience(of: id) { say(.taskResumed(notice), to: peer) }
    case .response(let head):
      tellAtOnce(id)
      let notice = TaskResponseNotice(id: id.rawValue, response: Snapshot.response(head))
      for peer in audience(of: id) { say(.taskResponse(notice), to: peer) }
    case .removed:
      let notice = TaskRemovedNotice(id: id.rawValue)
      for peer in audience(of: id) { say(.taskRemoved(notice), to: peer) }
      watchers[id] = nil
    }
  }

  /// What else is told of the task comes behind its state.
  private func tellAtOnce(_ id: TaskID) {
    guard untoldSet.remove(id) != nil else { return }
    changed.append(id)
    tellStates()
  }

  private func noteChange(_ id: TaskID) {
    let passesByItself = core.tasks[id]?.entry.state.passesByItself ?? false
    guard passesByItself else {
      // What waits of it in `passing` is found told by then.
      _ = untoldSet.remove(id)
      return changed.append(id)
    }
    guard untoldSet.insert(id).inserted else { return }
    passing.append(id)
    if nextPassing == nil { nextPassing = BootInstant.now() + Self.passingInterval }
  }

  /// Tells states that passed by, each as it is now: a small file is fetched and done in less time than that, and is
  /// told of once.
  func tellPassing(_ now: ClockReading) {
    guard let due = nextPassing, due <= now.boot else { return }
    nextPassing = nil
    let ids = passing
    passing.removeAll(keepingCapacity: true)
    for id in ids where untoldSet.remove(id) != nil { changed.append(id) }
  }

  /// Tells the states that changed, as they are now; that of one task to all but one client. What is not on the disk
  /// yet is told with its commit: a daemon that died before it would have said what did not happen.
  func tellStates(sparing spared: PeerID? = nil, of sparedTask: TaskID? = nil) {
    guard !changed.isEmpty else { return }
    let ids = changed
    changed.removeAll(keepingCapacity: true)
    for id in ids where announcing[id] == nil {
      var audience = audience(of: id)
      // Who asked to watch a task is told of its end like any other.
      if id == sparedTask { audience.removeAll { $0 == spared && !hasAsked($0, toWatch: id) } }
      guard !audience.isEmpty, core.tasks[id] != nil else { continue }
      snapshots([id]) { [unowned self] snapshots in
        guard let snapshot = snapshots.first, announcing[id] == nil else { return }
        for peer in audience { say(.taskState(TaskStateNotice(task: snapshot)), to: peer) }
      }
    }
  }

  private func hasAsked(_ peer: PeerID, toWatch id: TaskID) -> Bool {
    watchersOfAll.contains(peer) || watchers[id]?.contains(peer) == true
  }

  /// Tells progress that gathered, at most ten times a second.
  func tellProgress(_ now: ClockReading) {
    guard let due = nextProgress, due <= now.boot else { return }
    nextProgress = nil
    for id in progressed {
      guard let entry = core.tasks[id]?.entry, !entry.state.isFinished else { continue }
      let notice = TaskProgressNotice(
        id: id.rawValue, received: entry.received, expected: entry.expected, sent: entry.sent)
      for peer in audience(of: id) { say(.taskProgress(notice), to: peer) }
    }
    progressed.removeAll(keepingCapacity: true)
    progressedSet.removeAll(keepingCapacity: true)
  }

  private func offer(_ record: DeliveryRecord, to peer: PeerID) {
    let hasMetrics = record.kind == .completion && peers[peer]?.wantsMetrics == true
    func send(_ snapshot: TaskSnapshot?) {
      say(
        .delivery(
          DeliveryNotice(
            session: record.session.rawValue, number: record.number.rawValue, kind: record.kind.rawValue,
            task: snapshot)), to: peer)
    }
    let needed = record.task.map { [$0] } ?? []
    // Results keep their order: one that needs the store holds those behind it back.
    if offerReads == 0, needed.allSatisfy({ core.residentDetails($0) != nil }) {
      return send(needed.first.flatMap { snapshot($0, core.residentDetails($0), hasMetrics: hasMetrics) })
    }
    offerReads += 1
    // A result without its file would be none: it waits until the store can be read.
    read(needed, patiently: true) { [unowned self] readings in
      offerReads -= 1
      // It may have been acknowledged by the client's earlier connection meanwhile.
      guard core.isStillMeant(.offer(peer, record)) else { return }
      send(
        readings.first.flatMap {
          snapshot($0.0, core.residentDetails($0.0) ?? $0.1.details, hasMetrics: hasMetrics)
        })
    }
  }

  private func ask(_ id: TaskID, _ peer: PeerID) {
    snapshots([id]) { [unowned self] snapshots in
      // It may have been answered while the store was asked.
      guard let snapshot = snapshots.first, snapshot.question != nil, core.isStillMeant(.ask(peer, id)) else { return }
      say(.taskQuestion(TaskQuestionNotice(task: snapshot)), to: peer)
    }
  }

  // MARK: Snapshots

  func snapshot(
    _ id: TaskID, _ details: TaskDetails?, isFull: Bool = false, hasMetrics: Bool = false
  ) -> TaskSnapshot? {
    guard let cell = core.tasks[id] else { return nil }
    var snapshot = Snapshot.make(cell, details, in: &core, at: Self.readClock(randomWord: 0), isFull: isFull)
    if isFull || hasMetrics, let log = details?.progress.metrics, !log.isEmpty { snapshot.metrics = WireMetrics(log) }
    return snapshot
  }

  /// Snapshots of tasks that exist, in the given order; asks the store for what is not in memory.
  func snapshots(_ ids: [TaskID], isFull: Bool = false, then body: @escaping ([TaskSnapshot]) -> Void) {
    let missing = ids.filter { core.residentDetails($0) == nil }
    if missing.isEmpty {
      return body(ids.compactMap { snapshot($0, core.residentDetails($0), isFull: isFull) })
    }
    read(missing, patiently: false) { [unowned self] readings in
      var loaded: [TaskID: TaskDetails] = [:]
      for (id, reading) in readings { loaded[id] = reading.details }
      body(ids.compactMap { snapshot($0, core.residentDetails($0) ?? loaded[$0], isFull: isFull) })
    }
  }
}

extension TaskState {
  /// Nobody has to do anything for the next one.
  fileprivate var passesByItself: Bool {
    switch self {
    case .waiting, .running, .finalizing: true
    case .suspended, .asking, .finished: false
    }
  }
}

extension Effect {
  /// A client or a transfer stands still until it is run.
  var isAwaited: Bool {
    switch self {
    case .reply(_, let reply): reply != .done
    case .begin(_, let afterCommit): afterCommit
    case .releaseBody, .endSession, .loadDetails: true
    case .app(let effect): effect.needsCommit
    case .announce, .offer, .ask, .prepare, .discardPreparation, .openFiles, .stop, .finalize, .removeFiles,
      .foreground:
      false
    }
  }

  /// Some client hears of it, by more than the task's state.
  fileprivate var isHeard: Bool {
    switch self {
    case .announce(_, let announcement): announcement != .state && announcement != .progress
    case .reply, .offer, .ask, .endSession: true
    case .app(.wake): true
    case .prepare, .discardPreparation, .loadDetails, .openFiles, .begin, .releaseBody, .stop, .finalize, .removeFiles,
      .foreground, .app:
      false
    }
  }
}

extension FileJobs.Opened {
  func closeAll() {
    for case let descriptor? in [part, source] { _ = OwnedDescriptor(adopting: descriptor) }
  }
}
