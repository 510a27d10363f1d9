import LoopbackServer

/// What the program serves: a pure function of the request.
enum Routes {
  /// A request that cannot be served as asked: the status and the reason.
  private struct Refusal: Error {
    var status = 400
    let reason: String
  }

  static func plan(_ head: RequestHead) -> BodyPlan {
    guard head.path == "/upload" else { return .read }
    do throws(Refusal) {
      let query = try Query(head, knowing: uploadParameters)
      if let code = try query.status("early") { return .respondEarly(.text("early\n").status(code)) }
      if let count = try query.count("cut") { return .cut(afterBytes: count) }
      if let count = try query.count("reset") { return .reset(afterBytes: count) }
      if let count = try query.count("stall") { return .stall(afterBytes: count) }
      if let rate = try query.count("rate") { return .throttled(bytes: rate, every: try query.interval()) }
      return .read
    } catch {
      return .respondEarly(.text(error.reason + "\n").status(error.status))
    }
  }

  static func answer(_ request: Request) -> Response {
    do throws(Refusal) {
      return try route(request)
    } catch {
      return .text(error.reason + "\n").status(error.status)
    }
  }

  private static func route(_ request: Request) throws(Refusal) -> Response {
    let parts = request.path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
    switch (parts.first ?? "", parts.count) {
    case ("bytes", 2): return try bytes(request.head, length: try length(parts[1]))
    case ("digest", 2):
      let query = try Query(request.head, knowing: ["seed"])
      let content = GeneratedContent(length: try length(parts[1]), seed: try query.seed())
      return .text("\(content.digest)\n")
    case ("status", 2):
      let query = try Query(request.head, knowing: ["retry-after"])
      return try failure(try Query.status(parts[1], called: "the path"), query)
    case ("redirect", 1):
      let query = try Query(request.head, knowing: ["to", "status"])
      guard let location = try query.headerValue("to") else { throw Refusal(reason: "/redirect needs ?to=URL") }
      return .redirect(to: location, status: try query.status("status") ?? 302)
    case ("upload", 1):
      let query = try Query(request.head, knowing: uploadParameters)
      return .text("\(request.method) \(request.path) \(request.bodyByteCount) bytes\n")
        .status(try query.status("status") ?? 200).header("Body-FNV1a", "\(request.bodyDigest)")
    case ("echo", 1):
      guard request.body.count == request.bodyByteCount else {
        throw Refusal(status: 413, reason: "/echo takes at most \(request.body.count) bytes")
      }
      return .bytes(request.body)
    case ("headers", 1):
      let lines = request.headers.fields.map { "\($0.name): \($0.value)\n" }
      return .text("\(request.method) \(request.target)\n" + lines.joined())
    default: throw Refusal(status: 404, reason: "nothing here; loopback-server --help lists the paths")
    }
  }

  private static let uploadParameters = ["rate", "every", "cut", "reset", "stall", "early", "status"]
  private static let bytesParameters = [
    "seed", "rate", "every", "delay", "cut", "reset", "stall", "etag", "modified", "norange", "noifrange", "chunked",
    "nolength", "gzip", "status", "retry-after",
  ]

  private static func length(_ text: String) throws(Refusal) -> Int {
    guard let length = Int(text), length >= 0 else {
      throw Refusal(reason: "the path ends in a number of bytes, not \"\(text)\"")
    }
    return length
  }

  private static func failure(_ code: Int, _ query: Query) throws(Refusal) -> Response {
    let response = Response.text("status \(code)\n").status(code)
    return try query.headerValue("retry-after").map { response.header("Retry-After", $0) } ?? response
  }

  private static func bytes(_ head: RequestHead, length: Int) throws(Refusal) -> Response {
    let query = try Query(head, knowing: bytesParameters)
    if let code = try query.status("status"), code != 200 { return try failure(code, query) }
    let seed = try query.seed()
    var response = Response.generated(length: length, seed: seed)
      .header("Content-Type", "application/octet-stream")
    var tag = "\(length)-\(seed)"
    if try query.flag("gzip") {
      guard length <= 64 * 1024 * 1024 else { throw Refusal(reason: "gzip=1 is for at most 67108864 bytes") }
      let content = GeneratedContent(length: length, seed: seed)
      response = response.contentEncoding("gzip", bytes: Gzip.stored(content.allBytes))
      tag += "-gzip"
    }
    switch try query.headerValue("etag") {
    case nil, "strong": response = response.etag("\"\(tag)\"")
    case "weak": response = response.etag("W/\"\(tag)\"")
    case "none": break
    case let given?: response = response.etag("\"\(given)\"")
    }
    if let age = try query.count("modified") { response = response.lastModified(.ago(seconds: age)) }
    return try misbehaving(response, query)
  }

  private static func misbehaving(_ plain: Response, _ query: Query) throws(Refusal) -> Response {
    var response = plain
    if let retryAfter = try query.headerValue("retry-after") { response = response.header("Retry-After", retryAfter) }
    if try query.flag("norange") { response = response.ignoringRange() }
    if try query.flag("noifrange") { response = response.ignoringIfRange() }
    if try query.flag("chunked") { response = response.chunked() }
    if try query.flag("nolength") { response = response.withoutContentLength() }
    if let rate = try query.count("rate") { response = response.throttled(bytes: rate, every: try query.interval()) }
    if let delay = try query.count("delay") { response = response.delayed(by: .milliseconds(delay)) }
    if let count = try query.count("cut") { response = response.cut(afterBytes: count) }
    if let count = try query.count("reset") { response = response.reset(afterBytes: count) }
    if let count = try query.count("stall") { response = response.stall(afterBytes: count) }
    return response
  }

  /// The parameters of a request, checked.
  private struct Query {
    private let items: [(name: String, value: String)]

    init(_ head: RequestHead, knowing names: [String]) throws(Refusal) {
      items = head.queryItems
      for item in items where !names.contains(item.name) {
        throw Refusal(reason: "unknown parameter \"\(item.name)\"; known here: " + names.joined(separator: " "))
      }
    }

    func text(_ name: String) -> String? { items.first { $0.name == name }?.value }

    /// A value that may stand in a header field: nobody smuggles a second field in.
    func headerValue(_ name: String) throws(Refusal) -> String? {
      guard let text = text(name) else { return nil }
      guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
        throw Refusal(reason: "\(name) has a control character in it")
      }
      return text
    }

    func count(_ name: String) throws(Refusal) -> Int? {
      guard let text = text(name) else { return nil }
      guard let number = Int(text), number >= 0 else {
        throw Refusal(reason: "\(name) takes a number from 0, not \"\(text)\"")
      }
      return number
    }

    func flag(_ name: String) throws(Refusal) -> Bool {
      switch text(name) {
      case nil, "0": false
      case "1", "": true
      case let other?: throw Refusal(reason: "\(name) takes 0 or 1, not \"\(other)\"")
      }
    }

    func seed() throws(Refusal) -> UInt64 {
      guard let text = text("seed") else { return 1 }
      guard let seed = UInt64(text) else { throw Refusal(reason: "seed takes a number from 0, not \"\(text)\"") }
      return seed
    }

    func interval() throws(Refusal) -> Duration { .milliseconds(try count("every") ?? 1000) }

    func status(_ name: String) throws(Refusal) -> Int? {
      guard let text = text(name) else { return nil }
      return try Self.status(text, called: name)
    }

    static func status(_ text: String, called name: String) throws(Refusal) -> Int {
      guard let code = Int(text), (200...599).contains(code) else {
        throw Refusal(reason: "\(name) takes a status from 200 to 599, not \"\(text)\"")
      }
      return code
    }
  }
}
