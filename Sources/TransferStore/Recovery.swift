internal import CSQLite
internal import Glibc
package import TransferCore

/// A damaged database was put aside, and a new one made of the rows that could be read. To be told to the person.
///
/// A disk that loses writes leaves old rows beside new ones: what was rescued may be older than what was acknowledged.
package struct RecoveryNote: Hashable, Sendable {
  /// Where the damaged database stands now, its log beside it; `sqlite3 FILE .recover` may read a part of it.
  package var setAsidePath: String
  package var reason: String
  /// Rows of all tables that were carried over into the new database.
  package var rescuedRows: Int
  package var at: WallInstant

  package init(setAsidePath: String, reason: String, rescuedRows: Int, at: WallInstant) {
    self.setAsidePath = setAsidePath
    self.reason = reason
    self.rescuedRows = rescuedRows
    self.at = at
  }
}

/// The files of a database: itself, its write-ahead log, the log's index, and a rollback journal.
enum DatabaseFiles {
  private static let companions = ["-wal", "-shm", "-journal"]

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
  /// - Returns: the new path of the database.
  static func setAside(_ path: String, at moment: WallInstant) throws(StoreError) -> String {
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
    return target
  }

  /// Gives a database that was built under another name, and closed, its place.
  static func move(_ path: String, to target: String) throws(StoreError) {
    guard unsafe rename(path, target) == 0 else { throw systemFailure("cannot be renamed to \(target)", path) }
    try syncFolder(of: target)
  }

  /// Removes what an interrupted repair left.
  static func remove(_ path: String) throws(StoreError) {
    for suffix in companions.reversed() + [""] where unsafe unlink(path + suffix) != 0 && errno != ENOENT {
      throw systemFailure("cannot be removed", path + suffix)
    }
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
