extension Core {
  /// Carries a command out, at once or when the details that it needs have been loaded, and never before one that the
  /// same client sent earlier.
  mutating func receive(_ command: Command, _ token: RequestToken, _ now: ClockReading) {
    let missing = missingDetails(of: command)
    if missing.isEmpty, !heldCommands.holdsCommands(of: token.peer) { return carryOut(command, token, now) }
    for id in missing { effects.append(.loadDetails(id)) }
    if let id = missing.first, !heldCommands.holdsCommands(of: token.peer) { heldCommands.wait(token.peer, for: id) }
    heldCommands.append(CommandQueue.Held(command: command, token: token, missing: missing.reversed()))
  }

  private func missingDetails(of command: Command) -> [TaskID] {
    command.tasksInDetail(self).filter { tasks[$0] != nil && lacksDetails($0) }
  }

  /// The details of a task have come, or there are none: commands that waited for them may go on.
  mutating func runHeldCommands(after id: TaskID, _ now: ClockReading) {
    for peer in heldCommands.takeWaiters(for: id) { runHeldCommands(of: peer, now) }
  }

  mutating func runHeldCommands(of peer: PeerID, _ now: ClockReading) {
    while heldCommands.holdsCommands(of: peer) {
      // One after the other: to look at all of a hundred thousand for each that comes would take hours.
      while let id = heldCommands.firstMissing(of: peer), tasks[id] == nil || !lacksDetails(id) {
        heldCommands.dropFirstMissing(of: peer)
      }
      if let id = heldCommands.firstMissing(of: peer) { return heldCommands.wait(peer, for: id) }
      if let held = heldCommands.takeFirst(of: peer) { carryOut(held.command, held.token, now) }
    }
  }

  private mutating func carryOut(_ command: Command, _ token: RequestToken, _ now: ClockReading) {
    switch command {
    case .openSession(
      let key, let attach, let collects, let network, let sendsLaunchEvents, let revives, let answers):
      open(
        key, attach: attach, collects: collects, network: network, sendsLaunchEvents: sendsLaunchEvents,
        revives: revives, answers: answers, token, now)
    case .closeSession(let id):
      if sessions[id]?.attached == token.peer { release(id, now) }
      effects.append(.reply(token, .done))
    case .invalidateSession(let id, let cancel): invalidate(id, cancel: cancel, token, now)
    case .enqueue(let id, let drafts): enqueue(drafts, in: id, token, now)
    case .resume(let ids): each(ids, token) { core, id in core.resume(id, now) }
    case .suspend(let ids): each(ids, token) { core, id in core.suspend(id, now) }
    case .cancel(let ids, producesResumeData: false):
      each(ids, token) { core, id in core.cancel(id, .requested, now) }
    case .cancel(let ids, producesResumeData: true): cancelKeepingParts(ids, token, now)
    case .remove(let ids): each(ids, token) { core, id in core.remove(id, now) }
    case .update(let id, let change): update(id, change, token, now)
    case .answer(let id, let question, let answer): self.answer(id, question, answer, token, now)
    case .acknowledge(let id, let numbers):
      guard sessions[id] != nil else { return refuse(token, .sessionUnknown, "There is no session \(id).") }
      for number in numbers { acknowledge(number, in: id, now) }
      offerMore(id)
      retireIfEmpty(id)
      effects.append(.reply(token, .done))
    case .foreground(let command): carryOut(command, token, now)
    case .app(let command): carryOut(command, token, now)
    }
  }

  func refusal(_ name: Refusal.Name, _ message: String) -> Reply { .refused(Refusal(name, message)) }

  mutating func refuse(_ token: RequestToken, _ name: Refusal.Name, _ message: String) {
    effects.append(.reply(token, refusal(name, message)))
  }

  private mutating func each(_ ids: [TaskID], _ token: RequestToken, _ body: (inout Core, TaskID) -> Void) {
    var reached: [TaskID] = []
    var unknown: [TaskID] = []
    for id in ids {
      if tasks[id] == nil {
        unknown.append(id)
      } else {
        reached.append(id)
        body(&self, id)
      }
    }
    effects.append(.reply(token, .identifiers(reached: reached, unknown: unknown)))
  }

