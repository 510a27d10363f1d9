/// Makes a failing seed smaller: fault kinds are dropped one after another, then the history is cut short.
package enum Shrinking {
  /// Runs spent on it at most.
  private static let budget = 150

  /// A smaller run in which the same rule does not hold.
  package static func shrink(_ failing: SimulationReport) -> SimulationReport {
    var best = failing
    var runs = 0
    func attempt(_ options: SimulationOptions) -> SimulationReport? {
      guard runs < budget else { return nil }
      runs += 1
      let report = Simulation(options).run()
      return report.checker == failing.checker ? report : nil
    }
    for kind in failing.enabledFaults {
      var options = best.options
      options.without.append(kind)
      options.isVerbose = false
      if let smaller = attempt(options) { best = smaller }
    }
    var isShorter = true
    while isShorter {
      isShorter = false
      for part in [best.events / 4, best.events / 2, best.events * 3 / 4, best.events - 1]
      where part >= 0 && part < best.events {
        var options = best.options
        options.events = part
        if let smaller = attempt(options), smaller.events < best.events {
          best = smaller
          isShorter = true
          break
        }
      }
    }
    return best
  }

  /// What a person needs to see the failure again and to understand it.
  package static func explain(_ failing: SimulationReport) -> String {
    var options = shrink(failing).options
    options.isTraced = true
    let report = Simulation(options).run()
    let without = options.without.isEmpty ? "" : " --without \(options.without.map(\.name).joined(separator: ","))"
    let always = options.always.isEmpty ? "" : " --with \(options.always.map(\.name).joined(separator: ","))"
    let bug = options.bug.map { " --bug \($0.name)" } ?? ""
    let arguments = "--seed \(options.seed) --events \(options.events)\(without)\(always)\(bug)"
    return """
      seed \(options.seed) fails: \(failing.checker ?? ""): \(failing.finding)
      made smaller (\(report.events) events, faults \(report.enabledFaults.map(\.name).joined(separator: " "))):
      \(report.tail.suffix(120).joined(separator: "\n"))
      replay: ferry-simulate \(arguments) --trace
      """
  }
}
