import LinuxSystem
import TransferCore
import TransferStore

/// Files that are to go, and are not gone yet. In the daemon's own folders the next start would find them; a part file
/// in a user's folder is on record until its removal was seen.
struct PartDiscards {
  /// Beyond it removals that fail are left to the next start.
  private static let limit = 10_000
  private static let firstPause = Duration.seconds(1)
  private static let longestPause = Duration.seconds(3600)

  /// Tasks that exist and whose part file is gone.
  fileprivate var known: Set<TaskID> = []
  private var failed: [String] = []
  private var pause = firstPause
  private(set) var nextTry: BootInstant?

  mutating func note(failed paths: [String], at now: BootInstant) {
    guard !paths.isEmpty else { return }
    failed += paths.prefix(max(0, Self.limit - failed.count))
    if nextTry == nil { nextTry = now + pause }
  }

  /// What is to be tried again now.
  mutating func takeDue(_ now: BootInstant) -> [String] {
    guard let due = nextTry, due <= now else { return [] }
    nextTry = nil
    pause = min(pause + pause, Self.longestPause)
    defer { failed = [] }
    return failed
  }

  mutating func noteSuccess() { if failed.isEmpty { pause = Self.firstPause } }
}

extension Daemon {
  func noteRemoval(_ removal: FileJobs.Removal, _ now: ClockReading) {
    for id in removal.parts {
      if core.tasks[id] != nil { discards.known.insert(id) } else { nextBatch.parts.settled.append(id) }
    }
    if removal.failed.isEmpty { discards.noteSuccess() }
    if let path = removal.failed.first, discards.nextTry == nil {
      log.write(.warning, "\(removal.failed.count) files could not be removed, \(path) among them; tried again later.")
    }
    discards.note(failed: removal.failed, at: now.boot)
  }

  /// Their part files are known to be gone, or become leftovers with this commit.
  func noteRemovedTasks(_ changes: [StoreChange]) {
    guard !discards.known.isEmpty else { return }
    for case .removeTask(let id) in changes where discards.known.remove(id) != nil { nextBatch.parts.known.insert(id) }
  }

  func retryRemovals(_ now: ClockReading) { removals += discards.takeDue(now.boot) }
}
