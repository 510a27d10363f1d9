import TransferCore

/// Resume data is used once: of all tasks that were to go on from one kept part, one does.
final class TicketChecker: Checker {
  let name = "resume data is used once"
  private var users: [ResumeToken: TaskID] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    guard case .replied(_, .enqueue(_, let drafts), .enqueued(let outcomes)) = fact else { return nil }
    for (draft, outcome) in zip(drafts, outcomes) {
      guard let token = draft.resumeToken, case .accepted(let id, _, _, _) = outcome else { continue }
      if let known = users[token], known != id { return "tasks \(known) and \(id) both go on from \(token)" }
      users[token] = id
      world.coverage.note(.wentOnFromPart)
    }
    return nil
  }
}
