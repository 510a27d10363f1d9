/// What clients ask about apps, and what the shell reports of their processes.
extension Core {
  mutating func carryOut(_ command: AppCommand, _ token: RequestToken, _ now: ClockReading) {
    switch command {
    case .register(let registration):
      // Each start of an app asks for it, mostly for what is so already; what is new would wait for room on the disk.
      if degraded != nil, changes(registration) { return refuseDegraded(token) }
      guard let refusal = register(registration, now) else { return effects.append(.reply(token, .done)) }
      effects.append(.reply(token, .refused(refusal)))
    case .remove(let id): removeApp(id, token)
    case .front(let id):
      guard apps[id]?.record != nil else { return refuseUnknown(id, token) }
      bringToFront(id, now)
      effects.append(.reply(token, .done))
    case .forceQuit(let id): forceQuit(id, token, now)
    case .attach(let id, let presence, let processID, let launch):
      connect(token.peer, to: id, processID: processID, launch: launch, as: presence, now)
      effects.append(.reply(token, .noted))
    case .changeState(let id, let presence):
      guard let cell = apps[id], let process = cell.process(of: token.peer) else {
        return refuse(
          token, .invalidParameters, "This connection speaks for no process of \"\(id)\"; send app.attach first.")
      }
      apps.update(id) { $0.processes[process].presence = presence }
      if presence == .foreground { bringToFront(id, by: process, now) }
      effects.append(.reply(token, .noted))
    case .handled(let id, let session, let launch):
      handled(session, of: id, launch: launch, now)
      effects.append(.reply(token, .done))
    }
  }

  mutating func handle(_ event: AppEvent, _ now: ClockReading) {
    switch event {
    case .connected(let id, let peer, let processID, let launch):
      connect(peer, to: id, processID: processID, launch: launch, as: nil, now)
    case .launched(let id, let launch, let processID): launched(id, launch, processID, now)
    case .launchFailed(let id, let launch, let detail): launchFailed(id, launch, detail, now)
    case .exited(let id, let launch, let ending, let output): exited(id, launch, ending, output, now)
    case .found(let id, let launch, let processID): found(id, launch, processID, now)
    case .registeredByFiles(let registrations): follow(registrations, now)
    }
  }

  private mutating func refuseUnknown(_ id: String, _ token: RequestToken) {
    refuse(token, .appUnknown, "No app \"\(id)\" is registered; `ferry app list` shows those that are.")
  }

  // MARK: Registration

  private func changes(_ registration: AppRegistration) -> Bool {
    guard let known = apps[registration.id]?.record?.registration else { return true }
    // What a file says is its owner's word, and would come back with the next start.
    return known != registration && (known.file == nil || registration.file != nil)
  }

  private mutating func register(_ registration: AppRegistration, _ now: ClockReading) -> Refusal? {
    guard changes(registration) else { return nil }
    let known = apps[registration.id]?.record
    guard known != nil || apps.cells.count(where: { $0.record != nil }) < Limits.apps else {
      return Refusal(.invalidParameters, "\(Limits.apps) apps are registered; remove some first.")
    }
    apps.update(registration.id, makes: true, isStored: true) { cell in
      if cell.record == nil {
        cell.record = AppRecord(registration: registration, registeredAt: now.wall)
      } else {
        cell.record?.registration = registration
      }
    }
    if known == nil { markSessionsForLaunch(of: registration.id) }
    return nil
  }

  /// The folder is the truth about the apps that it registers.
  private mutating func follow(_ registrations: [AppRegistration], _ now: ClockReading) {
    for id in apps.cells.map(\.id) where apps[id]?.record?.registration.file != nil {
      if !registrations.contains(where: { $0.id == id }) { unregister(id) }
    }
    for registration in registrations { _ = register(registration, now) }
  }

  private mutating func removeApp(_ id: String, _ token: RequestToken) {
    guard let record = apps[id]?.record else { return refuseUnknown(id, token) }
    if let file = record.registration.file {
      return refuse(token, .invalidParameters, "The file \(file) registers \"\(id)\"; remove the file.")
    }
    unregister(id)
    effects.append(.reply(token, .done))
  }

  private mutating func unregister(_ id: String) {
    apps.update(id) { cell in
      cell.record = nil
      cell.current = nil
      cell.opensAt = nil
      cell.launches = []
      cell.dirtyLaunches = []
      cell.candidates = []
    }
    removals.append(.app(.remove(id)))
  }

  // MARK: Connections

  /// - Parameter presence: nil where the process did not say: a launched one is in the background, and one that a
  ///   person started is in the foreground.
  private mutating func connect(
    _ peer: PeerID, to id: String, processID: Int32, launch: Int64?, as presence: AppPresence?, _ now: ClockReading
  ) {
    var isFront = false
    var place = 0
    let grantEnd = now.boot + configuration.launches.grant
    let usual = launch == nil ? AppPresence.foreground : .background
    apps.update(id, makes: true) { cell in
      let launch = launch.filter { number in
        cell.current?.number == number || cell.processes.contains { $0.launch == number }
      }
      let known =
        cell.process(of: peer)
        ?? cell.processes.firstIndex { launch == nil ? $0.processID == processID : $0.launch == launch }
      if let known {
        place = known
      } else {
        place = cell.processes.count
        cell.processes.append(AppProcess(processID: processID, presence: usual, launch: launch))
      }
      if let presence { cell.processes[place].presence = presence }
      if !cell.processes[place].peers.contains(peer) { cell.processes[place].peers.append(peer) }
      isFront = cell.processes[place].presence == .foreground && (known == nil || presence != nil)
      if launch != nil, launch == cell.current?.number, cell.current?.phase == .searching {
        cell.current?.phase = .running
        cell.current?.deadline = grantEnd
      }
    }
    if isFront { bringToFront(id, by: place, now) }
  }

