/// Scheme, host and port of an `http` or `https` URL (RFC 9110 section 4.3.1): what a secret header belongs to.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
  package var scheme: String
  /// In lower case; an IPv6 address keeps its brackets.
  package var host: String
  package var port: UInt16

  /// Nil unless the text is an absolute `http` or `https` URL with a host that every reader finds at the same place.
  /// Whoever connects reads the URL anew, so one that can be read in two ways would send secrets to a stranger.
  package init?(url: String) {
    // Each attempt asks several times: one walk over the bytes, and no text is made but the host's.
    let bytes = url.utf8.span
    let start: Int
    if Self.begins(bytes, "https://") {
      (scheme, start) = ("https", 8)
    } else if Self.begins(bytes, "http://") {
      (scheme, start) = ("http", 7)
    } else {
      return nil
    }
    guard let place = Self.place(bytes, from: start), let hostEnd = Self.endOfHost(bytes, place),
      let port = Self.port(bytes, hostEnd..<place.upperBound)
    else { return nil }
    self.port = port ?? (scheme == "https" ? 443 : 80)
    let utf8 = url.utf8
    let first = utf8.index(utf8.startIndex, offsetBy: place.lowerBound)
    let host = utf8[first..<utf8.index(first, offsetBy: hostEnd - place.lowerBound)]
    self.host =
      host.contains { $0 != $0.asciiLowercased } ? String(Substring(host)).asciiLowercased : String(Substring(host))
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

  /// Whether the bytes begin with a text of small letters, in whatever case.
  private static func begins(_ bytes: Span<UInt8>, _ text: String) -> Bool {
    let wanted = text.utf8.span
    guard bytes.count >= wanted.count else { return false }
    for index in wanted.indices where bytes[index].asciiLowercased != wanted[index] { return false }
    return true
  }

  /// Where host and port stand (RFC 3986 section 3.2). By bytes: a combining mark after a delimiter would make one
  /// character of both.
  private static func place(_ url: Span<UInt8>, from start: Int) -> Range<Int>? {
    var end = start
    var at: Int?
    while end < url.count {
      let byte = url[end]
      if byte == slash || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") { break }
      if isForbidden(byte) { return nil }
      if byte == UInt8(ascii: "@") {
        if at != nil { return nil }
        at = end
      }
      end += 1
    }
    return (at.map { $0 + 1 } ?? start)..<end
  }

  /// Not in RFC 3986's grammar of an authority, and understood in more than one way: a backslash ends it for browsers
  /// and belongs to it for libcurl.
  private static func isForbidden(_ byte: UInt8) -> Bool {
    switch byte {
    case 0...0x20, 0x7F: true
    case UInt8(ascii: "\\"), UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "^"),
      UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
      true
    default: false
    }
  }

  /// Where the host ends. One in percent-encoding is refused: not everybody decodes it.
  private static func endOfHost(_ url: Span<UInt8>, _ place: Range<Int>) -> Int? {
    guard let first = place.first else { return nil }
    var end = first
    if url[first] == UInt8(ascii: "[") {
      end += 1
      while end < place.upperBound, url[end] != UInt8(ascii: "]") {
        guard isAddressByte(url[end]) else { return nil }
        end += 1
      }
      return end < place.upperBound && end > first + 1 ? end + 1 : nil
    }
    while end < place.upperBound, url[end] != UInt8(ascii: ":") {
      switch url[end] {
      case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "%"): return nil
      default: end += 1
      }
    }
    return end > first ? end : nil
  }

  /// What may follow the host: nothing, a colon, or a colon and a number. `.some(nil)`: the scheme's own port.
  private static func port(_ url: Span<UInt8>, _ rest: Range<Int>) -> UInt16?? {
    guard let colon = rest.first else { return .some(nil) }
    guard url[colon] == UInt8(ascii: ":") else { return nil }
    guard rest.count > 1 else { return .some(nil) }
    var number = 0
    for index in rest.dropFirst() {
      guard case 0x30...0x39 = url[index] else { return nil }
      number = number * 10 + Int(url[index] - 0x30)
      guard number <= Int(UInt16.max) else { return nil }
    }
    return number > 0 ? .some(UInt16(number)) : nil
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
