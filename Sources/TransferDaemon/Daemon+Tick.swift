import CurlEngine
import Glibc
import LinuxSystem
import TransferCore
import TransferStore
import WireProtocol

/// One turn: wait, gather, decide, commit, act (docs/internals/TransferDaemon.md).
extension Daemon {
  /// Events taken from the engine in one turn: bounds how long peers wait for it.
  private static let engineBudget = 1024
  /// Lines taken from one peer in one turn.
  private static let peerBudget = 64
  /// How long a turn takes lines from peers, and how long it answers what the store has read: with many clients at once
  /// the rest is for the next turns, and transfers go on between them.
  static let slice = Duration.milliseconds(10)
  /// How often watchers hear of progress.
  static let progressInterval = Duration.milliseconds(100)
  /// How long a state that passes by itself may wait before it is told: nobody sees so short a time, and most small
  /// files are done in it.
  static let passingInterval = Duration.milliseconds(100)

  /// Turns until it is told to stop, then lets go in good order.
  func run() {
    while !isStopping { turn() }
    shutDown()
  }

  func turn() {
    do throws(SystemError) {
      if hasBacklog { try loop.poll() } else { try loop.wait(until: nextDeadline) }
    } catch {
      log.write(.error, "The loop cannot wait: \(error)")
      isStopping = true
      return
    }
    let began = BootInstant.now()
    hasBacklog = false
    let now = Self.readClock(randomWord: random.next())
    var effects: [Effect] = []
    gatherReports(now, &effects)
    gatherEngine(now, &effects)
    gatherPeers(now, &effects)
    gatherRestart(now, &effects)
    watchConditions()
    effects += core.admit(at: now)
    if !isCommitAwaited { isCommitAwaited = effects.contains(where: \.isAwaited) }
    commit()
    perform(effects)
    openGathered(now)
    sendRequests()
    passOnReadings()
    tellPresentStates()
    passOnGathered()
    tellPassing(now)
    tellStates()
    tellProgress(now)
    listenAgain(now)
    retryRemovals(now)
    finalizeAgain(now)
    logExpiring()
    removeGathered()
    settleHolds()
    flushPeers()
    noteIdleness(now)
    rest(now, hasWorked: !effects.isEmpty || !engineEvents.isEmpty)
    turns.note(microseconds: (BootInstant.now() - began).nanosecondsClamped / 1000)
  }

  private var nextDeadline: BootInstant? {
    [
      core.nextDeadline, engine.nextDeadline, retryCommitAt, reserveCheckAt, retryReadsAt, nextCommitAt, nextProgress,
      nextPassing, listensAgainAt, holdsEnd, idleDeadline, restsAt, discards.nextTry, restartDue, finalizesAgainAt,
    ]
    .compactMap { $0 }.min()
  }

  // MARK: Gather

  private func gatherReports(_ now: ClockReading, _ effects: inout [Effect]) {
    // Reading the empty box would be a system call in every turn.
    let reports = hasReports ? mailbox.drain() : []
    hasReports = false
    for report in reports {
      switch report {
      case .stored(let outcome): committed(outcome, now, &effects)
      case .reserve(let isHeld): noteReserve(isHeld: isHeld, now, &effects)
      case .read(let number, let reading): arrivedReadings.append((number, reading))
      case .prepared(let token, let tasks): prepared(token, tasks, now, &effects)
      case .opened(let attempt, let result): openedFiles(attempt, result, now, &effects)
      case .finalized(let work, let folder, let outcomes):
        for (task, outcome) in outcomes { effects += core.handle(.finalized(task, outcome), at: now) }
        finalizeNext(work, folder)
      case .app(let report): take(report, now, &effects)
      case .device(let facts): took(facts, now, &effects)
      case .found(let paths, let owners):
        let orphans = zip(paths, owners).filter { !core.mustKeepFiles(of: $0.1) }.map(\.0)
        if !orphans.isEmpty {
          log.write(.notice, "Removing \(orphans.count) files that no task owns.")
          // The task may have gone in a tick whose commit is still on its way.
          effects.append(.removeFiles(orphans))
        }
      case .removed(let removal): noteRemoval(removal, now)
      }
    }
    if let due = retryCommitAt, due <= now.boot {
      retryCommitAt = nil
      if let batch = failedBatch {
        failedBatch = nil
        submit(batch)
      }
    }
    if let due = reserveCheckAt, due <= now.boot {
      reserveCheckAt = nil
      checkReserve()
    }
    retryReads(now)
    endHolds(now)
  }

