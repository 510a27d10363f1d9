import LoopbackServer
import Testing

/// After every attack another client must be served as if nothing had happened.
@Suite struct HostileClientTests {
  private func expectUnharmed(_ server: LocalServer) throws {
    #expect(RawClient(port: server.port)?.get("/")?.body == Array("fine".utf8))
  }

  @Test(arguments: [
    ("\u{0}\u{1}\u{2}\r\n\r\n", 400), ("GET\r\n\r\n", 400), ("GET /\r\n\r\n", 400), ("GET  / HTTP/1.1\r\n\r\n", 400),
    ("G@T / HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/2.0\r\n\r\n", 505), ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("GET / FTP/1.1\r\n\r\n", 400), ("GET /\u{7F} HTTP/1.1\r\n\r\n", 400), ("GET / HTTP/1.1\r\nA B: c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nA : c\r\n\r\n", 400), ("GET / HTTP/1.1\r\n: c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400), ("GET / HTTP/1.1\r\nA: \u{0}\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nnothing\r\n\r\n", 400), ("PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    ("PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    ("PUT / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
    ("PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    ("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    ("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", 400),
    ("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 400),
    ("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", 400),
    ("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\rx\n", 400),
  ])
  func whatIsNoRequestIsRefused(request: String, status: Int) throws {
    let server = try LocalServer.start { _ in .text("fine") }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send(request)
    let head = try #require(client.readHead())
    #expect(head.status == status)
    #expect(head["Connection"] == "close")
    #expect(client.readToEnd().count == head.contentLength)
    #expect(!client.wasReset)
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == .badRequest)
    try expectUnharmed(server)
  }

  @Test(arguments: ["GET /", "GET / HTTP/1.1\r\nA: ", "GET / HTTP/1.1\r\n"])
  func headsWithoutEndAreBounded(beginning: String) throws {
    let server = try LocalServer.start { _ in .text("fine") }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send(beginning)
    let more =
      beginning.hasSuffix("\r\n") ? String(repeating: "A: b\r\n", count: 12_000) : String(repeating: "x", count: 70_000)
    client.send(more)
    #expect(client.readHead()?.status == 431)
    try expectUnharmed(server)
  }

  @Test func endlessTrailersAreBounded() throws {
    let server = try LocalServer.start { _ in .text("fine") }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send(
      "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + String(repeating: "A: b\r\n", count: 4000))
    #expect(client.readHead()?.status == 431)
    try expectUnharmed(server)
  }

  @Test func bytesThatAreNotTextDoNoHarm() throws {
    let server = try LocalServer.start { _ in .text("fine") }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send(
      Array("GET /".utf8) + [0xFF, 0xC3, 0x28] + Array("?%zz=%4&%=%41 HTTP/1.1\r\nA: ".utf8) + [
        0xFE, 0x0D, 0x0A, 0x0D, 0x0A,
      ])
    #expect(client.readHead()?.status == 200)
    #expect(server.requests[0].head.queryItems.map(\.name) == ["%zz", "%"])
    #expect(server.requests[0].head.queryItems.map(\.value) == ["%4", "A"])
  }

  @Test func clientsThatVanishDoNotEndTheProcess() throws {
    let server = try LocalServer.start { request in
      request.path == "/" ? .text("fine") : .generated(length: 50_000_000)
    }
    defer { server.stop() }
    for _ in 1...20 {
      let client = try #require(RawClient(port: server.port))
      client.send("GET /big HTTP/1.1\r\n\r\n")
      #expect(client.readHead()?.status == 200)
      client.leave()
    }
    #expect(server.waitForExchanges(20))
    #expect(server.exchanges.allSatisfy { $0.end == .clientLeft })
    for part in ["", "G", "GET / HT", "GET / HTTP/1.1\r\n", "PUT / HTTP/1.1\r\nContent-Length: 5\r\n\r\n1"] {
      let client = try #require(RawClient(port: server.port))
      client.send(part)
      client.leave()
    }
    #expect(server.waitForConnections(0))
    try expectUnharmed(server)
  }

  @Test func aFloodOfConnectionsIsServed() throws {
    let server = try LocalServer.start { _ in .text("fine") }
    defer { server.stop() }
    let clients = try (1...200).map { _ in try #require(RawClient(port: server.port)) }
    #expect(server.waitForConnections(200))
    for client in clients.reversed() { #expect(client.get("/")?.head.status == 200) }
    for client in clients { client.leave() }
    #expect(server.waitForConnections(0))
  }
}
