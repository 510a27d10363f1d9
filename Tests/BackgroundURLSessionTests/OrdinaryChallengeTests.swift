import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// What a delegate was asked.
struct Asked: Equatable, Sendable {
  var method: String
  var realm: String?
  var port: Int
  var failures: Int
  var status: Int?
  var proposed: String?
  var isProxy: Bool

  init(_ challenge: URLAuthenticationChallenge) {
    let space = challenge.protectionSpace
    method = space.authenticationMethod
    realm = space.realm
    port = space.port
    failures = challenge.previousFailureCount
    status = (challenge.failureResponse as? HTTPURLResponse)?.statusCode
    proposed = challenge.proposedCredential?.user
    isProxy = space.isProxy()
  }
}

/// Answers the task's challenges by a script, and refuses those that come to the session's method.
private final class Keeper: NSObject, URLSessionDataDelegate, URLSessionDownloadDelegate, Sendable {
  typealias Answer = (URLSession.AuthChallengeDisposition, URLCredential?)

  let asked = Mutex<[Asked]>([])
  let ofConnection = Mutex<[Asked]>([])
  let redirects = Mutex(0)
  let streams = Mutex(0)
  private let body = Mutex(Data())
  private let ended = Mutex<CheckedContinuation<(body: String, status: Int?, error: URLError?), Never>?>(nil)
  private let decide: @Sendable (URLAuthenticationChallenge, URLSessionTask) -> Answer
  private let stream: @Sendable () -> InputStream?

  init(
    stream: @escaping @Sendable () -> InputStream? = { nil },
    _ decide: @escaping @Sendable (URLAuthenticationChallenge, URLSessionTask) -> Answer
  ) {
    self.decide = decide
    self.stream = stream
  }

  convenience init(_ password: String, _ persistence: URLCredential.Persistence = .none) {
    self.init { _, _ in (.useCredential, ann(password, persistence)) }
  }

  convenience init(_ disposition: URLSession.AuthChallengeDisposition) { self.init { _, _ in (disposition, nil) } }

  var failures: [Int] { asked.withLock { $0.map(\.failures) } }

  /// Resumes the task and waits for its end.
  func run(_ task: URLSessionTask) async -> (body: String, status: Int?, error: URLError?) {
    await withCheckedContinuation { continuation in
      ended.withLock { $0 = continuation }
      task.resume()
    }
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    asked.withLock { $0.append(Asked(challenge)) }
    let (disposition, credential) = decide(challenge, task)
    completionHandler(disposition, credential)
    // Only the first call counts.
    completionHandler(.cancelAuthenticationChallenge, nil)
  }
  func urlSession(
    _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    ofConnection.withLock { $0.append(Asked(challenge)) }
    completionHandler(.cancelAuthenticationChallenge, nil)
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
  ) {
    redirects.withLock { $0 += 1 }
    completionHandler(request)
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
  ) {
    streams.withLock { $0 += 1 }
    completionHandler(stream())
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    body.withLock { $0.append(data) }
  }
  func urlSession(_ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL) {
    let content = (try? Data(contentsOf: location)) ?? Data()
    body.withLock { $0 = content }
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let text = body.withLock { body in
      defer { body = Data() }
      return String(decoding: body, as: UTF8.self)
    }
    let status = (task.response as? HTTPURLResponse)?.statusCode
    let waiter = ended.withLock { $0 }
    waiter?.resume(returning: (text, status, error as? URLError))
  }
}

/// Writes the method `async`.
private final class Asynchronous: NSObject, URLSessionTaskDelegate, Sendable {
  let asked = Mutex<[Asked]>([])

  func urlSession(
    _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge
  ) async -> (URLSession.AuthChallengeDisposition, URLCredential?) {
    await Task.yield()
    asked.withLock { $0.append(Asked(challenge)) }
    return (.useCredential, ann("secret"))
  }
}

private func ann(_ password: String, _ persistence: URLCredential.Persistence = .none) -> URLCredential {
  URLCredential(user: "ann", password: password, persistence: persistence)
}

@Suite("Challenges in ordinary sessions", .timeLimit(.minutes(1)))
struct OrdinaryChallengeTests {
  static let logins = [
    Login.basic(user: "ann", password: "secret"), .digest(user: "ann", password: "secret"),
  ]
  /// The challenge's own body (`Login.challenge`).
  static let refused = "the challenge's own body"

  private func session(
    _ delegate: (any URLSessionDelegate)?, _ adjust: (URLSessionConfiguration) -> Void = { _ in }
  ) -> URLSession {
    let configuration = URLSessionConfiguration.ephemeral
    adjust(configuration)
    return URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
  }

