internal import TransferCore

extension StoreChange {
  /// What the change is about, for messages.
  var subject: String {
    switch self {
    case .putSession(let record): "session \(record.id)"
    case .removeSession(let id): "removal of session \(id)"
    case .addTask(let entry, _): "new task \(entry.id)"
    case .updateTask(let entry, _): "task \(entry.id)"
    case .removeTask(let id): "removal of task \(id)"
    case .forgetSecrets(let id, _): "the plan of task \(id)"
    case .addDelivery(let record): "delivery \(record.number) of session \(record.session)"
    case .removeDelivery(let session, let number): "removal of delivery \(number) of session \(session)"
    case .app(let change): change.subject
    case .addKeptPart(let part): "the part kept of task \(part.task)"
    case .removeKeptPart: "removal of a kept part"
    }
  }

  /// A tick may remove a task and accept another under its key, or retire a session and open its successor, and puts
  /// the new one first. What the transaction will remove therefore gives up its key or name before anything else.
  func freeNames(in database: OpenDatabase) throws(StoreError) {
    switch self {
    case .removeTask(let id):
      try database.freeKey.bind(id.rawValue)
      try database.freeKey.run()
    case .removeSession(let id):
      try database.freeName.bind(id.rawValue)
      try database.freeName.run()
    case .putSession, .addTask, .updateTask, .forgetSecrets, .addDelivery, .removeDelivery, .addKeptPart,
      .removeKeptPart, .app:
      break
    }
  }

  /// Something that takes a key or a name.
  var takesName: Bool {
    switch self {
    case .putSession, .addTask: true
    case .removeSession, .updateTask, .removeTask, .forgetSecrets, .addDelivery, .removeDelivery, .addKeptPart,
      .removeKeptPart, .app:
      false
    }
  }

  /// What it takes away was, or may have been, a secret.
  var forgets: Bool {
    switch self {
    case .forgetSecrets, .removeKeptPart, .removeSession: true
    case .putSession, .addTask, .updateTask, .removeTask, .addDelivery, .removeDelivery, .addKeptPart, .app: false
    }
  }

  /// Writes the change within the open transaction.
  func write(to database: OpenDatabase) throws(StoreError) {
    switch self {
    case .putSession(let record):
      try record.bind(to: database.putSession)
      try database.putSession.run()
    case .removeSession(let id):
      try database.removeSession.bind(id.rawValue)
      try database.removeSession.run()
    case .addTask(let entry, let details):
      try Self.add(entry, details, to: database)
    case .updateTask(let entry, let progress):
      try entry.bindState(to: database.updateTask)
      try entry.bindIdentity(to: database.updateTask)
      guard try database.updateTask.run() == 1 else {
        throw StoreError(
          .missingRow, message: "no such task with this session, number and kind", statement: database.updateTask.sql)
      }
      guard let progress else { return }
      try progress.bind(to: database.updateProgress)
      try database.updateProgress.bind(entry.id.rawValue)
      if try database.updateProgress.run() == 0 { try Self.add(progress, of: entry.id, to: database) }
    case .removeTask(let id):
      try database.removeTask.bind(id.rawValue)
      try database.removeTask.run()
    case .forgetSecrets(let id, let plan):
      try plan.bind(to: database.replacePlan)
      try database.replacePlan.bind(id.rawValue)
      try database.replacePlan.run()
    case .addDelivery(let record):
      try record.bind(to: database.addDelivery)
      try database.addDelivery.run()
    case .removeDelivery(let session, let number):
      try database.removeDelivery.bind(session.rawValue)
      try database.removeDelivery.bind(number.rawValue)
      try database.removeDelivery.run()
    case .app(let change): try change.write(to: database.apps)
    case .addKeptPart(let part):
      try part.bind(to: database.addKeptPart)
      try database.addKeptPart.run()
    case .removeKeptPart(let token):
      try database.removeKeptPart.bind(token.description)
      try database.removeKeptPart.run()
    }
  }

  private static func add(
    _ entry: TaskEntry, _ details: TaskDetails, to database: OpenDatabase
  ) throws(StoreError) {
    guard entry.kind == details.plan.kind else {
      throw database.addTask.invalidValue("the entry's kind is not the plan's")
    }
    try entry.bindIdentity(to: database.addTask)
    try entry.bindState(to: database.addTask)
    try details.plan.bindToTask(database.addTask)
    try database.addTask.run()
    try database.addPlan.bind(entry.id.rawValue)
    try details.plan.bind(to: database.addPlan)
    try database.addPlan.run()
    try add(details.progress, of: entry.id, to: database)
  }

  private static func add(
    _ progress: TaskProgress, of id: TaskID, to database: OpenDatabase
  ) throws(StoreError) {
    try database.addProgress.bind(id.rawValue)
    try progress.bind(to: database.addProgress)
    try database.addProgress.run()
  }
}
