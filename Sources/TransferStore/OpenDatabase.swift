internal import TransferCore

/// A connection that is known to be ours, of the newest version, with the statements of daily use prepared.
final class OpenDatabase {
  let connection: Connection
  let putSession: Statement
  let removeSession: Statement
  let addTask: Statement
  let addPlan: Statement
  let replacePlan: Statement
  let addProgress: Statement
  let updateProgress: Statement
  let updateTask: Statement
  let removeTask: Statement
  let addDelivery: Statement
  let removeDelivery: Statement
  let addKeptPart: Statement
  let removeKeptPart: Statement
  let freeKey: Statement
  let freeName: Statement
  let raiseHighWater: Statement
  let details: Statement
  let keepLeftover: Statement
  let settleLeftover: Statement
  let apps: AppStatements

  /// Opens or creates the database and brings it to the newest version.
  /// - Throws: `corrupt` when the file is not a sound database of ours; `foreignDatabase`, `newerDatabase`; `full` …
  init(path: String, migrations: [Migration]) throws(StoreError) {
    try DatabaseFiles.prepare(path)
    connection = try Connection(path: path)
    do throws(StoreError) {
      try Self.configure(connection, migrations)
    } catch {
      if error.kind == .corrupt { connection.close(keepsLog: true) }
      throw error
    }
    do throws(StoreError) {
      putSession = try Statement(connection, Self.putSessionSQL)
      removeSession = try Statement(connection, "DELETE FROM session WHERE id = ?")
      let taskColumns = "\(Schema.taskIdentityColumns), \(Schema.taskStateColumns), \(Schema.taskPlanColumns)"
      addTask = try Statement(connection, Self.insertion("task", taskColumns))
      addPlan = try Statement(connection, Self.insertion("task_plan", "task, \(Schema.planColumns)"))
      replacePlan = try Statement(
        connection, "UPDATE task_plan SET \(Schema.assignments(Schema.planColumns)) WHERE task = ?")
      addProgress = try Statement(connection, Self.insertion("task_progress", "task, \(Schema.progressColumns)"))
      updateProgress = try Statement(
        connection, "UPDATE task_progress SET \(Schema.assignments(Schema.progressColumns)) WHERE task = ?")
      updateTask = try Statement(
        connection,
        """
        UPDATE task SET \(Schema.assignments(Schema.taskStateColumns))
        WHERE id = ? AND session = ? AND number = ? AND kind = ?
        """)
      removeTask = try Statement(connection, "DELETE FROM task WHERE id = ?")
      addDelivery = try Statement(connection, Self.insertion("delivery", Schema.deliveryColumns))
      removeDelivery = try Statement(connection, "DELETE FROM delivery WHERE session = ? AND number = ?")
      addKeptPart = try Statement(connection, Self.insertion("kept_part", Schema.keptPartColumns))
      removeKeptPart = try Statement(connection, "DELETE FROM kept_part WHERE token = ?")
      freeKey = try Statement(connection, "UPDATE task SET key = NULL WHERE id = ? AND key IS NOT NULL")
      freeName = try Statement(connection, "UPDATE session SET is_invalidated = 1 WHERE id = ?")
      raiseHighWater = try Statement(connection, "UPDATE high_water SET value = ?2 WHERE name = ?1 AND value < ?2")
      keepLeftover = try Statement(
        connection,
        """
        INSERT OR REPLACE INTO leftover SELECT task, part_path FROM task_plan
        WHERE task = ? AND destination = 'file' AND part_path NOT IN (SELECT part_path FROM kept_part)
        """)
      settleLeftover = try Statement(connection, "DELETE FROM leftover WHERE task = ?")
      apps = try AppStatements(connection)
      details = try Statement(
        connection,
        """
        SELECT kind, \(Schema.taskPlanColumns), \(Schema.planColumns), \(Schema.progressColumns),
        task_plan.task, task_progress.task
        FROM task LEFT JOIN task_plan ON task_plan.task = task.id
        LEFT JOIN task_progress ON task_progress.task = task.id
        WHERE task.id = ?
        """)
    } catch {
      guard error.code.primary == .error || error.kind == .corrupt else { throw error }
      connection.close(keepsLog: true)
      // Its version is ours, its tables are not: somebody or something changed them.
      throw StoreError(
        .corrupt, code: error.code, message: "the tables are not those of its version: \(error.message)",
        statement: error.statement)
    }
  }

  /// Checks whose database it is, makes the settings and brings it to the newest of the versions.
  static func configure(_ connection: Connection, _ migrations: [Migration]) throws(StoreError) {
    // A person may look with sqlite3 meanwhile.
    try connection.execute("PRAGMA busy_timeout = 5000")
    let application = try connection.integer("PRAGMA application_id") ?? 0
    let version = try connection.integer("PRAGMA user_version") ?? 0
    let isEmpty = try connection.integer("SELECT count(*) FROM sqlite_master") == 0
    let isNew = application == 0 && version == 0 && isEmpty
    guard isNew || application == Schema.applicationID else {
      throw StoreError(
        .foreignDatabase,
        message: """
          \(connection.path) is a database of another program (application id \(application)). It was left as it is; \
          move it away, or choose another folder with FERRY_HOME.
          """)
    }
    // Must come before the first page is written: pages freed by finished tasks can then be given back in parts.
    if isNew { try connection.execute("PRAGMA auto_vacuum = INCREMENTAL") }
    // A file system without shared memory keeps the rollback journal: slower, and as durable if its folder is synced.
    let mode = try connection.text("PRAGMA journal_mode = WAL")
    for setting in [
      mode == "wal" ? "synchronous = FULL" : "synchronous = EXTRA", "foreign_keys = ON", "cell_size_check = ON",
      "trusted_schema = OFF",
      // Deleted rows held credentials. (FAST would leave them on pages that become free.)
      "secure_delete = ON", "temp_store = MEMORY", "cache_size = -8192",
      // 4 MiB of log are written back at a time; a larger transaction's log is cut to 16 MiB after it.
      "wal_autocheckpoint = 1000", "journal_size_limit = 16777216",
    ] {
      try connection.execute("PRAGMA \(setting)")
    }
    try Migration.run(migrations, on: connection, from: version)
  }

  private static let putSessionSQL = """
    INSERT INTO session (\(Schema.sessionColumns)) VALUES (\(Schema.placeholders(Schema.sessionColumns)))
    ON CONFLICT (id) DO UPDATE SET \
    \(Schema.names(Schema.sessionColumns).dropFirst().map { "\($0) = excluded.\($0)" }.joined(separator: ", "))
    """

  private static func insertion(_ table: String, _ columns: String, verb: String = "INSERT") -> String {
    "\(verb) INTO \(table) (\(columns)) VALUES (\(Schema.placeholders(columns)))"
  }
}
