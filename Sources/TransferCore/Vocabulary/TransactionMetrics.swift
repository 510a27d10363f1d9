/// What the engine measured of one request and its answer. The core carries it and looks at nothing of it.
///
/// Spans are microseconds since `fetchStart`; nil: it did not happen, or not in this transaction.
package struct TransactionMetrics: Hashable, Sendable {
  package var url: String
  package var method: String
  /// Of the answer; nil where none came.
  package var status: Int?
  /// Microseconds since 1970.
  package var fetchStart: Int64
  package var domainLookupStart: Int64?
  package var domainLookupEnd: Int64?
  package var connectStart: Int64?
  package var secureConnectionStart: Int64?
  package var secureConnectionEnd: Int64?
  /// TLS included.
  package var connectEnd: Int64?
  package var requestStart: Int64?
  package var requestEnd: Int64?
  package var responseStart: Int64?
  package var responseEnd: Int64?
  /// "h2", "http/1.1", "http/1.0" (ALPN's names); nil where no answer came.
  package var networkProtocol: String?
  package var isProxied = false
  package var isReused = false
  /// Bytes on the wire, without TLS.
  package var requestHeaderBytes: Int64 = 0
  package var requestBodyBytes: Int64 = 0
  package var responseHeaderBytes: Int64 = 0
  package var responseBodyBytes: Int64 = 0
  package var localAddress: String?
  package var localPort: Int?
  package var remoteAddress: String?
  package var remotePort: Int?
  /// The number of the TLS version on the wire (RFC 8446 section 4.1.2): 0x0304 is TLS 1.3.
  package var tlsVersion: Int?
  /// The number of the cipher suite (IANA's registry).
  package var tlsCipherSuite: Int?

  package init(url: String, method: String, fetchStart: Int64) {
    self.url = url
    self.method = method
    self.fetchStart = fetchStart
  }
}

/// A task's transactions in their order: each hop of each attempt that ended by itself.
package struct MetricsLog: Hashable, Sendable {
  package var transactions: [TransactionMetrics]
  /// How many were left out of the middle, see ``Limits/transactions``.
  package var omitted: Int64
  /// Redirects that were followed.
  package var redirects: Int64

  package init(transactions: [TransactionMetrics] = [], omitted: Int64 = 0, redirects: Int64 = 0) {
    self.transactions = transactions
    self.omitted = omitted
    self.redirects = redirects
  }

  package var isEmpty: Bool { transactions.isEmpty && omitted == 0 && redirects == 0 }

  /// The first ones tell how it began, the last ones how it ended.
  mutating func append(_ transaction: TransactionMetrics) {
    if transactions.count >= Limits.transactions {
      transactions.remove(at: Limits.transactions / 2)
      omitted = omitted.addingClamped(1)
    }
    transactions.append(transaction)
  }
}
