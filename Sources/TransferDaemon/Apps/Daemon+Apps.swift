import DeviceConditions
import Glibc
import LinuxSystem
import TransferCore
import WireProtocol

/// Processes of apps: started, watched and ended by the loop; what may block is on workers.
extension Daemon {
  enum AppReport: Sendable {
    case spawned(LaunchOrder, AppJobs.SpawnOutcome)
    case found(app: String, launch: Int64, AppJobs.Spawned?)
    case ended(app: String, launch: Int64, ProcessEnding, output: String)
    case folder(AppFolder.Reading)
    case output(RequestToken, app: String, String)
    case trimmed
    case unscoped(ScopeFailure)
  }

  private func onWorker(_ path: String, _ job: @escaping @Sendable () -> Void) -> Bool {
    files.worker(for: path, .names)?.submit(job) ?? false
  }

  private func outputPath(_ app: String, _ launch: Int64) -> String {
    "\(directories.state)/apps/\(Core.folderName(app))-\(launch).output"
  }

  // MARK: Effects

  func carryOut(_ effect: AppEffect) {
    switch effect {
    case .launch(let order): launch(order)
    case .end(let app, let launch, let isForced): end(app, launch, isForced: isForced)
    case .wake(let peer, let app, let session, let launch, let reason):
      say(
        .appWake(AppWakeNotice(app: app, session: session, launch: launch, reason: reason.rawValue)), to: peer)
    case .find(let app, let launch, let processID):
      let output = outputPath(app, launch)
      let isTaken = onWorker("/proc/self") { [mailbox] in
        let found = AppJobs.find(app: app, launch: launch, processID: processID, outputPath: output)
        mailbox.post(.app(.found(app: app, launch: launch, found)))
      }
      if !isTaken { mailbox.post(.app(.found(app: app, launch: launch, nil))) }
    }
  }

  private func launch(_ order: LaunchOrder) {
    let environment = launchEnvironment(order)
    let output = outputPath(order.app, order.number)
    let isTaken = onWorker(order.command.first ?? "/") { [mailbox] in
      mailbox.post(.app(.spawned(order, AppJobs.spawn(order, environment: environment, outputPath: output))))
    }
    if !isTaken { mailbox.post(.app(.spawned(order, .failed("The filesystem of the program does not answer.")))) }
  }

  /// Names that a launched app gets as the daemon has them.
  private static let inherited = [
    "HOME", "USER", "LOGNAME", "LANG", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS", "FERRY_HOME", "FERRY_DAEMON",
  ]

  /// Nothing but what `docs/Protocol.md` lists.
  private func launchEnvironment(_ order: LaunchOrder) -> [String: String] {
    var values = ["PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"]
    for name in Self.inherited {
      if let value = environment[name], !value.isEmpty { values[name] = value }
    }
    values["FERRY_APP_ID"] = order.app
    values["FERRY_LAUNCH"] = "\(order.number)"
    values["FERRY_LAUNCH_SESSION"] = order.session
    values["FERRY_LAUNCH_REASON"] = order.reason.rawValue
    // A client gives the session its own environment's way to the network, and must not take it away by having none.
    let key = SessionKey(app: order.app, identifier: order.session)
    if let network = core.sessions[key].flatMap({ core.sessions[$0]?.record.network }) {
      values["http_proxy"] = network.httpProxy
      values["https_proxy"] = network.httpsProxy
      values["no_proxy"] = network.noProxy.isEmpty ? nil : network.noProxy
      values["SSL_CERT_FILE"] = network.certificateFile
    }
    return values
  }

  private func end(_ app: String, _ launch: Int64, isForced: Bool) {
    guard let process = launchedApps.first(where: { $0.app == app && $0.launch == launch }) else { return }
    log.write(.notice, "Ending process \(process.processID) of app \(app)\(isForced ? " by force" : "").")
    do throws(SystemError) {
      try ChildProcess.signal(process.watch.raw, isForced ? SIGKILL : SIGTERM)
      // Its group is its own, and has its number for as long as it is not reaped.
      if isForced { ProcessTable.killGroup(ledBy: process.processID) }
    } catch {
      // It has ended by itself.
    }
  }

  // MARK: Reports

