/// A response once it is known what was asked: the head to send and the part of the content.
struct ResolvedResponse {
  var statusCode: Int
  var headers: HeaderFields
  var range: Range<Int>
  var framing: Response.Framing
  var sendsBody: Bool
  var endsConnection: Bool

  init(_ response: Response, for head: RequestHead?) {
    let total = response.content.byteCount
    statusCode = response.statusCode
    headers = response.headers
    range = 0..<total
    framing = response.framing
    let served = head.map { Self.range(of: response, for: $0, total: total) } ?? .ignored
    switch served {
    case .ignored: break
    case .unsatisfiable:
      statusCode = 416
      range = 0..<0
      headers.setDefault("Content-Range", "bytes */\(total)")
    case .satisfiable(let asked):
      statusCode = 206
      range = response.adjustRange.map { $0(asked).clamped(to: 0..<total) } ?? asked
      let served = Response.ServedRange(range: range, total: total)
      if let value = response.contentRange.map({ $0(served) }) ?? served.contentRange {
        headers.setDefault("Content-Range", value)
      }
    }
    if response.honoursRange && statusCode < 300 && head?.isRetrieval == true {
      headers.setDefault("Accept-Ranges", "bytes")
    }
    // RFC 9110, 15.3.5 and 15.4.5: these have no body.
    let hasBody = !(100..<200).contains(statusCode) && statusCode != 204 && statusCode != 304
    sendsBody = hasBody && head?.method != "HEAD"
    if case .chunked = framing, head?.minorVersion == 0 { framing = .untilClose }
    endsConnection = !response.keepsAlive || !(head?.asksToKeepAlive ?? false)
    if hasBody {
      frame()
    } else {
      framing = .contentLength
    }
    headers.setDefault("Date", HTTPDate.now.description)
    if endsConnection {
      headers.setDefault("Connection", "close")
    } else if head?.minorVersion == 0 {
      headers.setDefault("Connection", "keep-alive")
    }
    for name in response.suppressed { headers.remove(name) }
  }

  private mutating func frame() {
    switch framing {
    case .contentLength: headers.setDefault("Content-Length", String(range.count))
    case .lyingContentLength(let value):
      headers.setDefault("Content-Length", value)
      endsConnection = true
    case .untilClose: endsConnection = true
    case .chunked(_, let terminated):
      headers.setDefault("Transfer-Encoding", "chunked")
      if !terminated { endsConnection = true }
    }
  }

  // RFC 9110, 14.2: only for GET, and only where the answer would be a 200; 13.1.5 for If-Range.
  private static func range(of response: Response, for head: RequestHead, total: Int) -> ByteRange {
    guard response.honoursRange, response.statusCode == 200, head.method == "GET", let field = head.headers["Range"]
    else { return .ignored }
    if response.honoursIfRange, let condition = head.headers["If-Range"] {
      let isEntityTag = condition.hasPrefix("\"") || condition.hasPrefix("W/")
      let current = response.headers[isEntityTag ? "ETag" : "Last-Modified"]
      guard condition == current, !condition.hasPrefix("W/") else { return .ignored }
    }
    return ByteRange(field, length: total)
  }

  func headBytes(reason: String?) -> [UInt8] {
    Self.headBytes(statusCode: statusCode, reason: reason ?? Self.reason(for: statusCode), headers: headers)
  }

  static func headBytes(statusCode: Int, reason: String, headers: HeaderFields) -> [UInt8] {
    var bytes = Array("HTTP/1.1 \(statusCode) \(reason)\r\n".utf8)
    for field in headers.fields {
      bytes += field.name.utf8
      bytes += ": ".utf8
      bytes += field.value.utf8
      bytes += "\r\n".utf8
    }
    bytes += "\r\n".utf8
    return bytes
  }

  static func reason(for statusCode: Int) -> String { reasons[statusCode] ?? "Status" }

  // RFC 9110, 15, and RFC 6585, 8297.
  private static let reasons: [Int: String] = [
    100: "Continue", 103: "Early Hints", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content",
    206: "Partial Content", 301: "Moved Permanently", 302: "Found", 303: "See Other", 304: "Not Modified",
    307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
    404: "Not Found", 405: "Method Not Allowed", 407: "Proxy Authentication Required", 408: "Request Timeout",
    409: "Conflict", 410: "Gone", 411: "Length Required", 412: "Precondition Failed", 413: "Content Too Large",
    416: "Range Not Satisfiable", 417: "Expectation Failed", 421: "Misdirected Request",
    422: "Unprocessable Content", 425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 500: "Internal Server Error",
    501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout",
    505: "HTTP Version Not Supported", 507: "Insufficient Storage", 511: "Network Authentication Required",
  ]
}

extension HeaderFields {
  mutating func setDefault(_ name: String, _ value: String) {
    if self[name] == nil { append(name, value) }
  }
}

extension RequestHead {
  var isRetrieval: Bool { method == "GET" || method == "HEAD" }

  // RFC 9112, 9.3.
  var asksToKeepAlive: Bool {
    let options = headers.values("Connection").flatMap { $0.split(separator: ",") }.map { String($0.trimmingBlanks) }
    if options.contains(where: { $0.equalsIgnoringASCIICase("close") }) { return false }
    return minorVersion > 0 || options.contains { $0.equalsIgnoringASCIICase("keep-alive") }
  }
}
