/// What holds between any two ticks, whatever happened. Walks over every task: for tests and simulations, which call it
/// after each step.
extension Core {
  /// One sentence for each rule that does not hold; empty in a sound core.
  package func violations() -> [String] {
    activityViolations() + sessionViolations() + claimViolations() + entryViolations() + residencyViolations()
      + admission.violations() + placeViolations() + keptPartViolations() + appViolations()
  }

  /// Launches, budgets and processes of apps.
  private func appViolations() -> [String] {
    var found: [String] = []
    var last: String?
    for cell in apps.cells {
      if let last, last >= cell.id { found.append("App \(cell.id) stands behind \(last).") }
      last = cell.id
      if cell.isIdle { found.append("App \(cell.id) is kept, and nothing is known of it.") }
      let peers = cell.processes.flatMap(\.peers)
      if peers.count != Set(peers).count { found.append("A connection belongs to two processes of app \(cell.id).") }
      for process in cell.processes where process.peers.isEmpty && process.launch == nil {
        found.append("Process \(process.processID) of app \(cell.id) has no connection, and nobody started it.")
      }
      guard let record = cell.record else {
        if cell.current.map({ $0.phase != .ending && $0.phase != .exited }) == true || !cell.launches.isEmpty {
          found.append("App \(cell.id) is not registered, and is launched.")
        }
        continue
      }
      if let current = cell.current, current.number > record.lastLaunch {
        found.append("Launch \(current.number) of app \(cell.id) was never counted.")
      }
      if let current = cell.current, current.phase == .running, current.deadline == nil {
        found.append("Launch \(current.number) of app \(cell.id) runs without an end of its grant.")
      }
      if cell.opensAt != nil, record.delay <= .zero { found.append("App \(cell.id) waits for a delay of nothing.") }
      if cell.launches.count > Limits.launchHistory + 1 { found.append("App \(cell.id) remembers too much.") }
    }
    return found
  }

  /// Slots, attempts and the state `running` tell the same.
  private func activityViolations() -> [String] {
    var found: [String] = []
    let holders = active.values.filter { !$0.isPaused }.count
    if admission.running != holders {
      found.append("\(admission.running) slots are occupied by \(holders) active tasks.")
    }
    if attemptOwners.count != active.count {
      found.append("\(attemptOwners.count) attempts have an owner; \(active.count) tasks are active.")
    }
    var perLane = [Int](repeating: 0, count: admission.lanes.count)
    for id in sortedIDs(active.keys) {
      guard let work = active[id] else { continue }
      if attemptOwners[work.attempt] != id { found.append("Attempt \(work.attempt) of task \(id) has another owner.") }
      if work.attempt > lastAttempt { found.append("Attempt \(work.attempt) was never given out.") }
      guard let cell = tasks[id] else {
        found.append("Task \(id) is active and does not exist.")
        continue
      }
      if !work.isPaused { perLane[Int(cell.lane)] += 1 }
      if !admission.required(cell).isSubset(of: admission.satisfied), !mayHaveActed(id) {
        found.append("Task \(id) is active, and its constraints are not met.")
      }
      if cell.entry.state != .running(work.attempt) {
        found.append("Task \(id) is active in attempt \(work.attempt) and in state \(cell.entry.state).")
      }
    }
    for (index, lane) in admission.lanes.enumerated() where lane.running != perLane[index] {
      found.append("Lane \(index) counts \(lane.running) running tasks, and \(perLane[index]) are active.")
    }
    return found
  }

