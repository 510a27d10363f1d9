/// `WWW-Authenticate` and `Proxy-Authenticate` (RFC 9110 section 11.6): a list of challenges, each a scheme with
/// parameters or one token68. Total: what cannot be parsed ends its field, and what stood before it counts.
package enum AuthenticateField {
  package struct Item: Hashable, Sendable {
    /// In lower case.
    package var scheme: String
    package var realm: String?
  }

  /// All challenges of all fields of one name, in their order; at most ``limit``.
  package static func parse(_ values: [String]) -> [Item] {
    var items: [Item] = []
    for value in values where items.count < limit { parse(Array(value.utf8), into: &items) }
    return items
  }

  /// No server offers so many; one that does is not worth the memory.
  static let limit = 32

  /// The one to answer: the strongest that we can, else the first that has a name here.
  package static func choose(_ items: [Item]) -> (method: Challenge.Method, realm: String?) {
    for method in [Challenge.Method.digest, .basic, .negotiate, .ntlm, .bearer] {
      if let item = items.first(where: { $0.scheme == method.rawValue }) { return (method, item.realm) }
    }
    return (.unknown, items.first?.realm)
  }

  private static func parse(_ bytes: [UInt8], into items: inout [Item]) {
    var index = 0
    func skip(_ set: String) { while index < bytes.count, set.utf8.contains(bytes[index]) { index += 1 } }
    func token() -> String? {
      let start = index
      while index < bytes.count, isTokenByte(bytes[index]) { index += 1 }
      return index > start ? String(decoding: bytes[start..<index], as: UTF8.self) : nil
    }
    while index < bytes.count, items.count < limit {
      skip(" \t,")
      guard let name = token() else { return }
      let end = index
      skip(" \t")
      guard index < bytes.count, bytes[index] == UInt8(ascii: "=") else {
        // No value follows: it is a scheme.
        items.append(Item(scheme: name.asciiLowercased, realm: nil))
        // token68, which has no name: it ends with the element.
        let start = index
        while index < bytes.count, isToken68Byte(bytes[index]) { index += 1 }
        while index < bytes.count, bytes[index] == UInt8(ascii: "=") { index += 1 }
        let isAlone = index == bytes.count || bytes[index] == UInt8(ascii: ",")
        if !(isAlone && index > start && end < start) { index = start }
        continue
      }
      index += 1
      skip(" \t")
      guard let value = parameterValue(bytes, &index) else { return }
      if name.equalsIgnoringASCIICase("realm"), let last = items.indices.last, items[last].realm == nil {
        items[last].realm = value
      }
    }
  }

  private static func parameterValue(_ bytes: [UInt8], _ index: inout Int) -> String? {
    guard index < bytes.count else { return nil }
    var value: [UInt8] = []
    if bytes[index] == UInt8(ascii: "\"") {
      index += 1
      while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
        // RFC 9110 section 5.6.4: a backslash quotes what follows.
        if bytes[index] == UInt8(ascii: "\\"), index + 1 < bytes.count { index += 1 }
        value.append(bytes[index])
        index += 1
      }
      guard index < bytes.count else { return nil }
      index += 1
    } else {
      while index < bytes.count, isTokenByte(bytes[index]) {
        value.append(bytes[index])
        index += 1
      }
      // Neither token nor text: an "=" of a token68, or garbage. It is passed over so that the walk goes on.
      if value.isEmpty {
        while index < bytes.count, bytes[index] != UInt8(ascii: ",") { index += 1 }
      }
    }
    return String(decoding: value.prefix(1024).filter { $0 >= 0x20 && $0 != 0x7F }, as: UTF8.self)
  }

  /// RFC 9110 section 5.6.2.
  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }

  private static func isToken68Byte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "-._~+/".utf8.contains(byte)
    }
  }
}
