import Glibc

/// A moment as HTTP writes it, to the second: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
public struct HTTPDate: Sendable, Hashable, CustomStringConvertible {
  /// Seconds since 1970-01-01 00:00:00 UTC.
  public let secondsSinceEpoch: Int

  /// The moment `secondsSinceEpoch` after the beginning of 1970; clamped to the years 1 to 9999.
  public init(secondsSinceEpoch: Int) {
    self.secondsSinceEpoch = min(max(secondsSinceEpoch, -62_135_596_800), 253_402_300_799)
  }

  /// The moment on the wall clock now.
  public static var now: HTTPDate { HTTPDate(secondsSinceEpoch: time(nil)) }

  /// This many seconds before now.
  public static func ago(seconds: Int) -> HTTPDate {
    HTTPDate(secondsSinceEpoch: now.secondsSinceEpoch.subtractingReportingOverflow(seconds).partialValue)
  }

  /// The IMF-fixdate form.
  public var description: String {
    let days = Int((Double(secondsSinceEpoch) / 86_400).rounded(.down))
    let second = secondsSinceEpoch - days * 86_400
    let (year, month, day) = Self.civil(daysSinceEpoch: days)
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7 + 7) % 7]
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    let clock = "\(padded(second / 3600, 2)):\(padded(second / 60 % 60, 2)):\(padded(second % 60, 2))"
    return "\(weekday), \(padded(day, 2)) \(months[month - 1]) \(padded(year, 4)) \(clock) GMT"
  }

  private func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }

  // Howard Hinnant, "chrono-compatible low-level date algorithms": civil_from_days.
  private static func civil(daysSinceEpoch: Int) -> (year: Int, month: Int, day: Int) {
    let shifted = daysSinceEpoch + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let monthFromMarch = (5 * dayOfYear + 2) / 153
    let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
  }
}
