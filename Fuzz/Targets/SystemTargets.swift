import LinuxSystem

/// Texts that the system and our own lock file hold.
enum SystemTargets {
  static func mountTable(_ bytes: [UInt8]) throws {
    let map = FilesystemMap(mountinfo: String(decoding: bytes, as: UTF8.self))
    let filesystems = map.filesystems
    for filesystem in filesystems {
      try require(filesystem.mountPoint.hasPrefix("/"), "a mount point that is no absolute path")
      _ = map.filesystem(of: filesystem.mountPoint + "/x")
    }
    for path in ["/", "/a/b", "/a/../b", "relative", "", "/a b"] {
      guard let found = map.filesystem(of: path) else { continue }
      try require(filesystems.contains(found) && path.hasPrefix("/"), "a filesystem from nowhere")
    }
  }

  static func lockRecord(_ bytes: [UInt8]) throws {
    guard let record = InstanceLock.Record(parsing: String(decoding: bytes, as: UTF8.self)) else { return }
    try require(record.processID > 0 && record.socketPath.hasPrefix("/"), "a record of nobody")
    let again = InstanceLock.Record(parsing: "\(record.processID)\n\(record.socketPath)\n")
    try require(again == record, "a record does not survive its writing")
  }
}
