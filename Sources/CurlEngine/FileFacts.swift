import Glibc
import TransferCore

/// What the kernel says of a file.
enum FileFacts {
  static func isReadable(_ path: String) -> Bool { unsafe access(path, R_OK) == 0 }

  /// Nil when the descriptor cannot be examined; `errno` says why.
  static func identity(of descriptor: Int32) -> FileIdentity? {
    var facts = stat()
    guard unsafe fstat(descriptor, &facts) == 0 else { return nil }
    let nanoseconds = Int64(facts.st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000).partialValue
    return FileIdentity(
      device: UInt64(facts.st_dev), inode: UInt64(facts.st_ino), sizeBytes: Int64(facts.st_size),
      modifiedNanoseconds: nanoseconds.addingClamped(Int64(facts.st_mtim.tv_nsec)))
  }
}

/// The clock that also counts suspended time.
enum BootClock {
  static var now: BootInstant {
    var time = timespec()
    unsafe clock_gettime(CLOCK_BOOTTIME, &time)
    return BootInstant(nanoseconds: Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec))
  }
}
