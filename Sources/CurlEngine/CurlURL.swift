import CCurl

package enum CurlURL {
  /// A host as libcurl looks it up: in ASCII (IDNA), an IPv4 address as four numbers. What it cannot read stays.
  package static func name(of host: String) -> String {
    let last = host.utf8.last ?? 0
    // Nearly all.
    if (0x61...0x7A).contains(last), host.utf8.allSatisfy({ $0 < 0x80 }) { return host }
    guard let url = unsafe curl_url() else { return host }
    defer { unsafe curl_url_cleanup(url) }
    guard unsafe curl_url_set(url, CURLUPART_URL, "https://\(host)/", 0) == CURLUE_OK else { return host }
    var text: UnsafeMutablePointer<CChar>?
    guard unsafe curl_url_get(url, CURLUPART_HOST, &text, punycode) == CURLUE_OK, let text = unsafe text else {
      return host
    }
    defer { unsafe curl_free(text) }
    return unsafe String(cString: text)
  }

  /// CURLU_PUNYCODE: since 7.88, and ignored before.
  private static let punycode = UInt32(1 << 12)

  /// The absolute URL that a reference names, seen from a base (RFC 3986 section 5); nil when it is none.
  /// Whatever its scheme: what may be followed is the core's decision.
  package static func resolve(_ reference: String, against base: String) -> String? {
    guard !reference.isEmpty, let url = unsafe curl_url() else { return nil }
    defer { unsafe curl_url_cleanup(url) }
    guard unsafe curl_url_set(url, CURLUPART_URL, base, UInt32(CURLU_NON_SUPPORT_SCHEME)) == CURLUE_OK,
      unsafe curl_url_set(url, CURLUPART_URL, reference, UInt32(CURLU_NON_SUPPORT_SCHEME | CURLU_URLENCODE))
        == CURLUE_OK
    else { return nil }
    var text: UnsafeMutablePointer<CChar>?
    guard unsafe curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK, let text = unsafe text else { return nil }
    defer { unsafe curl_free(text) }
    return unsafe String(cString: text)
  }
}
