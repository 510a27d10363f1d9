internal import TransferCore

/// What the engine measured, as lines that a person can read: one for each transaction, `name=value` by spaces. The
/// first line counts what was left out and how many redirects were followed.
enum MetricsText {
  /// In UTF-8.
  static func text(of log: MetricsLog) -> [UInt8]? {
    if log.isEmpty { return nil }
    var text = Array("omitted=\(log.omitted) redirects=\(log.redirects)\n".utf8)
    for transaction in log.transactions { write(transaction, to: &text) }
    return text
  }

  static func log(of text: String) throws(RowFault) -> MetricsLog {
    var lines = text.split(separator: "\n", omittingEmptySubsequences: true)[...]
    guard let first = lines.popFirst() else { throw RowFault("the metrics are empty") }
    let head = Fields(first)
    var log = MetricsLog(omitted: try head.count("omitted"), redirects: try head.count("redirects"))
    guard lines.count <= Limits.transactions else { throw RowFault("the metrics have too many lines") }
    for line in lines { log.transactions.append(try transaction(of: Fields(line))) }
    return log
  }

  // MARK: One transaction

  private typealias Members<Value> = [(
    name: String, member: any WritableKeyPath<TransactionMetrics, Value> & Sendable
  )]

  /// The numbers that may be absent.
  private static let spans: Members<Int64?> = [
    ("lookup", \.domainLookupStart), ("lookedUp", \.domainLookupEnd), ("connect", \.connectStart),
    ("secure", \.secureConnectionStart), ("secured", \.secureConnectionEnd), ("connected", \.connectEnd),
    ("request", \.requestStart), ("requested", \.requestEnd), ("response", \.responseStart),
    ("responded", \.responseEnd),
  ]
  private static let numbers: Members<Int?> = [
    ("status", \.status), ("localPort", \.localPort), ("remotePort", \.remotePort), ("tls", \.tlsVersion),
    ("cipher", \.tlsCipherSuite),
  ]
  private static let counts: Members<Int64> = [
    ("sentHeader", \.requestHeaderBytes), ("sentBody", \.requestBodyBytes), ("header", \.responseHeaderBytes),
    ("body", \.responseBodyBytes),
  ]
  private static let texts: Members<String?> = [
    ("protocol", \.networkProtocol), ("local", \.localAddress), ("remote", \.remoteAddress),
  ]

  /// Member by member, and as bytes: each look through a key path copies the whole, and this is written for each task.
  private static func write(_ transaction: TransactionMetrics, to text: inout [UInt8]) {
    func write(_ name: StaticString, _ value: String?, end: UInt8 = 0x20) {
      guard let value else { return }
      name.withUTF8Buffer { unsafe text.append(contentsOf: $0) }
      text.append(UInt8(ascii: "="))
      text.append(contentsOf: value.utf8)
      text.append(end)
    }
    func write(_ name: StaticString, _ value: Int64?) { write(name, value.map { String($0) }) }
    func write(_ name: StaticString, _ value: Int?) { write(name, value.map { Int64($0) }) }
    func write(_ name: StaticString, count: Int64) { if count != 0 { write(name, count) } }
    text.reserveCapacity(text.count + transaction.url.utf8.count + 384)
    write("start", transaction.fetchStart)
    write("lookup", transaction.domainLookupStart)
    write("lookedUp", transaction.domainLookupEnd)
    write("connect", transaction.connectStart)
    write("secure", transaction.secureConnectionStart)
    write("secured", transaction.secureConnectionEnd)
    write("connected", transaction.connectEnd)
    write("request", transaction.requestStart)
    write("requested", transaction.requestEnd)
    write("response", transaction.responseStart)
    write("responded", transaction.responseEnd)
    write("status", transaction.status)
    write("localPort", transaction.localPort)
    write("remotePort", transaction.remotePort)
    write("tls", transaction.tlsVersion)
    write("cipher", transaction.tlsCipherSuite)
    write("sentHeader", count: transaction.requestHeaderBytes)
    write("sentBody", count: transaction.requestBodyBytes)
    write("header", count: transaction.responseHeaderBytes)
    write("body", count: transaction.responseBodyBytes)
    // Nothing that came from outside can end a field: addresses and ALPN's names hold no space.
    write("protocol", transaction.networkProtocol.map(unbroken))
    write("local", transaction.localAddress.map(unbroken))
    write("remote", transaction.remoteAddress.map(unbroken))
    if transaction.isProxied { write("proxied", "1") }
    if transaction.isReused { write("reused", "1") }
    write("method", transaction.method)
    // Last, and as it is: a URL of ours holds no space and no line end.
    write("url", unbroken(transaction.url), end: 0x0A)
  }

  /// The text, without spaces and line ends where it has any.
  private static func unbroken(_ text: String) -> String {
    text.utf8.allSatisfy { $0 > 0x20 } ? text : text.filter { $0 > " " }
  }

  private static func transaction(of fields: Fields) throws(RowFault) -> TransactionMetrics {
    var transaction = TransactionMetrics(
      url: try fields.text("url"), method: try fields.text("method"), fetchStart: try fields.integer("start"))
    for (name, member) in spans where fields.has(name) { transaction[keyPath: member] = try fields.integer(name) }
    for (name, member) in numbers where fields.has(name) {
      transaction[keyPath: member] = Int(clamping: try fields.integer(name))
    }
    for (name, member) in counts where fields.has(name) { transaction[keyPath: member] = try fields.count(name) }
    for (name, member) in texts where fields.has(name) { transaction[keyPath: member] = try fields.text(name) }
    transaction.isProxied = fields.has("proxied")
    transaction.isReused = fields.has("reused")
    return transaction
  }

  private struct Fields {
    var pairs: [(name: Substring, value: Substring)] = []

    init(_ line: Substring) {
      for field in line.split(separator: " ") {
        guard let sign = field.utf8.firstIndex(of: UInt8(ascii: "=")) else { continue }
        pairs.append((field[..<sign], field[field.utf8.index(after: sign)...]))
      }
    }

    func has(_ name: String) -> Bool { pairs.contains { $0.name == name } }

    func text(_ name: String) throws(RowFault) -> String {
      guard let pair = pairs.first(where: { $0.name == name }) else { throw RowFault("the metrics lack \(name)") }
      return String(pair.value)
    }

    func integer(_ name: String) throws(RowFault) -> Int64 {
      guard let value = Int64(try text(name)) else { throw RowFault("the metrics' \(name) is no number") }
      return value
    }

    func count(_ name: String) throws(RowFault) -> Int64 {
      let value = try integer(name)
      guard value >= 0 else { throw RowFault("the metrics' \(name) is negative") }
      return value
    }
  }
}
