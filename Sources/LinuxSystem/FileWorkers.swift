/// Threads for file calls, one a filesystem and kind of work: a mount that hangs stops only the tasks on it. Which
/// filesystem a path is on is read from the mount table, without touching the path.
package final class FileWorkers {
  package enum Work: Hashable {
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

  /// Folders whose filesystem is remembered: walking the table costs more than the rest of handing a small file over.
  private static let knownFolders = 1024

  private var workers: [Key: Worker] = [:]
  private var map: FilesystemMap
  private var byFolder: [String: Folder] = [:]
  private var mountPoints: Set<String> = []
  /// Folders in which something is mounted.
  private var mountFolders: Set<String> = []

  private struct Folder {
    var filesystem: Filesystem?
    /// A file in it may be a mount point of its own.
    var hasMounts: Bool
  }

  package init() throws(SystemError) {
    map = try FilesystemMap.current()
    noteMounts()
  }

  private func noteMounts() {
    mountPoints = Set(map.filesystems.map(\.mountPoint))
    mountFolders = Set(mountPoints.map(Files.parent))
  }

  /// The mount table changed.
  package func refresh() {
    guard let fresh = try? FilesystemMap.current() else { return }
    map = fresh
    byFolder.removeAll()
    noteMounts()
  }

  package func isLocal(_ path: String) -> Bool { filesystem(of: path)?.isLocal ?? false }

  /// Whether two paths share their room.
  package func areTogether(_ path: String, _ other: String) -> Bool {
    filesystem(of: path).map { $0.device == filesystem(of: other)?.device } ?? false
  }

  private func filesystem(of path: String) -> Filesystem? {
    let folder = Files.parent(of: path)
    let known = byFolder[folder] ?? look(at: folder)
    return known.hasMounts && mountPoints.contains(path) ? map.filesystem(of: path) : known.filesystem
  }

  private func look(at name: String) -> Folder {
    let folder = Folder(filesystem: map.filesystem(of: name), hasMounts: mountFolders.contains(name))
    if byFolder.count >= Self.knownFolders { byFolder.removeAll() }
    byFolder[name] = folder
    return folder
  }

  /// Where no thread can be made (pthread_create(3), EAGAIN) the work joins another's. Nil: there is none at all.
  package func worker(for path: String, _ work: Work) -> Worker? {
    let key = Key(mount: filesystem(of: path)?.mountID ?? -1, work: work)
    if let worker = workers[key] { return worker }
    guard let worker = try? Worker(name: "files-\(key.mount)", limit: Self.backlog) else {
      return workers.values.min { $0.backlog < $1.backlog }
    }
    workers[key] = worker
    return worker
  }
}
