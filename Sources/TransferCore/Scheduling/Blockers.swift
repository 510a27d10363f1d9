/// One thing that keeps a task from going on now. Computed when somebody asks, never stored.
package struct Blocker: Hashable, Sendable {
  package enum Name: String, CaseIterable, Hashable, Sendable {
    /// Somebody must act.
    case paused, answer, client
    /// The daemon cannot store its state.
    case storage
    /// A date, a delay after a failure, and a rest that the host asked for or needs.
    case time, retry, host
    /// The device's conditions, under the names of ``Constraints``.
    case network, unmetered, unconstrained, externalPower, batteryNotLow, fullPower, idle
    /// Room: on the wire for this host and for all, on the disk.
    case hostSlots, slots, space
  }

  package var name: Name
  /// Nil where nobody can tell.
  package var since: WallInstant?
  /// When it lifts by itself at the latest; nil: something must happen.
  package var until: WallInstant?
  /// What stands in the way, in words.
  package var cause: String
  /// What will lift it, in words.
  package var lifts: String
}

extension Core {
  /// All that keeps a task from running now, the most lasting first; empty where it runs, is about to, or has ended.
  ///
  /// - Parameter held: the task's details, where they are at hand: without them moments are missing.
  package func blockers(_ cell: TaskCell, _ held: TaskDetails?, at now: ClockReading) -> [Blocker] {
    let since = held?.progress.heldSince
    switch cell.entry.state {
    case .running, .finished: return []
    case .suspended:
      return [
        Blocker(
          name: .paused, since: since ?? held?.plan.createdAt, cause: "it is paused", lifts: "`resume` by its owner")
      ]
    case .asking:
      let cause = held?.progress.failure?.detail ?? "it needs an answer"
      return [
        Blocker(name: .answer, since: since, cause: cause, lifts: "an answer by the program that it belongs to")
      ]
    case .finalizing:
      guard let failure = held?.progress.failure, failure.code == .noSpace else { return [] }
      return [Blocker(name: .space, since: since, cause: failure.detail, lifts: "free space on the disk")]
    case .waiting: return waitingBlockers(cell, held, now)
    }
  }

  private func waitingBlockers(_ cell: TaskCell, _ held: TaskDetails?, _ now: ClockReading) -> [Blocker] {
    var found: [Blocker] = []
    if isStuck, let degraded {
      found.append(
        Blocker(
          name: .storage, since: degradedSince, cause: "the daemon cannot store its state: \(degraded)",
          lifts: "the store, when it can be written again; it is tried every second"))
    }
    if cell.entry.kind == .data, sessions[cell.entry.session]?.attached == nil {
      found.append(
        Blocker(name: .client, cause: "its client is not connected", lifts: "its client, when it connects again"))
    }
    found += unmet(cell, held)
    found += delays(cell, held, now)
    if found.isEmpty { found += fullness(cell, held) }
    return found
  }

  /// Constraints that are not met.
  func unmet(_ cell: TaskCell, _ held: TaskDetails?) -> [Blocker] {
    let missing = admission.required(cell).subtracting(admission.satisfied)
    guard !missing.isEmpty else { return [] }
    return Constraints.each.filter(missing.contains).compactMap { constraint in
      guard let name = Blocker.Name(rawValue: constraint.name) else { return nil }
      var (cause, lifts) = constraint.words
      if conditions.pending.contains(constraint) { cause = "the device's conditions are being looked at" }
      // It chose to wait for a good moment, and only for so long.
      var until: WallInstant?
      if cell.entry.isDiscretionary, !cell.isUrgent, !cell.entry.constraints.contains(constraint),
        Constraints.discretionary.contains(constraint)
      {
        until = cell.entry.deadline.map { $0 + .seconds(-Int64(cell.entry.urgentSeconds)) }
        lifts += ", for the transfer is discretionary; it starts without that when its time runs short"
      }
      let since = [unmetSince[constraint], held?.plan.createdAt].compactMap { $0 }.max()
      return Blocker(name: name, since: since, until: until, cause: cause, lifts: lifts)
    }
  }

  private func delays(_ cell: TaskCell, _ held: TaskDetails?, _ now: ClockReading) -> [Blocker] {
    var found: [Blocker] = []
    let failure = held?.progress.failure
    if let own = cell.wakeAt, own > now.boot {
      let until = now.wall + (own - now.boot)
      switch (cell.entry.failures > 0, failure?.code) {
      case (false, _):
        found.append(
          Blocker(
            name: .time, since: held?.plan.createdAt, until: until, cause: "it is not to begin before its date",
            lifts: "its date"))
      case (true, .noSpace):
        found.append(
          Blocker(
            name: .space, since: held?.progress.heldSince, until: nil,
            cause: failure?.detail ?? "the disk is full", lifts: "free space on the disk; it is looked for again soon"))
      case (true, _):
        found.append(
          Blocker(
            name: .retry, since: held?.progress.heldSince, until: until,
            cause: failure?.detail ?? "the last attempt failed", lifts: "the next try"))
      }
    }
    if let lane = admission.heldUntil(cell.lane), lane > now.boot {
      found.append(
        Blocker(
          name: .host, since: held?.progress.heldSince, until: now.wall + (lane - now.boot),
          cause: "the host is given a rest, because it asked for one or could not be reached", lifts: "the end of it"))
    }
    return found
  }

  private func fullness(_ cell: TaskCell, _ held: TaskDetails?) -> [Blocker] {
    func since(_ full: WallInstant?) -> WallInstant? { [full, held?.plan.createdAt].compactMap { $0 }.max() }
    if admission.isFull(cell.lane) {
      let count = admission.runningInLane(cell.lane)
      return [
        Blocker(
          name: .hostSlots, since: since(admission.fullSince(cell.lane)),
          cause: "\(count) transfers of this session to this host are running, the most allowed",
          lifts: "the end of one of them")
      ]
    }
    if admission.running >= admission.runningLimit {
      return [
        Blocker(
          name: .slots, since: since(admission.fullSince),
          cause: "\(admission.runningLimit) transfers are running, the most allowed", lifts: "the end of one of them")
      ]
    }
    return []
  }
}

extension Constraints {
  /// Of one that is not met: what is so, and what must become so.
  fileprivate var words: (cause: String, lifts: String) {
    switch self {
    case .network: ("there is no network", "a network connection")
    case .unmetered: ("the network is metered", "a network that is not metered")
    case .unconstrained: ("the network is to be used sparingly", "a network that is not to be used sparingly")
    case .externalPower: ("the device runs on its battery", "external power")
    case .batteryNotLow: ("the battery is low", "external power, or a battery above \(Conditions.lowBatteryPercent) %")
    case .fullPower: ("the device saves power", "the end of power saving")
    case .idle: ("the device is in use", "a device that nobody uses")
    case _: ("a condition is not met", "that condition")
    }
  }
}
