/// Sessions that nobody uses, and results that nobody collects.
extension Core {
  /// Nobody is attached, and it has no task. (A finish-events delivery alone keeps no session: there is nothing to
  /// collect with it.)
  private func isUnused(_ cell: SessionCell) -> Bool { cell.attached == nil && cell.taskCount == 0 }

  /// To be called after anything that may have made a session unused, or used again.
  mutating func noteUse(of session: SessionID, _ now: ClockReading) {
    guard let cell = sessions[session], isUnused(cell) != (cell.record.unusedSince != nil) else { return }
    let since = cell.record.unusedSince == nil ? now.wall : nil
    sessions.update(session) { $0.record.unusedSince = since }
    if since != nil { armReclaiming(session, now) }
  }

  mutating func armReclaiming(_ session: SessionID, _ now: ClockReading) {
    guard let since = sessions[session]?.record.unusedSince else { return }
    let left = min(max(Limits.sessionRetention - (now.wall - since), .zero), Limits.sessionRetention)
    arm(Timer(at: now.boot + left, subject: .session(session)))
  }

  /// The retention of an unused session may be over.
  mutating func reclaimIfExpired(_ session: SessionID, _ now: ClockReading) {
    guard let cell = sessions[session], let since = cell.record.unusedSince, isUnused(cell) else { return }
    let left = Limits.sessionRetention - (now.wall - since)
    guard left <= .zero, !intakes.values.contains(where: { $0.session == session }) else {
      let again = min(max(left, .seconds(60)), Limits.sessionRetention)
      return arm(Timer(at: now.boot + again, subject: .session(session)))
    }
    sessions.remove(session)
    removals.append(.removeSession(session))
  }

  // MARK: Results

  /// When a result goes that nobody collects; nil where none waits for anybody.
  package func expiry(of entry: TaskEntry) -> WallInstant? {
    guard entry.state.isFinished, let finishedAt = entry.finishedAt,
      sessions[entry.session]?.deliveries.contains(entry.id) == true
    else { return nil }
    return finishedAt + configuration.retention
  }

  /// So long before it goes, a result says so.
  var expiryNotice: Duration { configuration.retention / Limits.retentionParts }

  /// Arms the next thing that time does to a result: its notice, then its end. A millisecond later than it is due: the
  /// calendar is read in whole ones, and must not be found short of the moment.
  mutating func armRetention(_ id: TaskID, left: Duration, _ now: ClockReading) {
    let left = min(max(left, .zero), configuration.retention)
    let until = left > expiryNotice ? left - expiryNotice : left
    arm(Timer(at: now.boot + until + .milliseconds(1), subject: .retention(id)))
  }

  /// Called when a result's timer fired and it is still there.
  mutating func remindOfExpiry(_ id: TaskID, left: Duration, _ now: ClockReading) {
    if left > .zero, left <= expiryNotice, let entry = tasks[id]?.entry, let expiry = expiry(of: entry) {
      effects.append(.announce(id, .expiring(at: expiry)))
    }
    // Over, and still there: it is to go as soon as its details are read.
    armRetention(id, left: left > .zero ? left : min(.seconds(60), configuration.retention), now)
  }
}
