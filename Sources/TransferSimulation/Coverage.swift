import TransferCore

/// What one run, or many, went through. A harness that missed a case proves nothing about it.
package struct Coverage: Sendable {
  /// States, events, effects, verdicts, ends and moments of death; each is a place in `counts`.
  package enum Mark: Int, CaseIterable, Sendable {
    case stateSuspended, stateWaiting, stateRunning, stateAsking, stateFinalizing
    case stateSucceeded, stateFailed, stateCancelled

    case eventOpenSession, eventCloseSession, eventInvalidateSession, eventEnqueue, eventResume, eventSuspend
    case eventCancel, eventRemove, eventUpdate, eventAcknowledge, eventPeerLeft, eventPrepared, eventDetailsLoaded
    case eventDetailsUnreadable, eventFilesOpened, eventFilesFailed, eventResponded, eventProgressed, eventSynced
    case eventEnded, eventFinalized, eventDegraded, eventRecovered, eventCancelKeepingPart, eventDrainRequested
    case eventHandedOver, eventAnswer
    case eventConditionsChanged, conditionsBad, conditionsGood, stoppedByConditions, urgent

    case effectReply, effectAnnounce, effectOffer, effectEndSession, effectPrepare, effectDiscardPreparation
    case effectLoadDetails, effectOpenFiles, effectBegin, effectBeginAfterCommit, effectReleaseBody, effectStop
    case effectFinalize, effectRemoveFiles, effectAsk

    case verdictTakeWhole, verdictContinueAt, verdictAlreadyComplete, verdictRestart, verdictRedirect
    case verdictRetryLater, verdictAsk, verdictReject

    case endComplete, endRedirected, endDiscarded, endFailed

    case deliveryFile, deliveryBody, deliveryCompletion, deliveryFinishEvents

    case restartAfterCrash, restartAfterReboot, crashWithCommitInFlight, inFlightCommitSurvived, inFlightCommitLost
    case crashWithGatedEffects, crashWithBodyHeld, crashWhileFinalizing, crashAfterPlacing, crashWithDirtyPart
    case rebootTookBytes, resumedInSameBoot, resumedAfterReboot, wholeWithoutRequest, offeredAgain, staleEventDropped
    case enqueuedAgain, sessionRetired, sessionInUse, groupCommit, rested, commitFailed, lengthUnverified, decoded
    case digestMatched, partLeftBehind, placedAndUntold, partKept, wentOnFromPart, ticketRefused
    case askedChallenge, askedFreshRequest, askedDelayedRequest, askedAfterRefusal, answerTaken, answerRefused

    case eventApp, eventAppConnected, eventLaunched, eventLaunchFailed, eventAppExited, eventAppFound
    case effectLaunch, effectEndApp, effectWakeApp, effectFindApp, appWoken, launchDelayed, launchReported
    case appForceQuit
  }

  package private(set) var counts = [Int](repeating: 0, count: Mark.allCases.count)
  package private(set) var faults = [Int](repeating: 0, count: FaultKind.allCases.count)
  package private(set) var failures: [Int] = [Int](repeating: 0, count: FailureCode.allCases.count)

  package init() {}

  mutating func note(_ mark: Mark) { counts[mark.rawValue] += 1 }
  mutating func note(_ code: FailureCode) {
    if let index = FailureCode.allCases.firstIndex(of: code) { failures[index] += 1 }
  }
  mutating func note(faults struck: [Int]) {
    for index in faults.indices { faults[index] += struck[index] }
  }

  package mutating func add(_ other: Coverage) {
    for index in counts.indices { counts[index] += other.counts[index] }
    for index in faults.indices { faults[index] += other.faults[index] }
    for index in failures.indices { failures[index] += other.failures[index] }
  }

  /// What was never hit.
  package var missed: [String] {
    Mark.allCases.filter { counts[$0.rawValue] == 0 }.map { "\($0)" }
      + FaultKind.allCases.filter { faults[$0.rawValue] == 0 }.map { "fault \($0)" }
  }

  /// Two columns: what, and how often.
  package var table: String {
    func lines(_ title: String, _ rows: [(String, Int)]) -> String {
      let body = rows.map { name, count in "  \(name)\(String(repeating: " ", count: max(1, 32 - name.count)))\(count)"
      }
      return ([title] + body).joined(separator: "\n")
    }
    return [
      lines("reached", Mark.allCases.map { ("\($0)", counts[$0.rawValue]) }),
      lines("faults that struck", FaultKind.allCases.map { ("\($0)", faults[$0.rawValue]) }),
      lines("failures told", zip(FailureCode.allCases, failures).map { ($0.rawValue, $1) }.filter { $0.1 > 0 }),
    ].joined(separator: "\n")
  }

  mutating func note(_ state: TaskState) {
    switch state {
    case .suspended: note(.stateSuspended)
    case .waiting: note(.stateWaiting)
    case .running: note(.stateRunning)
    case .asking: note(.stateAsking)
    case .finalizing: note(.stateFinalizing)
    case .finished(.succeeded): note(.stateSucceeded)
    case .finished(.failed): note(.stateFailed)
    case .finished(.cancelled): note(.stateCancelled)
    }
  }

  mutating func note(_ event: Event) {
    switch event {
    case .commanded(let command, _): note(command)
    case .peerLeft: note(.eventPeerLeft)
    case .prepared: note(.eventPrepared)
    case .detailsLoaded(_, let details): note(details == nil ? .eventDetailsUnreadable : .eventDetailsLoaded)
    case .filesOpened: note(.eventFilesOpened)
    case .filesFailed: note(.eventFilesFailed)
    case .responded(_, _, let verdict):
      note(.eventResponded)
      note(verdict)
    case .progressed: note(.eventProgressed)
    case .synced: note(.eventSynced)
    case .ended(_, let end, _):
      note(.eventEnded)
      note(end)
    case .finalized: note(.eventFinalized)
    case .storeChanged(let degraded, _): note(degraded == nil ? .eventRecovered : .eventDegraded)
    case .app(let event): note(event)
    case .drainRequested: note(.eventDrainRequested)
    case .handedOver: note(.eventHandedOver)
    // The core looks at nothing of it, and the simulated engine measures nothing.
    case .measured: break
    case .conditionsChanged: note(.eventConditionsChanged)
    }
  }

  private mutating func note(_ command: Command) {
    switch command {
    case .openSession: note(.eventOpenSession)
    case .closeSession: note(.eventCloseSession)
    case .invalidateSession: note(.eventInvalidateSession)
    case .enqueue: note(.eventEnqueue)
    case .resume: note(.eventResume)
    case .suspend: note(.eventSuspend)
    case .cancel(_, producesResumeData: false): note(.eventCancel)
    case .cancel(_, producesResumeData: true): note(.eventCancelKeepingPart)
    case .remove: note(.eventRemove)
    case .update: note(.eventUpdate)
    case .answer: note(.eventAnswer)
    case .acknowledge: note(.eventAcknowledge)
    // The simulated world is the daemon's.
    case .foreground: break
    case .app(let command): note(command)
    }
  }

  private mutating func note(_ command: AppCommand) {
    note(.eventApp)
    switch command {
    case .forceQuit: note(.appForceQuit)
    case .handled: note(.launchReported)
    case .register, .remove, .front, .attach, .changeState: break
    }
  }

  private mutating func note(_ event: AppEvent) {
    switch event {
    case .connected: note(.eventAppConnected)
    case .launched: note(.eventLaunched)
    case .launchFailed: note(.eventLaunchFailed)
    case .exited: note(.eventAppExited)
    case .found: note(.eventAppFound)
    case .registeredByFiles: break
    }
  }

  private mutating func note(_ verdict: ResponseVerdict) {
    switch verdict {
    case .takeWhole: note(.verdictTakeWhole)
    case .continueAt: note(.verdictContinueAt)
    case .alreadyComplete: note(.verdictAlreadyComplete)
    case .restart: note(.verdictRestart)
    case .redirect: note(.verdictRedirect)
    case .retryLater: note(.verdictRetryLater)
    case .ask: note(.verdictAsk)
    case .reject: note(.verdictReject)
    }
  }

  private mutating func note(_ end: AttemptEnd) {
    switch end {
    case .complete: note(.endComplete)
    case .redirected: note(.endRedirected)
    case .discarded: note(.endDiscarded)
    case .failed, .untrusted: note(.endFailed)
    }
  }

  mutating func note(_ question: Question) {
    switch question {
    case .challenge(let challenge): note(challenge.previousFailures > 0 ? .askedAfterRefusal : .askedChallenge)
    case .freshRequest: note(.askedFreshRequest)
    case .delayedRequest: note(.askedDelayedRequest)
    }
  }

  mutating func note(_ effect: Effect) {
    switch effect {
    case .reply: note(.effectReply)
    case .announce: note(.effectAnnounce)
    case .offer(_, let record):
      note(.effectOffer)
      switch record.kind {
      case .file: note(.deliveryFile)
      case .body: note(.deliveryBody)
      case .completion: note(.deliveryCompletion)
      case .finishEvents: note(.deliveryFinishEvents)
      }
    case .ask: note(.effectAsk)
    case .endSession: note(.effectEndSession)
    case .prepare: note(.effectPrepare)
    case .discardPreparation: note(.effectDiscardPreparation)
    case .loadDetails: note(.effectLoadDetails)
    case .openFiles: note(.effectOpenFiles)
    case .begin(_, let afterCommit): note(afterCommit ? .effectBeginAfterCommit : .effectBegin)
    case .releaseBody: note(.effectReleaseBody)
    case .stop: note(.effectStop)
    case .finalize: note(.effectFinalize)
    case .removeFiles: note(.effectRemoveFiles)
    case .foreground: break
    case .app(.launch): note(.effectLaunch)
    case .app(.end): note(.effectEndApp)
    case .app(.wake): note(.effectWakeApp)
    case .app(.find): note(.effectFindApp)
    }
  }
}
