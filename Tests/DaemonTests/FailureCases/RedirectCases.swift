import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// Redirects and proxies: rows 18, 19 and 50 of docs/FailureCases.md.
@Suite(.timeLimit(.minutes(2))) struct RedirectCases {
  static let secrets = ["Authorization", "Cookie", "X-Token", "Proxy-Authorization"]

  private static func secretive(_ task: inout WireTaskSpecification) {
    task.headers = [
      WireHeader(name: "Authorization", value: "Bearer secret"), WireHeader(name: "Cookie", value: "a=secret"),
      WireHeader(name: "X-Token", value: "secret"), WireHeader(name: "Proxy-Authorization", value: "Basic secret"),
      WireHeader(name: "X-Plain", value: "plain"),
    ]
    task.secretHeaders = ["x-token"]
  }

  enum Way: String, CaseIterable, Sendable { case port, host, samePlace, thereAndBack }

  /// Rows 18 and 19; the target refuses any request with credentials, as storage hosts do.
  @Test(arguments: Way.allCases, [301, 302, 303, 307, 308])
  func secretsStayWithTheirOrigin(way: Way, status: Int) throws {
    let other = Mutex("")
    let target = try LocalServer.start { request in
      if request.path == "/back" { return .redirect(to: other.withLock { $0 } + "/again", status: status) }
      if request.headers["Authorization"] != nil { return .status(400) }
      return .text("target")
    }
    defer { target.stop() }
    let server = try LocalServer.start { request in
      switch request.path {
      case "/port": .redirect(to: target.url("/x"), status: status)
      case "/host":
        .redirect(to: other.withLock { $0.replacing("127.0.0.1", with: "localhost") } + "/again", status: status)
      case "/samePlace": .redirect(to: "/again", status: status)
      case "/thereAndBack": .redirect(to: target.url("/back"), status: status)
      default: .text("again")
      }
    }
    defer { server.stop() }
    other.withLock { $0 = server.baseURL }
    let scene = try Scene()
    let id = try scene.get(server.url("/\(way.rawValue)"), Self.secretive)
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    let first = try #require(server.requests.first)
    #expect(Self.secrets.allSatisfy { first.headers[$0] != nil })
    let later = target.requests + server.requests.dropFirst()
    #expect(later.count == (way == .thereAndBack ? 2 : 1))
    for request in later {
      #expect(request.headers["X-Plain"] == "plain")
      for name in Self.secrets {
        #expect((request.headers[name] != nil) == (way == .samePlace), "\(name) at \(request.path)")
      }
    }
    // The task's own URL stays, and nothing secret is shown or logged.
    #expect(task.url == server.url("/\(way.rawValue)"))
    let shown = try scene.show(id)
    #expect(shown.headers?.contains { $0.value.contains("secret") } == false)
    #expect(!scene.log.contains("secret"))
  }

  /// Credentials in the URL are credentials.
  @Test func credentialsOfTheURLStayToo() throws {
    let target = try LocalServer.start { _ in .text("target") }
    defer { target.stop() }
    let server = try LocalServer.start { _ in .redirect(to: target.url("/x")) }
    defer { server.stop() }
    let scene = try Scene()
    let url = server.url("/file").replacing("http://", with: "http://user:hunter2@")
    let task = try scene.ended(try scene.get(url))
    #expect(task.state == "succeeded")
    #expect(server.requests.first?.headers["Authorization"] == "Basic dXNlcjpodW50ZXIy")
    #expect(target.requests.first?.headers["Authorization"] == nil)
    #expect(!task.url.contains("hunter2"))
    #expect(!scene.log.contains("hunter2"))
  }

  @Test(arguments: [10, 11])
  func tenRedirectsAreFollowedAndNoMore(count: Int) throws {
    let server = try LocalServer.start { request in
      let step = Int(request.path.dropFirst()) ?? 0
      return step == 0 ? .text("end") : .redirect(to: "/\(step - 1)")
    }
    defer { server.stop() }
    let scene = try Scene()
    let task = try scene.ended(try scene.get(server.url("/\(count)")))
    #expect(task.state == (count == 10 ? "succeeded" : "failed"))
    #expect(task.error?.code == (count == 10 ? nil : "tooManyRedirects"))
    #expect(server.requestCount == 11)
  }

  @Test(arguments: [
    "ftp://127.0.0.1/x", "file:///etc/passwd", "javascript:0", "http://", "//", "http://127.0.0.1:99999/",
  ])
  func aRedirectToWhatIsNoWebAddressEndsTheTask(location: String) throws {
    let server = try LocalServer.start { _ in .redirect(to: location) }
    defer { server.stop() }
    let scene = try Scene()
    let task = try scene.ended(try scene.get(server.url("/file")))
    #expect(task.state == "failed", "\(Scene.text(task))")
    #expect(["unsupportedURL", "badServerResponse"].contains(task.error?.code))
    try scene.waitForNames([])
  }

  /// 307 and 308 repeat the request with its body; 301, 302 and 303 make it a GET.
  @Test(arguments: [(307, "POST"), (308, "POST"), (301, "GET"), (302, "GET"), (303, "GET")])
  func theBodyGoesAlongWhereTheStatusSaysSo(status: Int, method: String) throws {
    let target = try LocalServer.start { _ in .text("answer") }
    defer { target.stop() }
    let server = try LocalServer.start { _ in .redirect(to: target.url("/x"), status: status) }
    defer { server.stop() }
    let scene = try Scene()
    let body = GeneratedContent(length: 100_000, seed: 8)
    let source = try scene.write("source", body.allBytes)
    let id = try scene.put(source, to: server.url("/file")) { $0.method = "POST" }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    let request = try #require(target.requests.first)
    #expect(request.method == method)
    #expect(request.bodyByteCount == (method == "POST" ? 100_000 : 0))
    if method == "POST" { #expect(request.bodyDigest == body.digest) }
  }

  /// A resumption goes through the redirect again, from the task's own URL.
  @Test func aResumptionStartsFromTheTasksOwnURL() throws {
    let seen = Counter()
    let server = try LocalServer.start { request in
      switch request.path {
      case "/file": .redirect(to: "/version\(seen.next())")
      case "/version1": ResumeCases.broken()
      default: ResumeCases.whole()
      }
    }
    defer { server.stop() }
    let scene = try Scene()
    let task = try scene.ended(try scene.get(server.url("/file")))
    #expect(task.state == "succeeded")
    #expect(server.requests.map(\.path) == ["/file", "/version1", "/file", "/version2"])
    #expect(server.requests.last?.headers["Range"] == "bytes=\(ResumeCases.cutAt)-")
    try ResumeCases.expectWhole(scene)
  }

  // MARK: Proxies

  /// Row 50: the client's proxy, not the daemon's, and the client's exceptions.
  @Test func theProxyIsTheOneThatTheClientSees() throws {
    let server = try LocalServer.start { _ in .text("direct") }
    defer { server.stop() }
    let proxy = try LocalServer.start { _ in .text("by proxy") }
    defer { proxy.stop() }
    let wrong = try LocalServer.start { _ in .status(500) }
    defer { wrong.stop() }
    let scene = try Scene(
      network: WireNetwork(httpProxy: proxy.baseURL, noProxy: "localhost,example.org"),
      environment: ["http_proxy": wrong.baseURL, "all_proxy": wrong.baseURL])
    let through = try scene.get(server.url("/file")) {
      $0.headers = [WireHeader(name: "X-Plain", value: "plain")]
    }
    #expect(try scene.ended(through).state == "succeeded")
    #expect(try scene.bytes("result") == Array("by proxy".utf8))
    #expect(proxy.requests.first?.target == server.url("/file"))
    let around = try scene.get(server.localhostURL + "/file", to: "direct")
    #expect(try scene.ended(around).state == "succeeded")
    #expect(try scene.bytes("direct") == Array("direct".utf8))
    #expect(wrong.acceptedConnections == 0)
  }

  /// Row 50: changed settings count from the next attempt on.
  @Test func aProxyThatChangedIsUsedByTheNextAttempt() throws {
    let proxy = try LocalServer.start { _ in .text("by proxy") }
    defer { proxy.stop() }
    let dead = try LocalServer.start { _ in .text("dead") }
    dead.refuseConnections()
    defer { dead.stop() }
    let scene = try Scene(network: WireNetwork(httpProxy: dead.baseURL))
    let id = try scene.get("http://127.0.0.1:9/file")
    let waiting = try scene.wait(id, for: "a failed attempt") { $0.state == "waiting" && $0.attempts > 0 }
    #expect(waiting.error != nil)
    _ = try scene.call(
      .sessionOpen(
        SessionOpenParameters(
          app: "tests", identifier: "cases", attach: true, collectsResults: true,
          network: WireNetwork(httpProxy: proxy.baseURL))), SessionOpenResult.self)
    #expect(try scene.ended(id).state == "succeeded")
    #expect(proxy.requests.first?.target == "http://127.0.0.1:9/file")
  }
}
