/// A response as a script: a value made by ``text(_:)``, ``generated(length:seed:)`` and the like, then changed by
/// modifiers, which can make it lie, dawdle and break off.
///
/// ```swift
/// .generated(length: 1_000_000, seed: 7).etag("\"a\"").cut(afterBytes: 300_000)
/// ```
/// Positions in the body count the bytes of this response, without the framing of chunked coding; for a 206 they
/// count from the first byte of the range. Header names and values are sent as given, without any check.
public struct Response: Sendable {
  enum Content: Sendable {
    case bytes([UInt8])
    case generated(GeneratedContent)

    var byteCount: Int {
      switch self {
      case .bytes(let bytes): bytes.count
      case .generated(let content): content.length
      }
    }
  }

  enum Framing: Sendable, Equatable {
    case contentLength
    case lyingContentLength(String)
    case untilClose
    case chunked(byteCount: Int, terminated: Bool)
  }

  enum Mark: Sendable {
    case cut
    case reset
    case stall(Gate?)
    case call(@Sendable () -> Void)
  }

  /// Everything before the response's own head that replaces or delays it.
  enum Prelude: Sendable {
    case hold(Gate)
    case delay(Duration)
    case informational(Int, HeaderFields)
  }

  var statusCode = 200
  var reason: String?
  var headers = HeaderFields()
  var suppressed: [String] = []
  var content = Content.bytes([])
  var framing = Framing.contentLength
  /// Sent instead of a response; nil means that a response is sent.
  var raw: [UInt8]?
  var honoursRange = true
  var honoursIfRange = true
  var contentRange: (@Sendable (ServedRange) -> String?)?
  var adjustRange: (@Sendable (Range<Int>) -> Range<Int>)?
  var preludes: [Prelude] = []
  var marks: [(position: Int, mark: Mark)] = []
  var throttle: (byteCount: Int, interval: Duration)?
  var keepsAlive = true

  init() {}

  /// A range that is being served: what a closure that lies about it gets.
  public struct ServedRange: Sendable, Equatable {
    /// The bytes that will be sent.
    public let range: Range<Int>
    /// The length of the whole content.
    public let total: Int

    /// The true value of Content-Range.
    public var contentRange: String { "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total)" }
  }

  // MARK: Responses

  /// 200 with `text` as `text/plain; charset=utf-8`.
  public static func text(_ text: String) -> Response {
    bytes(Array(text.utf8)).header("Content-Type", "text/plain; charset=utf-8")
  }

  /// 200 with these bytes. Ranges are served.
  public static func bytes(_ bytes: [UInt8]) -> Response {
    var response = Response()
    response.content = .bytes(bytes)
    return response
  }

  /// 200 with ``GeneratedContent`` of `length` bytes, made while it is sent. Ranges are served.
  public static func generated(length: Int, seed: UInt64 = 1) -> Response {
    var response = Response()
    response.content = .generated(GeneratedContent(length: length, seed: seed))
    return response
  }

  /// An empty response with this status.
  public static func status(_ code: Int) -> Response { Response().status(code) }

  /// An empty response that points to `location`.
  public static func redirect(to location: String, status: Int = 302) -> Response {
    .status(status).header("Location", location)
  }

  /// Nothing: the connection ends in order after the request was read.
  public static func closeWithoutAnswer() -> Response { garbage([]) }

  /// Nothing: the connection is reset after the request was read.
  public static func resetWithoutAnswer() -> Response {
    garbage([]).reset(afterBytes: 0)
  }

  /// These bytes instead of a response, then the end of the connection.
  public static func garbage(_ bytes: [UInt8]) -> Response {
    var response = Response()
    response.raw = bytes
    return response
  }

  private func with(_ change: (inout Response) -> Void) -> Response {
    var copy = self
    change(&copy)
    return copy
  }

  // MARK: Head

  /// With this status. Ranges are only served by a 200.
  public func status(_ code: Int, reason: String? = nil) -> Response {
    with {
      $0.statusCode = code
      $0.reason = reason
    }
  }

  /// With this field in place of those of the same name, the server's own included.
  public func header(_ name: String, _ value: String) -> Response { with { $0.headers.set(name, value) } }

  /// With this field besides those of the same name.
  public func addingHeader(_ name: String, _ value: String) -> Response { with { $0.headers.append(name, value) } }

  /// Without any field of this name, the server's own included.
  public func withoutHeader(_ name: String) -> Response {
    with {
      $0.headers.remove(name)
      $0.suppressed.append(name)
    }
  }

  /// With this ETag, quotation marks included: `"\"a\""`, or `"W/\"a\""` for a weak one.
  public func etag(_ value: String) -> Response { header("ETag", value) }

  /// With this Last-Modified.
  public func lastModified(_ date: HTTPDate) -> Response { header("Last-Modified", date.description) }

