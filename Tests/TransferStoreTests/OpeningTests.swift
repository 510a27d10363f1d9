import Glibc
import Testing
import TransferCore

@testable import TransferStore

/// What is found at the path: nothing, an older version, a newer one, another program's, a wreck.
@Suite struct OpeningTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  func fill() throws {
    let store = try TransferStore(path: folder.database)
    try store.apply([
      .putSession(Sample.session(1)), .addTask(Sample.entry(41), Sample.details(key: "k")),
      .addDelivery(Sample.delivery(1, .file, task: 41)),
    ])
    store.close()
  }

  @Test func newDatabase() throws {
    let store = try TransferStore(path: folder.database)
    #expect(try store.load() == StoredState())
    #expect(store.recovered == nil)
    let connection = try #require(store.database?.connection)
    #expect(try connection.text("PRAGMA journal_mode") == "wal")
    #expect(try connection.integer("PRAGMA synchronous") == 2)
    #expect(try connection.integer("PRAGMA foreign_keys") == 1)
    #expect(try connection.integer("PRAGMA application_id") == Schema.applicationID)
    #expect(try connection.integer("PRAGMA user_version") == Migration.all.last?.version)
    #expect(try connection.text("PRAGMA integrity_check") == "ok")
  }

  @Test func stepsHaveNoGaps() {
    #expect(Migration.all.map(\.version) == (1...Int64(Migration.all.count)).map { $0 })
  }

  /// Databases of every released version still open, with all that was in them.
  @Test(arguments: Migration.all.map(\.version)) func everyVersionUpgrades(_ version: Int64) throws {
    try DatabaseFiles.prepare(folder.database)
    let old = try Connection(path: folder.database)
    try OpenDatabase.configure(old, Migration.all.filter { $0.version <= version })
    old.close()
    try folder.tamper(
      """
      INSERT INTO session (id, app, identifier, no_proxy, connections_per_host, collects_results, is_invalidated,
      next_task_number, next_delivery, owes_finish_events) VALUES (1, 'a', 's', '', 6, 1, 0, 2, 1, 0)
      """,
      """
      INSERT INTO task (id, session, number, kind, state, origin, is_repeatable, priority, is_discretionary, received,
      sent, attempts, failures, deadline_ms, key)
      VALUES (5, 1, 1, 'download', 'waiting', 'http://h:80', 1, 128, 0, 0, 0, 0, 0, 9, 'k')
      """,
      """
      INSERT INTO task_plan (task, method, url, headers, secret_header_names, destination, part_path, status_rule,
      keeps_encoding, request_timeout_ms, resource_timeout_ms, created_at_ms)
      VALUES (5, 'GET', 'http://h/', 'A: b' || char(10), '', 'managed', '/p', 'any', 0, 1000, 2000, 3)
      """,
      "INSERT INTO task_progress (task, boot_id, is_length_verified, wasted, restarts) VALUES (5, '', 1, 0, 0)",
      "INSERT INTO delivery (session, number, kind, task, queued_at_ms) VALUES (1, 1, 'file', 5, 6)")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.quarantined.isEmpty)
    #expect(
      state.tasks == [
        TaskEntry(
          id: TaskID(rawValue: 5), session: SessionID(rawValue: 1), number: 1, kind: .download, state: .waiting,
          origin: "http://h:80", deadline: WallInstant(milliseconds: 9))
      ])
    #expect(state.keys.map(\.key) == ["k"])
    #expect(state.lastTaskID.rawValue == 5)
    // The counter of deliveries stood at 1, which is taken.
    #expect(state.sessions.map(\.nextDelivery) == [2])
    #expect(
      try store.details(TaskID(rawValue: 5))
        == TaskDetails(
          plan: TaskPlan(
            kind: .download, request: TransferRequest(url: "http://h/", headers: [("A", "b")]), partPath: "/p",
            statusRule: .any, requestTimeout: .seconds(1), resourceTimeout: .seconds(2), key: "k",
            createdAt: WallInstant(milliseconds: 3)), progress: TaskProgress()))
  }

  @Test func aStepIsWholeOrNot() throws {
    try fill()
    let next = (Migration.all.last?.version ?? 0) + 1
    let broken =
      Migration.all + [
        Migration(
          version: next, statements: ["ALTER TABLE task ADD COLUMN mood TEXT", "CREATE TABLE task (id INTEGER)"])
      ]
    let error = try storeError { () throws(StoreError) in
      _ = try TransferStore(path: folder.database, migrations: broken)
    }
    #expect(error.code.primary == .error)
    let state = try TransferStore(path: folder.database).load()
    #expect(state.tasks == [Sample.entry(41)])
    let whole = Migration.all + [Migration(version: next, statements: ["ALTER TABLE task ADD COLUMN mood TEXT"])]
    #expect(try TransferStore(path: folder.database, migrations: whole).load() == state)
  }

  @Test func aNewerVersionIsRefused() throws {
    try fill()
    try folder.tamper("PRAGMA user_version = 99")
    let before = try folder.read("state.sqlite")
    let error = try storeError { () throws(StoreError) in _ = try TransferStore(path: folder.database) }
    #expect(error.kind == .newerDatabase)
    for part in ["version 99", "up to \(Migration.all.count)", "at least as new", folder.database] {
      #expect(error.message.contains(part))
    }
    #expect(try folder.read("state.sqlite") == before)
  }

  @Test(arguments: ["PRAGMA application_id = 1196444487", "CREATE TABLE theirs (x)"])
  func anotherProgramsDatabaseIsRefused(_ statement: String) throws {
    try folder.tamper(statement)
    let before = try folder.read("state.sqlite")
    let error = try storeError { () throws(StoreError) in _ = try TransferStore(path: folder.database) }
    #expect(error.kind == .foreignDatabase)
    #expect(error.message.contains("another program"))
    #expect(try folder.read("state.sqlite") == before)
  }

  @Test func missingFolderAndFolderInPlaceOfTheFile() throws {
    let missing = try storeError { () throws(StoreError) in _ = try TransferStore(path: folder.path + "/no/x") }
    #expect(missing.kind == .cannotOpen)
    #expect(missing.message.contains("No such file"))
    let directory = try storeError { () throws(StoreError) in _ = try TransferStore(path: folder.path) }
    #expect(directory.kind == .cannotOpen)
    #expect(directory.message.contains("not a file"))
  }

  // MARK: Damage

  /// Opens the wreck, checks the report, and that the new database works and counts on.
  func recover(tasks: [Int64] = [], lastTask: (Int64) -> Bool) throws {
    let damaged = try folder.read("state.sqlite")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.tasks.map(\.id.rawValue) == tasks)
    #expect(lastTask(state.lastTaskID.rawValue), "\(state.lastTaskID)")
    let note = try #require(store.recovered)
    #expect(note.setAsidePath.hasPrefix(folder.database + ".corrupt-"))
    #expect(!note.reason.isEmpty)
    #expect(note.rescuedRows >= tasks.count)
    #expect(!folder.names.contains { $0.contains("rebuilding") })
    let name = try #require(note.setAsidePath.split(separator: "/").last.map(String.init))
    #expect(try folder.read(name) == damaged)
    let next = state.lastTaskID.rawValue + 1
    try store.apply([
      .putSession(Sample.session(next, app: "next")), .addTask(Sample.entry(next, session: next), Sample.details()),
    ])
    store.close()
    let again = try TransferStore(path: folder.database)
    #expect(again.recovered == nil)
    #expect(try again.load().tasks.map(\.id.rawValue) == tasks + [next])
  }

  @Test func garbageInPlaceOfTheDatabase() throws {
    try folder.write("state.sqlite", Array(repeating: UInt8(ascii: "x"), count: 10_000))
    try recover { $0 > 1_700_000_000 }
  }

  @Test func overwrittenHeader() throws {
    try fill()
    var bytes = try folder.read("state.sqlite")
    for index in 0..<100 { bytes[index] = 0xFF }
    try folder.write("state.sqlite", bytes)
    try recover { $0 > 1_700_000_000 }
  }

  /// Each page of a database in turn is overwritten: what stands on it is lost, the rest is there, and nothing traps.
  @Test func everyPageDestroyed() throws {
    let count: Int64 = 60
    let store = try TransferStore(path: folder.database)
    try store.apply(
      [.putSession(Sample.session(1)), .putSession(Sample.session(2))]
        + (1...count).flatMap { id in
          [
            .addTask(Sample.entry(id, session: id % 2 + 1), Sample.details(key: "k\(id)")),
            .addDelivery(Sample.delivery(id, .completion, task: id, session: id % 2 + 1)),
          ]
        })
    store.close()
    let bytes = try folder.read("state.sqlite")
    let pages = bytes.count / 4096
    var outcomes: [String: Int] = [:]
    for page in 0..<pages {
      let place = try TemporaryFolder()
      var damaged = bytes
      for index in (page * 4096)..<((page + 1) * 4096) { damaged[index] = 0xA5 }
      try place.write("state.sqlite", damaged)
      let store = try TransferStore(path: place.database)
      var state = try store.load()
      var note = store.recovered
      if note == nil {
        do throws(StoreError) {
          _ = try store.details(state.tasks.map(\.id))
          try store.apply(state.tasks.map { .updateTask($0, progress: TaskProgress()) })
          try store.apply(state.tasks.map { .removeTask($0.id) })
          outcomes["not needed", default: 0] += 1
          continue
        } catch {
          #expect(error.kind == .corrupt, "\(error)")
        }
        try store.rebuild(because: "details or writing")
        note = store.recovered
        state = try store.load()
      }
      let whole = try store.details(state.tasks.map(\.id)).filter { $0 != .missing && !$0.isUnreadable }.count
      outcomes[
        state.tasks.isEmpty
          ? "all lost" : whole == count ? "all rescued" : whole == 0 ? "entries rescued" : "some rescued",
        default: 0] += 1
      #expect(try #require(note).rescuedRows > 0 || state.tasks.isEmpty)
      #expect(state.lastTaskID.rawValue == count || state.lastTaskID.rawValue > 1_700_000_000)
      #expect(state.tasks.allSatisfy { $0 == Sample.entry($0.id.rawValue, session: $0.id.rawValue % 2 + 1) })
      // What is left works.
      for id in state.tasks.map(\.id) {
        if case .unreadable(let row) = try store.details([id])[0] { try store.quarantine(row) }
      }
      let rest = try store.load()
      #expect(rest.quarantined.isEmpty && rest.tasks.count == whole)
      try store.apply(rest.tasks.map { .updateTask($0, progress: TaskProgress()) })
      try store.apply(rest.tasks.map { .removeTask($0.id) })
      #expect(try Connection(path: place.database).text("PRAGMA integrity_check") == "ok")
    }
    print("every page destroyed, \(pages): \(outcomes.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" })")
    #expect(Set(outcomes.keys).isSuperset(of: ["all lost", "all rescued", "some rescued"]))
  }

  @Test func cutDatabase() throws {
    try fill()
    let bytes = try folder.read("state.sqlite")
    try folder.write("state.sqlite", Array(bytes[..<(bytes.count / 2)]))
    try recover { $0 == 41 || $0 > 1_700_000_000 }
  }

  @Test(arguments: [("DROP TABLE task_plan", [41]), ("ALTER TABLE task RENAME COLUMN received TO lost", [])])
  func tablesOfAnotherShape(_ statement: String, _ tasks: [Int64]) throws {
    try fill()
    try folder.tamper(statement)
    try recover(tasks: tasks) { $0 == 41 }
  }

  /// The store may be killed between the steps of a repair.
  @Test func anInterruptedRepairIsFinished() throws {
    try fill()
    try folder.rename("state.sqlite", "state.sqlite.rebuilding")
    let store = try TransferStore(path: folder.database)
    #expect(try store.load().tasks == [Sample.entry(41)])
    #expect(try #require(store.recovered).reason.contains("interrupted"))
    store.close()
    // Before the damaged database is put aside, what was built counts for nothing.
    try folder.write("state.sqlite.rebuilding", [1, 2, 3])
    #expect(try TransferStore(path: folder.database).load().tasks == [Sample.entry(41)])
    try folder.write("state.sqlite", Array(repeating: 7, count: 4096))
    try recover { $0 > 1_700_000_000 }
  }

  @Test func anOlderVersionIsRescuedThroughItsSteps() throws {
    try fill()
    try folder.tamper("DROP TABLE delivery")
    let next = (Migration.all.last?.version ?? 0) + 1
    let longer =
      Migration.all + [
        Migration(version: next, statements: ["UPDATE task SET priority = 7"])
      ]
    let store = try TransferStore(path: folder.database, migrations: longer)
    #expect(try store.load().tasks.map(\.priority) == [7])
    #expect(try #require(store.recovered).rescuedRows == 4)
    #expect(try store.details(TaskID(rawValue: 41)) == Sample.details(key: "k"))
  }

  /// Without room for the repair nothing is moved; it is made at a later start.
  @Test func noRoomForTheRepair() async throws {
    await #expect(processExitsWith: .success) {
      let test = try OpeningTests()
      try test.fill()
      try test.folder.tamper("DROP TABLE delivery")
      let before = test.folder.names
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 20_000, rlim_max: rlim_t.max)
      guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { exit(2) }
      let error = try storeError { () throws(StoreError) in _ = try TransferStore(path: test.folder.database) }
      guard error.kind == .full else { exit(100 + error.code.rawValue & 0xFF) }
      guard test.folder.names.filter({ !$0.hasSuffix("-shm") && !$0.hasSuffix("-wal") }) == before else { exit(3) }
      limit.rlim_cur = limit.rlim_max
      guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0 else { exit(4) }
      guard try TransferStore(path: test.folder.database).load().tasks == [Sample.entry(41)] else { exit(5) }
    }
  }

  @Test func aLogWithoutItsDatabaseIsKept() throws {
    let store = try TransferStore(path: folder.database)
    try store.apply([.putSession(Sample.session(1))])
    let log = try folder.read("state.sqlite-wal")
    store.close()
    try folder.write("state.sqlite-wal", log)
    try folder.write("state.sqlite", [])
    let next = try TransferStore(path: folder.database)
    let note = try #require(next.recovered)
    #expect(note.reason.contains("write-ahead log"))
    let name = try #require(note.setAsidePath.split(separator: "/").last.map(String.init))
    #expect(try folder.read(name + "-wal") == log)
    #expect(try next.load().lastSessionID.rawValue > 1_700_000_000)
  }

  @Test func namesOfWrecksDoNotCollide() throws {
    var paths: Set<String> = []
    for _ in 0..<3 {
      try folder.write("state.sqlite", Array(repeating: 7, count: 4096))
      let store = try TransferStore(path: folder.database)
      paths.insert(try #require(store.recovered).setAsidePath)
      store.close()
    }
    #expect(paths.count == 3)
  }
}

extension DetailsReading {
  fileprivate var isUnreadable: Bool {
    if case .unreadable = self { true } else { false }
  }
}
