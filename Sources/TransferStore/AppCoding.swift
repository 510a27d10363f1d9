internal import TransferCore

// The rows of apps and their launches. Each pair follows its list in ``Schema``.

extension Schema {
  static let appColumns = """
    id, command, task_identifiers, background_modes, file, registered_at_ms, is_force_quit, last_launch, delay_ms,
    last_launch_at_ms
    """

  static let launchColumns = """
    app, number, session, reason, is_wake, decided_at_ms, started_at_ms, attached_at_ms, handled_at_ms, ended_at_ms,
    process_id, outcome, detail, output
    """
}

extension Migration {
  static let apps = [
    "ALTER TABLE session ADD COLUMN sends_launch_events INTEGER NOT NULL DEFAULT 1",
    """
    CREATE TABLE app (
      id TEXT NOT NULL UNIQUE,
      command TEXT NOT NULL,             -- lines: the absolute path, then the arguments
      task_identifiers TEXT NOT NULL,    -- lines
      background_modes TEXT NOT NULL,    -- lines
      file TEXT,                         -- that registers it; NULL: a request did
      registered_at_ms INTEGER NOT NULL,
      is_force_quit INTEGER NOT NULL,
      last_launch INTEGER NOT NULL,      -- the number of the last one
      delay_ms INTEGER NOT NULL,         -- from the last launch to the next
      last_launch_at_ms INTEGER
    )
    """,
    """
    CREATE TABLE launch (
      app TEXT NOT NULL REFERENCES app (id) ON DELETE CASCADE,
      number INTEGER NOT NULL,
      session TEXT NOT NULL,             -- its identifier
      reason TEXT NOT NULL,              -- sessionEvents, challenge
      is_wake INTEGER NOT NULL,
      decided_at_ms INTEGER NOT NULL,
      started_at_ms INTEGER,
      attached_at_ms INTEGER,
      handled_at_ms INTEGER,
      ended_at_ms INTEGER,
      process_id INTEGER,
      outcome TEXT,                      -- NULL while it goes on
      detail TEXT NOT NULL,
      output TEXT NOT NULL,
      UNIQUE (app, number)
    )
    """,
  ]
}

/// The statements about apps; few rows, and none of them in a hurry.
struct AppStatements {
  let put: Statement
  let remove: Statement
  let putLaunch: Statement
  let removeLaunch: Statement

  init(_ connection: Connection) throws(StoreError) {
    put = try Statement(connection, Self.upsert("app", Schema.appColumns, key: 1))
    remove = try Statement(connection, "DELETE FROM app WHERE id = ?")
    putLaunch = try Statement(connection, Self.upsert("launch", Schema.launchColumns, key: 2))
    removeLaunch = try Statement(connection, "DELETE FROM launch WHERE app = ? AND number = ?")
  }

  /// - Parameter key: how many of the columns, from the first on, name the row.
  private static func upsert(_ table: String, _ columns: String, key: Int) -> String {
    let names = Schema.names(columns)
    let changes = names.dropFirst(key).map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
    return """
      INSERT INTO \(table) (\(columns)) VALUES (\(Schema.placeholders(columns)))
      ON CONFLICT (\(names.prefix(key).joined(separator: ", "))) DO UPDATE SET \(changes)
      """
  }
}

extension AppChange {
  var subject: String {
    switch self {
    case .put(let record): "app \(record.registration.id)"
    case .remove(let id): "removal of app \(id)"
    case .putLaunch(let launch): "launch \(launch.number) of app \(launch.app)"
    case .removeLaunch(let app, let number): "removal of launch \(number) of app \(app)"
    }
  }

  func write(to statements: AppStatements) throws(StoreError) {
    switch self {
    case .put(let record):
      try record.bind(to: statements.put)
      try statements.put.run()
    case .remove(let id):
      try statements.remove.bind(id)
      try statements.remove.run()
    case .putLaunch(let launch):
      try launch.bind(to: statements.putLaunch)
      try statements.putLaunch.run()
    case .removeLaunch(let app, let number):
      try statements.removeLaunch.bind(app)
      try statements.removeLaunch.bind(number)
      try statements.removeLaunch.run()
    }
  }
}

