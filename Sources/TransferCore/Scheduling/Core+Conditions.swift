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
    // Only a home that has such sessions looks at tasks.
    guard sessions.order.contains(where: { isForeground($0) }) else { return }
    let table = tasks
    table.forEach { noteUnjudged($0) }
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
      let missing = admission.required(cell).subtracting(admission.satisfied)
      let what = "was stopped in its middle, for the device no longer met"
      return finish(id, .failed(Self.conditionFailure(missing, what)), now)
    }
    setState(.waiting, of: id)
    line(up: id, now)
  }

  private static func conditionFailure(_ missing: Constraints, _ what: String) -> TransferFailure {
    TransferFailure(
      .networkUnavailable, .permanent, domain: "condition", number: Int(missing.rawValue),
      detail: "The transfer \(what) what it requires: \(missing.names.joined(separator: ", ")).")
  }

  // MARK: Programs that wait

  /// What waits for conditions in silence, although its program may have to hear of it.
  mutating func noteUnjudged(_ cell: TaskCell) {
    guard cell.entry.state == .waiting, !admission.required(cell).isSubset(of: admission.satisfied),
      isForeground(cell.entry.session)
    else { return }
    unjudged.append(cell.entry.id)
  }

  /// Once a tick, for a command's reply comes before what the task comes to.
  mutating func judgeConditions(_ now: ClockReading) {
    guard !unjudged.isEmpty else { return }
    let ids = unjudged
    unjudged.removeAll()
    for id in ids { judgeConditions(of: id, now) }
  }

  /// A task of a foreground session that could begin now, but for its constraints, fails; where the session waits, it
  /// waits, and its program is told. What is still being looked at is judged when that is known.
  mutating func judgeConditions(of id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id], cell.entry.state == .waiting, cell.isQueued,
      case .foreground(let waits)? = sessions[cell.entry.session]?.record.conduct
    else { return }
    let missing = admission.required(cell).subtracting(admission.satisfied).subtracting(conditions.pending)
    guard !missing.isEmpty else { return }
    if waits { return effects.append(.foreground(.awaitsConnectivity(id))) }
    // Judged again when they are there.
    if lacksDetails(id) { return effects.append(.loadDetails(id)) }
    finish(id, .failed(Self.conditionFailure(missing, "did not begin, for the device does not meet")), now)
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
