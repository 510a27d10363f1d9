import CLinux
import Glibc
package import TransferCore

extension FileIdentity {
  /// The same file, whatever its content.
  package func isSameFile(as other: FileIdentity) -> Bool {
    device == other.device && inode == other.inode
  }

  init(_ status: stat) {
    let (whole, overflow) = Int64(status.st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    self.init(
      device: UInt64(status.st_dev), inode: UInt64(status.st_ino), sizeBytes: Int64(status.st_size),
      modifiedNanoseconds: overflow ? .max : whole &+ Int64(status.st_mtim.tv_nsec))
  }
}

/// File calls. All of them block, and on a dead network mount for ever: run them on a worker.
package enum Files {
  // MARK: Identity

  package static func identity(descriptor: Int32) throws(SystemError) -> FileIdentity {
    FileIdentity(try status(descriptor: descriptor))
  }

  package static func identity(path: String, followingSymlinks: Bool = true) throws(SystemError) -> FileIdentity {
    FileIdentity(try status(path: path, followingSymlinks: followingSymlinks))
  }

  static func status(descriptor: Int32) throws(SystemError) -> stat {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { throw .current("fstat") }
    return status
  }

  static func status(path: String, followingSymlinks: Bool) throws(SystemError) -> stat {
    var status = stat()
    let result = unsafe followingSymlinks ? stat(path, &status) : lstat(path, &status)
    guard result == 0 else { throw .current(followingSymlinks ? "stat" : "lstat", path: path) }
    return status
  }

  /// Whether the file has a name beside this one (a hard link); false where there is no such file.
  package static func hasSecondName(_ path: String) -> Bool {
    guard let status = try? status(path: path, followingSymlinks: false) else { return false }
    return status.st_mode & S_IFMT == S_IFREG && status.st_nlink > 1
  }

  /// Space an ordinary user may still fill, in bytes (statvfs(3), f_bavail).
  package static func freeBytes(path: String) throws(SystemError) -> Int64 {
    var status = statvfs()
    try Syscall.retrying("statvfs", path: path) { unsafe statvfs(path, &status) }
    return bytes(UInt64(status.f_bavail), of: status)
  }

  /// The same of an open file's filesystem.
  package static func freeBytes(descriptor: Int32) throws(SystemError) -> Int64 {
    var status = statvfs()
    try Syscall.retrying("fstatvfs") { unsafe fstatvfs(descriptor, &status) }
    return bytes(UInt64(status.f_bavail), of: status)
  }

  /// What the filesystem holds in all, in bytes.
  package static func capacityBytes(path: String) throws(SystemError) -> Int64 {
    var status = statvfs()
    try Syscall.retrying("statvfs", path: path) { unsafe statvfs(path, &status) }
    return bytes(UInt64(status.f_blocks), of: status)
  }

  private static func bytes(_ blocks: UInt64, of status: statvfs) -> Int64 {
    // One that counts no blocks says nothing of its room.
    guard status.f_blocks > 0 else { return .max }
    let (bytes, overflow) = blocks.multipliedReportingOverflow(by: UInt64(status.f_frsize))
    return overflow ? .max : Int64(clamping: bytes)
  }

  /// The file has so many bytes, and room on the disk for each of them (posix_fallocate(3)).
  package static func allocate(_ descriptor: Int32, bytes: Int64) throws(SystemError) {
    // The number is the result; errno is left alone.
    let number = posix_fallocate(descriptor, 0, off_t(bytes))
    if number != 0 { throw SystemError(number, operation: "posix_fallocate") }
  }

  // MARK: Durability

  /// fdatasync(2): the content and the length are on the disk.
  package static func syncFile(_ descriptor: Int32) throws(SystemError) {
    try Syscall.retrying("fdatasync") { fdatasync(descriptor) }
  }

  /// The directory's entries are on the disk. A filesystem that has no such thing (EINVAL on some network and FUSE
  /// mounts) is taken as it is.
  package static func syncDirectory(_ path: String) throws(SystemError) {
    let directory = try OwnedDescriptor.openDirectory(path)
    do {
      try Syscall.retrying("fsync", path: path) { fsync(directory.raw) }
    } catch  where error.number == EINVAL || error.number == EOPNOTSUPP {
      return
    }
  }

  /// Asks the kernel to begin writing out what is dirty, without waiting: done for a whole batch before the first
  /// `syncFile` (sync_file_range(2)). A hint: a filesystem that does not know it is no error.
  package static func startWriteback(_ descriptor: Int32, offset: Int64 = 0, countBytes: Int64 = 0) {
    _ = clinux_start_writeback(descriptor, offset, countBytes)
  }

  // MARK: Creating and opening

  /// A new file of mode 0600 for reading and writing. EEXIST when anything, a symlink included, has the name.
  package static func createPrivate(_ path: String) throws(SystemError) -> OwnedDescriptor {
    let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
    return try OwnedDescriptor(
      adopting: Syscall.retrying("open", path: path) { unsafe open(path, flags, 0o600) })
  }

  /// Opens `name`, which may have components, inside `directory`: no absolute name, no "..", no symlink on the way
  /// (openat2(2) RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; walked by hand on kernels before 5.6, with the same answers).
  /// With `creating`, the last component is created exclusively with mode 0600.
  package static func openBeneath(
    _ directory: Int32, _ name: String, _ access: OwnedDescriptor.Access, creating: Bool = false
  ) throws(SystemError) -> OwnedDescriptor {
    try checkBeneath(name)
    let flags = access.flags | O_NONBLOCK | O_NOCTTY | (creating ? O_CREAT | O_EXCL : 0)
    do {
      return try OwnedDescriptor(
        adopting: Syscall.retrying("openat2", path: name) {
          unsafe clinux_openat2_beneath(directory, name, flags, 0o600)
        })
    } catch  where error.number == ENOSYS {
      return try walkBeneath(directory, name, flags)
    }
  }

  private static func checkBeneath(_ name: String) throws(SystemError) {
    guard !name.isEmpty else { throw SystemError(ENOENT, operation: "openBeneath", path: name) }
    guard !name.utf8.contains(0) else {
      throw SystemError(EINVAL, operation: "openBeneath", path: name, detail: "the name has a NUL byte")
    }
    guard !name.hasPrefix("/"), !name.split(separator: "/").contains("..") else {
      throw SystemError(EXDEV, operation: "openBeneath", path: name, detail: "the name leaves its directory")
    }
  }

  static func walkBeneath(_ directory: Int32, _ name: String, _ flags: Int32) throws(SystemError) -> OwnedDescriptor {
    var here = try OwnedDescriptor.duplicate(of: directory)
    let components = name.split(separator: "/").filter { $0 != "." }
    guard let last = components.last else { throw SystemError(EISDIR, operation: "openat", path: name) }
    for component in components.dropLast() {
      let parent = here.raw
      here = try OwnedDescriptor(
        adopting: Syscall.retrying("openat", path: name) {
          unsafe openat(parent, String(component), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        })
    }
    let parent = here.raw
    return try OwnedDescriptor(
      adopting: Syscall.retrying("openat", path: name) {
        unsafe openat(parent, String(last), flags | O_NOFOLLOW | O_CLOEXEC, 0o600)
      })
  }

  /// The directory exists afterwards with mode 0700, as do its parents. Refused when it is a symlink, is owned by
  /// somebody else, or others may write in it; what others may merely read is closed to them.
  package static func makePrivateDirectory(_ path: String) throws(SystemError) {
    let operation = "make private directory"
    guard path.hasPrefix("/"), !path.utf8.contains(0) else {
      throw SystemError(EINVAL, operation: operation, path: path, detail: "the path must be absolute")
    }
    var partial = ""
    for component in path.split(separator: "/") {
      partial += "/" + component
      if unsafe mkdir(partial, 0o700) == 0 { continue }
      let number = errno
      // EROFS and EACCES come before EEXIST on directories that exist above ours; the open below tells.
      guard [EEXIST, EROFS, EACCES, EISDIR].contains(number) else {
        throw SystemError(number, operation: operation, path: partial)
      }
    }
    let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
    let raw = unsafe open(path.last == "/" ? partial : path, flags)
    guard raw >= 0 else {
      let number = errno
      let isLink = number == ENOTDIR || number == ELOOP
      throw SystemError(
        number, operation: operation, path: path,
        detail: isLink ? "it is a symbolic link or no directory; remove it or choose another place" : nil)
    }
    let directory = OwnedDescriptor(adopting: raw)
    let found = try status(descriptor: directory.raw)
    guard found.st_uid == geteuid() else {
      throw SystemError(
        EPERM, operation: operation, path: path,
        detail: "it is owned by user \(found.st_uid), not by user \(geteuid()); remove it or choose another place")
    }
    guard found.st_mode & 0o022 == 0 else {
      throw SystemError(
        EPERM, operation: operation, path: path,
        detail: "others may write in it (mode \(octal(found.st_mode))); look at what is there, then chmod 700 it")
    }
    if found.st_mode & 0o7777 != 0o700 {
      try Syscall.retrying("fchmod", path: path) { fchmod(directory.raw, 0o700) }
    }
  }

  static func octal(_ mode: mode_t) -> String {
    String(mode & 0o7777, radix: 8)
  }

  // MARK: Whole files

  /// The content of a small file. EFBIG when it has more than `limitBytes`.
  package static func read(_ path: String, limitBytes: Int) throws(SystemError) -> [UInt8] {
    let file = try OwnedDescriptor.open(path, .read)
    var content: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: min(max(1, limitBytes), 64 << 10))
    while true {
      guard let count = try Syscall.read(file.raw, into: &piece) else {
        throw SystemError(EAGAIN, operation: "read", path: path, detail: "no regular file")
      }
      if count == 0 { return content }
      guard content.count + count <= limitBytes else {
        throw SystemError(EFBIG, operation: "read", path: path, detail: "more than \(limitBytes) bytes")
      }
      content += piece[..<count]
    }
  }

  /// Replaces the file at `path` at once and durably: temporary file beside it, fsync, rename, fsync of the directory.
  /// A crash leaves the old content or the new. Mode 0600.
  package static func atomicWrite(_ path: String, _ bytes: [UInt8]) throws(SystemError) {
    let directory = parent(of: path)
    let temporary = "\(directory)/.\(Clocks.randomHex()).ferry-new"
    do {
      let file = try createPrivate(temporary)
      try Syscall.writeAll(file.raw, bytes)
      try Syscall.retrying("fsync", path: temporary) { fsync(file.raw) }
      try Syscall.retrying("rename", path: path) { unsafe rename(temporary, path) }
    } catch {
      _ = unsafe unlink(temporary)
      throw error
    }
    try syncDirectory(directory)
  }

  /// Removes a file; one that is not there is no error.
  package static func remove(_ path: String) throws(SystemError) {
    do {
      try Syscall.retrying("unlink", path: path) { unsafe unlink(path) }
    } catch  where error.number == ENOENT {
      return
    }
  }

  package static func truncate(_ descriptor: Int32, toBytes count: Int64) throws(SystemError) {
    try Syscall.retrying("ftruncate") { ftruncate(descriptor, Int(count)) }
  }

  // MARK: Folders

  /// Names in a folder but "." and ".."; empty where it cannot be read.
  package static func names(in folder: String) -> [String] {
    guard let stream = unsafe opendir(folder) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      // SAFETY: d_name is ended by NUL within the entry, which lives until the next call.
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  /// The absolute path without symbolic links (realpath(3)); nil where it leads nowhere.
  package static func realPath(_ path: String) -> String? {
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(resolved) }
    return unsafe String(cString: resolved)
  }

  // MARK: Path text

  /// Everything before the last component; "." for a name alone, "/" at the root. Text only.
  package static func parent(of path: String) -> String {
    // By bytes: a character may be many, and this is asked for each file several times.
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  /// The last component. Text only.
  package static func lastComponent(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return path }
    return String(path[path.utf8.index(after: slash)...])
  }
}

extension Clocks {
  /// 16 hexadecimal digits for a name nobody guesses.
  static func randomHex() -> String {
    let digits = String(randomWord(), radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
