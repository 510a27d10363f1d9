import LoopbackServer
import Synchronization
import Testing

@Suite struct FaultTests {
  private let content = GeneratedContent(length: 1_000_000, seed: 4)

  private func serve(_ script: @escaping @Sendable (Response) -> Response) throws -> LocalServer {
    try LocalServer.start { _ in script(.generated(length: 1_000_000, seed: 4)) }
  }

  @Test func aCutSendsExactlyTheBytesAndAnOrderlyEnd() throws {
    let server = try serve { $0.cut(afterBytes: 123_457) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(client.readHead()?.contentLength == 1_000_000)
    let body = client.readToEnd()
    #expect(body.count == 123_457)
    #expect(content.verify(body) == nil)
    #expect(!client.wasReset)
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == .cut)
    #expect(server.exchanges[0].bodyBytesSent == 123_457)
  }

  @Test func positionsOfA206CountFromItsRange() throws {
    let server = try serve { $0.cut(afterBytes: 1000) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\nRange: bytes=500000-\r\n\r\n")
    #expect(client.readHead()?.contentLength == 500_000)
    let body = client.readToEnd()
    #expect(body == content.bytes(500_000..<501_000))
  }

  @Test func aCutBeyondTheBodyNeverHappens() throws {
    let server = try LocalServer.start { _ in .text("abc").cut(afterBytes: 4) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    #expect(client.get("/")?.body.count == 3)
    #expect(client.get("/")?.body.count == 3)
  }

  @Test(arguments: [0, 1, 100_000])
  func aResetComesAfterTheBytes(count: Int) throws {
    let server = try serve { $0.reset(afterBytes: count) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(client.readHead()?.status == 200)
    #expect(client.readToEnd().count == count)
    #expect(client.wasReset)
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == .reset)
  }

  @Test func aStallEndsWithItsGate() throws {
    let gate = Gate()
    let server = try serve { $0.stall(afterBytes: 5000, until: gate) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(client.readHead()?.status == 200)
    #expect(client.read(count: 5000).count == 5000)
    #expect(gate.waitForWaiters())
    #expect(server.currentRequests == 1)
    #expect(server.exchanges.isEmpty)
    gate.open()
    let rest = client.read(count: 995_000)
    #expect(content.verify(rest, at: 5000) == nil)
    #expect(rest.count == 995_000)
    #expect(gate.waiters == 0)
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == .complete)
  }

  @Test func aStallEndsWhenTheClientLeaves() throws {
    let server = try serve { $0.stall(afterBytes: 0) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(client.readHead()?.status == 200)
    #expect(server.exchanges.isEmpty)
    client.leave()
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].end == .clientLeft)
    #expect(server.waitForConnections(0))
  }

  @Test func stopEndsWhateverWaits() throws {
    let server = try LocalServer.start { request in
      switch request.path {
      case "/stall": .text("abc").stall(afterBytes: 1)
      case "/hold": .text("abc").hold(until: Gate())
      case "/delay": .text("abc").delayed(by: .seconds(3600))
      case "/full": .generated(length: 1 << 40)
      default: .text("abc").throttled(bytes: 1, every: .seconds(3600))
      }
    }
    var clients: [RawClient] = []
    for path in ["/stall", "/hold", "/delay", "/full", "/throttle"] {
      let client = try #require(RawClient(port: server.port))
      client.send("GET \(path) HTTP/1.1\r\n\r\n")
      clients.append(client)
    }
    // One connection that never asked anything.
    clients.append(try #require(RawClient(port: server.port)))
    #expect(server.waitForRequests(5))
    #expect(server.waitForConnections(6))
    server.stop()
    #expect(server.currentConnections == 0)
    #expect(server.exchanges.map(\.end) == Array(repeating: .stopped, count: 5))
    // Whoever answers on that port now is not this server.
    _ = RawClient(port: server.port)
    #expect(server.acceptedConnections == 6)
  }

  @Test func aHeldResponseWaitsForItsGate() throws {
    let gate = Gate()
    let server = try LocalServer.start { request in
      request.path == "/held" ? .text("late").hold(until: gate) : .text("now")
    }
    defer { server.stop() }
    let held = try #require(RawClient(port: server.port))
    held.send("GET /held HTTP/1.1\r\n\r\n")
    #expect(gate.waitForWaiters())
    #expect(RawClient(port: server.port)?.get("/")?.body == Array("now".utf8))
    #expect(server.peakConcurrentRequests == 2)
    #expect(gate.waiters == 1)
    gate.open()
    #expect(held.readHead()?.contentLength == 4)
    #expect(held.read(count: 4) == Array("late".utf8))
    // An open gate holds nobody.
    #expect(held.get("/held")?.body == Array("late".utf8))
    #expect(gate.wait(seconds: 0))
  }

  @Test func aThrottleSendsStepByStep() throws {
    let server = try LocalServer.start { request in
      request.path == "/slow"
        ? .generated(length: 1000).throttled(bytes: 400, every: .seconds(3600))
        : .generated(length: 1000).throttled(bytes: 400, every: .milliseconds(1))
    }
    defer { server.stop() }
    let slow = try #require(RawClient(port: server.port))
    slow.send("GET /slow HTTP/1.1\r\n\r\n")
    #expect(slow.readHead()?.contentLength == 1000)
    #expect(slow.read(count: 400).count == 400)
    // Another whole response overtakes the throttled one, which stays where it is until its client leaves.
    #expect(RawClient(port: server.port)?.get("/quick")?.body.count == 1000)
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges.map(\.request?.path) == ["/quick"])
    slow.leave()
    #expect(server.waitForExchanges(2))
    #expect(server.exchanges[1].bodyBytesSent == 400)
    #expect(server.exchanges[1].end == .clientLeft)
  }

  @Test func aDelayComesBeforeTheHead() throws {
    let server = try LocalServer.start { _ in .text("x").delayed(by: .seconds(3600)) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(server.waitForRequests(1))
    client.leave()
    #expect(server.waitForExchanges(1))
    #expect(server.exchanges[0].statusCode == nil)
    #expect(server.exchanges[0].end == .clientLeft)
  }

  @Test func hooksHappenInOrder() throws {
    let seen = Mutex<[String]>([])
    let log: @Sendable (String) -> @Sendable () -> Void = { word in { seen.withLock { $0.append(word) } } }
    let last = Gate()
    let server = try LocalServer.start { _ in
      .generated(length: 1000).onBytes(700, log("700")).onBytes(0, log("0")).onBytes(10, log("10a"))
        .onBytes(10, log("10b")).onBytes(1000, log("1000")).onBytes(1001, log("never"))
        .onBytes(1000) { last.open() }
    }
    defer { server.stop() }
    #expect(RawClient(port: server.port)?.get("/")?.body.count == 1000)
    #expect(last.wait())
    #expect(seen.withLock { $0 } == ["0", "10a", "10b", "700", "1000"])
  }

  @Test(arguments: [("5", 3), ("2", 3), ("x", 3), ("-1", 3), ("99999999999999999999999", 3)])
  func contentLengthCanBeLiedAbout(value: String, count: Int) throws {
    let server = try LocalServer.start { _ in .text("abc").contentLength(lying: value) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET / HTTP/1.1\r\n\r\n")
    #expect(client.readHead()?["Content-Length"] == value)
    #expect(client.readToEnd().count == count)
    #expect(!client.wasReset)
  }

  @Test func theLastChunkCanBeMissing() throws {
    let server = try LocalServer.start { request in
      request.path == "/cut"
        ? .text("abcdef").chunked(size: 4).cut(afterBytes: 5)
        : .text("abc").chunkedWithoutTerminator()
    }
    defer { server.stop() }
    let first = try #require(RawClient(port: server.port))
    first.send("GET / HTTP/1.1\r\n\r\n")
    #expect(first.readHead() != nil)
    #expect(first.readToEnd() == Array("3\r\nabc\r\n".utf8))
    let second = try #require(RawClient(port: server.port))
    second.send("GET /cut HTTP/1.1\r\n\r\n")
    #expect(second.readHead() != nil)
    #expect(second.readToEnd() == Array("4\r\nabcd\r\n1\r\ne\r\n".utf8))
  }

  @Test func answersCanBeGarbageOrNothing() throws {
    let server = try LocalServer.start { request in
      switch request.path {
      case "/garbage": .garbage(Array("HTTP/9 what\u{0}".utf8))
      case "/reset": .resetWithoutAnswer()
      default: .closeWithoutAnswer()
      }
    }
    defer { server.stop() }
    for (path, expected, reset) in [
      ("/garbage", "HTTP/9 what\u{0}", false), ("/none", "", false), ("/reset", "", true),
    ] {
      let client = try #require(RawClient(port: server.port))
      client.send("GET \(path) HTTP/1.1\r\n\r\n")
      #expect(client.readToEnd() == Array(expected.utf8))
      #expect(client.wasReset == reset)
    }
    #expect(server.waitForExchanges(3))
    #expect(server.exchanges.map(\.end) == [.unanswered, .unanswered, .reset])
    #expect(server.exchanges.allSatisfy { $0.statusCode == nil })
  }
}
