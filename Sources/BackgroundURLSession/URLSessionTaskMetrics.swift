#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking
  internal import Synchronization
  internal import WireProtocol

  /// What was measured of a task, all its attempts and redirects together.
  ///
  /// In background sessions the daemon measures, and a later process gets what was measured while none ran. Of a task
  /// that was tried very often the middle is left out: the first and the last eight transactions are there. A task
  /// whose answer did not come from an HTTP server (a `URLProtocol`, a `file:` or `data:` URL) has none.
  public class URLSessionTaskMetrics: NSObject, @unchecked Sendable {
    /// Where a response came from.
    public enum ResourceFetchType: Int, Sendable {
      /// Not known.
      case unknown = 0
      /// From the server, over the network. Always so: there is no cache.
      case networkLoad = 1
      /// Pushed by the server before it was asked for. Never here.
      case serverPush = 2
      /// From a cache. Never here.
      case localCache = 3
    }

    /// How a host's name became an address.
    public enum DomainResolutionProtocol: Int, Sendable {
      /// Not known: the system's resolver does not tell.
      case unknown = 0
      /// Plain DNS over UDP.
      case udp = 1
      /// Plain DNS over TCP.
      case tcp = 2
      /// DNS over TLS.
      case tls = 3
      /// DNS over HTTPS.
      case https = 4
    }

    /// In the order in which they began: each redirect of each attempt is one. Attempts that the program itself ended
    /// (by pausing, say) are not among them.
    public let transactionMetrics: [URLSessionTaskTransactionMetrics]
    /// From the task's creation to its end.
    public let taskInterval: DateInterval
    /// Redirects that were followed.
    public let redirectCount: Int

    init(_ wire: WireMetrics, of task: URLSessionTask, from start: Date, to end: Date) {
      let fields = task.fields.withLock { $0 }
      transactionMetrics = wire.transactions.enumerated().map { index, transaction in
        URLSessionTaskTransactionMetrics(transaction, of: fields, isLast: index == wire.transactions.count - 1)
      }
      // The wall clock may have been set back meanwhile.
      taskInterval = DateInterval(start: start, end: max(start, end))
      redirectCount = Int(clamping: wire.redirects ?? 0)
      super.init()
    }
  }

  /// What was measured of one request and its response. A date is nil where the thing did not happen: on a connection
  /// that was used before there was no look-up, no connecting and no TLS handshake.
  public class URLSessionTaskTransactionMetrics: NSObject, @unchecked Sendable {
    /// The request: URL and method as they went out, header fields as the program gave them for the first URL.
    public let request: URLRequest
    /// The response's head. Its fields are those of the response whose body was taken, and none for others, of which
    /// only the status is kept.
    public let response: URLResponse?
    /// When this request was begun with.
    public let fetchStartDate: Date?
    /// The look-up of the host's name.
    public let domainLookupStartDate: Date?
    /// The end of the look-up.
    public let domainLookupEndDate: Date?
    /// The begin of connecting.
    public let connectStartDate: Date?
    /// The begin of the TLS handshake; nil for plain HTTP.
    public let secureConnectionStartDate: Date?
    /// The end of the TLS handshake.
    public let secureConnectionEndDate: Date?
    /// The connection was there, its TLS handshake included.
    public let connectEndDate: Date?
    /// The first byte of the request was about to be sent.
    public let requestStartDate: Date?
    /// The last byte of the request's body was handed to the system; without a body the same as the start.
    public let requestEndDate: Date?
    /// The first byte of the response arrived.
    public let responseStartDate: Date?
    /// The last byte of the response arrived, or the connection ended.
    public let responseEndDate: Date?
    /// "h2", "http/1.1" or "http/1.0"; nil without a response.
    public let networkProtocolName: String?
    /// The request went through a proxy.
    public let isProxyConnection: Bool
    /// The connection had been used before.
    public let isReusedConnection: Bool
    /// Always `.networkLoad`: there is no cache.
    public let resourceFetchType: URLSessionTaskMetrics.ResourceFetchType
    /// Bytes of the request's head.
    public let countOfRequestHeaderBytesSent: Int64
    /// Bytes of the request's body that were sent.
    public let countOfRequestBodyBytesSent: Int64
    /// The same as ``countOfRequestBodyBytesSent``: bodies are sent as they are.
    public let countOfRequestBodyBytesBeforeEncoding: Int64
    /// Bytes of the response's head, interim responses and a proxy's answer included.
    public let countOfResponseHeaderBytesReceived: Int64
    /// Bytes of the response's body as they came.
    public let countOfResponseBodyBytesReceived: Int64
    /// Bytes of the body after its content encoding was undone.
    public let countOfResponseBodyBytesAfterDecoding: Int64
    /// This machine's address, without the port.
    public let localAddress: String?
    /// This machine's port.
    public let localPort: Int?
    /// The server's, or the proxy's, address.
    public let remoteAddress: String?
    /// The server's, or the proxy's, port.
    public let remotePort: Int?
    /// The TLS version; nil without TLS, and where FoundationNetworking has no name for it.
    public let negotiatedTLSProtocolVersion: tls_protocol_version_t?
    /// The TLS cipher suite; nil without TLS, and where FoundationNetworking has no name for it.
    public let negotiatedTLSCipherSuite: tls_ciphersuite_t?
    /// Always false: not known on Linux.
    public let isCellular = false
    /// Always false: what the network costs is not measured by transaction.
    public let isExpensive = false
    /// Always false: what the network costs is not measured by transaction.
    public let isConstrained = false
    /// Always false: multipath TCP is not used.
    public let isMultipath = false
    /// Always `.unknown`.
    public let domainResolutionProtocol = URLSessionTaskMetrics.DomainResolutionProtocol.unknown

    init(_ wire: WireTransaction, of task: TaskFields, isLast: Bool) {
      let start = wire.startMilliseconds / 1000
      func date(_ seconds: Double?) -> Date? { seconds.map { Date(timeIntervalSince1970: start + $0) } }
      request = Self.request(wire, task.originalRequest)
      response = Self.response(wire, of: task, isLast: isLast)
      fetchStartDate = date(0)
      domainLookupStartDate = date(wire.domainLookupStartSeconds)
      domainLookupEndDate = date(wire.domainLookupEndSeconds)
      connectStartDate = date(wire.connectStartSeconds)
      secureConnectionStartDate = date(wire.secureConnectionStartSeconds)
      secureConnectionEndDate = date(wire.secureConnectionEndSeconds)
      connectEndDate = date(wire.connectEndSeconds)
      requestStartDate = date(wire.requestStartSeconds)
      requestEndDate = date(wire.requestEndSeconds)
      responseStartDate = date(wire.responseStartSeconds)
      responseEndDate = date(wire.responseEndSeconds)
      networkProtocolName = wire.networkProtocol
      isProxyConnection = wire.isProxied ?? false
      isReusedConnection = wire.isReused ?? false
      resourceFetchType = .networkLoad
      countOfRequestHeaderBytesSent = wire.requestHeaderBytes
      countOfRequestBodyBytesSent = wire.requestBodyBytes
      countOfRequestBodyBytesBeforeEncoding = wire.requestBodyBytes
      countOfResponseHeaderBytesReceived = wire.responseHeaderBytes
      countOfResponseBodyBytesReceived = wire.responseBodyBytes
      // Only a body that came whole in this transaction can be compared with the file.
      let head = task.response as? HTTPURLResponse
      let isEncoded = head?.value(forHTTPHeaderField: "Content-Encoding") != nil
      countOfResponseBodyBytesAfterDecoding =
        isLast && isEncoded && wire.status == 200 ? task.received : wire.responseBodyBytes
      localAddress = wire.localAddress
      localPort = wire.localPort
      remoteAddress = wire.remoteAddress
      remotePort = wire.remotePort
      negotiatedTLSProtocolVersion =
        wire.tlsVersion.flatMap { UInt16(exactly: $0) }.flatMap(tls_protocol_version_t.init(rawValue:))
      negotiatedTLSCipherSuite =
        wire.tlsCipherSuite.flatMap { UInt16(exactly: $0) }.flatMap(tls_ciphersuite_t.init(rawValue:))
      super.init()
    }

    private static func request(_ wire: WireTransaction, _ original: URLRequest?) -> URLRequest {
      let url = URL(string: wire.url) ?? original?.url ?? URL(fileURLWithPath: "/")
      var request = original ?? URLRequest(url: url)
      request.url = url
      request.httpMethod = wire.method
      return request
    }

    private static func response(_ wire: WireTransaction, of task: TaskFields, isLast: Bool) -> URLResponse? {
      guard let status = wire.status else { return nil }
      if isLast, let head = task.response as? HTTPURLResponse, head.statusCode == status { return head }
      let version = wire.networkProtocol.map { $0 == "h2" ? "HTTP/2.0" : $0.uppercased() }
      return URL(string: wire.url).flatMap {
        HTTPURLResponse(url: $0, statusCode: status, httpVersion: version, headerFields: nil)
      }
    }
  }
#endif