  // MARK: Sessions

  private mutating func open(
    _ key: SessionKey, attach: Bool, collects: Bool, network: NetworkSettings, sendsLaunchEvents: Bool, revives: Bool,
    answers: Bool, _ token: RequestToken, _ now: ClockReading
  ) {
    let known = sessions[key]
    if let known, let cell = sessions[known] {
      if attach, let holder = cell.attached, holder != token.peer {
        return refuse(
          token, .sessionInUse,
          "Another process is attached to the session \"\(key.identifier)\"; it must end or close the session first.")
      }
      if cell.record.network != network { sessions.update(known) { $0.record.network = network } }
      // An invalidation is one process's; the next one makes the session anew, with the tasks that are left.
      if revives, cell.record.isInvalidated { sessions.update(known) { $0.record.isInvalidated = false } }
      // Who only enqueues does not speak for the one that is attached.
      if attach, cell.record.answersChallenges != answers {
        sessions.update(known) { $0.record.answersChallenges = answers }
      }
    } else if degraded != nil {
      return refuseDegraded(token)
    }
    let id = known ?? makeSession(key, collects: collects, network: network, answers: answers)
    guard let cell = sessions[id] else { return }
    if cell.record.sendsLaunchEvents != sendsLaunchEvents {
      sessions.update(id) { $0.record.sendsLaunchEvents = sendsLaunchEvents }
    }
    effects.append(
      .reply(token, .sessionOpened(id, nextTaskNumber: cell.record.nextTaskNumber, isNew: known == nil)))
    guard attach else { return noteUse(of: id, now) }
    sessions.update(id, isStored: false) {
      $0.attached = token.peer
      $0.deliveries.rewind()
    }
    noteAttachment(id, token.peer, now)
    noteUse(of: id, now)
    offerMore(id)
    offerQuestions(of: id)
    wakeDataTasks(of: id, now)
  }

  private mutating func makeSession(
    _ key: SessionKey, collects: Bool, network: NetworkSettings, answers: Bool
  ) -> SessionID {
    lastSessionID.rawValue += 1
    let record = SessionRecord(
      id: lastSessionID, key: key, network: network, collectsResults: collects, answersChallenges: answers)
    sessions.insert(SessionCell(record: record), isStored: true)
    return lastSessionID
  }

  private mutating func invalidate(_ id: SessionID, cancel: Bool, _ token: RequestToken, _ now: ClockReading) {
    guard sessions[id] != nil else { return refuse(token, .sessionUnknown, "There is no session \(id).") }
    sessions.update(id) { $0.record.isInvalidated = true }
    effects.append(.reply(token, .done))
    if cancel {
      for task in taskIDs(of: id) { self.cancel(task, .sessionInvalidated, now) }
    }
    retireIfEmpty(id)
  }

  func taskIDs(of session: SessionID) -> [TaskID] {
    var ids: [TaskID] = []
    tasks.forEach { if $0.entry.session == session { ids.append($0.entry.id) } }
    return ids
  }

  // MARK: Enqueueing

  mutating func refuseDegraded(_ token: RequestToken) {
    refuse(token, .degraded, "The daemon cannot store new work now: \(degraded ?? "")")
  }

