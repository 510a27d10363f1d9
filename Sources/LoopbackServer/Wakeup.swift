import Glibc

/// A pipe that makes a thread blocked in poll(2) look around.
final class Wakeup: Sendable {
  let readEnd: Int32
  private let writeEnd: Int32

  /// Nil when the process has no descriptor left.
  init?() {
    var ends: [Int32] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { return nil }
    readEnd = ends[0]
    writeEnd = ends[1]
    for end in ends {
      _ = fcntl(end, F_SETFD, FD_CLOEXEC)
      _ = fcntl(end, F_SETFL, O_NONBLOCK)
    }
  }

  deinit {
    close(readEnd)
    close(writeEnd)
  }

  /// Never blocks: a full pipe is already a signal.
  func signal() {
    var byte: UInt8 = 1
    _ = unsafe write(writeEnd, &byte, 1)
  }

  func drain() {
    var scrap = [UInt8](repeating: 0, count: 64)
    while unsafe read(readEnd, &scrap, scrap.count) > 0 {}
  }
}
