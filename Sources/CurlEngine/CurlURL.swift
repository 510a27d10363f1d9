import CCurl

package enum CurlURL {
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