  private mutating func enqueue(
    _ drafts: [TaskDraft], in id: SessionID, _ token: RequestToken, _ now: ClockReading
  ) {
    guard let session = sessions[id] else { return refuse(token, .sessionUnknown, "There is no session \(id).") }
    if session.record.isInvalidated {
      return refuse(token, .sessionInvalidated, "The session was invalidated and takes no new tasks.")
    }
    if degraded != nil { return refuseDegraded(token) }
    guard tasks.count + drafts.count <= Limits.tasks else {
      return refuse(token, .tooManyTasks, "The daemon holds \(tasks.count) tasks; remove some first.")
    }
    var intake = Intake(session: id, slots: [])
    var orders: [PrepareOrder] = []
    for asked in inBackground(drafts, of: session.record.key.app, by: token.peer, now) {
      if let existing = existing(asked.key, in: id) {
        intake.slots.append(.settled(existing))
        continue
      }
      let draft: TaskDraft
      switch claimPart(for: asked, in: id) {
      case .success(let whole): draft = whole
      case .failure(let refused):
        intake.slots.append(.settled(.refused(refused.refusal)))
        continue
      }
      lastTaskID.rawValue += 1
      intake.slots.append(.pending(lastTaskID, draft))
      if draft.sourcePath != nil || draft.body != nil || draft.destination != .managed {
        orders.append(
          PrepareOrder(
            task: lastTaskID, sourcePath: draft.sourcePath, body: draft.body, destination: draft.destination))
      }
    }
    intakes[token] = intake
    if orders.isEmpty { accept([], token, now) } else { effects.append(.prepare(token, orders)) }
  }

  private func existing(_ key: String?, in session: SessionID) -> EnqueueOutcome? {
    guard let id = owner(ofKey: key, in: session), let cell = tasks[id] else { return nil }
    return .accepted(id, number: cell.entry.number, existed: true, pin: details[id]?.plan.source?.pin)
  }

  func owner(ofKey key: String?, in session: SessionID) -> TaskID? {
    key.flatMap { keyOwners[KeyDigest(session: session, key: $0)] }
  }

  /// The files of a batch were looked at: its tasks become real, all in one commit.
  mutating func accept(_ prepared: [PreparedTask], _ token: RequestToken, _ now: ClockReading) {
    guard let intake = intakes.removeValue(forKey: token) else {
      staleEvents += 1
      effects.append(.discardPreparation(prepared.map(\.task)))
      return
    }
    var outcomes: [EnqueueOutcome] = []
    var byTask: [TaskID: PreparedTask.Outcome] = [:]
    for item in prepared { byTask[item.task] = item.outcome }
    let isOpen = sessions[intake.session].map { !$0.record.isInvalidated } ?? false
    for slot in intake.slots {
      switch slot {
      case .settled(let outcome): outcomes.append(outcome)
      case .pending(let id, let draft):
        let outcome = byTask[id] ?? .ready(source: nil, destination: draft.destination)
        outcomes.append(isOpen ? settle(draft, as: id, outcome, in: intake.session, now) : sessionGone(id))
        unclaimPart(of: draft)
      }
    }
    effects.append(.reply(token, .enqueued(outcomes)))
  }

  private mutating func sessionGone(_ id: TaskID) -> EnqueueOutcome {
    effects.append(.discardPreparation([id]))
    return .refused(Refusal(.sessionInvalidated, "The session was invalidated meanwhile."))
  }

  private mutating func settle(
    _ draft: TaskDraft, as id: TaskID, _ outcome: PreparedTask.Outcome, in session: SessionID, _ now: ClockReading
  ) -> EnqueueOutcome {
    // The same key may have come twice in one batch, or in two whose files were looked at side by side.
    if let existing = existing(draft.key, in: session) {
      effects.append(.discardPreparation([id]))
      return existing
    }
    switch outcome {
    case .refused(let refusal): return .refused(refusal)
    case .ready(let source, let destination):
      if let refusal = claim(destination, for: id) {
        effects.append(.discardPreparation([id]))
        return .refused(refusal)
      }
      let number = add(draft, as: id, source: source, destination: destination, in: session, now)
      return .accepted(id, number: number, existed: false, pin: source?.pin)
    }
  }

  private mutating func claim(_ destination: Destination, for id: TaskID) -> Refusal? {
    guard case .file(let path, _) = destination else { return nil }
    let digest = FNV.hash(path)
    if let owner = destinationOwners[digest] {
      return Refusal(.destinationClaimed, "Task \(owner) already writes to \(path); cancel it or choose another path.")
    }
    destinationOwners[digest] = id
    return nil
  }

