/// When an app is started, woken and ended.
extension Core {
  /// Once a tick: what has become due, and launches for what waits.
  mutating func turnApps(_ now: ClockReading) {
    guard apps.isTurnDue || apps.nextDeadline.map({ $0 <= now.boot }) == true else { return }
    if let opensAt = apps.opensAt, opensAt <= now.boot { apps.setGrace(until: nil) }
    for id in apps.cells.map(\.id) {
      passDeadline(id, now)
      openBudget(id, now)
      launchIfWanted(id, now)
    }
    apps.isTurnDue = false
  }

  /// Something will be launched, or is being launched: the daemon must not go away.
  var hasUnfinishedLaunches: Bool {
    apps.cells.contains { cell in
      cell.current != nil
        || cell.record?.isForceQuit == false && cell.candidates.contains { reasonToLaunch($0) != nil }
    }
  }

  func isStillMeant(_ effect: AppEffect) -> Bool {
    switch effect {
    case .launch(let order):
      apps[order.app]?.current.map { $0.number == order.number && $0.phase == .starting } ?? false
    case .wake(_, let app, _, let launch, _): apps[app]?.current?.number == launch
    case .end, .find: true
    }
  }

  /// Why the app should come by; nil where nothing waits, or somebody is there.
  private func reasonToLaunch(_ session: SessionID) -> LaunchReason? {
    sessions[session]?.attached == nil ? reasonToCome(session) : nil
  }

  func isWaitingForLaunch(_ session: SessionID) -> Bool { reasonToLaunch(session) != nil }

  /// The same whoever is there.
  private func reasonToCome(_ session: SessionID) -> LaunchReason? {
    guard let cell = sessions[session], cell.record.sendsLaunchEvents, cell.record.collectsResults else { return nil }
    if !cell.asking.isEmpty { return .challenge }
    return cell.unfinished == 0 && !cell.deliveries.isEmpty ? .sessionEvents : nil
  }

  private struct Wanted {
    var session: SessionID
    var reason: LaunchReason
  }

  private mutating func wanted(_ id: String) -> [Wanted] {
    guard let candidates = apps[id]?.candidates, !candidates.isEmpty else { return [] }
    let wanted = candidates.compactMap { session in
      reasonToLaunch(session).map { Wanted(session: session, reason: $0) }
    }
    // The others are marked anew when something happens to them.
    if wanted.count != candidates.count { apps.update(id) { $0.candidates = wanted.map(\.session) } }
    return wanted
  }

  /// The delay is over: with nothing to launch the next launch is free again.
  private mutating func openBudget(_ id: String, _ now: ClockReading) {
    guard let opensAt = apps[id]?.budgetOpensAt, opensAt <= now.boot, apps.opensAt == nil else { return }
    let isWanted = !wanted(id).isEmpty
    apps.update(id, isStored: true) { cell in
      cell.opensAt = nil
      if !isWanted { cell.record?.delay = .zero }
    }
  }

  private mutating func launchIfWanted(_ id: String, _ now: ClockReading) {
    let wanted = wanted(id)
    guard let cell = apps[id], let record = cell.record, !record.isForceQuit, !cell.isForeground, apps.opensAt == nil,
      let first = wanted.first
    else { return }
    if cell.current != nil { return tellMore(id, wanted, now) }
    guard cell.opensAt == nil else { return }
    if let process = cell.processes.first(where: { !$0.peers.isEmpty }) ?? cell.processes.first {
      begin(id, first, waking: process, now)
      tellMore(id, wanted, now)
    } else {
      begin(id, first, waking: nil, now)
    }
  }

  private mutating func begin(
    _ id: String, _ wanted: Wanted, waking process: AppProcess?, _ now: ClockReading
  ) {
    guard let session = sessions[wanted.session]?.record.key.identifier, let record = apps[id]?.record else { return }
    let number = record.lastLaunch + 1
    let policy = configuration.launches
    apps.update(id, isStored: true) { cell in
      cell.record?.lastLaunch = number
      cell.record?.delay = policy.delay(after: record.delay)
      cell.beginDelay(now)
      cell.current = ActiveLaunch(
        number: number, phase: process == nil ? .starting : .running,
        server: process.map(\.launch) ?? number, parts: [ActiveLaunch.Part(session: wanted.session)],
        deadline: process == nil ? nil : now.boot + policy.grant)
      cell.launches.append(
        LaunchRecord(
          app: id, number: number, session: session, reason: wanted.reason, isWake: process != nil,
          decidedAt: now.wall, startedAt: process == nil ? nil : now.wall, processID: process?.processID))
      cell.updateLaunch(number) { _ in }
    }
    if let process {
      if let peer = process.peers.first {
        effects.append(.app(.wake(peer, app: id, session: session, launch: number, wanted.reason)))
      }
    } else {
      order(id, number, record.registration.command, session, wanted.reason)
    }
  }

