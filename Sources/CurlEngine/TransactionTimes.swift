import CCurl
import Glibc
package import TransferCore

/// What is noted of a transfer while it runs, and what libcurl is asked once at its end.
struct TransactionTimes {
  /// Microseconds since 1970; 0 before the transfer went on the wire.
  private var fetchStart: Int64 = 0
  private var startedAt = BootInstant(nanoseconds: 0)
  /// The request's body was read to its end.
  private var bodySentAt: BootInstant?
  /// The first line of an answer came. (For a request with a body libcurl's start of the transfer is when it begins to
  /// send that.)
  private var answeredAt: BootInstant?
  private var tlsVersion: Int?
  private var tlsCipherSuite: Int?

  mutating func begin(at now: BootInstant) {
    guard fetchStart == 0 else { return }
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    fetchStart = Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000
    startedAt = now
  }

  /// - Parameter session: OpenSSL's `SSL *` of the connection, as the request begins on it.
  mutating func noteTLS(_ session: UInt) {
    guard let session = unsafe UnsafeMutableRawPointer(bitPattern: session) else { return }
    // SAFETY: libcurl gave the session just now, in the callback from which this is called; the connection lives on.
    tlsVersion = Int(unsafe ccurl_tls_version(session))
    // SAFETY: as above.
    let suite = Int(unsafe ccurl_tls_cipher_suite(session))
    tlsCipherSuite = suite > 0 ? suite : nil
  }

  mutating func noteBodySent(at now: BootInstant) { if bodySentAt == nil { bodySentAt = now } }

  mutating func noteAnswer(at now: BootInstant) { if answeredAt == nil { answeredAt = now } }

  /// One round of questions: spans that libcurl knows as microseconds since the start.
  func measure(
    _ easy: EasyHandle, _ order: AttemptOrder, head: ResponseHead?, sent: Int64, received: Int64
  ) -> TransactionMetrics? {
    guard fetchStart != 0 else { return nil }
    var metrics = TransactionMetrics(
      url: order.request.url, method: order.request.method, fetchStart: fetchStart)
    metrics.status = head?.status
    metrics.networkProtocol = head.map { Self.name(ofHTTP: $0.httpVersion) }
    metrics.isProxied = ProxyRule.applies(order.network, to: order.request.url)
    fillConnection(&metrics, easy)
    fillExchange(&metrics, easy, hasBody: order.body != .none)
    metrics.requestHeaderBytes = Int64(easy.long(CURLINFO_REQUEST_SIZE))
    metrics.requestBodyBytes = sent
    metrics.responseHeaderBytes = Int64(easy.long(CURLINFO_HEADER_SIZE))
    metrics.responseBodyBytes = received
    return metrics
  }

  private func fillConnection(_ metrics: inout TransactionMetrics, _ easy: EasyHandle) {
    let connected = easy.bytes(CURLINFO_CONNECT_TIME_T)
    let isNew = easy.long(CURLINFO_NUM_CONNECTS) > 0
    metrics.isReused = !isNew && easy.bytes(CURLINFO_PRETRANSFER_TIME_T) > 0
    if isNew {
      let lookedUp = easy.bytes(CURLINFO_NAMELOOKUP_TIME_T)
      metrics.domainLookupStart = 0
      metrics.domainLookupEnd = lookedUp
      if connected > 0 {
        metrics.connectStart = lookedUp
        metrics.connectEnd = connected
        let secured = easy.bytes(CURLINFO_APPCONNECT_TIME_T)
        if secured > 0 {
          metrics.secureConnectionStart = connected
          metrics.secureConnectionEnd = secured
          metrics.connectEnd = secured
        }
      }
    }
    metrics.tlsVersion = tlsVersion
    metrics.tlsCipherSuite = tlsCipherSuite
    guard isNew || metrics.isReused else { return }
    metrics.remoteAddress = easy.text(CURLINFO_PRIMARY_IP)
    metrics.localAddress = easy.text(CURLINFO_LOCAL_IP)
    if metrics.remoteAddress != nil { metrics.remotePort = easy.long(CURLINFO_PRIMARY_PORT) }
    if metrics.localAddress != nil { metrics.localPort = easy.long(CURLINFO_LOCAL_PORT) }
  }

  private func fillExchange(_ metrics: inout TransactionMetrics, _ easy: EasyHandle, hasBody: Bool) {
    let begun = easy.bytes(CURLINFO_PRETRANSFER_TIME_T)
    guard begun > 0 else { return }
    metrics.requestStart = begun
    // A request without a body is one write; libcurl does not say when it returned.
    metrics.requestEnd = begun
    if hasBody {
      metrics.requestEnd = bodySentAt.map { max(begun, microseconds(until: $0)) }
    }
    guard metrics.status != nil, let answer = answeredAt else { return }
    let answered = max(begun, microseconds(until: answer))
    metrics.responseStart = answered
    metrics.responseEnd = max(answered, easy.bytes(CURLINFO_TOTAL_TIME_T))
  }

  private func microseconds(until moment: BootInstant) -> Int64 { (moment - startedAt).nanosecondsClamped / 1000 }

  /// ALPN's names (RFC 7301, IANA's registry).
  private static func name(ofHTTP version: String) -> String {
    switch version {
    case "2": "h2"
    case "3": "h3"
    default: "http/\(version)"
    }
  }
}

/// Whether libcurl goes through a proxy: curl's rule for CURLOPT_NOPROXY, without its networks in CIDR form.
package enum ProxyRule {
  package static func applies(_ network: NetworkSettings, to url: String) -> Bool {
    guard network.httpProxy != nil || network.httpsProxy != nil, let origin = Origin(url: url) else { return false }
    let proxy = origin.scheme == "https" ? network.httpsProxy : network.httpProxy
    guard proxy != nil, network.noProxy != "*" else { return false }
    let host = origin.host
    return !network.noProxy.utf8.split(whereSeparator: { $0 == UInt8(ascii: ",") || $0 == 0x20 }).contains { item in
      var name = String(Substring(item)).asciiLowercased
      if name.hasPrefix(".") { name.removeFirst() }
      return host == name || host.hasSuffix("." + name)
    }
  }
}
