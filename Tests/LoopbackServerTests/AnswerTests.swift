import LoopbackServer
import Testing

@Suite struct AnswerTests {
  @Test func aClosureIsAServer() throws {
    let server = try LocalServer.start { request in .text("hello") }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    let answer = try #require(client.get("/a/b?x=1%202&y", "X-Test: One"))
    #expect(answer.head.status == 200)
    #expect(answer.body == Array("hello".utf8))
    #expect(answer.head["Content-Type"] == "text/plain; charset=utf-8")
    let request = try #require(server.requests.first)
    #expect(request.method == "GET")
    #expect(request.path == "/a/b")
    #expect(request.queryValue("x") == "1 2")
    #expect(request.queryValue("y") == "")
    #expect(request.headers["x-test"] == "One")
    #expect(request.isBodyComplete)
    #expect(server.baseURL == "http://127.0.0.1:\(server.port)")
    #expect(server.localhostURL == "http://localhost:\(server.port)")
    #expect(server.url("/q") == "http://127.0.0.1:\(server.port)/q")
  }

  @Test func oneConnectionServesManyRequests() throws {
    let server = try LocalServer.start { request in .text(request.path) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    for number in 1...3 {
      let answer = try #require(client.get("/\(number)"))
      #expect(answer.body == Array("/\(number)".utf8))
    }
    #expect(server.requests.map(\.requestNumber) == [1, 2, 3])
    #expect(Set(server.requests.map(\.connectionNumber)) == [1])
    #expect(server.acceptedConnections == 1)
  }

  @Test func requestsSentAtOnceAreAnsweredInOrder() throws {
    let server = try LocalServer.start { request in .text(request.path) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET /a HTTP/1.1\r\n\r\nGET /bb HTTP/1.1\nConnection: close\n\n")
    #expect(client.readHead()?.contentLength == 2)
    #expect(client.read(count: 2) == Array("/a".utf8))
    let second = try #require(client.readHead())
    #expect(second["Connection"] == "close")
    #expect(client.readToEnd() == Array("/bb".utf8))
  }

  @Test func absoluteTargetsHaveTheirPath() throws {
    let server = try LocalServer.start { request in .text(request.path + "?" + (request.query ?? "-")) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    #expect(client.get("http://example.invalid:81/p/q?a=b")?.body == Array("/p/q?a=b".utf8))
    #expect(client.get("http://example.invalid")?.body == Array("/?-".utf8))
    #expect(client.get("/redirect?to=http://x/y")?.body == Array("/redirect?to=http://x/y".utf8))
    #expect(server.requests[0].target == "http://example.invalid:81/p/q?a=b")
  }

  @Test func headAndEmptyStatusesHaveNoBody() throws {
    let server = try LocalServer.start { request in
      switch request.path {
      case "/204": .status(204)
      case "/304": .text("never sent").status(304)
      case "/chunked": .text("never sent").chunked()
      default: .text("12345")
      }
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("HEAD / HTTP/1.1\r\n\r\n")
    let head = try #require(client.readHead())
    #expect(head.contentLength == 5)
    client.send("HEAD /chunked HTTP/1.1\r\n\r\n")
    let chunked = try #require(client.readHead())
    #expect(chunked["Transfer-Encoding"] == "chunked")
    // Were there a body, the next head would not parse.
    for status in [204, 304] {
      let answer = try #require(client.get("/\(status)"))
      #expect(answer.head.status == status)
      #expect(answer.head["Content-Length"] == nil)
    }
    #expect(client.get("/")?.body == Array("12345".utf8))
  }

  @Test func headersAreWhatTheScriptSays() throws {
    let moment = HTTPDate(secondsSinceEpoch: 784_111_777)
    let server = try LocalServer.start { _ in
      Response.text("x").status(299, reason: "Odd").header("content-type", "a/b").header("X-A", "1")
        .addingHeader("X-A", "2").etag("W/\"t\"").lastModified(moment).date(moment).withoutHeader("Accept-Ranges")
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    let head = try #require(client.get("/")?.head)
    #expect(head.lines[0] == "HTTP/1.1 299 Odd")
    #expect(head.lines.filter { $0.lowercased().hasPrefix("content-type") } == ["content-type: a/b"])
    #expect(head.lines.filter { $0.hasPrefix("X-A") } == ["X-A: 1", "X-A: 2"])
    #expect(head["ETag"] == "W/\"t\"")
    // The example of RFC 9110, 5.6.7.
    #expect(head["Last-Modified"] == "Sun, 06 Nov 1994 08:49:37 GMT")
    #expect(head["Date"] == "Sun, 06 Nov 1994 08:49:37 GMT")
    #expect(head["Accept-Ranges"] == nil)
  }

  @Test(arguments: [
    (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
    (951_827_696, "Tue, 29 Feb 2000 12:34:56 GMT"), (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
    (Int.max, "Fri, 31 Dec 9999 23:59:59 GMT"), (Int.min, "Mon, 01 Jan 0001 00:00:00 GMT"),
  ])
  func datesAreWrittenAsHTTPWants(seconds: Int, text: String) {
    #expect(HTTPDate(secondsSinceEpoch: seconds).description == text)
  }

  @Test func redirectsPointWhereTold() throws {
    let server = try LocalServer.start { _ in .redirect(to: "http://localhost:1/x", status: 308) }
    defer { server.stop() }
    let head = try #require(RawClient(port: server.port)?.get("/")?.head)
    #expect(head.status == 308)
    #expect(head["Location"] == "http://localhost:1/x")
  }

  @Test func interimResponsesComeFirst() throws {
    let server = try LocalServer.start { _ in
      .text("x").informational(103, ["Link": "</a>"]).informational(100)
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    let first = try #require(client.readHead())
    #expect(first.status == 103)
    #expect(first["Link"] == "</a>")
    #expect(client.readHead()?.status == 100)
    #expect(client.readHead()?.status == 200)
  }

  @Test func oldClientsGetWhatTheyUnderstand() throws {
    let server = try LocalServer.start { _ in .text("abc").chunked(size: 1).informational(103) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.0\r\n\r\n")
    let head = try #require(client.readHead())
    #expect(head.status == 200)
    #expect(head["Transfer-Encoding"] == nil)
    #expect(client.readToEnd() == Array("abc".utf8))
  }

  @Test func chunksAddUpToTheBody() throws {
    let server = try LocalServer.start { request in
      request.path == "/big" ? .generated(length: 200_000).chunked(size: 70_000) : .text("abcdefg").chunked(size: 3)
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(client.readHead()?["Transfer-Encoding"] == "chunked")
    let expected = "3\r\nabc\r\n3\r\ndef\r\n1\r\ng\r\n0\r\n\r\n"
    #expect(String(decoding: client.read(count: expected.utf8.count), as: UTF8.self) == expected)
    client.send("GET /big HTTP/1.1\r\nConnection: close\r\n\r\n")
    #expect(client.readHead()?.status == 200)
    let body = try #require(unchunked(client.readToEnd()))
    #expect(body.count == 200_000)
    #expect(GeneratedContent(length: 200_000).verify(body) == nil)
  }

  private func unchunked(_ wire: [UInt8]) -> [UInt8]? {
    var rest = wire[...]
    var body: [UInt8] = []
    while true {
      guard let lineEnd = rest.firstIndex(of: 0x0D),
        let size = Int(String(decoding: rest[..<lineEnd], as: UTF8.self), radix: 16)
      else { return nil }
      rest = rest[(lineEnd + 2)...]
      if size == 0 { return rest.elementsEqual([0x0D, 0x0A]) ? body : nil }
      guard rest.count >= size + 2 else { return nil }
      body += rest.prefix(size)
      rest = rest.dropFirst(size + 2)
    }
  }

  @Test func theConnectionEndsWhenTheScriptSaysSo() throws {
    let server = try LocalServer.start { request in
      request.path == "/length" ? .text("abc").keepAlive(false) : .text("abc").withoutContentLength()
    }
    defer { server.stop() }
    for path in ["/length", "/none"] {
      let client = try #require(RawClient(port: server.port))
      client.send("GET \(path) HTTP/1.1\r\n\r\n")
      let head = try #require(client.readHead())
      #expect(head["Connection"] == "close")
      #expect((head["Content-Length"] == nil) == (path == "/none"))
      #expect(client.readToEnd() == Array("abc".utf8))
      #expect(!client.wasReset)
    }
  }

  @Test func encodedBytesAreSentAsGiven() throws {
    let encoded = Gzip.stored(Array("hello".utf8))
    let server = try LocalServer.start { _ in .status(200).contentEncoding("gzip", bytes: encoded) }
    defer { server.stop() }
    let answer = try #require(RawClient(port: server.port)?.get("/"))
    #expect(answer.head["Content-Encoding"] == "gzip")
    #expect(answer.body == encoded)
    #expect(answer.body.count == 5 + 23)
  }
}
