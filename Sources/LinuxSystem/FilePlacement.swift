import CLinux
import Glibc
package import TransferCore

/// Gives a finished part file its name, in one step that everybody sees or nobody.
///
/// The content must be durable before (`Files.syncFile`), the directory after (`Files.syncDirectory`), both in batches.
/// After a crash between publishing and recording it, `alreadyPlaced` finds what was done.
package enum FilePlacement {
  /// What to do when the name is taken.
  package enum Policy: String, Hashable, Sendable {
    /// Refuse: `Refusal.nameTaken`.
    case noReplace
    /// Take the name over. A directory there is refused by the kernel (EISDIR).
    case replace
    /// Take the first free of `name (1).ext`, `name (2).ext` …
    case rename
  }

  package enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    case nameTaken(path: String)
    /// The destination's filesystem, another than the part's, has not enough room for the copy.
    case noSpace(path: String, neededBytes: Int64, freeBytes: Int64)
    case system(SystemError)

    package var description: String {
      switch self {
      case .nameTaken(let path): "\(path) exists already"
      case .noSpace(let path, let needed, let free): "\(path) needs \(needed) bytes, \(free) are free there"
      case .system(let error): error.description
      }
    }
  }

  /// Names tried by `.rename`.
  static let candidateLimit = 10_000
  /// NAME_MAX of every filesystem in use, in bytes.
  private static let nameBytesLimit = 255

  /// Moves `part` to `destination` and returns the path it got.
  ///
  /// On another filesystem the part is copied to a hidden file in the destination's folder, synced, named, and only
  /// then removed. The copy keeps the part's mode. Publishing again what a crash left half done (both names linked to
  /// one file) ends it.
  package static func publish(
    part: String, as destination: String, policy: Policy
  ) throws(Refusal) -> String {
    if part == destination { return destination }
    do throws(SystemError) {
      let identity = try Files.identity(path: part, followingSymlinks: false)
      if let placed = try claim(part, identity, destination, policy) { return placed }
      throw SystemError(EEXIST, operation: "publish", path: destination)
    } catch {
      switch error.number {
      case EEXIST where policy != .replace: throw .nameTaken(path: destination)
      case EXDEV: return try publishAcross(part, destination, policy)
      default: throw .system(error)
      }
    }
  }

  /// As `publish`, but the part keeps its own name as well, until whoever recorded the result removes it: a crash
  /// between placing and recording is told by the second name being the same file. On a filesystem without hard links
  /// (FAT, some of FUSE) it is `publish`.
  package static func link(
    part: String, as destination: String, policy: Policy
  ) throws(Refusal) -> String {
    do throws(SystemError) {
      switch policy {
      case .replace: return try linkOver(part, destination)
      case .noReplace:
        if try linkKeepingPart(part, destination) { return destination }
      case .rename:
        for number in 0...candidateLimit {
          let path = candidate(destination, number)
          if try linkKeepingPart(part, path) { return path }
        }
      }
    } catch {
      switch error.number {
      case EXDEV, EPERM, EOPNOTSUPP, ENOSYS, EMLINK:
        return try publish(part: part, as: destination, policy: policy)
      default: throw .system(error)
      }
    }
    throw .nameTaken(path: destination)
  }

  /// False: another file has the name.
  private static func linkKeepingPart(_ part: String, _ path: String) throws(SystemError) -> Bool {
    do {
      try Syscall.retrying("link", path: path) { unsafe Glibc.link(part, path) }
      return true
    } catch  where error.number == EEXIST {
      let identity = try Files.identity(path: part, followingSymlinks: false)
      return try Files.identity(path: path, followingSymlinks: false).isSameFile(as: identity)
    }
  }

  private static let placingSuffix = ".placing"

  /// Names beside a part file that a placement which was cut short may have left.
  package static func secondNames(_ part: String) -> [String] { [part + placingSuffix] }

  private static func linkOver(_ part: String, _ path: String) throws(SystemError) -> String {
    // Where nothing is to be replaced, one call does it.
    if unsafe Glibc.link(part, path) == 0 { return path }
    let second = part + Self.placingSuffix
    try Files.remove(second)
    try Syscall.retrying("link", path: second) { unsafe Glibc.link(part, second) }
    do {
      try FaultPoint.reach("file.rename")
      try Syscall.retrying("rename", path: path) { unsafe rename(second, path) }
      // rename(2) does nothing when both names are one file already.
      try Files.remove(second)
    } catch {
      _ = unsafe unlink(second)
      throw error
    }
    return path
  }

  /// Where an earlier `publish` with the same arguments put the part whose identity was recorded before it; nil when it
  /// was not published (or replaced since). Moving keeps device and inode; a copy on another filesystem has the same
  /// size and time.
  package static func alreadyPlaced(
    _ identity: FileIdentity, destination: String, policy: Policy
  ) throws(SystemError) -> String? {
    let last = policy == .rename ? candidateLimit : 0
    for number in 0...last {
      let path = candidate(destination, number)
      do {
        let found = try Files.identity(path: path, followingSymlinks: false)
        if found == identity || isCopy(found, of: identity) { return path }
      } catch  where error.number == ENOENT {
        return nil
      }
    }
    return nil
  }

  private static func isCopy(_ found: FileIdentity, of identity: FileIdentity) -> Bool {
    found.device != identity.device && found.sizeBytes == identity.sizeBytes
      && found.modifiedNanoseconds == identity.modifiedNanoseconds
  }

  // MARK: One filesystem

  /// nil: every candidate is taken.
  private static func claim(
    _ part: String, _ identity: FileIdentity, _ destination: String, _ policy: Policy
  ) throws(SystemError) -> String? {
    switch policy {
    case .replace:
      try Syscall.retrying("rename", path: destination) { unsafe rename(part, destination) }
      return destination
    case .noReplace:
      return try moveUnlessTaken(part, identity, destination) ? destination : nil
    case .rename:
      for number in 0...candidateLimit {
        let path = candidate(destination, number)
        if try moveUnlessTaken(part, identity, path) { return path }
      }
      return nil
    }
  }

  /// False: the name is taken.
  private static func moveUnlessTaken(
    _ part: String, _ identity: FileIdentity, _ path: String
  ) throws(SystemError) -> Bool {
    do {
      try Syscall.retrying("renameat2", path: path) { unsafe clinux_rename_noreplace(part, path) }
      return true
    } catch  where error.number == EEXIST {
      return try finishHalfDone(part, identity, path)
    } catch  where error.number == EINVAL || error.number == ENOSYS {
      // The filesystem cannot (NFS, most of FUSE): renameat2(2).
      return try linkUnlessTaken(part, identity, path)
    }
  }

  /// A name that is a link to the part already came from an earlier `linkUnlessTaken` cut short.
  private static func finishHalfDone(
    _ part: String, _ identity: FileIdentity, _ path: String
  ) throws(SystemError) -> Bool {
    let found = try Files.status(path: path, followingSymlinks: false)
    // Two links at least: else both texts name the one link there is, and removing it would lose the file.
    guard FileIdentity(found).isSameFile(as: identity), found.st_nlink > 1 else { return false }
    try Files.remove(part)
    return true
  }

  static func linkUnlessTaken(
    _ part: String, _ identity: FileIdentity, _ path: String
  ) throws(SystemError) -> Bool {
    do {
      try Syscall.retrying("link", path: path) { unsafe Glibc.link(part, path) }
    } catch  where error.number == EEXIST {
      return try finishHalfDone(part, identity, path)
    } catch  where [EPERM, EOPNOTSUPP, ENOSYS, EMLINK].contains(error.number) {
      return try reserveUnlessTaken(part, path)
    }
    try Files.remove(part)
    return true
  }

  /// For filesystems without links as well: an empty file holds the name until the part is renamed over it.
  static func reserveUnlessTaken(_ part: String, _ path: String) throws(SystemError) -> Bool {
    do {
      _ = try Files.createPrivate(path)
    } catch  where error.number == EEXIST {
      return false
    }
    do {
      try Syscall.retrying("rename", path: path) { unsafe rename(part, path) }
    } catch {
      _ = unsafe unlink(path)
      throw error
    }
    return true
  }

  // MARK: Two filesystems

  private static func publishAcross(
    _ part: String, _ destination: String, _ policy: Policy
  ) throws(Refusal) -> String {
    do throws(SystemError) {
      let source = try OwnedDescriptor.open(part, .read, followingSymlinks: false)
      let status = try Files.status(descriptor: source.raw)
      let identity = FileIdentity(status)
      let folder = Files.parent(of: destination)
      // The same name each time, so that what a crash left is found and cleared.
      let hidden = "\(folder)/.ferry-copy-\(identity.device)-\(identity.inode)"
      try Files.remove(hidden)
      let free = try Files.freeBytes(path: folder)
      guard identity.sizeBytes <= free else {
        throw SystemError(ENOSPC, operation: "copy", path: destination, detail: "\(free)")
      }
      do throws(SystemError) {
        let copy = try Files.createPrivate(hidden)
        try Files.copyContent(from: source.raw, to: copy.raw, countBytes: identity.sizeBytes)
        try Syscall.retrying("fchmod", path: hidden) { fchmod(copy.raw, status.st_mode & 0o777) }
        // `alreadyPlaced` knows a copy by its time.
        let times = [status.st_atim, status.st_mtim]
        try Syscall.retrying("futimens", path: hidden) { unsafe futimens(copy.raw, times) }
        try Syscall.retrying("fsync", path: hidden) { fsync(copy.raw) }
        let copied = try Files.identity(descriptor: copy.raw)
        guard let placed = try claim(hidden, copied, destination, policy) else {
          throw SystemError(EEXIST, operation: "publish", path: destination)
        }
        try Files.syncDirectory(folder)
        try Files.remove(part)
        return placed
      } catch {
        _ = unsafe unlink(hidden)
        throw error
      }
    } catch {
      throw refusal(error, part: part, destination: destination, policy)
    }
  }

  private static func refusal(
    _ error: SystemError, part: String, destination: String, _ policy: Policy
  ) -> Refusal {
    switch error.number {
    case EEXIST where policy != .replace:
      return .nameTaken(path: destination)
    case ENOSPC:
      guard let needed = try? Files.identity(path: part).sizeBytes,
        let free = try? Files.freeBytes(path: Files.parent(of: destination))
      else { return .system(error) }
      return .noSpace(path: destination, neededBytes: needed, freeBytes: free)
    default:
      return .system(error)
    }
  }

  // MARK: Names

  /// `path` itself for 0, else with " (number)" before its extension; `.tar.gz` and its like count as one extension.
  static func candidate(_ path: String, _ number: Int) -> String {
    guard number > 0 else { return path }
    let name = Files.lastComponent(of: path)
    let folder = path.dropLast(name.count)
    let (stem, suffix) = split(name)
    let mark = " (\(number))"
    var short = stem
    while !short.isEmpty, short.utf8.count + mark.utf8.count + suffix.utf8.count > nameBytesLimit {
      short.removeLast()
    }
    return folder + short + mark + suffix
  }

  private static func split(_ name: String) -> (stem: String, suffix: String) {
    // A dot at the start makes a hidden file, not an extension.
    guard let dot = name.lastIndex(of: "."), dot != name.startIndex, name.index(after: dot) != name.endIndex else {
      return (name, "")
    }
    let stem = String(name[..<dot])
    let suffix = String(name[dot...])
    if stem.hasSuffix(".tar"), stem.count > 4 { return (String(stem.dropLast(4)), ".tar" + suffix) }
    return (stem, suffix)
  }
}

