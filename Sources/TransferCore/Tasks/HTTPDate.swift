/// HTTP dates (RFC 9110 section 5.6.7): the preferred form and the two obsolete ones.
package enum HTTPDate {
  private static let months = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
  ]

  /// Nil for anything that is not one of the three forms, or names a date that does not exist.
  package static func parse(_ text: String) -> WallInstant? {
    // "Sun, 06 Nov 1994 08:49:37 GMT" · "Sunday, 06-Nov-94 08:49:37 GMT" · "Sun Nov  6 08:49:37 1994"
    guard text.utf8.count <= 64 else { return nil }
    let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
    switch words.count {
    case 6:
      guard words[5] == "GMT" || words[5] == "UTC" else { return nil }
      return instant(day: words[1], month: words[2], year: words[3], time: words[4])
    case 5:
      return instant(day: words[2], month: words[1], year: words[4], time: words[3])
    default:
      return nil
    }
  }

  private static func instant(day: String, month: String, year: String, time: String) -> WallInstant? {
    let clock = time.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    guard clock.count == 3,
      let day = number(day, 1...31), let monthIndex = months.firstIndex(of: month.asciiLowercased),
      var year = number(year, 0...9999),
      let hour = number(clock[0], 0...23), let minute = number(clock[1], 0...59), let second = number(clock[2], 0...60)
    else { return nil }
    // A two-digit year more than 50 years ahead is a past one; until 2049 that means 70–99 are of the last century.
    if year < 100 { year += year >= 70 ? 1900 : 2000 }
    guard year >= 1900, day <= daysInMonth(monthIndex + 1, year: year) else { return nil }
    let days = daysSinceEpoch(year: year, month: monthIndex + 1, day: day)
    let seconds = Int64(days) * 86_400 + Int64(hour * 3600 + minute * 60 + min(second, 59))
    return WallInstant(milliseconds: seconds * 1000)
  }

  private static func number(_ text: String, _ range: ClosedRange<Int>) -> Int? {
    guard !text.isEmpty, text.utf8.count <= 4, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
      let value = Int(text), range.contains(value)
    else { return nil }
    return value
  }

  private static func daysInMonth(_ month: Int, year: Int) -> Int {
    switch month {
    case 4, 6, 9, 11: 30
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    default: 31
    }
  }

  /// Days from 1970-01-01 in the proleptic Gregorian calendar; years count from March so that the leap day is last.
  private static func daysSinceEpoch(year: Int, month: Int, day: Int) -> Int {
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted / 400
    let yearOfEra = shifted % 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
  }
}
