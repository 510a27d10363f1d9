/// `ferry-simulate`: runs seeds, says what they went through, and makes the first that fails smaller.
package struct Program {
  package var seed: UInt64 = 1
  package var seeds = 1
  package var events = 10_000
  package var without: [FaultKind] = []
  package var always: [FaultKind] = []
  package var bug: PlantedBug?
  package var isTraced = false
  package var needsCoverage = false
  package var goesOn = false
  /// Names the sources that run, for whoever reads of a failure later.
  package var commit: String?
  /// Runs ``KnownSeeds`` in place of `seeds`.
  package var runsKnown = false

  package static let help = """
    Usage: ferry-simulate [--seed S] [--seeds K] [--events N] [--without FAULT,FAULT] [--with FAULT,FAULT]
                          [--bug BUG] [--trace]
                          [--require-coverage] [--keep-going] [--commit NAME]
           ferry-simulate --known [--commit NAME]

      --seed S             the first seed (1)
      --seeds K            run K seeds, S, S + 1 … (1)
      --events N           core events in each seed before faults stop (10000)
      --without FAULTS     kinds of faults that stay off
      --with FAULTS        kinds of faults that are on, and strike often
      --bug BUG            plant a known bug, to see whether it is found
      --trace              print what happens
      --require-coverage   fail when a state, event, effect, verdict or fault was never hit
      --keep-going         do not stop at the first seed that fails
      --known              run every seed that ever failed, as it was run then, and no other
      --commit NAME        what a failure is said to be of; else FERRY_COMMIT of the environment, where that is set

    Exit status: 0 all is well, 1 a rule did not hold or something was never hit, 64 wrong usage.
    """

  package init() {}

  /// Nil: the arguments are not understood; `problem` says why.
  package init?(arguments: [String], problem: inout String) {
    var rest = arguments[...]
    func number(_ name: String) -> Int? {
      guard let text = rest.popFirst(), let value = Int(text), value >= 0 else {
        problem = "\(name) needs a number."
        return nil
      }
      return value
    }
    while let argument = rest.popFirst() {
      switch argument {
      case "--seed":
        guard let value = number(argument) else { return nil }
        seed = UInt64(value)
      case "--seeds":
        guard let value = number(argument) else { return nil }
        seeds = value
      case "--events":
        guard let value = number(argument) else { return nil }
        events = value
      case "--without", "--with":
        for name in (rest.popFirst() ?? "").split(separator: ",") {
          guard let kind = FaultKind(name: String(name)) else {
            problem = "There is no fault \"\(name)\". Faults: \(FaultKind.allCases.map(\.name).joined(separator: " "))"
            return nil
          }
          if argument == "--with" { always.append(kind) } else { without.append(kind) }
        }
      case "--bug":
        let name = rest.popFirst() ?? ""
        guard let planted = PlantedBug(name: name) else {
          problem = "There is no bug \"\(name)\". Bugs: \(PlantedBug.allCases.map(\.name).joined(separator: " "))"
          return nil
        }
        bug = planted
      case "--trace": isTraced = true
      case "--require-coverage": needsCoverage = true
      case "--keep-going": goesOn = true
      case "--known": runsKnown = true
      case "--commit":
        guard let name = rest.popFirst(), !name.isEmpty else {
          problem = "--commit needs a name."
          return nil
        }
        commit = name
      default:
        problem = "Unknown argument \(argument)."
        return nil
      }
    }
  }

  /// Runs all seeds; the exit status.
  package func run(afterEachSeed: () -> Void = {}) -> Int32 {
    var coverage = Coverage()
    var total = 0
    var simulated = Duration.zero
    var failed = 0
    var history: UInt64 = 0
    let clock = ContinuousClock()
    let began = clock.now
    let wanted =
      runsKnown ? KnownSeeds.all.map { ($0.seed, $0.events) } : (0..<seeds).map { (seed &+ UInt64($0), events) }
    for (seed, events) in wanted {
      let options = SimulationOptions(
        seed: seed, events: events, without: without, always: always, bug: bug, isTraced: isTraced,
        isVerbose: isTraced)
      let report = Simulation(options).run()
      total += report.events
      simulated += report.simulated
      history = (history ^ report.traceHash) &* 0x100_0000_01B3
      coverage.add(report.coverage)
      defer { afterEachSeed() }
      guard report.checker != nil else { continue }
      failed += 1
      if goesOn {
        print("seed \(options.seed) of \(commit ?? "an unknown commit"): \(report.checker ?? ""): \(report.finding)")
      } else {
        print(Shrinking.explain(report))
        print("commit: \(commit ?? "unknown (set FERRY_COMMIT)")")
        break
      }
    }
    let elapsed = clock.now - began
    print(coverage.table)
    let rate =
      Double(total) / max(0.001, Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18)
    print(
      "\(total) events in \(wanted.count) seeds, \(simulated.components.seconds / 3600) h simulated, \(Int(rate)) events/s, "
        + "history \(String(history, radix: 16))"
    )
    if !coverage.missed.isEmpty { print("never hit: \(coverage.missed.joined(separator: ", "))") }
    if failed > 0 { print("\(failed) seeds failed") }
    return failed > 0 || (needsCoverage && !coverage.missed.isEmpty) ? 1 : 0
  }
}
