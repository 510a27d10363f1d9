import Testing

@testable import TransferCore

/// Design section 10, row by row.
@Suite struct ResponseTableTests {
  static let now = WallInstant(milliseconds: 784_111_777_000)  // Sun, 06 Nov 1994 08:49:37 GMT

  struct Row: CustomTestStringConvertible, Sendable {
    var words: String
    var status: Int
    var headers: HeaderFields = []
    var expected: Shape
    var testDescription: String { words }

    init(_ words: String, _ status: Int, _ expected: Shape) { self.init(words, status, [], expected) }

    init(_ words: String, _ status: Int, _ headers: HeaderFields, _ expected: Shape) {
      self.words = words
      self.status = status
      self.headers = headers
      self.expected = expected
    }
  }

  /// A verdict without its words.
  enum Shape: Hashable, Sendable {
    case takeWhole, continueAt(Int64), alreadyComplete, restart, redirect
    case retryLater(FailureCode, after: Int?)
    case ask, reject(FailureCode)

    init(_ verdict: ResponseVerdict) {
      switch verdict {
      case .takeWhole: self = .takeWhole
      case .continueAt(let offset): self = .continueAt(offset)
      case .alreadyComplete: self = .alreadyComplete
      case .restart: self = .restart
      case .redirect: self = .redirect
      case .retryLater(let failure): self = .retryLater(failure.code, after: failure.retryAfterSeconds)
      case .ask: self = .ask
      case .reject(let failure): self = .reject(failure.code)
      }
    }
  }

  static func judge(
    _ row: Row, rule: StatusRule = .successOnly, resume: ResumePoint? = nil, kind: TaskKind = .download,
    asksForPart: Bool = false
  ) -> Shape {
    let head = ResponseHead(status: row.status, headers: row.headers, url: "http://host.test/file")
    let context = JudgementContext(
      kind: kind, statusRule: rule, resume: resume, now: now, asksForPart: asksForPart)
    return Shape(ResponseTable.judge(head, context))
  }

  static let tagged = ResumePoint(validator: .entityTag("\"a\""), offset: 40, total: 100)
  static let untotalled = ResumePoint(validator: .entityTag("\"a\""), offset: 40, total: nil)
  static let dated = ResumePoint(
    validator: .lastModified("Sun, 06 Nov 1994 08:00:00 GMT"), offset: 40, total: 100)

  // MARK: The whole was asked for

