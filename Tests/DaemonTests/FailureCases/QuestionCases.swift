import FerryClient
import Foundation
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// Credentials that a server asks for: row 31 of docs/FailureCases.md, and what an answer does.
@Suite(.timeLimit(.minutes(2))) struct QuestionCases {
  static let length = 400_000
  static let content = GeneratedContent(length: length, seed: 31)

  static func body(_ request: Request) -> Response {
    .generated(length: length, seed: 31).etag("\"a\"")
  }

  static func answer(
    _ scene: Scene, _ id: Int64, _ word: String, _ fill: (inout TaskAnswerParameters) -> Void = { _ in }
  )
    throws
  {
    var parameters = TaskAnswerParameters(id: id, answer: word)
    fill(&parameters)
    _ = try scene.call(.taskAnswer(parameters), TaskIdentifiersResult.self)
  }

  static func password(_ text: String) -> (inout TaskAnswerParameters) -> Void {
    { $0.credential = WireCredential(user: "ann", password: text) }
  }

  static func asking(_ scene: Scene, _ id: Int64, failures: Int = 0) throws -> WireQuestion {
    let task = try scene.wait(id, for: "a question") {
      $0.state == "asking" && $0.question?.previousFailures == failures
    }
    return try #require(task.question)
  }

  @Test(arguments: ["basic", "digest"]) func aPasswordIsAskedForAndUsed(scheme: String) throws {
    let login =
      scheme == "basic" ? Login.basic(user: "ann", password: "pw-31") : .digest(user: "ann", password: "pw-31")
    let server = try LocalServer.start { login.isShown(by: $0) ? Self.body($0) : login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    let question = try Self.asking(scene, id)
    #expect(question.kind == "challenge" && question.method == scheme && question.realm == "loopback")
    #expect(question.origin == server.baseURL)
    try Self.answer(scene, id, "credential", Self.password("wrong"))
    _ = try Self.asking(scene, id, failures: 1)
    try Self.answer(scene, id, "credential", Self.password("pw-31"))
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try scene.bytes("result") == Self.content.allBytes)
    #expect(!scene.log.contains("pw-31"))
    let shown = "\(try scene.show(id))"
    #expect(!shown.contains("pw-31"))
    // No longer than the task lives, in no file; the log is cut behind the commit that ends it.
    try eventually("no file holds it", is: { try Tool.run("/bin/grep", ["-rl", "pw-31", scene.home]).output == "" })
  }

  /// Row 31: the token is good for the first half. The daemon dies while it asks.
  @Test(arguments: [true, false]) func aTokenThatExpiresInTheMiddle(isKilled: Bool) throws {
    let server = try LocalServer.start { request in
      switch request.headers["Authorization"] {
      case "Bearer old":
        request.headers["Range"] == nil
          ? Self.body(request).cut(afterBytes: 200_000)
          : .text("expired").status(401).header("WWW-Authenticate", "Bearer error=\"invalid_token\"")
      case "Bearer new": Self.body(request)
      default: .status(400)
      }
    }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file")) {
      $0.headers = [WireHeader(name: "Authorization", value: "Bearer old")]
    }
    let question = try Self.asking(scene, id)
    #expect(question.method == "bearer")
    if isKilled {
      try scene.restart(SIGKILL)
      #expect(try scene.wait(id, for: "the question after the restart") { $0.state == "asking" }.question == question)
    }
    #expect(try scene.show(id).received >= 200_000)
    let count = server.requestCount
    try Self.answer(scene, id, "request") {
      $0.headers = [WireHeader(name: "Authorization", value: "Bearer new")]
    }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try scene.bytes("result") == Self.content.allBytes)
    let later = server.requests.dropFirst(count)
    #expect(later.count == 1)
    #expect(later.first?.headers["Range"] == "bytes=200000-")
  }

  @Test func aQuestionIsPutBeforeEachClientUntilItIsAnswered() throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { login.isShown(by: $0) ? Self.body($0) : login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    _ = try Self.asking(scene, id)
    scene.close()
    try scene.connect()
    let again = try scene.wait(id, for: "the question again") { $0.state == "asking" }
    #expect(again.reason?.contains("user and password") == true)
    try Self.answer(scene, id, "cancel")
    #expect(try scene.ended(id).state == "cancelled")
    #expect(throws: ConnectionFailure.self) { try Self.answer(scene, id, "proceed") }
  }

  @Test(arguments: ["any", "successOnly"]) func defaultHandling(rule: String) throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { _ in login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file")) { $0.statusRule = rule }
    _ = try Self.asking(scene, id)
    try Self.answer(scene, id, "proceed")
    let task = try scene.ended(id)
    #expect(task.state == (rule == "any" ? "succeeded" : "failed"), "\(Scene.text(task))")
    #expect(task.error?.code == (rule == "any" ? nil : "credentialsRequired"))
    if rule == "any" { #expect(task.response?.status == 401) }
  }

  @Test func whoCannotBeAskedIsNot() throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { _ in login.challenge }
    defer { server.stop() }
    let scene = try Scene()
    #expect(try scene.ended(try scene.get(server.url("/file"))).error?.code == "credentialsRequired")
  }

  @Test func aDelayedTaskAsksAtItsDate() throws {
    let server = try LocalServer.start { Self.body($0) }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/stale")) {
      $0.asksBeforeBegin = true
      $0.earliestBeginMilliseconds = Int64(Date().timeIntervalSince1970 * 1000) + 300
    }
    let asked = try scene.wait(id, for: "a question") { $0.state == "asking" }
    #expect(asked.question?.kind == "delayedRequest")
    try scene.restart(SIGKILL)
    try Self.answer(scene, id, "request") { $0.url = server.url("/fresh") }
    #expect(try scene.ended(id).state == "succeeded")
    #expect(server.requests.map(\.path) == ["/fresh"])
  }

  @Test(arguments: [
    ("credential", #"{"user":"a:b","password":""}"#), ("credential", #"{"user":"","password":""}"#),
    ("credential", #"{"user":"a","password":"x\ny"}"#), ("nonsense", "null"), ("tls", "null"),
  ])
  func aWrongAnswerIsRefusedWithoutItsSecret(word: String, json: String) throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { _ in login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    _ = try Self.asking(scene, id)
    var parameters = TaskAnswerParameters(id: id, answer: word)
    parameters.credential = try JSONDecoder().decode(WireCredential?.self, from: Data(json.utf8))
    #expect(throws: (any Error).self) { try scene.call(.taskAnswer(parameters), TaskIdentifiersResult.self) }
    #expect(try scene.show(id).state == "asking")
  }

  @Test func theFirstOfTwoAnswersCounts() throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { login.isShown(by: $0) ? Self.body($0) : login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    var parameters = TaskAnswerParameters(id: id, question: try Self.asking(scene, id).number, answer: "credential")
    parameters.credential = WireCredential(user: "ann", password: "pw")
    let answer = parameters
    let clients = try (0..<4).map { _ in
      try DaemonConnection.open(
        client: "failure-cases/1", environment: ["FERRY_HOME": scene.home], startsDaemon: false,
        deadline: .seconds(20)
      ) { _ in }
    }
    defer { for client in clients { client.close() } }
    let outcomes = Mutex<[WireError.Name?]>([])
    DispatchQueue.concurrentPerform(iterations: clients.count) { index in
      do throws(ConnectionFailure) {
        _ = try clients[index].call(.taskAnswer(answer), returning: TaskIdentifiersResult.self)
        outcomes.withLock { $0.append(nil) }
      } catch {
        outcomes.withLock { $0.append(error.wireError?.name ?? .internalError) }
      }
    }
    let names = outcomes.withLock { $0 }
    #expect(names.count { $0 == nil } == 1 && names.count { $0 == .notAsking } == 3, "\(names)")
    let task = try scene.ended(id)
    #expect(task.state == "succeeded" && task.attempts == 2, "\(Scene.text(task))")
  }

  @Test func anAnswerToATaskThatIsGoneIsRefused() throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { _ in login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    _ = try Self.asking(scene, id)
    _ = try scene.call(.taskRemove(TaskIdentifiersParameters(ids: [id])), TaskIdentifiersResult.self)
    let refusal = #expect(throws: ConnectionFailure.self) {
      try Self.answer(scene, id, "credential", Self.password("pw"))
    }
    #expect(refusal?.wireError?.name == .taskUnknown)
  }

  /// Neither a URL that no transfer may have nor a header that would make another request of it.
  @Test(
    arguments: [
      ("file:///etc/passwd", nil), ("ftp://host/x", nil), ("", nil), ("http://", nil), ("http://h/\r\nX: y", nil),
      (nil, WireHeader(name: "X", value: "pw-5f3a91c07e\r\nHost: other")), (nil, WireHeader(name: "X: Y", value: "")),
      (nil, WireHeader(name: "", value: "x")),
    ] as [(String?, WireHeader?)])
  func aHostileRequestIsRefused(url: String?, header: WireHeader?) throws {
    let login = Login.basic(user: "ann", password: "pw")
    let server = try LocalServer.start { _ in login.challenge }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    let question = try Self.asking(scene, id)
    let refusal = #expect(throws: ConnectionFailure.self) {
      try Self.answer(scene, id, "request") {
        $0.url = url
        $0.headers = header.map { [$0] }
      }
    }
    #expect(!"\(String(describing: refusal)) \(scene.log)".contains(SecretCases.secret))
    #expect(try scene.show(id).question == question)
    #expect(server.requestCount == 1)
  }
}
