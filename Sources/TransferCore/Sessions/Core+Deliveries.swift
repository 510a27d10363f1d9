extension Core {
  /// Queues what a finished task has to say, in the order in which its app hears it.
  mutating func queueResults(_ id: TaskID, _ now: ClockReading) {
    guard let entry = tasks[id]?.entry else { return }
    // A task whose record is damaged has no details, and its app is told all the same.
    if entry.state == .finished(.succeeded), let held = details[id] {
      if entry.kind == .download, held.plan.destination == .managed { queue(.file, id, entry.session, now) }
    }
    // The answer's body also where it is a refusal.
    if entry.kind == .upload, details[id]?.progress.bodyPath != nil { queue(.body, id, entry.session, now) }
    queue(.completion, id, entry.session, now)
    sessions.update(entry.session) { $0.record.owesFinishEvents = true }
    offerMore(entry.session)
  }

  private mutating func queue(_ kind: DeliveryKind, _ task: TaskID?, _ session: SessionID, _ now: ClockReading) {
    guard let record = sessions[session]?.record else { return }
    let delivery = DeliveryRecord(
      session: session, number: DeliveryNumber(rawValue: record.nextDelivery), kind: kind, task: task,
      queuedAt: now.wall)
    sessions.update(session) {
      $0.record.nextDelivery += 1
      $0.deliveries.append(delivery)
    }
    changes.append(.addDelivery(delivery))
  }

  /// Offers results to the attached client, at most so many ahead of its acknowledgements.
  mutating func offerMore(_ session: SessionID) {
    guard let cell = sessions[session], let peer = cell.attached else { return }
    var room = Limits.offeredDeliveries - cell.deliveries.outstanding
    guard room > 0 else { return }
    var offers: [DeliveryRecord] = []
    sessions.update(session, isStored: false) { cell in
      while room > 0, let record = cell.deliveries.nextOffer() {
        offers.append(record)
        room -= 1
      }
    }
    for record in offers { effects.append(.offer(peer, record)) }
  }

  /// The app has handled a result: it never comes again, and what was kept for it goes.
  mutating func acknowledge(_ number: DeliveryNumber, in session: SessionID, _ now: ClockReading) {
    var taken: DeliveryRecord?
    sessions.update(session, isStored: false) { taken = $0.deliveries.acknowledge(number) }
    guard let record = taken else { return }
    changes.append(.removeDelivery(session, number))
    guard let id = record.task, tasks[id] != nil, let app = sessions[session]?.record.key.app else { return }
    switch record.kind {
    case .file:
      details[id]?.progress.filePath = nil
      if isResident(id) { touch(id, progress: true) }
      effects.append(.removeFiles([managedPath(partOwner(id), app: app)]))
    case .body:
      details[id]?.progress.bodyPath = nil
      if isResident(id) { touch(id, progress: true) }
      effects.append(.removeFiles([managedPath(partOwner(id), app: app)]))
    case .completion: forget(id, now, isCollected: true)
    case .finishEvents: break
    }
  }

  /// The task whose end a result tells, where files may have been kept although it failed: what goes with it is known
  /// from its details.
  func failedTask(toldBy number: DeliveryNumber, in session: SessionID) -> TaskID? {
    guard let record = sessions[session]?.deliveries[number], record.kind == .completion, let id = record.task,
      tasks[id]?.entry.state == .finished(.failed)
    else { return nil }
    return id
  }

  /// When the last task of a session has ended and results were queued, the app is told that this was all.
  mutating func settleSession(_ session: SessionID, _ now: ClockReading) {
    guard let cell = sessions[session], cell.unfinished == 0 else { return }
    markForLaunch(session)
    guard cell.record.owesFinishEvents else { return }
    sessions.update(session) { $0.record.owesFinishEvents = false }
    queue(.finishEvents, nil, session, now)
    offerMore(session)
  }

  /// An invalidated session with nothing left is gone.
  mutating func retireIfEmpty(_ session: SessionID) {
    guard let cell = sessions[session], cell.record.isInvalidated, cell.taskCount == 0, cell.deliveries.isEmpty
    else { return }
    if let peer = cell.attached { effects.append(.endSession(peer, session)) }
    sessions.remove(session)
    removals.append(.removeSession(session))
  }

  // MARK: Clients that come and go

  mutating func detach(_ peer: PeerID, _ now: ClockReading) {
    for session in sessions.order where sessions[session]?.attached == peer { release(session, now) }
    heldCommands.forget(peer)
    runHeldCommands(of: peer, now)
  }

  /// The client of a session is gone; its data tasks wait for it a while.
  mutating func release(_ session: SessionID, _ now: ClockReading) {
    sessions.update(session, isStored: false) {
      $0.attached = nil
      $0.detachedAt = now.boot
    }
    markForLaunch(session)
    var hasDataTasks = false
    for id in dataTasks(of: session) {
      guard let cell = tasks[id], !cell.entry.state.isFinished else { continue }
      hasDataTasks = true
      // What the last daemon began is not begun again: its client may have some of the bytes.
      if unreconciled.contains(id) { continue }
      if case .running = cell.entry.state {
        let isLost = cell.entry.received > 0 || mayHaveActed(id)
        leaveWire(id)
        if isLost { finish(id, .failed(Self.disconnected), now) } else { setState(.waiting, of: id) }
      }
    }
    noteUse(of: session, now)
    if hasDataTasks {
      arm(Timer(at: now.boot + Limits.dataTaskGrace, subject: .dataGrace(session)))
    }
  }

  private func dataTasks(of session: SessionID) -> [TaskID] { sessions[session]?.dataTasks ?? [] }

  mutating func wakeDataTasks(of session: SessionID, _ now: ClockReading) {
    guard sessions[session].map({ $0.unfinished > 0 }) == true else { return }
    for id in dataTasks(of: session) { line(up: id, now) }
  }

  mutating func endDataTasks(of session: SessionID, _ now: ClockReading) {
    // A client that came and left again meanwhile has a timer of its own.
    guard let cell = sessions[session], cell.attached == nil, let detachedAt = cell.detachedAt,
      now.boot - detachedAt >= Limits.dataTaskGrace
    else { return }
    for id in dataTasks(of: session) {
      guard let task = tasks[id], !task.entry.state.isFinished else { continue }
      if lacksDetails(id) {
        effects.append(.loadDetails(id))
        continue
      }
      if case .running = task.entry.state { leaveWire(id) }
      finish(id, .failed(Self.disconnected), now)
    }
  }

  /// Its client would get the bytes that it has a second time.
  static let pausedInTheMiddle = TransferFailure(
    .connectionLost, .permanent,
    detail: "The data task was paused in the middle of its answer, which cannot be continued; make a new task.")

  static let disconnected = TransferFailure(
    .sessionDisconnected, .permanent,
    detail: "The client of a data task went away, and with it the place that its bytes go to.")
}

extension Command {
  /// What a client asked for in the moment it left still counts, where it is a decision and not a question.
  var outlivesItsClient: Bool {
    switch self {
    case .openSession, .closeSession, .foreground, .app(.attach), .app(.changeState): false
    case .app(.register), .app(.remove), .app(.front), .app(.forceQuit), .app(.handled): true
    case .invalidateSession, .enqueue, .resume, .suspend, .cancel, .remove, .update, .answer, .acknowledge: true
    }
  }
}
