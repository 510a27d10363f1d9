import Glibc

/// One mounted filesystem.
package struct Filesystem: Hashable, Sendable {
  package let mountID: Int32
  package let mountPoint: String
  /// `8:1`. The same of all mounts of one filesystem.
  package let device: String
  /// As the kernel names it: `ext4`, `nfs4`, `fuse.sshfs`.
  package let type: String

  /// Whether its file calls end in bounded time as long as the machine is well. Only types known to be so are: a type
  /// nobody has heard of gets a worker of its own, which costs a thread; the opposite mistake costs the daemon.
  package var isLocal: Bool { Self.localTypes.contains(type) }

  private static let localTypes: Set<String> = [
    "bcachefs", "btrfs", "cramfs", "devtmpfs", "ecryptfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs",
    "hfsplus", "hugetlbfs", "iso9660", "jfs", "minix", "msdos", "nilfs2", "ntfs", "ntfs3", "overlay", "ramfs",
    "reiserfs", "rootfs", "squashfs", "tmpfs", "ubifs", "udf", "ufs", "vfat", "xfs", "zfs",
    "cgroup", "cgroup2", "debugfs", "devpts", "mqueue", "proc", "securityfs", "sysfs", "tracefs",
  ]
}

/// Which filesystem a path is on, told from the mount table and the path's text alone: a dead network mount hangs
/// whoever touches it, so the path is never touched. Symlinks are therefore not followed; resolve paths when a task is
/// created.
package struct FilesystemMap: Sendable {
  private struct Mount {
    let filesystem: Filesystem
    let parentID: Int32
    let components: [Substring]
  }

  private let mounts: [Mount]
  private let root: Mount?

  /// The mounts of this process's namespace (proc_pid_mountinfo(5)).
  package static func current() throws(SystemError) -> FilesystemMap {
    let bytes = try Files.read("/proc/self/mountinfo", limitBytes: 16 << 20)
    return FilesystemMap(mountinfo: String(decoding: bytes, as: UTF8.self))
  }

  /// A descriptor that reports `.priority` and `.error` each time the mount table has changed.
  package static func openChangeWatch() throws(SystemError) -> OwnedDescriptor {
    try OwnedDescriptor.open("/proc/self/mountinfo", .read)
  }

  /// Parses the text of a mountinfo file. Lines that are none are left out.
  package init(mountinfo: String) {
    let mounts = mountinfo.split(separator: "\n").compactMap { Self.parse($0) }
    let identifiers = Set(mounts.map(\.filesystem.mountID))
    // The root's parent lies outside of what this process sees.
    root =
      mounts.first { $0.components.isEmpty && !identifiers.contains($0.parentID) }
      ?? mounts.first { $0.components.isEmpty }
    self.mounts = mounts
  }

  package var filesystems: [Filesystem] { mounts.map(\.filesystem) }

  /// The filesystem that would answer for `path`; nil for a relative path or an empty table.
  ///
  /// Walks the tree of mounts as the kernel walks the path: at each step the nearest mount upon the present one. That
  /// is the longest prefix, except where a mount has since covered others.
  package func filesystem(of path: String) -> Filesystem? {
    guard path.hasPrefix("/") else { return nil }
    let wanted = Self.components(of: path)
    guard var here = root else { return longestPrefix(of: wanted)?.filesystem }
    // Each step goes to a child; a table that is a tree has fewer steps than mounts.
    for _ in mounts.indices {
      var next: Mount?
      for mount in mounts
      where mount.parentID == here.filesystem.mountID && mount.filesystem.mountID != here.filesystem.mountID
        && wanted.starts(with: mount.components)
        && mount.components.count <= next?.components.count ?? .max
      {
        next = mount
      }
      guard let next else { break }
      here = next
    }
    return here.filesystem
  }

  private func longestPrefix(of wanted: [Substring]) -> Mount? {
    var best: Mount?
    for mount in mounts where wanted.starts(with: mount.components) {
      if mount.components.count >= best?.components.count ?? 0 { best = mount }
    }
    return best
  }

  /// Components with "", "." and ".." taken out, as text.
  private static func components(of path: String) -> [Substring] {
    var result: [Substring] = []
    for part in path.split(separator: "/") {
      switch part {
      case ".": continue
      case "..": _ = result.popLast()
      default: result.append(part)
      }
    }
    return result
  }

  /// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
  private static func parse(_ line: Substring) -> Mount? {
    let fields = line.split(separator: " ")
    guard fields.count >= 7, let mountID = Int32(fields[0]), let parentID = Int32(fields[1]),
      let separator = fields[6...].firstIndex(of: "-"), separator + 1 < fields.count
    else { return nil }
    let mountPoint = unescape(fields[4])
    guard mountPoint.hasPrefix("/") else { return nil }
    return Mount(
      filesystem: Filesystem(
        mountID: mountID, mountPoint: mountPoint, device: String(fields[2]), type: unescape(fields[separator + 1])),
      parentID: parentID, components: components(of: mountPoint))
  }

  /// Space, tab, newline and backslash stand as a backslash and three octal digits.
  static func unescape(_ field: Substring) -> String {
    guard field.contains("\\") else { return String(field) }
    let source = Array(field.utf8)
    var bytes: [UInt8] = []
    var index = 0
    while index < source.count {
      if source[index] == UInt8(ascii: "\\"), index + 3 < source.count,
        let text = String(validating: source[(index + 1)...(index + 3)], as: UTF8.self),
        let value = UInt8(text, radix: 8)
      {
        bytes.append(value)
        index += 4
      } else {
        bytes.append(source[index])
        index += 1
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
