/// What a starting daemon makes of what its predecessor left. The table is the specification of crash safety:
///
/// | stored state | kind or property | becomes | why |
/// |---|---|---|---|
/// | suspended | any | suspended | a pause is durable |
/// | waiting | any | waiting | remaining times come from the stored wall times |
/// | running | download, upload; repeatable | waiting | no attempt outlives the daemon; the part file is continued |
/// | running | not repeatable | failed (outcomeUnknown) | the server may have acted; sending twice could do harm |
/// | running | data | failed (sessionDisconnected) | its client already has some of the bytes |
/// | asking | any | asking | only the app can answer |
/// | finalizing | any; same boot, or all bytes synced | finalizing | the result is in; checking and placing it are repeated and do no harm |
/// | finalizing | another boot, repeatable download | waiting | the page cache went with the machine: only the synced bytes count |
/// | finalizing | another boot, upload or not repeatable | failed (partFileLost) | the server has acted, and its answer may be torn |
/// | finished | results unacknowledged | offered again, with the same numbers | at least once |
/// | finished | part file or pinned source left | they are removed (again) | removing follows the commit and may have been lost |
/// | kept part | any | kept, until its retention ends | resume data outlives both processes |
/// | (no row) | file named by a task's id in the daemon's folders | removed by the shell, see ``Core/mustKeepFiles(of:)`` | a row is written before a file counts |
extension Core {
  /// A core that goes on from what was stored, and what is to be done first.
  package static func restoring(
    _ stored: StoredState, _ configuration: Configuration, at now: ClockReading
  ) -> (core: Core, effects: [Effect]) {
    var core = Core(configuration)
    core.random = RandomWords(seed: now.randomWord)
    core.lastTaskID = stored.lastTaskID
    core.lastSessionID = stored.lastSessionID
    for record in stored.sessions { core.sessions.insert(SessionCell(record: record), isStored: false) }
    for row in stored.tasks { core.restore(mended(row, now), now) }
    core.timers = BinaryHeap(core.timers.elements)
    for claim in stored.claims {
      let digest = FNV.hash(claim.path)
      core.destinationOwners[digest] = claim.task
      core.tasks[claim.task]?.claim = digest
    }
    for key in stored.keys {
      let digest = KeyDigest(session: key.session, key: key.key)
      core.keyOwners[digest] = key.task
      core.tasks[key.task]?.keyDigest = digest
    }
    // In the order of ids: of several that went on in one file the last is the one that has it now.
    for adoption in stored.adoptions { core.adopt(adoption) }
    for part in stored.keptParts {
      core.remember(part, now)
      core.adoptedBy[part.owner] = nil
    }
    for delivery in stored.deliveries {
      core.sessions.update(delivery.session, isStored: false) { $0.deliveries.append(delivery) }
    }
    core.restoreApps(stored, now)
    for row in stored.tasks {
      let entry = mended(row, now)
      if entry != row { core.touch(entry.id) }
      core.reconcile(entry, now)
    }
    for session in core.sessions.order {
      core.settleSession(session, now)
      core.noteUse(of: session, now)
      core.armReclaiming(session, now)
      core.retireIfEmpty(session)
    }
    defer { core.effects.removeAll() }
    let effects = core.effects
    core.effects.removeAll()
    return (core, effects)
  }

  /// Whether files named by this id in the daemon's own folders belong to somebody.
  package func mustKeepFiles(of id: TaskID) -> Bool {
    tasks[id] != nil || id > lastTaskID || keptOf[id] != nil || adoptedBy[id] != nil
      || intakes.values.contains { $0.isPreparing(id) }
  }

  /// A row whose moments contradict its state was written by somebody else. Its task goes on, and neither runs nor
  /// stays for ever.
  private static func mended(_ row: TaskEntry, _ now: ClockReading) -> TaskEntry {
    var entry = row
    if entry.state.isFinished {
      entry.deadline = nil
      entry.notBefore = nil
      entry.asksFirst = false
      entry.finishedAt = row.finishedAt ?? now.wall
    } else {
      entry.finishedAt = nil
      entry.deadline = entry.state == .suspended ? nil : row.deadline ?? now.wall + Limits.resourceTimeout
    }
    return entry
  }

