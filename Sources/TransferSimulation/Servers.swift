import TransferCore

/// One state of one object, or a page that a server made up.
struct Version {
  enum Kind: Hashable {
    case object
    /// An error page, a portal's page, the answer to an upload.
    case page
  }

  var kind: Kind
  /// Index of the object that it is a state of; -1 for a page.
  var object: Int
  var length: Int64
  /// The bytes on the wire are a coding of the content.
  var isEncoded: Bool
  var entityTag: String?
  var modifiedSeconds: Int64?
}

/// How an object tells its versions apart.
enum ValidatorStyle: Int, CaseIterable {
  case strongTag, weakTag, date, none
}

struct SimulatedObject {
  var url: String
  var host: Int
  var style: ValidatorStyle
  var canRange: Bool
  var current: Int32
  /// Tags ever given, so that none comes twice.
  var revisions = 0
}

/// What goes back over the wire.
struct Answer {
  var head: ResponseHead
  /// The body's bytes, before the network does anything to them.
  var body: Span
  /// The server did what a request that is not idempotent asks for.
  var hasActed: Bool
}

/// All origin servers: what they hold, and how they answer.
struct Servers {
  private(set) var versions: [Version] = []
  private(set) var objects: [SimulatedObject] = []
  /// Counts what was asked for, by task.
  private(set) var answered = 0

  static let hosts = ["http://a.test", "https://b.test", "http://c.test:8080"]
  private static let epochSeconds: Int64 = 1_700_000_000

  init(_ dice: inout Dice, objects count: Int) {
    for index in 0..<count {
      let host = dice.below(Self.hosts.count)
      let style = dice.pick([.strongTag, .strongTag, .weakTag, .date, .date, ValidatorStyle.none])
      objects.append(
        SimulatedObject(
          url: "\(Self.hosts[host])/object/\(index)", host: host, style: style, canRange: dice.below(6) > 0,
          current: 0))
      renew(index, at: 0, &dice, isEncoded: false)
    }
  }

  static func seconds(_ now: Int64) -> Int64 { epochSeconds + now / 1_000_000_000 }

  /// The object becomes another one.
  mutating func renew(_ index: Int, at now: Int64, _ dice: inout Dice, isEncoded: Bool) {
    objects[index].revisions += 1
    let revision = objects[index].revisions
    let old = versions.indices.contains(Int(objects[index].current)) ? versions[Int(objects[index].current)] : nil
    // Half of the new versions are as long as the old ones: only the validator tells them apart.
    let staysAsLong = revision > 1 && dice.below(2) == 0
    let drawn = Int64(dice.pick([0, 1, 7, 40, 200, 400]) + dice.below(9))
    let length = staysAsLong ? old?.length ?? drawn : drawn
    var version = Version(kind: .object, object: index, length: length, isEncoded: isEncoded)
    switch objects[index].style {
    case .strongTag: version.entityTag = "\"o\(index)-r\(revision)\""
    // A weak tag vouches for the meaning only: it stays while bytes change (RFC 9110 section 8.8.1).
    case .weakTag: version.entityTag = "W/\"o\(index)\""
    // Its clock ticks every 20 s: what changes twice in one tick keeps its date.
    case .date: version.modifiedSeconds = (Self.seconds(now) - 400 * (revision == 1 ? 1 : 0)) / 20 * 20
    case .none: break
    }
    objects[index].current = Int32(versions.count)
    versions.append(version)
  }

  mutating func page(_ length: Int64) -> Int32 {
    versions.append(Version(kind: .page, object: -1, length: length, isEncoded: false))
    return Int32(versions.count - 1)
  }

  func object(at url: String) -> Int? {
    guard let slash = url.lastIndex(of: "/"), let index = Int(url[url.index(after: slash)...]),
      objects.indices.contains(index)
    else { return nil }
    return index
  }

  /// The digest of a version's content, as a client that knows it would give it.
  static func digest(of version: Int32) -> String {
    let digits = String(UInt64(version) + 0xA000_0000, radix: 16)
    return String(repeating: "0", count: 64 - digits.count) + digits
  }
}

/// Dates as servers write them.
enum HTTPDateText {
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
  private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]

  /// In the preferred form (RFC 9110 section 5.6.7), from seconds since 1970.
  static func fixed(_ seconds: Int64) -> String {
    let (year, month, day) = civil(seconds / 86_400)
    return "\(days[Int(seconds / 86_400 % 7)]), \(two(day)) \(months[month - 1]) \(year) \(clock(seconds)) GMT"
  }

  /// In the form of asctime(3).
  static func asctime(_ seconds: Int64) -> String {
    let (year, month, day) = civil(seconds / 86_400)
    let spaced = day < 10 ? " \(day)" : "\(day)"
    return "\(days[Int(seconds / 86_400 % 7)]) \(months[month - 1]) \(spaced) \(clock(seconds)) \(year)"
  }

  private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

  private static func clock(_ seconds: Int64) -> String {
    let rest = Int(seconds % 86_400)
    return "\(two(rest / 3600)):\(two(rest / 60 % 60)):\(two(rest % 60))"
  }

  /// Year, month and day of a number of days since 1970-01-01; years count from March so that the leap day is last.
  private static func civil(_ days: Int64) -> (year: Int, month: Int, day: Int) {
    let shifted = Int(days) + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
  }
}

extension HTTPDateText {
  /// Whether the core reads both forms of a moment as that moment.
  static func isUnderstood(_ seconds: Int64) -> Bool {
    [fixed(seconds), asctime(seconds)].allSatisfy { HTTPDate.parse($0)?.milliseconds == seconds * 1000 }
  }
}