  /// Counts of sessions, and the numbers of their results.
  private func sessionViolations() -> [String] {
    var found: [String] = []
    var unfinished: [SessionID: Int] = [:]
    var all: [SessionID: Int] = [:]
    var data: [SessionID: [TaskID]] = [:]
    var asking: [SessionID: Set<TaskID>] = [:]
    tasks.forEach { cell in
      all[cell.entry.session, default: 0] += 1
      if cell.entry.kind == .data { data[cell.entry.session, default: []].append(cell.entry.id) }
      let goesOn = !cell.entry.state.isFinished && cell.entry.state != .suspended
      if goesOn { unfinished[cell.entry.session, default: 0] += 1 }
      if cell.entry.state == .asking { asking[cell.entry.session, default: []].insert(cell.entry.id) }
      if sessions[cell.entry.session] == nil { found.append("Task \(cell.entry.id) has no session.") }
    }
    var total = 0
    for id in sessions.order {
      guard let cell = sessions[id] else {
        found.append("Session \(id) stands in the order and does not exist.")
        continue
      }
      total += cell.unfinished
      if cell.unfinished != unfinished[id, default: 0] {
        found.append("Session \(id) counts \(cell.unfinished) unfinished tasks; it has \(unfinished[id, default: 0]).")
      }
      if cell.asking != asking[id, default: []] {
        found.append("Session \(id) knows questions of \(cell.asking.sorted()); \(asking[id, default: []]) ask.")
      }
      if cell.taskCount != all[id, default: 0] {
        found.append("Session \(id) counts \(cell.taskCount) tasks; it has \(all[id, default: 0]).")
      }
      if cell.dataTasks != data[id, default: []] {
        found.append("Session \(id) knows data tasks \(cell.dataTasks); it has \(data[id, default: []]).")
      }
      found += deliveryViolations(cell)
    }
    if total != sessions.unfinishedCount {
      found.append("\(sessions.unfinishedCount) unfinished tasks are counted; sessions count \(total).")
    }
    return found
  }

  private func deliveryViolations(_ cell: SessionCell) -> [String] {
    var found: [String] = []
    let id = cell.record.id
    let records = cell.deliveries.records
    if records.count != cell.deliveries.count { found.append("Session \(id) miscounts its results.") }
    var last = DeliveryNumber(rawValue: 0)
    for record in records {
      if record.number <= last { found.append("Result \(record.number) of session \(id) follows \(last).") }
      last = record.number
      switch record.task {
      case nil:
        if record.kind != .finishEvents { found.append("Result \(record.number) of session \(id) is of no task.") }
      case .some(let task):
        if tasks[task]?.entry.state.isFinished != true {
          found.append("Result \(record.number) of session \(id) is of task \(task), which has not finished.")
        }
      }
    }
    if last.rawValue >= cell.record.nextDelivery { found.append("Session \(id) would give number \(last) again.") }
    if cell.deliveries.outstanding > Limits.offeredDeliveries {
      found.append("Session \(id) offered \(cell.deliveries.outstanding) results at once.")
    }
    if cell.record.isInvalidated, cell.taskCount == 0, cell.deliveries.isEmpty {
      found.append("Session \(id) is invalidated and empty, and still there.")
    }
    if cell.unfinished == 0, cell.record.owesFinishEvents {
      found.append("Session \(id) has ended its tasks and did not say so.")
    }
    return found
  }

  /// Destinations and keys lead to the tasks that hold them.
  private func claimViolations() -> [String] {
    var found: [String] = []
    for digest in destinationOwners.keys.sorted() {
      guard let id = destinationOwners[digest], let cell = tasks[id] else {
        found.append("A destination is claimed by a task that does not exist.")
        continue
      }
      if cell.claim != digest { found.append("Task \(id) does not know of a claim that it holds.") }
      if cell.entry.state.isFinished { found.append("Task \(id) has finished and still claims a destination.") }
    }
    tasks.forEach { cell in
      if cell.claim != 0, destinationOwners[cell.claim] != cell.entry.id {
        found.append("Task \(cell.entry.id) claims a destination that is not its own.")
      }
      if let digest = cell.keyDigest, keyOwners[digest] != cell.entry.id {
        found.append("Task \(cell.entry.id) is not found by its key.")
      }
    }
    for id in sortedIDs(keyOwners.values) where tasks[id] == nil {
      found.append("A key leads to task \(id), which does not exist.")
    }
    return found
  }