  private func gatherEngine(_ now: ClockReading, _ effects: inout [Effect]) {
    engine.turn(now: now.boot)
    engineEvents.removeAll(keepingCapacity: true)
    engine.drainEvents(into: &engineEvents, limit: Self.engineBudget)
    for event in engineEvents {
      switch event {
      // A background session is not told of what only informs.
      case .informed: break
      case .responded(let attempt, let head, let verdict):
        effects += core.handle(.responded(attempt, head, verdict), at: now)
      case .progressed(let attempt, let held, let sent):
        effects += core.handle(.progressed(attempt, held: held, sent: sent), at: now)
      case .received(let attempt, let bytes): passOn(bytes, of: attempt)
      case .synced(let attempt, let offset):
        effects += core.handle(.synced(attempt, offset: offset), at: now)
        // What is on the disk is not fetched again, once the row says so.
        isCommitAwaited = true
      case .ended(let attempt, let end, let facts):
        pausedForClient[attempt] = nil
        if let metrics = facts.metrics { effects += core.handle(.measured(attempt, metrics), at: now) }
        effects += core.handle(.ended(attempt, end, requestWasSent: facts.requestWasSent), at: now)
      }
    }
    if engine.hasEvents { hasBacklog = true }
  }

  /// What begins in this turn is asked for in it: libcurl sends when its timer, which is due at once, is served. A
  /// server works on it while clients are told; what has come of it already is for the next turn.
  private func sendRequests() {
    guard let due = engine.nextDeadline, case let now = BootInstant.now(), due <= now else { return }
    engine.turn(now: now)
    if engine.hasEvents { hasBacklog = true }
  }

  private func gatherPeers(_ now: ClockReading, _ effects: inout [Effect]) {
    let first = min(firstPeer, peerOrder.count)
    let order = first == 0 ? peerOrder : Array(peerOrder[first...] + peerOrder[..<first])
    let end = BootInstant.now() + Self.slice
    firstPeer = 0
    for (place, id) in order.enumerated() {
      guard let peer = peers[id] else { continue }
      var budget = Self.peerBudget
      while budget > 0, !peer.isClosing, !isFull(peer), let arrival = peer.next() {
        budget -= 1
        switch arrival {
        case .line(let line): take(line, from: peer, now, &effects)
        case .closed: drop(peer, now, &effects)
        case .violation(let reason):
          say(.goodbye(GoodbyeNotice(reason: reason)), to: id)
          log.write(.warning, "Ending the connection of \(peer.client) (process \(peer.processID)): \(reason)")
          peer.isClosing = true
        }
        if peers[id] == nil { break }
        guard BootInstant.now() < end else {
          firstPeer = (first + place + 1) % order.count
          hasBacklog = true
          return
        }
      }
      if budget == 0 { hasBacklog = true }
    }
  }

  // MARK: Commit

  /// Details that one batch reads: what the core makes of them is one turn.
  private static let loadBudget = 1024

  /// Hands the tick's changes to the store thread, or gathers them while it is busy.
  func commit() {
    let changes = core.takeChanges()
    for case .addTask(let entry, _) in changes {
      unrecorded.insert(entry.id)
      unrecordedOrder.append((nextBatch.number, entry.id))
    }
    noteRemovedTasks(changes)
    nextBatch.changes += changes
    submitNextBatch()
  }

  /// The rows of these tasks are on the disk.
  private func forgetUnrecorded() {
    guard let last = unrecordedOrder.lastIndex(where: { $0.commit <= lastDurable }) else { return }
    for (_, id) in unrecordedOrder[...last] { unrecorded.remove(id) }
    unrecordedOrder.removeFirst(last + 1)
  }

  /// Between two commits that nobody waits for: at thousands of small files a second each would hold two or three of
  /// them, and cost more than they do.
  private static let commitInterval = Duration.milliseconds(4)

