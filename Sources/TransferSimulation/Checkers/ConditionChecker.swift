import TransferCore

/// No attempt begins while the device does not meet what its task requires, and one that may be repeated is not on the
/// wire at the end of the tick that was told so.
final class ConditionChecker: Checker {
  let name = "no attempt without its conditions"
  private var onWire: [AttemptID: (order: AttemptOrder, entry: TaskEntry)] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .began(let order, let entry):
      guard let entry else { return nil }
      onWire[order.attempt] = (order, entry)
      // What a server has acted on is followed to its answer: a redirect made a GET of it.
      let wasAnswered = world.store.details[order.task]?.plan.request.method != order.request.method
      if wasAnswered, !entry.isRepeatable { return nil }
      return fault(order, entry, world, "begins")
    case .left(let attempt, _, _, _): onWire[attempt] = nil
    case .daemonDied: onWire.removeAll()
    case .ticked:
      for attempt in onWire.keys.sorted() {
        guard let (order, entry) = onWire[attempt], entry.isRepeatable else { continue }
        if let text = fault(order, entry, world, "stays") { return text }
      }
    case .asked, .replied, .offered, .announced, .progressTold, .collected, .received, .acted, .touchedPublished,
      .wrote, .stopped, .committed, .rejected, .daemonStarted, .settled, .launchOrdered, .appOpened:
      break
    }
    return nil
  }

  private func fault(_ order: AttemptOrder, _ entry: TaskEntry, _ world: Simulation, _ does: String) -> String? {
    var required = entry.constraints
    required.insert(.network)
    // The deadline was set by the wall clock of its time, and clocks jump: where none did, what is known for sure is
    // that a task whose time has just begun is not urgent.
    if entry.isDiscretionary {
      if isFresh(entry, world) { required.formUnion(.discretionary) }
      if isUrgent(entry, world) { world.coverage.note(.urgent) }
    }
    let missing = required.subtracting(world.device.satisfied)
    guard !missing.isEmpty else { return nil }
    return "task \(order.task) \(does) on the wire without \(missing.names)"
  }

  private func isFresh(_ entry: TaskEntry, _ world: Simulation) -> Bool {
    guard let deadline = entry.deadline, world.wallSettings == 0 else { return false }
    return deadline - world.wall > .seconds(Int64(entry.urgentSeconds) + 1)
  }

  private func isUrgent(_ entry: TaskEntry, _ world: Simulation) -> Bool {
    guard let deadline = entry.deadline, world.wallSettings == 0 else { return false }
    return deadline - world.wall < .seconds(Int64(entry.urgentSeconds))
  }
}
