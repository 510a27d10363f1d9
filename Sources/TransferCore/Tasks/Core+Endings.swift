extension Core {
  enum Result {
    case succeeded
    case failed(TransferFailure)
    case cancelled(CancelCause)
  }

  // MARK: After an attempt

  /// The verdict was one that used nothing of the body.
  mutating func settle(_ work: ActiveTask, of id: TaskID, _ now: ClockReading) {
    switch work.verdict {
    case .alreadyComplete:
      // The row may be behind the part file; what was asked for is what is held.
      guard let length = work.resume?.offset else { return retry(id, nil, now) }
      finalize(id, held: length, encoding: details[id]?.progress.response?.contentEncodingToUndo, now)
    case .restart(let reason): restart(id, reason, now)
    case .retryLater(let failure): settle(failure, of: id, now)
    case .ask(let failure): ask(failure, of: id, work, now)
    case .reject(let failure): finish(id, .failed(failure), now)
    case .takeWhole, .continueAt, .redirect, nil:
      // The engine ended an attempt in a way that its verdict does not allow; the task is tried again.
      let failure = TransferFailure(.internalFault, .transient, detail: "The attempt ended without a result.")
      settle(failure, of: id, now)
    }
  }

  /// What is held is of no use: it is forgotten, and the whole is asked for.
  private mutating func restart(_ id: TaskID, _ reason: String, _ now: ClockReading) {
    guard let held = details[id] else { return }
    details[id]?.progress.wasted += tasks[id]?.entry.received ?? 0
    details[id]?.progress.resumePoint = nil
    details[id]?.progress.restarts += 1
    tasks[id]?.entry.received = 0
    touch(id, progress: true)
    let count = held.progress.restarts + 1
    if count <= Limits.immediateRestarts {
      setState(.waiting, of: id)
      return line(up: id, now)
    }
    guard count <= Limits.restarts else {
      let detail = "\(reason) That was so \(count) times, and what came in between was never whole."
      return finish(id, .failed(TransferFailure(.rangeUnsatisfiable, .permanent, detail: detail)), now)
    }
    // The same bytes again are no progress, so the delays grow with the restarts.
    let failures = tasks[id]?.entry.failures ?? 0
    tasks[id]?.entry.failures = max(failures, count - 1 - Limits.immediateRestarts)
    settle(TransferFailure(.rangeUnsatisfiable, .transient, detail: reason), of: id, now)
  }

  /// An attempt failed: again later, or the end.
  mutating func settle(_ failure: TransferFailure, of id: TaskID, _ now: ClockReading) {
    switch failure.retryability {
    case .permanent: finish(id, .failed(failure), now)
    case .transient: retry(id, failure, now)
    }
  }

  private mutating func retry(_ id: TaskID, _ failure: TransferFailure?, _ now: ClockReading) {
    guard let cell = tasks[id] else { return }
    guard mayTryAgain(cell, failure) else {
      let unexplained = TransferFailure(.internalFault, .transient, detail: "The attempt ended without a result.")
      return finish(id, .failed(failure ?? unexplained), now)
    }
    let failures = cell.entry.failures + 1
    var delay = RetryPolicy.delay(
      failures: failures, isDiscretionary: cell.entry.isDiscretionary, random: random.next())
    if failure?.code == .noSpace { delay = Limits.spaceCheckInterval }
    if isForeground(cell.entry.session) {
      delay = min(delay, Limits.connectivityCheckInterval)
      effects.append(.foreground(.awaitsConnectivity(id)))
    }
    if failure?.code == .partFileLost {
      // What is held cannot be trusted: the next attempt asks for the whole.
      details[id]?.progress.resumePoint = nil
      details[id]?.progress.wasted += cell.entry.received
      tasks[id]?.entry.received = 0
    }
    if let seconds = failure?.retryAfterSeconds {
      delay = .seconds(seconds)
      admission.rest(hostOf: cell.lane, until: now.boot + delay, at: now.boot)
    }
    details[id]?.progress.failure = failure
    // A disk that is still full has been so since the first try that it failed.
    if failure?.code != .noSpace || details[id]?.progress.heldSince == nil || cell.entry.failures == 0 {
      details[id]?.progress.heldSince = now.wall
    }
    tasks[id]?.entry.failures = failures
    tasks[id]?.entry.notBefore = now.wall + delay
    tasks[id]?.wakeAt = now.boot + delay
    setState(.waiting, of: id)
    touch(id, progress: true)
    line(up: id, now)
  }

  // MARK: Finalizing

  /// All bytes are in. The slot is free; the worker checks, syncs and places them.
  mutating func finalize(_ id: TaskID, held: Int64, encoding: String?, _ now: ClockReading) {
    guard let kind = tasks[id]?.entry.kind, let isRepeatable = tasks[id]?.entry.isRepeatable else { return }
    tasks[id]?.entry.received = held
    details[id]?.progress.contentEncoding = encoding
    tasks[id]?.entry.state = .finalizing
    effects.append(.announce(id, .state))
    // Fetching a file again does no harm, so its row need not say this; the answer to a request that is not sent again
    // must not be lost.
    if kind == .upload || !isRepeatable { touch(id, progress: true) }
    orderFinalizing(id)
  }

  mutating func orderFinalizing(_ id: TaskID) {
    guard let held = details[id], let entry = tasks[id]?.entry, entry.state == .finalizing else { return }
    let plan = held.plan
    effects.append(
      .finalize(
        FinalizeOrder(
          task: id, partPath: plan.partPath, destination: plan.kind == .upload ? .managed : plan.destination,
          held: entry.received, contentEncoding: plan.keepsEncoding ? nil : held.progress.contentEncoding,
          expectedSHA256: plan.expectedSHA256)))
  }

  mutating func finalized(_ id: TaskID, _ outcome: FinalizeOutcome, _ now: ClockReading) {
    guard let cell = tasks[id], cell.entry.state == .finalizing, let held = details[id] else {
      if case .placed(let path, _, _) = outcome, path.hasPrefix(configuration.managedFolder + "/") {
        effects.append(.removeFiles([path]))
      }
      return dropStale()
    }
    switch outcome {
    case .placed(let path, let bytes, let digest):
      details[id]?.progress.sha256 = digest
      if cell.entry.kind == .upload {
        details[id]?.progress.bodyPath = bytes > 0 ? path : nil
        if bytes == 0 { effects.append(.removeFiles([path])) }
      } else {
        details[id]?.progress.filePath = path
      }
      tasks[id]?.entry.received = max(0, bytes)
      tasks[id]?.entry.expected = max(0, bytes)
      finish(id, refusedUpload(held).map(Result.failed) ?? .succeeded, now)
    case .failed(let failure):
      if failure.code == .noSpace, !isForeground(cell.entry.session) {
        // The bytes are there; only their place is missing. Nothing is fetched or sent again for that.
        if held.progress.failure?.code != .noSpace { details[id]?.progress.heldSince = now.wall }
        details[id]?.progress.failure = failure
        touch(id, progress: true)
        arm(Timer(at: now.boot + Limits.spaceCheckInterval, subject: .finalizing(id)))
        return
      }
      // The server has answered: what it may have acted on is not asked again because its answer was lost on our disk.
      if cell.entry.kind == .upload || !cell.entry.isRepeatable { return finish(id, .failed(failure), now) }
      if failure.code == .digestMismatch { return digestMismatch(id, held, failure, now) }
      if failure.code == .partFileLost || failure.code == .lengthMismatch {
        details[id]?.progress.resumePoint = nil
      }
      settle(failure, of: id, now)
    }
  }

  /// The server took an upload's body and refused it by its status, and only 2xx counts.
  private func refusedUpload(_ held: TaskDetails) -> TransferFailure? {
    guard held.plan.kind == .upload, held.plan.statusRule == .successOnly, let head = held.progress.response,
      !(200...299).contains(head.status)
    else { return nil }
    return ResponseTable.refusal(head)
  }

  /// Failure case 9: wrong bytes are thrown away, and fetched once more.
  private mutating func digestMismatch(
    _ id: TaskID, _ held: TaskDetails, _ failure: TransferFailure, _ now: ClockReading
  ) {
    details[id]?.progress.resumePoint = nil
    details[id]?.progress.wasted += tasks[id]?.entry.received ?? 0
    details[id]?.progress.restarts += 1
    tasks[id]?.entry.received = 0
    touch(id, progress: true)
    if held.progress.restarts < Limits.digestRetries {
      var again = failure
      again.retryability = .transient
      return settle(again, of: id, now)
    }
    finish(id, .failed(failure), now)
  }

  // MARK: The end

  /// - Parameter keepsPart: the client asked for resume data.
  mutating func finish(_ id: TaskID, _ result: Result, keepsPart: Bool = false, _ now: ClockReading) {
    guard let cell = tasks[id], !cell.entry.state.isFinished,
      // Only this of the session: a copy of its results, held here, would make each finish copy them all.
      let collects = sessions[cell.entry.session]?.record.collectsResults
    else { return }
    let wasUnfinished = cell.entry.state != .suspended
    let isHeard = collects || isForeground(cell.entry.session)
    let isKept = self.keepsPart(id, result, isAsked: keepsPart, isHeard: isHeard)
    let ending: TaskState.Ending
    switch result {
    case .succeeded:
      details[id]?.progress.failure = nil
      ending = .succeeded
    case .failed(let failure):
      details[id]?.progress.failure = failure
      ending = .failed
    case .cancelled(let cause):
      details[id]?.progress.cancelCause = cause
      ending = .cancelled
    }
    leaveAsking(id)
    tasks[id]?.entry.asksFirst = false
    tasks[id]?.entry.state = .finished(ending)
    if isKept { keepPart(id, now) }
    forgetSecrets(id)
    let leftovers = leftovers(id, ending)
    tasks[id]?.entry.finishedAt = now.wall
    tasks[id]?.entry.notBefore = nil
    tasks[id]?.entry.deadline = nil
    tasks[id]?.wakeAt = nil
    tasks[id]?.deadlineAt = nil
    dropClaim(id)
    touch(id, progress: true)
    effects.append(.announce(id, .state))
    if !leftovers.isEmpty { effects.append(.removeFiles(leftovers)) }
    // A foreground client is there, and takes its results at once.
    if !isForeground(cell.entry.session) { armRetention(id, left: configuration.retention, now) }
    if wasUnfinished { sessions.update(cell.entry.session, isStored: false) { $0.unfinished -= 1 } }
    if collects { queueResults(id, now) }
    settleSession(cell.entry.session, now)
  }

  /// A credential lives no longer than the task that it was given to. (A kept part has its request's headers until it
  /// is used or dropped: without them nobody could go on from it.)
  private mutating func forgetSecrets(_ id: TaskID) {
    guard let held = details[id], held.hasSecrets else { return }
    let plan = held.plan.withoutSecrets
    details[id]?.plan = plan
    details[id]?.progress.access = nil
    changes.append(.forgetSecrets(id, plan))
  }

  /// Files that a finished task does not need. They go after the commit that says that it has finished, for until then
  /// they prove what was done.
  func leftovers(_ id: TaskID, _ ending: TaskState.Ending) -> [String] {
    guard let held = details[id] else { return [] }
    let keepsPart =
      switch ending {
      // A managed file *is* its part file; at a destination the result has a name of its own by now.
      case .succeeded: held.plan.kind == .upload || held.plan.destination == .managed
      // What was fetched completely is not thrown away because its place was taken meanwhile, nor what a server said
      // to the upload that it refused.
      case .failed: held.progress.failure?.code == .fileExists || held.progress.bodyPath != nil
      case .cancelled: false
      }
    return (keepsPart || !holdsPart(id) ? [] : [held.plan.partPath]) + pinnedSource(id)
  }

  private func pinnedSource(_ id: TaskID) -> [String] {
    guard let source = details[id]?.plan.source, source.pin != .none else { return [] }
    return [source.pinnedPath]
  }

  private mutating func dropClaim(_ id: TaskID) {
    guard let claim = tasks[id]?.claim, claim != 0 else { return }
    if destinationOwners[claim] == id { destinationOwners[claim] = nil }
    tasks[id]?.claim = 0
  }

  /// The task and all that the daemon holds of it go away. Its file at a destination stays.
  /// - Parameter isCollected: its results have left the queue already; a long queue is not searched for each of them.
  mutating func forget(_ id: TaskID, _ now: ClockReading, isCollected: Bool = false) {
    guard let cell = tasks[id], let session = sessions[cell.entry.session]?.record else { return }
    if cell.entry.state == .finished(.failed) { noteBlindness(id) }
    let managed = managedPath(partOwner(id), app: session.key.app)
    let holdsPart = holdsPart(id)
    var files: [String] = []
    if let held = details[id] {
      let isElsewhere = held.plan.partPath != managed
      if !isElsewhere, holdsPart { files.append(managed) }
      if isElsewhere, holdsPart, cell.entry.state != .finished(.succeeded) { files.append(held.plan.partPath) }
      files += pinnedSource(id)
    } else if holdsPart {
      files.append(managed)
    }
    forgetAdoption(id)
    leaveAsking(id)
    forgetSecrets(id)
    dropClaim(id)
    if let digest = cell.keyDigest, keyOwners[digest] == id { keyOwners[digest] = nil }
    sessions.update(cell.entry.session, isStored: false) {
      if !isCollected { _ = $0.deliveries.removeAll(of: id) }
      $0.remove(cell.entry)
    }
    tasks.remove(id)
    details[id] = nil
    unreadable.remove(id)
    unreconciled.remove(id)
    if !cell.isNew { removals.append(.removeTask(id)) }
    if !files.isEmpty { effects.append(.removeFiles(files)) }
    effects.append(.announce(id, .removed))
    settleSession(cell.entry.session, now)
    noteUse(of: cell.entry.session, now)
    retireIfEmpty(cell.entry.session)
  }

  // MARK: Time

  mutating func setDeadline(_ id: TaskID, _ timeout: Duration, _ now: ClockReading) {
    tasks[id]?.entry.deadline = now.wall + timeout
    touch(id)
    armDeadline(id, now)
  }

  /// Turns the stored wall time into this boot's clock; a wall clock that jumped cannot move it further than the
  /// longest timeout that there is.
  mutating func armDeadline(_ id: TaskID, _ now: ClockReading) {
    guard let deadline = tasks[id]?.entry.deadline else { return }
    let remaining = min(max(deadline - now.wall, .zero), Limits.resourceTimeout)
    let due = now.boot + remaining
    tasks[id]?.deadlineAt = due
    arm(Timer(at: due, subject: .deadline(id)))
    armUrgency(id, now)
  }

  /// A calendar date is a moment of the wall clock: when that was set, tasks with a date get their new moment. (Delays
  /// after failures stay as they are.)
  mutating func followWallClock(_ now: ClockReading) {
    let offset = now.wall.milliseconds.subtractingClamped(now.boot.nanoseconds / 1_000_000)
    guard let known = wallOffset else {
      wallOffset = offset
      return
    }
    // Clocks are disciplined by milliseconds all the time.
    guard abs(offset.subtractingClamped(known)) > 1000 else { return }
    wallOffset = offset
    var dated: [TaskID] = []
    tasks.forEach { cell in
      let entry = cell.entry
      if !entry.state.isFinished, entry.failures == 0, entry.notBefore != nil { dated.append(entry.id) }
    }
    for id in dated {
      guard let date = tasks[id]?.entry.notBefore else { continue }
      tasks[id]?.wakeAt = now.boot + (date - now.wall)
      line(up: id, now)
    }
  }

  mutating func fireTimers(_ now: ClockReading) {
    var left = Limits.dueInTick
    while left > 0, let timer = timers.top, timer.at <= now.boot {
      left -= 1
      _ = timers.pop()
      switch timer.subject {
      case .deadline(let id):
        guard let due = tasks[id]?.deadlineAt, due <= now.boot else { continue }
        if lacksDetails(id) { effects.append(.loadDetails(id)) } else { timeOut(id, now) }
      case .retention(let id):
        forgetIfExpired(id, now)
        // Still there: its details are on their way, or the wall clock was set back and its days are not over.
        if let left = retentionLeft(id, now) { remindOfExpiry(id, left: left, now) }
      case .keptPart(let token): expireKeptPart(token, now)
      case .session(let session): reclaimIfExpired(session, now)
      case .dataGrace(let session): endDataTasks(of: session, now)
      case .finalizing(let id): orderFinalizing(id)
      case .urgency(let id): becomeUrgent(id, now)
      }
    }
  }

  mutating func timeOut(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id] else { return }
    switch cell.entry.state {
    case .suspended, .finished: return
    case .finalizing:
      // It may yet have to fetch again, and must not do so for ever.
      return arm(Timer(at: now.boot + Limits.spaceCheckInterval, subject: .deadline(id)))
    case .running: leaveWire(id)
    case .waiting, .asking: break
    }
    let last = details[id]?.progress.failure.map { " The last attempt: \($0.detail)" } ?? ""
    finish(
      id,
      .failed(
        TransferFailure(.resourceTimedOut, .permanent, detail: "The task did not finish within its time.\(last)")), now)
  }

  /// For how long a result is still kept; nil where there is none.
  private func retentionLeft(_ id: TaskID, _ now: ClockReading) -> Duration? {
    guard let entry = tasks[id]?.entry, entry.state.isFinished, let finishedAt = entry.finishedAt else { return nil }
    return configuration.retention - (now.wall - finishedAt)
  }

  /// A result that nobody collected in its retention goes.
  mutating func forgetIfExpired(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id], let left = retentionLeft(id, now), left <= .zero else { return }
    if cell.entry.state == .finished(.failed), lacksDetails(id) {
      effects.append(.loadDetails(id))
    } else {
      forget(id, now)
    }
  }
}
