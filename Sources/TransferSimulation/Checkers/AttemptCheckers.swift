import TransferCore

/// At most one attempt a task, and never more than the slots allow.
final class SlotChecker: Checker {
  let name = "one attempt a task, slots never exceeded"
  private var onWire: [AttemptID: (task: TaskID, session: SessionID, origin: String)] = [:]
  private var attempts: [TaskID: AttemptID] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .began(let order, let entry):
      if let other = attempts[order.task] {
        return "task \(order.task) is on the wire in \(other) and \(order.attempt)"
      }
      guard let entry else { return "attempt \(order.attempt) is of a task that does not exist" }
      attempts[order.task] = order.attempt
      onWire[order.attempt] = (order.task, entry.session, entry.origin)
      if onWire.count > Limits.running { return "\(onWire.count) attempts are on the wire" }
      let inLane = onWire.values.count { $0.session == entry.session && $0.origin == entry.origin }
      let limit = order.network.maximumConnectionsPerHost
      return inLane > limit ? "\(inLane) attempts of one session are on the wire to \(entry.origin)" : nil
    case .left(let attempt, let task, _, _):
      onWire[attempt] = nil
      if attempts[task] == attempt { attempts[task] = nil }
      return nil
    case .daemonDied:
      onWire.removeAll()
      attempts.removeAll()
      return nil
    default: return nil
    }
  }
}

/// No attempt begins while the task is paused, has ended, or must wait.
final class BlockedAttemptChecker: Checker {
  let name = "no attempt while blocked"
  private var paused: Set<TaskID> = []
  /// Resumed since they were last paused.
  private var resumed: Set<TaskID> = []
  /// Began in a state that allows none; it must be stopped in the same tick.
  private var premature: (attempt: AttemptID, text: String)?
  /// Until when a lane asked to be left alone, and a task must wait after a failure; by the world's own clock.
  private var laneRest: [String: (by: TaskID, since: AttemptID, at: Int64, until: Int64)] = [:]
  /// Wishes to go on at once that are on their way.
  private var hurries: [TaskID: Int] = [:]
  private var taskRest: [TaskID: (after: AttemptID, until: Int64)] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .asked(_, .suspend(let ids)): resumed.subtract(ids)
    case .replied(_, .suspend, .identifiers(let reached, _)):
      for id in reached where world.store.entries[id]?.state == .suspended && !resumed.contains(id) {
        paused.insert(id)
      }
    case .ticked: if let text = premature?.text { return text }
    case .asked(_, .resume(let ids)):
      for id in ids {
        paused.remove(id)
        resumed.insert(id)
        hurries[id, default: 0] += 1
        taskRest[id] = nil
      }
    case .asked(_, .update(let id, let change)): if change.earliestBegin != nil { hurries[id, default: 0] += 1 }
    case .replied(_, .update(let id, let change), _): if change.earliestBegin != nil { hurried(id) }
    case .replied(_, .resume(let ids), _): for id in ids { hurried(id) }
    case .daemonDied:
      // Times are re-derived from the wall clock, which may have jumped.
      laneRest.removeAll()
      taskRest.removeAll()
      premature = nil
    case .left(let attempt, let id, let end, let verdict):
      if premature?.attempt == attempt { premature = nil }
      rest(id, attempt, end, verdict, world)
    case .stopped(let attempt):
      // Its failure was not looked at.
      for (id, rest) in taskRest where rest.after == attempt { taskRest[id] = nil }
    case .began(let order, let entry): return begin(order, entry, world)
    default: break
    }
    return nil
  }

  /// The task that was told to wait does: it was not cancelled before its answer was understood.
  private func isStillResting(_ id: TaskID, _ world: Simulation) -> Bool {
    guard let core = world.daemon?.core, let cell = core.tasks[id], let wakeAt = cell.wakeAt else { return false }
    return cell.entry.state == .waiting && cell.entry.failures > 0 && wakeAt > world.boot
  }

  private func hurried(_ id: TaskID) {
    taskRest[id] = nil
    hurries[id, default: 1] -= 1
  }

  private func rest(
    _ id: TaskID, _ attempt: AttemptID, _ end: AttemptEnd?, _ verdict: ResponseVerdict?, _ world: Simulation
  ) {
    guard let entry = world.daemon?.core.tasks[id]?.entry else { return }
    switch (end, verdict) {
    case (.discarded, .retryLater(let failure)?):
      if let seconds = failure.retryAfterSeconds {
        // Whoever has its slot already may begin.
        var latest = AttemptID(rawValue: 0)
        world.daemon?.core.tasks.forEach { latest = max(latest, $0.entry.state.attempt ?? latest) }
        let until = world.now + Int64(seconds) * 1_000_000_000
        laneRest["\(entry.session) \(entry.origin)"] = (id, latest, world.now, until)
      }
      taskRest[id] = (attempt, world.now + 250_000_000)
    case (.failed, _): taskRest[id] = (attempt, world.now + 250_000_000)
    default: break
    }
  }

  private func begin(_ order: AttemptOrder, _ entry: TaskEntry?, _ world: Simulation) -> String? {
    guard let entry else { return nil }
    // What began and was ended in one tick is stopped before a byte leaves.
    if entry.state != .running(order.attempt) {
      premature = (order.attempt, "task \(order.task) begins in state \(entry.state)")
    }
    if paused.contains(order.task) { return "task \(order.task) begins although it is paused" }
    // A redirect is not a new attempt.
    guard order.request.url == world.store.details[order.task]?.plan.request.url else { return nil }
    if let rest = taskRest[order.task], world.now < rest.until, hurries[order.task, default: 0] <= 0 {
      return "task \(order.task) begins within its backoff"
    }
    if let rest = laneRest["\(entry.session) \(entry.origin)"], order.attempt > rest.since,
      world.now > rest.at + 60_000_000_000,
      world.now < rest.until - 1_000_000_000, isStillResting(rest.by, world)
    {
      return "task \(order.task) begins while its host rests"
    }
    return nil
  }
}

