import Testing
import TransferCore

@testable import TransferStore

/// A row that breaks a rule is set aside and reported; all others load.
@Suite struct RowCorruptionTests {
  let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder()
    let store = try TransferStore(path: folder.database)
    try store.apply([
      .putSession(Sample.session(1)), .putSession(Sample.session(2)),
      .addTask(Sample.entry(1), Sample.details(key: "one")), .addTask(Sample.entry(2), Sample.details(key: "two")),
      .addTask(Sample.entry(3), Sample.details()), .addTask(Sample.entry(4, session: 2), Sample.details()),
      .addDelivery(Sample.delivery(1, .file, task: 1)), .addDelivery(Sample.delivery(2, .completion, task: 2)),
      .addDelivery(Sample.delivery(3, .completion, task: 3)),
      .addDelivery(Sample.delivery(1, .completion, task: 4, session: 2)),
      .addDelivery(Sample.delivery(2, .finishEvents, task: nil, session: 2)),
    ])
    store.close()
  }

  struct Damage: CustomTestStringConvertible, Sendable {
    var statement: String
    var reason: String
    var testDescription: String { statement }
    init(_ statement: String, _ reason: String) {
      self.statement = statement
      self.reason = reason
    }
  }

  static let taskDamages = [
    Damage("kind = 'teleport'", "kind has an unknown name"),
    Damage("kind = x'00ff'", "kind holds a blob"),
    Damage("state = 'pondering'", "state has an unknown name"),
    Damage("state = 7.5", "state has an unknown name"),
    Damage("state = CAST(x'77616974ff' AS TEXT)", "state is not UTF-8"),
    Damage("state = 'finished'", "ending is missing"),
    Damage("ending = 'failed'", "ending is set in state waiting"),
    Damage("state = 'finished', ending = 'vanished'", "ending has an unknown name"),
    Damage("origin = x'00'", "origin holds a blob"),
    Damage("is_repeatable = 2", "is_repeatable is neither 0 nor 1"),
    Damage("destination_path = CAST(x'ff' AS TEXT)", "destination_path is not UTF-8"),
    Damage("priority = 256", "priority is outside of 0 to 255"),
    Damage("priority = -1", "priority is outside of 0 to 255"),
    Damage("is_discretionary = 2", "is_discretionary is neither 0 nor 1"),
    Damage("constraints = 128", "constraints"),
    Damage("urgent_seconds = -1", "urgent_seconds"),
    Damage("received = -1", "received is negative"),
    Damage("received = 1.5", "received holds a real number"),
    Damage("received = 'many'", "received holds text"),
    Damage("sent = x''", "sent holds a blob"),
    Damage("expected = -9223372036854775808", "expected is negative"),
    Damage("attempts = -3", "attempts is negative"),
    Damage("failures = 1e300", "failures holds a real number"),
    Damage("not_before_ms = 'soon'", "not_before_ms holds text"),
    Damage("deadline_ms = 'never'", "deadline_ms holds text"),
    Damage("finished_at_ms = x'01'", "finished_at_ms holds a blob"),
    Damage("number = 0", "number is not positive"),
    Damage("number = 'two'", "number holds text"),
    Damage("session = 99", "its session 99 is not there"),
    Damage("session = 'one'", "session holds text"),
    Damage("key = x'ff'", "key holds a blob"),
    Damage("key = CAST(x'c328' AS TEXT)", "key is not UTF-8"),
  ]

  @Test(arguments: taskDamages) func task(_ damage: Damage) throws {
    try folder.tamper("UPDATE task SET \(damage.statement) WHERE id = 2")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.tasks.map(\.id.rawValue) == [1, 3, 4])
    #expect(state.sessions.count == 2)
    #expect(state.keys.map(\.key) == ["one"])
    #expect(state.claims.map(\.task.rawValue) == [1, 3, 4])
    let reported = try #require(state.quarantined.first { $0.table == "task" })
    #expect(reported.rowID == 2)
    #expect(reported.reason.hasPrefix(damage.reason), "\(reported.reason)")
    #expect(!state.deliveries.contains { $0.task == TaskID(rawValue: 2) })
    #expect(state.deliveries.count == 4)
    #expect(state.lastTaskID.rawValue == 4)
    // The whole task is in the quarantine, its secrets included, and nowhere else.
    #expect(try store.details(TaskID(rawValue: 2)) == nil)
    #expect(Set(try store.quarantinedRows().map(\.table)) == ["task", "task_plan", "task_progress", "delivery"])
    // It is reported once; the others stay.
    let again = try store.load()
    #expect(again.quarantined.isEmpty)
    #expect(again.tasks == state.tasks && again.deliveries == state.deliveries && again.keys == state.keys)
    // Its key and its place are free.
    try store.apply([.addTask(Sample.entry(5), Sample.details(key: "two"))])
  }

  static let sessionDamages = [
    Damage("app = CAST(x'ff' AS TEXT)", "app is not UTF-8"),
    Damage("identifier = x'00'", "identifier holds a blob"),
    Damage("http_proxy = x'00'", "http_proxy holds a blob"),
    Damage("connections_per_host = 0", "connections_per_host is outside of 1 to 64"),
    Damage("connections_per_host = 65", "connections_per_host is outside of 1 to 64"),
    Damage("collects_results = 'yes'", "collects_results holds text"),
    Damage("is_invalidated = -1", "is_invalidated is neither 0 nor 1"),
    Damage("next_task_number = 0", "next_task_number is not positive"),
    Damage("next_delivery = -5", "next_delivery is negative"),
    Damage("owes_finish_events = 3", "owes_finish_events is neither 0 nor 1"),
  ]

  @Test(arguments: sessionDamages) func session(_ damage: Damage) throws {
    try folder.tamper("UPDATE session SET \(damage.statement) WHERE id = 2")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.sessions == [Sample.session(1)])
    #expect(state.tasks.map(\.id.rawValue) == [1, 2, 3])
    #expect(state.deliveries.map(\.number.rawValue) == [1, 2, 3])
    let reported = try #require(state.quarantined.first)
    #expect(reported.rowID == 2)
    #expect(reported.reason.hasPrefix(damage.reason), "\(reported.reason)")
    #expect(state.quarantined.map(\.table) == ["session", "task", "delivery", "delivery"])
    #expect(state.lastSessionID.rawValue == 2)
    #expect(try store.load().quarantined.isEmpty)
    #expect(try store.quarantinedRows().count == 6)
    #expect(try folder.count("session") == 1)
  }

  static let deliveryDamages = [
    Damage("number = 0", "number is not positive"),
    Damage("number = 'x'", "number holds text"),
    Damage("kind = 'gift'", "kind has an unknown name"),
    Damage("task = NULL", "task is missing"),
    Damage("task = 77", "its task 77 is not there"),
    Damage("task = 'x'", "task holds text"),
    Damage("task = 4", "its task 4 is of another session"),
    Damage("session = 77", "its session 77 is not there"),
    Damage("queued_at_ms = 'x'", "queued_at_ms holds text"),
  ]

  @Test(arguments: deliveryDamages) func delivery(_ damage: Damage) throws {
    try folder.tamper("UPDATE delivery SET \(damage.statement) WHERE id = 2")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.tasks.count == 4)
    #expect(state.deliveries.count == 4)
    #expect(state.quarantined.map(\.table) == ["delivery"])
    let reported = try #require(state.quarantined.first)
    #expect(reported.rowID == 2)
    #expect(reported.reason.hasPrefix(damage.reason), "\(reported.reason)")
    #expect(try store.load().quarantined.isEmpty)
  }

  static let detailsDamages = [
    Damage("UPDATE task_plan SET headers = 'Accept'", "headers does not end"),
    Damage("UPDATE task_plan SET headers = 'Accept' || char(10)", "headers has a line"),
    Damage("UPDATE task_plan SET headers = ': x' || char(10)", "headers has a line"),
    Damage("UPDATE task_plan SET headers = 'A: b' || char(13, 10)", "headers holds a carriage return"),
    Damage("UPDATE task_plan SET headers = CAST(x'413a20ff0a' AS TEXT)", "headers is not UTF-8"),
    Damage("UPDATE task_plan SET secret_header_names = 'x'", "secret_header_names does not end"),
    Damage("UPDATE task_plan SET url = x'68'", "url holds a blob"),
    Damage("UPDATE task_plan SET source_path = NULL", "the source of an upload is incomplete"),
    Damage("UPDATE task_plan SET source_size_bytes = -1", "source_size_bytes is negative"),
    Damage("UPDATE task_plan SET source_pin = 'glue'", "source_pin has an unknown name"),
    Damage("UPDATE task_plan SET destination = 'moon'", "destination has an unknown name"),
    Damage("UPDATE task_plan SET destination_collision = NULL", "a destination lacks"),
    Damage("UPDATE task_plan SET status_rule = 'none'", "status_rule has an unknown name"),
    Damage("UPDATE task_plan SET keeps_encoding = 9", "keeps_encoding is neither"),
    Damage("UPDATE task_plan SET request_timeout_ms = 'x'", "request_timeout_ms holds text"),
    Damage("DELETE FROM task_plan", "its plan is not there"),
    Damage("DELETE FROM task_progress", "its progress is not there"),
    Damage("UPDATE task_progress SET resume_validator = NULL", "the resume point is incomplete"),
    Damage("UPDATE task_progress SET resume_validator_kind = 'hope'", "resume_validator_kind has an unknown name"),
    Damage("UPDATE task_progress SET resume_offset = -1", "resume_offset is negative"),
    Damage("UPDATE task_progress SET response_url = NULL", "the response is incomplete"),
    Damage("UPDATE task_progress SET response_status = 2.5", "response_status holds a real"),
    Damage("UPDATE task_progress SET failure_code = 'gremlins'", "failure_code has an unknown name"),
    Damage("UPDATE task_progress SET failure_detail = NULL", "the failure is incomplete"),
    Damage("UPDATE task_progress SET cancel_cause = 'whim'", "cancel_cause has an unknown name"),
    Damage("UPDATE task_progress SET is_length_verified = 'maybe'", "is_length_verified holds text"),
    Damage("UPDATE task_progress SET wasted = -1", "wasted is negative"),
  ]

  @Test(arguments: detailsDamages) func details(_ damage: Damage) throws {
    try folder.tamper("\(damage.statement) WHERE task = 2")
    let store = try TransferStore(path: folder.database)
    #expect(try store.load().tasks.count == 4)
    let id = TaskID(rawValue: 2)
    let error = try storeError { () throws(StoreError) in _ = try store.details(id) }
    #expect(error.kind == .unreadableRow)
    let row = try #require(error.row)
    #expect(row.table == "task" && row.rowID == 2)
    #expect(row.reason.hasPrefix(damage.reason), "\(row.reason)")
    let readings = try store.details([TaskID(rawValue: 1), id, TaskID(rawValue: 3)])
    #expect(
      readings == [.details(Sample.details(key: "one")), .unreadable(row), .details(Sample.details())])
    try store.quarantine(row)
    let state = try store.load()
    #expect(state.tasks.map(\.id.rawValue) == [1, 3, 4])
    #expect(state.deliveries.count == 4)
    #expect(try store.quarantinedRows().contains(row))
  }

  @Test func everyRowOfEveryTable() throws {
    try folder.tamper("UPDATE session SET app = x'00'", "UPDATE task SET kind = x'00'", "UPDATE delivery SET kind = 1")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.sessions.isEmpty && state.tasks.isEmpty && state.deliveries.isEmpty && state.keys.isEmpty)
    #expect(state.quarantined.count == 11)
    #expect(state.lastTaskID.rawValue == 4 && state.lastSessionID.rawValue == 2)
    #expect(try store.load() == StoredState(lastTaskID: TaskID(rawValue: 4), lastSessionID: SessionID(rawValue: 2)))
  }

  @Test(arguments: [
    "DELETE FROM high_water", "UPDATE high_water SET value = 'x'", "UPDATE high_water SET value = -7",
    "UPDATE high_water SET value = 1", "INSERT INTO high_water VALUES ('weather', 9)",
  ])
  func countersAreMended(_ statement: String) throws {
    try folder.tamper(statement)
    let store = try TransferStore(path: folder.database)
    #expect(try store.load().lastTaskID.rawValue == 4)
    try store.apply([.addTask(Sample.entry(9), Sample.details()), .removeTask(TaskID(rawValue: 9))])
    store.close()
    #expect(try TransferStore(path: folder.database).load().lastTaskID.rawValue == 9)
  }

  /// A quarantined row is SQL literals that make it again, whatever its bytes are.
  @Test func theRawRowIsKept() throws {
    try folder.tamper("UPDATE task SET kind = CAST(x'00ff27' AS TEXT), key = 'it''s' WHERE id = 2")
    _ = try TransferStore(path: folder.database).load()
    let connection = try Connection(path: folder.database)
    let row = try #require(try connection.text("SELECT row FROM quarantine WHERE source_table = 'task'"))
    #expect(row.contains("kind = CAST(x'00FF27' AS TEXT)\n"))
    #expect(row.contains("key = 'it''s'\n"))
    #expect(row.contains("finished_at_ms = 18\n"))
    #expect(row.contains("ending = NULL\n"))
  }

  /// Without room to move them, bad rows are still reported and the others load.
  @Test func noRoomForTheQuarantine() throws {
    try folder.tamper("UPDATE task SET kind = 'teleport' WHERE id = 2")
    let store = try TransferStore(path: folder.database)
    let connection = try #require(store.database?.connection)
    let other = try Connection(path: folder.database)
    try connection.execute("PRAGMA busy_timeout = 1")
    try other.execute("BEGIN IMMEDIATE")
    let state = try store.load()
    #expect(state.tasks.map(\.id.rawValue) == [1, 3, 4])
    #expect(state.quarantined.count == 2)
    try other.execute("COMMIT")
    #expect(try store.load() == state)
    #expect(try store.load().quarantined.isEmpty)
  }
}
