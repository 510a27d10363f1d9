package import TransferCore

/// Counts of a store since it was opened.
package struct StoreStatistics: Hashable, Sendable {
  package var commits: Int64 = 0
  /// Rows written or deleted by those commits, rows that went with another one included.
  package var rowsWritten: Int64 = 0
}

/// What is known of one task's details.
package enum DetailsReading: Hashable, Sendable {
  case details(TaskDetails)
  case missing
  /// Nothing was changed; ``TransferStore/quarantine(_:)`` sets it aside.
  case unreadable(QuarantinedRow)
}

/// The durable state: sessions, tasks and deliveries in one SQLite file. Made and used on one thread, which may block.
///
/// What ``apply(_:)`` returned from is on disk, and survives the end of the process and of power.
package final class TransferStore {
  package let path: String
  /// Set when a damaged database was put aside, by ``init(path:)`` or ``load()``.
  package private(set) var recovered: RecoveryNote?
  package private(set) var statistics = StoreStatistics()
  /// Called before each commit; what it throws undoes the transaction. For the injection of faults.
  package var beforeCommit: (() throws(StoreError) -> Void)?

  /// The log may still hold what was forgotten: now, or by a daemon before.
  package private(set) var owesErasure = true

  private let migrations: [Migration]
  private(set) var database: OpenDatabase?
  /// As committed; a transaction writes a higher one once, not per row.
  private var highWater = HighWater()

  /// Opens the database at an absolute path, or creates it (mode 0600) in a folder that exists.
  ///
  /// A file that is no sound database is renamed to `NAME.corrupt-<seconds since 1970>`, a new one is made of the rows
  /// that can be read, and ``recovered`` says so.
  /// - Throws: `foreignDatabase` and `newerDatabase`, the file left as it is; `cannotOpen`, `readOnly`, `full`,
  ///   `busy`, `ioError`.
  package convenience init(path: String) throws(StoreError) {
    try self.init(path: path, migrations: Migration.all)
  }

  init(path: String, migrations: [Migration]) throws(StoreError) {
    self.path = path
    self.migrations = migrations
    if !DatabaseFiles.exists(path), DatabaseFiles.exists(rebuildingPath) {
      // The repair ended between its two last steps: the damaged database is aside, the new one is whole.
      try DatabaseFiles.move(rebuildingPath, to: path)
      recovered = RecoveryNote(
        setAsidePath: path + ".corrupt-*", reason: "an earlier repair was interrupted, and is finished now",
        rescuedRows: 0, at: DatabaseFiles.now())
    }
    if DatabaseFiles.isOrphanedLog(path) {
      try rebuild(because: "a write-ahead log was there without its database")
      return
    }
    do throws(StoreError) {
      database = try OpenDatabase(path: path, migrations: migrations)
    } catch {
      guard error.kind == .corrupt else { throw error }
      try rebuild(because: error.message)
    }
  }

  /// Reads what a daemon needs to go on; details of tasks stay on disk. Rows that cannot be read are moved to the
  /// table `quarantine` and reported. A database that turns out to be damaged is put aside, as by ``init(path:)``.
  package func load() throws(StoreError) -> StoredState {
    do throws(StoreError) {
      return try read()
    } catch {
      guard error.kind == .corrupt else { throw error }
      try rebuild(because: error.message)
      return try read()
    }
  }

  private func read() throws(StoreError) -> StoredState {
    let connection = try opened().connection
    let state = try StateReader.read(connection)
    // Reading every row has filled the page cache with what nobody asks for again soon.
    try connection.execute("PRAGMA shrink_memory")
    highWater = HighWater(task: state.lastTaskID, session: state.lastSessionID)
    return state
  }

  /// Applies all changes in their order, or none. Keys and names of what is removed are free in the whole transaction.
  /// Empty changes cost nothing.
  ///
  /// The part file of a removed task in a user's folder becomes a ``Leftover``, unless `parts` knows that it is gone.
  /// - Throws: `full`, `ioError`, `busy`, `readOnly` (may pass); `constraint`, `invalidValue`, `missingRow` (a fault
  ///   of the caller, named by change); `corrupt`.
  package func apply(_ changes: [StoreChange], parts: RemovedParts = RemovedParts()) throws(StoreError) {
    guard !changes.isEmpty || !parts.settled.isEmpty else { return }
    let database = try opened()
    let before = database.connection.totalChanges
    var reached = highWater
    try database.connection.transaction { () throws(StoreError) in
      if changes.contains(where: \.takesName) {
        for change in changes { try change.freeNames(in: database) }
      }
      for change in changes {
        do throws(StoreError) {
          try parts.keepLeftover(of: change, in: database)
          try change.write(to: database)
        } catch {
          var named = error
          named.message = "\(change.subject): \(error.message)"
          throw named
        }
        reached.include(change)
      }
      try parts.settle(in: database)
      try reached.write(to: database, over: highWater)
      try beforeCommit?()
    }
    highWater = reached
    if changes.contains(where: \.forgets) { owesErasure = true }
    statistics.commits += 1
    statistics.rowsWritten += Int64(database.connection.totalChanges &- before)
  }

  /// Takes out of the log what was forgotten; nothing where nothing is owed.
  /// - Throws: as ``apply(_:parts:)``; it is owed then as before.
  package func erase() throws(StoreError) {
    if owesErasure { owesErasure = try !checkpoint() }
  }

  /// Gives the page cache's memory back; what is needed again is read again.
  package func shrinkMemory() { try? database?.connection.execute("PRAGMA shrink_memory") }

  /// The plan and progress of a task; nil when there is no such task.
  /// - Throws: `unreadableRow` for this task alone; what else SQLite reports.
  package func details(_ id: TaskID) throws(StoreError) -> TaskDetails? {
    switch try reading(id) {
    case .details(let details): return details
    case .missing: return nil
    case .unreadable(let row): throw .unreadable(row)
    }
  }

  /// The same for many tasks, in their order; one that cannot be read does not hide the others.
  package func details(_ ids: [TaskID]) throws(StoreError) -> [DetailsReading] {
    var readings: [DetailsReading] = []
    readings.reserveCapacity(ids.count)
    for id in ids { readings.append(try reading(id)) }
    return readings
  }

  private func reading(_ id: TaskID) throws(StoreError) -> DetailsReading {
    let row = try opened().details
    row.reset()
    try row.bind(id.rawValue)
    guard try row.step() else { return .missing }
    defer { row.reset() }
    do throws(RowFault) {
      return .details(try TaskDetails.read(from: row))
    } catch {
      return .unreadable(QuarantinedRow(table: "task", rowID: id.rawValue, reason: error.reason))
    }
  }

  /// Moves a task that cannot be read, its details and its deliveries, to the table `quarantine`.
  package func quarantine(_ row: QuarantinedRow) throws(StoreError) {
    let connection = try opened().connection
    try connection.transaction { () throws(StoreError) in
      try Quarantine.move(row, on: connection)
      try beforeCommit?()
    }
  }

  /// All rows that were ever set aside, oldest first.
  package func quarantinedRows() throws(StoreError) -> [QuarantinedRow] {
    try Quarantine.all(try opened().connection)
  }

  /// Writes the log back into the database, and gives a part of the space of removed rows back to the file system.
  /// - Returns: false when a reader kept a part of the log from being written back.
  @discardableResult
  package func checkpoint() throws(StoreError) -> Bool {
    let connection = try opened().connection
    let free = try connection.integer("PRAGMA freelist_count") ?? 0
    let pages = try connection.integer("PRAGMA page_count") ?? 0
    // A quarter free is left for the next tasks; 16 MiB a call keep it short.
    if free > max(256, pages / 4) { try connection.execute("PRAGMA incremental_vacuum(4096)") }
    return try connection.integer("PRAGMA wal_checkpoint(TRUNCATE)") == 0
  }

  /// Puts the database aside as damaged, and makes a new one of the rows that can be read; ``recovered`` says so.
  ///
  /// For `corrupt` from ``apply(_:)`` or ``details(_:)``; opening and loading do it by themselves. The state must be
  /// loaded anew. An error leaves the damaged database in its place, and the store closed.
  package func rebuild(because reason: String) throws(StoreError) {
    database?.connection.close(keepsLog: true)
    database = nil
    let rows: Int
    do throws(StoreError) {
      rows = try Rescue.build(from: path, at: rebuildingPath, migrations: migrations)
    } catch {
      // Half a database must not be there when somebody deletes the damaged one.
      try DatabaseFiles.remove(rebuildingPath)
      throw error
    }
    let moment = DatabaseFiles.now()
    let aside = try DatabaseFiles.setAside(path, at: moment)
    try DatabaseFiles.move(rebuildingPath, to: path)
    recovered = RecoveryNote(setAsidePath: aside, reason: reason, rescuedRows: rows, at: moment)
    database = try OpenDatabase(path: path, migrations: migrations)
    // Known from the rows when they are loaded.
    highWater = HighWater()
  }

  /// Closes the database; what is called later throws `misuse`. Also done when the store is released.
  package func close() {
    guard let connection = database?.connection else { return }
    database = nil
    connection.close()
  }

  // MARK: Opening

  func opened() throws(StoreError) -> OpenDatabase {
    guard let database else { throw StoreError(.misuse, message: "\(path) was closed") }
    return database
  }

  private var rebuildingPath: String { path + ".rebuilding" }
}

@available(*, unavailable)
extension TransferStore: Sendable {}