  /// What an entry may say in its state.
  private func entryViolations() -> [String] {
    var found: [String] = []
    var numbers: [SessionID: [Int64]] = [:]
    tasks.forEach { cell in
      let entry = cell.entry
      numbers[entry.session, default: []].append(entry.number)
      func require(_ holds: Bool, _ words: String) {
        if !holds { found.append("Task \(entry.id) in state \(entry.state): \(words).") }
      }
      let isFinished = entry.state.isFinished
      require((entry.finishedAt != nil) == isFinished, "its end and its state do not agree")
      require(!isFinished || entry.deadline == nil, "finished with a deadline")
      require(!isFinished || cell.deadlineAt == nil, "finished with a deadline that is due")
      require(!isFinished || entry.notBefore == nil, "finished and waiting for a date")
      require(entry.state != .suspended || entry.deadline == nil, "paused, and its time runs")
      require((entry.deadline == nil) == (cell.deadlineAt == nil), "its deadline is not armed")
      let isHeld = entry.state == .suspended || active[entry.id]?.isPaused == true
      require(isFinished || isHeld || entry.deadline != nil, "it may run for ever")
      require(entry.received >= 0 && entry.sent >= 0, "it counts fewer than no bytes")
      require(entry.attempts >= 0 && entry.failures >= 0, "it counts fewer than no attempts")
      require(entry.id <= lastTaskID, "its id was never given out")
      require(entry.number < sessions[entry.session]?.record.nextTaskNumber ?? .max, "its number comes again")
      require(cell.lane >= 0 && Int(cell.lane) < admission.lanes.count, "it has no lane")
    }
    for id in sessions.order {
      let taken = numbers[id] ?? []
      if Set(taken).count != taken.count { found.append("Two tasks of session \(id) have one number.") }
    }
    return found
  }

  /// Details are in memory where a decision needs them.
  private func residencyViolations() -> [String] {
    var found = changedBlindly.map { "Task \($0) was changed without its details." }
    for id in sortedIDs(active.keys) {
      guard let work = active[id] else { continue }
      if work.phase != .loading, details[id] == nil { found.append("Task \(id) is active without its details.") }
    }
    tasks.forEach { cell in
      let id = cell.entry.id
      if cell.isNew, details[id] == nil { found.append("Task \(id) is not stored yet, and its details are gone.") }
      if cell.isDirty != dirtyTasks.contains(id) { found.append("The row of task \(id) is not written as marked.") }
      if cell.entry.state == .finalizing, details[id] == nil, !unreconciled.contains(id) {
        found.append("Task \(id) is being finalized without its details.")
      }
    }
    for id in sortedIDs(details.keys) where tasks[id] == nil {
      found.append("Details of task \(id) are kept, and it does not exist.")
    }
    for id in sortedIDs(unreadable) where tasks[id] == nil {
      found.append("Task \(id) is remembered as unreadable, and does not exist.")
    }
    for id in sortedIDs(unreconciled) where tasks[id] == nil {
      found.append("Task \(id) is still to be reconciled, and does not exist.")
    }
    return found
  }

  /// A kept part has one name, one file and one end.
  private func keptPartViolations() -> [String] {
    var found: [String] = []
    if keptOrder.count != keptParts.count { found.append("Kept parts are miscounted.") }
    let armed = Set(timers.elements.map(\.subject))
    for token in keptOrder {
      guard let part = keptParts[token] else {
        found.append("A kept part stands in the order and does not exist.")
        continue
      }
      if keptOf[part.owner] != token { found.append("The part of task \(part.owner) is kept twice, or not found.") }
      if adoptedBy[part.owner] != nil { found.append("The part of task \(part.owner) is kept, and in use.") }
      if !armed.contains(.keptPart(token)) { found.append("The part of task \(part.owner) is kept for ever.") }
    }
    for owner in sortedIDs(adoptedBy.keys) {
      guard let id = adoptedBy[owner] else { continue }
      if tasks[id] == nil { found.append("Task \(id) goes on in a part file, and does not exist.") }
      if adoptions[id] != owner { found.append("Task \(id) does not know whose part file it has.") }
    }
    return found
  }

