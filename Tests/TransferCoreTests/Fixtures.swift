@testable import TransferCore

/// A core with a clock that the test moves, and with the answers of a shell that nothing surprises.
struct Bench {
  var core: Core
  var boot: Int64 = 1_000_000_000
  var wall: Int64 = 1_700_000_000_000
  var random = RandomWords(seed: 1)
  var sequence: Int64 = 0
  /// All effects since the last ``take()``.
  var effects: [Effect] = []

  static let peer = PeerID(rawValue: 1)
  static let configuration = Core.Configuration(managedFolder: "/state/Downloads", bootID: "boot-1")

  init(_ core: Core = Core(Bench.configuration)) { self.core = core }

  var now: ClockReading {
    ClockReading(
      boot: BootInstant(nanoseconds: boot), wall: WallInstant(milliseconds: wall), randomWord: UInt64(bitPattern: boot))
  }

  mutating func advance(_ duration: Duration) {
    boot = boot.addingClamped(duration.nanosecondsClamped)
    wall = wall.addingClamped(duration.millisecondsClamped)
  }

  /// One event and the admission that ends its tick; the changes stay for ``Core/takeChanges()``.
  @discardableResult
  mutating func handle(_ event: Event) -> [Effect] {
    let new = core.handle(event, at: now) + core.admit(at: now)
    effects += new
    return new
  }

  @discardableResult
  mutating func admit() -> [Effect] {
    let new = core.admit(at: now)
    effects += new
    return new
  }

  mutating func take() -> [Effect] {
    defer { effects.removeAll() }
    return effects
  }

  @discardableResult
  mutating func command(_ command: Command, peer: PeerID = Bench.peer) -> Reply? {
    sequence += 1
    let token = RequestToken(peer: peer, sequence: sequence)
    return handle(.commanded(command, token)).reply(token)
  }

  mutating func open(
    _ identifier: String = "s", attach: Bool = true, collects: Bool = true, limit: Int = 6, peer: PeerID = Bench.peer
  ) -> SessionID {
    let network = NetworkSettings(maximumConnectionsPerHost: limit)
    let reply = command(
      .openSession(
        SessionKey(app: "app", identifier: identifier), attach: attach, collectsResults: collects, network: network),
      peer: peer)
    if case .sessionOpened(let id, _, _)? = reply { return id }
    return SessionID(rawValue: -1)
  }

  /// Enqueues one task that needs no look at files; nil when it was refused.
  mutating func add(_ draft: TaskDraft, to session: SessionID) -> TaskID? {
    command(.enqueue(session, [draft]))?.accepted.first
  }

  /// Enqueues one task whose source is pinned at once.
  mutating func addUpload(_ draft: TaskDraft, to session: SessionID) -> TaskID? {
    sequence += 1
    let token = RequestToken(peer: Self.peer, sequence: sequence)
    for case .prepare(_, let orders) in handle(.commanded(.enqueue(session, [draft]), token)) {
      let outcome = PreparedTask.Outcome.ready(source: .pinned(), destination: draft.destination)
      return handle(.prepared(token, orders.map { PreparedTask(task: $0.task, outcome: outcome) }))
        .reply(token)?.accepted.first
    }
    return nil
  }

  func entry(_ id: TaskID?) -> TaskEntry? { id.flatMap { core.tasks[$0]?.entry } }
  func state(_ id: TaskID?) -> TaskState? { entry(id)?.state }
  func attempt(_ id: TaskID?) -> AttemptID { state(id)?.attempt ?? AttemptID(rawValue: -1) }

  /// Opens the files of a running task.
  @discardableResult
  mutating func openFiles(_ id: TaskID?, held: Int64? = 0, free: Int64? = nil) -> AttemptOrder? {
    let order = handle(.filesOpened(attempt(id), OpenedFiles(partBytes: held, freeBytes: free))).order
    if let order { core.began(order.attempt) }
    return order
  }

  mutating func respond(_ id: TaskID?, _ head: ResponseHead, _ verdict: ResponseVerdict) {
    handle(.responded(attempt(id), head, verdict))
  }