  private func server(_ login: Login) throws -> LocalServer {
    try LocalServer.start { login.isShown(by: $0) ? .text("\($0.method) \($0.bodyByteCount)") : login.challenge }
  }

  // MARK: Kinds of tasks

  @Test("every kind of task asks its delegate, and sends what it gave", arguments: [false, true])
  func kinds(isDigest: Bool) async throws {
    let server = try server(Self.logins[isDigest ? 1 : 0])
    defer { server.stop() }
    let keeper = Keeper("secret")
    let session = session(keeper)
    let put = request(server) { $0.httpMethod = "PUT" }
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-\(UUID().uuidString)")
    try Data(count: 300_000).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    #expect(await keeper.run(session.dataTask(with: request(server))) == ("GET 0", 200, nil))
    #expect(await keeper.run(session.downloadTask(with: request(server))) == ("GET 0", 200, nil))
    #expect(await keeper.run(session.uploadTask(with: put, from: Data(count: 200_000))) == ("PUT 200000", 200, nil))
    #expect(await keeper.run(session.uploadTask(with: put, fromFile: file)) == ("PUT 300000", 200, nil))
    let posted = request(server) {
      $0.httpMethod = "POST"
      $0.httpBody = Data(count: 100)
    }
    #expect(await keeper.run(session.dataTask(with: posted)) == ("POST 100", 200, nil))
    let asked = keeper.asked.withLock { $0 }
    #expect(asked.count == 5 && Set(asked.map(\.failures)) == [0])
    let first = try #require(asked.first)
    #expect(first.method == (isDigest ? NSURLAuthenticationMethodHTTPDigest : NSURLAuthenticationMethodHTTPBasic))
    #expect(first.realm == "loopback" && first.port == Int(server.port) && !first.isProxy)
    #expect(first.status == 401 && first.proposed == nil)
    #expect(keeper.ofConnection.withLock { $0.isEmpty })
  }

  @Test("handlers, async methods and bytes ask too, the session's delegate or the task's own")
  func handlers() async throws {
    let server = try server(Self.logins[0])
    defer { server.stop() }
    let keeper = Keeper("secret")
    let session = session(keeper)
    let answer = await session.dataAnswer(request(server))
    #expect(answer.status == 200 && answer.value == Data("GET 0".utf8))
    let (data, _) = try await session.data(for: request(server))
    #expect(data == Data("GET 0".utf8))
    let (file, _) = try await session.download(for: request(server))
    #expect(try Data(contentsOf: file) == Data("GET 0".utf8))
    try FileManager.default.removeItem(at: file)
    let (bytes, _) = try await session.bytes(for: request(server))
    #expect(try await bytes.reduce(into: Data()) { $0.append($1) } == Data("GET 0".utf8))
    #expect(keeper.failures == [0, 0, 0, 0])
    let own = Keeper("secret")
    let (mine, _) = try await session.data(for: request(server), delegate: own)
    #expect(mine == Data("GET 0".utf8))
    #expect(own.failures == [0] && keeper.failures.count == 4)
  }

  @Test("the method may be written async")
  func asynchronous() async throws {
    let server = try server(Self.logins[1])
    defer { server.stop() }
    let delegate = Asynchronous()
    let (data, _) = try await session(delegate).data(for: request(server))
    #expect(data == Data("GET 0".utf8))
    #expect(delegate.asked.withLock { $0.map(\.failures) } == [0])
  }

  @Test("a body from a stream is asked for anew", arguments: [0, 1])
  func stream(login: Int) async throws {
    let server = try server(Self.logins[login])
    defer { server.stop() }
    let keeper = Keeper(stream: { InputStream(data: Data(count: 90_000)) }) { _, _ in (.useCredential, ann("secret")) }
    let put = request(server) { $0.httpMethod = "PUT" }
    #expect(await keeper.run(session(keeper).uploadTask(withStreamedRequest: put)) == ("PUT 90000", 200, nil))
    #expect(keeper.failures == [0] && keeper.streams.withLock { $0 } == 2)
  }

  // MARK: Dispositions

  @Test("failures are counted; a cancelled challenge cancels the task", arguments: [0, 1])
  func wrongTwiceThenCancelled(login: Int) async throws {
    let server = try server(Self.logins[login])
    defer { server.stop() }
    let keeper = Keeper { challenge, _ in
      challenge.previousFailureCount < 2 ? (.useCredential, ann("wrong")) : (.cancelAuthenticationChallenge, nil)
    }
    let task = session(keeper).dataTask(with: request(server))
    #expect(await keeper.run(task).error?.code == .cancelled)
    #expect(keeper.failures == [0, 1, 2])
    #expect(task.state == .completed)
  }

