import Foundation
import LoopbackServer
import Testing
import WireProtocol

/// A credential is told to nobody but its own place, and lives no longer than its task, in no file.
@Suite(.timeLimit(.minutes(2))) struct SecretCases {
  static let secret = "pw-5f3a91c07e"
  static let login = Login.basic(user: "ann", password: secret)

  enum End: String, CaseIterable { case succeeded, cancelled, failed, removed }

  /// A download that was given everything secret that there is.
  static func laden(_ scene: Scene, _ url: String) throws -> Int64 {
    let certificate = try scene.write("certificate.pem", [])
    return try scene.get(url) {
      $0.headers = [WireHeader(name: "X-Key", value: secret), WireHeader(name: "Cookie", value: "a=\(secret)")]
      $0.secretHeaders = ["X-Key"]
      $0.credential = WireCredential(user: "ann", password: secret)
      $0.proxyCredential = WireCredential(user: "ann", password: secret)
      $0.tls = WireTLS(certificateFile: certificate, keyPassword: secret)
    }
  }

  /// Names of the daemon's files that hold the secret.
  static func leaks(_ scene: Scene) throws -> String {
    try Tool.run("/bin/grep", ["-rlaF", secret, scene.home]).output
  }

  static func waitForNoLeak(_ scene: Scene) throws {
    try eventually("no file holds the secret: \((try? leaks(scene)) ?? "")", is: { try leaks(scene).isEmpty })
  }

  static func texts(_ scene: Scene, _ id: Int64?) throws -> [String] {
    let status = try scene.call(.daemonStatus(EmptyParameters()), DaemonStatusResult.self)
    let list = try scene.call(.taskList(TaskListParameters()), TaskListResult.self)
    return ["\(status)", "\(list)", scene.log, id == nil ? "" : "\(try scene.show(id ?? 0))"]
  }

  @Test(arguments: End.allCases, [false, true])
  func nothingSecretOutlivesItsTask(end: End, isKilled: Bool) throws {
    let gate = Gate()
    let holds = end == .cancelled || end == .removed
    let server = try LocalServer.start { request in
      guard Self.login.isShown(by: request) else { return Self.login.challenge }
      if end == .failed { return .status(404) }
      let content = QuestionCases.body(request)
      return holds ? content.stall(afterBytes: 100_000, until: gate) : content
    }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try Self.laden(scene, server.url("/file"))
    if holds {
      try scene.wait(id, for: "bytes") { $0.received > 0 }
      #expect(try !Self.leaks(scene).isEmpty)
      for text in try Self.texts(scene, id) { #expect(!text.contains(Self.secret)) }
      let ids = TaskIdentifiersParameters(ids: [id])
      _ = try scene.call(end == .removed ? .taskRemove(ids) : .taskCancel(ids), TaskIdentifiersResult.self)
    }
    if end != .removed { #expect(try scene.ended(id).state == end.rawValue) }
    gate.open()
    if isKilled { try scene.restart(SIGKILL) }
    try Self.waitForNoLeak(scene)
    for text in try Self.texts(scene, end == .removed ? nil : id) { #expect(!text.contains(Self.secret)) }
    if end != .removed {
      let shown = try #require(try scene.show(id).headers)
      #expect(shown.contains { $0.name == "X-Key" && $0.value == "<redacted>" })
    }
  }

  /// What an answer brought goes the same way.
  @Test func anAnswerIsForgottenWithItsTask() throws {
    let server = try LocalServer.start { request in
      switch (request.headers["Authorization"], Self.login.isShown(by: request)) {
      case (_, true): .text("expired").status(401).header("WWW-Authenticate", "Bearer")
      case ("Bearer \(Self.secret)", _): QuestionCases.body(request)
      default: Self.login.challenge
      }
    }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(server.url("/file"))
    _ = try QuestionCases.asking(scene, id)
    try QuestionCases.answer(scene, id, "credential", QuestionCases.password(Self.secret))
    #expect(try QuestionCases.asking(scene, id, failures: 1).method == "bearer")
    try scene.restart(SIGKILL)
    _ = try QuestionCases.asking(scene, id, failures: 1)
    try QuestionCases.answer(scene, id, "request") {
      $0.headers = [WireHeader(name: "Authorization", value: "Bearer \(Self.secret)")]
    }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    try Self.waitForNoLeak(scene)
    for text in try Self.texts(scene, id) { #expect(!text.contains(Self.secret)) }
  }

  @Test func aRedirectElsewhereIsShownNoCredential() throws {
    let other = try LocalServer.start { _ in Self.login.challenge }
    defer { other.stop() }
    let target = other.url("/file")
    let server = try LocalServer.start { request in
      Self.login.isShown(by: request) ? .status(302).header("Location", target) : Self.login.challenge
    }
    defer { server.stop() }
    let scene = try Scene(answersChallenges: true)
    let id = try Self.laden(scene, server.url("/file"))
    // It is the other place that asks, and what was given is not for it.
    let question = try QuestionCases.asking(scene, id)
    #expect(question.origin == other.baseURL)
    for request in other.requests {
      #expect(!request.headers.fields.contains { $0.value.contains(Self.secret) })
      #expect(request.headers["Authorization"] == nil)
    }
    try QuestionCases.answer(scene, id, "cancel")
    #expect(try scene.ended(id).state == "cancelled")
    try Self.waitForNoLeak(scene)
  }
}
