/// One field line of an HTTP message (RFC 9110 section 5). The value holds no CR, LF or NUL.
package struct HeaderField: Hashable, Sendable {
  package var name: String
  package var value: String

  package init(name: String, value: String) {
    self.name = name
    self.value = value
  }
}

/// The field lines of a message in their order; names compare without regard to ASCII case.
package struct HeaderFields: Hashable, Sendable, ExpressibleByArrayLiteral {
  package var fields: [HeaderField]

  package init(_ fields: [HeaderField] = []) { self.fields = fields }
  package init(arrayLiteral elements: (String, String)...) {
    fields = elements.map { HeaderField(name: $0.0, value: $0.1) }
  }

  /// The last value under a name: with proxies and intermediaries that add a line, the last one is the origin's.
  package subscript(name: String) -> String? {
    fields.last { $0.name.equalsIgnoringASCIICase(name) }?.value
  }

  package func values(_ name: String) -> [String] {
    fields.filter { $0.name.equalsIgnoringASCIICase(name) }.map(\.value)
  }

  package func contains(_ name: String) -> Bool {
    fields.contains { $0.name.equalsIgnoringASCIICase(name) }
  }

  package mutating func set(_ name: String, to value: String) {
    remove(name)
    fields.append(HeaderField(name: name, value: value))
  }

  package mutating func remove(_ name: String) {
    fields.removeAll { $0.name.equalsIgnoringASCIICase(name) }
  }

  /// Takes away what a request shows to its own origin only: its secrets, and a caller's Host, which names the origin.
  package mutating func removeBoundToOrigin(_ secretNames: [String]) {
    fields.removeAll {
      SecretHeaders.isSecret($0.name, marked: secretNames) || $0.name.equalsIgnoringASCIICase("Host")
    }
  }

  /// The values with what is secret replaced by `<redacted>`, for logs and `ferry show`.
  package func redacted(secretNames: [String]) -> HeaderFields {
    HeaderFields(
      fields.map { field in
        SecretHeaders.isSecret(field.name, marked: secretNames)
          ? HeaderField(name: field.name, value: "<redacted>") : field
      })
  }
}

/// Which header fields carry a secret: never logged, and dropped when a redirect leaves the origin.
package enum SecretHeaders {
  /// Fields that are secret by definition: RFC 9110 section 11 (credentials) and RFC 6265 (cookies).
  package static let always = ["authorization", "cookie", "cookie2", "proxy-authorization", "www-authenticate"]

  package static func isSecret(_ name: String, marked: [String]) -> Bool {
    always.contains { $0.equalsIgnoringASCIICase(name) }
      || marked.contains { $0.equalsIgnoringASCIICase(name) }
  }
}

extension String {
  /// Compares bytes, with A–Z equal to a–z; no Unicode rules, as HTTP's tokens are ASCII.
  package func equalsIgnoringASCIICase(_ other: String) -> Bool {
    guard utf8.count == other.utf8.count else { return false }
    var theirs = other.utf8.makeIterator()
    for byte in utf8 where byte.asciiLowercased != theirs.next()?.asciiLowercased { return false }
    return true
  }

  package var asciiLowercased: String { String(decoding: utf8.map(\.asciiLowercased), as: UTF8.self) }

  /// Without spaces and tabs at both ends (RFC 9110 OWS).
  package var trimmingOptionalWhitespace: String {
    func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
    var view = Substring(self).utf8
    while let first = view.first, isSpace(first) { view.removeFirst() }
    while let last = view.last, isSpace(last) { view.removeLast() }
    return String(Substring(view))
  }
}

extension UInt8 {
  package var asciiLowercased: UInt8 { self >= 0x41 && self <= 0x5A ? self | 0x20 : self }
}