  /// With this Date in place of the true one.
  public func date(_ date: HTTPDate) -> Response { header("Date", date.description) }

  /// With these bytes, already encoded by the caller, as the body, and Content-Encoding `coding`.
  public func contentEncoding(_ coding: String, bytes: [UInt8]) -> Response {
    with {
      $0.content = .bytes(bytes)
      $0.headers.set("Content-Encoding", coding)
    }
  }

  /// With an interim response (103 Early Hints, say) before it; HTTP/1.0 clients do not get it.
  public func informational(_ code: Int, _ headers: HeaderFields = [:]) -> Response {
    with { $0.preludes.append(.informational(code, headers)) }
  }

  /// Whether the connection may serve another request; false sends `Connection: close` and ends it.
  public func keepAlive(_ keepsAlive: Bool) -> Response { with { $0.keepsAlive = keepsAlive } }

  // MARK: Ranges and their lies

  /// Answers 200 with everything whatever range is asked for, and without Accept-Ranges.
  public func ignoringRange() -> Response { with { $0.honoursRange = false } }

  /// Serves the range whatever If-Range says.
  public func ignoringIfRange() -> Response { with { $0.honoursIfRange = false } }

  /// A 206 carries this Content-Range, whatever bytes it has.
  public func contentRange(lying value: String) -> Response { contentRange { _ in value } }

  /// A 206 carries the Content-Range that `lie` makes of the true one; nil leaves it out.
  public func contentRange(lying lie: @escaping @Sendable (ServedRange) -> String?) -> Response {
    with { $0.contentRange = lie }
  }

  /// A 206 serves what `adjust` makes of the range asked for (clamped to the content), with a true Content-Range:
  /// a cache that aligns to blocks, say.
  public func adjustingRange(_ adjust: @escaping @Sendable (Range<Int>) -> Range<Int>) -> Response {
    with { $0.adjustRange = adjust }
  }

  // MARK: Framing and its lies

  /// Content-Length says this, whatever the body is; the connection ends after the body.
  public func contentLength(lying value: Int) -> Response { contentLength(lying: String(value)) }

  /// Content-Length says this text, a number or not; the connection ends after the body.
  public func contentLength(lying value: String) -> Response { with { $0.framing = .lyingContentLength(value) } }

  /// No length: the body ends with the connection.
  public func withoutContentLength() -> Response { with { $0.framing = .untilClose } }

  /// Chunked coding, with chunks of at most `size` bytes. HTTP/1.0 clients get ``withoutContentLength()``.
  public func chunked(size: Int = 64 * 1024) -> Response {
    with { $0.framing = .chunked(byteCount: max(1, size), terminated: true) }
  }

  /// Chunked coding that lacks its last chunk: the connection ends after the body.
  public func chunkedWithoutTerminator(size: Int = 64 * 1024) -> Response {
    with { $0.framing = .chunked(byteCount: max(1, size), terminated: false) }
  }

  // MARK: Time and faults

  /// Waits for the gate before anything is sent. A client that leaves ends the wait.
  public func hold(until gate: Gate) -> Response { with { $0.preludes.append(.hold(gate)) } }

  /// Waits this long before anything is sent. A client that leaves ends the wait.
  public func delayed(by duration: Duration) -> Response { with { $0.preludes.append(.delay(duration)) } }

  /// Sends `bytes` of body, and `bytes` more each time `interval` has passed. A client that leaves ends it.
  public func throttled(bytes: Int, every interval: Duration) -> Response {
    with { $0.throttle = (max(1, bytes), interval) }
  }

  /// Ends the connection in order (FIN) when `count` bytes of body are sent. Never, if the body is shorter.
  public func cut(afterBytes count: Int) -> Response { marked(count, .cut) }

  /// Resets the connection (RST) when the client's kernel has `count` bytes of body. Never, if the body is shorter.
  public func reset(afterBytes count: Int) -> Response { marked(count, .reset) }

  /// Sends `count` bytes of body, then nothing until the gate opens or the client leaves; without a gate until the
  /// client leaves or the server stops.
  public func stall(afterBytes count: Int, until gate: Gate? = nil) -> Response { marked(count, .stall(gate)) }

  /// Calls `hook` on the connection's thread when `count` bytes of body are handed to the kernel, before anything more
  /// is sent. Marks of one position happen in the order they were written.
  public func onBytes(_ count: Int, _ hook: @escaping @Sendable () -> Void) -> Response { marked(count, .call(hook)) }

  private func marked(_ position: Int, _ mark: Mark) -> Response {
    with {
      let position = max(0, position)
      let index = $0.marks.firstIndex { $0.position > position } ?? $0.marks.endIndex
      $0.marks.insert((position, mark), at: index)
    }
  }
}
