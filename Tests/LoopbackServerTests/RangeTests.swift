import LoopbackServer
import Testing

@Suite struct RangeTests {
  private let content = GeneratedContent(length: 1000, seed: 3)

  @Test(arguments: [
    ("bytes=0-99", 0..<100), ("bytes=900-", 900..<1000), ("bytes=-10", 990..<1000), ("BYTES=5-5", 5..<6),
    ("bytes=0-99999999999999999999999", 0..<1000), ("bytes=-5000", 0..<1000), ("bytes= 7-9 ", 7..<10),
  ])
  func aRangeIsServed(field: String, range: Range<Int>) throws {
    let server = try LocalServer.start { _ in .generated(length: 1000, seed: 3) }
    defer { server.stop() }
    let answer = try #require(RawClient(port: server.port)?.get("/", "Range: \(field)"))
    #expect(answer.head.status == 206)
    #expect(answer.head["Content-Range"] == "bytes \(range.lowerBound)-\(range.upperBound - 1)/1000")
    #expect(answer.body == content.bytes(range))
    #expect(answer.body.count == range.count)
  }

  @Test(arguments: ["bytes=1000-", "bytes=5000-6000", "bytes=-0", "bytes=99999999999999999999-"])
  func aRangeOutsideIs416(field: String) throws {
    let server = try LocalServer.start { _ in .generated(length: 1000, seed: 3) }
    defer { server.stop() }
    let answer = try #require(RawClient(port: server.port)?.get("/", "Range: \(field)"))
    #expect(answer.head.status == 416)
    #expect(answer.head["Content-Range"] == "bytes */1000")
    #expect(answer.body.isEmpty)
  }

  @Test(arguments: ["items=0-1", "bytes=5-4", "bytes=0-1,3-4", "bytes=a-b", "bytes=", "bytes=-", "0-1", "bytes=+1-2"])
  func whatIsNoRangeIsIgnored(field: String) throws {
    let server = try LocalServer.start { _ in .generated(length: 1000, seed: 3) }
    defer { server.stop() }
    let answer = try #require(RawClient(port: server.port)?.get("/", "Range: \(field)"))
    #expect(answer.head.status == 200)
    #expect(answer.body == content.allBytes)
  }

  @Test func onlyAGetWith200IsServedInRanges() throws {
    let server = try LocalServer.start { request in
      request.path == "/503" ? .text("0123456789").status(503) : .text("0123456789")
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    #expect(client.get("/503", "Range: bytes=2-3")?.head.status == 503)
    client.send("POST / HTTP/1.1\r\nRange: bytes=2-3\r\n\r\n")
    #expect(client.readHead()?.status == 200)
  }

  @Test(arguments: [
    ("\"a\"", "\"a\"", 206), ("\"a\"", "\"b\"", 200), ("W/\"a\"", "W/\"a\"", 200), ("W/\"a\"", "\"a\"", 200),
    ("\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT", 206), ("\"a\"", "Sun, 06 Nov 1994 08:49:38 GMT", 200),
  ])
  func ifRangeNeedsTheSameStrongValidator(tag: String, condition: String, status: Int) throws {
    let server = try LocalServer.start { request in
      let response = Response.generated(length: 1000, seed: 3).etag(tag)
        .lastModified(HTTPDate(secondsSinceEpoch: 784_111_777))
      return request.path == "/deaf" ? response.ignoringIfRange() : response
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    let answer = try #require(client.get("/", "Range: bytes=500-", "If-Range: \(condition)"))
    #expect(answer.head.status == status)
    #expect(client.get("/deaf", "Range: bytes=500-", "If-Range: \(condition)")?.head.status == 206)
  }

  @Test func rangesCanBeLiedAbout() throws {
    let server = try LocalServer.start { request in
      let plain = Response.generated(length: 1000, seed: 3)
      return switch request.path {
      case "/ignored": plain.ignoringRange()
      case "/lie": plain.contentRange(lying: "bytes 400-999/1000")
      case "/missing": plain.contentRange { _ in nil }
      case "/moved":
        plain.contentRange { "bytes \($0.range.lowerBound - 1)-\($0.range.upperBound - 1)/\($0.total + 1)" }
      default: plain.adjustingRange { $0.lowerBound / 512 * 512..<$0.upperBound }
      }
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    let ignored = try #require(client.get("/ignored", "Range: bytes=600-"))
    #expect(ignored.head.status == 200)
    #expect(ignored.head["Accept-Ranges"] == nil)
    #expect(ignored.body.count == 1000)
    let lie = try #require(client.get("/lie", "Range: bytes=600-"))
    #expect(lie.head["Content-Range"] == "bytes 400-999/1000")
    #expect(lie.body == content.bytes(600..<1000))
    let missing = try #require(client.get("/missing", "Range: bytes=600-"))
    #expect(missing.head.status == 206)
    #expect(missing.head["Content-Range"] == nil)
    #expect(client.get("/moved", "Range: bytes=600-")?.head["Content-Range"] == "bytes 599-999/1001")
    let aligned = try #require(client.get("/aligned", "Range: bytes=600-"))
    #expect(aligned.head["Content-Range"] == "bytes 512-999/1000")
    #expect(aligned.body == content.bytes(512..<1000))
  }
}
