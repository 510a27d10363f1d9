internal import TransferCore

/// The highest ids ever given.
struct HighWater: Hashable {
  var task = TaskID(rawValue: 0)
  var session = SessionID(rawValue: 0)

  init() {}

  init(task: TaskID, session: SessionID) {
    self.task = task
    self.session = session
  }

  init(everything value: Int64) {
    self.init(task: TaskID(rawValue: value), session: SessionID(rawValue: value))
  }

  mutating func include(_ change: StoreChange) {
    switch change {
    case .putSession(let record): session = max(session, record.id)
    case .addTask(let entry, _): task = max(task, entry.id)
    case .removeSession, .updateTask, .removeTask, .forgetSecrets, .addDelivery, .removeDelivery, .addKeptPart,
      .removeKeptPart, .app:
      break
    }
  }

  /// Writes what is higher than `committed`.
  func write(to database: OpenDatabase, over committed: HighWater) throws(StoreError) {
    let statement = database.raiseHighWater
    if task > committed.task {
      try statement.bind("task")
      try statement.bind(task.rawValue)
      try statement.run()
    }
    if session > committed.session {
      try statement.bind("session")
      try statement.bind(session.rawValue)
      try statement.run()
    }
  }

  /// What a damaged database still tells; nil when it does not.
  static func read(from connection: Connection) -> HighWater? {
    do throws(StoreError) {
      guard let task = try connection.integer("SELECT value FROM high_water WHERE name = 'task'"),
        let session = try connection.integer("SELECT value FROM high_water WHERE name = 'session'"),
        task >= 0, session >= 0
      else { return nil }
      return HighWater(task: TaskID(rawValue: task), session: SessionID(rawValue: session))
    } catch {
      return nil
    }
  }
}
