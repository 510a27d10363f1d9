import CCurl
import CurlEngine
import Glibc
import TransferCore

/// Who reads a URL decides where a secret goes: the core decides by its origin, libcurl connects. Any URL that both
/// take must lead both to one place.
enum URLTarget {
  /// Two lines: a reference and its base; one line: a URL.
  static func run(_ bytes: [UInt8]) throws {
    let lines = bytes.split(separator: 0x0A, maxSplits: 1).map { String(decoding: $0, as: UTF8.self) }
    for line in lines { try check(line) }
    guard lines.count == 2, let resolved = CurlURL.resolve(lines[0], against: lines[1]) else { return }
    try check(resolved)
  }

  static func check(_ text: String) throws {
    guard let origin = Origin(url: text) else { return }
    try require(origin.host == origin.host.asciiLowercased && !origin.host.isEmpty && origin.port > 0, "\(origin)")
    try require(Origin(url: origin.description + "/") == origin, "\(origin) is another origin")
    guard let place = place(text) else { return }
    try require(place.scheme == origin.scheme, "\(text): we read \(origin), libcurl \(place)")
    try require(place.port == origin.port, "\(text): we read \(origin), libcurl \(place)")
    try require(isSame(origin.host, place.host), "\(text): we read \(origin), libcurl \(place)")
  }

  private struct Place {
    var scheme = ""
    var host = ""
    var port: UInt16 = 0
  }

  /// As libcurl reads the text of CURLOPT_URL (lib/url.c, parseurlandfillconn).
  private static func place(_ text: String) -> Place? {
    // It gets a C string, which ends at the first NUL.
    guard let handle = unsafe curl_url() else { return nil }
    defer { unsafe curl_url_cleanup(handle) }
    let flags = UInt32(CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME)
    guard unsafe curl_url_set(handle, CURLUPART_URL, text, flags) == CURLUE_OK else { return nil }
    func part(_ what: CURLUPart) -> String? {
      var value: UnsafeMutablePointer<CChar>?
      guard unsafe curl_url_get(handle, what, &value, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK,
        let value = unsafe value
      else { return nil }
      defer { unsafe curl_free(value) }
      return unsafe String(cString: value)
    }
    guard let scheme = part(CURLUPART_SCHEME), let host = part(CURLUPART_HOST),
      let port = part(CURLUPART_PORT).flatMap({ UInt16($0) })
    else { return nil }
    return Place(scheme: scheme.asciiLowercased, host: host.asciiLowercased, port: port)
  }

  /// libcurl writes addresses in their usual form, and keeps the zone of an IPv6 address apart.
  private static func isSame(_ ours: String, _ theirs: String) -> Bool {
    if ours == theirs { return true }
    if ours.hasPrefix("["), theirs.hasPrefix("[") {
      var (left, right) = (in6_addr(), in6_addr())
      let bare = String(ours.dropFirst().dropLast().prefix { $0 != "%" })
      guard unsafe inet_pton(AF_INET6, bare, &left) == 1,
        unsafe inet_pton(AF_INET6, String(theirs.dropFirst().dropLast()), &right) == 1
      else { return false }
      return unsafe withUnsafeBytes(of: left) { left in
        unsafe withUnsafeBytes(of: right) { right in unsafe left.elementsEqual(right) }
      }
    }
    var (left, right) = (in_addr(), in_addr())
    return unsafe inet_aton(ours, &left) == 1 && inet_aton(theirs, &right) == 1 && left.s_addr == right.s_addr
  }
}
