/// Known faults of a daemon, put into the simulated shell one at a time: what shows that the checkers are awake.
package enum PlantedBug: Int, CaseIterable, Sendable {
  /// A reply leaves before its commit is durable.
  case acknowledgeBeforeCommit
  /// A result is offered before its commit is durable.
  case offerBeforeCommit
  /// The row claims bytes that were not synced.
  case rowBeforeSync
  /// A resumption goes out without If-Range.
  case ifRangeDropped
  /// A weak entity tag is taken for a strong one.
  case weakValidatorTrusted
  /// A 206's own validator is not compared.
  case partValidatorIgnored
  /// Late events of a stopped attempt count for the task's present one.
  case staleAttemptAccepted
  /// A request that may not be repeated is repeated after its answer was lost.
  case nonRepeatableRetried
  /// A request that may not be repeated leaves before the row says so.
  case beginBeforeCommit
  /// New bytes go into the part file while the row vouches for the old ones.
  case bodyNotHeld
  /// Results that were on their way to a client that left count as acknowledged.
  case deliveryDroppedOnDetach
  /// `finishEvents` is offered before the results that it ends.
  case finishEventsEarly
  /// The end of an attempt is lost, and with it its slot.
  case slotLeaked
  /// Files that nobody needs are not removed.
  case filesLeaked
  /// Files go before the commit that says that they may.
  case removedBeforeCommit
  /// A batch that could not be written is dropped.
  case commitNotRetried
  /// A result is placed without having been synced.
  case placedWithoutSync
  /// The part file is not cut when the whole comes in place of the part.
  case wholeDoesNotCut
  /// A body that ended early counts as whole.
  case lengthNotChecked
  /// The client's key is forgotten on the way.
  case keyForgotten
  /// A stopped attempt goes on.
  case stopIgnored
  /// Retry-After and backoff are not waited for.
  case impatient
  /// The expected digest is not compared.
  case digestNotChecked
  /// Authorization follows a redirect to another host.
  case secretFollowsRedirect
  /// The device's conditions are not passed on when they become worse.
  case conditionsIgnored
  /// What is held is thrown away while a task asks.
  case bytesDroppedWhileAsking
  /// A credential is shown to whoever answers, wherever a redirect led.
  case credentialFollowsRedirect
  /// An acknowledgement is answered and forgotten.
  case acknowledgementForgotten
  /// An app is launched for each task that ends.
  case launchNotBatched
  /// The delay between launches does not grow.
  case budgetNotDoubled

  /// A part that was kept is offered again although a task goes on from it.
  case ticketUsedTwice

  package var name: String { "\(self)" }
  package init?(name: String) {
    guard let found = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = found
  }
}
