import TransferCore
import WireProtocol

/// Values of options and operands, checked before anything is sent. No message repeats a header's value: it may be a
/// secret.
enum ArgumentValue {
  /// A task id: 1 or more.
  static func taskID(_ text: String) throws(CommandFailure) -> Int64 {
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let id = Int64(text), id > 0 else {
      throw .usage("\"\(text)\" is no task id; ids are numbers from 1, as `ferry list` shows them.")
    }
    return id
  }

  static func taskIDs(_ texts: [String]) throws(CommandFailure) -> [Int64] {
    var ids: [Int64] = []
    for text in texts {
      let id = try taskID(text)
      if !ids.contains(id) { ids.append(id) }
    }
    guard ids.count <= WireLimits.tasksInBatch else {
      throw .usage("At most \(WireLimits.tasksInBatch) ids at once.")
    }
    return ids
  }

  /// More than 0 seconds, fractions allowed, at most ten years.
  static func seconds(_ text: String, option: String) throws(CommandFailure) -> Double {
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) || $0 == 0x2E }), let value = Double(text),
      value > 0, value <= 315_360_000
    else {
      throw .usage("\(option) takes a number of seconds, more than 0 and at most 315360000, not \"\(text)\".")
    }
    return value
  }

  static func count(_ text: String, option: String, in range: ClosedRange<Int>) throws(CommandFailure) -> Int {
    guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let value = Int(text), range.contains(value) else {
      throw .usage("\(option) takes a number from \(range.lowerBound) to \(range.upperBound), not \"\(text)\".")
    }
    return value
  }

  /// "Name: value" (RFC 9110 section 5): the name a token, the value without CR, LF, NUL. An empty value is allowed.
  static func header(_ text: String, option: String) throws(CommandFailure) -> WireHeader {
    guard let colon = text.utf8.firstIndex(of: 0x3A) else {
      throw .usage("\(option) takes \"Name: value\"; there is no colon in what was given.")
    }
    let name = String(text[..<colon])
    guard !name.isEmpty, name.utf8.allSatisfy(isTokenByte) else {
      throw .usage(
        "\(option): a header's name is made of letters, digits and !#$%&'*+-.^_`|~ (RFC 9110 section 5.1).")
    }
    let value = String(text[text.utf8.index(after: colon)...])
    guard !value.utf8.contains(where: { ($0 < 0x20 && $0 != 0x09) || $0 == 0x7F }) else {
      throw .usage(
        "\(option) \(name): the value has a control character (a line break?); it must be one line (RFC 9110 5.5)."
      )
    }
    return WireHeader(name: name, value: value.trimmingOptionalWhitespace)
  }

  static func headers(_ arguments: ParsedArguments) throws(CommandFailure) -> (all: [WireHeader], secret: [String]) {
    var all: [WireHeader] = []
    var secret: [String] = []
    for text in arguments.all(.header) { all.append(try header(text, option: "--header")) }
    for text in arguments.all(.secretHeader) {
      let field = try header(text, option: "--secret-header")
      all.append(field)
      secret.append(field.name)
    }
    guard all.count <= WireLimits.headerCount else {
      throw .usage("At most \(WireLimits.headerCount) headers.")
    }
    guard all.reduce(0, { $0 + $1.name.utf8.count + $1.value.utf8.count }) <= WireLimits.headerBytes else {
      throw .usage("All headers together may have \(WireLimits.headerBytes) bytes.")
    }
    return (all, secret)
  }

  /// 64 hexadecimal digits; upper case is taken and lowered.
  static func sha256(_ text: String) throws(CommandFailure) -> String {
    let digits = text.asciiLowercased
    guard digits.utf8.count == 64,
      digits.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    else {
      throw .usage(
        "--sha256 takes 64 hexadecimal digits, as `sha256sum` prints them; this has \(text.count) characters.")
    }
    return digits
  }

  /// RFC 9110 section 9.1: a token; upper case by convention, and taken as given.
  static func method(_ text: String) throws(CommandFailure) -> String {
    guard !text.isEmpty, text.utf8.count <= 32, text.utf8.allSatisfy(isTokenByte) else {
      throw .usage("-X takes a method such as PUT, POST or PATCH, not \"\(text)\".")
    }
    guard !["GET", "HEAD", "CONNECT", "TRACE"].contains(text) else {
      throw .usage("-X \(text) has no body to send; `ferry get` fetches.")
    }
    return text
  }

  /// The name of a session: 1 … 1024 bytes.
  static func session(_ text: String) throws(CommandFailure) -> String {
    guard (1...WireLimits.identifierBytes).contains(text.utf8.count), !text.utf8.contains(0) else {
      throw .usage("--session takes a name of 1 to \(WireLimits.identifierBytes) bytes.")
    }
    return text
  }

  /// An absolute `http` or `https` URL.
  static func url(_ text: String) throws(CommandFailure) -> String {
    guard !text.isEmpty else { throw .usage("The URL is empty.") }
    guard text.utf8.count <= WireLimits.urlBytes else {
      throw .usage("The URL has more than \(WireLimits.urlBytes) bytes.")
    }
    guard !text.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
      throw .usage("The URL has a control character in it (a line break from copying?).")
    }
    guard !text.utf8.contains(0x20) else {
      throw .usage("The URL has a space in it; write %20 for a space, or quote the argument rightly.")
    }
    guard let scheme = text.range(ofText: "://") else {
      throw .usage(
        text.hasPrefix("/") || text.hasPrefix(".")
          ? "\"\(text)\" is a path; a URL begins with http:// or https://."
          : "\"\(text)\" has no scheme; write https://\(text) or http://\(text).")
    }
    let name = String(text[..<scheme.lowerBound])
    guard ["http", "https"].contains(name.asciiLowercased) else {
      throw .usage("Ferry speaks http and https, not \"\(name)\".")
    }
    guard Origin(url: text) != nil else {
      throw .usage("\"\(text)\" has no valid host or port; the form is https://host[:port]/path.")
    }
    return text
  }

  /// RFC 9110 section 5.6.2.
  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }
}
