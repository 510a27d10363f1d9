/// Scheme, host and port of an `http` or `https` URL (RFC 9110 section 4.3.1): what a secret header belongs to.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
  package var scheme: String
  /// In lower case; an IPv6 address keeps its brackets.
  package var host: String
  package var port: UInt16

  /// Nil unless the text is an absolute `http` or `https` URL with a host that every reader finds at the same place.
  /// Whoever connects reads the URL anew, so one that can be read in two ways would send secrets to a stranger.
  package init?(url: String) {
    guard let separator = url.firstRange(of: "://") else { return nil }
    let scheme = String(url[..<separator.lowerBound]).asciiLowercased
    guard scheme == "http" || scheme == "https" else { return nil }
    // RFC 3986 section 3.2. By bytes: a combining mark after a delimiter would make one character of both.
    let rest = url.utf8[separator.upperBound...]
    let authority = rest.prefix { $0 != Self.slash && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
    guard !authority.contains(where: Self.isForbidden) else { return nil }
    let parts = authority.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
    guard parts.count <= 2, let place = parts.last, let (host, digits) = Self.split(place) else { return nil }
    var port = scheme == "https" ? UInt16(443) : UInt16(80)
    if !digits.isEmpty {
      guard digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }), let number = UInt16(Substring(digits)), number > 0
      else { return nil }
      port = number
    }
    self.scheme = scheme
    self.host = String(Substring(host)).asciiLowercased
    self.port = port
  }

  /// An origin, as ``description`` writes it, that is this machine itself (RFC 6761 section 6.3, RFC 5735 section 3,
  /// RFC 4291 section 2.5.3): no network is needed to reach it.
  package static func isLoopback(_ origin: String) -> Bool {
    guard let host = Origin(url: origin)?.host else { return false }
    if host == "localhost" || host.hasSuffix(".localhost") || host == "[::1]" { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }

  package var description: String { "\(scheme)://\(host):\(port)" }

  private static let slash = UInt8(ascii: "/")

  /// Not in RFC 3986's grammar of an authority, and understood in more than one way: a backslash ends it for browsers
  /// and belongs to it for libcurl.
  private static func isForbidden(_ byte: UInt8) -> Bool {
    byte <= 0x20 || byte == 0x7F || "\\\"<>^`{|}".utf8.contains(byte)
  }

  /// Host and digits of the port. A host in percent-encoding is refused: not everybody decodes it.
  private static func split(_ place: Substring.UTF8View) -> (Substring.UTF8View, Substring.UTF8View)? {
    let colon = UInt8(ascii: ":")
    if place.first == UInt8(ascii: "[") {
      guard let end = place.firstIndex(of: UInt8(ascii: "]")) else { return nil }
      let host = place[...end]
      let rest = place[place.index(after: end)...]
      guard host.count > 2, host.dropFirst().dropLast().allSatisfy(isAddressByte), rest.isEmpty || rest.first == colon
      else { return nil }
      return (host, rest.dropFirst())
    }
    let host = place.prefix { $0 != colon }
    guard !host.isEmpty, !host.contains(where: { "[]%".utf8.contains($0) }) else { return nil }
    return (host, place[host.endIndex...].dropFirst())
  }

  private static func isAddressByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: ":.%-_~".utf8.contains(byte)
    }
  }
}

extension String {
  func firstRange(of needle: String) -> Range<Index>? {
    let pattern = Array(needle.utf8)
    let bytes = Array(utf8)
    guard !pattern.isEmpty, bytes.count >= pattern.count else { return nil }
    for start in 0...(bytes.count - pattern.count) where bytes[start] == pattern[0] {
      guard bytes[start..<(start + pattern.count)].elementsEqual(pattern) else { continue }
      let lower = utf8.index(utf8.startIndex, offsetBy: start)
      return lower..<utf8.index(lower, offsetBy: pattern.count)
    }
    return nil
  }
}
