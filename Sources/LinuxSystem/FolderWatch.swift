import Glibc

/// Hears of changes in folders (inotify(7)). Which file changed is not told: whoever asks looks at all of them, and so
/// misses nothing where the kernel's queue overflowed.
package struct FolderWatch: ~Copyable {
  private let source: OwnedDescriptor

  package init() throws(SystemError) {
    source = try OwnedDescriptor(
      adopting: Syscall.retrying("inotify_init1") {
        inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
      })
  }

  /// Readable while there is something new.
  package var descriptor: Int32 { source.raw }

  /// What of a folder is heard of.
  package enum News: Sendable {
    /// Files that are written and closed, renamed or removed.
    case files
    /// Each write to a file.
    case writes
    /// Names that appear, and the end of the folder itself.
    case names

    fileprivate var mask: UInt32 {
      switch self {
      case .files: UInt32(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_ONLYDIR)
      case .writes: UInt32(IN_MODIFY | IN_ONLYDIR)
      case .names: UInt32(IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
      }
    }
  }

  /// - Returns: the number by which ``drain()`` names the folder.
  @discardableResult
  package func add(_ folder: String, hearing news: News = .files) throws(SystemError) -> Int32 {
    try Syscall.retrying("inotify_add_watch", path: folder) {
      unsafe inotify_add_watch(source.raw, folder, news.mask)
    }
  }

  /// Takes what is there; the folders with news, each once. A number below 0 stands for all of them.
  package func drain() -> [Int32] {
    var folders: [Int32] = []
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    while let count = try? Syscall.read(source.raw, into: &buffer), count > 0 {
      var start = 0
      // struct inotify_event: wd, mask, cookie, len, each of 4 bytes, then the name.
      while start + 16 <= count {
        let folder = Int32(bitPattern: Self.word(buffer, at: start))
        if !folders.contains(folder) { folders.append(folder) }
        start += 16 + Int(Self.word(buffer, at: start + 12))
      }
    }
    return folders
  }

  private static func word(_ bytes: [UInt8], at start: Int) -> UInt32 {
    (0..<4).reduce(UInt32(0)) { $0 | UInt32(bytes[start + $1]) << (8 * UInt32($1)) }
  }
}