  mutating func fail(
    _ id: TaskID?, _ code: FailureCode = .connectionLost, _ retryability: Retryability = .transient, sent: Bool = true
  ) {
    handle(.ended(attempt(id), .failed(TransferFailure(code, retryability, detail: "It broke.")), requestWasSent: sent))
  }
}

extension [Effect] {
  func reply(_ token: RequestToken) -> Reply? {
    for case .reply(let to, let reply) in self where to == token { return reply }
    return nil
  }

  var order: AttemptOrder? {
    for case .begin(let order, _) in self { return order }
    return nil
  }

  var offers: [DeliveryRecord] { compactMap { if case .offer(_, let record) = $0 { record } else { nil } } }
  var finalizing: FinalizeOrder? {
    for case .finalize(let order) in self { return order }
    return nil
  }
}

extension Reply {
  var accepted: [TaskID] {
    guard case .enqueued(let outcomes) = self else { return [] }
    return outcomes.compactMap { if case .accepted(let id, _, _, _) = $0 { id } else { nil } }
  }
}

extension TaskDraft {
  static func download(_ url: String = "http://host.test/file", method: String = "GET") -> TaskDraft {
    TaskDraft(
      kind: .download, request: TransferRequest(method: method, url: url),
      origin: Origin(url: url)?.description ?? url)
  }

  static func upload(method: String = "PUT", url: String = "http://host.test/up") -> TaskDraft {
    var draft = download(url, method: method)
    draft.kind = .upload
    draft.sourcePath = "/home/source"
    return draft
  }

  static func data(_ url: String = "http://host.test/data") -> TaskDraft {
    var draft = download(url)
    draft.kind = .data
    return draft
  }

  func with(_ change: (inout TaskDraft) -> Void) -> TaskDraft {
    var copy = self
    change(&copy)
    return copy
  }
}

extension ResponseHead {
  static func ok(length: Int64? = 100, etag: String? = "\"v1\"", status: Int = 200) -> ResponseHead {
    var headers: HeaderFields = []
    if let length { headers.set("Content-Length", to: "\(length)") }
    if let etag { headers.set("ETag", to: etag) }
    return ResponseHead(status: status, headers: headers, url: "http://host.test/file")
  }

  static func part(_ first: Int64, of total: Int64 = 100, etag: String? = "\"v1\"") -> ResponseHead {
    var head = ok(length: total - first, etag: etag, status: 206)
    head.headers.set("Content-Range", to: "bytes \(first)-\(total - 1)/\(total)")
    return head
  }
}

extension UploadSource {
  static func pinned(_ bytes: Int64 = 50) -> UploadSource {
    UploadSource(
      path: "/home/source", pinnedPath: "/state/pins/1", pin: .reflink,
      identity: FileIdentity(device: 1, inode: 2, sizeBytes: bytes, modifiedNanoseconds: 3))
  }
}

/// A store as a dictionary: applies changes as the real one does, its constraints included.
struct ModelStore {
  var sessions: [SessionID: SessionRecord] = [:]
  var entries: [TaskID: TaskEntry] = [:]
  var details: [TaskID: TaskDetails] = [:]
  var deliveries: [DeliveryKey: DeliveryRecord] = [:]
  var apps: [String: AppRecord] = [:]
  var launches: [LaunchRecord] = []
  var keptParts: [ResumeToken: KeptPart] = [:]
  var keptOrder: [ResumeToken] = []
  var lastTask = TaskID(rawValue: 0)
  var lastSession = SessionID(rawValue: 0)

  struct DeliveryKey: Hashable {
    var session: SessionID
    var number: DeliveryNumber
  }

  /// What the real store would refuse, in words; empty when it would commit.
  mutating func apply(_ changes: [StoreChange]) -> [String] { changes.compactMap { apply($0) } }