  private mutating func restore(_ entry: TaskEntry, _ now: ClockReading) {
    guard let session = sessions[entry.session] else { return }
    let lane = admission.lane(
      session: entry.session, origin: entry.origin, limit: session.record.network.maximumConnectionsPerHost)
    var cell = TaskCell(entry: entry, lane: lane)
    cell.entry.origin = admission.origin(lane)
    // A wall clock that was set back must not make a task wait for longer than any backoff or date allows.
    let longest = entry.failures > 0 ? Limits.longestBackoff : Limits.resourceTimeout
    cell.wakeAt = entry.notBefore.map { now.boot + min(max($0 - now.wall, .zero), longest) }
    tasks.insert(cell)
    if !entry.state.isFinished { noteDemand(entry.id) }
    let isUnfinished = !entry.state.isFinished && entry.state != .suspended
    sessions.update(entry.session, isStored: false) {
      $0.add(entry)
      if isUnfinished { $0.unfinished += 1 }
    }
    armDeadline(entry.id, now)
    if let finishedAt = entry.finishedAt {
      armRetention(entry.id, left: configuration.retention - (now.wall - finishedAt), now)
    }
  }

  private mutating func reconcile(_ entry: TaskEntry, _ now: ClockReading) {
    switch entry.state {
    case .suspended: break
    case .asking: noteAsking(entry.id, entry.session)
    case .waiting: line(up: entry.id, now)
    case .running:
      if entry.isRepeatable {
        tasks[entry.id]?.entry.state = .waiting
        touch(entry.id)
        line(up: entry.id, now)
      } else {
        loadToConclude(entry.id)
      }
    case .finalizing, .finished: loadToConclude(entry.id)
    }
  }

  private mutating func loadToConclude(_ id: TaskID) {
    unreconciled.insert(id)
    effects.append(.loadDetails(id))
  }

  /// The second half of the table, for the states in which the details are needed.
  mutating func conclude(_ id: TaskID, _ now: ClockReading) {
    guard unreconciled.remove(id) != nil, let entry = tasks[id]?.entry else { return }
    switch entry.state {
    case .running:
      let failure =
        entry.kind == .data
        ? Self.disconnected
        : TransferFailure(
          .outcomeUnknown, .permanent,
          detail: "The daemon was stopped while the request was on its way. The server may have acted on it, so it was "
            + "not sent again; an Idempotency-Key header would allow that.")
      finish(id, .failed(failure), now)
    case .finalizing: isWholeOnDisk(id) ? orderFinalizing(id) : giveUpBytes(id, now)
    case .finished(let ending):
      let leftovers = leftovers(id, ending)
      if !leftovers.isEmpty { effects.append(.removeFiles(leftovers)) }
    case .suspended, .waiting, .asking: break
    }
  }

  /// All bytes of a complete part file are still there: a page cache survives the daemon, and not the machine.
  private func isWholeOnDisk(_ id: TaskID) -> Bool {
    guard let held = details[id], let received = tasks[id]?.entry.received else { return true }
    if received == 0 || held.progress.bootID == configuration.bootID { return true }
    return held.progress.resumePoint.map { $0.offset >= received } ?? false
  }

  /// A length alone proves nothing after a reboot: what was written and not synced may be zeros.
  private mutating func giveUpBytes(_ id: TaskID, _ now: ClockReading) {
    guard let entry = tasks[id]?.entry else { return }
    if entry.kind == .upload || !entry.isRepeatable {
      let failure = TransferFailure(
        .partFileLost, .permanent,
        detail: "The server answered, but the machine stopped before its answer was safe on the disk. The request was "
          + "not sent again, because the server has acted on it.")
      return finish(id, .failed(failure), now)
    }
    setState(.waiting, of: id)
    line(up: id, now)
  }
}
