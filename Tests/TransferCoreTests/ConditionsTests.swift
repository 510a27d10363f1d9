import Testing

@testable import TransferCore

@Suite struct ConditionsTests {
  static let offline = Conditions(network: .none)
  static let metered = Conditions(network: .available(isExpensive: true, isConstrained: false))
  static let marked = Conditions(network: .available(isExpensive: true, isConstrained: true))
  static let onBattery = Conditions(hasExternalPower: false, batteryPercent: 50)

  @Test(
    arguments: [
      (Conditions.unrestricted, Constraints.all),
      (offline, Constraints.all.subtracting(.network)),
      (metered, Constraints.all.subtracting(.unmetered)),
      (marked, Constraints.all.subtracting([.unmetered, .unconstrained])),
      (onBattery, Constraints.all.subtracting(.externalPower)),
      (Conditions(hasExternalPower: false, batteryPercent: 20), .all.subtracting([.externalPower, .batteryNotLow])),
      (Conditions(batteryPercent: 1), .all),
      (Conditions(isLowPower: true), .all.subtracting(.fullPower)),
      (Conditions(isIdle: false), .all.subtracting(.idle)),
      (Conditions.unknown, Constraints(rawValue: 0)),
      (Conditions(pending: [.idle, .network]), .all.subtracting([.idle, .network])),
    ] as [(Conditions, Constraints)])
  func conditionsMeetConstraints(_ conditions: Conditions, _ met: Constraints) {
    #expect(conditions.satisfied == met)
  }

  @Test(arguments: [
    ("http://localhost:80", true), ("https://a.localhost:443", true), ("http://127.0.0.1:80", true),
    ("http://127.9.8.7:8080", true), ("http://[::1]:80", true), ("http://127.0.0.1.example.org:80", false),
    ("http://127.1:80", false), ("http://localhost.example:80", false), ("http://[::2]:80", false), ("", false),
    ("http://10.0.0.1:80", false),
  ])
  func thisMachineItselfNeedsNoNetwork(_ origin: String, _ isLoopback: Bool) {
    #expect(Origin.isLoopback(origin) == isLoopback)
  }

