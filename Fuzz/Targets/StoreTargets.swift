import CSQLite
import Glibc
import LinuxSystem
import TransferCore
import TransferStore

/// A database that somebody wrote into: what can be read is read, the rest is set aside, and a core starts with it.
enum StoreTargets {
  // MARK: Values in columns

  static func rows(_ bytes: [UInt8]) throws {
    try withDatabase { path in
      var source = ByteSource(bytes)
      try tamper(path, &source)
      let first = try start(path, mustOpen: true)
      let second = try start(path, mustOpen: true)
      guard let first, let second else { return }
      try require(second.quarantined.isEmpty, "set aside twice: \(second.quarantined)")
      try require(
        first.tasks == second.tasks && first.sessions == second.sessions && first.deliveries == second.deliveries,
        "the second start reads another state")
    }
  }

  private static let columns: [(table: String, column: String)] = {
    let session = """
      id app identifier http_proxy https_proxy no_proxy certificate_file connections_per_host collects_results
      is_invalidated next_task_number next_delivery owes_finish_events
      """
    let task = """
      id session number kind state ending origin is_repeatable priority is_discretionary received sent expected attempts
      failures not_before_ms deadline_ms finished_at_ms key destination_path
      """
    let plan = """
      task method url headers secret_header_names source_path source_pinned_path source_pin source_device source_inode
      source_size_bytes source_modified_ns destination destination_collision part_path expected_sha256 status_rule
      keeps_encoding request_timeout_ms resource_timeout_ms created_at_ms
      """
    let progress = """
      task description resume_validator_kind resume_validator resume_offset resume_total boot_id response_status
      response_headers response_url response_http_version failure_code failure_retryability failure_domain
      failure_number failure_detail failure_retry_after_seconds cancel_cause content_encoding file_path body_path
      sha256 is_length_verified wasted restarts
      """
    let delivery = "id session number kind task queued_at_ms"
    let highWater = "name value"
    let tables = [
      ("session", session), ("task", task), ("task_plan", plan), ("task_progress", progress), ("delivery", delivery),
      ("high_water", highWater),
    ]
    return tables.flatMap { table, names in
      names.split { $0 == " " || $0 == "\n" }.map { (table, String($0)) }
    }
  }()

  /// Words that mean something in some column.
  private static let words = [
    "suspended", "waiting", "running", "asking", "finalizing", "finished", "succeeded", "failed", "cancelled",
    "download", "upload", "data", "file", "completion", "finishEvents", "body", "any", "successOnly", "replace",
    "rename", "managed", "permanent", "transient", "byClient", "http://h:1", "/out/a", "A: b\n", "", "entityTag",
    "lastModified", "copy", "hardLink", "reflink", "descriptor", "task", "session",
  ]

  private static func tamper(_ path: String, _ source: inout ByteSource) throws {
    var database: OpaquePointer?
    defer { unsafe sqlite3_close(database) }
    try require(unsafe sqlite3_open(path, &database) == SQLITE_OK, "cannot open the template")
    unsafe sqlite3_exec(database, "PRAGMA synchronous=OFF; PRAGMA foreign_keys=OFF", nil, nil, nil)
    for _ in 0..<16 where !source.isEmpty {
      let target = source.one(of: columns)
      let row = source.byte() % 6
      let change =
        source.byte() < 16
        ? "DELETE FROM \(target.table) WHERE rowid % 6 = \(row) AND 1 = ?1 OR ?1 IS NULL"
        : "UPDATE OR REPLACE \(target.table) SET \(target.column) = ?1 WHERE rowid % 6 = \(row)"
      var statement: OpaquePointer?
      defer { unsafe sqlite3_finalize(statement) }
      guard unsafe sqlite3_prepare_v2(database, change, -1, &statement, nil) == SQLITE_OK else { continue }
      unsafe bind(&source, statement)
      // Refused by the schema: this one cannot be.
      _ = unsafe sqlite3_step(statement)
    }
  }

  private static func bind(_ source: inout ByteSource, _ statement: OpaquePointer?) {
    switch source.byte() % 6 {
    case 0: unsafe sqlite3_bind_int64(statement, 1, source.integer())
    case 1: unsafe sqlite3_bind_double(statement, 1, Double(bitPattern: source.word()))
    case 2:
      let text = Array(source.one(of: words).utf8)
      unsafe csqlite_bind_text_copied(statement, 1, text, Int32(text.count))
    case 3:
      let text = Array(source.bytes(Int(source.byte() % 64)))
      unsafe csqlite_bind_text_copied(statement, 1, text, Int32(text.count))
    case 4: unsafe sqlite3_bind_zeroblob(statement, 1, Int32(source.byte()))
    default: unsafe sqlite3_bind_null(statement, 1)
    }
  }

  // MARK: Bytes of the file

  static func file(_ bytes: [UInt8]) throws {
    try withDatabase { path in
      var source = ByteSource(bytes)
      do {
        let file = try OwnedDescriptor.open(path, .readWrite)
        let size = Int64(Template.image.count)
        for _ in 0..<32 where !source.isEmpty {
          let place = Int64(source.byte()) << 8 | Int64(source.byte())
          switch source.byte() {
          case 0..<4: try Files.truncate(file.raw, toBytes: place % size)
          case 4..<8:
            try Syscall.writeAll(file.raw, [UInt8](repeating: source.byte(), count: 4096).span, at: place * 4096 % size)
          default:
            let piece = Array(source.bytes(Int(source.byte() % 32)))
            try Syscall.writeAll(file.raw, piece.span, at: place % size)
          }
        }
      }
      // What a start made of it must be sound for the next.
      if try start(path, mustOpen: false) != nil { _ = try start(path, mustOpen: true) }
    }
  }

