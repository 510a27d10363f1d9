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
}
