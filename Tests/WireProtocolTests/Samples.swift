import WireProtocol

/// One full example of each message, every optional member set.
enum Samples {
  static func request(_ name: ClientRequest.Name) -> ClientRequest {
    switch name {
    case .hello: .hello(HelloParameters(client: "test/1"))
    case .sessionOpen:
      .sessionOpen(
        SessionOpenParameters(
          app: "org.example", identifier: "Ünïcode \u{1F680} \"quoted\" \\ \u{7F}", attach: true,
          collectsResults: true,
          network: WireNetwork(
            httpProxy: "http://p:1", httpsProxy: "http://p:2", noProxy: "localhost,.x", certificateFile: "/ca.pem",
            maximumConnectionsPerHost: 4),
          sendsLaunchEvents: false, revives: true, wantsMetrics: true))
    case .sessionClose: .sessionClose(SessionCloseParameters(session: 1))
    case .sessionInvalidate: .sessionInvalidate(SessionInvalidateParameters(session: 1, cancel: true))
    case .taskEnqueue: .taskEnqueue(TaskEnqueueParameters(session: 1, tasks: [specification, bareSpecification]))
    case .taskResume: .taskResume(TaskIdentifiersParameters(ids: [1, .max]))
    case .taskSuspend: .taskSuspend(TaskIdentifiersParameters(ids: []))
    case .taskCancel: .taskCancel(TaskIdentifiersParameters(ids: [3], producesResumeData: true))
    case .taskRemove: .taskRemove(TaskIdentifiersParameters(ids: [4]))
    case .taskAnswer: .taskAnswer(answer)
    case .taskUpdate:
      .taskUpdate(update)
    case .taskList: .taskList(TaskListParameters(after: 1, limit: 2, session: 3, isUnfinishedOnly: true))
    case .taskShow: .taskShow(TaskShowParameters(id: 9))
    case .taskWatch: .taskWatch(TaskWatchParameters(ids: [1, 2]))
    case .deliveryAcknowledge: .deliveryAcknowledge(DeliveryAcknowledgeParameters(session: 1, numbers: [1, 2, 3]))
    case .conditionsShow: .conditionsShow(EmptyParameters())
    case .conditionsSet:
      .conditionsSet(ConditionsSetParameters(values: [ConditionValue(name: "metered", value: "yes")]))
    case .conditionsClear: .conditionsClear(ConditionsClearParameters(names: ["metered"]))
    case .daemonStatus: .daemonStatus(EmptyParameters())
    case .daemonStop: .daemonStop(EmptyParameters())
    case .appRegister:
      .appRegister(
        AppRegisterParameters(
          app: "org.example", command: ["/bin/x", "-a", "é \"q\""], taskIdentifiers: ["t"], backgroundModes: ["fetch"]))
    case .appList: .appList(EmptyParameters())
    case .appShow: .appShow(AppParameters(app: "a"))
    case .appRemove: .appRemove(AppParameters(app: "b"))
    case .appFront: .appFront(AppParameters(app: "c"))
    case .appForceQuit: .appForceQuit(AppParameters(app: "d"))
    case .appAttach: .appAttach(AppAttachParameters(app: "e", state: "background", launch: 7))
    case .appState: .appState(AppStateParameters(app: "f", state: "foreground"))
    case .appHandled: .appHandled(AppHandledParameters(app: "g", session: "s", launch: 8))
    case .daemonRestart: .daemonRestart(EmptyParameters())
    }
  }

  static func notification(_ name: DaemonNotification.Name) -> DaemonNotification {
    switch name {
    case .taskProgress: .taskProgress(TaskProgressNotice(id: 1, received: 2, expected: 3, sent: 4))
    case .taskState: .taskState(TaskStateNotice(task: snapshot))
    case .taskResumed: .taskResumed(TaskResumedNotice(id: 1, offset: 5, expected: nil))
    case .taskResponse: .taskResponse(TaskResponseNotice(id: 1, response: response))
    case .taskData: .taskData(TaskBytesNotice(id: 1, bytes: "AAEC"))
    case .taskRemoved: .taskRemoved(TaskRemovedNotice(id: 1))
    case .taskQuestion: .taskQuestion(TaskQuestionNotice(task: snapshot))
    case .delivery: .delivery(DeliveryNotice(session: 1, number: 2, kind: "completion", task: snapshot))
    case .sessionEnded: .sessionEnded(SessionEndedNotice(session: 1))
    case .goodbye: .goodbye(GoodbyeNotice(reason: "stopping"))
    case .appWake: .appWake(AppWakeNotice(app: "a", session: "s\n", launch: 3, reason: "challenge"))
    }
  }

  static var update: TaskUpdateParameters {
    var update = TaskUpdateParameters(id: 1, description: "d", priority: 0.25, earliestBeginMilliseconds: 17)
    update.clientExpectsToSend = 1
    update.clientExpectsToReceive = 2
    update.clear = ["description"]
    return update
  }

  static let bareSpecification = WireTaskSpecification(kind: "download", url: "http://localhost/")

