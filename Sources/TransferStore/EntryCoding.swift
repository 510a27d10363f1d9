internal import TransferCore

// The rows that are read at start: sessions, entries of tasks, deliveries. Each pair follows its list in ``Schema``.

extension SessionRecord {
  /// - Precondition of the schema: 1 … 64 connections.
  static let connections: ClosedRange<Int64> = 1...64

  /// In the order of ``Schema/sessionColumns``.
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bindOrdinal(id.rawValue, "the id of a session")
    try statement.bind(key.app)
    try statement.bind(key.identifier)
    try statement.bind(network.httpProxy)
    try statement.bind(network.httpsProxy)
    try statement.bind(network.noProxy)
    try statement.bind(network.certificateFile)
    guard Self.connections.contains(Int64(network.maximumConnectionsPerHost)) else {
      throw statement.invalidValue("connections per host are outside of 1 to 64")
    }
    try statement.bind(Int64(network.maximumConnectionsPerHost))
    try statement.bind(collectsResults)
    try statement.bind(isInvalidated)
    try statement.bindOrdinal(nextTaskNumber, "the next task number")
    try statement.bindOrdinal(nextDelivery, "the next delivery number")
    try statement.bind(owesFinishEvents)
    try statement.bind(sendsLaunchEvents)
    try statement.bind(unusedSince?.milliseconds)
    try statement.bind(answersChallenges)
    try statement.bindHeaders(network.tls?.stored, "a setting of TLS")
  }

  /// In the order of ``Schema/sessionColumns``.
  static func read(from row: Statement) throws(RowFault) -> SessionRecord {
    let id = SessionID(rawValue: try row.nextOrdinal())
    let key = SessionKey(app: try row.nextRequiredText(), identifier: try row.nextRequiredText())
    let network = NetworkSettings(
      httpProxy: try row.nextText(), httpsProxy: try row.nextText(), noProxy: try row.nextRequiredText(),
      certificateFile: try row.nextText(), maximumConnectionsPerHost: Int(try row.nextInteger(in: connections)))
    var record = SessionRecord(
      id: id, key: key, network: network, collectsResults: try row.nextFlag(), isInvalidated: try row.nextFlag(),
      nextTaskNumber: try row.nextOrdinal(), nextDelivery: try row.nextOrdinal(),
      owesFinishEvents: try row.nextFlag(), sendsLaunchEvents: try row.nextFlag(),
      unusedSince: try row.nextInteger().map(WallInstant.init(milliseconds:)), answersChallenges: try row.nextFlag())
    record.network.tls = try TLSSettings.read(from: row)
    return record
  }
}

/// ``TaskState`` as it is written: the attempt is left out, for no attempt outlives the daemon.
private enum StateName: String {
  case suspended, waiting, running, asking, finalizing, finished
}

extension TaskState {
  func bind(to statement: Statement) throws(StoreError) {
    let (name, ending): (StateName, Ending?) =
      switch self {
      case .suspended: (.suspended, nil)
      case .waiting: (.waiting, nil)
      case .running: (.running, nil)
      case .asking: (.asking, nil)
      case .finalizing: (.finalizing, nil)
      case .finished(let ending): (.finished, ending)
      }
    try statement.bindName(name)
    try statement.bindName(ending)
  }

  static func read(from row: Statement) throws(RowFault) -> TaskState {
    let name = try row.nextName(StateName.self)
    let ending = try row.nextOptionalName(Ending.self)
    if ending != nil, name != .finished { throw RowFault("ending is set in state \(name.rawValue)") }
    switch name {
    case .suspended: return .suspended
    case .waiting: return .waiting
    case .running: return .running(AttemptID(rawValue: 0))
    case .asking: return .asking
    case .finalizing: return .finalizing
    case .finished:
      guard let ending else { throw row.missing }
      return .finished(ending)
    }
  }
}

extension TaskEntry {
  /// In the order of ``Schema/taskIdentityColumns``.
  func bindIdentity(to statement: Statement) throws(StoreError) {
    try statement.bindOrdinal(id.rawValue, "the id of a task")
    try statement.bind(session.rawValue)
    try statement.bindOrdinal(number, "the number of a task")
    try statement.bindName(kind)
  }

  /// In the order of ``Schema/taskStateColumns``.
  func bindState(to statement: Statement) throws(StoreError) {
    try state.bind(to: statement)
    try statement.bind(origin)
    try statement.bind(isRepeatable)
    try statement.bind(Int64(priority))
    try statement.bind(isDiscretionary)
    try statement.bindCount(received, "received")
    try statement.bindCount(sent, "sent")
    try statement.bindCount(expected, "expected")
    try statement.bindCount(attempts, "attempts")
    try statement.bindCount(failures, "failures")
    try statement.bind(notBefore?.milliseconds)
    try statement.bind(deadline?.milliseconds)
    try statement.bind(finishedAt?.milliseconds)
    try statement.bind(Int64(constraints.rawValue))
    try statement.bind(Int64(urgentSeconds))
    try statement.bind(asksFirst)
  }

  /// In the order of both lists.
  static func read(from row: Statement) throws(RowFault) -> TaskEntry {
    var entry = TaskEntry(
      id: TaskID(rawValue: try row.nextOrdinal()), session: SessionID(rawValue: try row.nextOrdinal()),
      number: try row.nextOrdinal(), kind: try row.nextName(TaskKind.self), state: try TaskState.read(from: row),
      origin: try row.nextRequiredText(), isRepeatable: try row.nextFlag(),
      priority: UInt8(try row.nextInteger(in: 0...255)), isDiscretionary: try row.nextFlag(),
      received: try row.nextCount(), sent: try row.nextCount(), expected: try row.nextOptionalCount(),
      attempts: try row.nextCount(), failures: try row.nextCount(),
      notBefore: try row.nextInteger().map(WallInstant.init(milliseconds:)),
      deadline: try row.nextInteger().map(WallInstant.init(milliseconds:)),
      finishedAt: try row.nextInteger().map(WallInstant.init(milliseconds:)))
    entry.constraints = Constraints(rawValue: UInt8(try row.nextInteger(in: 0...Int64(Constraints.all.rawValue))))
    entry.urgentSeconds = UInt32(try row.nextInteger(in: 0...Int64(UInt32.max)))
    entry.asksFirst = try row.nextFlag()
    return entry
  }
}

extension DeliveryRecord {
  /// In the order of ``Schema/deliveryColumns``.
  func bind(to statement: Statement) throws(StoreError) {
    guard task != nil || kind == .finishEvents else { throw statement.invalidValue("a delivery names no task") }
    try statement.bind(session.rawValue)
    try statement.bindOrdinal(number.rawValue, "the number of a delivery")
    try statement.bindName(kind)
    try statement.bind(task?.rawValue)
    try statement.bind(queuedAt.milliseconds)
  }

  /// In the order of ``Schema/deliveryColumns``.
  static func read(from row: Statement) throws(RowFault) -> DeliveryRecord {
    let record = DeliveryRecord(
      session: SessionID(rawValue: try row.nextOrdinal()), number: DeliveryNumber(rawValue: try row.nextOrdinal()),
      kind: try row.nextName(DeliveryKind.self), task: try row.nextInteger().map(TaskID.init(rawValue:)),
      queuedAt: WallInstant(milliseconds: try row.nextRequiredInteger()))
    if record.task == nil, record.kind != .finishEvents { throw RowFault("task is missing") }
    return record
  }
}
