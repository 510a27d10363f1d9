import Testing

@testable import TransferCore

@Suite struct OriginTests {
  @Test(arguments: [
    ("http://a.test", "http://a.test:80"),
    ("HTTPS://A.Test/x", "https://a.test:443"),
    ("http://a.test:8080?q", "http://a.test:8080"),
    ("http://a.test:#f", "http://a.test:80"),
    ("http://user:pass@a.test/", "http://a.test:80"),
    ("http://[::1]:81/", "http://[::1]:81"),
    ("http://[::1]:", "http://[::1]:80"),
    ("http://[FE80::1%25eth0]/", "http://[fe80::1%25eth0]:80"),
    ("http://a.test/x@evil.test", "http://a.test:80"),
    ("http://a.test?x@evil.test", "http://a.test:80"),
    ("http://a.test#x@evil.test", "http://a.test:80"),
    ("http://a_b-c.test:00080", "http://a_b-c.test:80"),
    ("http://bücher.test/", "http://bücher.test:80"),
    // A combining mark after a delimiter makes one character of both in Swift, and none for a reader of bytes.
    ("http://evil.test/\u{301}@a.test/", "http://evil.test:80"),
    ("http://evil.test?\u{301}@a.test/", "http://evil.test:80"),
  ])
  func whatAUrlBelongsTo(url: String, origin: String) { #expect(Origin(url: url)?.description == origin) }

  @Test(arguments: [
    "", "a.test", "/x", "//a.test", "ftp://a.test", "http:a.test", "http:/a.test", "http://", "http:///a.test",
    " http://a.test", "http://a.test:0", "http://a.test:65536", "http://a.test:+80", "http://a.test:-1",
    "http://a.test:8x", "http://a.test:80:81", "http://a b", "http://a\tb", "http://a\u{0}b", "http://a\r\nb",
    "http://@", "http://:80", "http://u@:80", "http://[::1", "http://::1]", "http://[::1]x", "http://[]",
    "http://x[::1]", "http://a.test\\@evil.test/", "http://a.test\\x", "http://a@b@evil.test",
    "http://%61.test", "http://a.test@\u{301}evil.test%", "javascript://a.test/", "http\u{301}://a.test",
    "http://a\u{7F}b", "http://a<b", "http://a\"b", "http://a`b", "http://a|b", "http://a{b}", "http://a^b",
  ])
  func whatIsReadDifferentlyByOthersIsNoUrl(url: String) {
    #expect(Origin(url: url) == nil)
  }

  @Test func everyShortTextIsJudgedWithoutATrap() {
    var words = RandomWords(seed: 7)
    let alphabet = Array("ht:/@[]?#.%\\ 0a\u{301}é".unicodeScalars)
    for _ in 0..<20_000 {
      var text = "http://"
      for _ in 0..<(words.next() % 12) { text.unicodeScalars.append(alphabet[Int(words.next() % 16)]) }
      guard let origin = Origin(url: text) else { continue }
      // What is accepted is its own origin.
      #expect(Origin(url: origin.description) == origin, "\(text.debugDescription)")
    }
  }
}

@Suite struct RedirectTests {
  static let request = TransferRequest(
    method: "POST", url: "https://a.test/x",
    headers: [
      ("Authorization", "Bearer t"), ("cookie", "c"), ("X-Key", "k"), ("Accept", "*/*"), ("Host", "a.test"),
      ("Content-Type", "text/plain"), ("Idempotency-Key", "1"),
    ], secretHeaderNames: ["x-key"])

  @Test(arguments: [
    ("GET", 301, "GET"), ("GET", 302, "GET"), ("GET", 303, "GET"), ("GET", 307, "GET"), ("GET", 308, "GET"),
    ("HEAD", 303, "HEAD"), ("POST", 301, "GET"), ("POST", 302, "GET"), ("POST", 303, "GET"), ("POST", 307, "POST"),
    ("POST", 308, "POST"), ("PUT", 301, "PUT"), ("PUT", 302, "PUT"), ("PUT", 303, "GET"), ("PUT", 307, "PUT"),
    ("DELETE", 303, "GET"), ("PATCH", 308, "PATCH"),
  ])
  func methodAfterARedirect(method: String, status: Int, next: String) {
    var request = Self.request
    request.method = method
    let result = Redirect.next(request, status: status, to: "https://a.test/y", leavesOrigin: false)
    #expect(result.method == next)
    #expect(result.url == "https://a.test/y")
    #expect(result.headers["Authorization"] == "Bearer t")
    #expect((result.headers["Content-Type"] == nil) == (method != next))
  }

  @Test func secretsStayWithTheirOrigin() {
    let next = Redirect.next(Self.request, status: 307, to: "https://b.test/", leavesOrigin: true)
    #expect(next.headers.fields.map(\.name) == ["Accept", "Content-Type", "Idempotency-Key"])
  }

  /// Failure case 18, through the core: another port is another origin.
  @Test(arguments: [
    ("http://host.test/other", true), ("http://HOST.test:80/other", true), ("http://host.test:81/", false),
    ("http://other.test/", false), ("https://host.test/", false),
  ])
  func theCoreDropsSecretsWhenTheOriginChanges(location: String, keeps: Bool) {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(
      .download().with { $0.request.headers.set("Authorization", to: "t") }, to: session)
    bench.openFiles(id)
    bench.respond(id, .ok(status: 302), .redirect)
    bench.handle(.ended(bench.attempt(id), .redirected(location: location), requestWasSent: true))
    let order = bench.openFiles(id)
    #expect(order?.request.url == location)
    #expect((order?.request.headers["Authorization"] != nil) == keeps)
    // The next attempt starts from the task's own URL, with all its headers.
    bench.fail(id)
    bench.advance(.seconds(700))
    bench.admit()
    let again = bench.openFiles(id)
    #expect(again?.request.url == "http://host.test/file")
    #expect(again?.request.headers["Authorization"] == "t")
  }

  @Test(arguments: [
    ("http://host.test/", FailureCode.redirectForbidden), ("ftp://host.test/", .unsupportedURL),
    ("https://host.test\\@evil.test/", .unsupportedURL), ("/relative", .unsupportedURL),
  ])
  func someRedirectsAreNotFollowed(location: String, code: FailureCode) {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.download("https://host.test/file"), to: session)
    bench.openFiles(id)
    bench.respond(id, .ok(status: 302), .redirect)
    bench.handle(.ended(bench.attempt(id), .redirected(location: location), requestWasSent: true))
    #expect(id.flatMap { bench.core.residentDetails($0)?.progress.failure?.code } == code)
    #expect(bench.core.violations() == [])
  }

  @Test func tenRedirectsAreFollowedAndNoMore() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.download(), to: session)
    for hop in 0...Limits.redirects {
      #expect(bench.state(id)?.attempt != nil, "hop \(hop)")
      bench.openFiles(id)
      bench.respond(id, .ok(status: 308), .redirect)
      bench.handle(.ended(bench.attempt(id), .redirected(location: "http://host.test/\(hop)"), requestWasSent: true))
    }
    #expect(id.flatMap { bench.core.residentDetails($0)?.progress.failure?.code } == .tooManyRedirects)
    #expect(bench.core.runningCount == 0)
  }
}