  // MARK: Both

  /// A start of the daemon, as far as it concerns the store.
  private static func start(_ path: String, mustOpen: Bool) throws -> StoredState? {
    let store: TransferStore
    let state: StoredState
    do throws(StoreError) {
      store = try TransferStore(path: path)
      state = try store.load()
      for task in state.tasks { _ = try store.details([task.id]) }
    } catch {
      try require(!mustOpen, "a sound file does not open: \(error)")
      return nil
    }
    defer { store.close() }
    try run(state)
    return state
  }

  private static func run(_ state: StoredState) throws {
    var now = ClockReading(
      boot: BootInstant(nanoseconds: 5_000_000_000), wall: WallInstant(milliseconds: 1_790_000_000_000), randomWord: 7)
    var (core, _) = Core.restoring(state, Core.Configuration(managedFolder: "/state", bootID: "boot"), at: now)
    try require(core.violations().isEmpty, "after the start: \(core.violations())")
    for _ in 0..<4 {
      _ = core.admit(at: now)
      _ = core.takeChanges()
      try require(core.violations().isEmpty, "after a tick: \(core.violations())")
      guard let next = core.nextDeadline else { return }
      let step = max(next - now.boot, .milliseconds(1))
      now = ClockReading(boot: now.boot + step, wall: now.wall + step, randomWord: now.randomWord &+ 1)
    }
  }

  private static func withDatabase(_ body: (String) throws -> Void) throws {
    let folder = FuzzFolder.path + "/ferry-fuzz-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    defer {
      for name in Files.names(in: folder) { unsafe unlink("\(folder)/\(name)") }
      unsafe rmdir(folder)
    }
    let path = folder + "/f.db"
    do {
      let file = try Files.createPrivate(path)
      try Syscall.writeAll(file.raw, Template.image.span, at: 0)
    }
    try body(path)
  }
}

/// A database with something in every table.
private enum Template {
  static let image: [UInt8] = {
    let path = "\(FuzzFolder.path)/ferry-fuzz-\(getpid()).db"
    defer { for suffix in ["", "-wal", "-shm"] { unsafe unlink(path + suffix) } }
    do {
      let store = try TransferStore(path: path)
      try store.apply(changes)
      store.close()
      return try Files.read(path, limitBytes: 1 << 20)
    } catch {
      fatalError("the template cannot be made: \(error)")
    }
  }()

  private static var changes: [StoreChange] {
    var changes: [StoreChange] = (1...2).map { number in
      .putSession(
        SessionRecord(
          id: SessionID(rawValue: number), key: SessionKey(app: "app", identifier: "\(number)"),
          network: NetworkSettings(), collectsResults: true, isInvalidated: false, nextTaskNumber: 100,
          nextDelivery: 100, owesFinishEvents: number == 1))
    }
    let states: [TaskState] = [
      .suspended, .waiting, .running(AttemptID(rawValue: 0)), .asking, .finalizing,
      .finished(.succeeded), .finished(.failed),
    ]
    for (index, state) in states.enumerated() {
      let number = Int64(index + 1)
      let id = TaskID(rawValue: number)
      let entry = TaskEntry(
        id: id, session: SessionID(rawValue: number % 2 + 1), number: number,
        kind: [.download, .upload, .data][index % 3], state: state, origin: "http://localhost:80", isRepeatable: true,
        priority: 128, isDiscretionary: false, received: 10, sent: 0, expected: 20, attempts: 1, failures: 0,
        notBefore: nil,
        deadline: state.isFinished || state == .suspended ? nil : WallInstant(milliseconds: 1_790_000_900_000),
        finishedAt: state.isFinished ? WallInstant(milliseconds: 1_790_000_000_000) : nil)
      changes.append(.addTask(entry, details(entry)))
      if state.isFinished {
        changes.append(
          .addDelivery(
            DeliveryRecord(
              session: entry.session, number: DeliveryNumber(rawValue: number), kind: .completion, task: id,
              queuedAt: WallInstant(milliseconds: 1_790_000_000_000))))
      }
    }
    return changes
  }

  private static func details(_ entry: TaskEntry) -> TaskDetails {
    let plan = TaskPlan(
      kind: entry.kind,
      request: TransferRequest(url: "http://localhost/a", headers: [("Accept", "*/*")], secretHeaderNames: ["X"]),
      source: nil, destination: .file(path: "/out/\(entry.id)", collision: .fail), partPath: "/out/.\(entry.id).part",
      expectedSHA256: nil, statusRule: .successOnly, keepsEncoding: false, requestTimeout: .seconds(60),
      resourceTimeout: .seconds(604_800), key: "key\(entry.id)", createdAt: WallInstant(milliseconds: 1_790_000_000_000)
    )
    var progress = TaskProgress()
    progress.resumePoint = ResumePoint(validator: .entityTag("\"a\""), offset: 10, total: 20)
    progress.bootID = "boot"
    return TaskDetails(plan: plan, progress: progress)
  }
}
