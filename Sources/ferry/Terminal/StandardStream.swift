import Glibc
import LinuxSystem

/// Standard output and standard error, unbuffered: what was written is out even when the next line ends the process.
enum StandardStream: Int32, Sendable {
  case output = 1
  case error = 2

  var isTerminal: Bool { isatty(rawValue) == 1 }

  /// Columns of the terminal; 80 where it does not say.
  var columns: Int {
    var size = winsize()
    guard unsafe ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }

  func write(_ text: String) throws(CommandFailure) {
    try write(bytes: Array(text.utf8))
  }

  func write(bytes: [UInt8]) throws(CommandFailure) {
    do {
      try Syscall.writeAll(rawValue, bytes)
    } catch {
      // A reader that went away (`ferry list | head`) needs no words; the exit code still says that not all came out.
      throw CommandFailure(.failure, error.number == EPIPE ? "" : "Cannot write the output: \(error)")
    }
  }

  func writeLine(_ text: String) throws(CommandFailure) {
    try write(text + "\n")
  }

  /// A path on a line: as it is for a program that reads it, escaped for a terminal.
  func writePath(_ path: String) throws(CommandFailure) {
    try writeLine(isTerminal ? TerminalText.escaped(path) : path)
  }
}

/// Messages for the person, on standard error. A message that cannot be written is lost, and nothing else.
enum Notice {
  static func say(_ text: String) {
    // Each line by itself: the line breaks are ours, all else may come from outside.
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      try? StandardStream.error.writeLine(TerminalText.escaped(String(line)))
    }
  }

  static func failure(_ failure: CommandFailure) {
    if !failure.message.isEmpty { say("ferry: \(failure.message)") }
  }
}
