// What only the app can say: how a task comes to ask, who is told, and what becomes of an answer.

extension Core {
  // MARK: What is asked

  /// What a task asks; nil unless it is in `asking`.
  package func question(_ cell: TaskCell, _ held: TaskDetails?) -> Question? {
    guard cell.entry.state == .asking else { return nil }
    if cell.entry.asksFirst { return .delayedRequest }
    guard let held else { return nil }
    // Rows of a daemon that did not know questions say only why.
    return held.progress.question
      ?? .freshRequest(status: held.progress.failure?.number ?? 401, previousFailures: 0)
  }

  /// Tells a question from the ones that the same task asked before: an answer may come late.
  package func questionNumber(_ cell: TaskCell) -> Int64 { cell.entry.attempts }

  func askingReason(_ cell: TaskCell, _ held: TaskDetails?) -> String {
    switch question(cell, held) {
    case .challenge(let challenge): challenge.words
    case .freshRequest(let status, _):
      "needs an answer: the server refuses to go on (\(status)); a fresh URL or header may help"
    case .delayedRequest: "needs an answer: its date has come, and its app wants to be asked before it starts"
    case nil: "needs an answer: \(held?.progress.failure?.detail ?? "credentials")"
    }
  }

  /// Whether this attempt's answer may become a question.
  func askRule(_ held: TaskDetails, _ session: SessionRecord) -> AskRule {
    if held.progress.access?.declines == true { return .never }
    if session.conduct.isForeground { return .knownSchemes }
    return held.plan.answersChallenges ?? session.answersChallenges ? .always : .whenResuming
  }

  /// What an attempt at this request may show: credentials go only to the place that they were given for.
  func attemptAccess(
    _ held: TaskDetails, _ request: TransferRequest, _ session: SessionRecord
  ) -> AttemptAccess {
    let origin = Origin(url: request.url)
    let access = held.progress.access
    let credential = access?.credential.flatMap { $0.origin == origin?.description ? $0 : nil }
    let proxy = session.network.proxyOrigin(for: origin?.scheme ?? "")
    let proxyCredential = access?.proxyCredential.flatMap { $0.origin == proxy ? $0 : nil }
    let made = (session.network.tls ?? TLSSettings()).overridden(by: held.plan.tls)
    let answered = origin == Origin(url: held.request.url) ? access?.tls : access?.tls?.withoutIdentity
    let tls = (origin == Origin(url: held.plan.request.url) ? made : made.withoutIdentity).overridden(by: answered)
    return AttemptAccess(
      credential: credential, proxyCredential: proxyCredential, tls: settings(in: origin, access, tls),
      trust: trust(in: origin, access, tls))
  }

  // MARK: Asking

  /// The server's answer was 401, 403 or 407, and the app can help. What is held stays, and no failure is counted.
  mutating func ask(_ failure: TransferFailure, of id: TaskID, _ work: ActiveTask, _ now: ClockReading) {
    guard let head = work.head, let request = work.request, let held = details[id],
      let session = tasks[id].flatMap({ sessions[$0.entry.session]?.record })
    else { return }
    guard mayBeginAgain(id, work) else {
      var last = failure
      last.detail +=
        " The server had acted on the request and redirected to its answer, which wants credentials; "
        + "sent again with them it could act twice."
      return finish(id, .failed(last), now)
    }
    let challenge = challenge(in: head, to: request, of: id, held, session)
    let question =
      head.status == 403
      ? Question.freshRequest(status: 403, previousFailures: challenge.previousFailures) : .challenge(challenge)
    ask(question, failure, of: id, now)
  }