  private mutating func add(
    _ draft: TaskDraft, as id: TaskID, source: UploadSource?, destination: Destination, in session: SessionID,
    _ now: ClockReading
  ) -> Int64 {
    guard let owner = sessions[session]?.record else { return 0 }
    let number = owner.nextTaskNumber
    let isStarted = !draft.isSuspended
    let part = adoptPart(of: draft, by: id)
    let entry = TaskEntry(
      id: id, session: session, number: number, kind: draft.kind, state: isStarted ? .waiting : .suspended,
      origin: draft.origin, isRepeatable: draft.isRepeatable, priority: draft.priority,
      isDiscretionary: draft.isDiscretionary, constraints: draft.constraints,
      urgentSeconds: Self.urgentSeconds(draft.resourceTimeout), received: part?.received ?? 0,
      expected: part?.point.total, notBefore: draft.earliestBegin,
      deadline: isStarted ? now.wall + draft.resourceTimeout : nil,
      asksFirst: draft.asksBeforeBegin && draft.earliestBegin != nil)
    let plan = TaskPlan(
      kind: draft.kind, request: draft.request, source: source, destination: destination,
      partPath: part?.partPath ?? partPath(id, destination, app: owner.key.app), partOwner: part?.owner,
      expectedSHA256: draft.expectedSHA256,
      statusRule: draft.statusRule, keepsEncoding: draft.keepsEncoding, requestTimeout: draft.requestTimeout,
      resourceTimeout: draft.resourceTimeout, key: draft.key, createdAt: now.wall,
      answersChallenges: draft.answersChallenges, asksBeforeBegin: draft.asksBeforeBegin, tls: draft.tls)
    let lane = admission.lane(
      session: session, origin: draft.origin, limit: owner.network.maximumConnectionsPerHost)
    var cell = TaskCell(entry: entry, lane: lane)
    cell.entry.origin = admission.origin(lane)
    cell.isNew = true
    cell.wakeAt = draft.earliestBegin.map { now.boot + ($0 - now.wall) }
    cell.keyDigest = draft.key.map { KeyDigest(session: session, key: $0) }
    if case .file(let path, _) = destination { cell.claim = FNV.hash(path) }
    tasks.insert(cell)
    keepResident(
      id,
      TaskDetails(
        plan: plan,
        progress: TaskProgress(
          taskDescription: draft.taskDescription, resumePoint: part?.point,
          bootID: part?.bootID ?? configuration.bootID, response: part?.response,
          earliestBegin: draft.earliestBegin, hintToSend: draft.hintToSend, hintToReceive: draft.hintToReceive,
          access: draft.access(owner.network))))
    if let digest = cell.keyDigest { keyOwners[digest] = id }
    sessions.update(session) {
      $0.record.nextTaskNumber += 1
      $0.add(entry)
      if isStarted { $0.unfinished += 1 }
    }
    touch(id, progress: true)
    noteUse(of: session, now)
    noteDemand(id)
    if isStarted {
      armDeadline(id, now)
      line(up: id, now)
    }
    effects.append(.announce(id, .state))
    return number
  }

