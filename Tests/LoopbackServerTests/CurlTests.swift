import LoopbackServer
import Testing

/// What a real client makes of the server. Skipped where there is no curl.
@Suite(.enabled(if: Spawned.isExecutable("/usr/bin/curl"), "needs /usr/bin/curl"))
struct CurlTests {
  private func curl(_ arguments: String...) throws -> (status: Int32, output: [UInt8]) {
    // --disable first: no settings of the user who runs the tests.
    let process = try #require(
      Spawned("/usr/bin/curl", ["--disable", "--silent", "--noproxy", "*", "--max-time", "20"] + arguments))
    let output = process.rest()
    return (process.wait(), output)
  }

  @Test func aDownloadIsWhole() throws {
    let server = try LocalServer.start { request in
      let content = Response.generated(length: 3_000_000, seed: 6)
      return request.path == "/chunked" ? content.chunked() : content
    }
    defer { server.stop() }
    for path in ["/", "/chunked"] {
      let answer = try curl(server.url(path))
      #expect(answer.status == 0)
      #expect(answer.output.count == 3_000_000)
      #expect(GeneratedContent(length: 3_000_000, seed: 6).verify(answer.output) == nil)
    }
    let range = try curl("--range", "1000-1999", server.url("/"))
    #expect(range.output == GeneratedContent(length: 3_000_000, seed: 6).bytes(1000..<2000))
  }

  // The exit statuses are those of curl(1): 18 partial file, 52 nothing received, 56 receive failure.
  @Test(arguments: [("/cut", 18), ("/reset", 56), ("/none", 52), ("/unterminated", 18), ("/long", 18)])
  func faultsAreSeenAsFaults(path: String, status: Int32) throws {
    let server = try LocalServer.start { request in
      let content = Response.generated(length: 100_000)
      return switch request.path {
      case "/cut": content.cut(afterBytes: 99_999)
      case "/reset": content.reset(afterBytes: 5000)
      case "/none": .closeWithoutAnswer()
      case "/unterminated": content.chunkedWithoutTerminator()
      default: content.contentLength(lying: 100_001)
      }
    }
    defer { server.stop() }
    #expect(try curl(server.url(path)).status == status)
  }

  @Test func anUploadWaitsForContinueAndIsCounted() throws {
    let server = try LocalServer.start { request in .text("\(request.bodyByteCount)") }
    defer { server.stop() }
    let text = String(repeating: "z", count: 100_000)
    let answer = try curl(
      "--header", "Expect: 100-continue", "--expect100-timeout", "15", "--data", text, server.url("/"))
    #expect(answer.status == 0)
    #expect(answer.output == Array("100000".utf8))
    #expect(server.requests[0].bodyText == text)
  }

  @Test func gzipIsUnderstood() throws {
    let plain = GeneratedContent(length: 200_000).allBytes
    let server = try LocalServer.start { _ in .status(200).contentEncoding("gzip", bytes: Gzip.stored(plain)) }
    defer { server.stop() }
    #expect(try curl("--compressed", server.url("/")).output == plain)
  }

  @Test func redirectsBetweenHostNamesAreFollowed() throws {
    let server = try LocalServer.start { request in
      request.path == "/a"
        ? .redirect(
          to: "http://localhost:" + (request.headers["Host"] ?? "").split(separator: ":").suffix(1).joined() + "/b")
        : .text(request.headers["Host"] ?? "-")
    }
    defer { server.stop() }
    let answer = try curl("--location", server.url("/a"))
    #expect(answer.output == Array("localhost:\(server.port)".utf8))
  }
}
