import Glibc
import LinuxSystem
import Synchronization

/// A descriptor that the loop and calls in flight on a worker hold together; closed when the last of them lets go, so
/// that no late call can meet another file under the same number.
final class SharedDescriptor: Sendable {
  let number: Int32
  /// The first error of a call on a worker. Later queued calls see it and do nothing, so that no hole is written.
  private let firstError = Atomic<Int32>(0)

  private let keptRoom: KeptRoom?

  init(_ number: Int32, leaving keptRoom: KeptRoom? = nil) {
    self.number = number
    self.keptRoom = keptRoom
  }

  deinit {
    if number >= 0 { _ = close(number) }
  }

  var error: Int32 { firstError.load(ordering: .acquiring) }

  func fail(_ error: Int32) {
    _ = firstError.compareExchange(expected: 0, desired: error, ordering: .acquiringAndReleasing)
  }

  /// Writes all bytes at an offset. Returns how many were written, and the error number that stopped it (0: none).
  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) -> (written: Int, error: Int32) {
    let error = refusal(of: bytes.count)
    guard error == 0 else { return (0, error) }
    var done = 0
    while done < bytes.count {
      // SAFETY: the range [done, count) lies within the buffer, which the caller keeps alive.
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[done...])
      let count = unsafe pwrite(number, rest.baseAddress, rest.count, off_t(offset) + off_t(done))
      if count > 0 {
        done += count
      } else if count == 0 {
        return (done, EIO)
      } else if errno != EINTR {
        return (done, errno)
      }
    }
    return (done, 0)
  }

  /// The same with the `count` bytes that a pipe holds. After an error some of them may still be in it.
  func write(_ pipe: SplicePipe, _ count: Int, at offset: Int64) -> (written: Int, error: Int32) {
    let error = refusal(of: count)
    guard error == 0 else { return (0, error) }
    var done = 0
    while done < count {
      let (moved, error) = pipe.empty(into: number, at: offset + Int64(done), count - done)
      if error == EINVAL {
        let (written, error) = unsafe pipe.take(count - done).withUnsafeBytes {
          unsafe write($0, at: offset + Int64(done))
        }
        return (done + written, error == 0 && done + written < count ? EIO : error)
      }
      guard moved > 0 else { return (done, error == 0 ? EIO : error) }
      done += moved
    }
    return (done, 0)
  }

  /// Why so many bytes may not be written, before they are; 0 when they may.
  private func refusal(of count: Int) -> Int32 {
    do throws(SystemError) { try FaultPoint.reach("part.write") } catch { return error.number }
    if let keptRoom, !keptRoom.admits(count, to: number) { return ENOSPC }
    return 0
  }

  /// Reads up to the buffer's size at an offset; `count` is 0 at the end of the file.
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> (count: Int, error: Int32) {
    while true {
      // SAFETY: base address and count are of one buffer, which the caller keeps alive.
      let count = unsafe pread(number, buffer.baseAddress, buffer.count, off_t(offset))
      if count >= 0 { return (count, 0) }
      if errno != EINTR { return (0, errno) }
    }
  }

  /// Returns the error number, 0 on success.
  func truncate(to size: Int64) -> Int32 {
    while ftruncate(number, off_t(size)) != 0 {
      if errno != EINTR { return errno }
    }
    return 0
  }

  /// Returns the error number, 0 on success.
  func sync() -> Int32 {
    do throws(SystemError) { try FaultPoint.reach("part.fsync") } catch { return error.number }
    while fdatasync(number) != 0 {
      if errno != EINTR { return errno }
    }
    return 0
  }
}
