import Testing
import TransferCore
import TransferStore

/// Every value that the store takes comes back as it was, from a file that was closed in between.
@Suite struct RoundTripTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  func reopened(_ changes: [StoreChange]) throws -> (TransferStore, StoredState) {
    let store = try TransferStore(path: folder.database)
    try store.apply(changes)
    store.close()
    let next = try TransferStore(path: folder.database)
    let state = try next.load()
    #expect(state.quarantined.isEmpty)
    #expect(next.recovered == nil)
    return (next, state)
  }

  @Test func everyField() throws {
    let session = Sample.session(1)
    let entry = Sample.entry(7)
    let deliveries = [
      Sample.delivery(1, .file, task: 7), Sample.delivery(2, .body, task: 7), Sample.delivery(3, .completion, task: 7),
      Sample.delivery(4, .finishEvents, task: nil),
    ]
    let (store, state) = try reopened(
      [.putSession(session), .addTask(entry, Sample.details(key: "klé"))] + deliveries.map(StoreChange.addDelivery))
    #expect(state.sessions == [session])
    #expect(state.tasks == [entry])
    #expect(state.deliveries == deliveries)
    #expect(state.keys == [TaskKey(session: session.id, key: "klé", task: entry.id)])
    #expect(state.claims == [DestinationClaim(task: entry.id, path: "/home/a/Größe\n.iso")])
    #expect(state.lastTaskID == entry.id)
    #expect(state.lastSessionID == session.id)
    #expect(try store.details(entry.id) == Sample.details(key: "klé"))
    #expect(try store.details(TaskID(rawValue: 8)) == nil)
    #expect(
      try store.details([entry.id, TaskID(rawValue: 8)]) == [.details(Sample.details(key: "klé")), .missing])
  }

  @Test func everyOptionalAbsent() throws {
    let session = SessionRecord(id: SessionID(rawValue: 3), key: SessionKey(app: "", identifier: ""))
    let entry = TaskEntry(
      id: TaskID(rawValue: 1), session: session.id, number: 1, kind: .data, state: .suspended, origin: "")
    let details = TaskDetails(
      plan: TaskPlan(
        kind: .data, request: TransferRequest(url: ""), partPath: "", createdAt: WallInstant(milliseconds: .min)),
      progress: TaskProgress())
    let (store, state) = try reopened([
      .putSession(SessionRecord(id: session.id, key: session.key)), .addTask(entry, details),
    ])
    var expected = session
    expected.nextTaskNumber = 2  // Mended: number 1 is taken.
    #expect(state.sessions == [expected])
    #expect(state.tasks == [entry])
    #expect(try store.details(entry.id) == details)
  }

  static let states: [TaskState] =
    [.suspended, .waiting, .asking, .finalizing] + TaskState.Ending.allCases.map(TaskState.finished)

  @Test(arguments: states) func state(_ state: TaskState) throws {
    var entry = Sample.entry(1)
    entry.state = state
    let (_, loaded) = try reopened([.putSession(Sample.session(1)), .addTask(entry, Sample.details())])
    #expect(loaded.tasks == [entry])
  }

  @Test func runningComesBackWithoutItsAttempt() throws {
    var entry = Sample.entry(1)
    entry.state = .running(AttemptID(rawValue: 42))
    let (_, loaded) = try reopened([.putSession(Sample.session(1)), .addTask(entry, Sample.details())])
    #expect(loaded.tasks.map(\.state) == [.running(AttemptID(rawValue: 0))])
  }

  @Test(arguments: TaskKind.allCases) func kind(_ kind: TaskKind) throws {
    let entry = Sample.entry(1, kind: kind)
    let (store, loaded) = try reopened([.putSession(Sample.session(1)), .addTask(entry, Sample.details(kind: kind))])
    #expect(loaded.tasks == [entry])
    #expect(try store.details(entry.id)?.plan.kind == kind)
  }

  /// Details that differ in one enum each, so that every case of every enum is written once.
  static let tls = TLSSettings(
    minimum: .tls12, maximum: .tls13, authorityFile: "/ca: x", pinnedKeys: ["sha256//a", "sha256//b"],
    certificateFile: "/c", keyFile: "/k", keyPassword: Secret(""), asksAboutServers: true, asksForCertificate: true,
    pinnedDomains: [
      PinnedDomain(domain: "a.test", includesSubdomains: true, keys: ["sha256//a", "sha256//b"]),
      PinnedDomain(domain: "b.test", includesSubdomains: false, keys: []),
    ])
  static let shown = ShownServer(chain: ["AAAA", "BB=="], certificate: "sha256//c", key: "sha256//k", isVouched: true)

  static var questions: [Question] {
    Challenge.Method.allCases.map {
      .challenge(Challenge(method: $0, isProxy: true, origin: "http://h:1", realm: "a: \"b\"", previousFailures: 3))
    } + [
      .challenge(Challenge(method: .basic, origin: "")), .delayedRequest,
      .challenge(Challenge(method: .serverTrust, origin: "https://h:1", server: shown)),
      .freshRequest(status: 403, previousFailures: 2),
    ]
  }

  static var accesses: [TaskAccess] {
    let credential = TransferCredential(user: " ann ", password: Secret(""), method: .digest, origin: "http://h:1")
    let proxy = TransferCredential(user: "p", password: Secret("a: b"), origin: "http://p:2")
    let request = TransferRequest(
      method: "POST", url: "http://h/", headers: [("A", ""), ("A", "b: c"), ("Authorization", "Bearer x")],
      secretHeaderNames: ["A", ""])
    return [
      TaskAccess(), TaskAccess(credential: credential, proxyCredential: proxy), TaskAccess(declines: true, failures: 4),
      TaskAccess(replacement: request, tls: tls), TaskAccess(replacement: TransferRequest(url: "http://h/")),
      TaskAccess(
        accepted: [true, false].map {
          AcceptedCertificate(origin: "https://h:1", certificate: "sha256//c", key: "sha256//k", mustBeVouched: $0)
        },
        identities: [
          PlacedIdentity(
            origin: "https://h:1",
            identity: ClientIdentity(certificateFile: "/c: x", keyFile: "/k", keyPassword: Secret("a: b"))),
          PlacedIdentity(origin: "https://h:2", identity: nil),
          PlacedIdentity(origin: "https://h:3", identity: ClientIdentity(certificateFile: "/c.p12")),
        ]),
    ]
  }

  static var variants: [TaskDetails] {
    var all: [TaskDetails] = []
    func vary(_ change: (inout TaskDetails) -> Void) {
      var details = Sample.details()
      change(&details)
      all.append(details)
    }
    for code in FailureCode.allCases { vary { $0.progress.failure?.code = code } }
    for retryability in [Retryability.transient, .permanent] {
      vary { $0.progress.failure?.retryability = retryability }
    }
    for cause in [CancelCause.requested, .sessionInvalidated, .forceQuit] { vary { $0.progress.cancelCause = cause } }
    for pin in PinKind.allCases { vary { $0.plan.source?.pin = pin } }
    for rule in StatusRule.allCases { vary { $0.plan.statusRule = rule } }
    for rule in CollisionRule.allCases { vary { $0.plan.destination = .file(path: "/p", collision: rule) } }
    vary { $0.plan.destination = .managed }
    vary { $0.progress.resumePoint?.validator = .lastModified("Sun, 06 Nov 1994 08:49:37 GMT") }
    vary { $0.progress.resumePoint?.total = nil }
    vary { $0.progress.failure?.retryAfterSeconds = nil }
    vary { $0.progress.response?.headers = [] }
    vary { $0.plan.request.secretHeaderNames = [""] }
    for question in questions { vary { $0.progress.question = question } }
    for access in accesses { vary { $0.progress.access = access } }
    vary {
      $0.plan.answersChallenges = false
      $0.plan.asksBeforeBegin = true
      $0.plan.tls = tls
    }
    return all
  }

  @Test func everyEnumCase() throws {
    var changes: [StoreChange] = [.putSession(Sample.session(1))]
    for (index, details) in Self.variants.enumerated() {
      changes.append(.addTask(Sample.entry(Int64(index + 1)), details))
    }
    let (store, state) = try reopened(changes)
    #expect(try store.details(state.tasks.map(\.id)) == Self.variants.map(DetailsReading.details))
  }

  @Test func finishedAndManagedTasksClaimNothing() throws {
    var finished = Sample.entry(1)
    finished.state = .finished(.succeeded)
    var managed = Sample.details()
    managed.plan.destination = .managed
    let (_, state) = try reopened([
      .putSession(Sample.session(1)), .addTask(finished, Sample.details()), .addTask(Sample.entry(2), managed),
      .addTask(Sample.entry(3), Sample.details()),
    ])
    #expect(state.claims.map(\.task.rawValue) == [3])
  }

  @Test func updates() throws {
    var session = Sample.session(1)
    var entry = Sample.entry(1)
    var details = Sample.details(key: "k")
    let store = try TransferStore(path: folder.database)
    try store.apply([.putSession(session), .addTask(entry, details)])
    entry.state = .finished(.failed)
    entry.priority = 0
    entry.isDiscretionary = false
    entry.isRepeatable = true
    entry.origin = "http://[::1]:80"
    entry.deadline = nil
    entry.expected = nil
    entry.notBefore = nil
    entry.received = 77
    session.network = NetworkSettings()
    session.owesFinishEvents = false
    details.progress = TaskProgress(wasted: 5)
    let (next, state) = try reopened([.updateTask(entry, progress: details.progress), .putSession(session)])
    #expect(state.tasks == [entry])
    #expect(state.sessions == [session])
    #expect(try next.details(entry.id) == details)
    entry.attempts = 15
    try next.apply([.updateTask(entry, progress: nil)])
    #expect(try next.load().tasks == [entry])
    #expect(try next.details(entry.id) == details)
  }

  @Test func removals() throws {
    let changes: [StoreChange] = [
      .putSession(Sample.session(1)), .putSession(Sample.session(2)),
      .addTask(Sample.entry(1), Sample.details(key: "k")), .addTask(Sample.entry(2), Sample.details()),
      .addDelivery(Sample.delivery(1, .file, task: 1)), .addDelivery(Sample.delivery(2, .completion, task: 1)),
      .addDelivery(Sample.delivery(3, .completion, task: 2)),
      .addDelivery(Sample.delivery(4, .finishEvents, task: nil)),
      .addDelivery(Sample.delivery(1, .finishEvents, task: nil, session: 2)),
      .removeTask(TaskID(rawValue: 1)), .removeSession(SessionID(rawValue: 2)),
      .removeDelivery(SessionID(rawValue: 1), DeliveryNumber(rawValue: 4)),
      // What is not there is not missed: a removal may be repeated.
      .removeTask(TaskID(rawValue: 1)), .removeSession(SessionID(rawValue: 9)),
    ]
    let (store, state) = try reopened(changes)
    #expect(state.sessions.map(\.id.rawValue) == [1])
    #expect(state.tasks.map(\.id.rawValue) == [2])
    #expect(state.deliveries == [Sample.delivery(3, .completion, task: 2)])
    #expect(state.keys.isEmpty)
    #expect(try store.details(TaskID(rawValue: 1)) == nil)
    #expect(try folder.count("task_plan") == 1)
    #expect(try folder.count("task_progress") == 1)
  }
}