/// What goes out is what the task asked for, and proves what it continues.
final class RequestChecker: Checker {
  let name = "requests carry what they must, and no secret too far"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    guard case .began(let order, _) = fact, let plan = world.daemon?.core.residentDetails(order.task)?.plan else {
      return nil
    }
    let headers = order.request.headers
    if let resume = order.judgement.resume {
      guard headers["Range"] == "bytes=\(resume.offset)-" else { return "a resumption without its Range" }
      guard let condition = headers["If-Range"] else { return "a resumption without If-Range" }
      if condition.hasPrefix("W/") || condition != resume.validator.fieldValue { return "If-Range is \(condition)" }
    } else if headers.contains("If-Range") {
      return "If-Range without a Range"
    }
    if headers["Accept-Encoding"] == nil { return "no Accept-Encoding" }
    if let origin = Origin(url: order.request.url), let own = Origin(url: plan.request.url), origin != own,
      headers.contains("Authorization")
    {
      return "Authorization goes to \(origin)"
    }
    if !plan.request.isIdempotent, order.request.method == plan.request.method, !order.needsFreshConnection {
      return "a request that may not be repeated goes out on a used connection"
    }
    return nil
  }
}

/// While bytes go into a part file, its row vouches for their version or for none: a kill at that moment must not leave
/// bytes of one version under the validator of another.
final class VouchChecker: Checker {
  let name = "the row vouches for what is in the part file"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    guard case .wrote(let id, let span) = fact, span.length > 0,
      let validator = world.store.details[id]?.progress.resumePoint?.validator
    else { return nil }
    let version = world.servers.versions[Int(span.version)]
    guard version.kind == .object else { return nil }
    let isSame =
      switch validator {
      case .entityTag(let tag): version.entityTag == tag
      case .lastModified(let date): version.modifiedSeconds.map { HTTPDateText.fixed($0) == date } ?? false
      }
    return isSame ? nil : "task \(id) writes version \(span.version) while its row vouches for \(validator.fieldValue)"
  }
}

/// Counters only grow within an attempt, but for the one moment at which a server forces a new beginning.
final class ProgressChecker: Checker {
  let name = "progress is monotonic within an attempt"
  private var last: [TaskID: (attempt: AttemptID, received: Int64, drops: Int)] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .daemonDied: last.removeAll()
    case .progressTold(let entry):
      guard let attempt = entry.state.attempt else { return nil }
      if entry.received < 0 || entry.sent < 0 { return "task \(entry.id) counts \(entry.received) bytes" }
      guard let before = last[entry.id], before.attempt == attempt else {
        last[entry.id] = (attempt, entry.received, 0)
        return nil
      }
      let drops = before.drops + (entry.received < before.received ? 1 : 0)
      last[entry.id] = (attempt, entry.received, drops)
      if drops > 1 { return "task \(entry.id) went back to \(entry.received) bytes in attempt \(attempt)" }
    default: break
    }
    return nil
  }
}
