import Glibc
import Testing
import TransferCore

@testable import TransferStore

/// Whole transactions or nothing; ids for ever; keys once.
@Suite struct TransactionTests {
  let folder: TemporaryFolder
  let store: TransferStore

  init() throws {
    folder = try TemporaryFolder()
    store = try TransferStore(path: folder.database)
    try store.apply([.putSession(Sample.session(1)), .addTask(Sample.entry(1), Sample.details(key: "one"))])
  }

  /// A change of each kind, applied together.
  static var everyChange: [StoreChange] {
    var entry = Sample.entry(1)
    entry.state = .finished(.succeeded)
    return [
      .putSession(Sample.session(2)), .addTask(Sample.entry(2), Sample.details(key: "two")),
      .updateTask(entry, progress: TaskProgress()), .addDelivery(Sample.delivery(1, .completion, task: 1)),
      .removeDelivery(SessionID(rawValue: 1), DeliveryNumber(rawValue: 1)), .removeTask(TaskID(rawValue: 1)),
      .removeSession(SessionID(rawValue: 2)),
    ]
  }

  @Test func nothingOfAnUndoneTransaction() throws {
    let before = try store.load()
    store.beforeCommit = { () throws(StoreError) in throw StoreError(.ioError, message: "injected") }
    #expect(try storeError { () throws(StoreError) in try store.apply(Self.everyChange) }.message == "injected")
    #expect(try store.load() == before)
    #expect(try store.details(TaskID(rawValue: 1)) == Sample.details(key: "one"))
    #expect(store.statistics.commits == 1)
    store.beforeCommit = nil
    try store.apply(Self.everyChange)
    #expect(try store.load().tasks.map(\.id.rawValue) == [2])
    #expect(store.statistics.commits == 2)
  }

  /// Each refused change, as the last of a transaction that is fine up to there.
  static let refusals: [(String, StoreChange, StoreError.Kind)] = {
    func entry(_ change: (inout TaskEntry) -> Void) -> StoreChange {
      var entry = Sample.entry(9)
      change(&entry)
      return .addTask(entry, Sample.details())
    }
    func details(_ change: (inout TaskDetails) -> Void) -> StoreChange {
      var details = Sample.details()
      change(&details)
      return .addTask(Sample.entry(9), details)
    }
    var session = Sample.session(3)
    session.network.maximumConnectionsPerHost = 0
    return [
      ("key twice", .addTask(Sample.entry(9), Sample.details(key: "one")), .constraint),
      ("number twice", entry { $0.number = 1 }, .constraint),
      ("id twice", entry { $0.id = TaskID(rawValue: 1) }, .constraint),
      ("no session", entry { $0.session = SessionID(rawValue: 77) }, .constraint),
      ("session with tasks", .removeSession(SessionID(rawValue: 1)), .constraint),
      ("delivery of no task", .addDelivery(Sample.delivery(1, .file, task: 99)), .constraint),
      ("delivery without task", .addDelivery(Sample.delivery(1, .file, task: nil)), .invalidValue),
      ("update of no task", .updateTask(Sample.entry(9), progress: nil), .missingRow),
      ("update with another kind", .updateTask(Sample.entry(1, kind: .data), progress: nil), .missingRow),
      ("id 0", entry { $0.id = TaskID(rawValue: 0) }, .invalidValue),
      ("negative count", entry { $0.received = -1 }, .invalidValue),
      ("negative total", details { $0.progress.resumePoint?.total = -1 }, .invalidValue),
      ("kinds differ", details { $0.plan.kind = .data }, .invalidValue),
      ("line end in header", details { $0.plan.request.headers = [("A", "b\nC: d")] }, .invalidValue),
      ("CR in header", details { $0.progress.response?.headers = [("A", "b\r")] }, .invalidValue),
      ("NUL in header", details { $0.plan.request.headers = [("A", "b\u{0}")] }, .invalidValue),
      ("colon in name", details { $0.plan.request.headers = [("A:", "b")] }, .invalidValue),
      ("empty name", details { $0.plan.request.headers = [("", "b")] }, .invalidValue),
      ("line end in secret name", details { $0.plan.request.secretHeaderNames = ["a\n"] }, .invalidValue),
      ("no connections", .putSession(session), .invalidValue),
    ]
  }()

  @Test(arguments: refusals.indices) func refused(_ index: Int) throws {
    let (name, change, kind) = Self.refusals[index]
    let before = try store.load()
    let error = try storeError { () throws(StoreError) in
      try store.apply([.putSession(Sample.session(2)), change])
    }
    #expect(error.kind == kind, "\(name): \(error)")
    #expect(!error.description.contains("example.org"), "values do not appear in messages")
    #expect(try store.load() == before)
    // The statements are fit for their next use.
    try store.apply([.addTask(Sample.entry(2), Sample.details())])
    #expect(try store.details(TaskID(rawValue: 2)) == Sample.details())
  }

  @Test func aKeyIsFreeInAnotherSessionAndAfterItsTask() throws {
    try store.apply([
      .putSession(Sample.session(2)), .addTask(Sample.entry(2, session: 2), Sample.details(key: "one")),
      .removeTask(TaskID(rawValue: 1)), .addTask(Sample.entry(3), Sample.details(key: "one")),
    ])
    #expect(try store.load().keys.map(\.task.rawValue) == [2, 3])
  }

