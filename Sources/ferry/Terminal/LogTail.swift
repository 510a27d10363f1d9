import Glibc
import LinuxSystem
import TransferCore

/// The end of a log file.
enum LogTail {
  /// The most that is read: the daemon bounds its log, but this program must not depend on it.
  private static let byteLimit = 16 << 20

  /// The last lines, at most `lineCount`, oldest first.
  static func read(_ path: String, lineCount: Int) throws(CommandFailure) -> [String] {
    do {
      let file = try OwnedDescriptor.open(path, .read)
      let size = Int(try Files.identity(descriptor: file.raw).sizeBytes)
      var offset = size
      var bytes: [UInt8] = []
      // Backwards in chunks, until there are enough line ends.
      while offset > 0, bytes.count < byteLimit, bytes.count(where: { $0 == 0x0A }) <= lineCount {
        let count = min(256 * 1024, offset)
        offset -= count
        var chunk = [UInt8](repeating: 0, count: count)
        let got = try Syscall.read(file.raw, into: &chunk, at: Int64(offset))
        bytes = chunk.prefix(got) + bytes
      }
      return lastLines(bytes, lineCount: lineCount)
    } catch {
      guard error.number == ENOENT else { throw CommandFailure(.failure, "\(error)") }
      throw CommandFailure(.failure, "There is no log at \(path): ferryd has not run with this state directory.")
    }
  }

  static func lastLines(_ bytes: [UInt8], lineCount: Int) -> [String] {
    let whole = bytes.last == 0x0A ? bytes.dropLast() : bytes[...]
    guard !whole.isEmpty else { return [] }
    return whole.split(separator: 0x0A, omittingEmptySubsequences: false).suffix(lineCount)
      .map { String(decoding: $0, as: UTF8.self) }
  }
}

enum Pause {
  static func milliseconds(_ count: Int32) {
    _ = poll(nil, 0, count)
  }
}