  func take(_ report: AppReport, _ now: ClockReading, _ effects: inout [Effect]) {
    func tell(_ event: AppEvent) { effects += core.handle(.app(event), at: now) }
    switch report {
    case .spawned(let order, .failed(let detail)):
      log.write(.warning, "App \(order.app): \(detail)")
      tell(.launchFailed(app: order.app, launch: order.number, detail: detail))
    case .spawned(let order, .spawned(let process)):
      log.write(.notice, "Launched app \(order.app) (\(order.number)) as process \(process.processID).")
      scopes.adopt(process.processID, watch: process.watch, app: order.app) { [mailbox] in
        mailbox.post(.app(.unscoped($0)))
      }
      watch(LaunchedApp(app: order.app, launch: order.number, process, isChild: true))
      tell(.launched(app: order.app, launch: order.number, processID: process.processID))
    case .found(let app, let launch, let process):
      if let process { watch(LaunchedApp(app: app, launch: launch, process, isChild: false)) }
      tell(.found(app: app, launch: launch, processID: process?.processID))
    case .ended(let app, let launch, let ending, let output):
      tell(.exited(app: app, launch: launch, ending, output: output))
    case .folder(let reading): take(reading, tell)
    case .output(let token, let app, let output): answerShow(app, token, output)
    case .trimmed: isTrimming = false
    case .unscoped(let failure):
      // The next launch would say the same.
      if failure != lastUnscoped {
        log.write(.notice, "Launched apps stay in the daemon's control group: \(failure.words).")
      }
      lastUnscoped = failure
    }
  }

  private func watch(_ process: LaunchedApp) {
    launchedApps.append(process)
    do throws(SystemError) {
      process.registration = try loop.register(descriptor: process.watch.raw, interest: .readable) {
        [unowned self, unowned process] _ in
        hasEnded(process)
      }
    } catch {
      log.write(.error, "Process \(process.processID) of app \(process.app) cannot be watched: \(error)")
    }
  }

  private func hasEnded(_ process: LaunchedApp) {
    if let registration = process.registration { loop.remove(registration) }
    launchedApps.removeAll { $0 === process }
    let (app, launch, processID, isChild) = (process.app, process.launch, process.processID, process.isChild)
    let path = outputPath(app, launch)
    _ = onWorker(path) { [mailbox] in
      let (ending, output) = AppJobs.end(processID, isChild: isChild, outputPath: path)
      mailbox.post(.app(.ended(app: app, launch: launch, ending, output: output)))
    }
  }

  // MARK: Files that register apps, files of output

  /// Makes the folders, so that they can be watched, and reads what registers apps.
  func watchApps() {
    let outputs = directories.state + "/apps"
    do throws(SystemError) {
      try Files.makePrivateDirectory(outputs)
      for name in Files.names(in: outputs) where name.hasSuffix(".output") && !isOfLivingLaunch(name) {
        try? Files.remove("\(outputs)/\(name)")
      }
      outputFolder = try appWatch.add(outputs, hearing: .writes)
      if let folder = AppFolder.path(environment) {
        try Files.makePrivateDirectory(folder)
        try appWatch.add(folder)
        appFolder = folder
      }
      _ = try loop.register(descriptor: appWatch.descriptor, interest: .readable) { [unowned self] _ in
        let news = appWatch.drain()
        if news.contains(where: { $0 != outputFolder }) { readAppFolder() }
        if news.contains(where: { $0 < 0 || $0 == outputFolder }) { trimOutputs() }
      }
    } catch {
      log.write(.warning, "Apps are not registered by files: \(error)")
    }
    readAppFolder()
  }

  private func isOfLivingLaunch(_ name: String) -> Bool {
    core.apps.cells.contains { cell in
      cell.launches.contains { launch in
        launch.endedAt == nil && name == Files.lastComponent(of: outputPath(cell.id, launch.number))
      }
    }
  }

  private func readAppFolder() {
    guard let folder = appFolder else { return }
    _ = onWorker(folder) { [mailbox] in mailbox.post(.app(.folder(AppFolder.read(folder)))) }
  }

  private func take(_ reading: AppFolder.Reading, _ tell: (AppEvent) -> Void) {
    for refused in reading.refused where !refusedRegistrations.contains(refused) {
      log.write(.warning, "\(refused.file) registers no app: \(refused.reason)")
    }
    refusedRegistrations = reading.refused
    tell(.registeredByFiles(reading.registrations))
  }

  /// An app that writes without end must not fill the disk.
  private func trimOutputs() {
    // One look at a time: what is written meanwhile is seen by the next.
    guard !isTrimming, !launchedApps.isEmpty else { return }
    isTrimming = true
    let paths = launchedApps.map { outputPath($0.app, $0.launch) }
    let isTaken = onWorker(directories.state) { [mailbox] in
      for path in paths { AppJobs.trim(path) }
      mailbox.post(.app(.trimmed))
    }
    if !isTaken { isTrimming = false }
  }