  /// A task's constraint, what takes it away, and what a task on this machine itself makes of that.
  @Test(
    arguments: [
      (Constraints(rawValue: 0), offline, true), (.unmetered, metered, true), (.unmetered, marked, true),
      (.unmetered, offline, true),
      (.unconstrained, metered, false), (.unconstrained, marked, true), (.externalPower, onBattery, true),
      (.externalPower, metered, false), (.idle, Conditions(isIdle: false), true),
    ] as [(Constraints, Conditions, Bool)])
  func aTaskWaitsForWhatItRequires(_ required: Constraints, _ bad: Conditions, _ waits: Bool) {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.conditionsChanged(bad))
    let id = bench.add(.download().with { $0.constraints = required }, to: session)
    #expect((bench.state(id) == .waiting) == waits)
    #expect(bench.core.violations() == [])
    bench.handle(.conditionsChanged(.unrestricted))
    bench.advance(.seconds(1))
    bench.admit()
    #expect(bench.state(id)?.attempt != nil)
    #expect(bench.entry(id)?.attempts == 1 && bench.entry(id)?.failures == 0)
    #expect(bench.core.violations() == [])
  }

  @Test func theNetworkIsNoConditionOfThisMachineItself() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.conditionsChanged(Self.offline))
    let near = bench.add(.download("http://127.0.0.1:8080/f"), to: session)
    let far = bench.add(.download(), to: session)
    #expect(bench.state(near)?.attempt != nil && bench.state(far) == .waiting)
    let cautious = bench.add(.download("http://localhost/f").with { $0.constraints = .unmetered }, to: session)
    #expect(bench.state(cautious)?.attempt != nil)
  }

  @Test func aRunningTaskIsStoppedAndKeepsItsBytes() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.download().with { $0.constraints = .unmetered }, to: session)
    bench.openFiles(id)
    bench.respond(id, .ok(), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
    let attempt = bench.attempt(id)
    let effects = bench.handle(.conditionsChanged(Self.metered))
    #expect(effects.contains(.stop(attempt)))
    #expect(bench.state(id) == .waiting && bench.entry(id)?.received == 40)
    #expect(bench.entry(id)?.failures == 0 && bench.entry(id)?.notBefore == nil)
    #expect(bench.core.violations() == [])
    bench.handle(.conditionsChanged(.unrestricted))
    let order = bench.openFiles(id, held: 40)
    #expect(order?.request.headers["Range"] == "bytes=40-")
  }

  /// What the server may have acted on is not sent again; a data task's client must not get bytes twice.
  @Test func whatMustNotBeRepeatedIsNotStopped() {
    var bench = Bench()
    let session = bench.open()
    let post = bench.addUpload(.upload(method: "POST"), to: session)
    bench.openFiles(post)
    bench.handle(.progressed(bench.attempt(post), held: 0, sent: 50))
    let data = bench.add(.data().with { $0.constraints = .unmetered }, to: session)
    bench.openFiles(data, held: nil)
    bench.respond(data, .ok(), .takeWhole)
    bench.handle(.progressed(bench.attempt(data), held: 10, sent: 0))
    bench.handle(.conditionsChanged(Self.offline))
    #expect(bench.state(post)?.attempt != nil)
    #expect(bench.state(data) == .finished(.failed))
    let failure = data.flatMap { bench.core.residentDetails($0)?.progress.failure }
    #expect(failure?.code == .networkUnavailable && failure?.domain == "condition")
    #expect(bench.core.violations() == [])
  }

  /// A redirect that keeps the method says that the server did not act: the request waits, and begins again.
  @Test(arguments: [307, 303]) func aRedirectedRequestMayBeStoppedAgain(status: Int) {
    var bench = Bench()
    let session = bench.open()
    let post = bench.addUpload(.upload(method: "POST"), to: session)
    bench.openFiles(post)
    bench.handle(.progressed(bench.attempt(post), held: 0, sent: 50))
    bench.handle(.conditionsChanged(Self.offline))
    bench.respond(post, .ok(status: status), .redirect)
    bench.handle(
      .ended(bench.attempt(post), .redirected(location: "http://host.test/other"), requestWasSent: true))
    #expect(bench.state(post) == .waiting || status == 303)
    #expect(bench.state(post)?.attempt != nil || status == 307)
    #expect(bench.core.violations() == [])
  }

  /// Its order waits for the row: nothing was sent, and nothing will be.
  @Test func aRequestThatHasNotGoneOutIsStopped() throws {
    var bench = Bench()
    let session = bench.open()
    let post = try must(bench.add(.download(method: "POST"), to: session))
    let effects = bench.handle(.filesOpened(bench.attempt(post), OpenedFiles(partBytes: 0, freeBytes: nil)))
    let begin = try #require(effects.first { if case .begin(_, afterCommit: true) = $0 { true } else { false } })
    bench.handle(.conditionsChanged(Self.offline))
    #expect(bench.state(post) == .waiting)
    let isMeant = bench.core.isStillMeant(begin)
    #expect(!isMeant)
    #expect(bench.core.violations() == [])
  }

  /// Days without a network cost no attempt, and its return sends one task of a host ahead.
  @Test func theReturnOfTheNetworkReleasesNoHerd() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.conditionsChanged(Self.offline))
    let tasks = (0..<20).compactMap { _ in bench.add(.download(), to: session) }
    for _ in 0..<100 {
      bench.advance(.seconds(3600))
      bench.admit()
    }
    #expect(tasks.allSatisfy { bench.state($0) == .waiting && bench.entry($0)?.attempts == 0 })
    bench.handle(.conditionsChanged(.unrestricted))
    bench.advance(Limits.spreadOfReturn)
    bench.admit()
    let running = tasks.filter { bench.state($0)?.attempt != nil }
    #expect(running.count == 1)
    bench.openFiles(running.first)
    bench.respond(running.first, .ok(), .takeWhole)
    #expect(tasks.filter { bench.state($0)?.attempt != nil }.count == 6)
    #expect(bench.core.violations() == [])
  }

  @Test func oneLineThatIsBlockedHoldsUpNoOther() {
    var bench = Bench()
    let session = bench.open(limit: 1)
    bench.handle(.conditionsChanged(Self.metered))
    let blocked = bench.add(.download().with { ($0.constraints, $0.priority) = (.unmetered, 255) }, to: session)
    let free = bench.add(.download(), to: session)
    #expect(bench.state(blocked) == .waiting && bench.state(free)?.attempt != nil)
    // The slot that is given back goes to the higher priority when both may run.
    let third = bench.add(.download(), to: session)
    bench.handle(.conditionsChanged(.unrestricted))
    bench.command(.cancel([free].compactMap(\.self)))
    #expect(bench.state(blocked)?.attempt != nil && bench.state(third) == .waiting)
  }

  @Test func aDiscretionaryTaskWaitsForAGoodMomentAndNotForEver() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.conditionsChanged(Self.onBattery))
    let short = bench.add(
      .download().with { ($0.isDiscretionary, $0.resourceTimeout) = (true, .seconds(3600)) }, to: session)
    let week = bench.add(.download().with { $0.isDiscretionary = true }, to: session)
    #expect(bench.state(short) == .waiting && bench.state(week) == .waiting)
    bench.advance(.seconds(1799))
    bench.admit()
    #expect(bench.state(short) == .waiting)
    bench.advance(.seconds(1))
    bench.admit()
    #expect(bench.state(short)?.attempt != nil)
    bench.advance(.seconds(6 * 86_400 - 1801))
    bench.admit()
    #expect(bench.state(week) == .waiting)
    bench.advance(.seconds(2))
    bench.admit()
    #expect(bench.state(week)?.attempt != nil)
    bench.handle(.conditionsChanged(Self.metered))
    #expect(bench.state(week)?.attempt != nil)
    #expect(bench.core.violations() == [])
  }

  /// A pause stops the clock of the deadline; the task is discretionary anew when it goes on.
  @Test func aPauseGivesADiscretionaryTaskItsTimeBack() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.conditionsChanged(Self.onBattery))
    let id = bench.add(
      .download().with { ($0.isDiscretionary, $0.resourceTimeout) = (true, .seconds(100)) }, to: session)
    let ids = [id].compactMap(\.self)
    bench.advance(.seconds(51))
    bench.handle(.conditionsChanged(Self.offline))
    bench.admit()
    #expect(bench.state(id) == .waiting)
    bench.command(.suspend(ids))
    bench.command(.resume(ids))
    bench.handle(.conditionsChanged(Self.onBattery))
    bench.advance(.seconds(2))
    bench.admit()
    #expect(bench.state(id) == .waiting)
    #expect(bench.core.violations() == [])
    bench.handle(.conditionsChanged(.unrestricted))
    bench.advance(.seconds(1))
    bench.admit()
    #expect(bench.state(id)?.attempt != nil)
  }

  @Test func sizesThatItsOwnerExpectsAreLookedForOnTheDisk() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.download().with { $0.hintToReceive = 1000 }, to: session)
    #expect(bench.openFiles(id, free: 999) == nil)
    #expect(bench.state(id) == .waiting)
    let blockers = Self.blockers(bench, id)
    #expect(blockers.map(\.name) == [.space])
    bench.advance(Limits.spaceCheckInterval)
    bench.admit()
    #expect(bench.openFiles(id, free: 1000) != nil)
  }

  static func blockers(_ bench: Bench, _ id: TaskID?) -> [Blocker] {
    guard let id, let cell = bench.core.tasks[id] else { return [] }
    return bench.core.blockers(cell, bench.core.residentDetails(id), at: bench.now)
  }

  @Test func everyBlockerSaysSinceWhenAndWhatLiftsIt() throws {
    var bench = Bench()
    let session = bench.open(limit: 1)
    let first = bench.add(.download(), to: session)
    let second = bench.add(.download(), to: session)
    #expect(Self.blockers(bench, first) == [])
    #expect(Self.blockers(bench, second).map(\.name) == [.hostSlots])
    #expect(Self.blockers(bench, second).first?.since == bench.now.wall)
    let dated = bench.add(
      .download().with { [now = bench.now.wall] in $0.earliestBegin = now + .seconds(60) }, to: session)
    #expect(Self.blockers(bench, dated).map(\.name) == [.time])
    #expect(Self.blockers(bench, dated).first?.until == bench.now.wall + .seconds(60))
    bench.advance(.seconds(5))
    let lost = bench.now.wall
    bench.handle(.conditionsChanged(Conditions(network: .none, hasExternalPower: false)))
    bench.advance(.seconds(5))
    let late = bench.add(.download().with { $0.isDiscretionary = true }, to: session)
    let found = Self.blockers(bench, late)
    #expect(found.map(\.name) == [.network, .externalPower])
    #expect(found.map(\.since) == [bench.now.wall, bench.now.wall])
    #expect(found.map { $0.until != nil } == [false, true])
    #expect(Self.blockers(bench, second).map(\.since) == [lost])
    #expect(found.allSatisfy { !$0.cause.isEmpty && !$0.lifts.isEmpty })
    bench.command(.suspend([try #require(second)]))
    #expect(Self.blockers(bench, second).map(\.name) == [.paused])
    #expect(Self.blockers(bench, second).first?.since == bench.now.wall)
    bench.handle(.conditionsChanged(.unrestricted))
    bench.advance(.seconds(1))
    bench.admit()
    bench.fail(first)
    #expect(Self.blockers(bench, first).first.map { [.retry, .host].contains($0.name) } == true)
  }

  @Test func whatAnOwnerSaidCanBeTakenBack() throws {
    var bench = Bench()
    let session = bench.open()
    let date = bench.now.wall + .seconds(60)
    let added = bench.add(
      .download().with {
        ($0.earliestBegin, $0.taskDescription) = (date, "words")
        ($0.hintToSend, $0.hintToReceive) = (1, 2)
      }, to: session)
    let id = try #require(added)
    #expect(bench.core.residentDetails(id)?.progress.earliestBegin == date)
    var change = TaskChange()
    change.clears = Set(TaskChange.Clearable.allCases)
    bench.command(.update(id, change))
    let progress = bench.core.residentDetails(id)?.progress
    #expect(progress?.earliestBegin == nil && progress?.taskDescription == nil)
    #expect(progress?.hintToSend == nil && progress?.hintToReceive == nil)
    #expect(bench.state(id)?.attempt != nil)
  }

  /// A million tasks that wait for a condition: a change of conditions, and the admission of another task, look at none
  /// of them.
  @Test func tasksThatWaitForAConditionCostNothing() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.conditionsChanged(Self.metered))
    for _ in 0..<50 {
      bench.command(.enqueue(session, Array(repeating: .download().with { $0.constraints = .unmetered }, count: 2000)))
      _ = bench.core.takeChanges()
      _ = bench.take()
    }
    let clock = ContinuousClock()
    let time = clock.measure {
      for _ in 0..<1000 {
        bench.handle(.conditionsChanged(Self.marked))
        bench.handle(.conditionsChanged(Self.metered))
      }
    }
    // 2000 looks at 100,000 tasks would take minutes in a debug build.
    #expect(time < .seconds(5), "\(time)")
    #expect(bench.core.runningCount == 0)
    let other = bench.add(.download(), to: session)
    #expect(bench.state(other)?.attempt != nil)
  }
}
