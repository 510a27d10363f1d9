/// How amounts are written for people: short, with a unit, no more digits than the eye needs.
enum Quantity {
  /// "999 B", "1.00 kB", "12.3 MB", "456 GB": decimal units (1 kB = 1000 bytes), three significant digits.
  static func bytes(_ count: Int64) -> String {
    guard count >= 1000 else { return "\(max(0, count)) B" }
    let units = ["kB", "MB", "GB", "TB", "PB", "EB"]
    var index = 0
    // Hundredths of the unit, so that rounding is exact.
    var divisor: Int64 = 1000
    while index < units.count - 1, count / divisor >= 1000 {
      divisor *= 1000
      index += 1
    }
    let step = divisor / 1000
    // Thousandths of the unit, rounded down to the digits shown; a transfer never looks more complete than it is.
    let thousandths = count / step
    return "\(threeDigits(thousandths)) \(units[index])"
  }

  /// "3.20 MB/s"; the argument is in bytes a second.
  static func rate(_ bytesPerSecond: Double) -> String {
    "\(bytes(whole(bytesPerSecond)))/s"
  }

  /// "8 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
  static func time(seconds: Double) -> String {
    let total = whole(seconds)
    let (minutes, hours, days) = (total / 60, total / 3600, total / 86_400)
    func pair(_ large: Int64, _ largeUnit: String, _ small: Int64, _ smallUnit: String) -> String {
      small == 0 ? "\(large) \(largeUnit)" : "\(large) \(largeUnit) \(small) \(smallUnit)"
    }
    if days > 0 { return pair(days, "d", hours % 24, "h") }
    if hours > 0 { return pair(hours, "h", minutes % 60, "min") }
    if minutes > 0 { return pair(minutes, "min", total % 60, "s") }
    return "\(total) s"
  }

  /// 0 … 100, rounded down; nil where the whole is unknown or smaller than the part.
  static func percent(_ part: Int64, of whole: Int64?) -> Int? {
    guard let whole, whole >= 0, part >= 0, part <= whole else { return nil }
    return whole == 0 ? 100 : Int(Double(part) / Double(whole) * 100)
  }

  /// Any number as a count that can be printed: no trap on infinity, and what is no number is 0.
  private static func whole(_ value: Double) -> Int64 {
    guard value > 0 else { return 0 }
    return value < 9.0e18 ? Int64(value.rounded()) : .max
  }

  private static func threeDigits(_ thousandths: Int64) -> String {
    let (units, rest) = (thousandths / 1000, thousandths % 1000)
    func padded(_ value: Int64, _ width: Int) -> String {
      let digits = String(value)
      return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    switch units {
    case ..<10: return "\(units).\(padded(rest / 10, 2))"
    case ..<100: return "\(units).\(rest / 100)"
    default: return "\(units)"
    }
  }
}

/// The speed of a transfer over the last few seconds: old enough to be calm, young enough to be true.
struct RateMeter: Sendable {
  private struct Sample {
    var seconds: Double
    var bytes: Int64
  }
  private static let windowSeconds = 5.0
  /// At 10 samples a second the window holds about 50.
  private static let sampleCount = 64
  private var samples: [Sample] = []

  init() {}

  /// Tells the count of bytes at a moment; a count that went down (a restart) begins afresh.
  mutating func record(bytes: Int64, atSeconds seconds: Double) {
    if let last = samples.last, bytes < last.bytes || seconds < last.seconds { samples.removeAll() }
    samples.append(Sample(seconds: seconds, bytes: bytes))
    // One sample older than the window stays, so that the window is always covered.
    while samples.count > 2, seconds - samples[1].seconds >= Self.windowSeconds { samples.removeFirst() }
    if samples.count > Self.sampleCount { samples.remove(at: 1) }
  }

  /// Bytes a second; nil before half a second was seen.
  var bytesPerSecond: Double? {
    guard let first = samples.first, let last = samples.last, last.seconds - first.seconds >= 0.5 else { return nil }
    return Double(last.bytes - first.bytes) / (last.seconds - first.seconds)
  }
}
