import TransferCore

/// Accepted work survives: from the reply on a task exists until its app took its result, had it removed, or let its
/// retention pass.
final class AcceptedWorkChecker: Checker {
  let name = "accepted work survives"
  private var removable: Set<TaskID> = []
  private var gone: Set<TaskID> = []
  /// Results by the task that they complete.
  private var completions: [SessionID: [DeliveryNumber: TaskID]] = [:]
  private var finishedAt: [TaskID: WallInstant] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .asked(_, .remove(let ids)): removable.formUnion(ids)
    case .asked(_, .acknowledge(let session, let numbers)):
      for number in numbers {
        if let id = completions[session]?[number] { removable.insert(id) }
      }
    case .replied(_, .enqueue, .enqueued(let outcomes)):
      for case .accepted(let id, _, _, _) in outcomes where world.store.entries[id] == nil && !gone.contains(id) {
        return "task \(id) was accepted, and no commit holds it"
      }
    case .committed(let changes):
      for change in changes {
        if let text = take(change, world) { return text }
      }
    default: break
    }
    return nil
  }

  private func take(_ change: StoreChange, _ world: Simulation) -> String? {
    switch change {
    case .updateTask(let entry, _): if let at = entry.finishedAt { finishedAt[entry.id] = at }
    case .addTask(let entry, _): if let at = entry.finishedAt { finishedAt[entry.id] = at }
    case .addDelivery(let record):
      if record.kind == .completion, let id = record.task {
        completions[record.session, default: [:]][record.number] = id
      }
    case .removeTask(let id):
      gone.insert(id)
      // The clock may have jumped between the decision and the commit, so a jump forward excuses it.
      let isExpired =
        finishedAt[id].map { max(world.wall, world.latestWall) - $0 >= Limits.retention - .seconds(60) } ?? false
      if !removable.contains(id), !isExpired { return "task \(id) was forgotten, and nobody asked for that" }
    case .putSession, .removeSession, .forgetSecrets, .removeDelivery, .addKeptPart, .removeKeptPart, .app: break
    }
    return nil
  }

  /// After a start: what was committed is there.
  func compare(_ core: Core, with store: StoreImage) -> String? {
    for id in store.entries.keys.sorted() where core.tasks[id] == nil {
      return "task \(id) is stored, and the daemon that started does not know it"
    }
    return nil
  }
}

/// A task has one outcome: what was told of its end stays true.
final class OutcomeChecker: Checker {
  let name = "one outcome a task"
  private var endings: [TaskID: TaskState.Ending] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .announced(_, let view): note(view.entry, isPromise: view.entry.state.isFinished)
    case .offered(_, _, let record, .some(let view)) where record.kind == .completion:
      view.entry.state.isFinished
        ? note(view.entry, isPromise: true) : "task \(view.entry.id) was completed in state \(view.entry.state)"
    default: nil
    }
  }

  private func note(_ entry: TaskEntry, isPromise: Bool) -> String? {
    guard case .finished(let ending) = entry.state else {
      return endings[entry.id].map { "task \(entry.id) had \($0), and is now \(entry.state)" }
    }
    if let known = endings[entry.id], known != ending { return "task \(entry.id) had \(known), and now \(ending)" }
    if isPromise { endings[entry.id] = ending }
    return nil
  }
}

/// Enqueueing under one key makes one task.
final class KeyChecker: Checker {
  let name = "one task a key"
  private struct Name: Hashable {
    var app: Int
    var key: String
  }
  private var owners: [Name: TaskID] = [:]
  private var removable: Set<TaskID> = []
  private var committedKeys: [Name: TaskID] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .asked(_, .remove(let ids)): removable.formUnion(ids)
    case .committed(let changes):
      for case .removeTask(let id) in changes { removable.insert(id) }
    case .replied(let app, .enqueue(_, let drafts), .enqueued(let outcomes)):
      if drafts.count != outcomes.count { return "\(drafts.count) tasks were enqueued, \(outcomes.count) answered" }
      for (draft, outcome) in zip(drafts, outcomes) {
        guard case .accepted(let id, _, _, _) = outcome, let key = draft.key else { continue }
        let name = Name(app: app, key: key)
        if let known = owners[name], known != id, !removable.contains(known) {
          return "key \(key) is of task \(known) and of task \(id)"
        }
        owners[name] = id
      }
    default: break
    }
    return nil
  }
}

/// An enqueue is refused only for a reason that is there.
final class RefusalChecker: Checker {
  let name = "refused with reason"
  /// Keys under which resume data was asked for.
  private var askedUnder: [ResumeToken: Set<String>] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    if case .asked(_, .enqueue(_, let drafts)) = fact {
      for draft in drafts {
        if let token = draft.resumeToken { askedUnder[token, default: []].insert(draft.key ?? "") }
      }
    }
    guard case .replied(_, .enqueue(_, let drafts), .enqueued(let outcomes)) = fact else { return nil }
    for (draft, outcome) in zip(drafts, outcomes) {
      guard case .refused(let refusal) = outcome else { continue }
      switch refusal.name {
      case .destinationClaimed, .destinationExists:
        if draft.destination != .managed || draft.resumeToken != nil { continue }
      case .resumeDataInvalid:
        if let token = draft.resumeToken,
          world.store.keptParts[token] == nil || askedUnder[token, default: []].count > 1
        {
          world.coverage.note(.ticketRefused)
          continue
        }
      case .sessionInvalidated: continue
      case .sessionInUse, .sessionUnknown, .taskUnknown, .destinationUnusable, .sourceMissing, .sourceUnusable,
        .degraded,
        .tooManyTasks, .invalidParameters, .appUnknown, .notAsking:
        break
      }
      return "\(draft.key ?? "a task") was refused: \(refusal.name): \(refusal.message)"
    }
    return nil
  }
}

/// The server acts at most once on a request that is not safe to repeat.
final class AtMostOnceChecker: Checker {
  let name = "not repeatable, acted on at most once"
  private var acted: [TaskID: Int] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .acted(let id): return act(id, world)
    case .daemonDied:
      // An id that no commit ever held is given out again.
      acted = acted.filter { world.store.entries[$0.key] != nil }
      return nil
    default: return nil
    }
  }

  private func act(_ id: TaskID, _ world: Simulation) -> String? {
    acted[id, default: 0] += 1
    guard acted[id, default: 0] > 1, world.store.entries[id]?.isRepeatable == false else { return nil }
    guard let method = world.store.details[id]?.plan.request.method, method != "GET" else { return nil }
    return "the server acted \(acted[id] ?? 0) times on task \(id)"
  }
}