  /// What an answer of 401, 403 or 407 asks for; counts what was refused by it.
  private mutating func challenge(
    in head: ResponseHead, to request: TransferRequest, of id: TaskID, _ held: TaskDetails, _ session: SessionRecord
  ) -> Challenge {
    let shown = attemptAccess(held, request, session)
    let isProxy = head.status == 407
    let wasRefused =
      (isProxy ? shown.proxyCredential : shown.credential) != nil || held.progress.access?.replacement != nil
    let failures = countRefusal(id, wasRefused, isProxy: isProxy)
    let offered = AuthenticateField.choose(
      AuthenticateField.parse(head.headers.values(isProxy ? "Proxy-Authenticate" : "WWW-Authenticate")))
    let scheme = Origin(url: request.url)?.scheme ?? ""
    let origin = isProxy ? session.network.proxyOrigin(for: scheme) : Origin(url: request.url)?.description
    return Challenge(
      method: offered.method, isProxy: isProxy, origin: origin ?? "", realm: offered.realm, previousFailures: failures)
  }

  /// The attempt failed before there was an answer, in a way that the app may know a remedy for.
  mutating func ask(about failure: TransferFailure, of id: TaskID, _ work: ActiveTask, _ now: ClockReading) -> Bool {
    guard mayBeginAgain(id, work), let held = details[id],
      let session = tasks[id].flatMap({ sessions[$0.entry.session]?.record }),
      mayAsk(about: failure, held, session),
      let challenge = challenge(about: failure, of: id, work, held, session)
    else { return false }
    ask(.challenge(challenge), failure, of: id, now)
    return true
  }

  private mutating func challenge(
    about failure: TransferFailure, of id: TaskID, _ work: ActiveTask, _ held: TaskDetails, _ session: SessionRecord
  ) -> Challenge? {
    guard let request = work.request, work.head == nil, let origin = Origin(url: request.url) else { return nil }
    var challenge = Challenge(method: .unknown, origin: origin.description)
    switch failure.code {
    case .proxyCredentialsRequired:
      challenge.isProxy = true
      challenge.origin = session.network.proxyOrigin(for: origin.scheme) ?? ""
      let wasShown = attemptAccess(held, request, session).proxyCredential != nil
      challenge.previousFailures = countRefusal(id, wasShown, isProxy: true)
    case .clientCertificateRequired, .clientCertificateRejected:
      challenge.method = .clientCertificate
      let place = held.progress.access?.identities.first { $0.origin == origin.description }
      // It was refused one already, and insists: there is nothing new to ask.
      if let place, place.identity == nil { return nil }
      let wasShown = held.progress.access?.tls != nil || place != nil
      challenge.previousFailures = countRefusal(id, wasShown, isProxy: false)
    case .certificateUntrusted:
      challenge.method = .serverTrust
      challenge.server = work.shown
      challenge.previousFailures = countRefusal(id, held.progress.access?.tls != nil, isProxy: false)
    default: return nil
    }
    return challenge
  }

  // MARK: Asking a program that waits

  /// The client of a foreground session is asked where the attempt stands, with its slot kept: what it says goes for
  /// this hop. False: there is nothing to ask, or nobody.
  mutating func askClient(about failure: TransferFailure, of id: TaskID, _ work: ActiveTask) -> Bool {
    guard let held = details[id], let request = work.request,
      let session = tasks[id].flatMap({ sessions[$0.entry.session]?.record }), session.conduct.isForeground
    else { return false }
    let found =
      switch work.verdict {
      case .ask?: work.head.map { challenge(in: $0, to: request, of: id, held, session) }
      default: challenge(about: failure, of: id, work, held, session)
      }
    guard var found else { return false }
    if Question.challenge(found).isAboutTLS {
      guard let asked = tasks[id]?.questionsInRow, asked < Limits.questionsInRow else { return false }
      tasks[id]?.questionsInRow += 1
    }
    // Another realm of the same server has refused nothing that was meant for it.
    if let answered = work.answered, answered.realm != found.realm { found.previousFailures = 0 }
    active[id]?.phase = .deciding
    active[id]?.challenge = PendingChallenge(challenge: found, failure: failure)
    effects.append(.foreground(.askCredential(id, work.head, found)))
    return true
  }