  /// In one transaction the successor may come before the removal, as the core orders them.
  @Test func keysAndNamesChangeHandsWithinATransaction() throws {
    try store.apply([.addTask(Sample.entry(2), Sample.details(key: "one")), .removeTask(TaskID(rawValue: 1))])
    #expect(try store.load().keys.map(\.task.rawValue) == [2])
    try store.apply([.putSession(Sample.session(8))])
    var successor = Sample.session(9)
    successor.key = Sample.session(8).key
    try store.apply([.putSession(successor), .removeSession(SessionID(rawValue: 8))])
    #expect(try store.load().sessions.map(\.id.rawValue) == [1, 9])
  }

  @Test func idsAreNeverUsedAgain() throws {
    try store.apply([.putSession(Sample.session(5)), .addTask(Sample.entry(30), Sample.details())])
    try store.apply([.removeTask(TaskID(rawValue: 30)), .removeTask(TaskID(rawValue: 1))])
    try store.apply([.removeSession(SessionID(rawValue: 5)), .removeSession(SessionID(rawValue: 1))])
    store.close()
    let state = try TransferStore(path: folder.database).load()
    #expect(state == StoredState(lastTaskID: TaskID(rawValue: 30), lastSessionID: SessionID(rawValue: 5)))
  }

  @Test func anInvalidatedSessionLivesBesideItsSuccessor() throws {
    var old = Sample.session(2)
    old.isInvalidated = true
    var new = Sample.session(3)
    new.key = old.key
    try store.apply([.putSession(old), .putSession(new)])
    old.isInvalidated = false
    #expect(try storeError { () throws(StoreError) in try store.apply([.putSession(old)]) }.kind == .constraint)
  }

  @Test func closedStoreSaysSo() throws {
    store.close()
    store.close()
    #expect(try storeError { () throws(StoreError) in _ = try store.load() }.kind == .misuse)
    #expect(try storeError { () throws(StoreError) in try store.apply(Self.everyChange) }.kind == .misuse)
  }

  @Test func othersWaitTheirTurn() throws {
    let other = try Connection(path: folder.database)
    try other.execute("BEGIN IMMEDIATE")
    try store.database?.connection.execute("PRAGMA busy_timeout = 1")
    let error = try storeError { () throws(StoreError) in try store.apply(Self.everyChange) }
    #expect(error.kind == .busy)
    #expect(error.code.primary == .busy)
    try other.execute("COMMIT")
    try store.apply(Self.everyChange)
  }

  @Test func filesArePrivate() throws {
    try store.apply([.putSession(Sample.session(4))])
    for name in folder.names {
      #expect(folder.mode(name) == 0o600, "\(name)")
    }
    store.close()
    folder.open("state.sqlite")
    #expect(folder.mode("state.sqlite") == 0o644)
    _ = try TransferStore(path: folder.database)
    #expect(folder.mode("state.sqlite") == 0o600)
  }

  @Test func removedRowsGiveTheirSpaceBack() throws {
    let ids = Int64(2)...4000
    try store.apply(ids.map { .addTask(Sample.entry($0), Sample.details()) })
    try store.checkpoint()
    let large = folder.size("state.sqlite")
    for id in ids { try store.apply([.removeTask(TaskID(rawValue: id))]) }
    #expect(folder.size("state.sqlite-wal") < 32 << 20, "the log is bounded by checkpoints of its own")
    for _ in 0..<8 { #expect(try store.checkpoint()) }
    #expect(folder.size("state.sqlite-wal") == 0)
    #expect(folder.size("state.sqlite") < large / 2)
    #expect(try store.load().tasks == [Sample.entry(1)])
  }

  @Test func fullDiskIsAStateThatPasses() throws {
    let before = try store.load()
    let connection = try #require(store.database?.connection)
    let pages = try #require(try connection.integer("PRAGMA page_count"))
    try connection.execute("PRAGMA max_page_count = \(pages)")
    let many = (Int64(2)...500).map { StoreChange.addTask(Sample.entry($0), Sample.details()) }
    for _ in 0..<3 {
      let error = try storeError { () throws(StoreError) in try store.apply(many) }
      #expect(error.kind == .full)
      #expect(error.code.primary == .full)
      #expect(try store.load() == before)
    }
    try connection.execute("PRAGMA max_page_count = 1000000")
    try store.apply(many)
    #expect(try store.load().tasks.count == 500)
  }

  /// A real limit of the system: the log may not grow beyond it.
  @Test func fileSizeLimitIsFull() async throws {
    await #expect(processExitsWith: .success) {
      let folder = try TemporaryFolder()
      let store = try TransferStore(path: folder.database)
      try store.apply([.putSession(Sample.session(1))])
      let many = (Int64(2)...2000).map { StoreChange.addTask(Sample.entry($0), Sample.details()) }
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 400_000, rlim_max: rlim_t.max)
      guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { exit(2) }
      let error = try storeError { () throws(StoreError) in try store.apply(many) }
      guard error.kind == .full else { exit(100 + error.code.rawValue & 0xff) }
      limit.rlim_cur = limit.rlim_max
      guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { exit(4) }
      guard try store.load().tasks.isEmpty else { exit(5) }
      try store.apply(many)
      guard try store.load().tasks.count == many.count else { exit(6) }
    }
  }
}
