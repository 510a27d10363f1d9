/// Every seed in which a rule once did not hold, with why. A seed that fails is added here, and stays: `ferry-simulate
/// --known` and the tests run them all.
package enum KnownSeeds {
  package struct Seed: Sendable {
    package var seed: UInt64
    package var events: Int
    /// What was wrong, in the core or in the simulation itself.
    package var reason: String
  }

  package static let all: [Seed] = [
    Seed(seed: 3, events: 1500, reason: found),
    Seed(
      seed: 10, events: 4000,
      reason: "A launch budget that had opened was due without end while a restarted daemon looked for its apps."),
    Seed(
      seed: 221, events: 4000,
      reason: "A request that a redirect had answered asked for credentials, and was sent again with them."),
    Seed(
      seed: 106, events: 4000,
      reason: "A request whose order waited for a commit began after its conditions were lost."),
    Seed(
      seed: 40, events: 4000,
      reason: "A launch whose decision took long to become durable cost the app no delay after its start."),
    Seed(
      seed: 46, events: 4000,
      reason: "An announcement that waited for its commit told a newer state, which was not durable."),
    Seed(
      seed: 77, events: 4000,
      reason: "A failed placement left what it had decoded beside a part file that is kept."),
    Seed(seed: 18, events: 1500, reason: found),
    Seed(
      seed: 17, events: 4000,
      reason: "A launched process of the simulation ended for good when faults had stopped, its tasks suspended."),
    Seed(seed: 33, events: 1500, reason: found),
    Seed(seed: 98, events: 1500, reason: found),
    Seed(
      seed: 105, events: 2500,
      reason: "The simulation forgot the removal with which a daemon died, and blamed the next one for the file."),
    Seed(seed: 223, events: 4000, reason: "A launch delay of nothing was restored."),
    Seed(seed: 1017, events: 1500, reason: found),
    Seed(
      seed: 1077, events: 4000, reason: "A pause was undone by an earlier wish to go on of the same client."),
    Seed(seed: 1080, events: 1500, reason: found),
    Seed(seed: 3_000_361, events: 4000, reason: swept),
    Seed(seed: 3_000_958, events: 4000, reason: swept),
    Seed(seed: 3_000_616, events: 4000, reason: givenAgain),
    Seed(seed: 4_000_452, events: 4000, reason: givenAgain),
    Seed(seed: 4_000_807, events: 4000, reason: givenAgain),
    Seed(
      seed: 3_000_398, events: 4000,
      reason: "The simulation took a result whose length no server had told, and whose folder failed, for no result."),
    Seed(
      seed: 20_000_093, events: 4000,
      reason: "The simulation took a clock that was set a year ahead and back for one that nobody had touched."),
    Seed(
      seed: 20_000_497, events: 4000,
      reason: "The simulation wanted a launch to double a delay that was over just before there was a reason for it."),
    Seed(
      seed: 20_001_007, events: 4000,
      reason: "The simulation took an empty file for a fault that a second task had put in the place of the first's."),
    Seed(
      seed: 30_000_663, events: 4000,
      reason: "What a dead daemon had placed was recorded as verified, although no server had told its length."),
    Seed(
      seed: 40_000_256, events: 4000,
      reason: "The simulation took what a dead daemon had decoded beside a part that is kept for nobody's."),
    Seed(
      seed: 50_000_910, events: 4000,
      reason: "A restarted daemon did not look for the process that was woken last, and launched another."),
    Seed(seed: 60_001_774, events: 4000, reason: ended416),
    Seed(seed: 60_001_984, events: 4000, reason: ended416),
    Seed(
      seed: 90_002_605, events: 4000,
      reason: "The simulation wanted a task to wait that the core had stopped for its conditions before it failed."),
    Seed(
      seed: 120_000_384, events: 4000,
      reason: "The simulation took a clock that was set a year ahead and back for one that nobody had touched."),
    Seed(seed: 120_000_479, events: 4000, reason: staleReason),
    Seed(
      seed: 120_000_571, events: 4000,
      reason: "A date that a task got after failures was taken for a retry, and did not follow the wall clock."),
    Seed(seed: 120_001_709, events: 4000, reason: staleReason),
    Seed(
      seed: 210_000_375, events: 4000,
      reason: "A person opened an app while it was being started, the daemon died, and the next one started it again."),
  ]

  private static let staleReason =
    "A launch that a dead daemon had decided for a question was made for it when the task had ended meanwhile."
  private static let ended416 =
    "A 416 without a validator ended a task with part of one version, because another was as long as that part."

  private static let swept =
    "A starting daemon swept a result whose acknowledgement was on its way to the disk; the machine failed first."
  private static let givenAgain =
    "The id of a task that was never on record was given again, with what had been made under it."
  private static let found =
    "Failed while the simulation was written; the fault is one of those in SimulationFindingsTests."
}