  func submitNextBatch() {
    let readsDetails = !wantedLoads.isEmpty && !isStopping
    guard !isCommitInFlight, failedBatch == nil, !nextBatch.isEmpty || readsDetails else { return }
    let due = lastCommitEnd + Self.commitInterval
    if !isCommitAwaited, !readsDetails, !isStopping, due > BootInstant.now() {
      nextCommitAt = due
      return
    }
    isCommitAwaited = false
    nextCommitAt = nil
    var batch = nextBatch
    if readsDetails { batch.loads = wantedLoads.take(Self.loadBudget) }
    nextBatch = StoreThread.Batch(number: batch.number + 1)
    submit(batch)
  }

  private func submit(_ batch: StoreThread.Batch) {
    isCommitInFlight = true
    submitted = batch
    submittedAt = .now()
    store.submit(batch) { [mailbox] outcome in mailbox.post(.stored(outcome)) }
  }

  /// The commit that an effect of this tick must wait for: the newest that was handed over or is being gathered.
  var newestCommit: Int64 {
    nextBatch.changes.isEmpty ? nextBatch.number - 1 : nextBatch.number
  }

  private func committed(_ outcome: StoreThread.Outcome, _ now: ClockReading, _ effects: inout [Effect]) {
    isCommitInFlight = false
    lastCommitEnd = .now()
    commits = outcome.commits
    for text in outcome.rejected { log.write(.error, "A change contradicted what is stored and was left out: \(text)") }
    if let failure = outcome.failure {
      recover(from: failure)
      // Nothing is lost: the batch is tried again until it is in, and what depends on it waits.
      failedBatch = submitted
      retryCommitAt = now.boot + .seconds(1)
      if !core.isStuck { log.write(.error, "The state cannot be stored: \(failure). New work is refused.") }
      effects += core.handle(.storeChanged(degraded: failure.message), at: now)
      recordsRoom.double(!outcome.hasReserve)
      releaseHolds()
      return
    }
    noteReserve(isHeld: outcome.hasReserve, now, &effects)
    // What is promised is on the disk, and nobody has heard of it.
    FaultPoint.pass("store.committed")
    lastDurable = outcome.number
    forgetUnrecorded()
    releaseHolds()
    loaded(outcome.loaded, of: submitted.loads, now, &effects)
    submitNextBatch()
  }

  /// The disk has room for the records and for what else may come, or for the records alone.
  private func noteReserve(isHeld: Bool, _ now: ClockReading, _ effects: inout [Effect]) {
    // What is freed is the reserve's first: parts would take it as it comes, and new work be refused for as long.
    recordsRoom.double(!isHeld)
    // A batch that does not go in says so itself, also when it is tried again.
    guard failedBatch == nil, !core.isStuck || !isCommitInFlight else { return }
    if isHeld, core.degraded != nil {
      log.write(.notice, "The state can be stored again.")
      effects += core.handle(.storeChanged(degraded: nil), at: now)
    } else if !isHeld, core.degraded == nil || core.isStuck {
      let shortage = "the disk of \(directories.state) is full; tasks can still be cancelled and removed"
      log.write(.error, "New work is refused: \(shortage).")
      effects += core.handle(.storeChanged(degraded: shortage, isWriting: true), at: now)
    }
    if !isHeld { reserveCheckAt = now.boot + .seconds(1) }
  }

  func checkReserve() { store.holdReserve { [mailbox] in mailbox.post(.reserve(isHeld: $0)) } }

  private func runGated() {
    while firstGated < gated.count, gated[firstGated].commit <= lastDurable {
      let effect = gated[firstGated].effect
      firstGated += 1
      if case .announce(let id, .state) = effect { noteDurable(id) }
      if core.isStillMeant(effect) { carryOut(effect) }
    }
    if firstGated == gated.count {
      gated.removeAll(keepingCapacity: gated.capacity <= 1 << 14)
      firstGated = 0
    } else if firstGated > 1024, firstGated * 2 > gated.count {
      // Where one commit follows another there is always something that waits.
      gated.removeFirst(firstGated)
      firstGated = 0
    }
  }

  // MARK: Act

  /// Runs the effects of a tick: those that carry a promise when its commit is durable, and behind those before them.
  func perform(_ effects: [Effect]) {
    let free = gate(effects)
    runGated()
    for effect in free { carryOut(effect) }
  }

