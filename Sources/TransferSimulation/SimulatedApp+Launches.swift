import TransferCore

/// An app as the daemon starts, wakes and ends it.
extension SimulatedApp {
  /// A process that the daemon started.
  func start(launch: Int64) {
    guard !isAlive else { return }
    process += 1
    isAlive = true
    launchNumber = launch
    world.trace("app \(index) is launched (\(launch))")
    if world.strikes(.launchedAppHangs, perMille: 150) { return }
    if world.strikes(.launchedAppDies, perMille: 150) {
      return later(0...4000) { $0.die() }
    }
    connect()
  }

  func register() {
    ask(.app(.register(AppRegistration(id: key.app, command: ["/bin/app\(index)"]))))
    // A process of the daemon's that finds nothing to collect is done.
    if launchNumber != nil { later(10_000...25_000) { $0.leave() } }
  }

  /// A person opens the app, and its process is there already.
  func comeToFront() {
    guard launchNumber != nil else { return }
    ask(.app(.attach(key.app, .foreground, processID: processID, launch: launchNumber)))
    if connection == nil { connect() }
  }

  /// The last result of a batch was handled.
  func reportSoon() {
    guard isRegistered else { return }
    later(0...2000) { app in
      guard app.world.strikes(.launchedAppHangs, perMille: 50) == false else { return }
      app.ask(.app(.handled(app.key.app, session: app.key.identifier, launch: app.launchNumber)))
      if app.launchNumber != nil { app.later(0...3000) { $0.leave() } }
    }
  }

  /// A launched process ends by itself.
  private func leave() {
    guard launchNumber != nil else { return }
    die()
  }

  /// A process that the daemon started ends with its suspended tasks unresumed: no event starts it for them, so a
  /// person opens the app again.
  func comeBackWhenCalm() {
    guard world.isCalm else { return }
    world.schedule(after: world.dice.nanoseconds(milliseconds: 20_000...60_000)) { [unowned self] in
      launch()
      tidy()
    }
  }

  func end(isForced: Bool) {
    guard isAlive, let launch = launchNumber else { return }
    // One that hangs does not hear the request either.
    if !isForced, world.dice.below(2) == 0 { return }
    tellEnd(of: launch, .signalled(number: isForced ? 9 : 15))
    launchNumber = nil
    die()
  }

  func tellEnd(of launch: Int64, _ ending: ProcessEnding) {
    let name = key.app
    world.schedule(after: world.dice.nanoseconds(milliseconds: 0...20)) { [world] in
      world.daemon?.post(.app(.exited(app: name, launch: launch, ending, output: "")))
    }
  }

  /// Its process goes to the background and closes its session.
  func doze(_ session: SessionID) {
    ask(.app(.attach(key.app, .background, processID: processID, launch: nil)))
    ask(.closeSession(session))
    self.session = nil
    isDozing = true
    later(20_000...200_000) { app in
      guard app.isDozing else { return }
      app.ask(.app(.changeState(app.key.app, .foreground)))
      app.open()
    }
  }

  func woken(_ launch: Int64) {
    guard isDozing else { return }
    later(0...3000) { app in if app.isDozing { app.open() } }
  }

  func askForForceQuit() {
    guard isRegistered, connection != nil else { return }
    ask(.app(.forceQuit(key.app)))
  }
}