  /// The client gave what was asked for: the same hop once more. What is no answer to the question is the default.
  mutating func authorize(_ id: TaskID, _ answer: Answer, _ now: ClockReading) {
    guard var work = deciding(id), let request = work.request, let pending = work.challenge else { return }
    let challenge = pending.challenge
    switch answer {
    case .credential(let user, let password) where challenge.takesPassword:
      work.answered = challenge
      keep(user, password, for: challenge, of: id)
    case .trust(let certificate) where certificate == challenge.server?.certificate: accept(challenge, of: id)
    case .tls(let settings) where challenge.method == .clientCertificate && settings.identity != nil:
      show(settings.identity, to: challenge, of: id)
    case .credential, .trust, .tls, .request, .proceed, .cancel: return keepResponse(id, held: nil, now)
    }
    hop(id, work, request, isRedirect: false)
  }

  private mutating func keep(_ user: String, _ password: Secret, for challenge: Challenge, of id: TaskID) {
    let credential = TransferCredential(
      user: user, password: password, method: challenge.method, origin: challenge.origin)
    changeAccess(id) { access in
      if challenge.isProxy { access.proxyCredential = credential } else { access.credential = credential }
    }
  }

  /// A credential that was refused is not sent again.
  private mutating func countRefusal(_ id: TaskID, _ wasRefused: Bool, isProxy: Bool) -> Int {
    guard wasRefused else {
      // Nothing was shown to this place, so that it has refused nothing.
      if details[id]?.progress.access != nil { details[id]?.progress.access?.failures = 0 }
      return 0
    }
    if isProxy {
      details[id]?.progress.access?.proxyCredential = nil
    } else {
      details[id]?.progress.access?.credential = nil
    }
    let failures = min((details[id]?.progress.access?.failures ?? 0) + 1, 1_000_000)
    details[id]?.progress.access?.failures = failures
    return failures
  }

  /// An answered task starts anew with its first request.
  private func mayBeginAgain(_ id: TaskID, _ work: ActiveTask) -> Bool {
    tasks[id]?.entry.isRepeatable != false || !wasAnsweredByRedirect(id, work)
  }

