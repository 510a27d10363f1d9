import Testing

@testable import TransferSimulation

/// Seeds that run on each build; `.ci/run` runs a million events more in a release build.
@Suite struct SimulationTests {
  @Test(arguments: [UInt64(1), 9, 17])
  func theDaemonKeepsItsPromises(first: UInt64) {
    for seed in first..<(first + 3) {
      let report = Simulation(SimulationOptions(seed: seed, events: 1500)).run()
      if report.checker != nil { Issue.record("\(Shrinking.explain(report))") }
    }
  }

  /// Seeds in which a rule once did not hold.
  @Test(arguments: KnownSeeds.all)
  func whatFailedOnceHolds(known: KnownSeeds.Seed) {
    let report = Simulation(SimulationOptions(seed: known.seed, events: known.events)).run()
    if report.checker != nil { Issue.record("\(Shrinking.explain(report))") }
  }

  @Test func oneSeedHasOneHistory() {
    let options = SimulationOptions(seed: 5, events: 2000)
    let first = Simulation(options).run()
    let second = Simulation(options).run()
    #expect(first.traceHash == second.traceHash)
    #expect(first.events == second.events)
    #expect(Simulation(SimulationOptions(seed: 6, events: 2000)).run().traceHash != first.traceHash)
  }

  @Test func tracingChangesNothing() {
    let plain = Simulation(SimulationOptions(seed: 8, events: 1000)).run()
    let traced = Simulation(SimulationOptions(seed: 8, events: 1000, isTraced: true)).run()
    #expect(plain.traceHash == traced.traceHash)
    #expect(!traced.tail.isEmpty)
  }

  @Test func aWorldWithoutFaultsHasNone() {
    let report = Simulation(SimulationOptions(seed: 3, events: 1000, without: FaultKind.allCases)).run()
    #expect(report.checker == nil, "\(report.finding)")
    #expect(report.coverage.faults.allSatisfy { $0 == 0 })
    #expect(report.enabledFaults.isEmpty)
  }

  @Test func theProgramUnderstandsItsArguments() {
    var problem = ""
    let program = Program(
      arguments: ["--seed", "7", "--events", "10", "--seeds", "2", "--without", "stall,reboot", "--bug", "slotLeaked"],
      problem: &problem)
    #expect(program?.seed == 7 && program?.events == 10 && program?.seeds == 2)
    #expect(program?.without == [.stall, .reboot] && program?.bug == .slotLeaked)
    #expect(Program(arguments: ["--seed", "x"], problem: &problem) == nil)
    #expect(problem == "--seed needs a number.")
    #expect(Program(arguments: ["--without", "rain"], problem: &problem) == nil)
    #expect(problem.hasPrefix("There is no fault \"rain\"."))
  }

  @Test func theProgramKnowsTheSeedsThatFailedAndItsCommit() {
    var problem = ""
    let program = Program(arguments: ["--known", "--commit", "abc1234"], problem: &problem)
    #expect(program?.runsKnown == true && program?.commit == "abc1234")
    #expect(Program(arguments: ["--commit"], problem: &problem) == nil)
    #expect(problem == "--commit needs a name.")
    #expect(KnownSeeds.all.allSatisfy { !$0.reason.isEmpty && $0.events > 0 })
  }

  @Test func everyDateIsReadAsItWasWritten() {
    for seconds in stride(from: Int64(0), to: 4_000_000_000, by: 86_399 * 97) {
      #expect(HTTPDateText.isUnderstood(seconds), "\(seconds)")
    }
  }
}

extension KnownSeeds.Seed: CustomTestStringConvertible {
  /// The seed and its events.
  public var testDescription: String { "seed \(seed), \(events) events" }
}