  /// The file in which bytes are collected. Its name carries the task's id, so that no two tasks share one and a
  /// restart can tell whose it is.
  private func partPath(_ id: TaskID, _ destination: Destination, app: String) -> String {
    switch destination {
    case .managed: return managedPath(id, app: app)
    case .file(let path, _):
      guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "\(path).ferry-\(id)" }
      // 255 bytes bound a name (POSIX NAME_MAX), and the final name may use all of them.
      return "\(path[...slash]).ferry-\(id).part"
    }
  }

  /// Where the daemon keeps a task's bytes that have no destination of their own.
  package func managedPath(_ id: TaskID, app: String) -> String {
    "\(configuration.managedFolder)/\(Self.folderName(app))/ferry-\(id).tmp"
  }

  /// An app's id as one folder name: no separator, nothing hidden, bounded.
  package static func folderName(_ app: String) -> String {
    let safe = app.unicodeScalars.map { scalar in
      scalar == "/" || scalar.value < 0x20 || scalar.value == 0x7F ? "_" : String(scalar)
    }.joined()
    var name = String(decoding: safe.utf8.prefix(200), as: UTF8.self)
    if name.isEmpty || name.hasPrefix(".") { name = "_" + name }
    return name
  }

  // MARK: Changing tasks

  private mutating func update(_ id: TaskID, _ change: TaskChange, _ token: RequestToken, _ now: ClockReading) {
    guard tasks[id] != nil else { return refuse(token, .taskUnknown, "There is no task \(id).") }
    if let priority = change.priority {
      tasks[id]?.entry.priority = priority
      touch(id)
      moveInLine(id)
    }
    if let earliest = change.earliestBegin, tasks[id]?.entry.state.isFinished == false {
      tasks[id]?.entry.notBefore = earliest
      tasks[id]?.wakeAt = now.boot + (earliest - now.wall)
      // From now on it waits for a date and not for a retry: the date follows the wall clock, is bounded by no backoff,
      // and is not passed over by who resumes the task.
      tasks[id]?.entry.failures = 0
      details[id]?.progress.earliestBegin = earliest
      noteDate(earliest, of: id)
      touch(id, progress: true)
      line(up: id, now)
    }
    if let text = change.taskDescription {
      details[id]?.progress.taskDescription = text
      touch(id, progress: true)
    }
    if change.hintToSend != nil || change.hintToReceive != nil {
      if let bytes = change.hintToSend { details[id]?.progress.hintToSend = bytes }
      if let bytes = change.hintToReceive { details[id]?.progress.hintToReceive = bytes }
      touch(id, progress: true)
    }
    clear(change.clears, of: id, now)
    effects.append(.reply(token, .identifiers(reached: [id], unknown: [])))
  }

  private mutating func clear(_ members: Set<TaskChange.Clearable>, of id: TaskID, _ now: ClockReading) {
    guard !members.isEmpty, let cell = tasks[id] else { return }
    if members.contains(.description) { details[id]?.progress.taskDescription = nil }
    if members.contains(.clientExpectsToSend) { details[id]?.progress.hintToSend = nil }
    if members.contains(.clientExpectsToReceive) { details[id]?.progress.hintToReceive = nil }
    touch(id, progress: true)
    guard members.contains(.earliestBegin) else { return }
    details[id]?.progress.earliestBegin = nil
    noteDate(nil, of: id)
    // After a failure the moment is that of the next try, which stays.
    guard !cell.entry.state.isFinished, cell.entry.failures == 0 else { return }
    tasks[id]?.entry.notBefore = nil
    tasks[id]?.wakeAt = nil
    line(up: id, now)
  }

  mutating func moveInLine(_ id: TaskID) {
    guard let cell = tasks[id], cell.isQueued else { return }
    let table = tasks
    admission.move(cell) { table[$0] }
  }

  mutating func resume(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id] else { return }
    switch cell.entry.state {
    case .suspended where cell.entry.kind == .data && cell.entry.received > 0:
      finish(id, .failed(Self.pausedInTheMiddle), now)
    case .suspended:
      sessions.update(cell.entry.session, isStored: false) { $0.unfinished += 1 }
      setState(.waiting, of: id)
      if let held = details[id] { setDeadline(id, held.plan.resourceTimeout, now) }
      line(up: id, now)
    case .asking: goOn(id, now)
    case .waiting:
      // A person who resumes what waits after a failure wants it tried now.
      guard cell.entry.failures > 0, cell.wakeAt.map({ $0 > now.boot }) == true else { return }
      tasks[id]?.entry.notBefore = nil
      tasks[id]?.wakeAt = nil
      touch(id)
      line(up: id, now)
    case .running: letGo(id, now)
    case .finalizing, .finished: return
    }
  }

  mutating func suspend(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id] else { return }
    switch cell.entry.state {
    case .waiting, .asking: break
    case .running:
      // The request is out, and sending it again could do the thing twice: only its answer is awaited.
      if isForeground(cell.entry.session), active[id].map({ $0.phase != .loading }) == true { return hold(id) }
      if mayHaveActed(id) { return }
      leaveWire(id)
    case .suspended, .finalizing, .finished: return
    }
    sessions.update(cell.entry.session, isStored: false) { $0.unfinished -= 1 }
    leaveAsking(id)
    tasks[id]?.entry.deadline = nil
    tasks[id]?.deadlineAt = nil
    setState(.suspended, of: id)
    noteHeld(id, now)
    settleSession(cell.entry.session, now)
  }

  /// As a cancellation, and the reply, which comes before what it leads to, tells what was kept.
  private mutating func cancelKeepingParts(_ ids: [TaskID], _ token: RequestToken, _ now: ClockReading) {
    let place = effects.count
    var kept: [KeptPart] = []
    for id in ids where tasks[id] != nil {
      cancel(id, .requested, keepsPart: true, now)
      // Asked again because the reply was lost, it tells the same.
      if let part = keptPart(of: id) { kept.append(part) }
    }
    let reply = Reply.cancelled(
      reached: ids.filter { tasks[$0] != nil }, unknown: ids.filter { tasks[$0] == nil }, kept: kept)
    effects.insert(.reply(token, reply), at: place)
  }

  /// - Parameter keepsPart: the client wants to go on from what was fetched.
  mutating func cancel(_ id: TaskID, _ cause: CancelCause, keepsPart: Bool = false, _ now: ClockReading) {
    guard let cell = tasks[id] else { return }
    switch cell.entry.state {
    case .finished: return
    // A result is in and about to be placed; only one that waits for space can still be given up.
    case .finalizing: if details[id]?.progress.failure?.code != .noSpace { return }
    case .running: leaveWire(id)
    case .suspended, .waiting, .asking: break
    }
    finish(id, .cancelled(cause), keepsPart: keepsPart, now)
  }

  mutating func remove(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id] else { return }
    // A foreground client lets each task go that has ended; what was kept of it is for another one.
    if !isForeground(cell.entry.session), let part = keptPart(of: id) { dropKeptPart(part.token) }
    if case .running = cell.entry.state { leaveWire(id) }
    if !cell.entry.state.isFinished, cell.entry.state != .suspended {
      sessions.update(cell.entry.session, isStored: false) { $0.unfinished -= 1 }
    }
    forget(id, now)
  }

  /// Notes since when the task does not go on by itself.
  mutating func noteHeld(_ id: TaskID, _ now: ClockReading) {
    details[id]?.progress.heldSince = now.wall
    touch(id, progress: true)
  }

  mutating func setState(_ state: TaskState, of id: TaskID) {
    tasks[id]?.entry.state = state
    if state == .asking, let session = tasks[id]?.entry.session { noteAsking(id, session) }
    touch(id)
    effects.append(.announce(id, .state))
  }
}

extension Command {
  /// The tasks whose details must be in memory to carry the command out.
  func tasksInDetail(_ core: Core) -> [TaskID] {
    switch self {
    case .resume(let ids), .suspend(let ids), .cancel(let ids, _), .remove(let ids): ids
    case .update(let id, _), .answer(let id, _, _): [id]
    case .invalidateSession(let session, cancel: true): core.taskIDs(of: session)
    case .foreground(.follow(let id, _)), .foreground(.authorize(let id, _)), .foreground(.keepResponse(let id, _)):
      [id]
    case .app(.forceQuit(let app)): core.sessionIDs(of: app).flatMap { core.taskIDs(of: $0) }
    case .enqueue(let session, let drafts): drafts.compactMap { core.owner(ofKey: $0.key, in: session) }
    case .acknowledge(let session, let numbers): numbers.compactMap { core.failedTask(toldBy: $0, in: session) }
    case .openSession, .closeSession, .invalidateSession, .foreground(.open), .app: []
    }
  }
}
