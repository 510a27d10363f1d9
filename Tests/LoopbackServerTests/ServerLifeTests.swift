import Glibc
import LoopbackServer
import Testing

@Suite struct ServerLifeTests {
  @Test func aServerCanBeDownForAWhile() throws {
    let server = try LocalServer.start { _ in .text("up") }
    defer { server.stop() }
    let early = try #require(RawClient(port: server.port))
    #expect(early.get("/")?.head.status == 200)
    for _ in 1...3 {
      server.refuseConnections()
      #expect(RawClient(port: server.port) == nil)
      // A connection that exists goes on.
      #expect(early.get("/")?.head.status == 200)
      try server.acceptConnections()
      #expect(RawClient(port: server.port)?.get("/")?.body == Array("up".utf8))
    }
    try server.acceptConnections()
    server.refuseConnections(endingCurrent: true)
    #expect(early.get("/") == nil)
    #expect(server.waitForConnections(0))
    try server.acceptConnections()
    #expect(RawClient(port: server.port)?.get("/")?.head.status == 200)
  }

  @Test func severalServersHavePortsOfTheirOwn() throws {
    let servers = try (1...5).map { number in try LocalServer.start { _ in .text("\(number)") } }
    defer { for server in servers { server.stop() } }
    #expect(Set(servers.map(\.port)).count == 5)
    for (index, server) in servers.enumerated() {
      #expect(RawClient(port: server.port)?.get("/")?.body == Array("\(index + 1)".utf8))
    }
  }

  @Test func aTakenPortIsSaidClearly() throws {
    let server = try LocalServer.start { _ in .text("x") }
    var configuration = LocalServer.Configuration()
    configuration.port = server.port
    #expect {
      try LocalServer.start(configuration: configuration) { _ in .text("y") }
    } throws: { error in
      "\(error)".contains("port \(server.port)") && "\(error)".contains("Address already in use")
        && "\(error)".contains("choose another port")
    }
    server.stop()
    server.stop()
  }

  @Test func aStoppedServerLeavesItsPortFree() throws {
    // Another test may be given the port in between, so one success in a few tries is what can be asked.
    let successor = (1...10).lazy.compactMap { _ -> LocalServer? in
      guard let server = try? LocalServer.start(handler: { _ in .text("x") }) else { return nil }
      // A connection in TIME_WAIT must not keep the port.
      _ = RawClient(port: server.port)?.get("/")
      server.stop()
      var configuration = LocalServer.Configuration()
      configuration.port = server.port
      return try? LocalServer.start(configuration: configuration, handler: { _ in .text("y") })
    }.first
    let server = try #require(successor)
    defer { server.stop() }
    #expect(RawClient(port: server.port)?.get("/")?.body == Array("y".utf8))
  }

  @Test func asynchronousCallersWaitWithoutAThreadOfThePool() async throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in .text("x").hold(until: gate) }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    client.send("GET /a HTTP/1.1\r\n\r\n")
    #expect(await server.waitForRequests(1))
    #expect(await server.waitUntil { $0.contains { $0.path == "/a" } })
    #expect(await server.waitForConnections(1))
    #expect(await gate.waitForWaiters())
    #expect(await !server.waitForExchanges(1, seconds: 0.01))
    gate.open()
    #expect(await gate.wait())
    #expect(await server.waitForExchanges(1))
  }

  @Test func connectionsAndRequestsAreCounted() throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in .text("x").hold(until: gate) }
    defer { server.stop() }
    let clients = try (1...20).map { _ in try #require(RawClient(port: server.port)) }
    for client in clients { client.send("GET / HTTP/1.1\r\n\r\n") }
    #expect(gate.waitForWaiters(20))
    #expect(server.currentConnections == 20)
    #expect(server.currentRequests == 20)
    gate.open()
    for client in clients { #expect(client.readHead()?.status == 200) }
    #expect(server.waitForExchanges(20))
    for client in clients { client.leave() }
    #expect(server.waitForConnections(0))
    #expect(server.currentRequests == 0)
    #expect(server.peakConnections == 20)
    #expect(server.peakConcurrentRequests == 20)
    #expect(server.acceptedConnections == 20)
    #expect(Set(server.requests.map(\.connectionNumber)) == Set(1...20))
  }

  @Test func connectionsBeyondTheLimitAreTurnedAway() throws {
    var configuration = LocalServer.Configuration()
    configuration.connectionLimit = 2
    let server = try LocalServer.start(configuration: configuration) { _ in .text("x") }
    defer { server.stop() }
    let first = try #require(RawClient(port: server.port))
    let second = try #require(RawClient(port: server.port))
    #expect(server.waitForConnections(2))
    let third = try #require(RawClient(port: server.port))
    #expect(third.readHead()?.status == 503)
    #expect(server.turnedAwayConnections == 1)
    #expect(first.get("/")?.head.status == 200)
    second.leave()
    #expect(server.waitForConnections(1))
    #expect(RawClient(port: server.port)?.get("/")?.head.status == 200)
  }

  @Test func whatIsRecordedIsBounded() throws {
    var configuration = LocalServer.Configuration()
    configuration.recordedRequestLimit = 2
    let server = try LocalServer.start(configuration: configuration) { _ in .text("x") }
    defer { server.stop() }
    let client = try #require(RawClient(port: server.port))
    for number in 1...5 { #expect(client.get("/\(number)") != nil) }
    #expect(server.requestCount == 5)
    #expect(server.requests.map(\.path) == ["/1", "/2"])
    #expect(server.waitForExchanges(5))
    #expect(server.exchanges.count == 2)
  }

  @Test func waitsEndAtTheirDeadline() throws {
    let server = try LocalServer.start { _ in .text("x") }
    defer { server.stop() }
    #expect(!server.waitForRequests(1, seconds: 0.01))
    #expect(!server.waitForExchanges(1, seconds: 0))
    #expect(!server.waitForConnections(1, seconds: -1))
    #expect(!server.waitForRequests(1, seconds: .nan))
    #expect(server.waitForRequests(0, seconds: 0))
    #expect(!Gate().wait(seconds: 0.01))
  }

  @Test(.enabled(if: Self.hasIPv6, "this machine has no IPv6 loopback address"))
  func bothFamiliesAreServedOnOnePort() throws {
    var configuration = LocalServer.Configuration()
    configuration.listensOnIPv6 = true
    let server = try LocalServer.start(configuration: configuration) { _ in .text("x") }
    defer { server.stop() }
    #expect(server.ipv6URL == "http://[::1]:\(server.port)")
    #expect(Self.connectsOverIPv6(server.port))
    #expect(RawClient(port: server.port) != nil)
    server.refuseConnections()
    #expect(!Self.connectsOverIPv6(server.port))
  }

  private static let hasIPv6: Bool = {
    var configuration = LocalServer.Configuration()
    configuration.listensOnIPv6 = true
    guard let server = try? LocalServer.start(configuration: configuration, handler: { _ in .text("") }) else {
      return false
    }
    server.stop()
    return true
  }()

  private static func connectsOverIPv6(_ port: UInt16) -> Bool {
    let descriptor = socket(AF_INET6, CInt(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in6()
    address.sin6_family = sa_family_t(AF_INET6)
    address.sin6_port = port.bigEndian
    unsafe address.sin6_addr.__in6_u.__u6_addr8.15 = 1
    return unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
        unsafe connect(descriptor, generic, socklen_t(MemoryLayout<sockaddr_in6>.size)) == 0
      }
    }
  }
}
