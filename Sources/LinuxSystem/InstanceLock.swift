import CLinux
import Glibc

/// One daemon per state directory: whoever holds the lock on the file is it, and the file says how to reach it.
///
/// An open-file-description lock (fcntl(2), F_OFD_SETLK), which dies with its holder like flock(2)'s, works on NFS, and
/// can be looked at without being taken: a client that asks never makes a starting daemon fail.
package struct InstanceLock: ~Copyable, Sendable {
  /// What the file says of its holder. First line the process id, second the socket's path.
  package struct Record: Hashable, Sendable {
    package let processID: Int32
    package let socketPath: String

    package init(processID: Int32, socketPath: String) {
      self.processID = processID
      self.socketPath = socketPath
    }

    /// Nil unless the text is a whole record.
    package init?(parsing text: String) {
      let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
      // The newline after the path says that the record is whole.
      guard lines.count >= 3, let processID = Int32(lines[0]), processID > 0, lines[1].hasPrefix("/") else {
        return nil
      }
      self.init(processID: processID, socketPath: String(lines[1]))
    }
  }

  private let file: OwnedDescriptor
  private let path: String

  /// Takes the lock, creating the file (mode 0600) when there is none; nil when another holds it. Held until the value
  /// goes or the process ends; children do not inherit it.
  package static func acquire(_ path: String) throws(SystemError) -> InstanceLock? {
    // Somebody may remove or replace the file between open and lock; then what we locked is not what others will open.
    for _ in 0..<16 {
      let flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC
      let file = OwnedDescriptor(
        adopting: try Syscall.retrying("open", path: path) { unsafe open(path, flags, 0o600) })
      do {
        try Syscall.retrying("fcntl F_OFD_SETLK", path: path) { clinux_lock_take(file.raw) }
      } catch  where error.number == EAGAIN || error.number == EACCES {
        return nil
      }
      let locked = try Files.identity(descriptor: file.raw)
      do {
        let named = try Files.identity(path: path, followingSymlinks: false)
        if named.isSameFile(as: locked) { return InstanceLock(file: file, path: path) }
      } catch  where error.number == ENOENT {
        continue
      }
    }
    throw SystemError(EBUSY, operation: "lock", path: path, detail: "the file is being replaced again and again")
  }

  private init(file: consuming OwnedDescriptor, path: String) {
    self.file = file
    self.path = path
  }

  deinit {
    // Closing alone would leave the lock to a child that is between fork and exec just now.
    _ = clinux_lock_drop(file.raw)
  }

  /// Tells clients how to reach the holder.
  package func write(_ record: Record) throws(SystemError) {
    guard record.socketPath.hasPrefix("/"), !record.socketPath.contains("\n") else {
      throw SystemError(EINVAL, operation: "write", path: path, detail: "the socket's path must be absolute, one line")
    }
    let bytes = Array("\(record.processID)\n\(record.socketPath)\n".utf8)
    // Write, then cut: a reader sees the old record, the new one, or the new one and a tail that it ignores.
    try Syscall.writeAll(file.raw, bytes.span, at: 0)
    try Files.truncate(file.raw, toBytes: Int64(bytes.count))
  }

  /// What the file says; nil when there is no file, or no whole record in it. It may be the record of a dead holder.
  package static func read(_ path: String) throws(SystemError) -> Record? {
    do {
      return Record(parsing: String(decoding: try Files.read(path, limitBytes: 16 << 10), as: UTF8.self))
    } catch  where error.number == ENOENT || error.number == ENOTDIR {
      return nil
    }
  }

  /// Whether a living process holds the lock.
  package static func isHeld(_ path: String) throws(SystemError) -> Bool {
    do {
      let file = try OwnedDescriptor.open(path, .read)
      return try Syscall.retrying("fcntl F_OFD_GETLK", path: path) { clinux_lock_query(file.raw) } == 1
    } catch  where error.number == ENOENT || error.number == ENOTDIR {
      return false
    }
  }
}