  @Test(arguments: [
    Row("200", 200, .takeWhole),
    Row("201", 201, .takeWhole),
    Row("204", 204, .takeWhole),
    Row("299", 299, .takeWhole),
    Row(
      "a part that nobody asked for", 206, [("Content-Range", "bytes 0-9/100")],
      .retryLater(.badServerResponse, after: nil)),
    Row("300 is no redirect", 300, [("Location", "/x")], .reject(.httpStatus)),
    Row("301", 301, [("Location", "/x")], .redirect),
    Row("302", 302, [("Location", "/x")], .redirect),
    Row("303", 303, [("Location", "/x")], .redirect),
    Row("304", 304, [("Location", "/x")], .reject(.httpStatus)),
    Row("305", 305, [("Location", "/x")], .reject(.httpStatus)),
    Row("307", 307, [("Location", "/x")], .redirect),
    Row("308", 308, [("location", "/x")], .redirect),
    Row("302 to nowhere", 302, .reject(.httpStatus)),
    Row("400", 400, .reject(.httpStatus)),
    Row("401", 401, .reject(.credentialsRequired)),
    Row("403", 403, .reject(.httpStatus)),
    Row("404", 404, .reject(.httpStatus)),
    Row("407", 407, .reject(.proxyCredentialsRequired)),
    Row("408", 408, .retryLater(.httpStatus, after: nil)),
    Row("410", 410, .reject(.httpStatus)),
    Row("412", 412, .reject(.httpStatus)),
    Row("416", 416, .reject(.httpStatus)),
    Row("425", 425, .retryLater(.httpStatus, after: nil)),
    Row("429 with seconds", 429, [("Retry-After", "3")], .retryLater(.httpStatus, after: 3)),
    Row(
      "429 with a date", 429, [("Retry-After", "Sun, 06 Nov 1994 08:50:37 GMT")], .retryLater(.httpStatus, after: 60)),
    Row("429 with an absurd wait", 429, [("Retry-After", "315360000")], .retryLater(.httpStatus, after: 86_400)),
    Row("429 with a negative wait", 429, [("Retry-After", "-5")], .retryLater(.httpStatus, after: nil)),
    Row("500", 500, .retryLater(.httpStatus, after: nil)),
    Row("501", 501, .reject(.httpStatus)),
    Row("502", 502, .retryLater(.httpStatus, after: nil)),
    Row("503", 503, [("Retry-After", "0")], .retryLater(.httpStatus, after: 1)),
    Row("504", 504, .retryLater(.httpStatus, after: nil)),
    Row("505", 505, .reject(.httpStatus)),
    Row("511, a captive portal", 511, .reject(.httpStatus)),
  ])
  func wholeForNativeTasks(row: Row) { #expect(Self.judge(row) == row.expected) }

  @Test(arguments: 200...599)
  func everyStatusIsAResultForURLSession(status: Int) {
    let expected: Shape = status == 206 ? .retryLater(.badServerResponse, after: nil) : .takeWhole
    #expect(Self.judge(Row("", status, expected), rule: .any) == expected)
  }

  @Test func aPartThatTheCallerAskedForIsTaken() {
    let row = Row("206", 206, [("Content-Range", "bytes 0-9/100")], .takeWhole)
    #expect(Self.judge(row, asksForPart: true) == .takeWhole)
    #expect(Self.judge(row, rule: .any, asksForPart: true) == .takeWhole)
  }

  // MARK: A continuation was asked for

  static let part: HeaderFields = [
    ("Content-Range", "bytes 40-99/100"), ("Content-Length", "60"), ("ETag", "\"a\""),
  ]

  static func part(_ range: String?, length: String? = nil, etag: String? = "\"a\"") -> HeaderFields {
    var headers: HeaderFields = []
    if let range { headers.set("Content-Range", to: range) }
    if let length { headers.set("Content-Length", to: length) }
    if let etag { headers.set("ETag", to: etag) }
    return headers
  }

  @Test(arguments: [
    Row("the part that was asked for", 206, part, .continueAt(40)),
    Row("a part without its length", 206, part("bytes 40-99/100"), .continueAt(40)),
    Row("a part of unknown total", 206, part("bytes 40-99/*"), .continueAt(40)),
    Row("a part without the tag that it must carry", 206, part("bytes 40-99/100", etag: nil), .restart),
    Row("case 1: the whole, Range ignored", 200, [("Content-Length", "100")], .takeWhole),
    Row("another success", 203, .restart),
    Row("case 2: block-aligned start below", 206, part("bytes 0-99/100"), .restart),
    Row("case 2: start above", 206, part("bytes 41-99/100"), .restart),
    Row("case 2: no Content-Range", 206, part(nil), .restart),
    Row("case 2: another unit", 206, part("items 40-99/100"), .restart),
    Row("case 2: unsatisfied", 206, part("bytes */100"), .restart),
    Row("case 2: out of order", 206, part("bytes 99-40/100"), .restart),
    Row("case 2: past its total", 206, part("bytes 40-100/100"), .restart),
    Row("a part that ends early", 206, part("bytes 40-60/100"), .restart),
    Row("a part of unknown total that ends early", 206, part("bytes 40-60/*"), .restart),
    Row("case 3: another tag", 206, part("bytes 40-99/100", etag: "\"b\""), .restart),
    Row("case 3: the tag became weak", 206, part("bytes 40-99/100", etag: "W/\"a\""), .restart),
    Row("case 29: another total", 206, part("bytes 40-119/120"), .restart),
    Row("lengths that contradict", 206, part("bytes 40-99/100", length: "59"), .restart),
    Row("a length that is none", 206, part("bytes 40-99/100", length: "sixty"), .restart),
    Row("case 23: all is held", 416, part("bytes */40"), .restart),
    Row("case 24: 416 without a total", 416, .restart),
    Row("case 24: 416 and more to come", 416, part("bytes */100"), .restart),
    Row("412", 412, .restart),
    Row("case 31: 401", 401, .ask),
    Row("case 31: 403", 403, .ask),
    Row("404", 404, .reject(.httpStatus)),
    Row("410", 410, .reject(.httpStatus)),
    Row("408", 408, .retryLater(.httpStatus, after: nil)),
    Row("case 37: 429", 429, [("Retry-After", "7")], .retryLater(.httpStatus, after: 7)),
    Row("500", 500, .retryLater(.httpStatus, after: nil)),
    Row("501", 501, .reject(.httpStatus)),
    Row("503", 503, .retryLater(.httpStatus, after: nil)),
    Row("redirect", 307, [("Location", "/x")], .redirect),
    Row("redirect to nowhere", 307, .reject(.httpStatus)),
  ])
  func continuations(row: Row) { #expect(Self.judge(row, resume: Self.tagged) == row.expected) }

  @Test(arguments: [
    Row("case 23: all is held", 416, part("bytes */40"), .alreadyComplete),
    Row("as much of what may be another version", 416, part("bytes */40", etag: nil), .restart),
    Row("all of another version", 416, part("bytes */40", etag: "\"b\""), .restart),
    Row("less than is held", 416, part("bytes */39"), .restart),
    Row("a 416 that tells a range", 416, part("bytes 0-39/40"), .restart),
    Row("the total is learned", 206, part("bytes 40-99/100"), .continueAt(40)),
    Row("the total stays unknown", 206, part("bytes 40-99/*"), .continueAt(40)),
  ])
  func continuationsOfUnknownTotal(row: Row) { #expect(Self.judge(row, resume: Self.untotalled) == row.expected) }

  @Test(arguments: [
    Row(
      "the date agrees", 206,
      [("Content-Range", "bytes 40-99/100"), ("Last-Modified", "Sun, 06 Nov 1994 08:00:00 GMT")], .continueAt(40)),
    Row("no date is told", 206, [("Content-Range", "bytes 40-99/100")], .continueAt(40)),
    Row(
      "another date", 206,
      [("Content-Range", "bytes 40-99/100"), ("Last-Modified", "Sun, 06 Nov 1994 08:00:01 GMT")], .restart),
  ])
  func continuationsByDate(row: Row) { #expect(Self.judge(row, resume: Self.dated) == row.expected) }

  @Test(arguments: [408, 425, 429, 500, 501, 502, 503, 504, 505, 507, 599])
  func anErrorPageDoesNotReplaceHalfAFile(status: Int) {
    let verdict = Self.judge(Row("", status, .takeWhole), rule: .any, resume: Self.tagged)
    #expect(verdict == .retryLater(.httpStatus, after: nil))
  }

  @Test(arguments: [304, 400, 404, 410, 451])
  func afterAContinuationURLSessionGetsFinalStatusesAsResults(status: Int) {
    #expect(Self.judge(Row("", status, .takeWhole), rule: .any, resume: Self.tagged) == .takeWhole)
  }

  /// Total: no status, header or resume point traps, and nothing but an agreeing 206 continues.
  @Test func hostileAnswersNeverTrapAndNeverSplice() {
    var words = RandomWords(seed: 11)
    let numbers = [
      "0", "1", "39", "40", "99", "100", "9223372036854775807", "9223372036854775808", "-1", "", "*", "+4",
    ]
    func pick() -> String { numbers[Int(words.next() % UInt64(numbers.count))] }
    for _ in 0..<20_000 {
      var headers: HeaderFields = []
      headers.set("Content-Range", to: "bytes \(pick())-\(pick())/\(pick())")
      if words.next() & 1 == 0 { headers.set("Content-Length", to: pick()) }
      if words.next() & 1 == 0 { headers.set("ETag", to: ["\"a\"", "\"b\"", "W/\"a\"", ""][Int(words.next() % 4)]) }
      if words.next() & 3 == 0 { headers.set("Retry-After", to: pick()) }
      let status = [200, 206, 206, 206, 416, 100, 0, -1, 999][Int(words.next() % 9)]
      let offset = [0, 1, 40, Int64.max][Int(words.next() % 4)]
      let resume = ResumePoint(
        validator: .entityTag("\"a\""), offset: offset, total: [nil, 0, 100, Int64.max][Int(words.next() % 4)])
      let verdict = Self.judge(Row("", status, headers, .restart), resume: resume)
      guard case .continueAt(let start) = verdict else { continue }
      #expect(start == offset && status == 206)
      #expect(headers["ETag"] == nil || headers["ETag"] == "\"a\"")
    }
  }
}

@Suite struct ResponseHeadTests {
  static func head(_ headers: HeaderFields, status: Int = 200) -> ResponseHead {
    ResponseHead(status: status, headers: headers, url: "http://host.test/")
  }

  @Test(arguments: [
    ("\"a\"", true), (" \"a\" ", true), ("\"\"", true), ("\"a!#~\"", true), ("W/\"a\"", false), ("a", false),
    ("\"", false), ("\"a", false), ("a\"", false), ("", false), ("\"a\"b\"", false), ("\"a b\"", false),
    ("\"\u{FFFD}\"", false), ("\"a\", \"b\"", false), ("\"\u{7F}\"", false),
  ])
  func tags(text: String, isStrong: Bool) {
    let validator = Self.head([("ETag", text)]).validator
    #expect((validator != nil) == isStrong)
    #expect(validator == (isStrong ? .entityTag(text.trimmingOptionalWhitespace) : nil))
  }

  @Test func aTagIsBounded() {
    #expect(Self.head([("ETag", "\"" + String(repeating: "a", count: 1022) + "\"")]).validator != nil)
    #expect(Self.head([("ETag", "\"" + String(repeating: "a", count: 1023) + "\"")]).validator == nil)
  }

  /// Failure case 4.
  @Test(arguments: [
    ("Sun, 06 Nov 1994 08:48:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", true),
    ("Sun, 06 Nov 1994 08:48:38 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", false),
    ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", false),
    ("Sun, 06 Nov 1994 09:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", false),
    ("yesterday", "Sun, 06 Nov 1994 08:49:37 GMT", false), ("Sun, 06 Nov 1994 08:00:00 GMT", "now", false),
  ])
  func datesAreTrustedAfterAMinute(modified: String, date: String, isTrusted: Bool) {
    let validator = Self.head([("Last-Modified", modified), ("Date", date)]).validator
    #expect(validator == (isTrusted ? .lastModified(modified) : nil))
    #expect(Self.head([("Last-Modified", modified)]).validator == nil)
    #expect(Self.head([("Last-Modified", modified), ("Date", date), ("ETag", "W/\"a\"")]).validator == nil)
  }

  @Test(arguments: [
    ([("Content-Length", "5")], 200, Int64?(5)), ([("Content-Length", " 5 ")], 200, 5), ([], 200, nil),
    ([("Content-Length", "-5")], 200, nil), ([("Content-Length", "+5")], 200, nil),
    ([("Content-Length", "5,5")], 200, nil), ([("Content-Length", "99999999999999999999")], 200, nil),
    ([("Content-Length", "5"), ("Transfer-Encoding", "chunked")], 200, nil),
    ([("Content-Length", "5"), ("Content-Range", "bytes 0-4/50")], 206, 50),
    ([("Content-Length", "5"), ("Content-Range", "bytes 0-4/*")], 206, nil), ([("Content-Length", "5")], 206, nil),
  ])
  func totals(headers: [(String, String)], status: Int, total: Int64?) {
    let fields = HeaderFields(headers.map { HeaderField(name: $0.0, value: $0.1) })
    #expect(Self.head(fields, status: status).totalLength == total)
  }

  @Test(arguments: [
    ("gzip", "gzip"), (" GZIP", "gzip"), ("identity", nil), ("", nil), ("br", "br"), ("x-own", nil), ("X-Gzip", "gzip"),
    ("deflate", "deflate"),
  ])
  func encodings(text: String, coding: String?) {
    #expect(Self.head([("Content-Encoding", text)]).contentEncodingToUndo == coding)
  }

  @Test func secretsAreRedacted() {
    let headers: HeaderFields = [("AUTHORIZATION", "t"), ("Cookie", "c"), ("X-Key", "k"), ("Accept", "a")]
    let shown = headers.redacted(secretNames: ["x-key"])
    #expect(shown.fields.map(\.value) == ["<redacted>", "<redacted>", "<redacted>", "a"])
  }
}

@Suite struct ContentRangeTests {
  @Test(arguments: [
    ("bytes 0-0/1", ContentRange.range(first: 0, last: 0, total: 1)),
    ("BYTES 5-9/10", .range(first: 5, last: 9, total: 10)),
    (" bytes  5-9/* ", .range(first: 5, last: 9, total: nil)),
    ("bytes */10", .unsatisfied(total: 10)),
    ("bytes */0", .unsatisfied(total: 0)),
    (
      "bytes 0-9223372036854775806/9223372036854775807",
      .range(first: 0, last: .max - 1, total: .max)
    ),
  ])
  func wellFormed(text: String, range: ContentRange) { #expect(ContentRange(text) == range) }

  @Test(arguments: [
    "", "bytes", "bytes ", "bytes 1", "bytes 1-", "bytes -1/5", "bytes 1-2", "bytes 1-2/", "bytes 2-1/5",
    "bytes 1-5/5", "bytes 1-2/1", "bytes */*", "bytes *", "items 0-1/2", "bytes=0-1/2", "bytes 0-1/2/3",
    "bytes 0-1-2/3", "bytes +0-1/2", "bytes 0- 1/2", "bytes 0-1 /2", "bytes 0x0-1/2",
    "bytes 0-9223372036854775808/*", "bytes 99999999999999999999-1/*", "bytes 0-1/2,3", "bytes ０-1/2",
    "bytes 0-1/" + String(repeating: "9", count: 200),
  ])
  func malformed(text: String) { #expect(ContentRange(text) == nil) }
}

@Suite struct HTTPDateTests {
  @Test(arguments: [
    ("Sun, 06 Nov 1994 08:49:37 GMT", Int64(784_111_777)),
    ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
    ("Sun Nov  6 08:49:37 1994", 784_111_777),
    ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
    ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
    ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
    ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
    ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799),
    ("Mon, 01 Jan 2035 00:00:00 UTC", 2_051_222_400),
    ("Sunday, 06-Nov-69 08:49:37 GMT", 3_150_953_377),
  ])
  func theThreeForms(text: String, seconds: Int64) {
    #expect(HTTPDate.parse(text) == WallInstant(milliseconds: seconds * 1000))
  }

  @Test(arguments: [
    "", "GMT", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 31 Nov 1994 08:49:37 GMT",
    "Sun, 29 Feb 1900 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
    "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 08:49:37:00 GMT", "Sun, 06 Nov -994 08:49:37 GMT",
    "Sun, 06 Nov 19941 08:49:37 GMT", "Sun, +6 Nov 1994 08:49:37 GMT", "784111777",
    "Sun, 06 Nov 1994 08:49:37 GMT GMT", "Sun, ٠٦ Nov 1994 08:49:37 GMT",
  ])
  func others(text: String) { #expect(HTTPDate.parse(text) == nil) }

  @Test func everyDayOfFourCenturiesIsOneAfterTheOther() {
    let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    var last: Int64?
    for year in 1900..<2300 {
      for month in names {
        for day in 1...31 {
          guard let date = HTTPDate.parse("X, \(day) \(month) \(year) 00:00:00 GMT") else { continue }
          if let last { #expect(date.milliseconds - last == 86_400_000) }
          last = date.milliseconds
        }
      }
    }
  }
}

@Suite struct RetryAfterTests {
  @Test(arguments: [
    ("0", Int?(1)), ("1", 1), (" 120 ", 120), ("86400", 86_400), ("86401", 86_400),
    ("99999999999999999999999", 86_400), ("-1", nil), ("1.5", nil), ("", nil), ("soon", nil), ("1, 2", nil),
    ("Sun, 06 Nov 1994 08:49:47 GMT", 10), ("Sun, 06 Nov 1994 08:49:00 GMT", 1),
    ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
  ])
  func bothForms(text: String, seconds: Int?) {
    #expect(RetryAfter.seconds(text, now: ResponseTableTests.now) == seconds)
  }

  @Test func anExtremeClockDoesNotTrap() {
    for clock in [Int64.min, .max] {
      _ = RetryAfter.seconds("Sun, 06 Nov 1994 08:49:37 GMT", now: WallInstant(milliseconds: clock))
    }
  }
}
