import CCurl
import TransferCore

/// An order as libcurl's options. What each option is for stands in section 10 of the design.
enum CurlOptions {
  /// The bundle that Debian and its relatives keep; elsewhere libcurl's own default holds.
  static let systemCertificateFile = "/etc/ssl/certs/ca-certificates.crt"

  /// Nil when everything was set; else why the order cannot be carried out.
  static func apply(
    _ order: AttemptOrder, to easy: EasyHandle, bodyBytes: Int64?, avoidsHTTP2: Bool = false
  ) -> TransferFailure? {
    let request = order.request
    guard let origin = Origin(url: request.url) else {
      return TransferFailure(
        .unsupportedURL, .permanent, detail: "The URL is not an absolute http or https URL with a host.")
    }
    guard isToken(request.method) else {
      return TransferFailure(.invalidRequest, .permanent, detail: "The request method is not an HTTP token.")
    }
    if let bad = request.headers.fields.first(where: { !isToken($0.name) || !isFieldValue($0.value) }) {
      let name = isToken(bad.name) ? " \(bad.name)" : ""
      return TransferFailure(
        .invalidRequest, .permanent, detail: "The request header field\(name) holds characters that HTTP forbids.")
    }
    guard !request.url.utf8.contains(where: { $0 <= 0x20 || $0 == 0x7F }) else {
      return TransferFailure(
        .unsupportedURL, .permanent, detail: "The URL holds a space or a control character; percent-encode it.")
    }
    easy.set(CURLOPT_URL, request.url)
    setMethod(request.method, easy, bodyBytes: bodyBytes)
    easy.setHeaderLines(headerLines(request.headers))
    setBehaviour(order, origin, easy)
    if avoidsHTTP2 { easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)) }
    setRoute(order.network, origin, easy)
    if let failure = setAccess(order, easy, hasBody: bodyBytes ?? 0 > 0) { return failure }
    guard easy.status == CURLE_OK else {
      return TransferFailure(
        .internalFault, .permanent, domain: "curl", number: Int(easy.status.rawValue),
        detail: "libcurl refused option \(easy.failedOption).")
    }
    return nil
  }

  private static func setMethod(_ method: String, _ easy: EasyHandle, bodyBytes: Int64?) {
    if let bodyBytes {
      // UPLOAD alone says PUT; the name on the request line is the caller's.
      easy.set(CURLOPT_UPLOAD, true)
      easy.set(CURLOPT_INFILESIZE_LARGE, bytes: bodyBytes)
      easy.set(CURLOPT_CUSTOMREQUEST, method)
    } else if method == "HEAD" {
      // Any other way libcurl would wait for the body that Content-Length announces.
      easy.set(CURLOPT_NOBODY, true)
    } else if method != "GET" {
      easy.set(CURLOPT_CUSTOMREQUEST, method)
    }
  }

  /// What libcurl undoes where the order wants it.
  static let decodedCodings: Set<String> = ["gzip", "x-gzip", "deflate", "br"]

  /// RFC 9110 section 8.6: a request whose method anticipates content says `Content-Length: 0` when it has none.
  static func sendsEmptyBody(_ method: String) -> Bool { ["POST", "PUT", "PATCH"].contains(method) }

  private static func headerLines(_ headers: HeaderFields) -> [String] {
    var lines: [String] = []
    for field in headers.fields where !ownFields.contains(where: { $0.equalsIgnoringASCIICase(field.name) }) {
      // libcurl's form for a field with an empty value; "Name:" would suppress it.
      lines.append(field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)")
    }
    // A 417 to Expect makes libcurl send a second request by itself.
    lines.append("Expect:")
    if !headers.contains("Accept") { lines.append("Accept:") }
    if !headers.contains("User-Agent") { lines.append("User-Agent: ferry/0.1") }
    return lines
  }

  /// Framing is the engine's: a caller's value could only contradict it.
  private static let ownFields = ["Content-Length", "Transfer-Encoding", "Expect", "TE", "Connection", "Upgrade"]

  private static func setBehaviour(_ order: AttemptOrder, _ origin: Origin, _ easy: EasyHandle) {
    easy.set(CURLOPT_FOLLOWLOCATION, false)
    easy.set(CURLOPT_PROTOCOLS_STR, "http,https")
    easy.set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https")
    easy.set(CURLOPT_NOSIGNAL, true)
    easy.set(CURLOPT_QUICK_EXIT, true)
    easy.set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
    // A plain http connection carries one request at a time: waiting for its first answer would hold all others up.
    easy.set(CURLOPT_PIPEWAIT, origin.scheme == "https")
    easy.set(CURLOPT_HTTP_CONTENT_DECODING, order.decodesContent)
    // Only its being set counts: the request always names the encodings itself.
    if order.decodesContent { easy.set(CURLOPT_ACCEPT_ENCODING, AttemptOrder.decodedEncodings) }
    easy.set(CURLOPT_HTTP_TRANSFER_DECODING, true)
    easy.set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
    // The request's header fields are the origin's, not the proxy's.
    easy.set(CURLOPT_HEADEROPT, Int(CURLHEADER_SEPARATE))
    easy.set(CURLOPT_BUFFERSIZE, EngineLimits.receiveBufferBytes)
    easy.set(CURLOPT_UPLOAD_BUFFERSIZE, EngineLimits.sendBufferBytes)
    easy.set(CURLOPT_TCP_NODELAY, true)
    easy.set(CURLOPT_TCP_KEEPALIVE, true)
    easy.set(CURLOPT_TCP_KEEPIDLE, 60)
    easy.set(CURLOPT_TCP_KEEPINTVL, 30)
    easy.set(CURLOPT_CONNECTTIMEOUT_MS, EngineLimits.connectMilliseconds)
    easy.set(CURLOPT_MAXAGE_CONN, EngineLimits.idleConnectionSeconds)
    easy.set(CURLOPT_NOPROGRESS, true)
    easy.set(CURLOPT_NETRC, 0)
    if order.needsFreshConnection { easy.set(CURLOPT_FRESH_CONNECT, true) }
  }

  private static func setRoute(_ network: NetworkSettings, _ origin: Origin, _ easy: EasyHandle) {
    // Without an explicit value libcurl reads the daemon's own environment, which is not the client's.
    easy.set(CURLOPT_PROXY, (origin.scheme == "https" ? network.httpsProxy : network.httpProxy) ?? "")
    easy.set(CURLOPT_NOPROXY, network.noProxy)
    easy.set(CURLOPT_SSL_VERIFYPEER, true)
    easy.set(CURLOPT_SSL_VERIFYHOST, 2)
    TLSGoodbye.watch(easy)
    guard let file = network.certificateFile ?? defaultCertificateFile else { return }
    easy.set(CURLOPT_CAINFO, file)
    easy.set(CURLOPT_PROXY_CAINFO, file)
    // Debian's default directory defeats the certificate cache: 28 ms of CPU a connection instead of 1.4.
    easy.setNull(CURLOPT_CAPATH)
    easy.setNull(CURLOPT_PROXY_CAPATH)
  }

  private static let defaultCertificateFile: String? =
    FileFacts.isReadable(systemCertificateFile) ? systemCertificateFile : nil

  /// RFC 9110 section 5.6.2.
  private static func isToken(_ text: String) -> Bool {
    !text.isEmpty
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
      }
  }

  /// RFC 9110 section 5.5: no control characters but the tab.
  private static func isFieldValue(_ text: String) -> Bool {
    text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
  }
}
