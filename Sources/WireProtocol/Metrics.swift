package import TransferCore

/// What was measured of a task; in `task.show`, and in the completion of clients that asked for it.
package struct WireMetrics: Codable, Hashable, Sendable {
  /// In their order: each redirect of each attempt is one.
  package var transactions: [WireTransaction]
  /// How many were left out of the middle; absent: none.
  package var omitted: Int64?
  /// Redirects that were followed; absent: none.
  package var redirects: Int64?

  package init(transactions: [WireTransaction] = [], omitted: Int64? = nil, redirects: Int64? = nil) {
    self.transactions = transactions
    self.omitted = omitted
    self.redirects = redirects
  }
}

/// One request and its answer. Spans are seconds since the start; what did not happen is absent.
package struct WireTransaction: Codable, Hashable, Sendable {
  package var url: String
  package var method: String
  package var status: Int?
  /// Milliseconds since 1970, with fractions.
  package var startMilliseconds: Double
  package var domainLookupStartSeconds: Double?
  package var domainLookupEndSeconds: Double?
  package var connectStartSeconds: Double?
  package var secureConnectionStartSeconds: Double?
  package var secureConnectionEndSeconds: Double?
  package var connectEndSeconds: Double?
  package var requestStartSeconds: Double?
  package var requestEndSeconds: Double?
  package var responseStartSeconds: Double?
  package var responseEndSeconds: Double?
  /// "h2", "http/1.1", "http/1.0".
  package var networkProtocol: String?
  package var isProxied: Bool?
  package var isReused: Bool?
  package var requestHeaderBytes: Int64
  package var requestBodyBytes: Int64
  package var responseHeaderBytes: Int64
  package var responseBodyBytes: Int64
  package var localAddress: String?
  package var localPort: Int?
  package var remoteAddress: String?
  package var remotePort: Int?
  /// 771 is TLS 1.2, 772 TLS 1.3.
  package var tlsVersion: Int?
  package var tlsCipherSuite: Int?

  package init(url: String, method: String, startMilliseconds: Double) {
    self.url = url
    self.method = method
    self.startMilliseconds = startMilliseconds
    requestHeaderBytes = 0
    requestBodyBytes = 0
    responseHeaderBytes = 0
    responseBodyBytes = 0
  }
}

extension WireMetrics {
  package init(_ log: MetricsLog) {
    self.init(
      transactions: log.transactions.map(WireTransaction.init), omitted: log.omitted > 0 ? log.omitted : nil,
      redirects: log.redirects > 0 ? log.redirects : nil)
  }
}

extension WireTransaction {
  package init(_ measured: TransactionMetrics) {
    func seconds(_ microseconds: Int64?) -> Double? { microseconds.map { Double($0) / 1_000_000 } }
    self.init(
      url: measured.url, method: measured.method, startMilliseconds: Double(measured.fetchStart) / 1000)
    status = measured.status
    domainLookupStartSeconds = seconds(measured.domainLookupStart)
    domainLookupEndSeconds = seconds(measured.domainLookupEnd)
    connectStartSeconds = seconds(measured.connectStart)
    secureConnectionStartSeconds = seconds(measured.secureConnectionStart)
    secureConnectionEndSeconds = seconds(measured.secureConnectionEnd)
    connectEndSeconds = seconds(measured.connectEnd)
    requestStartSeconds = seconds(measured.requestStart)
    requestEndSeconds = seconds(measured.requestEnd)
    responseStartSeconds = seconds(measured.responseStart)
    responseEndSeconds = seconds(measured.responseEnd)
    networkProtocol = measured.networkProtocol
    isProxied = measured.isProxied ? true : nil
    isReused = measured.isReused ? true : nil
    requestHeaderBytes = measured.requestHeaderBytes
    requestBodyBytes = measured.requestBodyBytes
    responseHeaderBytes = measured.responseHeaderBytes
    responseBodyBytes = measured.responseBodyBytes
    localAddress = measured.localAddress
    localPort = measured.localPort
    remoteAddress = measured.remoteAddress
    remotePort = measured.remotePort
    tlsVersion = measured.tlsVersion
    tlsCipherSuite = measured.tlsCipherSuite
  }
}

extension WireMetrics: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.name("transactions")
      line.list(transactions) { $1.write(to: &$0) }
      line.member("omitted", omitted)
      line.member("redirects", redirects)
    }
  }
}

extension WireTransaction: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("url", url)
      line.member("method", method)
      line.member("status", status.map(Int64.init))
      line.member("startMilliseconds", startMilliseconds)
      line.member("domainLookupStartSeconds", domainLookupStartSeconds)
      line.member("domainLookupEndSeconds", domainLookupEndSeconds)
      line.member("connectStartSeconds", connectStartSeconds)
      line.member("secureConnectionStartSeconds", secureConnectionStartSeconds)
      line.member("secureConnectionEndSeconds", secureConnectionEndSeconds)
      line.member("connectEndSeconds", connectEndSeconds)
      line.member("requestStartSeconds", requestStartSeconds)
      line.member("requestEndSeconds", requestEndSeconds)
      line.member("responseStartSeconds", responseStartSeconds)
      line.member("responseEndSeconds", responseEndSeconds)
      line.member("networkProtocol", networkProtocol)
      line.member("isProxied", isProxied)
      line.member("isReused", isReused)
      line.member("requestHeaderBytes", requestHeaderBytes)
      line.member("requestBodyBytes", requestBodyBytes)
      line.member("responseHeaderBytes", responseHeaderBytes)
      line.member("responseBodyBytes", responseBodyBytes)
      line.member("localAddress", localAddress)
      line.member("localPort", localPort.map(Int64.init))
      line.member("remoteAddress", remoteAddress)
      line.member("remotePort", remotePort.map(Int64.init))
      line.member("tlsVersion", tlsVersion.map(Int64.init))
      line.member("tlsCipherSuite", tlsCipherSuite.map(Int64.init))
    }
  }
}
