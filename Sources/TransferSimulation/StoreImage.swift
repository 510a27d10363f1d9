import TransferCore

/// What is committed, with the constraints that the real store has.
struct StoreImage {
  struct DeliveryKey: Hashable {
    var session: SessionID
    var number: DeliveryNumber
  }
  struct Name: Hashable {
    var session: SessionID
    var key: String
  }

  private(set) var sessions: [SessionID: SessionRecord] = [:]
  private(set) var entries: [TaskID: TaskEntry] = [:]
  private(set) var details: [TaskID: TaskDetails] = [:]
  private(set) var keptParts: [ResumeToken: KeptPart] = [:]
  private var keptOrder: [ResumeToken] = []
  private(set) var deliveries: [DeliveryKey: DeliveryRecord] = [:]
  private var deliveriesOfTask: [TaskID: [DeliveryKey]] = [:]
  private var keys: [Name: TaskID] = [:]
  private var numbers: [SessionID: Set<Int64>] = [:]
  private(set) var apps: [String: AppRecord] = [:]
  private(set) var launches: [LaunchRecord] = []
  private var lastTask = TaskID(rawValue: 0)
  private var lastSession = SessionID(rawValue: 0)
  /// Tasks whose second half cannot be read.
  var unreadable: Set<TaskID> = []

  func reading(_ id: TaskID) -> TaskDetails? { unreadable.contains(id) ? nil : details[id] }

  /// What the real store would refuse, in words; nil when it would take the change.
  mutating func apply(_ change: StoreChange) -> String? {
    switch change {
    case .putSession(let record): return put(record)
    case .removeSession(let id):
      if entries.values.contains(where: { $0.session == id }) { return "session \(id) still has tasks" }
      sessions[id] = nil
      for key in deliveries.keys where key.session == id { deliveries[key] = nil }
    case .addTask(let entry, let added): return add(entry, added)
    case .updateTask(let entry, let progress):
      guard entries[entry.id] != nil else { return "task \(entry.id) is updated and not there" }
      entries[entry.id] = entry
      if let progress { details[entry.id]?.progress = progress }
    case .removeTask(let id): remove(id)
    case .forgetSecrets(let id, let plan): details[id]?.plan = plan
    case .addDelivery(let record):
      if sessions[record.session] == nil { return "result \(record.number) is of no session" }
      if let task = record.task, entries[task] == nil { return "result \(record.number) is of no task" }
      let key = DeliveryKey(session: record.session, number: record.number)
      if deliveries.updateValue(record, forKey: key) != nil { return "result \(record.number) is added twice" }
      if let task = record.task { deliveriesOfTask[task, default: []].append(key) }
    case .removeDelivery(let session, let number):
      deliveries[DeliveryKey(session: session, number: number)] = nil
    case .addKeptPart(let part):
      if keptParts.updateValue(part, forKey: part.token) != nil { return "part \(part.token) is added twice" }
      keptOrder.append(part.token)
    case .removeKeptPart(let token):
      keptParts[token] = nil
      keptOrder.removeAll { $0 == token }
    case .app(let change): return apply(change)
    }
    return nil
  }

  private mutating func apply(_ change: AppChange) -> String? {
    switch change {
    case .put(let record): apps[record.registration.id] = record
    case .remove(let id):
      apps[id] = nil
      launches.removeAll { $0.app == id }
    case .putLaunch(let launch):
      if apps[launch.app] == nil { return "launch \(launch.number) is of no app" }
      launches.removeAll { $0.app == launch.app && $0.number == launch.number }
      launches.append(launch)
    case .removeLaunch(let app, let number): launches.removeAll { $0.app == app && $0.number == number }
    }
    return nil
  }

  private mutating func put(_ record: SessionRecord) -> String? {
    let hasTwin = sessions.values.contains {
      $0.id != record.id && $0.key == record.key && !$0.isInvalidated && !record.isInvalidated
    }
    if hasTwin { return "two sessions have the key \(record.key)" }
    sessions[record.id] = record
    lastSession = max(lastSession, record.id)
    return nil
  }

  private mutating func add(_ entry: TaskEntry, _ added: TaskDetails) -> String? {
    if entries[entry.id] != nil { return "task \(entry.id) is added twice" }
    if sessions[entry.session] == nil { return "task \(entry.id) is added to no session" }
    if numbers[entry.session, default: []].contains(entry.number) {
      return "number \(entry.number) of session \(entry.session) is taken"
    }
    if let key = added.plan.key {
      if keys[Name(session: entry.session, key: key)] != nil { return "key \(key) is taken" }
      keys[Name(session: entry.session, key: key)] = entry.id
    }
    numbers[entry.session, default: []].insert(entry.number)
    entries[entry.id] = entry
    details[entry.id] = added
    lastTask = max(lastTask, entry.id)
    return nil
  }

  private mutating func remove(_ id: TaskID) {
    guard let entry = entries.removeValue(forKey: id) else { return }
    if let key = details[id]?.plan.key { keys[Name(session: entry.session, key: key)] = nil }
    details[id] = nil
    for key in deliveriesOfTask.removeValue(forKey: id) ?? [] { deliveries[key] = nil }
    unreadable.remove(id)
  }

  /// What a starting daemon would read.
  var state: StoredState {
    let tasks = entries.values.sorted { $0.id < $1.id }
    var found: [TaskKey] = []
    var claims: [DestinationClaim] = []
    for entry in tasks {
      guard let plan = details[entry.id]?.plan else { continue }
      if let key = plan.key { found.append(TaskKey(session: entry.session, key: key, task: entry.id)) }
      if !entry.state.isFinished, case .file(let path, _) = plan.destination {
        claims.append(DestinationClaim(task: entry.id, path: path))
      }
    }
    return StoredState(
      sessions: sessions.values.sorted { $0.id < $1.id },
      tasks: tasks.map { entry in
        var entry = entry
        if entry.state.attempt != nil { entry.state = .running(AttemptID(rawValue: 0)) }
        return entry
      },
      deliveries: deliveries.values.sorted { ($0.session, $0.number) < ($1.session, $1.number) }, keys: found,
      claims: claims, apps: apps.values.sorted { $0.registration.id < $1.registration.id },
      launches: launches.sorted { ($0.app, $0.number) < ($1.app, $1.number) },
      keptParts: keptOrder.compactMap { keptParts[$0] },
      adoptions: tasks.compactMap { entry in
        details[entry.id]?.plan.partOwner.map { PartAdoption(task: entry.id, owner: $0) }
      }, lastTaskID: lastTask, lastSessionID: lastSession)
  }
}