  private mutating func order(
    _ id: String, _ number: Int64, _ command: [String], _ session: String, _ reason: LaunchReason
  ) {
    effects.append(
      .app(.launch(LaunchOrder(app: id, number: number, command: command, session: session, reason: reason))))
  }

  /// The process has its grant already, and is told what else there is. That costs no launch.
  private mutating func tellMore(_ id: String, _ causes: [Wanted], _ now: ClockReading) {
    guard let cell = apps[id], let current = cell.current, current.phase == .running,
      let peer = serving(cell, current)?.peers.first
    else { return }
    for more in causes where !current.parts.contains(where: { $0.session == more.session }) {
      guard let name = sessions[more.session]?.record.key.identifier else { continue }
      let grantEnd = now.boot + configuration.launches.grant
      apps.update(id) { cell in
        cell.current?.parts.append(ActiveLaunch.Part(session: more.session))
        cell.current?.deadline = grantEnd
      }
      effects.append(.app(.wake(peer, app: id, session: name, launch: current.number, more.reason)))
    }
  }

  private func serving(_ cell: AppCell, _ current: ActiveLaunch) -> AppProcess? {
    if let server = current.server { return cell.processes.first { $0.launch == server } }
    let processID = cell.launches.last { $0.number == current.number }?.processID
    return cell.processes.first { $0.processID == processID }
  }

  // MARK: What became of it

  mutating func launched(_ id: String, _ launch: Int64, _ processID: Int32, _ now: ClockReading) {
    guard let current = apps[id]?.current, current.number == launch, current.phase == .starting else {
      // Nobody wants it any more.
      effects.append(.app(.end(app: id, launch: launch, isForced: true)))
      return dropStale()
    }
    let grantEnd = now.boot + configuration.launches.grant
    apps.update(id, isStored: true) { cell in
      cell.current?.phase = .running
      cell.current?.deadline = grantEnd
      cell.beginDelay(now)
      // It may have connected before this was told.
      if let index = cell.processes.firstIndex(where: { $0.launch == launch }) {
        cell.processes[index].processID = processID
      } else {
        cell.processes.append(AppProcess(processID: processID, presence: .background, launch: launch))
      }
      cell.updateLaunch(launch) {
        $0.startedAt = now.wall
        $0.processID = processID
      }
    }
  }

  mutating func launchFailed(_ id: String, _ launch: Int64, _ detail: String, _ now: ClockReading) {
    guard let current = apps[id]?.current, current.number == launch, current.phase == .starting else {
      return dropStale()
    }
    apps.update(id, isStored: true) { cell in
      cell.current = nil
      cell.beginDelay(now)
      cell.updateLaunch(launch) {
        $0.outcome = .startFailed
        $0.detail = detail
        $0.endedAt = now.wall
      }
    }
  }

  mutating func exited(
    _ id: String, _ launch: Int64, _ ending: ProcessEnding, _ output: String, _ now: ClockReading
  ) {
    guard let cell = apps[id], let process = cell.processes.firstIndex(where: { $0.launch == launch }) else {
      return dropStale()
    }
    let serves = cell.current?.server == launch
    let deadline = now.boot + configuration.launches.lastWordsGrace
    apps.update(id, isStored: cell.record != nil) { cell in
      // Its children may hold its connection still; nobody started them.
      cell.processes[process].launch = nil
      if cell.processes[process].peers.isEmpty { cell.processes.remove(at: process) }
      cell.updateLaunch(launch) { record in
        record.endedAt = now.wall
        record.output = output
        if record.outcome == .handled { record.detail += " It ended with \(ending.words)." }
      }
      guard serves else { return }
      cell.current?.phase = .exited
      cell.current?.ending = ending
      cell.current?.deadline = deadline
    }
    if let cell = apps[id], let current = cell.current, serves, !hasLastWords(cell, current) { judge(id, now) }
  }

  /// What the process of the launch sent may still be on its way.
  func hasLastWords(_ cell: AppCell, _ current: ActiveLaunch) -> Bool {
    let processID = cell.launches.last { $0.number == current.server ?? current.number }?.processID
    return cell.processes.contains { $0.processID == processID && !$0.peers.isEmpty }
  }

