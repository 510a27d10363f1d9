import WireProtocol

/// The timing lines of `ferry show`: where the time of each request went.
enum TimingText {
  /// One row for each transaction: "GET 200 h2 from 192.0.2.1:443, connection reused: 2 ms …".
  static func rows(_ metrics: WireMetrics?) -> [(String, String?)] {
    guard let metrics else { return [] }
    var rows: [(String, String?)] = []
    for (index, transaction) in metrics.transactions.enumerated() {
      if let omitted = metrics.omitted, index == metrics.transactions.count / 2 {
        rows.append(("timing", "(\(omitted) more requests, of which nothing was kept)"))
      }
      rows.append(("timing", line(transaction)))
    }
    return rows
  }

  private static func line(_ transaction: WireTransaction) -> String {
    var words = ["\(transaction.method) \(transaction.status.map(String.init) ?? "without an answer")"]
    if let name = transaction.networkProtocol { words.append(name) }
    if let version = transaction.tlsVersion { words.append(tls(version)) }
    if let address = transaction.remoteAddress {
      let port = transaction.remotePort.map { ":\($0)" } ?? ""
      words.append("\(transaction.isProxied == true ? "through" : "from") \(host(address))\(port)")
    }
    if transaction.isReused == true { words.append("on a used connection") }
    return "\(words.joined(separator: " ")); \(phases(transaction))"
  }

  private static func phases(_ transaction: WireTransaction) -> String {
    func span(_ name: String, _ start: Double?, _ end: Double?) -> String? {
      guard let start, let end else { return nil }
      return "\(name) \(milliseconds(max(0, end - start)))"
    }
    let parts = [
      span("look-up", transaction.domainLookupStartSeconds, transaction.domainLookupEndSeconds),
      span(
        "connect", transaction.connectStartSeconds,
        transaction.secureConnectionStartSeconds ?? transaction.connectEndSeconds),
      span("TLS", transaction.secureConnectionStartSeconds, transaction.secureConnectionEndSeconds),
      span("request", transaction.requestStartSeconds, transaction.requestEndSeconds),
      span("wait", transaction.requestEndSeconds, transaction.responseStartSeconds),
      span("response", transaction.responseStartSeconds, transaction.responseEndSeconds),
      "\(Quantity.bytes(transaction.responseHeaderBytes + transaction.responseBodyBytes)) in",
      "\(Quantity.bytes(transaction.requestHeaderBytes + transaction.requestBodyBytes)) out",
    ]
    return parts.compactMap { $0 }.joined(separator: ", ")
  }

  /// Digits that tell something: "0.12 ms", "34 ms", "2.5 s".
  private static func milliseconds(_ seconds: Double) -> String {
    let value = seconds * 1000
    if value >= 1000 { return Quantity.time(seconds: seconds) }
    if value >= 10 { return "\(Int(value.rounded())) ms" }
    return "\((value * 100).rounded() / 100) ms"
  }

  private static func host(_ address: String) -> String { address.contains(":") ? "[\(address)]" : address }

  /// RFC 8446 section 4.1.2.
  private static func tls(_ version: Int) -> String {
    switch version {
    case 0x0301: "TLS 1.0"
    case 0x0302: "TLS 1.1"
    case 0x0303: "TLS 1.2"
    case 0x0304: "TLS 1.3"
    default: "TLS"
    }
  }
}
