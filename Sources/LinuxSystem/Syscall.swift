import CLinux
import Glibc
import TransferCore

/// Calls into the kernel: `EINTR` is retried, every other refusal is a `SystemError`.
package enum Syscall {
  /// Repeats `call` while it is interrupted. `call` returns -1 and sets errno, as system calls do.
  @discardableResult
  package static func retrying<Result: FixedWidthInteger & SignedInteger>(
    _ operation: String, path: String? = nil, _ call: () -> Result
  ) throws(SystemError) -> Result {
    while true {
      let result = call()
      if result >= 0 { return result }
      let number = errno
      if number != EINTR { throw SystemError(number, operation: operation, path: path) }
    }
  }

  /// As `retrying`, but nil when the descriptor is non-blocking and not ready.
  package static func retryingUnlessBlocked<Result: FixedWidthInteger & SignedInteger>(
    _ operation: String, _ call: () -> Result
  ) throws(SystemError) -> Result? {
    while true {
      let result = call()
      if result >= 0 { return result }
      switch errno {
      case EINTR: continue
      case EAGAIN: return nil
      case let number: throw SystemError(number, operation: operation)
      }
    }
  }

  /// Reads at most `buffer.count` bytes into `buffer`. 0 is the end; nil: nothing there yet (non-blocking).
  package static func read(_ descriptor: Int32, into buffer: inout [UInt8]) throws(SystemError) -> Int? {
    try retryingUnlessBlocked("read") {
      unsafe buffer.withUnsafeMutableBytes { unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }
    }
  }

  /// Writes some of `bytes` and says how many; nil: no room yet (non-blocking).
  package static func write(_ descriptor: Int32, _ bytes: Span<UInt8>) throws(SystemError) -> Int? {
    try retryingUnlessBlocked("write") {
      unsafe bytes.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
    }
  }

  /// Writes all of `bytes` to a blocking descriptor.
  package static func writeAll(_ descriptor: Int32, _ bytes: Span<UInt8>) throws(SystemError) {
    var done = 0
    while done < bytes.count {
      guard let written = try write(descriptor, bytes.extracting(droppingFirst: done)) else {
        throw SystemError(EAGAIN, operation: "write")
      }
      done += written
    }
  }

  package static func writeAll(_ descriptor: Int32, _ bytes: [UInt8]) throws(SystemError) {
    try writeAll(descriptor, bytes.span)
  }

  /// Writes all of `bytes` at `offset` of a file.
  package static func writeAll(_ descriptor: Int32, _ bytes: Span<UInt8>, at offset: Int64) throws(SystemError) {
    try unsafe bytes.withUnsafeBytes { bytes throws(SystemError) in
      try unsafe writeAll(descriptor, bytes, at: offset)
    }
  }

  /// For bytes that a C callback lends.
  package static func writeAll(
    _ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int64
  ) throws(SystemError) {
    var done = 0
    while done < bytes.count {
      // SAFETY: done < count, so base + done stays inside the buffer.
      done += try retrying("pwrite") {
        unsafe pwrite(
          descriptor, bytes.baseAddress.map { unsafe $0 + done }, bytes.count - done, Int(offset) + done)
      }
    }
  }

  /// Reads at `offset` of a file, at most `buffer.count` bytes; 0 is the end of the file.
  package static func read(
    _ descriptor: Int32, into buffer: inout [UInt8], at offset: Int64
  ) throws(SystemError) -> Int {
    try retrying("pread") {
      unsafe buffer.withUnsafeMutableBytes { unsafe pread(descriptor, $0.baseAddress, $0.count, Int(offset)) }
    }
  }

  /// Waits for one descriptor without a loop (client side, tests). `timeoutMilliseconds` nil waits for ever; the empty
  /// set means that the time passed.
  package static func poll(
    _ descriptor: Int32, for interest: EventLoop.Interest, timeoutMilliseconds: Int32?
  ) throws(SystemError) -> EventLoop.Readiness {
    let deadline = timeoutMilliseconds.map { BootInstant.now().advanced(byNanoseconds: Int64($0) * 1_000_000) }
    var entry = pollfd(fd: descriptor, events: Int16(truncatingIfNeeded: interest.epollBits), revents: 0)
    while true {
      var left: Int32 = -1
      if let deadline {
        let nanoseconds = max(0, deadline.nanoseconds - BootInstant.now().nanoseconds)
        left = Int32(clamping: (nanoseconds + 999_999) / 1_000_000)
      }
      let result = unsafe Glibc.poll(&entry, 1, left)
      // An answer, not an error, and it would look like the time that passed.
      if entry.revents & Int16(POLLNVAL) != 0 { throw SystemError(EBADF, operation: "poll") }
      if result >= 0 { return EventLoop.Readiness(epollBits: UInt32(UInt16(bitPattern: entry.revents))) }
      if errno != EINTR { throw .current("poll") }
    }
  }

  package static func setNonblocking(_ descriptor: Int32, _ nonblocking: Bool = true) throws(SystemError) {
    let flags = try retrying("fcntl F_GETFL") { fcntl(descriptor, F_GETFL) }
    let wanted = nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK
    if wanted != flags { try retrying("fcntl F_SETFL") { fcntl(descriptor, F_SETFL, wanted) } }
  }

  package static func setCloseOnExec(_ descriptor: Int32) throws(SystemError) {
    try retrying("fcntl F_SETFD") { fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
  }
}
