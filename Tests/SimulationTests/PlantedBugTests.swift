import Testing

@testable import TransferSimulation

/// Is the harness awake? Each known bug, put into the simulated shell, must be found within a few seeds, and by the
/// checker whose rule it breaks.
@Suite struct PlantedBugTests {
  @Test(arguments: PlantedBug.allCases)
  func isFound(bug: PlantedBug) {
    let expected = bug.expectedCheckers
    for seed in UInt64(20)..<40 {
      let options = SimulationOptions(seed: seed, events: 1500, always: bug.company, bug: bug)
      let report = Simulation(options).run()
      if let checker = report.checker, expected.contains(checker) { return }
    }
    Issue.record("\(bug.name) was not found in 20 seeds by \(expected)")
  }
}

extension PlantedBug: CustomTestStringConvertible {
  /// The name of the bug.
  public var testDescription: String { name }

  /// Faults without which the bug does no harm.
  var company: [FaultKind] {
    switch self {
    case .weakValidatorTrusted: [.weakComparison, .objectChanges, .dropInBody]
    case .partValidatorIgnored: [.ignoredIfRange, .objectChanges, .dropInBody]
    case .bodyNotHeld: [.objectChanges, .dropInBody]
    case .launchNotBatched: [.appCrash, .longAbsence]
    case .budgetNotDoubled: [.appCrash, .longAbsence, .launchedAppDies, .launchFailure]
    case .beginBeforeCommit, .removedBeforeCommit: [.crashInTick, .daemonCrash, .slowStore]
    case .rowBeforeSync, .placedWithoutSync: [.reboot, .dropInBody]
    case .ticketUsedTwice: [.taskControl, .ticketUsedAgain, .daemonCrash]
    case .bytesDroppedWhileAsking: [.expiredCredentials, .dropInBody]
    case .credentialFollowsRedirect: [.challenge, .redirect]
    case .acknowledgeBeforeCommit, .offerBeforeCommit, .ifRangeDropped, .staleAttemptAccepted, .nonRepeatableRetried,
      .deliveryDroppedOnDetach, .finishEventsEarly, .slotLeaked, .filesLeaked, .commitNotRetried, .wholeDoesNotCut,
      .lengthNotChecked, .keyForgotten, .stopIgnored, .impatient, .digestNotChecked, .secretFollowsRedirect,
      .acknowledgementForgotten:
      []
    case .conditionsIgnored: [.networkNone, .networkMetered]
    }
  }

  var expectedCheckers: [String] {
    switch self {
    case .acknowledgeBeforeCommit, .commitNotRetried:
      ["accepted work survives", "offered until acknowledged, in order, never after", "one outcome a task"]
    case .offerBeforeCommit, .finishEventsEarly, .acknowledgementForgotten:
      ["offered until acknowledged, in order, never after"]
    case .deliveryDroppedOnDetach: ["accepted work survives", "offered until acknowledged, in order, never after"]
    case .rowBeforeSync, .partValidatorIgnored, .placedWithoutSync, .wholeDoesNotCut, .lengthNotChecked,
      .weakValidatorTrusted, .digestNotChecked:
      ["delivered content is one version, whole", "the row vouches for what is in the part file"]
    case .ifRangeDropped, .secretFollowsRedirect: ["requests carry what they must, and no secret too far"]
    case .staleAttemptAccepted, .stopIgnored:
      [
        "one attempt a task, slots never exceeded", "delivered content is one version, whole",
        "no attempt while blocked",
      ]
    case .nonRepeatableRetried, .beginBeforeCommit: ["not repeatable, acted on at most once"]
    case .slotLeaked: ["everything ends when faults stop"]
    case .removedBeforeCommit: ["delivered content is one version, whole", "nothing orphaned"]
    case .filesLeaked: ["nothing orphaned"]
    case .keyForgotten: ["one task a key"]
    case .bodyNotHeld: ["the row vouches for what is in the part file"]
    case .ticketUsedTwice: ["resume data is used once"]
    case .impatient: ["no attempt while blocked"]
    case .launchNotBatched: ["one launch per batch"]
    case .budgetNotDoubled: ["launch budget kept"]
    case .conditionsIgnored: ["no attempt without its conditions"]
    case .bytesDroppedWhileAsking:
      ["asking keeps bytes", "the row vouches for what is in the part file"]
    case .credentialFollowsRedirect: ["credentials stay where they belong"]
    }
  }
}
