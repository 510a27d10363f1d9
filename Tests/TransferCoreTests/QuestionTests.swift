import Testing

@testable import TransferCore

/// What only the app can say.
@Suite struct QuestionTests {
  static let basic: (String, String) = ("WWW-Authenticate", "Basic realm=\"area\"")

  static func head(
    _ status: Int, _ fields: [(String, String)] = [basic], url: String = "http://host.test/file"
  )
    -> ResponseHead
  {
    ResponseHead(
      status: status, headers: HeaderFields(fields.map { HeaderField(name: $0.0, value: $0.1) }), url: url)
  }

  /// A bench whose task 1 asks for user and password, with 40 bytes held.
  static func asking(
    _ fields: [(String, String)] = [basic], status: Int = 401, answers: Bool = true, rule: StatusRule = .successOnly
  ) -> (Bench, TaskID) {
    var bench = Bench()
    let session = open(&bench, answers: answers)
    let id = bench.add(.download().with { $0.statusRule = rule }, to: session) ?? TaskID(rawValue: -1)
    bench.openFiles(id)
    bench.respond(id, .ok(), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
    bench.handle(.synced(bench.attempt(id), offset: 40))
    bench.fail(id)
    bench.advance(.seconds(60))
    bench.admit()
    refuse(&bench, id, status, fields)
    return (bench, id)
  }

  static func open(_ bench: inout Bench, answers: Bool = true) -> SessionID {
    let reply = bench.command(
      .openSession(
        SessionKey(app: "app", identifier: "s"), attach: true, collectsResults: true, network: NetworkSettings(),
        answersChallenges: answers))
    guard case .sessionOpened(let id, _, _)? = reply else { return SessionID(rawValue: -1) }
    return id
  }

  /// The running task's next answer is a refusal.
  @discardableResult
  static func refuse(
    _ bench: inout Bench, _ id: TaskID, _ status: Int = 401, _ fields: [(String, String)] = [basic]
  ) -> AttemptOrder? {
    let order = bench.openFiles(id, held: 40)
    guard let order else { return nil }
    let head = head(status, fields, url: order.request.url)
    bench.respond(id, head, ResponseTable.judge(head, order.judgement))
    bench.handle(.ended(bench.attempt(id), .discarded, requestWasSent: true))
    return order
  }

  static func question(_ bench: Bench, _ id: TaskID) -> Question? {
    bench.core.tasks[id].flatMap { bench.core.question($0, bench.core.residentDetails(id)) }
  }

  static func answer(_ bench: inout Bench, _ id: TaskID, _ answer: Answer, number: Int64? = nil) -> Reply? {
    bench.command(.answer(id, question: number, answer))
  }

  static let credential = Answer.credential(user: "ann", password: Secret("pw-9f"))

  // MARK: Which answers ask

  @Test(arguments: [
    // status, can be asked, rule, field, asks
    (401, true, StatusRule.successOnly, "Basic realm=\"x\"", true), (401, true, .any, "Basic realm=\"x\"", true),
    (401, true, .any, "Digest realm=\"x\", nonce=\"1\"", true), (401, true, .any, "NTLM", true),
    (401, true, .any, "Bearer", false), (401, true, .any, "", false), (401, true, .successOnly, "", true),
    (401, false, .any, "Basic realm=\"x\"", false), (401, false, .successOnly, "Basic realm=\"x\"", false),
    (403, true, .any, "Basic realm=\"x\"", false), (403, true, .successOnly, "", false),
    (407, true, .any, "", false), (407, true, .successOnly, "", true), (200, true, .any, "Basic", false),
  ])
  func theFirstAnswer(status: Int, canAsk: Bool, rule: StatusRule, field: String, asks: Bool) {
    let context = JudgementContext(
      kind: .download, statusRule: rule, resume: nil, now: WallInstant(milliseconds: 0),
      asking: canAsk ? .always : .whenResuming)
    let verdict = ResponseTable.judge(Self.head(status, field.isEmpty ? [] : [("WWW-Authenticate", field)]), context)
    if case .ask = verdict { #expect(asks) } else { #expect(!asks, "\(verdict)") }
  }

  @Test func whoWaitsIsNotAskedWhatHasNoWordForIt() {
    let resume = ResumePoint(validator: .entityTag("\"a\""), offset: 5, total: 10)
    for (status, field, asks) in [(401, "Basic", true), (401, "Bearer", false), (403, "Basic", false)] {
      for point in [resume, nil] {
        let context = JudgementContext(
          kind: .download, statusRule: .any, resume: point, now: WallInstant(milliseconds: 0), asking: .knownSchemes)
        let verdict = ResponseTable.judge(Self.head(status, [("WWW-Authenticate", field)]), context)
        if case .ask = verdict { #expect(asks) } else { #expect(!asks && verdict == .takeWhole) }
      }
    }
  }

  @Test(arguments: [401, 403, 407], [AskRule.never, .whenResuming, .always])
  func aResumptionAlwaysAsksUnlessTheAppDeclined(status: Int, rule: AskRule) {
    let resume = ResumePoint(validator: .entityTag("\"a\""), offset: 5, total: 10)
    let context = JudgementContext(
      kind: .download, statusRule: .any, resume: resume, now: WallInstant(milliseconds: 0), asking: rule)
    let verdict = ResponseTable.judge(Self.head(status), context)
    if case .ask = verdict { #expect(rule != .never) } else { #expect(rule == .never && verdict == .takeWhole) }
  }

  // MARK: Challenges

  @Test(arguments: [
    (["Basic realm=\"a\""], Challenge.Method.basic, "a"), (["basic REALM=a"], .basic, "a"),
    (["Basic realm=\"a\", Digest realm=\"b\", nonce=\"x,y=z\""], .digest, "b"),
    (["Bearer realm=\"t\"", "Basic realm=\"a\""], .basic, "a"), (["Negotiate abc==", "NTLM"], .negotiate, ""),
    (["NTLM"], .ntlm, ""), (["Bearer error=\"invalid_token\""], .bearer, ""), (["Other realm=\"q\""], .unknown, "q"),
    ([], .unknown, ""), (["\"\""], .unknown, ""), (["Basic realm=\"a \\\"b\\\" c\""], .basic, "a \"b\" c"),
    (["Basic realm=\"never ends"], .basic, ""), ([", , Basic , realm = x"], .basic, "x"),
    (["Negotiate YII=, Basic realm=\"a\""], .basic, "a"),
  ])
  func theStrongestSchemeIsChosen(fields: [String], method: Challenge.Method, realm: String) {
    let chosen = AuthenticateField.choose(AuthenticateField.parse(fields))
    #expect(chosen.method == method)
    #expect(chosen.realm ?? "" == realm)
  }

  static let alphabet = Array("aB =\",\\\t;\u{e4}".utf8)

  @Test func garbageEnds() {
    var random = RandomWords(seed: 3)
    for _ in 0..<2000 {
      let text = String(
        decoding: (0..<40).map { _ in Self.alphabet[Int(random.next() % UInt64(Self.alphabet.count))] }, as: UTF8.self)
      #expect(AuthenticateField.parse([text, text]).count <= AuthenticateField.limit)
    }
  }

  // MARK: Asking and answering

  @Test func aQuestionKeepsTheBytesAndCountsNoFailure() throws {
    var (bench, id) = Self.asking()
    #expect(bench.state(id) == .asking)
    #expect(
      Self.question(bench, id)
        == .challenge(Challenge(method: .basic, origin: "http://host.test:80", realm: "area", previousFailures: 0)))
    #expect(bench.effects.contains(.ask(Bench.peer, id)))
    #expect(bench.core.sessionsWithQuestions == [SessionID(rawValue: 1)])
    // The attempt that was cut before.
    #expect(bench.entry(id)?.failures == 1)
    #expect(bench.entry(id)?.deadline != nil)
    let cell = try Self.present(bench.core.tasks[id])
    let reason = try Self.present(bench.core.reason(cell, bench.core.residentDetails(id), at: bench.now))
    #expect(reason.contains("area") && reason.contains("http://host.test:80"))
    #expect(Self.answer(&bench, id, Self.credential) == .identifiers(reached: [id], unknown: []))
    let order = try Self.present(bench.openFiles(id, held: 40))
    #expect(order.judgement.resume?.offset == 40)
    #expect(order.credential?.user == "ann" && order.credential?.method == .basic)
    #expect(bench.core.sessionsWithQuestions.isEmpty)
    #expect(bench.core.violations() == [])
  }

  @Test func aRefusedCredentialIsAskedForAgainAndNotSentAgain() throws {
    var (bench, id) = Self.asking()
    for count in 1...2 {
      _ = Self.answer(&bench, id, Self.credential)
      let order = Self.refuse(&bench, id)
      #expect(order?.credential != nil)
      guard case .challenge(let challenge)? = Self.question(bench, id) else { throw Missing() }
      #expect(challenge.previousFailures == count)
      #expect(bench.core.residentDetails(id)?.progress.access?.credential == nil)
    }
    #expect(bench.entry(id)?.failures == 1)
    _ = Self.answer(&bench, id, .cancel)
    #expect(bench.state(id) == .finished(.cancelled))
    #expect(bench.core.residentDetails(id)?.progress.access == nil)
  }

  struct Missing: Error {}

  static func present<Value>(_ value: Value?) throws -> Value {
    guard let value else { throw Missing() }
    return value
  }

  /// Two servers, each with a challenge, that redirect to one another.
  @Test func aTaskDoesNotAskForEver() throws {
    var (bench, id) = Self.asking()
    for _ in 1..<Int(Limits.questionsInRow) {
      #expect(bench.state(id) == .asking)
      _ = Self.answer(&bench, id, Self.credential)
      bench.admit()
      Self.refuse(&bench, id)
    }
    #expect(bench.state(id) == .asking)
    _ = Self.answer(&bench, id, Self.credential)
    bench.admit()
    Self.refuse(&bench, id)
    #expect(bench.state(id) == .finished(.failed))
    #expect(bench.core.residentDetails(id)?.progress.failure?.detail.contains("100 times") == true)
  }

  @Test func aCredentialStaysWithItsOrigin() throws {
    var (bench, id) = Self.asking()
    _ = Self.answer(&bench, id, Self.credential)
    bench.openFiles(id, held: 40)
    bench.respond(id, .ok(status: 307), .redirect)
    bench.handle(.ended(bench.attempt(id), .redirected(location: "http://other.test/x"), requestWasSent: true))
    #expect(try Self.present(bench.openFiles(id, held: 40)).credential == nil)
  }

  @Test func anAnswerThatComesLateIsRefused() {
    var (bench, id) = Self.asking()
    let number = bench.core.tasks[id].map { bench.core.questionNumber($0) } ?? -1
    _ = Self.answer(&bench, id, Self.credential, number: number)
    for late in [number, number + 1] {
      guard case .refused(let refusal)? = Self.answer(&bench, id, Self.credential, number: late) else {
        Issue.record("It was taken.")
        return
      }
      #expect(refusal.name == .notAsking)
    }
    Self.refuse(&bench, id)
    guard case .refused? = Self.answer(&bench, id, .cancel, number: number) else {
      Issue.record("The answer to the first question ended the second.")
      return
    }
    #expect(bench.state(id) == .asking)
  }

  @Test func aQuestionIsPutAgainAfterReconnectAndRestart() throws {
    var (bench, id) = Self.asking()
    bench.handle(.peerLeft(Bench.peer))
    var store = ModelStore()
    #expect(store.apply(bench.core.takeChanges()) == [])
    _ = bench.take()
    _ = Self.open(&bench)
    #expect(bench.take().contains(.ask(Bench.peer, id)))

    let (core, _) = Core.restoring(store.state, Bench.configuration, at: bench.now)
    var restarted = Bench(core)
    (restarted.boot, restarted.wall) = (bench.boot, bench.wall)
    #expect(restarted.state(id) == .asking)
    #expect(restarted.core.sessionsWithQuestions == [SessionID(rawValue: 1)])
    _ = Self.open(&restarted)
    #expect(restarted.take().contains(.ask(Bench.peer, id)))
    restarted.handle(
      .commanded(.answer(id, question: nil, Self.credential), RequestToken(peer: Bench.peer, sequence: 9)))
    restarted.handle(.detailsLoaded(id, store.details[id]))
    #expect(try Self.present(restarted.openFiles(id, held: 40)).judgement.resume?.offset == 40)
    #expect(restarted.core.violations() == [])
  }

  @Test func defaultHandlingDeliversTheRefusalOrFails() throws {
    var (bench, id) = Self.asking(rule: .any)
    _ = Self.answer(&bench, id, .proceed)
    #expect(try Self.present(bench.openFiles(id, held: 40)).judgement.asking == .never)
    var (strict, other) = Self.asking()
    _ = Self.answer(&strict, other, .proceed)
    #expect(strict.state(other) == .finished(.failed))
    #expect(strict.core.residentDetails(other)?.progress.failure?.code == .credentialsRequired)
  }

  @Test func aFreshRequestGoesOnWithWhatIsHeld() throws {
    var (bench, id) = Self.asking([], status: 403)
    #expect(Self.question(bench, id) == .freshRequest(status: 403, previousFailures: 0))
    guard case .refused? = Self.answer(&bench, id, Self.credential) else { throw Missing() }
    let change = RequestChange(url: "http://cdn.test/signed", headers: [("X-A", "b")])
    _ = Self.answer(&bench, id, .request(change))
    let order = try Self.present(bench.openFiles(id, held: 40))
    #expect(order.request.url == "http://cdn.test/signed")
    #expect(order.request.headers["X-A"] == "b")
    #expect(order.judgement.resume?.offset == 40)
    #expect(bench.entry(id)?.origin == "http://cdn.test:80")
    bench.fail(id)
    #expect(bench.core.violations() == [])
  }

  @Test func aFreshURLElsewhereIsShownNothingOfTheOldPlaces() throws {
    var bench = Bench()
    let session = Self.open(&bench)
    let draft = TaskDraft.download().with {
      $0.request.headers = [("Authorization", "Bearer pw-9f"), ("X-Key", "pw-9f"), ("X-Open", "yes")]
      $0.request.secretHeaderNames = ["X-Key"]
      $0.tls = TLSSettings(certificateFile: "/cert.pem")
    }
    let id = try Self.present(bench.add(draft, to: session))
    #expect(Self.refuse(&bench, id)?.tls.certificateFile == "/cert.pem")
    _ = Self.answer(&bench, id, .tls(TLSSettings(certificateFile: "/other.pem")))
    #expect(Self.refuse(&bench, id)?.tls.certificateFile == "/other.pem")
    let change = RequestChange(url: "http://cdn.test/signed", headers: [("X-New", "b")])
    _ = Self.answer(&bench, id, .request(change))
    let order = try Self.present(bench.openFiles(id))
    #expect(order.tls.certificateFile == nil)
    #expect(order.request.headers["X-New"] == "b" && order.request.headers["X-Open"] == "yes")
    #expect(!"\(order.request)".contains("pw-9f"))
  }

  @Test(arguments: [true, false]) func theEndForgetsWhatWasSecret(isRemoved: Bool) throws {
    var bench = Bench()
    let session = Self.open(&bench)
    let draft = TaskDraft.download().with {
      $0.request.headers = [("Authorization", "Bearer pw-9f"), ("X-Open", "yes")]
      $0.tls = TLSSettings(certificateFile: "/cert.pem", keyPassword: Secret("pw-9f"))
    }
    let id = try Self.present(bench.add(draft, to: session))
    var store = ModelStore()
    #expect(store.apply(bench.core.takeChanges()) == [])
    Self.refuse(&bench, id)
    _ = Self.answer(&bench, id, Self.credential)
    bench.command(isRemoved ? .remove([id]) : .cancel([id]))
    let changes = bench.core.takeChanges()
    let forgets = changes.contains { if case .forgetSecrets(id, _) = $0 { true } else { false } }
    #expect(forgets)
    #expect(store.apply(changes) == [])
    guard !isRemoved else { return }
    for held in [store.details[id], bench.core.residentDetails(id)] {
      let plan = try Self.present(held).plan
      #expect(plan.request.headers["Authorization"] == "<redacted>" && plan.request.headers["X-Open"] == "yes")
      #expect(plan.tls == TLSSettings(certificateFile: "/cert.pem"))
      #expect(held?.progress.access == nil)
    }
  }

  // MARK: Delayed requests

  @Test func aDelayedTaskAsksWhenItsDateHasCome() throws {
    var bench = Bench()
    let session = Self.open(&bench)
    let date = bench.now.wall + .seconds(30)
    let draft = TaskDraft.download().with {
      $0.asksBeforeBegin = true
      $0.earliestBegin = date
    }
    let id = try Self.present(bench.add(draft, to: session))
    #expect(bench.state(id) == .waiting)
    bench.advance(.seconds(31))
    bench.admit()
    #expect(bench.state(id) == .asking)
    #expect(Self.question(bench, id) == .delayedRequest)
    #expect(bench.effects.contains(.ask(Bench.peer, id)))
    _ = Self.answer(&bench, id, .proceed)
    #expect(bench.openFiles(id) != nil)
    bench.fail(id)
    bench.advance(.seconds(600))
    bench.admit()
    // Asked once, and not before every attempt.
    #expect(bench.state(id)?.attempt != nil)
    #expect(bench.core.violations() == [])
  }

  @Test func aDateThatIsTakenBackAsksNothing() throws {
    var bench = Bench()
    let session = Self.open(&bench)
    let id = try Self.present(
      bench.add(
        .download().with {
          $0.asksBeforeBegin = true
          $0.isSuspended = true
        }, to: session))
    bench.command(.update(id, TaskChange(earliestBegin: bench.now.wall + .seconds(30))))
    #expect(bench.entry(id)?.asksFirst == true)
    bench.command(.update(id, TaskChange(earliestBegin: WallInstant(milliseconds: 0))))
    bench.command(.resume([id]))
    #expect(bench.state(id)?.attempt != nil)
  }

  // MARK: What is given from the start, and TLS

  @Test func credentialsOfTheDraftGoToItsOwnOriginOnly() throws {
    var bench = Bench()
    let session = Self.open(&bench, answers: false)
    let draft = TaskDraft.download().with {
      $0.user = "ann"
      $0.password = Secret("pw-9f")
      $0.tls = TLSSettings(minimum: .tls13, certificateFile: "/cert.pem")
    }
    let id = try Self.present(bench.add(draft, to: session))
    let order = try Self.present(bench.openFiles(id))
    #expect(order.credential?.user == "ann" && order.credential?.method == nil)
    #expect(order.tls.certificateFile == "/cert.pem")
    bench.respond(id, .ok(status: 302), .redirect)
    bench.handle(.ended(bench.attempt(id), .redirected(location: "http://other.test/x"), requestWasSent: true))
    let next = try Self.present(bench.openFiles(id))
    #expect(next.credential == nil && next.tls.certificateFile == nil && next.tls.minimum == .tls13)
  }

  @Test func whatTLSMissesIsAskedWhereTheAppCanBeAsked() throws {
    for answers in [true, false] {
      var bench = Bench()
      let id = try Self.present(bench.add(.download(), to: Self.open(&bench, answers: answers)))
      bench.openFiles(id)
      bench.fail(id, .certificateUntrusted, .permanent, sent: false)
      #expect(bench.state(id) == (answers ? .asking : .finished(.failed)))
      guard answers else { continue }
      _ = Self.answer(&bench, id, .tls(TLSSettings(authorityFile: "/ca.pem")))
      #expect(bench.openFiles(id)?.tls.authorityFile == "/ca.pem")
    }
  }

  // MARK: Programs that wait

  /// A task of a foreground session, with its files open.
  private static func foreground(_ bench: inout Bench, _ draft: TaskDraft = .download()) throws -> TaskID {
    let opened = bench.command(
      .foreground(
        .open(SessionKey(app: "app", identifier: "f"), network: NetworkSettings(), waitsForConnectivity: false)))
    guard case .sessionOpened(let session, _, _)? = opened else { throw Missing() }
    let id = try present(bench.add(draft.with { $0.statusRule = .any }, to: session))
    #expect(bench.openFiles(id)?.judgement.asking == .knownSchemes)
    return id
  }

  /// The attempt's answer asks; returns what the client hears.
  private static func refuseInForeground(_ bench: inout Bench, _ id: TaskID) throws -> Challenge {
    let failure = TransferFailure(.credentialsRequired, .permanent, domain: "http", number: 401, detail: "no")
    bench.respond(id, head(401, [basic]), .ask(failure))
    let effects = bench.handle(.ended(bench.attempt(id), .discarded, requestWasSent: true))
    for effect in effects {
      if case .foreground(.askCredential(id, let head, let challenge)) = effect {
        #expect(head?.status == 401)
        return challenge
      }
    }
    throw Missing()
  }

  @Test func aProgramThatWaitsIsAskedWhereTheAttemptStands() throws {
    var bench = Bench()
    let id = try Self.foreground(&bench)
    let first = bench.attempt(id)
    #expect(try Self.refuseInForeground(&bench, id).previousFailures == 0)
    // It keeps its slot, and nothing reaches the attempt that is over.
    #expect(bench.core.active[id]?.phase == .deciding && bench.core.runningCount == 1)
    #expect(bench.core.taskOnWire(first) == nil && bench.core.violations() == [])
    bench.command(.foreground(.authorize(id, .credential(user: "ann", password: Secret("pw-9f")))))
    let next = try Self.present(bench.openFiles(id))
    #expect(next.attempt != first && next.credential?.user == "ann" && next.credential?.method == .basic)
    #expect(try Self.refuseInForeground(&bench, id).previousFailures == 1)
    #expect(bench.core.residentDetails(id)?.progress.access?.credential == nil)
    bench.command(.foreground(.keepResponse(id, held: 7)))
    #expect(bench.state(id) == .finalizing && bench.core.runningCount == 0)
    #expect(bench.core.residentDetails(id)?.progress.response?.status == 401)
  }

  @Test func anAnswerThatDidNotComeWholeIsAskedForOnceMore() throws {
    var bench = Bench()
    let id = try Self.foreground(&bench)
    _ = try Self.refuseInForeground(&bench, id)
    bench.command(.foreground(.keepResponse(id, held: nil)))
    #expect(try Self.present(bench.openFiles(id)).judgement.asking == .never)
    #expect(bench.core.violations() == [])
  }

  @Test func whereNoConnectionCouldBeMadeDecliningIsTheEnd() throws {
    var bench = Bench()
    let id = try Self.foreground(&bench)
    let failure = TransferFailure(.certificateUntrusted, .permanent, detail: "no")
    let effects = bench.handle(.ended(bench.attempt(id), .failed(failure), requestWasSent: false))
    let challenge = Challenge(method: .serverTrust, origin: "http://host.test:80")
    #expect(effects.contains(.foreground(.askCredential(id, nil, challenge))))
    bench.command(.foreground(.keepResponse(id, held: nil)))
    #expect(bench.state(id) == .finished(.failed))
    #expect(bench.core.residentDetails(id)?.progress.failure?.code == .certificateUntrusted)
  }

  @Test func aTaskCanBeCancelledOrSuspendedWhileItsProgramDecides() throws {
    var bench = Bench()
    let id = try Self.foreground(&bench)
    _ = try Self.refuseInForeground(&bench, id)
    bench.command(.suspend([id]))
    #expect(bench.core.runningCount == 0 && bench.core.violations() == [])
    bench.command(.foreground(.authorize(id, .credential(user: "ann", password: Secret("pw-9f")))))
    bench.openFiles(id)
    #expect(bench.effects.contains(.foreground(.pause(bench.attempt(id)))))
    bench.command(.resume([id]))
    #expect(bench.core.runningCount == 1)
    _ = try Self.refuseInForeground(&bench, id)
    bench.command(.cancel([id], producesResumeData: false))
    #expect(bench.state(id) == .finished(.cancelled) && bench.core.runningCount == 0)
    // Too late.
    bench.command(.foreground(.authorize(id, .credential(user: "ann", password: Secret("pw-9f")))))
    bench.command(.foreground(.keepResponse(id, held: nil)))
    #expect(bench.state(id) == .finished(.cancelled) && bench.core.violations() == [])
  }

  @Test func nothingSecretIsPrinted() {
    let (bench, id) = { () -> (Bench, TaskID) in
      var (bench, id) = Self.asking()
      _ = Self.answer(&bench, id, Self.credential)
      return (bench, id)
    }()
    var dumped = ""
    dump(bench.core.residentDetails(id), to: &dumped)
    for text in [dumped, "\(String(describing: bench.core.residentDetails(id)))", "\(Self.credential)"] {
      #expect(!text.contains("pw-9f"))
    }
  }
}

extension Core {
  /// Sessions with at least one question, in the order of their making.
  fileprivate var sessionsWithQuestions: [SessionID] {
    sessions.order.filter { sessions[$0].map { !$0.asking.isEmpty } ?? false }
  }
}
