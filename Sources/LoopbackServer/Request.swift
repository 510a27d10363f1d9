/// What a request says before its body.
public struct RequestHead: Sendable {
  /// The method as sent.
  public let method: String
  /// The request target as sent: origin form, or absolute form as proxies get it.
  public let target: String
  /// The target's path as sent, still percent-encoded; without scheme, host and query.
  public let path: String
  /// The text after the first `?` of the target, as sent; nil when there is no `?`.
  public let query: String?
  /// 1 for HTTP/1.1, 0 for HTTP/1.0.
  public let minorVersion: Int
  /// The header fields in order.
  public let headers: HeaderFields
  /// Which connection to this server it came on, counted from 1.
  public let connectionNumber: Int
  /// Which request of that connection it is, counted from 1.
  public let requestNumber: Int
  /// When the head had arrived.
  public let receivedAt: ContinuousClock.Instant

  init(
    method: String, target: String, minorVersion: Int, headers: HeaderFields, connectionNumber: Int,
    requestNumber: Int
  ) {
    self.method = method
    self.target = target
    self.minorVersion = minorVersion
    self.headers = headers
    self.connectionNumber = connectionNumber
    self.requestNumber = requestNumber
    receivedAt = .now
    var rest = target[...]
    if !target.hasPrefix("/"), let colon = target.range(ofText: "://") {
      rest = rest[colon.upperBound...]
      rest = rest[(rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex)...]
    }
    if let mark = rest.firstIndex(of: "?") {
      path = mark == rest.startIndex ? "/" : String(rest[..<mark])
      query = String(rest[rest.index(after: mark)...])
    } else {
      path = rest.isEmpty ? "/" : String(rest)
      query = nil
    }
  }

  /// The query's `name=value` pairs in order, percent-decoded, `+` as a space; a name alone has the value "".
  public var queryItems: [(name: String, value: String)] {
    (query ?? "").split(separator: "&").map { pair in
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return (parts[0].percentDecoded, parts.count > 1 ? parts[1].percentDecoded : "")
    }
  }

  /// The decoded value of the first query item called `name`.
  public func queryValue(_ name: String) -> String? { queryItems.first { $0.name == name }?.value }
}

/// A request as the server recorded it.
public struct Request: Sendable {
  /// Everything before the body.
  public let head: RequestHead
  /// The body, if it fits `Configuration.recordedBodyByteLimit`; otherwise its beginning, up to that limit.
  public internal(set) var body: [UInt8] = []
  /// How many bytes of body have arrived, after chunked coding was undone.
  public internal(set) var bodyByteCount = 0
  /// FNV-1a of all the bytes of body that have arrived.
  public internal(set) var bodyDigest = FNV1a()
  /// Whether the whole body has arrived; true also for a request without one.
  public internal(set) var isBodyComplete = false

  init(head: RequestHead) { self.head = head }

  /// See ``RequestHead/method``.
  public var method: String { head.method }
  /// See ``RequestHead/target``.
  public var target: String { head.target }
  /// See ``RequestHead/path``.
  public var path: String { head.path }
  /// See ``RequestHead/query``.
  public var query: String? { head.query }
  /// See ``RequestHead/headers``.
  public var headers: HeaderFields { head.headers }
  /// See ``RequestHead/connectionNumber``.
  public var connectionNumber: Int { head.connectionNumber }
  /// See ``RequestHead/requestNumber``.
  public var requestNumber: Int { head.requestNumber }
  /// See ``RequestHead/receivedAt``.
  public var receivedAt: ContinuousClock.Instant { head.receivedAt }
  /// See ``RequestHead/queryValue(_:)``.
  public func queryValue(_ name: String) -> String? { head.queryValue(name) }
  /// The recorded body as UTF-8 text; what is not UTF-8 is replaced by U+FFFD.
  public var bodyText: String { String(decoding: body, as: UTF8.self) }

  mutating func receive(_ bytes: UnsafeRawBufferPointer, limit: Int) {
    unsafe bodyDigest.update(bytes)
    bodyByteCount += bytes.count
    let room = min(max(0, limit - body.count), bytes.count)
    if room > 0 { unsafe body.append(contentsOf: bytes[..<room]) }
  }
}

/// What to do with the body of a request, decided when only its head has arrived.
public enum BodyPlan: Sendable {
  /// Read it as fast as it comes, then ask the handler.
  case read
  /// Read `bytes`, wait, read `bytes` …: backpressure. What the kernel buffers is not held back
  /// (`Configuration.receiveBufferByteCount` makes that small).
  case throttled(bytes: Int, every: Duration)
  /// Read this many bytes of body, then end the connection in order, without an answer.
  case cut(afterBytes: Int)
  /// Read this many bytes of body, then reset the connection.
  case reset(afterBytes: Int)
  /// Read this many bytes of body, then nothing more until the gate opens or the client leaves; without a gate until
  /// the client leaves or the server stops.
  case stall(afterBytes: Int, until: Gate? = nil)
  /// Read this many bytes of body, then answer without reading the rest, and end the connection.
  case respondEarly(Response, afterBytes: Int = 0)
}

/// One answered, or deliberately unanswered, request.
public struct Exchange: Sendable {
  /// How an exchange ended.
  public enum End: String, Sendable {
    /// The response was sent to its end.
    case complete
    /// The response (or the reading of the request's body) was cut as scripted.
    case cut
    /// The connection was reset as scripted.
    case reset
    /// Something that is not a response, or nothing at all, was sent as scripted.
    case unanswered
    /// The client left first.
    case clientLeft = "client-left"
    /// The bytes received are no HTTP/1 request; the answer was a 4xx or 5xx status.
    case badRequest = "bad-request"
    /// The server was stopped meanwhile.
    case stopped
  }

  /// The request's head; nil when it could not be understood.
  public let request: RequestHead?
  /// The status sent; nil when no response was begun.
  public let statusCode: Int?
  /// How many bytes of response body were handed to the kernel, without the framing of chunked coding.
  public let bodyBytesSent: Int
  /// How it ended.
  public let end: End
}

extension StringProtocol {
  /// Undoes `%41` and `+`; what is not a valid escape stays as it is.
  var percentDecoded: String {
    var decoded: [UInt8] = []
    let bytes = Array(utf8)
    var index = 0
    while index < bytes.count {
      if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count,
        let high = bytes[index + 1].hexDigitValue, let low = bytes[index + 2].hexDigitValue
      {
        decoded.append(high << 4 | low)
        index += 3
      } else {
        decoded.append(bytes[index] == UInt8(ascii: "+") ? UInt8(ascii: " ") : bytes[index])
        index += 1
      }
    }
    return String(decoding: decoded, as: UTF8.self)
  }

  func range(ofText text: String) -> Range<Index>? {
    var start = startIndex
    while start < endIndex {
      let rest = self[start...]
      if rest.hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
      start = index(after: start)
    }
    return nil
  }
}

extension UInt8 {
  var hexDigitValue: UInt8? {
    switch self {
    case 0x30...0x39: self - 0x30
    case 0x41...0x46: self - 0x37
    case 0x61...0x66: self - 0x57
    default: nil
    }
  }
}
