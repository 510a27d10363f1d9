import TransferCore

/// Processes of apps in the simulated world.
extension SimulatedDaemon {
  func carryOut(_ effect: AppEffect) {
    switch effect {
    case .launch(let order): launch(order)
    case .end(let name, let launch, let isForced):
      guard let app = world.app(named: name), app.launchNumber == launch else { return }
      app.end(isForced: isForced)
    case .wake(let peer, _, let session, let launch, _):
      world.coverage.note(.appWoken)
      peers[peer]?.send(.wake(session: session, launch: launch))
    case .find(let name, let launch, _):
      onWorker(0...40) { daemon in
        let app = daemon.world.app(named: name)
        let isThere = app?.isAlive == true && app?.launchNumber == launch
        daemon.post(.app(.found(app: name, launch: launch, processID: isThere ? app?.processID : nil)))
      }
    }
  }

  private func launch(_ order: LaunchOrder) {
    world.tell(.launchOrdered(order))
    onWorker(0...60) { daemon in
      guard let app = daemon.world.app(named: order.app) else { return }
      if daemon.world.strikes(.launchFailure, perMille: 100) {
        return daemon.post(.app(.launchFailed(app: order.app, launch: order.number, detail: "ENOENT")))
      }
      guard !app.isAlive else {
        // A person's process has the app's only place in this world: the new one gives way.
        daemon.post(.app(.launched(app: order.app, launch: order.number, processID: -1)))
        return daemon.post(
          .app(.exited(app: order.app, launch: order.number, .exited(code: 75), output: "another runs")))
      }
      app.start(launch: order.number)
      let processID = app.processID
      // The daemon may die between the deed and its record.
      if daemon.world.strikes(.crashInTick, perMille: 20) { return daemon.world.crashDaemon() }
      daemon.post(.app(.launched(app: order.app, launch: order.number, processID: processID)))
    }
  }

  /// The planted fault: each task that ends starts the app.
  func launchWithoutBatch(_ id: TaskID) {
    guard world.bug == .launchNotBatched, let entry = core.tasks[id]?.entry, entry.state.isFinished,
      let session = core.sessions[entry.session], session.attached == nil, session.unfinished > 0,
      let record = core.apps[session.record.key.app]?.record
    else { return }
    launch(
      LaunchOrder(
        app: record.registration.id, number: 1_000_000 + id.rawValue, command: record.registration.command,
        session: session.record.key.identifier, reason: .sessionEvents))
  }

  /// What the real daemon learns of a connection's process.
  func noteProcess(_ command: Command, of connection: Connection, _ now: ClockReading) -> [Effect] {
    switch command {
    case .openSession(let key, attach: true, _, _, _, _, _):
      if connection.launch == nil { world.tell(.appOpened(key.app)) }
      return handle(
        .app(
          .connected(
            app: key.app, peer: connection.peer, processID: connection.processID, launch: connection.launch)), now)
    case .app(.front(let app)), .app(.attach(let app, .foreground, _, _)), .app(.changeState(let app, .foreground)):
      world.tell(.appOpened(app))
      return []
    default: return []
    }
  }
}

extension Simulation {
  func app(named name: String) -> SimulatedApp? { apps.first { $0.key.app == name && $0.collects } }
}