  // MARK: Requests

  /// Tells the core which process a connection belongs to, before it attaches to a session of the app.
  func noteProcess(of peer: Peer, app: String, _ now: ClockReading, _ effects: inout [Effect]) {
    effects += core.handle(
      .app(
        .connected(
          app: app, peer: peer.id, processID: peer.processID, launch: launchNumber(of: peer, app: app))), at: now)
  }

  private func launchNumber(of peer: Peer, app: String) -> Int64? {
    core.apps[app]?.record == nil ? nil : AppJobs.launch(of: peer.processID, app: app)
  }

  func take(
    _ request: AppRequest, _ token: RequestToken, from peer: Peer, _ now: ClockReading, _ effects: inout [Effect]
  ) throws(WireError) {
    func command(_ command: AppCommand) { effects += core.handle(.commanded(.app(command), token), at: now) }
    switch request {
    case .register(let parameters): command(.register(try RequestIntake.registration(parameters)))
    case .list: listApps(token, now)
    case .show(let parameters): try show(try RequestIntake.appID(parameters.app), token)
    case .remove(let parameters): command(.remove(try RequestIntake.appID(parameters.app)))
    case .front(let parameters): command(.front(try RequestIntake.appID(parameters.app)))
    case .forceQuit(let parameters): command(.forceQuit(try RequestIntake.appID(parameters.app)))
    case .attach(let parameters):
      let app = try RequestIntake.appID(parameters.app)
      let presence = try RequestIntake.presence(parameters.state)
      let launch = launchNumber(of: peer, app: app) ?? parameters.launch
      command(.attach(app, presence, processID: peer.processID, launch: launch))
    case .state(let parameters):
      command(
        .changeState(try RequestIntake.appID(parameters.app), try RequestIntake.presence(parameters.state)))
    case .handled(let parameters):
      command(
        .handled(
          try RequestIntake.appID(parameters.app), session: parameters.session, launch: parameters.launch))
    }
  }

  private func listApps(_ token: RequestToken, _ now: ClockReading) {
    let apps = core.apps.cells.compactMap { cell in
      Snapshot.make(cell, in: core, at: now, launches: cell.launches.suffix(1), output: nil)
    }
    respond(to: token, result: AppListResult(apps: apps, refused: refusedRegistrations))
  }

  private func show(_ app: String, _ token: RequestToken) throws(WireError) {
    guard core.apps[app]?.record != nil else {
      throw WireError(.appUnknown, "No app \"\(app)\" is registered; `ferry app list` shows those that are.")
    }
    guard let process = launchedApps.last(where: { $0.app == app }) else { return answerShow(app, token, nil) }
    let path = outputPath(app, process.launch)
    let isTaken = onWorker(path) { [mailbox] in
      mailbox.post(.app(.output(token, app: app, AppJobs.output(path))))
    }
    if !isTaken { answerShow(app, token, nil) }
  }

  private func answerShow(_ app: String, _ token: RequestToken, _ output: String?) {
    let now = Self.readClock(randomWord: 0)
    let running = launchedApps.last { $0.app == app }?.launch
    guard let cell = core.apps[app],
      let snapshot = Snapshot.make(
        cell, in: core, at: now, launches: cell.launches[...],
        output: output.flatMap { text in running.map { ($0, text) } })
    else { return respond(to: token, WireError(.appUnknown, "There is no app \"\(app)\" any more.")) }
    respond(to: token, result: AppShowResult(app: snapshot))
  }
}

/// The requests about apps.
enum AppRequest {
  case register(AppRegisterParameters)
  case list
  case show(AppParameters)
  case remove(AppParameters)
  case front(AppParameters)
  case forceQuit(AppParameters)
  case attach(AppAttachParameters)
  case state(AppStateParameters)
  case handled(AppHandledParameters)
}

/// A process that was launched, by this daemon or by one before it.
final class LaunchedApp {
  let app: String
  let launch: Int64
  let processID: Int32
  let isChild: Bool
  /// A pidfd.
  let watch: OwnedDescriptor
  var registration: EventLoop.Registration?

  init(app: String, launch: Int64, _ process: AppJobs.Spawned, isChild: Bool) {
    self.app = app
    self.launch = launch
    processID = process.processID
    watch = OwnedDescriptor(adopting: process.watch)
    self.isChild = isChild
  }
}
