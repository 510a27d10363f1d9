import Glibc

/// What /proc tells of other processes (proc(5)).
package enum ProcessTable {
  /// The environment with which a process was started; nil where it cannot be read: it is gone, or somebody else's.
  package static func environment(of processID: Int32) -> [String: String]? {
    guard processID > 0, let bytes = try? Files.read("/proc/\(processID)/environ", limitBytes: 4 << 20) else {
      return nil
    }
    var values: [String: String] = [:]
    for entry in bytes.split(separator: 0) {
      guard let equals = entry.firstIndex(of: UInt8(ascii: "=")) else { continue }
      let name = String(decoding: entry[..<equals], as: UTF8.self)
      if values[name] == nil { values[name] = String(decoding: entry[(equals + 1)...], as: UTF8.self) }
    }
    return values.isEmpty ? nil : values
  }

  /// Whether a process's standard output is that file.
  package static func writes(_ processID: Int32, to path: String) -> Bool {
    guard let file = try? Files.identity(path: path),
      let output = try? Files.identity(path: "/proc/\(processID)/fd/1")
    else { return false }
    return file.isSameFile(as: output)
  }

  /// All processes, in the order of their ids.
  package static func all() -> [Int32] {
    Files.names(in: "/proc").compactMap { Int32($0) }.sorted()
  }

  /// Ends a process and all that share its process group (kill(2)).
  package static func killGroup(ledBy processID: Int32) {
    guard processID > 1 else { return }
    _ = kill(-processID, SIGKILL)
  }
}

extension Files {
  /// The content of a file that tells what to execute. Refused when it is no regular file, belongs to another user (but
  /// root), or others may write to it.
  package static func readTrusted(_ path: String, limitBytes: Int) throws(SystemError) -> [UInt8] {
    let file = try OwnedDescriptor.open(path, .read)
    let found = try status(descriptor: file.raw)
    guard found.st_mode & S_IFMT == S_IFREG else {
      throw SystemError(EINVAL, operation: "read", path: path, detail: "it is no regular file")
    }
    guard found.st_uid == geteuid() || found.st_uid == 0 else {
      throw SystemError(
        EPERM, operation: "read", path: path, detail: "it is owned by user \(found.st_uid); chown it to yourself")
    }
    guard found.st_mode & 0o022 == 0 else {
      throw SystemError(
        EPERM, operation: "read", path: path,
        detail: "others may write to it (mode \(octal(found.st_mode))); chmod go-w it")
    }
    return try read(path, limitBytes: limitBytes)
  }

  /// The last bytes of a file.
  package static func tail(_ descriptor: Int32, bytes limit: Int) throws(SystemError) -> [UInt8] {
    let size = Int64(try status(descriptor: descriptor).st_size)
    var buffer = [UInt8](repeating: 0, count: Int(min(size, Int64(limit))))
    guard !buffer.isEmpty else { return [] }
    let count = try Syscall.read(descriptor, into: &buffer, at: size - Int64(buffer.count))
    return Array(buffer[..<count])
  }

  /// Writes go to the end of the file, wherever that is by then.
  package static func setAppending(_ descriptor: Int32) throws(SystemError) {
    try Syscall.retrying("fcntl F_SETFL") { fcntl(descriptor, F_SETFL, O_APPEND) }
  }

  package static func isDirectory(_ path: String) -> Bool {
    (try? status(path: path, followingSymlinks: true)).map { $0.st_mode & S_IFMT == S_IFDIR } ?? false
  }

  package static func exists(_ path: String) -> Bool { (try? status(path: path, followingSymlinks: true)) != nil }
}
