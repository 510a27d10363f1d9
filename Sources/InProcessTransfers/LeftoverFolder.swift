import Glibc
import LinuxSystem
import Synchronization

/// What goes with the process where that ends by itself: parts of downloads that nobody went on from, and of those that
/// were still on their way. (A process that is killed leaves them to whoever cleans the temporary folder.)
enum LeftoverFolder {
  private static let folders = Mutex<[String]>([])

  static func goesWithProcess(_ folder: String) {
    let isFirst = folders.withLock { folders in
      defer { folders.append(folder) }
      return folders.isEmpty
    }
    if isFirst { _ = atexit { LeftoverFolder.removeAll() } }
  }

  private static func removeAll() {
    for folder in folders.withLock({ $0 }) {
      LocalFileCalls.remove(Files.names(in: folder).map { "\(folder)/\($0)" }, folder: folder)
    }
  }
}
