/// Scheme, host and port of an `http` or `https` URL (RFC 9110 section 4.3.1): what a secret header belongs to.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
  package var scheme: String
  /// In lower case; an IPv6 address keeps its brackets.
  package var host: String
  package var port: UInt16

  /// Nil unless the text is an absolute `http` or `https` URL with a host.
  package init?(url: String) {
    guard let separator = url.firstRange(of: "://") else { return nil }
    let scheme = String(url[..<separator.lowerBound]).asciiLowercased
    guard scheme == "http" || scheme == "https" else { return nil }
    let rest = url[separator.upperBound...]
    var authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" && $0 != "\\" }
    if let at = authority.lastIndex(of: "@") { authority = authority[authority.index(after: at)...] }
    var port = scheme == "https" ? UInt16(443) : UInt16(80)
    var host = authority
    let afterAddress = authority.lastIndex(of: "]") ?? authority.startIndex
    if let colon = authority[afterAddress...].lastIndex(of: ":") {
      host = authority[..<colon]
      let digits = authority[authority.index(after: colon)...]
      if !digits.isEmpty {
        guard let number = UInt16(digits), number > 0 else { return nil }
        port = number
      }
    }
    guard !host.isEmpty, !host.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) else { return nil }
    self.scheme = scheme
    self.host = String(host).asciiLowercased
    self.port = port
  }

  package var description: String { "\(scheme)://\(host):\(port)" }
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
