import Testing

@testable import TransferCore

/// A bench with a registered app, whose session "s" is attached by a person's process until it dies.
private struct LaunchBench {
  var bench = Bench()
  var store = ModelStore()
  let session: SessionID
  static let person = PeerID(rawValue: 1)

  init(registers: Bool = true) {
    bench.handle(.app(.connected(app: "app", peer: Self.person, processID: 100, launch: nil)))
    if registers {
      bench.command(.app(.register(AppRegistration(id: "app", command: ["/bin/app", "-x"], taskIdentifiers: ["t"]))))
    }
    session = bench.open()
    commit()
  }

  /// Its one download has ended while the app was away, and the app was started for it.
  static func launchedOnce() -> LaunchBench {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    _ = world.orders()
    world.launched(1)
    return world
  }

  mutating func commit() {
    for problem in store.apply(bench.core.takeChanges()) { Issue.record("\(problem)") }
    for violation in bench.core.violations() { Issue.record("\(violation)") }
  }

  mutating func download(_ count: Int = 1) -> [TaskID] {
    (0..<count).compactMap { _ in bench.add(.download(), to: session) }
  }

  mutating func finish(_ id: TaskID) {
    if bench.entry(id)?.state.attempt == nil { bench.admit() }
    bench.openFiles(id)
    bench.respond(id, .ok(), .takeWhole)
    bench.handle(
      .ended(
        bench.attempt(id), .complete(TransferSummary(held: 100, isLengthVerified: true)), requestWasSent: true))
    bench.handle(.finalized(id, .placed(path: "/state/Downloads/app/ferry-\(id).tmp", bytes: 100, sha256: nil)))
  }

  /// The process behind the connection ends.
  mutating func leave(_ peer: PeerID = person) { bench.handle(.peerLeft(peer)) }

  mutating func orders() -> [LaunchOrder] {
    commit()
    return bench.take().compactMap { effect in
      if case .app(.launch(let order)) = effect, bench.core.isStillMeant(effect) { order } else { nil }
    }
  }

  mutating func apps() -> [AppEffect] {
    commit()
    return bench.take().compactMap { if case .app(let effect) = $0 { effect } else { nil } }
  }

  var cell: AppCell? { bench.core.apps["app"] }
  var last: LaunchRecord? { cell?.launches.last }

  mutating func launched(_ number: Int64, _ processID: Int32 = 200) {
    bench.handle(.app(.launched(app: "app", launch: number, processID: processID)))
  }

  mutating func exited(_ number: Int64, _ ending: ProcessEnding = .exited(code: 0)) {
    bench.handle(.app(.exited(app: "app", launch: number, ending, output: "bye")))
  }

  /// The second search finds no process either.
  mutating func notFound() {
    bench.handle(.app(.found(app: "app", launch: 1, processID: nil)))
    pass(.zero)
  }

  /// The launched process connects and attaches.
  mutating func attach(_ number: Int64?, _ processID: Int32 = 200, peer: Int64 = 9) {
    let peer = PeerID(rawValue: peer)
    bench.handle(.app(.connected(app: "app", peer: peer, processID: processID, launch: number)))
    _ = bench.open(peer: peer)
  }

  mutating func acknowledgeAll(_ peer: Int64 = 9) {
    let numbers = bench.core.sessions[session]?.deliveries.records.map(\.number) ?? []
    bench.command(.acknowledge(session, numbers), peer: PeerID(rawValue: peer))
  }

  mutating func pass(_ duration: Duration) {
    bench.advance(duration)
    bench.admit()
  }
}

@Suite struct LaunchTests {
  /// What `app.show` says of it.
  private func reason(_ world: LaunchBench) -> String? {
    world.cell.map { world.bench.core.launchReason($0, at: world.bench.now) }
  }

  @Test func thePageSaysWhenTheNextLaunchMayCome() {
    var world = LaunchBench.launchedOnce()
    world.exited(1)
    _ = world.orders()
    #expect(reason(world)?.hasSuffix("the next launch may come in 1 min 0 s.") == true)
  }

