import Testing

@testable import TransferCore

/// A program that waits does not wait in silence for a network that it may use.
@Suite struct ForegroundConditionsTests {
  private static let metered = Conditions(network: .available(isExpensive: true, isConstrained: false))
  private static let unknown = Conditions(pending: .all.subtracting(.network))

  private static func open(_ bench: inout Bench, waits: Bool) throws -> SessionID {
    let reply = bench.command(
      .foreground(
        .open(SessionKey(app: "app", identifier: "f"), network: NetworkSettings(), waitsForConnectivity: waits)))
    guard case .sessionOpened(let id, _, _)? = reply else { throw QuestionTests.Missing() }
    return id
  }

  private static func add(_ bench: inout Bench, _ session: SessionID, _ draft: TaskDraft = .data()) -> TaskID? {
    bench.add(draft.with { ($0.constraints, $0.statusRule) = (.unmetered, .any) }, to: session)
  }

  private static func failure(_ bench: Bench, _ id: TaskID?) -> TransferFailure? {
    id.flatMap { bench.core.residentDetails($0)?.progress.failure }
  }

  /// How often the program heard that the task waits, since it was asked last.
  private static func told(_ bench: inout Bench, _ id: TaskID?) -> Int {
    bench.take().count { $0 == id.map { .foreground(.awaitsConnectivity($0)) } }
  }

  @Test func itFailsAndSaysWhatIsMissing() throws {
    var bench = Bench()
    let session = try Self.open(&bench, waits: false)
    bench.handle(.conditionsChanged(Self.metered))
    let cautious = Self.add(&bench, session)
    let other = bench.add(.data(), to: session)
    #expect(bench.state(cautious) == .finished(.failed) && bench.state(other)?.attempt != nil)
    let failure = Self.failure(bench, cautious)
    #expect(failure?.code == .networkUnavailable && failure?.domain == "condition")
    #expect(failure?.number == Int(Constraints.unmetered.rawValue))
    #expect(bench.core.violations() == [])
  }

  @Test func whatIsBeingLookedAtIsJudgedWhenItIsKnown() throws {
    for isMetered in [false, true] {
      var bench = Bench()
      let session = try Self.open(&bench, waits: false)
      bench.handle(.conditionsChanged(Self.unknown))
      let id = Self.add(&bench, session)
      bench.admit()
      #expect(bench.state(id) == .waiting)
      bench.handle(.conditionsChanged(isMetered ? Self.metered : .unrestricted))
      #expect((bench.state(id) == .finished(.failed)) == isMetered)
      #expect((bench.state(id)?.attempt != nil) == !isMetered)
      #expect(bench.core.violations() == [])
    }
  }

  @Test func aSessionThatWaitsIsToldAndBeginsWhenTheNetworkAllowsIt() throws {
    var bench = Bench()
    let session = try Self.open(&bench, waits: true)
    bench.handle(.conditionsChanged(Self.unknown))
    let id = Self.add(&bench, session)
    #expect(Self.told(&bench, id) == 0)
    bench.handle(.conditionsChanged(Self.metered))
    #expect(bench.state(id) == .waiting && Self.told(&bench, id) == 1)
    bench.admit()
    #expect(Self.told(&bench, id) == 0)
    bench.handle(.conditionsChanged(.unrestricted))
    #expect(bench.state(id)?.attempt != nil && Self.told(&bench, id) == 0)
    #expect(bench.core.violations() == [])
  }

  @Test func aTaskIsJudgedNoEarlierThanItCouldBegin() throws {
    var bench = Bench()
    let session = try Self.open(&bench, waits: false)
    bench.handle(.conditionsChanged(Self.metered))
    let suspended = Self.add(&bench, session, .data().with { $0.isSuspended = true })
    let later = Self.add(&bench, session, .data().with { $0.earliestBegin = bench.now.wall + .seconds(60) })
    #expect(bench.state(suspended) == .suspended && bench.state(later) == .waiting)
    // A change of something else is no reason to look at it.
    bench.handle(.conditionsChanged(Conditions(network: Self.metered.network, isIdle: false)))
    #expect(bench.state(later) == .waiting)
    bench.command(.resume([suspended].compactMap { $0 }))
    #expect(bench.state(suspended) == .finished(.failed))
    bench.advance(.seconds(61))
    bench.admit()
    #expect(bench.state(later) == .finished(.failed))
    #expect(bench.core.violations() == [])
  }

  @Test func oneThatRunsFailsWhenItsNetworkBecomesExpensive() throws {
    for waits in [false, true] {
      var bench = Bench()
      let session = try Self.open(&bench, waits: waits)
      let id = Self.add(&bench, session, .download())
      bench.openFiles(id)
      bench.respond(id, .ok(), .takeWhole)
      bench.handle(.progressed(bench.attempt(id), held: 10, sent: 0))
      let attempt = bench.attempt(id)
      let effects = bench.handle(.conditionsChanged(Self.metered))
      #expect(effects.contains(.stop(attempt)) && bench.state(id) == .finished(.failed))
      #expect(Self.failure(bench, id)?.number == Int(Constraints.unmetered.rawValue))
      #expect(bench.core.violations() == [])
    }
  }

  /// Its failure could not be told, were its details not asked for first.
  @Test func aTaskWhoseDetailsAreAwayFailsWhenTheyAreThere() throws {
    var bench = Bench()
    let session = try Self.open(&bench, waits: false)
    bench.handle(.conditionsChanged(Self.unknown))
    let id = try #require(Self.add(&bench, session))
    let held = bench.core.residentDetails(id)
    _ = bench.core.takeChanges()
    bench.core.rest()
    try #require(bench.core.residentDetails(id) == nil)
    let effects = bench.handle(.conditionsChanged(Self.metered))
    #expect(effects.contains(.loadDetails(id)) && bench.state(id) == .waiting)
    bench.handle(.detailsLoaded(id, held))
    #expect(bench.state(id) == .finished(.failed) && Self.failure(bench, id) != nil)
    #expect(bench.core.violations() == [])
  }
}
