import CurlEngine
import Foundation
import LoopbackServer
import Testing
import TransferCore

extension EngineTests {
  /// Basic and Digest by libcurl: a 401 round is no answer, and none of its bytes reaches the part file.
  @Suite struct Access {
    static let secret = Secret("pass word")

    func order(
      _ rig: EngineRig, _ server: LocalServer, method: Challenge.Method?, password: Secret = secret,
      verb: String = "GET", resume: ResumePoint? = nil, rule: StatusRule = .successOnly, body: RequestBody = .none
    ) -> AttemptOrder {
      var order = rig.order(server.url("/file"), method: verb, resume: resume, rule: rule, body: body)
      order.credential = TransferCredential(
        user: "ann", password: password, method: method, origin: Origin(url: server.baseURL)?.description ?? "")
      return order
    }

    func login(_ method: Challenge.Method) -> Login {
      method == .digest ? .digest(user: "ann", password: "pass word") : .basic(user: "ann", password: "pass word")
    }

    func start(_ login: Login, _ content: Response = .generated(length: 100_000, seed: 3)) throws -> LocalServer {
      try LocalServer.start { login.isShown(by: $0) ? content : login.challenge }
    }

    @Test(arguments: [Challenge.Method.basic, .digest], [true, false])
    func theContentComesAndNothingOfTheRounds(method: Challenge.Method, isKnown: Bool) throws {
      let server = try start(login(method))
      defer { server.stop() }
      let rig = try EngineRig()
      let outcome = rig.run(order(rig, server, method: isKnown ? method : nil), part: rig.part())
      #expect(outcome.head?.status == 200)
      #expect(outcome.summary?.held == 100_000)
      #expect(outcome.isOrdered)
      #expect(rig.content() == GeneratedContent(length: 100_000, seed: 3).allBytes)
      // A place that has not asked is shown nothing.
      let first = server.requests.first?.headers["Authorization"]
      #expect((first == nil) == (method == .digest || !isKnown))
    }

    @Test(arguments: [Challenge.Method.basic, .digest], [StatusRule.any, .successOnly])
    func aRefusedCredentialIsTheAnswer(method: Challenge.Method, rule: StatusRule) throws {
      let server = try start(login(method))
      defer { server.stop() }
      let rig = try EngineRig()
      let outcome = rig.run(
        order(rig, server, method: method, password: Secret("wrong"), rule: rule), part: rig.part())
      #expect(outcome.head?.status == 401)
      if rule == .any {
        #expect(String(decoding: rig.content(), as: UTF8.self) == "the challenge's own body")
      } else {
        #expect(rig.content().isEmpty)
        #expect(outcome.end == .discarded)
      }
      #expect(server.requestCount <= 2)
    }

    @Test func aRefusalWithoutABodyIsJudgedToo() throws {
      let server = try LocalServer.start { _ in
        .status(401).header("WWW-Authenticate", "Basic realm=\"x\"")
      }
      defer { server.stop() }
      let rig = try EngineRig()
      let outcome = rig.run(order(rig, server, method: .basic, rule: .any), part: rig.part())
      #expect(outcome.head?.status == 401)
      #expect(outcome.summary?.held == 0)
    }

    @Test func aResumptionThroughDigestContinues() throws {
      let content = GeneratedContent(length: 100_000, seed: 3)
      let server = try start(login(.digest), .generated(length: 100_000, seed: 3).etag("\"a\""))
      defer { server.stop() }
      let rig = try EngineRig()
      let resume = ResumePoint(validator: .entityTag("\"a\""), offset: 40_000, total: 100_000)
      let outcome = rig.run(
        order(rig, server, method: .digest, resume: resume),
        part: rig.part(holding: Array(content.allBytes.prefix(40_000))))
      #expect(outcome.verdict == .continueAt(40_000))
      #expect(rig.content() == content.allBytes)
      #expect(server.requests.allSatisfy { $0.headers["Range"] == "bytes=40000-" })
    }

    @Test(arguments: ["PUT", "POST"], [Challenge.Method.basic, .digest, nil])
    func aBodyIsSentWholeAndNeverEmpty(verb: String, method: Challenge.Method?) throws {
      let server = try start(login(method ?? .digest), .text("stored"))
      defer { server.stop() }
      let rig = try EngineRig()
      let bytes = pattern(300_000)
      let (source, body) = rig.source(bytes)
      let outcome = rig.run(
        order(rig, server, method: method, verb: verb, rule: .any, body: .file(source)), part: rig.part(), body: body)
      #expect(outcome.head?.status == 200)
      #expect(String(decoding: rig.content(), as: UTF8.self) == "stored")
      let taken = try #require(server.requests.last)
      #expect(taken.bodyByteCount == 300_000 && taken.bodyDigest == FNV1a(bytes))
      #expect(server.requests.allSatisfy { $0.headers["Content-Length"] == "300000" })
    }

    @Test func aProxyGetsItsOwnCredential() throws {
      let login = Login.basic(user: "ann", password: "pass word", isProxy: true)
      let proxy = try start(login, .text("through"))
      defer { proxy.stop() }
      let rig = try EngineRig()
      var order = rig.order("http://origin.invalid/x", network: NetworkSettings(httpProxy: proxy.baseURL))
      order.proxyCredential = TransferCredential(
        user: "ann", password: Self.secret, method: .basic, origin: Origin(url: proxy.baseURL)?.description ?? "")
      #expect(rig.run(order, part: rig.part()).summary?.held == 7)
      #expect(proxy.requests.allSatisfy { $0.headers["Authorization"] == nil })
      var tunnel = rig.order("https://origin.invalid/x", network: NetworkSettings(httpsProxy: proxy.baseURL))
      tunnel.proxyCredential = nil
      #expect(rig.run(tunnel, part: rig.part()).failure?.code == .proxyCredentialsRequired)
    }
  }
}
