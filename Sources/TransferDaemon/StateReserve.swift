import Glibc
import LinuxSystem
import TransferCore

/// A file that takes room beside the database. Where the disk is full it is given up, so that the end of a task, which
/// frees room, can always be stored; it is made again when there is room for it.
///
/// On a filesystem that keeps a file of zeros in no room (by compression, say) there is nothing to give up.
struct StateReserve {
  private let path: String
  let sizeBytes: Int64
  /// The room is there.
  private(set) var isHeld = false

  /// Twice the length of SQLite's log: of a commit, and of the pages that are written back.
  private static let mostBytes: Int64 = 8 << 20

  /// - Parameter folder: exists. On a small filesystem it is a sixteenth.
  init(in folder: String) {
    path = folder + "/ferry.reserve"
    let capacity = (try? Files.capacityBytes(path: folder)) ?? .max
    sizeBytes = min(Self.mostBytes, capacity / 16)
  }

  /// - Returns: false where there was nothing to give up.
  mutating func release() -> Bool {
    isHeld = false
    guard (try? Files.identity(path: path, followingSymlinks: false)) != nil else { return false }
    return (try? Files.remove(path)) != nil
  }

  /// Takes the room, where as much again is left: else the next write would be what it is given up for.
  mutating func hold() {
    guard !isHeld else { return }
    let held = (try? Files.identity(path: path, followingSymlinks: false).sizeBytes) ?? 0
    if held == sizeBytes {
      isHeld = true
      return
    }
    guard let free = try? Files.freeBytes(path: Files.parent(of: path)), free >= 2 * sizeBytes else { return }
    do throws(SystemError) {
      try Files.remove(path)
      let file = try Files.createPrivate(path)
      try Files.allocate(file.raw, bytes: sizeBytes)
      isHeld = true
    } catch {
      try? Files.remove(path)
      // Where nothing can be set aside, nothing is waited for.
      isHeld = error.number != ENOSPC && error.number != EDQUOT
    }
  }
}
