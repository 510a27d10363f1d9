import Glibc
import LoopbackServer
import Testing

/// The executable beside the test bundle. Skipped where it was not built.
@Suite(.enabled(if: Spawned.isExecutable(Spawned.program), "needs the product loopback-server to be built"))
struct ProgramTests {
  private func withProgram(_ arguments: [String] = [], _ body: (Spawned, UInt16) throws -> Void) throws {
    let program = try #require(Spawned(Spawned.program, arguments))
    let address = try #require(program.line())
    #expect(address.hasPrefix("http://127.0.0.1:"))
    let port = try #require(address.split(separator: ":").last.flatMap { UInt16($0) })
    try body(program, port)
    kill(program.pid, SIGTERM)
    #expect(program.wait() == 0)
  }

  @Test func itServesAndLogs() throws {
    try withProgram { program, port in
      let client = try #require(RawClient(port: port))
      let content = GeneratedContent(length: 5000, seed: 7)
      let whole = try #require(client.get("/bytes/5000?seed=7"))
      #expect(whole.body == content.allBytes)
      #expect(program.line() == "GET /bytes/5000?seed=7 200 range=- sent=5000 end=complete")
      let part = try #require(client.get("/bytes/5000?seed=7", "Range: bytes=10- ", "If-Range: \"5000-7\""))
      #expect(part.body == content.bytes(10..<5000))
      #expect(program.line() == "GET /bytes/5000?seed=7 206 range=bytes=10- sent=4990 end=complete")
      #expect(client.get("/digest/5000?seed=7")?.body == Array("\(content.digest)\n".utf8))
      let busy = try #require(client.get("/status/503?retry-after=3"))
      #expect(busy.head.status == 503)
      #expect(busy.head["Retry-After"] == "3")
      let moved = try #require(client.get("/redirect?to=http%3A%2F%2Fa%2Fb&status=307"))
      #expect(moved.head.status == 307)
      #expect(moved.head["Location"] == "http://a/b")
      client.send("PUT /upload?rate=2&every=1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
      let upload = try #require(client.readHead())
      #expect(client.read(count: upload.contentLength ?? 0) == Array("PUT /upload 5 bytes\n".utf8))
      client.send("POST /echo HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
      #expect(client.readHead()?.contentLength == 5)
      #expect(client.read(count: 5) == Array("hello".utf8))
    }
  }

  @Test func parametersMakeItMisbehave() throws {
    try withProgram { _, port in
      let cut = try #require(RawClient(port: port))
      cut.send("GET /bytes/1000?cut=10&etag=weak HTTP/1.1\r\n\r\n")
      #expect(cut.readHead()?["ETag"] == "W/\"1000-1\"")
      #expect(cut.readToEnd().count == 10)
      let client = try #require(RawClient(port: port))
      let deaf = try #require(client.get("/bytes/1000?norange=1&etag=none&modified=3600", "Range: bytes=5-"))
      #expect(deaf.head.status == 200)
      #expect(deaf.head["ETag"] == nil)
      #expect(deaf.head["Last-Modified"] != nil)
      #expect(client.get("/bytes/1000?gzip=1")?.body == Gzip.stored(GeneratedContent(length: 1000).allBytes))
      #expect(client.get("/bytes/1000?status=500")?.head.status == 500)
    }
  }

  @Test(arguments: [
    ("/bytes/x", 400), ("/bytes/-1", 400), ("/bytes/5?what=1", 400), ("/bytes/5?cut=x", 400), ("/bytes/5?seed=-1", 400),
    ("/bytes/5?norange=maybe", 400), ("/status/99", 400), ("/status/600", 400), ("/redirect", 400),
    ("/redirect?to=%0D%0AX:%201", 400), ("/nothing", 404), ("/", 404), ("/bytes/99999999999999999999", 400),
    ("/bytes/5?etag=%0D%0AX:%201", 400), ("/bytes/99999999999?gzip=1", 400), ("/upload?rate=x", 400),
  ])
  func wrongRequestsAreExplained(target: String, status: Int) throws {
    try withProgram { _, port in
      let answer = try #require(RawClient(port: port)?.get(target))
      #expect(answer.head.status == status)
      #expect(answer.body.count > 10)
    }
  }

  @Test(arguments: [
    (["--port"], "--port needs a value"), (["--port", "70000"], "not \"70000\""), (["--what"], "unknown argument"),
    (["--ipv6=1"], "takes no value"), (["--log="], "--log needs a value"), (["x"], "unknown argument \"x\""),
  ])
  func wrongArgumentsAreExplained(arguments: [String], message: String) throws {
    let program = try #require(Spawned(Spawned.program, arguments))
    let text = String(decoding: program.rest(), as: UTF8.self)
    #expect(program.wait() == 64)
    #expect(text.contains(message))
    #expect(text.contains("--help"))
  }

  @Test func helpNamesEveryParameter() throws {
    let program = try #require(Spawned(Spawned.program, ["--help"]))
    let text = String(decoding: program.rest(), as: UTF8.self)
    #expect(program.wait() == 0)
    for word in ["seed=", "rate=", "stall=", "noifrange=", "/digest/", "FNV-1a", "end=END"] {
      #expect(text.contains(word))
    }
  }

  @Test func aLogThatCannotBeOpenedIsExplained() throws {
    let program = try #require(Spawned(Spawned.program, ["--log", "/nonexistent/log"]))
    #expect(program.line()?.contains("cannot open the log /nonexistent/log: No such file or directory") == true)
    #expect(program.wait() == 1)
  }

  @Test func linesNobodyReadsDoNotStopIt() throws {
    try withProgram { _, port in
      let client = try #require(RawClient(port: port))
      // More than a pipe holds.
      let long = String(repeating: "a", count: 1500)
      for _ in 1...100 { #expect(client.get("/bytes/0?\(long)")?.head.status == 400) }
    }
  }
}
