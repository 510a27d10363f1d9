import LoopbackServer
import Testing

@Suite struct UploadTests {
  private func start(
    _ configuration: LocalServer.Configuration = .init(), _ plan: @escaping @Sendable (RequestHead) -> BodyPlan
  ) throws -> LocalServer {
    try LocalServer.start(configuration: configuration, head: plan) { request in
      .text("\(request.bodyByteCount) \(request.bodyDigest)")
    }
  }

  @Test func bodiesWithALengthAreRecorded() throws {
    let server = try start { _ in .read }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    for text in ["", "hello", String(repeating: "x", count: 100_000)] {
      client.send("PUT /u HTTP/1.1\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)")
      let head = try #require(client.readHead())
      #expect(
        client.read(count: head.contentLength ?? 0) == Array("\(text.utf8.count) \(FNV1a(Array(text.utf8)))".utf8))
      let request = try #require(server.requests.last)
      #expect(request.bodyText == text)
      #expect(request.isBodyComplete)
    }
  }

  @Test func chunkedBodiesArePutTogether() throws {
    let server = try start { _ in .read }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n")
    for part in ["5;name=\"v\"\r\nhel", "lo\r\n", "00A \r\n0123456", "789\r\n0\r\nTrailer: x\r\n", "\r\n"] {
      client.send(part)
    }
    #expect(client.readHead()?.status == 200)
    #expect(server.requests[0].bodyText == "hello0123456789")
  }

  @Test func longBodiesAreCountedAndDigestedOnly() throws {
    var configuration = LocalServer.Configuration()
    configuration.recordedBodyByteLimit = 1000
    let server = try start(configuration) { _ in .read }
    defer { server.stop() }
    let content = GeneratedContent(length: 3_000_000)
    let client = try #require(RawClient(port: server.port))
    client.send("PUT / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n")
    client.send(content.allBytes)
    #expect(client.readHead()?.status == 200)
    let request = server.requests[0]
    #expect(request.body == content.bytes(0..<1000))
    #expect(request.bodyByteCount == 3_000_000)
    #expect(request.bodyDigest == content.digest)
  }

  @Test func aClientThatAsksIsToldToContinue() throws {
    let server = try start { head in
      head.path == "/early" ? .respondEarly(.text("no").status(403)) : .read
    }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("PUT / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n")
    #expect(client.readHead()?.status == 100)
    client.send("abc")
    let head = try #require(client.readHead())
    #expect(head.status == 200)
    _ = client.read(count: head.contentLength ?? 0)
    #expect(server.requests[0].bodyText == "abc")
    client.send("PUT /early HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    let early = try #require(client.readHead())
    #expect(early.status == 403)
    #expect(early["Connection"] == "close")
    #expect(client.readToEnd() == Array("no".utf8))
    #expect(server.requests[1].bodyByteCount == 0)
    #expect(!server.requests[1].isBodyComplete)
  }

  @Test func anEarlyAnswerComesInTheMiddle() throws {
    let server = try start { _ in .respondEarly(.text("enough").status(413), afterBytes: 10) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("PUT / HTTP/1.1\r\nContent-Length: 100\r\n\r\n0123456789")
    #expect(client.readHead()?.status == 413)
    client.send("abc")
    #expect(client.readToEnd() == Array("enough".utf8))
    #expect(!client.wasReset)
    #expect(server.requests[0].bodyText == "0123456789")
  }

  @Test func readingCanBeThrottled() throws {
    let server = try start { head in
      .throttled(bytes: 1000, every: head.path == "/slow" ? .seconds(3600) : .milliseconds(1))
    }
    defer { server.stop() }
    let slow = try #require(RawClient(port: server.port))
    slow.send("PUT /slow HTTP/1.1\r\nContent-Length: 2000\r\n\r\n" + String(repeating: "s", count: 2000))
    #expect(server.waitUntil { $0.first?.bodyByteCount == 1000 })
    let quick = try #require(RawClient(port: server.port))
    quick.send("PUT /quick HTTP/1.1\r\nContent-Length: 5500\r\n\r\n" + String(repeating: "q", count: 5500))
    #expect(quick.readHead()?.status == 200)
    #expect(server.requests[1].bodyByteCount == 5500)
    #expect(server.requests[0].bodyByteCount == 1000)
    #expect(!server.requests[0].isBodyComplete)
  }

  @Test func aStalledReaderHoldsTheSenderBack() throws {
    let gate = Gate()
    var configuration = LocalServer.Configuration()
    configuration.receiveBufferByteCount = 4096
    let server = try start(configuration) { _ in .stall(afterBytes: 10, until: gate) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("PUT / HTTP/1.1\r\nContent-Length: 20\r\n\r\n0123456789abcdefghij")
    #expect(gate.waitForWaiters())
    #expect(server.requests[0].bodyByteCount == 10)
    gate.open()
    #expect(client.readHead()?.status == 200)
    #expect(server.requests[0].bodyText == "0123456789abcdefghij")
  }

  @Test(arguments: [false, true])
  func readingCanEndTheConnection(reset: Bool) throws {
    let server = try start { _ in reset ? .reset(afterBytes: 10) : .cut(afterBytes: 10) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("PUT / HTTP/1.1\r\nContent-Length: 20\r\n\r\n0123456789")
    #expect(client.readToEnd().isEmpty)
    #expect(client.wasReset == reset)
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == (reset ? .reset : .cut))
    #expect(server.requests[0].bodyByteCount == 10)
  }

  @Test func aClientThatLeavesInItsBodyIsNoticed() throws {
    let server = try start { _ in .read }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("PUT / HTTP/1.1\r\nContent-Length: 20\r\n\r\n01234")
    #expect(server.waitForRequests(1))
    client.leave()
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == .clientLeft)
    #expect(server.requests[0].bodyText == "01234")
    #expect(!server.requests[0].isBodyComplete)
  }
}