  @Test(
    "who declines gets the answer that asked, whole, by no second request",
    arguments: [URLSession.AuthChallengeDisposition.performDefaultHandling, .rejectProtectionSpace, .useCredential])
  func declined(disposition: URLSession.AuthChallengeDisposition) async throws {
    let server = try server(Self.logins[0])
    defer { server.stop() }
    let keeper = Keeper(disposition)
    let session = session(keeper)
    #expect(await keeper.run(session.dataTask(with: request(server))) == (Self.refused, 401, nil))
    #expect(await keeper.run(session.downloadTask(with: request(server))) == (Self.refused, 401, nil))
    let put = request(server) { $0.httpMethod = "PUT" }
    #expect(await keeper.run(session.uploadTask(with: put, from: Data(count: 10))) == (Self.refused, 401, nil))
    #expect(server.requestCount == 3 && keeper.failures == [0, 0, 0])
  }

  @Test("an answer that is too long to be put aside is fetched again, and is whole too", arguments: [false, true])
  func longRefusal(isDownload: Bool) async throws {
    let text = String(repeating: "no ", count: 100_000)
    let server = try LocalServer.start { _ in
      Response.text(text).status(401).header("WWW-Authenticate", "Basic realm=\"loopback\"")
    }
    defer { server.stop() }
    let keeper = Keeper(.performDefaultHandling)
    let session = session(keeper)
    let task = isDownload ? session.downloadTask(with: request(server)) : session.dataTask(with: request(server))
    let result = await keeper.run(task)
    #expect(result.body == text && result.status == 401 && result.error == nil)
    #expect(server.requestCount == 2 && keeper.failures == [0])
  }

  @Test(
    "schemes that a challenge has no words for are answers like any other", arguments: ["Bearer", "Custom x=1", ""])
  func unknownSchemes(field: String) async throws {
    let server = try LocalServer.start { _ in Response.text("no").status(401).header("WWW-Authenticate", field) }
    defer { server.stop() }
    let keeper = Keeper("secret")
    #expect(await keeper.run(session(keeper).dataTask(with: request(server))) == ("no", 401, nil))
    #expect(keeper.failures.isEmpty && server.requestCount == 1)
  }

  @Test("NTLM and Negotiate are the session's matter", arguments: ["NTLM", "Negotiate"])
  func ofConnections(field: String) async throws {
    let server = try LocalServer.start { _ in Response.text("no").status(401).header("WWW-Authenticate", field) }
    defer { server.stop() }
    let keeper = Keeper("secret")
    // The session's delegate, also where the task has one of its own.
    let own = Keeper("secret")
    let session = session(keeper)
    await #expect(throws: URLError.self) { _ = try await session.data(for: request(server), delegate: own) }
    #expect(keeper.ofConnection.withLock { $0.map(\.method) } == ["NSURLAuthenticationMethod\(field)"])
    #expect(own.failures.isEmpty && own.ofConnection.withLock { $0.isEmpty } && keeper.failures.isEmpty)
    let answer = await self.session(nil).dataAnswer(request(server))
    #expect(answer.status == 401 && answer.value == Data("no".utf8))
  }

  @Test("a task that is cancelled while its delegate decides ends, and a late answer is not heard")
  func cancelledMeanwhile() async throws {
    let server = try server(Self.logins[0])
    defer { server.stop() }
    let keeper = Keeper { _, task in
      task.cancel()
      return (.useCredential, ann("secret"))
    }
    #expect(await keeper.run(session(keeper).dataTask(with: request(server))).error?.code == .cancelled)
    #expect(server.requests.allSatisfy { $0.headers["Authorization"] == nil })
  }

  @Test("a task that is suspended while its delegate decides goes on when it is resumed")
  func suspendedMeanwhile() async throws {
    let server = try server(Self.logins[0])
    defer { server.stop() }
    let keeper = Keeper { _, task in
      task.suspend()
      DispatchQueue.global().async { task.resume() }
      return (.useCredential, ann("secret"))
    }
    #expect(await keeper.run(session(keeper).dataTask(with: request(server))) == ("GET 0", 200, nil))
    #expect(keeper.failures == [0])
  }

  // MARK: The storage