  private mutating func ask(_ question: Question, _ failure: TransferFailure, of id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id], cell.questionsInRow < Limits.questionsInRow else {
      var last = failure
      last.detail += " It was asked about \(Limits.questionsInRow) times in a row, and nothing came of any answer."
      return finish(id, .failed(last), now)
    }
    tasks[id]?.questionsInRow += 1
    details[id]?.progress.question = question
    details[id]?.progress.heldSince = now.wall
    details[id]?.progress.failure = failure
    touch(id, progress: true)
    beginAsking(id)
  }

  /// The date of a task has come whose app wants to be asked first.
  mutating func askFirst(_ id: TaskID) {
    tasks[id]?.wakeAt = nil
    tasks[id]?.entry.notBefore = nil
    beginAsking(id)
  }

  private mutating func beginAsking(_ id: TaskID) {
    guard let session = tasks[id]?.entry.session else { return }
    setState(.asking, of: id)
    if let peer = sessions[session]?.attached { effects.append(.ask(peer, id)) }
  }

  /// A client came: what is still unanswered is put before it.
  mutating func offerQuestions(of session: SessionID) {
    guard let cell = sessions[session], let peer = cell.attached else { return }
    for id in cell.asking.sorted() { effects.append(.ask(peer, id)) }
  }

  /// The task asks no more, for whatever reason. Called while it is still in that state.
  mutating func leaveAsking(_ id: TaskID) {
    guard let cell = tasks[id] else { return }
    if cell.entry.state == .asking { sessions.update(cell.entry.session, isStored: false) { $0.asking.remove(id) } }
    if details[id]?.progress.question != nil {
      details[id]?.progress.question = nil
      touch(id, progress: true)
    }
  }

  /// It is tried as it is: a person said so, or an answer was given.
  mutating func goOn(_ id: TaskID, _ now: ClockReading) {
    leaveAsking(id)
    tasks[id]?.entry.asksFirst = false
    setState(.waiting, of: id)
    line(up: id, now)
  }

  /// A date was set or taken back after the task was made; only one that has not begun is asked about.
  mutating func noteDate(_ date: WallInstant?, of id: TaskID) {
    guard let cell = tasks[id], details[id]?.plan.asksBeforeBegin == true else { return }
    switch cell.entry.state {
    case .suspended, .waiting: break
    case .running, .asking, .finalizing, .finished: return
    }
    tasks[id]?.entry.asksFirst = cell.entry.attempts == 0 && date.map { $0.milliseconds > 0 } == true
    touch(id)
  }

  // MARK: Answers

  mutating func answer(
    _ id: TaskID, _ number: Int64?, _ answer: Answer, _ token: RequestToken, _ now: ClockReading
  ) {
    guard let cell = tasks[id] else { return refuse(token, .taskUnknown, "There is no task \(id).") }
    guard let held = details[id], let question = question(cell, held),
      number ?? questionNumber(cell) == questionNumber(cell)
    else {
      return refuse(token, .notAsking, "Task \(id) asks nothing, or something else by now; `ferry show \(id)` tells.")
    }
    if let mismatch = question.mismatch(answer) { return refuse(token, .invalidParameters, mismatch) }
    effects.append(.reply(token, .identifiers(reached: [id], unknown: [])))
    switch answer {
    case .cancel: return finish(id, .cancelled(.requested), now)
    case .proceed: return decline(id, question, held, now)
    case .credential(let user, let password):
      guard case .challenge(let challenge) = question else { return }
      keep(user, password, for: challenge, of: id)
    case .tls(var settings):
      // Who wants a certificate is shown one, and nobody else.
      if case .challenge(let challenge) = question, challenge.method == .clientCertificate, settings.identity != nil {
        show(settings.identity, to: challenge, of: id)
        settings = settings.withoutIdentity
      }
      if !settings.isEmpty { changeAccess(id) { $0.tls = ($0.tls ?? TLSSettings()).overridden(by: settings) } }
    case .trust:
      guard case .challenge(let challenge) = question else { return }
      accept(challenge, of: id)
    case .request(let change):
      let request = change.applied(to: held.request)
      let staysInPlace = Origin(url: request.url) == Origin(url: held.request.url)
      changeAccess(id) { access in
        access.replacement = request
        // Both would speak for the same thing, and the newer word counts.
        if change.headers.contains("Authorization") { access.credential = nil }
        if !staysInPlace { access.tls = access.tls?.withoutIdentity }
      }
      moveLane(id, to: request.url)
    }
    goOn(id, now)
  }

  mutating func changeAccess(_ id: TaskID, _ change: (inout TaskAccess) -> Void) {
    var access = details[id]?.progress.access ?? TaskAccess()
    change(&access)
    access.declines = false
    details[id]?.progress.access = access
    touch(id, progress: true)
  }

  /// Default handling: as if nobody could have been asked.
  private mutating func decline(_ id: TaskID, _ question: Question, _ held: TaskDetails, _ now: ClockReading) {
    let hasAnswer =
      switch question {
      case .delayedRequest: true
      case .freshRequest: held.plan.statusRule == .any
      case .challenge(let challenge):
        switch challenge.method {
        case .serverTrust: acceptVouched(challenge, of: id)
        case .clientCertificate: goWithoutIdentity(challenge, of: id)
        // A proxy that refused a tunnel gave no answer that could be delivered.
        case .basic, .digest, .bearer, .negotiate, .ntlm, .unknown:
          held.plan.statusRule == .any && !(challenge.isProxy && challenge.method == .unknown)
        }
      }
    guard hasAnswer else {
      let failure =
        held.progress.failure
        ?? TransferFailure(
          .credentialsRequired, .permanent, detail: "The server wants credentials, and none were given.")
      return finish(id, .failed(failure), now)
    }
    // Who takes the default for one server has said nothing about the next.
    if question != .delayedRequest, !question.isAboutTLS { declineChallenges(id) }
    goOn(id, now)
  }

  /// What the server says without a credential is an answer like any other.
  mutating func declineChallenges(_ id: TaskID) {
    changeAccess(id) { _ in }
    details[id]?.progress.access?.declines = true
  }

  /// The task goes to another host from now on, and is counted there.
  private mutating func moveLane(_ id: TaskID, to url: String) {
    guard let cell = tasks[id], let origin = Origin(url: url)?.description, origin != cell.entry.origin,
      let network = sessions[cell.entry.session]?.record.network
    else { return }
    tasks[id]?.entry.origin = origin
    tasks[id]?.lane = admission.lane(
      session: cell.entry.session, origin: origin, limit: network.maximumConnectionsPerHost)
    touch(id)
  }
}