  /// Lines up those that must wait; those that need not.
  private func gate(_ effects: [Effect]) -> [Effect] {
    let commit = newestCommit
    var free: [Effect] = []
    for effect in effects {
      guard effect.needsCommit, !isOnRecord(effect), commit > lastDurable || firstGated < gated.count else {
        free.append(effect)
        continue
      }
      gated.append((commit, effect))
      if case .announce(let id, .state) = effect {
        announcing[id] = ((announcing[id]?.count ?? 0) + 1, commit)
      }
    }
    return free
  }

  private func noteDurable(_ id: TaskID) {
    guard let waiting = announcing[id] else { return }
    announcing[id] = waiting.count > 1 ? (waiting.count - 1, waiting.commit) : nil
  }

  private func isOnRecord(_ effect: Effect) -> Bool { effect.needsRowOf.map { !unrecorded.contains($0) } ?? false }

  // MARK: Idle, and the end

  private var idleDeadline: BootInstant? {
    guard let limit = exitsWhenIdle, let since = idleSince else { return nil }
    return since + limit
  }

  private func noteIdleness(_ now: ClockReading) {
    guard let limit = exitsWhenIdle else { return }
    guard peers.isEmpty, !core.hasUnfinishedWork, gated.isEmpty, !isCommitInFlight, failedBatch == nil else {
      idleSince = nil
      return
    }
    guard let since = idleSince else {
      idleSince = now.boot
      return
    }
    if since + limit <= now.boot {
      log.write(.notice, "Nothing to do; the next client starts a daemon again.")
      isStopping = true
    }
  }

  /// How long after the last work the daemon is at rest, at most twice that.
  private static let restInterval = Duration.seconds(1)

  /// A daemon that has come to rest gives back what its work needed.
  private func rest(_ now: ClockReading, hasWorked: Bool) {
    if hasWorked {
      lastWork = now.boot
      if restsAt == nil { restsAt = now.boot + Self.restInterval }
    }
    guard let due = restsAt, due <= now.boot else { return }
    guard lastWork + Self.restInterval <= now.boot else {
      restsAt = now.boot + Self.restInterval
      return
    }
    restsAt = nil
    engineEvents = []
    if gated.isEmpty, !isCommitInFlight, failedBatch == nil { core.rest() }
    store.rest()
    IdleMemory.giveBack()
  }

  /// Lets what was decided become durable, tells clients, and goes; nothing is cancelled. At most about a second.
  private func shutDown() {
    bridge.detach()
    // What a restart handed over is on its way to the disk, and no client waits for it to be quick.
    let end = BootInstant.now() + .milliseconds(isRestarting ? 5000 : 600)
    while BootInstant.now() < end {
      submitNextBatch()
      guard isCommitInFlight || firstGated < gated.count, failedBatch == nil else { break }
      do throws(SystemError) { try loop.wait(until: end) } catch { break }
      var effects: [Effect] = []
      gatherReports(Self.readClock(randomWord: random.next()), &effects)
      commit()
      // Nothing new begins; what is promised already is kept.
      _ = gate(effects)
      runGated()
    }
    passOnReadings()
    removeGathered()
    tellStates()
    settleHolds()
    dropHeld()
    sayGoodbye()
    if !store.close() { log.write(.warning, "The store did not close in time; it recovers by itself.") }
    log.write(.notice, "ferryd stopped.")
  }
  /// Clients that read get all that was said to them, at most in ``goodbyeGrace``: bytes of a data task among it.
  private func sayGoodbye() {
    for id in peerOrder {
      let notice =
        isRestarting
        ? GoodbyeNotice(reason: "the daemon restarts", isRestart: true) : GoodbyeNotice(reason: "the daemon stops")
      say(.goodbye(notice), to: id)
    }
    let end = BootInstant.now() + Self.goodbyeGrace
    flushPeers()
    while peers.values.contains(where: { $0.unsentBytes > 0 }), BootInstant.now() < end {
      do throws(SystemError) { try loop.wait(until: end) } catch { return }
      flushPeers()
    }
  }

  private static let goodbyeGrace = Duration.milliseconds(500)
}