extension Files {
  /// Copies the first `countBytes` of a file, by position: the descriptors' own offsets, which a client may share, play
  /// no part. ESTALE when the source ends before.
  static func copyContent(
    from source: Int32, to destination: Int32, countBytes: Int64
  ) throws(SystemError) {
    var done: Int64 = 0
    while done < countBytes {
      let count = clinux_copy_range(source, destination, done, Int(clamping: min(countBytes - done, 1 << 30)))
      if count < 0, errno == EINTR { continue }
      if count < 0, [EXDEV, EINVAL, ENOSYS, EOPNOTSUPP, EPERM].contains(errno) { break }
      guard count >= 0 else { throw .current("copy_file_range") }
      // Some filesystems answer 0 for files that have content (copy_file_range(2), BUGS): reading decides.
      if count == 0 { break }
      done += Int64(count)
    }
    guard done < countBytes else { return }
    var buffer = [UInt8](repeating: 0, count: 256 << 10)
    while done < countBytes {
      let count = min(Int64(try Syscall.read(source, into: &buffer, at: done)), countBytes - done)
      guard count > 0 else {
        throw SystemError(ESTALE, operation: "copy", detail: "the file became shorter while it was copied")
      }
      try Syscall.writeAll(destination, buffer.span.extracting(first: Int(count)), at: done)
      done += count
    }
  }
}
