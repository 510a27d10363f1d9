import CCurl
import CurlEngine
import TransferCore

/// What servers write into the heads of their answers.
enum HeaderTargets {
  // MARK: Content-Range

  static func contentRange(_ bytes: [UInt8]) throws {
    guard let range = ContentRange(String(decoding: bytes, as: UTF8.self)) else { return }
    let text: String
    switch range {
    case .range(let first, let last, let total):
      try require(0 <= first && first <= last && last < total ?? .max || total == nil, "\(range) contradicts itself")
      text = "bytes \(first)-\(last)/\(total.map { "\($0)" } ?? "*")"
    case .unsatisfied(let total):
      try require(total >= 0, "a negative length")
      text = "bytes */\(total)"
    }
    try require(ContentRange(text) == range, "\(text) is read as another range")
  }

  // MARK: Dates

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  static func date(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    let now = WallInstant(milliseconds: source.integer())
    let text = String(decoding: source.remainder(), as: UTF8.self)
    if let seconds = RetryAfter.seconds(text, now: now) {
      try require((1...86_400).contains(seconds), "Retry-After of \(seconds) s")
    }
    guard let instant = HTTPDate.parse(text) else { return }
    try require(instant.milliseconds % 1000 == 0, "a date with a fraction")
    let canonical = format(seconds: instant.milliseconds / 1000)
    try require(HTTPDate.parse(canonical) == instant, "\(text): \(canonical) is another moment")
    // libcurl counts the Gregorian calendar from its first full year.
    guard instant.milliseconds >= -12_212_553_600_000 else { return }
    let curls = unsafe curl_getdate(canonical, nil)
    try require(Int64(curls) * 1000 == instant.milliseconds, "\(canonical): libcurl reads \(curls)")
  }

  /// By counting days one year and one month at a time: nothing in common with the code under test.
  private static func format(seconds: Int64) -> String {
    var days = seconds >= 0 ? seconds / 86_400 : -((86_399 - seconds) / 86_400)
    let clock = seconds - days * 86_400
    let weekday = ((days % 7) + 7 + 4) % 7
    var year: Int64 = 1970
    while days < 0 {
      year -= 1
      days += isLeap(year) ? 366 : 365
    }
    while days >= (isLeap(year) ? 366 : 365) {
      days -= isLeap(year) ? 366 : 365
      year += 1
    }
    let lengths: [Int64] = [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    var month = 0
    while days >= lengths[month] {
      days -= lengths[month]
      month += 1
    }
    let name = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][Int(weekday)]
    let date = "\(two(days + 1)) \(months[month]) \(two(year / 100))\(two(year % 100))"
    return "\(name), \(date) \(two(clock / 3600)):\(two(clock / 60 % 60)):\(two(clock % 60)) GMT"
  }

  private static func isLeap(_ year: Int64) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }
  private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }

  // MARK: Heads

  static func response(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    let context = context(&source)
    let method = source.one(of: ["GET", "HEAD", "PUT"])
    let isSecond = source.bool()
    guard let head = try collect(source.remainder(), isHTTP2: isSecond) else { return }
    if case .framing(let framing) = BodyFraming.read(head, method: method) {
      try require(framing.expected ?? 0 >= 0, "a body of a negative length")
      try require(framing.delimiter != .length || framing.expected != nil, "a length, and none")
    }
    try require(head.totalLength ?? 0 >= 0 && head.contentLength ?? 0 >= 0, "a negative length")
    try check(validator: head.validator)
    try check(ResponseTable.judge(head, context), head, context)
  }

  private static func context(_ source: inout ByteSource) -> JudgementContext {
    let kind = source.one(of: TaskKind.allCases)
    let rule = source.one(of: [StatusRule.any, .successOnly])
    var resume: ResumePoint?
    if source.bool() {
      let validator =
        source.bool() ? Validator.entityTag("\"abc\"") : .lastModified("Sun, 06 Nov 1994 08:49:37 GMT")
      let offset = max(0, source.integer())
      resume = ResumePoint(validator: validator, offset: offset, total: source.bool() ? max(0, source.integer()) : nil)
    }
    return JudgementContext(
      kind: kind, statusRule: rule, resume: resume, now: WallInstant(milliseconds: source.integer()),
      asksForPart: source.bool())
  }

  /// As libcurl hands them over: line by line, each with its end.
  private static func collect(_ bytes: [UInt8], isHTTP2: Bool) throws -> ResponseHead? {
    var collector = HeaderCollector()
    let status = isHTTP2 ? "HTTP/2 " : "HTTP/1.1 "
    var lines = [Array(status.utf8) + (bytes.prefix { $0 != 0x0A } + [0x0D, 0x0A])]
    for line in bytes.drop(while: { $0 != 0x0A }).dropFirst().split(separator: 0x0A, omittingEmptySubsequences: false) {
      lines.append(line + [0x0D, 0x0A])
    }
    lines.append([0x0D, 0x0A])
    var isFinal = false
    for line in lines {
      switch unsafe line.withUnsafeBytes({ unsafe collector.take($0) }) {
      case .more, .interim: continue
      case .final: isFinal = true
      case .failed(let reason):
        try require(!reason.isEmpty && reason.utf8.count < 300, "a failure without a sensible reason")
        return nil
      }
    }
    guard isFinal else { return nil }
    try require((200...599).contains(collector.status), "a final block of status \(collector.status)")
    for field in collector.headers.fields {
      let isClean = (field.name + field.value).utf8.allSatisfy { $0 != 0x0A }
      try require(isClean, "a header with a line end")
    }
    return ResponseHead(
      status: collector.status, headers: collector.headers, url: "http://localhost/", httpVersion: collector.httpVersion
    )
  }

  private static func check(validator: Validator?) throws {
    guard case .entityTag(let tag)? = validator else { return }
    let isClean = tag.hasPrefix("\"") && tag.hasSuffix("\"") && tag.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    try require(isClean, "an entity tag that cannot be sent back")
  }

  private static func check(
    _ verdict: ResponseVerdict, _ head: ResponseHead, _ context: JudgementContext
  ) throws {
    try require(ResponseTable.judge(head, context) == verdict, "judged twice, two verdicts")
    switch verdict {
    case .continueAt(let offset):
      guard let resume = context.resume, head.status == 206,
        case .range(let first, let last, let total)? = head.headers["Content-Range"].flatMap(ContentRange.init)
      else { throw FuzzFinding("continued without a part") }
      try require(first == resume.offset && offset == resume.offset, "continued at another byte")
      try require(total == nil || resume.total == nil || total == resume.total, "continued in another length")
      try require((total ?? resume.total).map { last == $0 - 1 } ?? true, "continued with a gap at the end")
    case .alreadyComplete:
      try require(head.status == 416 && context.resume != nil, "complete without proof")
    case .takeWhole:
      try require(head.status != 206 || context.asksForPart || context.resume != nil, "a part taken for the whole")
    case .retryLater(let failure):
      try require(
        (1...86_400).contains(failure.retryAfterSeconds ?? 1), "a wait of \(failure.retryAfterSeconds ?? 0) s")
    case .redirect: try require(head.headers.contains("Location"), "a redirect to nowhere")
    case .restart, .reject, .ask: break
    }
  }
}