  /// No task is lost: what waits stands in a line, sleeps until a moment, or waits for its client.
  private func placeViolations() -> [String] {
    var found: [String] = []
    let inLine = admission.tasksInLine
    let asleep = admission.sleepingTasks
    let armed = Set(timers.elements.map(\.subject))
    tasks.forEach { cell in
      let id = cell.entry.id
      // A timer that fired may wait for the details that its decision needs.
      let isTimed: (Timer.Subject) -> Bool = { armed.contains($0) || details[id] == nil }
      if !cell.entry.state.isFinished, !admission.required(cell).isSubset(of: demanded) {
        found.append("Nobody looks at what task \(id) requires.")
      }
      // A task may have given up a place that still stands in its line, and is skipped there.
      if cell.isQueued, !inLine.contains(id) { found.append("Task \(id) is marked as in line, and is not.") }
      switch cell.entry.state {
      case .waiting:
        let waitsForClient = cell.entry.kind == .data && sessions[cell.entry.session]?.attached == nil
        if !cell.isQueued, !asleep.contains(id), !waitsForClient {
          found.append("Task \(id) waits and stands in no line.")
        }
        if waitsForClient, !isTimed(.deadline(id)) { found.append("Task \(id) waits for its client for ever.") }
      case .running:
        if active[id] == nil, !unreconciled.contains(id) { found.append("Task \(id) runs without an attempt.") }
        if !isTimed(.deadline(id)), active[id]?.isPaused != true {
          found.append("Task \(id) runs without a deadline.")
        }
      case .asking:
        if let held = details[id], !cell.entry.asksFirst, held.progress.question == nil {
          found.append("Task \(id) asks, and nothing.")
        }
        if !isTimed(.deadline(id)) { found.append("Task \(id) asks without a deadline.") }
      case .finished:
        if let held = details[id], held.progress.access != nil || held.progress.question != nil {
          found.append("Task \(id) has finished, and keeps its credentials or asks.")
        }
        if !isTimed(.retention(id)), !isForeground(cell.entry.session) {
          found.append("The result of task \(id) is kept for ever.")
        }
      case .suspended, .finalizing: break
      }
    }
    return found
  }

  private func sortedIDs(_ ids: some Sequence<TaskID>) -> [TaskID] { ids.sorted() }
}

extension Admission {
  /// Tasks with a place in their lane's line.
  var tasksInLine: Set<TaskID> { Set(lanes.flatMap { $0.lines.flatMap { $0.ready.elements.map(\.task) } }) }

  /// Tasks that are put in line when their moment comes.
  var sleepingTasks: Set<TaskID> {
    Set(
      delayed.elements.compactMap { delayed in
        if case .task(let id) = delayed.sleeper { id } else { nil }
      })
  }

  /// A lane whose line is not empty must get a turn: it has one, a slot that it waits for gives it, or its moment does.
  func violations() -> [String] {
    var found: [String] = []
    if running > runningLimit { found.append("\(running) tasks run at once.") }
    if running < 0 { found.append("Fewer than no tasks run.") }
    let pending = Set(turns[firstTurn...])
    for (index, lane) in lanes.enumerated() {
      if lane.hasTurn != pending.contains(Int32(index)) { found.append("Lane \(index) is wrong about its turn.") }
      if lane.isParked != parked.contains(Int32(index)) { found.append("Lane \(index) is wrong about being parked.") }
      if lane.running < 0 { found.append("Fewer than no tasks run in lane \(index).") }
      let wakes = delayed.elements.contains { $0.sleeper == .lane(Int32(index)) }
      let isWaitingForSlot = lane.running >= lane.allowed && lane.running > 0
      if !lane.isEmpty, !lane.hasTurn, !lane.isParked, !isWaitingForSlot, !wakes {
        found.append("Lane \(index) has a line and never gets a turn.")
      }
      if lane.next(satisfied) != nil, !lane.hasTurn, !isWaitingForSlot, !wakes {
        found.append("Lane \(index) has a task that may run and never gets a turn.")
      }
      for line in lane.lines where !line.ready.elements.allSatisfy({ $0.required == line.required }) {
        found.append("A line of lane \(index) has a place of another.")
      }
    }
    return found
  }
}
