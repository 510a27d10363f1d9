import Foundation
import LoopbackServer
import Testing
import WireProtocol

/// What may count as the file: rows 5, 6, 7, 9, 21, 39, 40 and 70 of docs/FailureCases.md.
@Suite(.timeLimit(.minutes(2))) struct ContentCases {
  static let content = GeneratedContent(length: 200_000, seed: 4)
  static let page = "<html><body>Please log in</body></html>"

  /// Row 5. A 206 to If-Range need not repeat Content-Encoding (RFC 9110 section 15.3.7).
  @Test(arguments: [true, false])
  func anEncodedBodyIsResumedByItsOwnBytesAndDecodedOnce(partNamesItsEncoding: Bool) throws {
    let encoded = Gzip.stored(Self.content.allBytes)
    let server = try Script.start(
      { _ in Response.bytes([]).contentEncoding("gzip", bytes: encoded).etag("\"z\"").cut(afterBytes: 90_000) },
      { _ in
        let answer = Response.bytes([]).contentEncoding("gzip", bytes: encoded).etag("\"z\"")
        return partNamesItsEncoding ? answer : answer.withoutHeader("Content-Encoding")
      })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(server.requests.last?.headers["Range"] == "bytes=90000-")
    let found = try scene.bytes("result")
    #expect(found.count == Self.content.length)
    #expect(Self.content.verify(found) == nil)
    try scene.waitForNames(["result"])
  }

  /// Row 5, over the daemon's death.
  @Test func anEncodedBodyIsResumedAfterTheDaemonWasKilled() throws {
    // Smaller bodies are not recorded before they are whole.
    let content = GeneratedContent(length: 600_000, seed: 4)
    let encoded = Gzip.stored(content.allBytes)
    let server = try Script.start(
      { _ in Response.bytes([]).contentEncoding("gzip", bytes: encoded).etag("\"z\"").stall(afterBytes: 400_000) },
      { _ in
        Response.bytes([]).contentEncoding("gzip", bytes: encoded).etag("\"z\"").withoutHeader("Content-Encoding")
      })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    try scene.wait(id, for: "400,000 bytes") { $0.received == 400_000 }
    try scene.restart()
    #expect(try scene.ended(id).state == "succeeded")
    #expect(server.requests.last?.headers["Range"] == "bytes=400000-")
    #expect(content.verify(try scene.bytes("result")) == nil)
  }

  /// Row 5: who asks for it gets the bytes as they came.
  @Test func anEncodedBodyIsKeptAsItCameWhereThatIsAskedFor() throws {
    let encoded = Gzip.stored(Self.content.allBytes)
    let server = try Script.start(
      { _ in Response.bytes([]).contentEncoding("gzip", bytes: encoded).etag("\"z\"").cut(afterBytes: 90_000) },
      { _ in
        Response.bytes([]).contentEncoding("gzip", bytes: encoded).etag("\"z\"").withoutHeader("Content-Encoding")
      })
    defer { server.stop() }
    let scene = try Scene()
    let task = try scene.ended(try scene.get(server.url("/file")) { $0.keepsEncoding = true })
    #expect(task.state == "succeeded")
    #expect(try scene.bytes("result") == encoded)
  }

  /// Row 5: broken coding is no result, and the destination stays free.
  @Test func aBodyThatDoesNotDecodeIsNoResult() throws {
    let server = try LocalServer.start { _ in
      Response.bytes([]).contentEncoding("gzip", bytes: Array("this is not gzip".utf8))
    }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file")) { $0.resourceTimeoutSeconds = 4 }
    let task = try scene.ended(id)
    #expect(task.state == "failed")
    try scene.waitForNames([])
  }

  /// Row 6.
  @Test func everyRequestAsksForIdentity() throws {
    let server = try LocalServer.start { request in
      let isEncodable = request.headers["Accept-Encoding"]?.contains("gzip") == true
      let answer = ResumeCases.whole()
      if isEncodable { return answer.ignoringRange() }
      return request.headers["Range"] == nil ? answer.cut(afterBytes: 100_000) : answer
    }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    #expect(try scene.ended(id).wasted == nil)
    try ResumeCases.expectWhole(scene)
    #expect(server.requests.allSatisfy { $0.headers.values("Accept-Encoding") == ["identity"] })
  }

  struct Short: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var answer: @Sendable () -> Response
  }

  static let short: [Short] = [
    Short(testDescription: "one byte fewer than announced") { ResumeCases.whole().cut(afterBytes: 299_999) },
    Short(testDescription: "one byte fewer, no validator") { .generated(length: 300_000).cut(afterBytes: 299_999) },
    Short(testDescription: "reset") { .generated(length: 300_000).reset(afterBytes: 150_000) },
    Short(testDescription: "no last chunk") { .generated(length: 300_000).chunkedWithoutTerminator() },
    Short(testDescription: "cut inside a chunk") {
      Response.generated(length: 300_000).chunked().cut(afterBytes: 200_000)
    },
    Short(testDescription: "nothing of the body") { .generated(length: 300_000).cut(afterBytes: 0) },
    Short(testDescription: "more announced than there is") {
      Response.generated(length: 1000, seed: 9).contentLength(lying: 300_000)
    },
    Short(testDescription: "no answer") { .closeWithoutAnswer() },
    Short(testDescription: "no HTTP") { .garbage(Array("hello\n".utf8)) },
    Short(testDescription: "a length that is no number") {
      Response.generated(length: 300_000).contentLength(lying: "many")
    },
    Short(testDescription: "two lengths") {
      Response.generated(length: 300_000).header("Content-Length", "300000").addingHeader("Content-Length", "7")
    },
  ]

  /// Row 7.
  @Test func aShortBodyIsNeverAResult() throws {
    let kinds = Self.short
    let seen = PathCounter()
    let server = try LocalServer.start { request in
      guard let kind = Int(request.path.dropFirst()) else { return .status(404) }
      return seen.next(request.path) == 1 ? kinds[kind].answer() : ResumeCases.whole()
    }
    defer { server.stop() }
    let scene = try Scene()
    let ids = try kinds.indices.map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    for (index, id) in ids.enumerated() {
      let task = try scene.ended(id)
      #expect(task.state == "succeeded", "\(kinds[index].testDescription): \(Scene.text(task))")
      #expect(task.attempts == 2, "\(kinds[index].testDescription)")
      try ResumeCases.expectWhole(scene, "file\(index)")
    }
  }

  /// Row 7: a body that only the end of its connection delimits is taken, and its receipt says so.
  @Test func aBodyWithoutLengthIsTakenWithANote() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole().withoutContentLength() }
    defer { server.stop() }
    let scene = try Scene()
    let task = try scene.ended(try scene.get(server.url("/file")))
    #expect(task.state == "succeeded")
    #expect(task.isLengthVerified == false)
    try ResumeCases.expectWhole(scene)
  }

  static func digest(seed: UInt64) throws -> String {
    let folder = try Scene.temporaryFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let content = GeneratedContent(length: ResumeCases.length, seed: seed).allBytes
    try Data(content).write(to: URL(filePath: "\(folder)/content"))
    let output = try Tool.run("/usr/bin/sha256sum", ["\(folder)/content"])
    return String(output.output.prefix(64))
  }

  /// Row 9.
  @Test func wrongContentIsFetchedOnceMore() throws {
    let server = try Script.start({ _ in ResumeCases.whole(seed: 2) }, { _ in ResumeCases.whole(seed: 1) })
    defer { server.stop() }
    let scene = try Scene()
    let expected = try Self.digest(seed: 1)
    let id = try scene.get(server.url("/file")) { $0.sha256 = expected }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(task.sha256 == expected)
    #expect(server.requestCount == 2)
    #expect(server.requests.last?.headers["Range"] == nil)
    try ResumeCases.expectWhole(scene)
  }

  /// Row 9: the loop is capped, and leaves nothing behind.
  @Test func contentThatStaysWrongEndsTheTask() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole(seed: 2) }
    defer { server.stop() }
    let scene = try Scene()
    let expected = try Self.digest(seed: 1)
    let task = try scene.ended(try scene.get(server.url("/file")) { $0.sha256 = expected })
    #expect(task.state == "failed")
    #expect(task.error?.code == "digestMismatch")
    #expect(server.requestCount == 2)
    try scene.waitForNames([])
  }

  /// Row 9 with row 1: the digest is of the file, not of all that came.
  @Test func theDigestIsOfTheFileAfterARestart() throws {
    let server = try Script.start({ _ in ResumeCases.broken() }, { _ in ResumeCases.whole().ignoringRange() })
    defer { server.stop() }
    let scene = try Scene()
    let expected = try Self.digest(seed: 1)
    let task = try scene.ended(try scene.get(server.url("/file")) { $0.sha256 = expected })
    #expect(task.state == "succeeded")
    #expect(server.requestCount == 2)
  }

  /// Row 21.
  @Test(arguments: [511, 404, 403, 401, 400, 410, 451])
  func aPageOfAnErrorIsNeverTheFile(status: Int) throws {
    let server = try LocalServer.start { _ in Response.text(Self.page).status(status) }
    defer { server.stop() }
    let scene = try Scene()
    let task = try scene.ended(try scene.get(server.url("/file")))
    #expect(task.state == "failed")
    #expect(task.error?.number == status)
    try scene.waitForNames([])
  }

  /// Row 21: a portal answers in the place of the host; with a digest its page is found out, and the file comes after.
  @Test func aPortalsPageIsFoundOutByTheDigest() throws {
    let portal = try LocalServer.start { _ in .text(Self.page) }
    defer { portal.stop() }
    let server = try Script.start(
      { _ in ResumeCases.broken() }, { _ in .redirect(to: portal.url("/login")) }, { _ in ResumeCases.whole() })
    defer { server.stop() }
    let scene = try Scene()
    let expected = try Self.digest(seed: 1)
    let task = try scene.ended(try scene.get(server.url("/file")) { $0.sha256 = expected })
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(portal.requestCount == 1)
    try ResumeCases.expectWhole(scene)
  }

  /// Row 39.
  @Test func noRequestIsAHEAD() throws {
    let server = try LocalServer.start { request in
      request.method == "HEAD"
        ? .status(403) : request.headers["Range"] == nil ? ResumeCases.broken() : ResumeCases.whole()
    }
    defer { server.stop() }
    let scene = try Scene()
    #expect(try scene.ended(try scene.get(server.url("/file"))).state == "succeeded")
    #expect(server.requests.map(\.method) == ["GET", "GET"])
  }

  /// Row 40.
  @Test(arguments: [true, false])
  func aBodyOfUnknownLengthIsFetchedAndItsTotalStaysUnknown(hasValidator: Bool) throws {
    let answer: @Sendable () -> Response = {
      hasValidator ? ResumeCases.whole() : .generated(length: ResumeCases.length)
    }
    let gate = Gate()
    let server = try Script.start(
      { _ in answer().chunked().stall(afterBytes: 120_000, until: gate).cut(afterBytes: 120_000) },
      { _ in answer().chunked() })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let running = try scene.wait(id, for: "120,000 bytes") { $0.received == 120_000 }
    #expect(running.expected == nil)
    gate.open()
    let task = try scene.ended(id)
    #expect(task.state == "succeeded")
    #expect(task.expected == Int64(ResumeCases.length))
    #expect((server.requests.last?.headers["Range"] != nil) == hasValidator)
    try ResumeCases.expectWhole(scene)
  }

  /// Row 70.
  @Test func oneFailureOfTenLeavesTheOthersAlone() throws {
    let server = try LocalServer.start { request in
      request.path == "/3" ? .status(404) : ResumeCases.whole().throttled(bytes: 50_000, every: .milliseconds(20))
    }
    defer { server.stop() }
    let scene = try Scene()
    let ids = try (0..<10).map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    for (index, id) in ids.enumerated() {
      #expect(try scene.ended(id).state == (index == 3 ? "failed" : "succeeded"))
    }
    try scene.waitForDeliveries("finish-events") { $0.contains { $0.kind == "finishEvents" } }
    #expect(Set(scene.deliveries.filter { $0.kind == "completion" }.compactMap { $0.task?.id }) == Set(ids))
  }
}
