internal import CSQLite
internal import Glibc
package import TransferCore

/// A database that could not be read was put aside, and the store began anew. To be told to the person.
package struct RecoveryNote: Hashable, Sendable {
  /// Where the damaged database stands now, its log beside it; `sqlite3 FILE .recover` may read a part of it.
  package var setAsidePath: String
  package var reason: String
  package var at: WallInstant

  package init(setAsidePath: String, reason: String, at: WallInstant) {
    self.setAsidePath = setAsidePath
    self.reason = reason
    self.at = at
  }
}

/// The files of a database: itself, its write-ahead log and the log's index.
enum DatabaseFiles {
  private static let companions = ["-wal", "-shm"]

  static func now() -> WallInstant {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return WallInstant(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
  }

  static func exists(_ path: String) -> Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0
  }

  /// Creates an empty file that only its user may read, or takes others' rights from the one that is there (rows
  /// hold credentials). An existing file is not opened: closing it would drop the locks of this process on it.
  static func prepare(_ path: String) throws(StoreError) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    if descriptor >= 0 {
      close(descriptor)
      return try syncFolder(of: path)
    }
    guard errno == EEXIST else { throw systemFailure("cannot be created", path) }
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { throw systemFailure("cannot be opened", path) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw StoreError(.cannotOpen, code: .cannotOpen, message: "\(path) is not a file; move it away")
    }
    guard status.st_mode & 0o077 == 0 || (unsafe chmod(path, 0o600)) == 0 else {
      throw systemFailure("is open to other users and cannot be closed to them", path)
    }
  }

  /// True where a log is there without its database: the rest of a move that was interrupted, or of a database that
  /// somebody deleted. SQLite would delete it without a word.
  static func isOrphanedLog(_ path: String) -> Bool {
    var status = stat()
    let hasDatabase = unsafe stat(path, &status) == 0 && status.st_size > 0
    let hasLog = unsafe stat(path + "-wal", &status) == 0 && status.st_size > 0
    return hasLog && !hasDatabase
  }

  /// Renames the files to `NAME.corrupt-<seconds since 1970>`, with a further number where that is taken.
  static func setAside(_ path: String, reason: String) throws(StoreError) -> RecoveryNote {
    let moment = now()
    let base = "\(path).corrupt-\(moment.milliseconds / 1000)"
    var target = base
    var counter = 2
    while ([""] + companions).contains(where: { exists(target + $0) }) {
      target = "\(base)-\(counter)"
      counter += 1
    }
    // The database first: from then on a log without its database says that this was not finished.
    for suffix in [""] + companions {
      if unsafe rename(path + suffix, target + suffix) != 0, errno != ENOENT {
        throw systemFailure("is damaged and cannot be moved aside", path + suffix)
      }
    }
    try syncFolder(of: path)
    return RecoveryNote(setAsidePath: target, reason: reason, at: moment)
  }

  private static func syncFolder(of path: String) throws(StoreError) {
    let folder =
      switch path.utf8.lastIndex(of: UInt8(ascii: "/")) {
      case .some(path.startIndex): "/"
      case .some(let slash): String(path[..<slash])
      case .none: "."
      }
    let descriptor = unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw systemFailure("cannot be opened", folder) }
    defer { close(descriptor) }
    // EINVAL: a file system whose folders need no syncing.
    guard fsync(descriptor) == 0 || errno == EINVAL else { throw systemFailure("cannot be synced", folder) }
  }

  private static func systemFailure(_ what: String, _ path: String) -> StoreError {
    let number = errno
    let kind: StoreError.Kind =
      switch number {
      case ENOSPC, EDQUOT, EFBIG: .full
      case EROFS: .readOnly
      case EIO: .ioError
      default: .cannotOpen
      }
    // SAFETY: a text ended by NUL that is copied before the next call.
    let text = unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
    return StoreError(kind, code: .cannotOpen, message: "\(path) \(what): \(text)")
  }
}