extension Question {
  /// Why this cannot be the answer; nil when it can.
  func mismatch(_ answer: Answer) -> String? {
    switch (self, answer) {
    case (_, .cancel), (_, .proceed), (_, .request): return nil
    case (.challenge(let challenge), .credential):
      if challenge.takesPassword { return nil }
      return "The server asks by \(challenge.method.rawValue), which no user and password answer here."
    case (.challenge, .tls): return nil
    case (.challenge(let challenge), .trust(let certificate)):
      guard challenge.method == .serverTrust else { return "What is asked is not whether a server is the right one." }
      if challenge.server?.certificate == certificate { return nil }
      return "The server showed another certificate than the one that is accepted; its question tells which."
    case (.freshRequest, _), (.delayedRequest, _):
      return "What is asked is a request, not a credential: continue, give another one, or cancel."
    }
  }
}

extension Question {
  var isAboutTLS: Bool {
    guard case .challenge(let challenge) = self else { return false }
    return challenge.method == .serverTrust || challenge.method == .clientCertificate
  }
}

extension Challenge {
  var words: String {
    let place = isProxy ? "the proxy \(origin)" : origin
    let again = previousFailures > 0 ? " (\(previousFailures) refused)" : ""
    let area = realm.map { " for \"\($0)\"" } ?? ""
    switch method {
    case .basic, .digest: return "needs an answer: user and password\(area) at \(place)\(again)"
    case .bearer: return "needs an answer: a fresh token\(area) at \(place)\(again)"
    case .negotiate, .ntlm: return "needs an answer: \(place) wants \(method.rawValue), which ferryd does not speak"
    case .clientCertificate: return "needs an answer: a client certificate for \(place)\(again)"
    case .serverTrust: return "needs an answer: the certificate of \(place) is not trusted\(again)"
    case .unknown: return "needs an answer: credentials\(area) at \(place)\(again)"
    }
  }
}

extension NetworkSettings {
  /// The proxy for URLs of that scheme, as ``Origin`` would write it; nil for none, or one that is not of HTTP.
  package func proxyOrigin(for scheme: String) -> String? {
    guard let text = scheme == "https" ? httpsProxy : httpProxy, !text.isEmpty else { return nil }
    return Origin(url: text.firstRange(of: "://") == nil ? "http://\(text)" : text)?.description
  }
}

extension TaskDraft {
  /// What it was given from the start.
  func access(_ network: NetworkSettings) -> TaskAccess? {
    var access = TaskAccess(accepted: accepted)
    if let user { access.credential = TransferCredential(user: user, password: password ?? Secret(""), origin: origin) }
    if let proxyUser {
      let proxy = network.proxyOrigin(for: Origin(url: request.url)?.scheme ?? "")
      access.proxyCredential = TransferCredential(
        user: proxyUser, password: proxyPassword ?? Secret(""), origin: proxy ?? "")
    }
    return access.isEmpty ? nil : access
  }
}
