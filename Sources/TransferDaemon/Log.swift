import Glibc
import LinuxSystem
import TransferCore

/// The daemon's log: level, subject and cause a line, never a secret. Under systemd it goes to the journal by standard
/// error (sd-daemon(3) level prefixes), in the foreground to the terminal, else to a bounded file.
final class Log {
  enum Level: Int, Comparable {
    case error = 3
    case warning = 4
    case notice = 5
    case info = 6

    static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

    var word: String {
      switch self {
      case .error: "error"
      case .warning: "warning"
      case .notice: "notice"
      case .info: "info"
      }
    }
  }

  private enum Sink {
    case journal
    case terminal
    case file(path: String)
  }

  /// A file of this size is set aside as `NAME.1`, and a new one begun: two such files at most.
  private static let fileBytes: Int64 = 1 << 20

  private let sink: Sink
  private var descriptor: Int32 = -1
  private var written: Int64 = 0

  init(path: String, isForeground: Bool, environment: [String: String]) {
    if environment["JOURNAL_STREAM"] != nil {
      sink = .journal
    } else if isForeground {
      sink = .terminal
    } else {
      sink = .file(path: path)
      openFile(path)
    }
  }

  func write(_ level: Level, _ text: String) {
    // One entry is one line, whatever a server or a path put into it.
    let clean = String(
      String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? "\u{FFFD}" : $0 }))
    switch sink {
    case .journal: put("<\(level.rawValue)>\(clean)\n", on: STDERR_FILENO)
    case .terminal: put("ferryd: \(level.word): \(clean)\n", on: STDERR_FILENO)
    case .file(let path):
      let line = "\(Self.timestamp()) \(level.word): \(clean)\n"
      if written + Int64(line.utf8.count) > Self.fileBytes { turnOver(path) }
      put(line, on: descriptor)
      written += Int64(line.utf8.count)
    }
  }

  private func put(_ line: String, on descriptor: Int32) {
    guard descriptor >= 0 else { return }
    // A full disk must not end the daemon: a line that cannot be written is lost.
    try? Syscall.writeAll(descriptor, Array(line.utf8))
  }

  private func openFile(_ path: String) {
    descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
    written = (try? Files.identity(path: path))?.sizeBytes ?? 0
  }

  private func turnOver(_ path: String) {
    if descriptor >= 0 { close(descriptor) }
    _ = unsafe rename(path, path + ".1")
    openFile(path)
  }

  /// "2026-11-30T05:04:09Z"
  private static func timestamp() -> String {
    var seconds = time_t(Clocks.wallSeconds())
    var parts = unsafe tm()
    var text = [CChar](repeating: 0, count: 32)
    guard unsafe gmtime_r(&seconds, &parts) != nil else { return "?" }
    let count = unsafe strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
    return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
