internal import TransferCore

/// The table of rows that could not be read: out of the way of all others, and kept for whoever wants to look.
enum Quarantine {
  /// Rows that go with a task, each with the column that names it.
  private static let dependents = [("task_plan", "task"), ("task_progress", "task"), ("delivery", "task")]

  /// Moves a row, within the open transaction. A task takes its details and deliveries along.
  static func move(_ row: QuarantinedRow, on connection: Connection) throws(StoreError) {
    guard ["session", "task", "delivery", "app", "launch", "kept_part"].contains(row.table) else {
      throw StoreError(.misuse, message: "no rows of \(row.table) are quarantined by themselves")
    }
    if row.table == "task" {
      for (table, column) in dependents {
        try copy(table, where: column, is: row.rowID, reason: "belongs to task \(row.rowID)", on: connection)
      }
    }
    try copy(row.table, where: "rowid", is: row.rowID, reason: row.reason, on: connection)
    let deletion = try Statement(connection, "DELETE FROM \(row.table) WHERE rowid = ?")
    try deletion.bind(row.rowID)
    try deletion.run()
  }

  static func all(_ connection: Connection) throws(StoreError) -> [QuarantinedRow] {
    let rows = try Statement(connection, "SELECT source_table, source_rowid, reason FROM quarantine ORDER BY id")
    var result: [QuarantinedRow] = []
    while try rows.step() {
      result.append(
        QuarantinedRow(
          table: rows.literal(0, quoted: false), rowID: rows.integerValue(1) ?? 0,
          reason: rows.literal(2, quoted: false)))
    }
    return result
  }

  private static func copy(
    _ table: String, where column: String, is value: Int64, reason: String, on connection: Connection
  ) throws(StoreError) {
    let rows = try Statement(connection, "SELECT rowid, * FROM \(table) WHERE \(column) = ?")
    let insertion = try Statement(
      connection,
      "INSERT INTO quarantine (source_table, source_rowid, reason, row, moved_at_ms) VALUES (?, ?, ?, ?, ?)")
    try rows.bind(value)
    while try rows.step() {
      try insertion.bind(table)
      try insertion.bind(rows.integerValue(0))
      try insertion.bind(reason)
      try insertion.bind(
        (1..<rows.columnCount).map { column in
          // Credentials are kept no longer than their task lives.
          let value = rows.columnName(column) == "access" ? "NULL" : rows.literal(column)
          return "\(rows.columnName(column)) = \(value)\n"
        }.joined())
      try insertion.bind(DatabaseFiles.now().milliseconds)
      try insertion.run()
    }
  }
}
