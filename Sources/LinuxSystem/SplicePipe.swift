import CLinux
import Glibc

/// A pipe through which bytes go from a socket to a file within the kernel (splice(2)): they are copied once, and never
/// stand in this process.
package final class SplicePipe {
  /// What its pages hold at most, where the system allows that much.
  package static let bytes = 1 << 20

  private let readEnd: OwnedDescriptor
  private let writeEnd: OwnedDescriptor

  package init() throws(SystemError) {
    var ends: (Int32, Int32) = (-1, -1)
    try Syscall.retrying("pipe2") { unsafe clinux_pipe(&ends.0, &ends.1) }
    readEnd = OwnedDescriptor(adopting: ends.0)
    writeEnd = OwnedDescriptor(adopting: ends.1)
    // Refused where the user's pipes have their share of memory already (pipe(7)): a small one takes more calls.
    _ = clinux_pipe_resize(writeEnd.raw, Int32(Self.bytes))
  }

  /// Takes up to `limit` bytes that wait in a socket. Returns how many, and the error number that prevented it:
  /// `EAGAIN` when none wait; 0 bytes without an error at the end of the stream.
  package func fill(from socket: Int32, atMost limit: Int64) -> (count: Int, error: Int32) {
    move { clinux_splice(socket, writeEnd.raw, -1, Int(min(limit, Int64(Self.bytes)))) }
  }

  /// Puts up to `count` of its bytes into a file, at an offset in bytes. Returns how many, and the error number that
  /// prevented it: `EINVAL` where the filesystem cannot splice.
  package func empty(into file: Int32, at offset: Int64, _ count: Int) -> (count: Int, error: Int32) {
    move { clinux_splice(readEnd.raw, file, offset, count) }
  }

  /// Takes up to `count` of its bytes out, for a file that they cannot be spliced to.
  package func take(_ count: Int) -> [UInt8] {
    unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, taken in
      // SAFETY: the buffer holds `count` bytes.
      taken = move { unsafe read(readEnd.raw, buffer.baseAddress, count) }.count
    }
  }

  private func move(_ call: () -> Int) -> (count: Int, error: Int32) {
    while true {
      let count = call()
      if count >= 0 { return (count, 0) }
      if errno != EINTR { return (0, errno) }
    }
  }
}
