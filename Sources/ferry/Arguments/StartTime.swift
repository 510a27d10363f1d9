import Glibc

/// The moment of `--after`, in the zone of this process.
enum StartTime {
  static let forms = "HH:MM, YYYY-MM-DD, \"YYYY-MM-DD HH:MM\", or a time from now such as 30s, 15m, 2h or 1d"

  /// Milliseconds since 1970.
  static func milliseconds(_ text: String, wallMilliseconds now: Int64) throws(CommandFailure) -> Int64 {
    if let span = span(text) { return now + span }
    let parts = text.split(maxSplits: 1) { $0 == "T" || $0 == " " }.map(String.init)
    var date: (year: Int32, month: Int32, day: Int32)?
    var clock: (hour: Int32, minute: Int32)? = (0, 0)
    switch parts.count {
    case 1 where text.contains(":"):
      clock = time(parts[0])
      date = today(now)
    case 1: date = day(parts[0])
    case 2:
      date = day(parts[0])
      clock = time(parts[1])
    default: date = nil
    }
    guard let date, let clock, let moment = moment(date, clock) else {
      throw .usage("--after takes \(forms), not \"\(text)\".")
    }
    // A time of the day that is over is tomorrow's.
    if parts.count == 1, text.contains(":"), moment <= now {
      return Self.moment((date.year, date.month, date.day + 1), clock) ?? moment
    }
    return moment
  }

  private static func span(_ text: String) -> Int64? {
    let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
    guard let last = text.last, let unit = units[last], let count = number(text.dropLast(), digits: 1...7) else {
      return nil
    }
    return Int64(count) * unit * 1000
  }

  private static func day(_ text: String) -> (year: Int32, month: Int32, day: Int32)? {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count == 3, let year = number(parts[0], digits: 4...4), let month = number(parts[1], digits: 1...2),
      let day = number(parts[2], digits: 1...2), (1...12).contains(month), (1...31).contains(day)
    else { return nil }
    return (year, month, day)
  }

  private static func time(_ text: String) -> (hour: Int32, minute: Int32)? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, let hour = number(parts[0], digits: 1...2), let minute = number(parts[1], digits: 2...2),
      hour < 24, minute < 60
    else { return nil }
    return (hour, minute)
  }

  private static func number(_ text: Substring, digits: ClosedRange<Int>) -> Int32? {
    guard digits.contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int32(text)
  }

  private static func today(_ now: Int64) -> (year: Int32, month: Int32, day: Int32)? {
    var seconds = time_t(now / 1000)
    var parts = unsafe tm()
    guard unsafe localtime_r(&seconds, &parts) != nil else { return nil }
    return unsafe (parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday)
  }

  private static func moment(
    _ date: (year: Int32, month: Int32, day: Int32), _ clock: (hour: Int32, minute: Int32)
  ) -> Int64? {
    var parts = unsafe tm()
    unsafe parts.tm_year = date.year - 1900
    unsafe parts.tm_mon = date.month - 1
    unsafe parts.tm_mday = date.day
    unsafe parts.tm_hour = clock.hour
    unsafe parts.tm_min = clock.minute
    unsafe parts.tm_isdst = -1
    let seconds = unsafe mktime(&parts)
    return seconds == -1 ? nil : Int64(seconds) * 1000
  }
}
