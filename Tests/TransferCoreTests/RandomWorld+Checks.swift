@testable import TransferCore

extension RandomWorld {
  // MARK: Clients

  mutating func command() {
    let sessions = bench.core.sessions.order
    guard let session = pick(sessions), sessions.count >= 2 || chance(70) else { return open() }
    let tasks = bench.core.taskIDs(of: session)
    let some = [pick(tasks), chance(20) ? pick(tasks) : nil].compactMap(\.self)
    switch below(20) {
    case 0..<6: send(.enqueue(session, (0...below(3)).map { _ in draft() }))
    case 6, 7: send(.resume(some))
    case 8: send(.suspend(some))
    case 9: if chance(50) { send(.cancel(some)) }
    case 10: if chance(30) { send(.remove(some)) }
    case 11:
      guard let task = some.first else { return }
      let date = bench.now.wall + .seconds(below(60) - 5)
      send(
        .update(
          task,
          TaskChange(
            taskDescription: chance(30) ? "d" : nil, priority: chance(50) ? UInt8(below(256)) : nil,
            earliestBegin: chance(50) ? date : nil)))
    case 12: if chance(8) { send(.invalidateSession(session, cancel: chance(50))) }
    case 13: if chance(30) { close(session) }
    case 14, 15: open()
    default: acknowledge()
    }
  }

  private mutating func send(_ command: Command) {
    count(command.name)
    bench.sequence += 1
    let token = RequestToken(peer: pick(peers) ?? Bench.peer, sequence: bench.sequence)
    if case .remove(let ids) = command { removed.formUnion(ids) }
    tick(.commanded(command, token))
  }

  private mutating func open() {
    count("open")
    bench.sequence += 1
    let peer = pick(peers) ?? Bench.peer
    let key = SessionKey(app: "app", identifier: "s\(below(3))")
    if let known = bench.core.sessions[key], bench.core.sessions[known]?.attached == peer {
      shell.forgetOffers(of: known)
    }
    let network = NetworkSettings(maximumConnectionsPerHost: 1 + below(3))
    tick(
      .commanded(
        .openSession(key, attach: chance(80), collectsResults: key.identifier != "s2", network: network),
        RequestToken(peer: peer, sequence: bench.sequence)))
  }

  private mutating func close(_ session: SessionID) {
    guard let peer = bench.core.sessions[session]?.attached else { return }
    shell.forgetOffers(of: session)
    bench.sequence += 1
    tick(.commanded(.closeSession(session), RequestToken(peer: peer, sequence: bench.sequence)))
  }

  private mutating func acknowledge() {
    guard let record = pick(shell.offers) else { return }
    count("acknowledge")
    shell.offers.removeAll { $0 == record }
    bench.sequence += 1
    let token = RequestToken(
      peer: bench.core.sessions[record.session]?.attached ?? Bench.peer, sequence: bench.sequence)
    let key = ModelStore.DeliveryKey(session: record.session, number: record.number)
    tick(.commanded(.acknowledge(record.session, [record.number]), token))
    // A kill before the commit leaves it unacknowledged, which is what the client finds out too.
    if store.deliveries[key] == nil { acknowledged.insert(key) }
  }

  private mutating func draft() -> TaskDraft {
    let host = "http://\(["a", "b", "c"][below(3)]).test/file"
    var draft: TaskDraft
    switch below(8) {
    case 0: draft = .upload(url: host)
    case 1, 2: draft = .upload(method: "POST", url: host)
    case 3: draft = .data(host)
    default: draft = .download(host)
    }
    if draft.kind == .download, chance(40) {
      draft.destination = .file(path: "/home/out\(below(12))", collision: .replace)
    }
    if chance(25) { draft.key = "k\(below(20))" }
    draft.isSuspended = chance(10)
    draft.isDiscretionary = chance(20)
    if chance(15) { draft.constraints = Constraints(rawValue: UInt8(below(128))).subtracting(.network) }
    draft.priority = UInt8(below(256))
    if chance(30) { draft.statusRule = .any }
    if chance(10) { draft.earliestBegin = bench.now.wall + .seconds(below(100)) }
    if chance(20) { draft.resourceTimeout = .seconds(30 + below(600)) }
    return draft
  }

  // MARK: What must hold

  mutating func check() {
    faults += bench.core.violations() + shell.violations(bench.core)
    var found: [String] = []
    bench.core.tasks.forEach { cell in
      guard case .finished(let ending) = cell.entry.state else {
        if let before = endings[cell.entry.id] { found.append("Task \(cell.entry.id) was \(before) and goes on.") }
        return
      }
      if let before = endings.updateValue(ending, forKey: cell.entry.id), before != ending {
        found.append("Task \(cell.entry.id) was \(before) and is \(ending).")
      }
      guard store.entries[cell.entry.id]?.state == cell.entry.state else {
        return found.append("Task \(cell.entry.id) ended without its row.")
      }
    }
    // A POST goes out whole a second time only when somebody said so.
    let ids = store.entries.keys.sorted()
    if ids != rows(bench.core) { found.append("Tasks \(rows(bench.core)) have rows \(ids).") }
    let queued = bench.core.sessions.order.flatMap { bench.core.sessions[$0]?.deliveries.records ?? [] }
    if queued != store.state.deliveries { found.append("Results and their rows differ.") }
    for id in accepted.sorted() where bench.core.tasks[id] == nil && endings[id] == nil && !removed.contains(id) {
      found.append("Task \(id) was accepted and is lost.")
    }
    faults += found
  }

  private func rows(_ core: Core) -> [TaskID] {
    var ids: [TaskID] = []
    core.tasks.forEach { ids.append($0.entry.id) }
    return ids
  }

  /// A core from the rows holds what the rows say: tasks, results, claims, keys and counters.
  mutating func compare(_ core: Core) {
    faults += core.violations().map { "Restored: \($0)" }
    let stored = store.state
    var replay = core
    let changes = replay.takeChanges()
    var after = store
    faults += after.apply(changes).map { "Restored: the store would refuse: \($0)." }
    if rows(core) != after.state.tasks.map(\.id) { faults.append("Restoring lost a task.") }
    for entry in stored.tasks {
      guard let restored = core.tasks[entry.id]?.entry else { continue }
      var expected = entry
      if entry.state.attempt != nil, entry.isRepeatable { expected.state = .waiting }
      if restored != expected {
        faults.append("Task \(entry.id) was restored as \(restored.state) from \(entry.state).")
      }
    }
    let queued = core.sessions.order.flatMap { core.sessions[$0]?.deliveries.records ?? [] }
    if queued != after.state.deliveries { faults.append("Restoring lost a result.") }
    for claim in after.state.claims where core.destinationOwners[FNV.hash(claim.path)] != claim.task {
      faults.append("Restoring lost the claim of task \(claim.task).")
    }
    for key in after.state.keys where core.keyOwners[KeyDigest(session: key.session, key: key.key)] != key.task {
      faults.append("Restoring lost the key of task \(key.task).")
    }
    if core.lastTaskID != stored.lastTaskID || core.lastSessionID != stored.lastSessionID {
      faults.append("Restoring would give an id twice.")
    }
  }
}
