internal import TransferCore

/// What the engine measured, as lines that a person can read: one for each transaction, `name=value` by spaces. The
/// first line counts what was left out and how many redirects were followed.
enum MetricsText {
  static func text(of log: MetricsLog) -> String? {
    if log.isEmpty { return nil }
    var text = "omitted=\(log.omitted) redirects=\(log.redirects)\n"
    for transaction in log.transactions { text += line(of: transaction) + "\n" }
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

  /// The numbers that may be absent, in the order in which they are written.
  private static var spans: [(name: String, member: WritableKeyPath<TransactionMetrics, Int64?>)] {
    [
      ("lookup", \.domainLookupStart), ("lookedUp", \.domainLookupEnd), ("connect", \.connectStart),
      ("secure", \.secureConnectionStart), ("secured", \.secureConnectionEnd), ("connected", \.connectEnd),
      ("request", \.requestStart), ("requested", \.requestEnd), ("response", \.responseStart),
      ("responded", \.responseEnd),
    ]
  }
  private static var numbers: [(name: String, member: WritableKeyPath<TransactionMetrics, Int?>)] {
    [
      ("status", \.status), ("localPort", \.localPort), ("remotePort", \.remotePort), ("tls", \.tlsVersion),
      ("cipher", \.tlsCipherSuite),
    ]
  }
  private static var counts: [(name: String, member: WritableKeyPath<TransactionMetrics, Int64>)] {
    [
      ("sentHeader", \.requestHeaderBytes), ("sentBody", \.requestBodyBytes), ("header", \.responseHeaderBytes),
      ("body", \.responseBodyBytes),
    ]
  }
  private static var texts: [(name: String, member: WritableKeyPath<TransactionMetrics, String?>)] {
    [("protocol", \.networkProtocol), ("local", \.localAddress), ("remote", \.remoteAddress)]
  }

  private static func line(of transaction: TransactionMetrics) -> String {
    var fields = ["start=\(transaction.fetchStart)"]
    for (name, member) in spans { if let value = transaction[keyPath: member] { fields.append("\(name)=\(value)") } }
    for (name, member) in numbers { if let value = transaction[keyPath: member] { fields.append("\(name)=\(value)") } }
    for (name, member) in counts where transaction[keyPath: member] != 0 {
      fields.append("\(name)=\(transaction[keyPath: member])")
    }
    for (name, member) in texts {
      // Nothing that came from outside can end a field: addresses and ALPN's names hold no space.
      if let value = transaction[keyPath: member] { fields.append("\(name)=\(value.filter { $0 > " " })") }
    }
    if transaction.isProxied { fields.append("proxied=1") }
    if transaction.isReused { fields.append("reused=1") }
    fields.append("method=\(transaction.method)")
    // Last, and as it is: a URL of ours holds no space and no line end.
    fields.append("url=\(transaction.url.filter { $0 > " " })")
    return fields.joined(separator: " ")
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
