import LinuxSystem
import TransferCore

/// One line on a terminal, drawn over again and again and gone at the end. Without a terminal it does nothing.
///
/// Only carriage returns and spaces are used, so it works on every terminal.
struct ProgressLine {
  /// At most ten drawings a second: more is not seen, and costs the terminal time.
  private static let intervalNanoseconds: Int64 = 100_000_000
  let isShown: Bool
  private var drawn = ""
  private var drawnAt: BootInstant?

  init(isShown: Bool = StandardStream.error.isTerminal) {
    self.isShown = isShown
  }

  /// When the next drawing may happen; nil when it may at once.
  var nextDrawing: BootInstant? {
    guard isShown, let drawnAt else { return nil }
    let next = drawnAt.advanced(byNanoseconds: Self.intervalNanoseconds)
    return next > .now() ? next : nil
  }

  /// Draws what `text` makes for the present width, unless the last drawing was a moment ago.
  mutating func draw(_ text: (_ columns: Int) -> String) {
    guard isShown, nextDrawing == nil else { return }
    // The last column stays free: writing there wraps on some terminals.
    let line = text(StandardStream.error.columns - 1)
    drawnAt = .now()
    guard line != drawn else { return }
    put(line)
    drawn = line
  }

  mutating func erase() {
    guard isShown, !drawn.isEmpty else { return }
    put("")
    drawn = ""
    drawnAt = nil
  }

  private func put(_ line: String) {
    let rest = max(0, TerminalText.columns(drawn) - TerminalText.columns(line))
    let blank = String(repeating: " ", count: rest)
    let back = line.isEmpty ? "\r" : ""
    try? StandardStream.error.write("\r\(line)\(blank)\(back)")
  }
}