  mutating func leaveApps(_ peer: PeerID, _ now: ClockReading) {
    for id in apps.cells.map(\.id) {
      guard let process = apps[id]?.process(of: peer) else { continue }
      apps.update(id) { cell in
        cell.processes[process].peers.removeAll { $0 == peer }
        if cell.processes[process].peers.isEmpty, cell.processes[process].launch == nil {
          cell.processes.remove(at: process)
        }
      }
      if let cell = apps[id], let current = cell.current, current.phase == .exited, !hasLastWords(cell, current) {
        judge(id, now)
      }
    }
  }

  /// A person opened the app.
  /// - Parameter process: the one that came to the front.
  mutating func bringToFront(_ id: String, by process: Int? = nil, _ now: ClockReading) {
    apps.update(id, isStored: apps[id]?.record != nil) { cell in
      cell.record?.isForceQuit = false
      cell.record?.delay = .zero
      cell.record?.lastLaunchAt = nil
      cell.opensAt = nil
      guard let process, let current = cell.current else { return }
      let isItself = current.server != nil && cell.processes[process].launch == current.server
      switch current.phase {
      case .searching, .starting: break
      case .running: if !isItself { return }
      case .ending, .exited: return
      }
      cell.current = nil
      cell.updateLaunch(current.number) {
        $0.outcome = .superseded
        $0.detail = "A person opened the app."
      }
    }
    markSessionsForLaunch(of: id)
  }

  /// Tasks that an app makes in the background wait for its budget, and for a good moment (apple-api 1.6).
  func inBackground(_ drafts: [TaskDraft], of app: String, by peer: PeerID, _ now: ClockReading) -> [TaskDraft] {
    guard let cell = apps[app], let process = cell.process(of: peer),
      cell.processes[process].presence == .background
    else { return drafts }
    let opensIn = cell.opensAt.map { $0 - now.boot } ?? .zero
    return drafts.map { draft in
      var draft = draft
      draft.isDiscretionary = true
      if opensIn > .zero { draft.earliestBegin = max(draft.earliestBegin ?? now.wall, now.wall + opensIn) }
      return draft
    }
  }

  // MARK: Force quit

  private mutating func forceQuit(_ id: String, _ token: RequestToken, _ now: ClockReading) {
    let owned = sessionIDs(of: id)
    guard !owned.isEmpty || apps[id] != nil else { return refuseUnknown(id, token) }
    endProcesses(of: id, now)
    for session in owned {
      for task in taskIDs(of: session) { cancel(task, .forceQuit, now) }
    }
    effects.append(.reply(token, .done))
  }

  /// Those that the daemon started; what a person started is the person's.
  private mutating func endProcesses(of id: String, _ now: ClockReading) {
    var server: Int64?
    let deadline = now.boot + configuration.launches.terminationGrace
    apps.update(id, isStored: apps[id]?.record != nil) { cell in
      cell.record?.isForceQuit = true
      if let current = cell.current {
        cell.updateLaunch(current.number) {
          $0.outcome = .superseded
          $0.detail = "A person ended the app."
          if $0.endedAt == nil, current.server == nil || current.phase == .starting { $0.endedAt = now.wall }
        }
        cell.current = nil
      }
      server = cell.processes.lazy.compactMap(\.launch).last
      guard let server else { return }
      cell.current = ActiveLaunch(
        number: server, phase: .ending, server: server, parts: [], deadline: deadline)
    }
    if let server { effects.append(.app(.end(app: id, launch: server, isForced: false))) }
  }

  func sessionIDs(of app: String) -> [SessionID] {
    sessions.order.filter { sessions[$0]?.record.key.app == app }
  }

  // MARK: Who must hear

  /// Something may be there for the app of this session.
  mutating func markForLaunch(_ session: SessionID) {
    guard !apps.isEmpty, let app = sessions[session]?.record.key.app, apps[app]?.record != nil else { return }
    apps.update(app) { if !$0.candidates.contains(session) { $0.candidates.append(session) } }
  }

  mutating func noteAsking(_ task: TaskID, _ session: SessionID) {
    sessions.update(session, isStored: false) { $0.asking.insert(task) }
    markForLaunch(session)
  }

  mutating func markSessionsForLaunch(of app: String) {
    for session in sessionIDs(of: app) { markForLaunch(session) }
  }

  /// Notes that the launched process has come to collect.
  mutating func noteAttachment(_ session: SessionID, _ peer: PeerID, _ now: ClockReading) {
    guard !apps.isEmpty, let app = sessions[session]?.record.key.app, let cell = apps[app],
      let current = cell.current, let process = cell.process(of: peer),
      current.server != nil, cell.processes[process].launch == current.server
    else { return }
    apps.update(app) { cell in
      cell.updateLaunch(current.number) { if $0.attachedAt == nil { $0.attachedAt = now.wall } }
    }
  }
}

extension Optional {
  fileprivate func filter(_ isKept: (Wrapped) -> Bool) -> Wrapped? {
    switch self {
    case .some(let value): isKept(value) ? value : nil
    case .none: nil
    }
  }
}
