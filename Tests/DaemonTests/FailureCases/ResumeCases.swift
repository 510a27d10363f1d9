import Glibc
import LoopbackServer
import Testing
import WireProtocol

/// Resumption: rows 1–4, 23, 24, 27, 29 and 46 of docs/FailureCases.md.
@Suite(.timeLimit(.minutes(2))) struct ResumeCases {
  static let length = 300_000
  static let cutAt = 120_000
  static let content = GeneratedContent(length: length, seed: 1)

  static func whole(_ tag: String = "\"a\"", seed: UInt64 = 1) -> Response {
    .generated(length: length, seed: seed).etag(tag)
  }
  static func broken(_ tag: String = "\"a\"") -> Response { whole(tag).cut(afterBytes: cutAt) }

  /// The file holds just this version of the object.
  static func expectWhole(_ scene: Scene, _ name: String = "result", seed: UInt64 = 1) throws {
    let found = try scene.bytes(name)
    #expect(found.count == length)
    #expect(GeneratedContent(length: length, seed: seed).verify(found) == nil)
  }

  /// Row 1.
  @Test func aServerThatIgnoresRangeGivesTheWholeAndNothingIsAppended() throws {
    let server = try Script.start({ _ in Self.broken() }, { _ in Self.whole().ignoringRange() })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    try Self.expectWhole(scene)
    let second = try #require(server.requests.last)
    #expect(server.requestCount == 2)
    #expect(second.headers["Range"] == "bytes=\(Self.cutAt)-")
    #expect(second.headers["If-Range"] == "\"a\"")
    #expect(scene.resumptions(id) == [0])
    #expect(task.wasted == Int64(Self.cutAt))
    #expect(task.received == Int64(Self.length))
  }

  struct Lie: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var answer: @Sendable () -> Response
  }

  static let lies: [Lie] = [
    Lie(testDescription: "a cache that begins at its block") {
      whole().adjustingRange { ($0.lowerBound / 4096 * 4096)..<$0.upperBound }
    },
    Lie(testDescription: "from 0") { whole().adjustingRange { 0..<$0.upperBound } },
    Lie(testDescription: "no Content-Range") { whole().contentRange { _ in nil } },
    Lie(testDescription: "another unit") {
      whole().contentRange { "items \($0.range.lowerBound)-\($0.range.upperBound - 1)/\($0.total)" }
    },
    Lie(testDescription: "beyond what is held") { whole().adjustingRange { ($0.lowerBound + 100)..<$0.upperBound } },
    Lie(testDescription: "numbers that contradict each other") {
      whole().contentRange(lying: "bytes 120000-119999/300000")
    },
    Lie(testDescription: "an end beyond the total") { whole().contentRange(lying: "bytes 120000-300000/300000") },
    Lie(testDescription: "numbers too large") {
      whole().contentRange(lying: "bytes 120000-99999999999999999999/99999999999999999999999")
    },
    Lie(testDescription: "another total") { whole().contentRange(lying: "bytes 120000-299999/400000") },
    Lie(testDescription: "an end before the end") { whole().adjustingRange { $0.lowerBound..<($0.upperBound - 1000) } },
    Lie(testDescription: "unsatisfied") { whole().contentRange(lying: "bytes */300000") },
    Lie(testDescription: "nothing but spaces") { whole().contentRange(lying: "   ") },
  ]

  /// Row 2.
  @Test func aPartThatIsNotTheOneAskedForIsThrownAway() throws {
    let lies = Self.lies
    // Each path: cut, lie, and then whole.
    let seen = PathCounter()
    let server = try LocalServer.start { request in
      guard let lie = Int(request.path.dropFirst()) else { return .status(404) }
      switch seen.next(request.path) {
      case 1: return Self.broken()
      case 2: return lies[lie].answer()
      default: return Self.whole()
      }
    }
    defer { server.stop() }
    let scene = try Scene()
    let ids = try lies.indices.map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    for (index, id) in ids.enumerated() {
      let task = try scene.ended(id)
      #expect(task.state == "succeeded", "\(lies[index].testDescription): \(Scene.text(task))")
      try Self.expectWhole(scene, "file\(index)")
      let requests = server.requests.filter { $0.path == "/\(index)" }
      #expect(requests.count == 3, "\(lies[index].testDescription)")
      #expect(requests[1].headers["Range"] == "bytes=\(Self.cutAt)-")
      #expect(requests.last?.headers["Range"] == nil)
    }
  }

  /// Row 3.
  @Test(arguments: [true, false])
  func anObjectReplacedUnderTheSameLengthIsNotSpliced(serverHonoursIfRange: Bool) throws {
    let server = try Script.start(
      { _ in Self.broken("\"a\"") },
      { _ in serverHonoursIfRange ? Self.whole("\"b\"", seed: 2) : Self.whole("\"b\"", seed: 2).ignoringIfRange() },
      { _ in Self.whole("\"b\"", seed: 2) })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    #expect(try scene.ended(id).state == "succeeded")
    try Self.expectWhole(scene, seed: 2)
    #expect(server.requests[1].headers["If-Range"] == "\"a\"")
  }

  /// Row 3, by the date.
  @Test func anotherLastModifiedOfAPartIsAnotherVersion() throws {
    let old = HTTPDate.ago(seconds: 7200)
    let new = HTTPDate.ago(seconds: 3600)
    let server = try Script.start(
      { _ in Response.generated(length: Self.length).lastModified(old).cut(afterBytes: Self.cutAt) },
      { _ in Response.generated(length: Self.length, seed: 2).lastModified(new).ignoringIfRange() },
      { _ in Response.generated(length: Self.length, seed: 2).lastModified(new) })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    #expect(try scene.ended(id).state == "succeeded")
    try Self.expectWhole(scene, seed: 2)
    #expect(server.requests[1].headers["If-Range"] == old.description)
  }

  struct Validators: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var resumes: Bool
    var answer: @Sendable () -> Response
  }

  static let validators: [Validators] = [
    Validators(testDescription: "none", resumes: false) { .generated(length: length) },
    Validators(testDescription: "weak tag", resumes: false) { whole("W/\"a\"") },
    Validators(testDescription: "weak tag beside an old date", resumes: false) {
      whole("W/\"a\"").lastModified(.ago(seconds: 100_000))
    },
    Validators(testDescription: "tag without quotes", resumes: false) { whole("a") },
    Validators(testDescription: "date of now", resumes: false) {
      .generated(length: length).lastModified(.now).date(.now)
    },
    Validators(testDescription: "date 30 s before Date", resumes: false) {
      .generated(length: length).lastModified(.ago(seconds: 1030)).date(.ago(seconds: 1000))
    },
    Validators(testDescription: "date in the future", resumes: false) {
      .generated(length: length).lastModified(.ago(seconds: -3600))
    },
    Validators(testDescription: "date without Date", resumes: false) {
      .generated(length: length).lastModified(.ago(seconds: 100_000)).withoutHeader("Date")
    },
    Validators(testDescription: "old date", resumes: true) {
      .generated(length: length).lastModified(.ago(seconds: 100_000))
    },
    Validators(testDescription: "strong tag", resumes: true) { whole("\"a\"") },
  ]

  /// Row 4.
  @Test func onlyAStrongValidatorIsTakenAsProof() throws {
    let kinds = Self.validators
    let seen = PathCounter()
    let server = try LocalServer.start { request in
      guard let kind = Int(request.path.dropFirst()) else { return .status(404) }
      let answer = kinds[kind].answer()
      return seen.next(request.path) == 1 ? answer.cut(afterBytes: Self.cutAt) : answer
    }
    defer { server.stop() }
    let scene = try Scene()
    let ids = try kinds.indices.map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    for (index, id) in ids.enumerated() {
      let task = try scene.ended(id)
      #expect(task.state == "succeeded", "\(kinds[index].testDescription): \(Scene.text(task))")
      try Self.expectWhole(scene, "file\(index)")
      let requests = server.requests.filter { $0.path == "/\(index)" }
      #expect(requests.count == 2)
      #expect((requests.last?.headers["Range"] != nil) == kinds[index].resumes, "\(kinds[index].testDescription)")
      #expect((requests.last?.headers["If-Range"] != nil) == kinds[index].resumes, "\(kinds[index].testDescription)")
    }
  }

  /// Row 23: killed after the last byte, before the result was recorded.
  @Test func whatIsWholeAlreadyIsFinishedWithoutARequest() throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in Self.whole().hold(until: gate) }
    defer { server.stop() }
    let scene = try Scene()
    try scene.restart(SIGTERM, ["FERRY_FAULT": "worker.fsync:1:kill"])
    let id = try scene.get(server.url("/file"))
    gate.open()
    try scene.waitForDeath()
    try scene.start()
    #expect(try scene.ended(id).state == "succeeded")
    try Self.expectWhole(scene)
    #expect(server.requestCount == 1)
  }

  /// Row 23: the length was not known, so the server says that nothing is left.
  @Test func aRangeBeyondTheEndOfTheSameObjectMeansComplete() throws {
    let server = try Script.start(
      { _ in Self.whole().chunkedWithoutTerminator() }, { _ in Self.whole() })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    #expect(try scene.ended(id).state == "succeeded")
    try Self.expectWhole(scene)
    #expect(server.requestCount == 2)
    #expect(server.exchanges.last?.statusCode == 416)
  }

  static let refusals: [Lie] = [
    Lie(testDescription: "bare") { .status(416) },
    Lie(testDescription: "another total") { Response.status(416).header("Content-Range", "bytes */999") },
    Lie(testDescription: "no numbers") { Response.status(416).header("Content-Range", "bytes */*") },
    Lie(testDescription: "another version") {
      Response.status(416).header("Content-Range", "bytes */\(cutAt)").etag("\"b\"")
    },
    Lie(testDescription: "precondition failed") { .status(412) },
    Lie(testDescription: "a page as 416") { Response.text("no").status(416) },
  ]

  /// Row 24, each form of it.
  @Test func aRangeRefusedOnceBeginsAgainOnce() throws {
    let refusals = Self.refusals
    let seen = PathCounter()
    let server = try LocalServer.start { request in
      guard let kind = Int(request.path.dropFirst()) else { return .status(404) }
      let isFirst = seen.next(request.path) == 1
      if request.headers["Range"] != nil { return refusals[kind].answer() }
      return isFirst ? Self.broken() : Self.whole()
    }
    defer { server.stop() }
    let scene = try Scene()
    let ids = try refusals.indices.map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    for (index, id) in ids.enumerated() {
      let task = try scene.ended(id)
      #expect(task.state == "succeeded", "\(refusals[index].testDescription): \(Scene.text(task))")
      try Self.expectWhole(scene, "file\(index)")
      #expect(server.requests.count { $0.path == "/\(index)" } == 3, "\(refusals[index].testDescription)")
    }
  }

  /// Row 24: a server that cuts every whole answer and refuses every range is not hammered for ever.
  @Test func aRangeRefusedAgainAndAgainEndsWithAReason() throws {
    let server = try LocalServer.start { request in
      request.headers["Range"] == nil ? Self.broken() : .status(416)
    }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let task = try scene.ended(id, seconds: 60)
    #expect(task.state == "failed")
    #expect(task.error?.code == "rangeUnsatisfiable")
    #expect(server.requestCount <= 10)
    try scene.waitForNames([])
  }

  /// Row 27.
  @Test func everyRetryContinuesWhereTheLastOneBroke() throws {
    let server = try LocalServer.start { _ in Self.whole().cut(afterBytes: 70_000) }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let task = try scene.ended(id)
    #expect(task.state == "succeeded")
    try Self.expectWhole(scene)
    #expect(server.requestCount == 5)
    #expect(server.exchanges.reduce(0) { $0 + $1.bodyBytesSent } == Self.length)
    #expect(task.wasted == nil)
    #expect(scene.resumptions(id) == [70_000, 140_000, 210_000, 280_000])
  }

  /// Row 29.
  @Test func anObjectOfAnotherSizeIsTakenAnew() throws {
    let server = try Script.start(
      { _ in Self.broken() }, { _ in Response.generated(length: 50_000, seed: 3).etag("\"c\"") })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let task = try scene.ended(id)
    #expect(task.state == "succeeded")
    #expect(GeneratedContent(length: 50_000, seed: 3).verify(try scene.bytes("result")) == nil)
    #expect(try scene.bytes("result").count == 50_000)
    #expect(task.expected == 50_000)
  }

  /// Row 46.
  @Test(arguments: [true, false])
  func progressNeverExceedsTheTotalAndARestartIsTold(serverResumes: Bool) throws {
    let server = try Script.start(
      { _ in Self.whole().throttled(bytes: 20_000, every: .milliseconds(60)).cut(afterBytes: Self.cutAt) },
      { _ in
        let answer = Self.whole().throttled(bytes: 20_000, every: .milliseconds(60))
        return serverResumes ? answer : answer.ignoringRange()
      })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    #expect(try scene.ended(id).state == "succeeded")
    #expect(scene.resumptions(id) == [serverResumes ? Int64(Self.cutAt) : 0])
    let notices = scene.progress(id)
    #expect(notices.count > 5)
    #expect(notices.allSatisfy { $0.expected == Int64(Self.length) && $0.received <= Int64(Self.length) })
    let steps = zip(notices, notices.dropFirst()).filter { $1.received < $0.received }
    #expect(steps.count == (serverResumes ? 0 : 1))
  }
}