  static var specification: WireTaskSpecification {
    var task = WireTaskSpecification(kind: "upload", url: "https://example.org/a?b=c#d")
    task.method = "POST"
    task.headers = [WireHeader(name: "A", value: "1"), WireHeader(name: "a", value: "")]
    task.secretHeaders = ["X-Token"]
    task.source = "/tmp/source"
    task.body = "AAEC/w=="
    task.destination = "/tmp/destination"
    task.collision = "rename"
    task.sha256 = String(repeating: "a", count: 64)
    task.statusRule = "any"
    task.keepsEncoding = true
    task.requestTimeoutSeconds = 0.5
    task.resourceTimeoutSeconds = 604_800
    task.description = "line\nbreak\ttab \u{0}nul \u{2028}"
    task.priority = 0.75
    task.isDiscretionary = false
    task.requires = ["idle"]
    task.clientExpectsToSend = 1
    task.clientExpectsToReceive = 2
    task.earliestBeginMilliseconds = -1
    task.isSuspended = true
    task.key = "key"
    task.addsIdempotencyKey = true
    task.resumeToken = String(repeating: "0f", count: 16)
    task.answersChallenges = true
    task.asksBeforeBegin = false
    task.tls = tls
    task.credential = WireCredential(user: "ann", password: "p\u{e4}ss")
    task.proxyCredential = WireCredential(user: "p", password: "")
    return task
  }

  static let tls = WireTLS(
    minimum: "1.2", maximum: "1.3", authorityFile: "/ca", pinnedKeys: ["sha256//x"], certificateFile: "/c",
    keyFile: "/k", keyPassword: "secret", asksAboutServers: true, asksForCertificate: false,
    pinnedDomains: [WirePinnedDomain(domain: "host", includesSubdomains: true, keys: ["sha256//x"])])

  static var question: WireQuestion {
    var question = WireQuestion(number: 3, kind: "challenge")
    question.method = "digest"
    question.isProxy = false
    question.origin = "https://host:443"
    question.realm = "the \"realm\""
    question.previousFailures = 1
    question.status = 401
    question.certificates = ["AAAA", "BBBB"]
    question.certificate = "sha256//x"
    question.key = "sha256//y"
    question.isVouched = false
    return question
  }

  static var answer: TaskAnswerParameters {
    var answer = TaskAnswerParameters(id: 1, question: 3, answer: "credential")
    answer.credential = WireCredential(user: "ann", password: "secret")
    answer.tls = tls
    answer.url = "http://localhost/fresh"
    answer.headers = [WireHeader(name: "A", value: "b")]
    answer.replacesHeaders = true
    answer.secretHeaders = ["A"]
    return answer
  }

  static let response = WireResponse(
    status: 206, headers: [WireHeader(name: "ETag", value: "\"x\"")], url: "http://localhost/", httpVersion: "1.1")

  static var metrics: WireMetrics {
    var full = WireTransaction(url: "http://localhost/", method: "GET", startMilliseconds: 1_700_000_000_000.25)
    full.status = 200
    full.domainLookupStartSeconds = 0
    full.domainLookupEndSeconds = 0.0001
    full.connectStartSeconds = 0.0001
    full.secureConnectionStartSeconds = 0.5
    full.secureConnectionEndSeconds = 1.25
    full.connectEndSeconds = 1.25
    full.requestStartSeconds = 1.5
    full.requestEndSeconds = 2
    full.responseStartSeconds = 3.000001
    full.responseEndSeconds = 86_400.5
    full.networkProtocol = "h2"
    full.isProxied = true
    full.isReused = true
    full.requestHeaderBytes = 100
    full.requestBodyBytes = 101
    full.responseHeaderBytes = 102
    full.responseBodyBytes = .max
    full.localAddress = "127.0.0.1"
    full.localPort = 40_000
    full.remoteAddress = "::1"
    full.remotePort = 443
    full.tlsVersion = 0x0304
    full.tlsCipherSuite = 0x1302
    return WireMetrics(
      transactions: [full, WireTransaction(url: "http://localhost/", method: "GET", startMilliseconds: 1)],
      omitted: 3, redirects: 4)
  }

  static var snapshot: TaskSnapshot {
    var task = TaskSnapshot(
      id: 1, session: "s", app: "a", sessionID: 2, number: 3, kind: "download", state: "failed", method: "GET",
      url: "http://localhost/", received: .max, sent: 0, attempts: 2, priority: 0.5, createdMilliseconds: 1)
    task.reason = "waits for a retry"
    task.currentURL = "http://localhost/b"
    task.headers = [WireHeader(name: "Authorization", value: "<redacted>")]
    task.expected = 10
    task.expectedToSend = 11
    task.file = "/f"
    task.body = "/b"
    task.response = response
    task.error = WireFailure(code: "hostNotFound", isTransient: true, domain: "curl", number: 6, detail: "no such host")
    task.description = "d"
    task.sha256 = "00"
    task.isLengthVerified = false
    task.validator = "\"x\""
    task.wasted = 12
    task.pin = "reflink"
    task.finishedMilliseconds = 13
    task.nextAttemptMilliseconds = 14
    task.cancelCause = "forceQuit"
    task.expiresMilliseconds = 15
    task.resumeToken = String(repeating: "0f", count: 16)
    task.metrics = metrics
    task.isDiscretionary = true
    task.requires = ["unmetered", "externalPower"]
    task.earliestBeginMilliseconds = 15
    task.clientExpectsToSend = 16
    task.clientExpectsToReceive = 17
    task.blockers = [
      WireBlocker(name: "time", cause: "c", lifts: "l", sinceMilliseconds: 18, untilMilliseconds: nil),
      WireBlocker(name: "idle", cause: "\"c\"", lifts: "l", sinceMilliseconds: nil, untilMilliseconds: 19),
    ]
    task.question = question
    return task
  }
}