  /// The process of the present launch has ended: did it do what it was started for?
  mutating func judge(_ id: String, _ now: ClockReading) {
    guard let current = apps[id]?.current, let ending = current.ending else { return }
    let left = current.parts.filter { !$0.isHandled && reasonToCome($0.session) != nil }
    apps.update(id) { cell in
      cell.current = nil
      cell.updateLaunch(current.number) { record in
        record.endedAt = record.endedAt ?? now.wall
        guard record.outcome == nil else { return }
        record.outcome = left.isEmpty ? .collected : .exitedEarly
        let stage =
          left.isEmpty
          ? "after it had collected everything"
          : record.attachedAt == nil ? "before it attached to its session" : "before it had collected everything"
        record.detail = "It ended with \(ending.words) \(stage)."
      }
    }
  }

  /// The app has called the completion handler of a session's events.
  mutating func handled(_ identifier: String, of id: String, launch: Int64?, _ now: ClockReading) {
    guard let current = apps[id]?.current, launch.map({ $0 == current.number || $0 == current.server }) ?? true,
      let session = sessions[SessionKey(app: id, identifier: identifier)],
      let part = current.parts.firstIndex(where: { $0.session == session })
    else { return }
    apps.update(id) { cell in
      cell.current?.parts[part].isHandled = true
      guard cell.current?.parts.allSatisfy(\.isHandled) == true else { return }
      switch current.phase {
      case .ending: return
      case .searching, .starting, .running, .exited: break
      }
      cell.current = nil
      cell.updateLaunch(current.number) {
        $0.outcome = .handled
        $0.handledAt = now.wall
        $0.detail = "It handled its events."
        if let ending = current.ending { $0.detail += " It ended with \(ending.words)." }
      }
    }
  }

  // MARK: Time

  private mutating func passDeadline(_ id: String, _ now: ClockReading) {
    guard let current = apps[id]?.current, let deadline = current.deadline, deadline <= now.boot else { return }
    switch current.phase {
    case .searching: if current.wasSoughtAgain { giveUpSearch(id, current, now) } else { seekAgain(id, current) }
    case .starting: apps.update(id) { $0.current?.deadline = nil }
    case .running: endGrant(id, current, now)
    case .ending:
      effects.append(.app(.end(app: id, launch: current.server ?? current.number, isForced: true)))
      let again = now.boot + configuration.launches.terminationGrace
      apps.update(id) { $0.current?.deadline = again }
    case .exited: judge(id, now)
    }
  }

  private mutating func endGrant(_ id: String, _ current: ActiveLaunch, _ now: ClockReading) {
    let grant = configuration.launches.grant.words
    let isOurs = current.server != nil
    let deadline = now.boot + configuration.launches.terminationGrace
    apps.update(id) { cell in
      cell.updateLaunch(current.number) { record in
        record.outcome = isOurs ? .ended : .notHandled
        let failing =
          record.attachedAt == nil && isOurs
          ? "It did not attach to its session within \(grant)"
          : "It did not report its events handled (app.handled) within \(grant)"
        record.detail = failing + (isOurs ? ", and was ended." : ".")
      }
      if isOurs {
        cell.current?.phase = .ending
        cell.current?.deadline = deadline
      } else {
        cell.current = nil
      }
    }
    if let server = current.server { effects.append(.app(.end(app: id, launch: server, isForced: false))) }
  }

  // MARK: After a restart

  /// What an earlier daemon began is looked for before anything is launched.
  mutating func restoreApps(_ stored: StoredState, _ now: ClockReading) {
    guard !stored.apps.isEmpty else { return }
    for record in stored.apps {
      apps.update(record.registration.id, makes: true) { cell in
        cell.record = record
        cell.launches = stored.launches.filter { $0.app == record.registration.id }
        if let last = record.lastLaunchAt, record.delay > .zero {
          // A wall clock that was set must not make an app wait for longer than its delay.
          cell.opensAt = now.boot + min(max(last + record.delay - now.wall, .zero), record.delay)
        }
      }
      markSessionsForLaunch(of: record.registration.id)
      resume(record.registration.id, now)
    }
    apps.setGrace(until: now.boot + configuration.launches.restartGrace)
  }