  private func space(_ server: LocalServer, _ method: String = NSURLAuthenticationMethodHTTPBasic) -> URLProtectionSpace
  {
    URLProtectionSpace(
      host: "127.0.0.1", port: Int(server.port), protocol: "http", realm: "loopback", authenticationMethod: method)
  }

  @Test("default handling takes the storage's credential, with and without a delegate")
  func stored() async throws {
    let server = try server(Self.logins[0])
    defer { server.stop() }
    let storage = try #require(URLSessionConfiguration.ephemeral.urlCredentialStorage)
    storage.setDefaultCredential(ann("secret", .forSession), for: space(server))
    #expect(await session(nil) { $0.urlCredentialStorage = storage }.dataAnswer(request(server)).status == 200)
    let keeper = Keeper(.performDefaultHandling)
    let asking = session(keeper) { $0.urlCredentialStorage = storage }
    #expect(await keeper.run(asking.dataTask(with: request(server))) == ("GET 0", 200, nil))
    #expect(keeper.asked.withLock { $0.map(\.proposed) } == ["ann"])
    // Without one nobody is there to ask, and nothing is asked for twice.
    let before = server.requestCount
    #expect(await session(nil).dataAnswer(request(server)).value == Data(Self.refused.utf8))
    #expect(server.requestCount == before + 1)
    // One that is refused is not tried for ever.
    let stale = try #require(URLSessionConfiguration.ephemeral.urlCredentialStorage)
    stale.setDefaultCredential(ann("old", .forSession), for: space(server))
    #expect(await session(nil) { $0.urlCredentialStorage = stale }.dataAnswer(request(server)).status == 401)
    #expect(server.requestCount == before + 3)
  }

  @Test("what worked is kept where its persistence says so, and what was refused is not")
  func kept() async throws {
    let server = try server(Self.logins[0])
    defer { server.stop() }
    for persistence in [URLCredential.Persistence.none, .forSession] {
      let storage = try #require(URLSessionConfiguration.ephemeral.urlCredentialStorage)
      let keeper = Keeper { challenge, _ in
        let known = storage.allCredentials.count
        return known == 0
          ? (.useCredential, ann(challenge.previousFailureCount == 0 ? "wrong" : "secret", persistence))
          : (.cancelAuthenticationChallenge, nil)
      }
      let session = session(keeper) { $0.urlCredentialStorage = storage }
      #expect(await keeper.run(session.dataTask(with: request(server))) == ("GET 0", 200, nil))
      #expect(keeper.failures == [0, 1])
      let known = storage.allCredentials.values.flatMap { $0.values.map(\.password) }
      #expect(known == (persistence == .none ? [] : ["secret"]))
    }
  }

  // MARK: URLs and redirects

  @Test("user and password of the URL answer Basic and Digest", arguments: [0, 1])
  func ofTheURL(login: Int) async throws {
    let server = try server(Self.logins[login])
    defer { server.stop() }
    let url = try #require(URL(string: "http://ann:secret@127.0.0.1:\(server.port)/"))
    let answer = await session(nil).dataAnswer(URLRequest(url: url))
    #expect(answer.status == 200)
    let wrong = try #require(URL(string: "http://ann:wrong@127.0.0.1:\(server.port)/"))
    let before = server.requestCount
    #expect(await session(nil).dataAnswer(URLRequest(url: wrong)).status == 401)
    #expect(server.requestCount <= before + 3)
  }

  @Test("a credential stays with the place that it was given for, and the redirect is decided once")
  func redirects() async throws {
    let login = Self.logins[0]
    let other = Login.basic(user: "ann", password: "other", realm: "elsewhere")
    let away = try LocalServer.start { other.isShown(by: $0) ? .text("away") : other.challenge }
    defer { away.stop() }
    let server = try LocalServer.start { request in
      guard login.isShown(by: request) else { return login.challenge }
      return request.path == "/away" ? .redirect(to: away.url("/")) : .redirect(to: "/away")
    }
    defer { server.stop() }
    let keeper = Keeper { challenge, _ in
      (.useCredential, ann(challenge.protectionSpace.realm == "elsewhere" ? "other" : "secret"))
    }
    let task = session(keeper).dataTask(with: request(server, "/near"))
    #expect(await keeper.run(task) == ("away", 200, nil))
    #expect(keeper.asked.withLock { $0.map(\.realm) } == ["loopback", "elsewhere"] && keeper.failures == [0, 0])
    #expect(keeper.redirects.withLock { $0 } == 2)
    // Once without anything, once with what was given for it.
    let fields = away.requests.map { $0.headers["Authorization"] }
    #expect(fields.count == 2 && fields[0] == nil && fields[1] == "Basic YW5uOm90aGVy")
    #expect(server.requests.map(\.path) == ["/near", "/near", "/away"])
  }