extension AppRecord {
  /// In the order of ``Schema/appColumns``.
  func bind(to statement: Statement) throws(StoreError) {
    guard let path = registration.command.first, path.hasPrefix("/") else {
      throw statement.invalidValue("the command of an app is no absolute path")
    }
    try statement.bind(registration.id)
    try statement.bindLines(registration.command, "the command of an app")
    try statement.bindLines(registration.taskIdentifiers, "the task identifiers of an app")
    try statement.bindLines(registration.backgroundModes, "the background modes of an app")
    try statement.bind(registration.file)
    try statement.bind(registeredAt.milliseconds)
    try statement.bind(isForceQuit)
    try statement.bindCount(lastLaunch, "the last launch of an app")
    try statement.bindCount(delay.millisecondsClamped, "the delay of an app")
    try statement.bind(lastLaunchAt?.milliseconds)
  }

  /// In the order of ``Schema/appColumns``.
  static func read(from row: Statement) throws(RowFault) -> AppRecord {
    let registration = AppRegistration(
      id: try row.nextRequiredText(), command: try row.nextLines(), taskIdentifiers: try row.nextLines(),
      backgroundModes: try row.nextLines(), file: try row.nextText())
    guard let path = registration.command.first, path.hasPrefix("/") else {
      throw RowFault("command is no absolute path")
    }
    return AppRecord(
      registration: registration, registeredAt: WallInstant(milliseconds: try row.nextRequiredInteger()),
      isForceQuit: try row.nextFlag(), lastLaunch: try row.nextCount(), delay: .milliseconds(try row.nextCount()),
      lastLaunchAt: try row.nextInteger().map(WallInstant.init(milliseconds:)))
  }
}

extension LaunchRecord {
  /// In the order of ``Schema/launchColumns``.
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bind(app)
    try statement.bindOrdinal(number, "the number of a launch")
    try statement.bind(session)
    try statement.bindName(reason)
    try statement.bind(isWake)
    try statement.bind(decidedAt.milliseconds)
    for moment in [startedAt, attachedAt, handledAt, endedAt] { try statement.bind(moment?.milliseconds) }
    try statement.bind(processID.map(Int64.init))
    try statement.bindName(outcome)
    try statement.bind(detail)
    try statement.bind(output)
  }

  /// In the order of ``Schema/launchColumns``.
  static func read(from row: Statement) throws(RowFault) -> LaunchRecord {
    func nextMoment() throws(RowFault) -> WallInstant? { try row.nextInteger().map(WallInstant.init(milliseconds:)) }
    return LaunchRecord(
      app: try row.nextRequiredText(), number: try row.nextOrdinal(), session: try row.nextRequiredText(),
      reason: try row.nextName(LaunchReason.self), isWake: try row.nextFlag(),
      decidedAt: WallInstant(milliseconds: try row.nextRequiredInteger()), startedAt: try nextMoment(),
      attachedAt: try nextMoment(), handledAt: try nextMoment(), endedAt: try nextMoment(),
      processID: try row.nextOptionalCount().map { Int32(clamping: $0) },
      outcome: try row.nextOptionalName(LaunchOutcome.self), detail: try row.nextRequiredText(),
      output: try row.nextRequiredText())
  }
}

extension StateReader {
  /// Apps, then their launches. A launch of an app that cannot be read goes with it.
  mutating func readApps() throws(StoreError) {
    let apps = try Statement(connection, "SELECT \(Schema.appColumns), rowid FROM app ORDER BY id")
    while try apps.step() {
      let rowID = apps.integerValue(apps.columnCount - 1) ?? 0
      do throws(RowFault) {
        state.apps.append(try AppRecord.read(from: apps))
      } catch {
        reject("app", rowID, error)
      }
    }
    let launches = try Statement(connection, "SELECT \(Schema.launchColumns), rowid FROM launch ORDER BY app, number")
    while try launches.step() {
      let rowID = launches.integerValue(launches.columnCount - 1) ?? 0
      do throws(RowFault) {
        let launch = try LaunchRecord.read(from: launches)
        guard let index = state.apps.firstIndex(where: { $0.registration.id == launch.app }) else {
          throw RowFault("its app is not there")
        }
        // A counter that fell behind would give a number twice.
        state.apps[index].lastLaunch = max(state.apps[index].lastLaunch, launch.number)
        state.launches.append(launch)
      } catch {
        reject("launch", rowID, error)
      }
    }
  }
}
