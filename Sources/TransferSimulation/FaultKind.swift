/// What can go wrong. A kind is on or off for a whole seed, and then strikes with a probability: so each seed explores
/// one strange world consistently, in place of all of them a little (FoundationDB's *buggify*).
package enum FaultKind: Int, CaseIterable, Sendable {
  // Time.
  case wallJump, wallJumpYear, machineSuspend
  // Network.
  case connectionRefused, nameNotFound, networkDown, dropBeforeRequest, dropBeforeAnswer, dropInBody, stall
  case cleanTruncation, resentRequest, dropInRequest
  // The device.
  case networkNone, networkMetered, externalPowerLost, conditionsUnknown
  // Servers that tell the truth.
  case objectChanges, objectChangesTwice, chunkedBody, bodyUntilClose, encodedBody, throttling, serverError
  case permanentStatus, expiredCredentials, challenge, refusedCredential, redirect, redirectLoop, redirectExpires,
    redirectToNowhere, omittedDate
  // Servers that lie.
  case ignoredRange, ignoredIfRange, omittedPartValidator, weakComparison, wrongRangeStart, shortRange
  case unusableRange, wrongTotal, inflatedLength, extraBytes, spurious416, bare416, preconditionFailed
  case captivePortal, unaskedPart, undetectableLie
  // Disk.
  case diskFull, writeError, syncError, slowDisk, openError, placeError, destinationTaken, folderSyncError
  case sourceChanged
  // Store.
  case storeFull, storeError, slowStore, unreadableRow
  // Apps.
  case appCrash, lateAcknowledgement, doubleAcknowledgement, missingAcknowledgement, forgottenReply, secondProcess
  case lateAnswer, doubleAnswer, missingAnswer
  case taskControl, sessionInvalidation, sessionClosing, unknownIdentifier, disconnection, ticketUsedAgain
  // The daemon and its machine.
  case daemonCrash, crashInTick, reboot, staleEngineEvent, daemonRestart
  // Launches.
  case launchFailure, launchedAppDies, launchedAppHangs, forceQuit, longAbsence, background

  package var name: String { "\(self)" }
  package init?(name: String) {
    guard let found = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = found
  }
}

/// Which kinds are on in one world, and how often each struck.
package struct FaultPlan {
  private var isOn: [Bool]
  private var rate: [Int]
  package private(set) var struck: [Int]
  /// Nothing strikes any more.
  package var isCalm = false

  /// - Parameters:
  ///   - without: kinds that stay off whatever the dice say; how a failing seed is made smaller.
  ///   - always: kinds that are on, and strike often.
  package init(_ dice: inout Dice, without: [FaultKind], always: [FaultKind] = []) {
    let density = dice.pick([100, 250, 250, 400])
    isOn = FaultKind.allCases.map { _ in dice.happens(perMille: density) }
    rate = FaultKind.allCases.map { _ in dice.pick([1, 1, 3, 6]) }
    struck = FaultKind.allCases.map { _ in 0 }
    for kind in always {
      isOn[kind.rawValue] = true
      rate[kind.rawValue] = 6
    }
    for kind in without { isOn[kind.rawValue] = false }
  }

  package var enabled: [FaultKind] { FaultKind.allCases.filter { isOn[$0.rawValue] } }

  /// Whether the fault strikes here. `perMille` is the site's own measure, times the seed's rate for the kind.
  package mutating func strikes(_ kind: FaultKind, _ dice: inout Dice, perMille: Int) -> Bool {
    guard !isCalm, isOn[kind.rawValue] else { return false }
    guard dice.happens(perMille: min(900, perMille * rate[kind.rawValue])) else { return false }
    struck[kind.rawValue] += 1
    return true
  }
}
