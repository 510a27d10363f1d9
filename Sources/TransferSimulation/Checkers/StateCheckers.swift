import TransferCore

/// The core's own rules hold between any two ticks, and its changes fit what is stored.
final class CoreRuleChecker: Checker {
  let name = "the core's rules"
  private var ticks = 0

  func take(_ fact: Fact, in world: Simulation) -> String? {
    switch fact {
    case .rejected(let reason): return "the store refuses a change: \(reason)"
    case .ticked:
      ticks += 1
      guard ticks % 7 == 0 else { return nil }
      return world.daemon?.core.violations().first
    case .settled: return world.daemon?.core.violations().first
    default: return nil
    }
  }
}

/// When faults stop, everything ends within a bound.
final class LivenessChecker: Checker {
  let name = "everything ends when faults stop"

  func take(_ fact: Fact, in world: Simulation) -> String? {
    guard case .settled(false) = fact else { return nil }
    guard let daemon = world.daemon else { return "no daemon is left" }
    var left: [String] = []
    daemon.core.tasks.forEach { cell in
      let entry = cell.entry
      let failure = daemon.core.residentDetails(entry.id)?.progress.failure?.detail ?? ""
      left.append(
        "task \(entry.id) \(entry.kind) of session \(entry.session) is \(entry.state), "
          + "\(entry.failures) failures, wakes at "
          + "\(cell.wakeAt.map { "\($0.nanoseconds / 1_000_000_000) s" } ?? "-") \(failure)")
    }
    if left.isEmpty {
      left = world.apps.filter { !$0.isSettled }.map { "app \($0.index) waits for an answer" }
    }
    if left.isEmpty { return "the daemon does not come to rest" }
    left = Array(left.prefix(3)) + world.apps.map { "app \($0.index) \($0.isAlive) \($0.session?.description ?? "-")" }
    return left.joined(separator: "; ") + "; now \(world.reading().boot.nanoseconds / 1_000_000_000) s"
  }
}

enum Checkers {
  /// Fresh ones, for one world.
  static func all() -> [any Checker] {
    [
      AcceptedWorkChecker(), OutcomeChecker(), KeyChecker(), RefusalChecker(), AtMostOnceChecker(), DeliveryChecker(),
      ContentChecker(), PublishedFileChecker(), OrphanChecker(), SlotChecker(), BlockedAttemptChecker(),
      ConditionChecker(), RequestChecker(), AskingKeepsBytesChecker(), CredentialChecker(), VouchChecker(),
      TicketChecker(), ProgressChecker(), CoreRuleChecker(), LivenessChecker(), LaunchBudgetChecker(),
      LaunchBatchChecker(),
    ]
  }
}