  private mutating func resume(_ id: String, _ now: ClockReading) {
    let launches = apps[id]?.launches ?? []
    guard let launch = launches.last, launch.outcome == nil, !launch.isWake else {
      if let wake = launches.last, wake.outcome == nil {
        // Its process connects again, and is woken again if it must be.
        apps.update(id) { cell in
          cell.updateLaunch(wake.number) {
            $0.outcome = .lost
            $0.detail = "The daemon was restarted meanwhile."
          }
        }
      }
      return findOthers(id, launches)
    }
    let session = sessions[SessionKey(app: id, identifier: launch.session)]
    apps.update(id) { cell in
      cell.current = ActiveLaunch(
        number: launch.number, phase: .searching, server: launch.number,
        parts: session.map { [ActiveLaunch.Part(session: $0)] } ?? [])
    }
    effects.append(.app(.find(app: id, launch: launch.number, processID: launch.processID)))
    findOthers(id, launches.dropLast())
  }

  /// A process that has done its work, or was woken or told to end, may run on, and a second one must not join it. Nor
  /// one whose launch was superseded as it was being started: the earlier daemon may have died before it knew.
  private mutating func findOthers(_ id: String, _ launches: some Sequence<LaunchRecord>) {
    for old in launches where !old.isWake && old.endedAt == nil {
      effects.append(.app(.find(app: id, launch: old.number, processID: old.processID)))
    }
  }

  mutating func found(_ id: String, _ launch: Int64, _ processID: Int32?, _ now: ClockReading) {
    guard let cell = apps[id], cell.launches.contains(where: { $0.number == launch }) else { return dropStale() }
    let isCurrent = cell.current?.number == launch
    let searchEnd = apps.opensAt ?? now.boot
    let grantEnd = now.boot + configuration.launches.grant
    apps.update(id) { cell in
      guard let processID else {
        if isCurrent, cell.current?.phase == .searching { cell.current?.deadline = searchEnd }
        if !isCurrent { cell.updateLaunch(launch) { $0.endedAt = now.wall } }
        return
      }
      if let index = cell.processes.firstIndex(where: { $0.launch == launch }) {
        cell.processes[index].processID = processID
      } else {
        cell.processes.append(AppProcess(processID: processID, presence: .background, launch: launch))
      }
      if cell.launches.contains(where: { $0.number == launch && $0.startedAt == nil }) { cell.beginDelay(now) }
      cell.updateLaunch(launch) {
        $0.startedAt = $0.startedAt ?? now.wall
        $0.processID = processID
      }
      guard isCurrent, cell.current?.phase == .searching else { return }
      cell.current?.phase = .running
      cell.current?.deadline = grantEnd
    }
  }

  /// The daemon may have died while the process was in the midst of execve(2): it has no environment then to be known
  /// by, and a second process must not join it.
  private mutating func seekAgain(_ id: String, _ current: ActiveLaunch) {
    apps.update(id) { cell in
      cell.current?.wasSoughtAgain = true
      cell.current?.deadline = nil
    }
    let processID = apps[id]?.launches.last { $0.number == current.number }?.processID
    effects.append(.app(.find(app: id, launch: current.number, processID: processID)))
  }

  private mutating func giveUpSearch(_ id: String, _ current: ActiveLaunch, _ now: ClockReading) {
    guard let cell = apps[id], let command = cell.record?.registration.command,
      let launch = cell.launches.last(where: { $0.number == current.number })
    else {
      // Nothing says what was looked for; its deadline must not stay due.
      return apps.update(id) { $0.current = nil }
    }
    if launch.startedAt == nil, cell.processes.isEmpty,
      let reason = current.parts.compactMap({ reasonToLaunch($0.session) }).first
    {
      // The daemon ended between the decision and the deed: it is the same launch still, if for another reason by now.
      apps.update(id) { cell in
        cell.current?.phase = .starting
        cell.current?.deadline = nil
        cell.updateLaunch(launch.number) { $0.reason = reason }
      }
      return order(id, launch.number, command, launch.session, reason)
    }
    let isThere = !cell.processes.isEmpty
    apps.update(id) { cell in
      cell.current = nil
      cell.updateLaunch(launch.number) {
        $0.outcome = .lost
        $0.endedAt = now.wall
        $0.detail =
          launch.startedAt != nil
          ? "It ended while no daemon ran."
          : isThere ? "A process of the app was there." : "Nothing waited for it any more."
      }
    }
  }
}

extension Duration {
  /// "30 s", "1.5 s"
  var words: String {
    let milliseconds = millisecondsClamped
    return milliseconds % 1000 == 0
      ? "\(milliseconds / 1000) s" : "\(milliseconds / 1000).\(milliseconds % 1000 / 100) s"
  }
}
