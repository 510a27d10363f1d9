import LinuxSystem

/// Threads for file calls, one a filesystem and kind of work: a mount that hangs stops only the tasks on it. Which
/// filesystem a path is on is read from the mount table, without touching the path.
final class FileWorkers {
  enum Work: Hashable {
    /// Opening, naming, removing: short calls.
    case names
    /// Making results durable in batches.
    case durability
    /// Reading whole files (digests, decoding).
    case content
    /// Written by the engine where a write can hang.
    case transfer
  }

  private struct Key: Hashable {
    var mount: Int32
    var work: Work
  }

  /// Jobs that may wait for one filesystem: beyond it the mount is taken for dead, and calls are refused.
  private static let backlog = 50_000

  private var workers: [Key: Worker] = [:]
  private var map: FilesystemMap

  init() throws(SystemError) { map = try FilesystemMap.current() }

  /// The mount table changed.
  func refresh() {
    if let fresh = try? FilesystemMap.current() { map = fresh }
  }

  func isLocal(_ path: String) -> Bool { map.filesystem(of: path)?.isLocal ?? false }

  func worker(for path: String, _ work: Work) -> Worker? {
    let key = Key(mount: map.filesystem(of: path)?.mountID ?? -1, work: work)
    if let worker = workers[key] { return worker }
    guard let worker = try? Worker(name: "files-\(key.mount)", limit: Self.backlog) else { return nil }
    workers[key] = worker
    return worker
  }
}
