/// What the device's conditions do to tasks: those whose constraints are not met wait, each class in a line of its own,
/// and one that runs is taken off the wire with its bytes kept.
extension Core {
  /// The conditions changed, as the shell saw it.
  mutating func take(_ new: Conditions, _ now: ClockReading) {
    let satisfied = new.satisfied
    let returned = wasOffline && satisfied.contains(.network)
    if !new.pending.contains(.network) { wasOffline = !new.isOnline }
    conditions = new
    unmetSince.note(satisfied: satisfied, at: now.wall)
    let freed = admission.take(satisfied)
    if returned {
      // Whoever waited for the network has not failed, yet all of them at once would meet a server, or a router that
      // has just come up, as one herd: each lane sends one task ahead, at a moment of its own.
      for lane in freed {
        let pause = Duration.milliseconds(Int64(random.next() % UInt64(Limits.spreadOfReturn.millisecondsClamped)))
        admission.probe(lane, at: now.boot + pause)
      }
    }
    for id in active.keys.sorted() { stopIfBlocked(id, now) }
  }

  /// Also when a server has redirected what could not be stopped while it might act on it.
  mutating func stopIfBlocked(_ id: TaskID, _ now: ClockReading) {
    if active[id] != nil, isBlocked(id) { stopForConditions(id, now) }
  }

  /// Its constraints are not met now.
  private func isBlocked(_ id: TaskID) -> Bool {
    tasks[id].map { !admission.required($0).isSubset(of: admission.satisfied) } ?? false
  }

  /// Off the wire; what it has is kept, and it has not failed.
  private mutating func stopForConditions(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id], !mayHaveActed(id) else { return }
    leaveWire(id)
    if isForeground(cell.entry.session) || (cell.entry.kind == .data && cell.entry.received > 0) {
      // Its client has the first bytes already, and a second attempt would give it them again.
      return finish(id, .failed(Self.conditionLost(admission.required(cell).subtracting(admission.satisfied))), now)
    }
    setState(.waiting, of: id)
    line(up: id, now)
  }

  private static func conditionLost(_ missing: Constraints) -> TransferFailure {
    TransferFailure(
      .networkUnavailable, .permanent, domain: "condition", number: Int(missing.rawValue),
      detail: "The transfer was stopped in its middle, for the device no longer met what it requires: "
        + "\(missing.names.joined(separator: ", ")).")
  }

  // MARK: Discretion

  /// Seconds before its deadline in which a discretionary task waits for nothing any more: half of its time, at most a
  /// day. A transfer that may choose its moment must still have one.
  static func urgentSeconds(_ resourceTimeout: Duration) -> UInt32 {
    UInt32(clamping: min(resourceTimeout / 2, Limits.urgency).millisecondsClamped / 1000)
  }

  /// Notes whether the deadline is near, and when it will be.
  mutating func armUrgency(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id], cell.entry.isDiscretionary, let due = cell.deadlineAt else { return }
    let urgentAt = due + .seconds(-Int64(cell.entry.urgentSeconds))
    if cell.isUrgent != (urgentAt <= now.boot) {
      tasks[id]?.isUrgent = urgentAt <= now.boot
      // What it requires has changed with that, and so has its place.
      moveInLine(id)
    }
    if urgentAt > now.boot { arm(Timer(at: urgentAt, subject: .urgency(id))) }
  }

  mutating func becomeUrgent(_ id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id], !cell.isUrgent, !cell.entry.state.isFinished, let due = cell.deadlineAt,
      due + .seconds(-Int64(cell.entry.urgentSeconds)) <= now.boot
    else { return }
    tasks[id]?.isUrgent = true
    moveInLine(id)
  }

  /// What some unfinished task has required since the daemon started: the shell opens a source when something needs it.
  mutating func noteDemand(_ id: TaskID) {
    guard let cell = tasks[id] else { return }
    demanded.formUnion(admission.required(cell))
  }
}