  @Test func aLaunchThatCannotBeRecordedSaysWhatItWaitsFor() {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    #expect(world.orders().count == 1)
    #expect(reason(world) == "It is being started.")
    world.bench.handle(.storeChanged(degraded: "The disk is full."))
    #expect(reason(world) == "It is started when the daemon can store its state again: The disk is full.")
  }

  @Test func aRegistrationThatChangesNothingIsTakenWhileNothingCanBeStored() {
    var bench = Bench()
    let known = AppRegistration(id: "app", command: ["/bin/app", "-x"])
    bench.command(.app(.register(known)))
    for isWriting in [false, true] {
      bench.handle(.storeChanged(degraded: "The disk is full.", isWriting: isWriting))
      #expect(bench.command(.app(.register(known))) == .done)
      for new in [AppRegistration(id: "app", command: ["/bin/app"]), AppRegistration(id: "b", command: ["/b"])] {
        guard case .refused(let refusal)? = bench.command(.app(.register(new))) else {
          Issue.record("\(new) was taken")
          continue
        }
        #expect(refusal.name == .degraded)
      }
    }
  }

  @Test func anAppIsLaunchedOnceWhenTheLastOfItsTasksHasEnded() {
    var world = LaunchBench()
    let ids = world.download(3)
    world.leave()
    world.finish(ids[0])
    world.finish(ids[1])
    #expect(world.orders().isEmpty)
    world.finish(ids[2])
    let orders = world.orders()
    #expect(
      orders == [
        LaunchOrder(app: "app", number: 1, command: ["/bin/app", "-x"], session: "s", reason: .sessionEvents)
      ])
    world.launched(1)
    world.attach(1)
    #expect(world.last?.attachedAt != nil)
    world.acknowledgeAll()
    world.bench.command(.app(.handled("app", session: "s", launch: 1)), peer: PeerID(rawValue: 9))
    #expect(world.last?.outcome == .handled)
    world.leave(PeerID(rawValue: 9))
    world.exited(1)
    #expect(world.last?.detail.contains("exit status 0") == true)
    #expect(world.last?.output == "bye")
    world.pass(.seconds(3600))
    #expect(world.orders().isEmpty)
    #expect(world.cell?.record?.delay == .zero, "a whole delay passed without a launch")
    #expect(!world.bench.core.hasUnfinishedWork)
  }

  @Test func delaysDoubleUntilItAttachesAndCollects() {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    var moments: [Int64] = []
    for number in Int64(1)...12 {
      var waited = 0
      while world.orders().isEmpty {
        guard let due = world.bench.core.nextDeadline else { break }
        world.pass(max(due - world.bench.now.boot, .milliseconds(1)))
        waited += 1
        if waited > 10 { break }
      }
      moments.append(world.bench.boot / 1_000_000_000)
      world.launched(number, Int32(number) + 200)
      world.exited(number, .signalled(number: 11))
      #expect(world.last?.outcome == .exitedEarly)
      #expect(world.last?.detail == "It ended with signal 11 before it attached to its session.")
    }
    let gaps = zip(moments.dropFirst(), moments).map { $0 - $1 }
    #expect(gaps == [60, 120, 240, 480, 960, 1920, 3840, 7680, 14400, 14400, 14400])
    #expect(world.cell?.launches.count == 12)
  }

  /// The disk did not take the decision for a while.
  @Test func theDelayRunsFromTheStartOfTheProcess() {
    for starts in [true, false] {
      var world = LaunchBench()
      let ids = world.download()
      world.leave()
      world.finish(ids[0])
      #expect(world.orders().map(\.number) == [1])
      world.pass(.seconds(200))
      if starts {
        world.launched(1)
        world.exited(1, .exited(code: 1))
      } else {
        world.bench.handle(.app(.launchFailed(app: "app", launch: 1, detail: "no such file")))
      }
      world.pass(.seconds(59))
      #expect(world.orders().isEmpty)
      world.pass(.seconds(1))
      #expect(world.orders().map(\.number) == [2])
    }
  }

  @Test func aPersonWhoOpensTheAppResetsTheBudget() {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    #expect(world.orders().count == 1)
    world.launched(1)
    world.exited(1)
    #expect(world.orders().isEmpty)
    world.bench.command(.app(.front("app")))
    #expect(world.orders().map(\.number) == [2])
    #expect(world.cell?.record?.delay == .seconds(60))
  }

  @Test func aHangingAppIsEndedAfterItsGrant() {
    var world = LaunchBench.launchedOnce()
    world.pass(.seconds(29))
    #expect(world.apps().isEmpty)
    world.pass(.seconds(1))
    #expect(world.apps() == [.end(app: "app", launch: 1, isForced: false)])
    world.pass(.seconds(5))
    #expect(world.apps() == [.end(app: "app", launch: 1, isForced: true)])
    world.exited(1, .signalled(number: 9))
    #expect(world.last?.outcome == .ended)
    #expect(world.last?.detail == "It did not attach to its session within 30 s, and was ended.")
    #expect(world.orders().isEmpty)
    world.pass(.seconds(25))
    #expect(world.orders().map(\.number) == [2])
  }

  @Test func anAppThatCollectsAndExitsWithoutAReportIsFine() {
    var world = LaunchBench.launchedOnce()
    world.attach(1)
    // Its end is heard of before its last words.
    world.exited(1)
    #expect(world.last?.outcome == nil)
    world.acknowledgeAll()
    world.leave(PeerID(rawValue: 9))
    #expect(world.last?.outcome == .collected)
    world.pass(.seconds(60))
    #expect(world.orders().isEmpty)
  }

  @Test func nobodyIsLaunchedWithoutARegistrationOrAgainstItsWish() {
    var stranger = LaunchBench(registers: false)
    let ids = stranger.download()
    stranger.leave()
    stranger.finish(ids[0])
    #expect(stranger.orders().isEmpty)

    var world = LaunchBench()
    let own = world.download()
    let reply = world.bench.command(
      .openSession(
        SessionKey(app: "app", identifier: "s"), attach: true, collectsResults: true, network: NetworkSettings(),
        sendsLaunchEvents: false))
    guard case .sessionOpened? = reply else { return #expect(Bool(false)) }
    world.leave()
    world.finish(own[0])
    #expect(world.orders().isEmpty)
    // Registered later, an app is launched for what waits.
    stranger.bench.command(.app(.register(AppRegistration(id: "app", command: ["/bin/late"]))))
    #expect(stranger.orders().map(\.command) == [["/bin/late"]])
  }

  @Test func anAppInTheForegroundIsNotLaunched() {
    var world = LaunchBench()
    let ids = world.download()
    world.bench.command(.closeSession(world.session))
    world.finish(ids[0])
    #expect(world.orders().isEmpty)
    world.leave()
    #expect(world.orders().count == 1)
  }

  @Test func aProcessInTheBackgroundIsWokenInPlaceOfALaunch() {
    var world = LaunchBench()
    let ids = world.download()
    world.bench.command(.closeSession(world.session))
    world.bench.command(.app(.attach("app", .background, processID: 100, launch: nil)))
    world.finish(ids[0])
    #expect(world.apps() == [.wake(LaunchBench.person, app: "app", session: "s", launch: 1, .sessionEvents)])
    world.pass(.seconds(30))
    #expect(world.apps().isEmpty, "a person's process is not ended")
    #expect(world.last?.outcome == .notHandled)
    world.pass(.seconds(30))
    #expect(world.apps().count == 1)
    _ = world.bench.open()
    world.acknowledgeAll(1)
    world.bench.command(.app(.handled("app", session: "s", launch: nil)))
    #expect(world.last?.outcome == .handled)
  }

  @Test func tasksOfAnAppInTheBackgroundWaitForItsBudget() {
    var world = LaunchBench.launchedOnce()
    world.attach(1)
    world.acknowledgeAll()
    let made = world.bench.command(.enqueue(world.session, [.download()]), peer: PeerID(rawValue: 9))?.accepted.first
    let entry = world.bench.entry(made)
    #expect(entry?.isDiscretionary == true)
    #expect(entry?.notBefore == world.bench.now.wall + .seconds(60))
    world.pass(.seconds(59))
    #expect(world.bench.state(made) == .waiting)
    world.pass(.seconds(2))
    #expect(world.bench.state(made)?.attempt != nil)
  }

  @Test func forceQuitCancelsAndKeepsFromLaunchesUntilTheAppIsOpened() {
    var world = LaunchBench()
    let ids = world.download(2)
    world.leave()
    world.finish(ids[0])
    world.bench.command(.app(.forceQuit("app")))
    #expect(world.bench.state(ids[1]) == .finished(.cancelled))
    #expect(world.bench.core.residentDetails(ids[1])?.progress.cancelCause == .forceQuit)
    world.pass(.seconds(7200))
    #expect(world.orders().isEmpty)
    #expect(!world.bench.core.hasUnfinishedWork)
    world.bench.command(.app(.front("app")))
    #expect(world.orders().count == 1)
    // What was launched is ended with it; what a person started is not.
    world.launched(1)
    world.bench.command(.app(.forceQuit("app")))
    #expect(world.apps() == [.end(app: "app", launch: 1, isForced: false)])
    #expect(world.last?.outcome == .superseded)
    world.pass(.seconds(5))
    #expect(world.apps() == [.end(app: "app", launch: 1, isForced: true)])
    world.exited(1, .signalled(number: 9))
    #expect(world.cell?.processes.isEmpty == true && world.cell?.current == nil)
    let reply = world.bench.command(.app(.forceQuit("nobody")))
    guard case .refused(let refusal)? = reply else { return #expect(Bool(false)) }
    #expect(refusal.name == .appUnknown)
  }

  @Test func aChallengeLaunchesTheApp() {
    var world = LaunchBench()
    let ids = world.download(2)
    world.leave()
    world.bench.openFiles(ids[0])
    let failure = TransferFailure(.credentialsRequired, .permanent, detail: "401")
    world.bench.respond(ids[0], .ok(status: 401), .ask(failure))
    world.bench.handle(.ended(world.bench.attempt(ids[0]), .discarded, requestWasSent: true))
    #expect(world.bench.state(ids[0]) == .asking)
    #expect(world.orders().map(\.reason) == [.challenge])
  }
}

@Suite struct LaunchRestartTests {
  private func restarted(_ world: LaunchBench, after duration: Duration = .zero) -> LaunchBench {
    var next = world
    next.commit()
    next.bench.advance(duration)
    let (core, effects) = Core.restoring(next.store.state, Bench.configuration, at: next.bench.now)
    next.bench.core = core
    next.bench.effects = effects
    return next
  }

  @Test func whatWaitsIsLaunchedOnceAfterARestart() {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    // The order was decided, and the daemon died before it was carried out.
    world = restarted(world)
    #expect(world.bench.take().contains(.app(.find(app: "app", launch: 1, processID: nil))))
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: nil)))
    #expect(world.orders().isEmpty)
    world.pass(.seconds(5))
    #expect(world.apps() == [.find(app: "app", launch: 1, processID: nil)])
    world.notFound()
    #expect(world.orders().map(\.number) == [1], "it is the same launch")
    world.pass(.seconds(600))
    #expect(world.orders().isEmpty)
  }

  /// The daemon died between the deed and its record, and its process was not to be told from others yet.
  @Test func aProcessThatShowsLateIsNotJoinedByASecondOne() {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    world = restarted(world)
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: nil)))
    world.pass(.seconds(5))
    #expect(world.orders().isEmpty)
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: 200)))
    world.pass(.seconds(10))
    #expect(world.orders().isEmpty)
    #expect(world.last?.processID == 200)
  }

  /// Seed 210000375: the person's process ended, another launch was decided, and the daemon died before it heard of the
  /// first one's process.
  @Test func aLaunchThatAPersonCameBeforeIsLookedForAfterARestart() {
    var world = LaunchBench()
    let ids = world.download()
    world.leave()
    world.finish(ids[0])
    #expect(world.orders().map(\.number) == [1])
    // It comes to the front while that launch is under way, and ends without taking anything.
    world.attach(nil, 300)
    #expect(world.cell?.current == nil)
    #expect(world.last?.outcome == .superseded)
    world.leave(PeerID(rawValue: 9))
    #expect(world.orders().map(\.number) == [2])
    world = restarted(world)
    let finds = world.bench.take()
    #expect(finds.contains(.app(.find(app: "app", launch: 2, processID: nil))))
    #expect(finds.contains(.app(.find(app: "app", launch: 1, processID: nil))))
    // The process of the first is there, and is told of what waits in place of a second one.
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: 200)))
    for _ in 0..<2 {
      world.bench.handle(.app(.found(app: "app", launch: 2, processID: nil)))
      world.pass(.seconds(5))
    }
    #expect(world.orders().isEmpty)
  }

  @Test func aProcessThatOutlivedTheDaemonIsFoundAgain() {
    var world = LaunchBench.launchedOnce()
    world = restarted(world)
    #expect(world.bench.take().contains(.app(.find(app: "app", launch: 1, processID: 200))))
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: 200)))
    world.attach(1)
    world.pass(.seconds(10))
    #expect(world.orders().isEmpty)
    world.acknowledgeAll()
    world.leave(PeerID(rawValue: 9))
    world.exited(1, .unknown)
    #expect(world.last?.outcome == .collected)
  }

  /// Seed 50000910: else a second process is started beside it.
  @Test func aProcessThatWasWokenIsLookedForAfterARestart() {
    var world = LaunchBench.launchedOnce()
    world.pass(.seconds(30))
    world = restarted(world)
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: 200)))
    world.pass(.seconds(35))
    #expect(world.last?.isWake == true)
    #expect(world.last?.outcome == nil)
    world = restarted(world)
    #expect(world.bench.take().contains(.app(.find(app: "app", launch: 1, processID: 200))))
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: 200)))
    world.pass(.seconds(600))
    #expect(world.orders().isEmpty)
  }

  /// Else the daemon turns without end until its grace is over.
  @Test func aBudgetThatOpenedMeanwhileIsNotDueDuringTheGrace() throws {
    let world = restarted(LaunchBench.launchedOnce(), after: .seconds(61))
    let due = try #require(world.bench.core.nextDeadline)
    #expect(due > world.bench.now.boot)
  }

  @Test func aProcessThatIsGoneIsNotWaitedFor() {
    var world = LaunchBench.launchedOnce()
    world = restarted(world)
    world.bench.handle(.app(.found(app: "app", launch: 1, processID: nil)))
    world.pass(.seconds(5))
    world.notFound()
    #expect(world.last?.outcome == .lost)
    #expect(world.orders().isEmpty, "the budget outlives the daemon")
    world.pass(.seconds(55))
    #expect(world.orders().map(\.number) == [2])
    #expect(world.cell?.record?.delay == .seconds(120))
  }

  @Test func aForcedQuitOutlivesTheDaemon() {
    var world = LaunchBench()
    _ = world.download()
    world.leave()
    world.bench.command(.app(.forceQuit("app")))
    world = restarted(world)
    world.pass(.seconds(600))
    #expect(world.orders().isEmpty)
    #expect(world.cell?.record?.isForceQuit == true)
  }
}
