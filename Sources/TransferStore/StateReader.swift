internal import TransferCore

/// Reads the state at start: three tables from end to end, without the details of tasks.
struct StateReader {
  let connection: Connection
  var state = StoredState()
  /// Where each session stands in `state.sessions`.
  private var places: [SessionID: Int] = [:]
  /// Tasks of one server stand together: one text for all of them in place of one each.
  private var lastOrigin = ""

  /// Reads all, then moves what could not be read out of the way.
  static func read(_ connection: Connection) throws(StoreError) -> StoredState {
    var reader = StateReader(connection: connection)
    try connection.execute("BEGIN")
    do throws(StoreError) {
      try reader.readSessions()
      try reader.readTasks()
      try reader.readDeliveries()
      try reader.readApps()
      try reader.readKeptParts()
      try reader.readHighWater()
      try connection.execute("COMMIT")
    } catch {
      connection.rollBack()
      throw error
    }
    try reader.settle()
    return reader.state
  }

  private init(connection: Connection) { self.connection = connection }

  mutating func reject(_ table: String, _ rowID: Int64, _ fault: RowFault) {
    state.quarantined.append(QuarantinedRow(table: table, rowID: rowID, reason: fault.reason))
  }

  private mutating func readSessions() throws(StoreError) {
    let rows = try Statement(connection, "SELECT \(Schema.sessionColumns) FROM session ORDER BY id")
    while try rows.step() {
      let rowID = rows.integerValue(0) ?? 0
      state.lastSessionID = max(state.lastSessionID, SessionID(rawValue: rowID))
      do throws(RowFault) {
        let record = try SessionRecord.read(from: rows)
        places[record.id] = state.sessions.count
        state.sessions.append(record)
      } catch {
        reject("session", rowID, error)
      }
    }
  }

  private mutating func readTasks() throws(StoreError) {
    // A row is some 150 bytes in memory: an array that grows by doubling would hold three times as much for a moment.
    let count = try connection.integer("SELECT count(*) FROM task") ?? 0
    state.tasks.reserveCapacity(Int(clamping: count))
    let rows = try Statement(
      connection,
      """
      SELECT \(Schema.taskIdentityColumns), \(Schema.taskStateColumns), \(Schema.taskPlanColumns) FROM task ORDER BY id
      """)
    var session: (id: SessionID, place: Int)?
    while try rows.step() {
      let rowID = rows.integerValue(0) ?? 0
      state.lastTaskID = max(state.lastTaskID, TaskID(rawValue: rowID))
      do throws(RowFault) {
        var entry = try TaskEntry.read(from: rows)
        if entry.origin == lastOrigin { entry.origin = lastOrigin } else { lastOrigin = entry.origin }
        if session?.id != entry.session { session = places[entry.session].map { (entry.session, $0) } }
        guard let place = session?.place else { throw RowFault("its session \(entry.session) is not there") }
        let key = try rows.nextText()
        let path = try rows.nextText()
        if !entry.state.isFinished, let path {
          state.claims.append(DestinationClaim(task: entry.id, path: path))
        }
        if let owner = try rows.nextInteger() {
          state.adoptions.append(PartAdoption(task: entry.id, owner: TaskID(rawValue: owner)))
        }
        if let key { state.keys.append(TaskKey(session: entry.session, key: key, task: entry.id)) }
        // A counter that fell behind its rows would make a number twice, which the next commit would refuse.
        if entry.number >= state.sessions[place].nextTaskNumber {
          state.sessions[place].nextTaskNumber = entry.number.addingClamped(1)
        }
        state.tasks.append(entry)
      } catch {
        reject("task", rowID, error)
      }
    }
  }

  private mutating func readDeliveries() throws(StoreError) {
    let rows = try Statement(connection, "SELECT \(Schema.deliveryColumns), id FROM delivery ORDER BY id")
    while try rows.step() {
      let rowID = rows.integerValue(rows.columnCount - 1) ?? 0
      do throws(RowFault) {
        let record = try DeliveryRecord.read(from: rows)
        guard let place = places[record.session] else {
          throw RowFault("its session \(record.session) is not there")
        }
        if let id = record.task {
          guard let task = self.task(id) else { throw RowFault("its task \(id) is not there") }
          guard task.session == record.session else { throw RowFault("its task \(id) is of another session") }
        }
        if record.number.rawValue >= state.sessions[place].nextDelivery {
          state.sessions[place].nextDelivery = record.number.rawValue.addingClamped(1)
        }
        state.deliveries.append(record)
      } catch {
        reject("delivery", rowID, error)
      }
    }
    state.deliveries.sort { ($0.session, $0.number) < ($1.session, $1.number) }
  }

  private mutating func readKeptParts() throws(StoreError) {
    let rows = try Statement(connection, "SELECT \(Schema.keptPartColumns), id FROM kept_part ORDER BY id")
    while try rows.step() {
      let rowID = rows.integerValue(rows.columnCount - 1) ?? 0
      do throws(RowFault) {
        state.keptParts.append(try KeptPart.read(from: rows))
      } catch {
        reject("kept_part", rowID, error)
      }
    }
  }

  /// The entry with this id, by halving: tasks stand in order of their ids.
  private func task(_ id: TaskID) -> TaskEntry? {
    var low = 0
    var high = state.tasks.count
    while low < high {
      let middle = low + (high - low) / 2
      if state.tasks[middle].id < id { low = middle + 1 } else { high = middle }
    }
    return low < state.tasks.count && state.tasks[low].id == id ? state.tasks[low] : nil
  }

  /// The counters, never below what rows of any table tell.
  private mutating func readHighWater() throws(StoreError) {
    let rows = try Statement(
      connection,
      """
      SELECT name, value FROM high_water
      UNION ALL SELECT source_table, max(source_rowid) FROM quarantine GROUP BY source_table
      """)
    while try rows.step() {
      do throws(RowFault) {
        let name = try rows.nextText()
        let value = try rows.nextRequiredInteger()
        if name == "task" { state.lastTaskID = max(state.lastTaskID, TaskID(rawValue: value)) }
        if name == "session" { state.lastSessionID = max(state.lastSessionID, SessionID(rawValue: value)) }
      } catch {
        continue  // Written anew below; the rows themselves still tell the highest id.
      }
    }
  }

  /// Moves what could not be read to the quarantine, and mends the counters.
  private func settle() throws(StoreError) {
    let isCounted = try connection.integer(
      """
      SELECT count(*) FROM high_water WHERE typeof(value) = 'integer' AND \
      (name = 'task' AND value = \(state.lastTaskID) OR name = 'session' AND value = \(state.lastSessionID))
      """)
    guard !state.quarantined.isEmpty || isCounted != 2 else { return }
    do throws(StoreError) {
      try connection.transaction { () throws(StoreError) in
        // Deliveries before tasks before sessions: each names the ones after it.
        for table in ["kept_part", "delivery", "task", "session", "launch", "app"] {
          for row in state.quarantined where row.table == table { try Quarantine.move(row, on: connection) }
        }
        try connection.execute(
          """
          INSERT OR REPLACE INTO high_water VALUES ('task', \(state.lastTaskID)), ('session', \(state.lastSessionID))
          """)
      }
    } catch {
      switch error.kind {
      // No room, or no right to write: the rows stay where they are, are reported, and are moved at a later start.
      case .full, .readOnly, .busy, .ioError: return
      case .corrupt, .cannotOpen, .outOfMemory, .constraint, .invalidValue, .missingRow, .unreadableRow,
        .foreignDatabase, .newerDatabase, .misuse:
        throw error
      }
    }
  }
}
