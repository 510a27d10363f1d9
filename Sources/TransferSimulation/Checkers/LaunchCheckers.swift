import TransferCore

/// Between two launches of an app passes what its budget asks for: 60 s, and twice as much after each launch that came
/// as soon as it could.
final class LaunchBudgetChecker: Checker {
  let name = "launch budget kept"

  private struct Book {
    var number: Int64
    var at: Int64
    /// What must have passed before the next.
    var least: Duration
    /// How often the calendar clock had been set: one that was set since excuses a restarted daemon.
    var wallSettings: Int
  }

  private var books: [String: Book] = [:]

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .appOpened(let app): books[app] = nil
    case .launchOrdered(let order): return ordered(order, world)
    default: break
    }
    return nil
  }

  private func ordered(_ order: LaunchOrder, _ world: Simulation) -> String? {
    let policy = LaunchPolicy.standard
    var least = policy.firstDelay
    // A daemon that died before it could note that it had started the process orders the same launch again.
    if books[order.app]?.number == order.number { return nil }
    if let book = books[order.app], book.wallSettings == world.wallSettings {
      let passed = Duration.nanoseconds(world.now - book.at)
      // The order waits for its commit, which takes its time at either end.
      if passed + .seconds(10) < book.least {
        return "app \(order.app) was launched (\(order.number)) \(passed) after the last time, not \(book.least)"
      }
      if passed < book.least + .seconds(1), waited(order, world, since: passed - book.least) {
        world.coverage.note(.launchDelayed)
        least = min(book.least * 2, policy.longestDelay)
      }
    }
    books[order.app] = Book(
      number: order.number, at: world.now, least: least, wallSettings: world.wallSettings)
    return nil
  }
}

extension LaunchBudgetChecker {
  /// Whether the app was already wanted when its delay was over, that long ago: else the launch was free again.
  private func waited(_ order: LaunchOrder, _ world: Simulation, since past: Duration) -> Bool {
    let over = world.wall.milliseconds - past.millisecondsClamped
    let sessions = world.store.sessions.values.filter { $0.key.app == order.app && $0.key.identifier == order.session }
    // What has ended and was not collected is there still.
    let ended = world.store.entries.values.filter { entry in sessions.contains { $0.id == entry.session } }
      .compactMap { $0.finishedAt?.milliseconds }
    return order.reason == .sessionEvents && ended.allSatisfy { $0 < over }
  }
}

/// An app is launched when all of a session's tasks have ended, or one needs an answer, and only once for that.
final class LaunchBatchChecker: Checker {
  let name = "one launch per batch"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    guard case .launchOrdered(let order) = fact else { return nil }
    if let app = world.app(named: order.app), app.isAlive, app.launchNumber != nil {
      return "app \(order.app) is launched (\(order.number)) while launch \(app.launchNumber ?? 0) runs"
    }
    let keys = world.store.sessions.values.filter { $0.key.app == order.app && $0.key.identifier == order.session }
    guard !keys.isEmpty else { return "app \(order.app) is launched for a session that is not stored" }
    var waits = false
    var unfinished: TaskID?
    for session in keys {
      for entry in world.store.entries.values where entry.session == session.id {
        switch entry.state {
        case .asking: waits = waits || order.reason == .challenge
        case .waiting, .running, .finalizing: unfinished = max(unfinished ?? entry.id, entry.id)
        case .suspended, .finished: break
        }
      }
      if order.reason == .sessionEvents, world.store.deliveries.keys.contains(where: { $0.session == session.id }) {
        waits = true
      }
    }
    if !waits { return "app \(order.app) is launched (\(order.number)) and nothing waits for it" }
    if order.reason == .sessionEvents, let unfinished {
      return "app \(order.app) is launched (\(order.number)) while task \(unfinished) is unfinished"
    }
    return nil
  }
}
