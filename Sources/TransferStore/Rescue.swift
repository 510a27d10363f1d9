internal import TransferCore

/// Builds a sound database from what a damaged one still tells.
enum Rescue {
  /// Each with the column that is its row id.
  private static let tables = [
    ("session", "id"), ("task", "id"), ("task_plan", "task"), ("task_progress", "task"), ("delivery", "id"),
    ("kept_part", "id"), ("quarantine", "id"), ("leftover", "task"), ("app", "rowid"), ("launch", "rowid"),
  ]

  /// Makes a database at `path`; the damaged one is only read.
  /// - Returns: how many rows could be carried over. Rules between rows are for ``StateReader`` to check.
  static func build(
    from damaged: String, at path: String, migrations: [Migration]
  ) throws(StoreError) -> Int {
    try DatabaseFiles.remove(path)
    try DatabaseFiles.prepare(path)
    // SQLite deletes a log whose database is empty, and the log is all that is left then.
    let source = DatabaseFiles.isOrphanedLog(damaged) ? nil : readable(damaged, migrations)
    defer { source?.connection.close(keepsLog: true) }
    let target = try Connection(path: path)
    defer { target.close() }
    // The tables of its own version first: the later steps then change its rows as they do in a sound database.
    try OpenDatabase.configure(
      target, source.map { known in migrations.filter { $0.version <= known.version } } ?? migrations)
    try target.execute("PRAGMA foreign_keys = OFF")
    let rows = try target.transaction { () throws(StoreError) -> Int in
      var rows = 0
      if let source {
        for (table, key) in tables where try exists(table, in: target) {
          rows += try copy(table, key, from: source.connection, to: target)
        }
      }
      // Ids are never used twice. Where the last ones are lost too, they go on from the seconds since 1970: no database
      // has counted so far.
      let floor =
        source.flatMap { HighWater.read(from: $0.connection) }
        ?? HighWater(everything: DatabaseFiles.now().milliseconds / 1000)
      try target.execute(
        "INSERT OR REPLACE INTO high_water VALUES ('task', \(floor.task)), ('session', \(floor.session))")
      return rows
    }
    if let source { try Migration.run(migrations, on: target, from: source.version) }
    // All of it in the one file that is renamed next.
    try target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return rows
  }

  /// The damaged database, if it is ours and of a version that we know.
  private static func readable(_ path: String, _ migrations: [Migration]) -> (connection: Connection, version: Int64)? {
    guard DatabaseFiles.exists(path) else { return nil }
    do throws(StoreError) {
      let connection = try Connection(path: path)
      do throws(StoreError) {
        if try connection.integer("PRAGMA application_id") == Schema.applicationID,
          let version = try connection.integer("PRAGMA user_version"),
          migrations.contains(where: { $0.version == version })
        {
          return (connection, version)
        }
      } catch {
        // Closed below: there is nothing to be read.
      }
      connection.close(keepsLog: true)
      return nil
    } catch {
      return nil
    }
  }

  /// An older version has fewer tables.
  private static func exists(_ table: String, in target: Connection) throws(StoreError) -> Bool {
    try target.integer("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '\(table)'") == 1
  }

  /// Copies the rows of a table as they are: from its beginning to what cannot be read, then from its end down to it.
  private static func copy(
    _ table: String, _ key: String, from source: Connection, to target: Connection
  ) throws(StoreError) -> Int {
    let columns = try Statement(target, "SELECT * FROM \(table)").columnNames.joined(separator: ", ")
    let insertion = try Statement(
      target, "INSERT OR IGNORE INTO \(table) (\(columns)) VALUES (\(Schema.placeholders(columns)))")
    var copied = 0
    var last = Int64.min
    for pass in ["\(key) >= ?1 ORDER BY \(key)", "\(key) > ?1 ORDER BY \(key) DESC"] {
      guard let rows = start("SELECT \(key), \(columns) FROM \(table) WHERE \(pass)", after: last, on: source) else {
        continue
      }
      var ended = false
      while !ended {
        switch next(rows) {
        case .row(let id):
          for column in 1..<rows.columnCount { try insertion.bind(column: column, of: rows) }
          copied += try insertion.run()
          if !pass.hasSuffix("DESC") { last = max(last, id) }
        case .end: return copied
        case .damage: ended = true
        }
      }
    }
    return copied
  }

  private enum Step { case row(Int64), end, damage }

  private static func next(_ rows: Statement) -> Step {
    do throws(StoreError) {
      guard try rows.step() else { return .end }
      return rows.integerValue(0).map(Step.row) ?? .damage
    } catch {
      return .damage
    }
  }

  private static func start(_ sql: String, after last: Int64, on source: Connection) -> Statement? {
    do throws(StoreError) {
      let rows = try Statement(source, sql)
      try rows.bind(last)
      return rows
    } catch {
      return nil
    }
  }
}