  @Test("another realm of the same server has refused nothing yet")
  func realms() async throws {
    let logins = ["/one", "/two"].map { Login.basic(user: "ann", password: $0, realm: $0) }
    let server = try LocalServer.start { request in
      let login = logins[request.path == "/one" ? 0 : 1]
      guard login.isShown(by: request) else { return login.challenge }
      return request.path == "/one" ? .redirect(to: "/two") : .text("both")
    }
    defer { server.stop() }
    let keeper = Keeper { challenge, _ in (.useCredential, ann(challenge.protectionSpace.realm ?? "")) }
    #expect(await keeper.run(session(keeper).dataTask(with: request(server, "/one"))) == ("both", 200, nil))
    #expect(keeper.asked.withLock { $0.map(\.realm) } == ["/one", "/two"] && keeper.failures == [0, 0])
  }

  @Test("a POST that was answered by a redirect is not sent again for its answer's challenge")
  func afterPost() async throws {
    let login = Self.logins[0]
    let server = try LocalServer.start { request in
      if request.method == "POST" { return .redirect(to: "/answer", status: 303) }
      return login.isShown(by: request) ? .text("answer") : login.challenge
    }
    defer { server.stop() }
    let keeper = Keeper("secret")
    let post = request(server, "/form") {
      $0.httpMethod = "POST"
      $0.httpBody = Data("a=1".utf8)
    }
    #expect(await keeper.run(session(keeper).dataTask(with: post)) == ("answer", 200, nil))
    #expect(server.requests.map(\.method) == ["POST", "GET", "GET"])
  }

  // MARK: Proxies

  @Test("a proxy is asked for with its own credential, which no server sees", arguments: [false, true])
  func proxies(isDigest: Bool) async throws {
    let login =
      isDigest
      ? Login.digest(user: "ann", password: "secret", isProxy: true)
      : .basic(user: "ann", password: "secret", isProxy: true)
    let origin = Login.basic(user: "ann", password: "inner", realm: "inner")
    let proxy = try LocalServer.start { request in
      // libcurl names a proxy the path alone, where `Login` expects the whole target.
      let field = request.headers["Proxy-Authorization"] ?? ""
      guard isDigest ? field.hasPrefix("Digest username=\"ann\"") : login.isShown(by: request) else {
        return login.challenge
      }
      return origin.isShown(by: request) ? .text("through") : origin.challenge
    }
    defer { proxy.stop() }
    let keeper = Keeper { challenge, _ in
      (.useCredential, ann(challenge.protectionSpace.isProxy() ? "secret" : "inner"))
    }
    let session = session(keeper) {
      $0.connectionProxyDictionary = [
        "HTTPEnable": 1, "HTTPProxy": "127.0.0.1", "HTTPPort": Int(proxy.port),
      ]
    }
    let url = try #require(URL(string: "http://origin.invalid/x"))
    #expect(await keeper.run(session.dataTask(with: url)) == ("through", 200, nil))
    let asked = keeper.asked.withLock { $0 }
    #expect(asked.map(\.isProxy) == [true, false] && asked.map(\.status) == [407, 401])
    #expect(asked.map(\.failures) == [0, 0] && asked.map(\.port) == [Int(proxy.port), 80])
  }

  @Test("a proxy that refuses a tunnel asks without a response; declined, the task fails")
  func tunnels() async throws {
    let login = Login.basic(user: "ann", password: "secret", isProxy: true)
    let proxy = try LocalServer.start { login.isShown(by: $0) ? .status(502) : login.challenge }
    defer { proxy.stop() }
    let keeper = Keeper { challenge, _ in
      challenge.previousFailureCount == 0 ? (.useCredential, ann("wrong")) : (.performDefaultHandling, nil)
    }
    let session = session(keeper) {
      $0.connectionProxyDictionary = [
        "HTTPSEnable": 1, "HTTPSProxy": "127.0.0.1", "HTTPSPort": Int(proxy.port),
      ]
    }
    let url = try #require(URL(string: "https://origin.invalid/x"))
    #expect(await keeper.run(session.dataTask(with: url)).error?.code == .userAuthenticationRequired)
    #expect(keeper.failures == [0, 1] && keeper.asked.withLock { $0.allSatisfy(\.isProxy) })
  }
}
