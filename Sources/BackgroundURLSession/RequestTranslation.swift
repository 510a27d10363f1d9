#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import WireProtocol

  /// Between Foundation's requests and responses and the wire's. Own code, because FoundationNetworking's archives of
  /// both lose or crash on what they hold.
  enum RequestTranslation {
    /// What a request's `timeoutInterval` is when nobody set it.
    static let unsetTimeoutSeconds: TimeInterval = 60

    /// The task that `request` asks for, under `configuration`; nil when the request has no URL.
    static func specification(
      kind: String, request: URLRequest, source: URL?, configuration: URLSessionConfiguration
    ) -> WireTaskSpecification? {
      guard let url = request.url else { return nil }
      var task = WireTaskSpecification(kind: kind, url: url.absoluteString)
      task.method = request.httpMethod ?? "GET"
      let headers = headers(of: request, url: url, configuration: configuration)
      task.headers = headers.isEmpty ? nil : headers
      // Authorization and Cookie are secret without being named (docs/Protocol.md).
      let secrets = headers.map(\.name).filter { $0.lowercased() == "proxy-authorization" }
      task.secretHeaders = secrets.isEmpty ? nil : secrets
      task.source = source?.absoluteURL.path
      // An upload's body is its file; the header says that the request's own is ignored.
      if source == nil, let body = request.httpBody, !body.isEmpty { task.body = body.base64EncodedString() }
      task.statusRule = "any"
      task.requestTimeoutSeconds =
        request.timeoutInterval == unsetTimeoutSeconds
        ? configuration.timeoutIntervalForRequest : request.timeoutInterval
      task.resourceTimeoutSeconds = configuration.timeoutIntervalForResource
      task.isDiscretionary = configuration.isDiscretionary
      let requires = requires(of: request, under: configuration)
      task.requires = requires.isEmpty ? nil : requires
      task.isSuspended = true
      task.addsIdempotencyKey = false
      task.key = UUID().uuidString
      // Counts for tasks that are given an `earliestBeginDate`.
      task.asksBeforeBegin = true
      return task
    }

    /// The networks that a task must not use. A request may forbid what its configuration allows, not the other way.
    static func requires(of request: URLRequest, under configuration: URLSessionConfiguration) -> [String] {
      var names: [String] = []
      let allowsExpensive = configuration.allowsExpensiveNetworkAccess && request.allowsExpensiveNetworkAccess
      // Nothing on Linux tells a cellular network from another expensive one.
      let allowsCellular = configuration.allowsCellularAccess && request.allowsCellularAccess
      if !allowsExpensive || !allowsCellular { names.append("unmetered") }
      if !configuration.allowsConstrainedNetworkAccess || !request.allowsConstrainedNetworkAccess
        || !configuration.allowsUltraConstrainedNetworkAccess
      {
        names.append("unconstrained")
      }
      return names
    }

    /// The daemon judges lengths itself; but a message beyond its bound would cost the connection.
    static func fitsMessage(_ task: WireTaskSpecification) -> Bool {
      let headers = (task.headers ?? []).reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
      // JSON can need six bytes for one.
      return (task.url.utf8.count + headers) * 6 + (task.body?.utf8.count ?? 0) < WireLimits.messageBytes
    }

    /// The configuration's headers, over them the cookies, over them the request's own; one line a name, in the order
    /// of the names so that equal requests look equal on the wire.
    static func headers(of request: URLRequest, url: URL, configuration: URLSessionConfiguration) -> [WireHeader] {
      var lines: [String: WireHeader] = [:]
      func set(_ name: String, _ value: String) { lines[name.lowercased()] = WireHeader(name: name, value: value) }
      for (name, value) in configuration.httpAdditionalHeaders ?? [:] { set("\(name.base)", "\(value)") }
      if configuration.httpShouldSetCookies, request.httpShouldHandleCookies,
        let cookies = configuration.httpCookieStorage?.cookies(for: url), !cookies.isEmpty
      {
        for (name, value) in HTTPCookie.requestHeaderFields(with: cookies) { set(name, value) }
      }
      for (name, value) in request.allHTTPHeaderFields ?? [:] where name != URLRequest.forbiddenNetworksField {
        set(name, value)
      }
      return lines.sorted { $0.key < $1.key }.map(\.value)
    }

    /// The request of a task that an earlier process made. Secrets and the body stay with the daemon.
    static func request(of task: TaskSnapshot, isCurrent: Bool) -> URLRequest? {
      guard let url = URL(string: isCurrent ? task.currentURL ?? task.url : task.url) else { return nil }
      var request = URLRequest(url: url)
      request.httpMethod = task.method
      for header in task.headers ?? [] where header.value != "<redacted>" {
        request.addValue(header.value, forHTTPHeaderField: header.name)
      }
      return request
    }

    /// Lines of one name are joined by a comma (RFC 9110 section 5.3), as Foundation's type has one value a name.
    static func response(_ wire: WireResponse) -> HTTPURLResponse? {
      guard let url = URL(string: wire.url) else { return nil }
      var fields: [String: String] = [:]
      var spelling: [String: String] = [:]
      for header in wire.headers {
        let name = spelling[header.name.lowercased()] ?? header.name
        spelling[header.name.lowercased()] = name
        fields[name] = fields[name].map { "\($0), \(header.value)" } ?? header.value
      }
      return HTTPURLResponse(
        url: url, statusCode: wire.status, httpVersion: wire.httpVersion, headerFields: fields)
    }

    /// Milliseconds since 1970.
    static func milliseconds(of date: Date) -> Int64 {
      let milliseconds = (date.timeIntervalSince1970 * 1000).rounded()
      return Int64(exactly: min(max(milliseconds, 0), 253_402_300_799_000)) ?? 0
    }

    /// The environment's view of the network with what the configuration says over it.
    static func apply(_ configuration: URLSessionConfiguration, to network: inout WireNetwork) {
      network.maximumConnectionsPerHost = max(1, configuration.httpMaximumConnectionsPerHost)
      guard let dictionary = configuration.connectionProxyDictionary else { return }
      func proxy(_ scheme: String) -> String? {
        guard dictionary["\(scheme)Enable"].map({ "\($0)" == "1" || "\($0)" == "true" }) ?? true,
          let host = dictionary["\(scheme)Proxy"] as? String, !host.isEmpty
        else { return nil }
        return dictionary["\(scheme)Port"].map { "http://\(host):\($0)" } ?? "http://\(host)"
      }
      // A dictionary that names no proxy turns the environment's off, as an empty one does on Apple's systems.
      network.httpProxy = proxy("HTTP")
      network.httpsProxy = proxy("HTTPS")
      network.noProxy = (dictionary["ExceptionsList"] as? [String])?.joined(separator: ",")
    }
  }
#endif