  private mutating func apply(_ change: StoreChange) -> String? {
    switch change {
    case .putSession(let record):
      let hasTwin = sessions.values.contains {
        $0.id != record.id && $0.key == record.key && !$0.isInvalidated && !record.isInvalidated
      }
      if hasTwin { return "two sessions have the key \(record.key)" }
      sessions[record.id] = record
      lastSession = max(lastSession, record.id)
    case .removeSession(let id):
      if entries.values.contains(where: { $0.session == id }) { return "session \(id) still has tasks" }
      sessions[id] = nil
      deliveries = deliveries.filter { $0.key.session != id }
    case .addTask(let entry, let added):
      if entries[entry.id] != nil { return "task \(entry.id) is added twice" }
      if sessions[entry.session] == nil { return "task \(entry.id) is added to no session" }
      if entries.values.contains(where: { $0.session == entry.session && $0.number == entry.number }) {
        return "number \(entry.number) of session \(entry.session) is taken"
      }
      if let key = added.plan.key,
        entries.values.contains(where: { $0.session == entry.session && details[$0.id]?.plan.key == key })
      {
        return "key \(key) is taken"
      }
      entries[entry.id] = entry
      details[entry.id] = added
      lastTask = max(lastTask, entry.id)
    case .updateTask(let entry, let progress):
      guard entries[entry.id] != nil else { return "task \(entry.id) is updated and not there" }
      entries[entry.id] = entry
      if let progress { details[entry.id]?.progress = progress }
    case .removeTask(let id):
      entries[id] = nil
      details[id] = nil
      deliveries = deliveries.filter { $0.value.task != id }
    case .forgetSecrets(let id, let plan): details[id]?.plan = plan
    case .addDelivery(let record):
      if sessions[record.session] == nil { return "result \(record.number) is of no session" }
      if let task = record.task, entries[task] == nil { return "result \(record.number) is of no task" }
      let key = DeliveryKey(session: record.session, number: record.number)
      if deliveries.updateValue(record, forKey: key) != nil { return "result \(record.number) is added twice" }
    case .removeDelivery(let session, let number):
      deliveries[DeliveryKey(session: session, number: number)] = nil
    case .addKeptPart(let part):
      if keptParts.updateValue(part, forKey: part.token) != nil { return "part \(part.token) is added twice" }
      keptOrder.append(part.token)
    case .removeKeptPart(let token):
      keptParts[token] = nil
      keptOrder.removeAll { $0 == token }
    case .app(let change): return apply(change)
    }
    return nil
  }

  private mutating func apply(_ change: AppChange) -> String? {
    switch change {
    case .put(let record): apps[record.registration.id] = record
    case .remove(let id):
      apps[id] = nil
      launches.removeAll { $0.app == id }
    case .putLaunch(let launch):
      if apps[launch.app] == nil { return "launch \(launch.number) is of no app" }
      launches.removeAll { $0.app == launch.app && $0.number == launch.number }
      launches.append(launch)
    case .removeLaunch(let app, let number): launches.removeAll { $0.app == app && $0.number == number }
    }
    return nil
  }

  /// What a starting daemon would read.
  var state: StoredState {
    let tasks = entries.values.sorted { $0.id < $1.id }
    var keys: [TaskKey] = []
    var claims: [DestinationClaim] = []
    for entry in tasks {
      guard let plan = details[entry.id]?.plan else { continue }
      if let key = plan.key { keys.append(TaskKey(session: entry.session, key: key, task: entry.id)) }
      if !entry.state.isFinished, case .file(let path, _) = plan.destination {
        claims.append(DestinationClaim(task: entry.id, path: path))
      }
    }
    return StoredState(
      sessions: sessions.values.sorted { $0.id < $1.id },
      tasks: tasks.map { entry in
        var entry = entry
        if entry.state.attempt != nil { entry.state = .running(AttemptID(rawValue: 0)) }
        return entry
      },
      deliveries: deliveries.values.sorted { ($0.session, $0.number) < ($1.session, $1.number) }, keys: keys,
      claims: claims, apps: apps.values.sorted { $0.registration.id < $1.registration.id },
      launches: launches.sorted { ($0.app, $0.number) < ($1.app, $1.number) },
      keptParts: keptOrder.compactMap { keptParts[$0] },
      adoptions: tasks.compactMap { entry in
        details[entry.id]?.plan.partOwner.map { PartAdoption(task: entry.id, owner: $0) }
      }, lastTaskID: lastTask, lastSessionID: lastSession)
  }
}
