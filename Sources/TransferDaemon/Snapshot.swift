import TransferCore
import WireProtocol

/// What clients see of a task, made of its two halves.
enum Snapshot {
  static func make(
    _ cell: TaskCell, _ details: TaskDetails?, in core: inout Core, at now: ClockReading, isFull: Bool
  ) -> TaskSnapshot {
    let entry = cell.entry
    let session = core.sessions[entry.session]?.record.key
    var snapshot = TaskSnapshot(
      id: entry.id.rawValue, session: session?.identifier ?? "", app: session?.app ?? "",
      sessionID: entry.session.rawValue, number: entry.number, kind: entry.kind.rawValue, state: word(entry.state),
      method: details?.plan.request.method ?? "", url: details?.plan.request.url ?? entry.origin,
      received: entry.received, sent: entry.sent, attempts: entry.attempts, priority: Double(entry.priority) / 256,
      createdMilliseconds: details?.plan.createdAt.milliseconds ?? 0)
    snapshot.expected = entry.expected
    snapshot.finishedMilliseconds = entry.finishedAt?.milliseconds
    if entry.state == .waiting { snapshot.nextAttemptMilliseconds = entry.notBefore?.milliseconds }
    if let details {
      fill(&snapshot, details, isFull: isFull)
    } else if entry.state == .finished(.failed) {
      // An app must not take a task for done whose record cannot be read.
      snapshot.error = failure(Core.recordUnreadable)
    }
    snapshot.reason = core.reason(cell, details, at: now)
    snapshot.expiresMilliseconds = core.expiry(of: entry)?.milliseconds
    if entry.state.isFinished { snapshot.resumeToken = core.keptPart(of: entry.id)?.token.description }
    if entry.isDiscretionary { snapshot.isDiscretionary = true }
    if !entry.constraints.isEmpty { snapshot.requires = entry.constraints.names }
    if isFull { snapshot.blockers = core.blockers(cell, details, at: now).map(blocker) }
    snapshot.question = core.question(cell, details).map { question($0, number: core.questionNumber(cell)) }
    return snapshot
  }

  private static func fill(_ snapshot: inout TaskSnapshot, _ details: TaskDetails, isFull: Bool) {
    let progress = details.progress
    snapshot.currentURL = progress.response?.url
    snapshot.earliestBeginMilliseconds = progress.earliestBegin?.milliseconds
    snapshot.clientExpectsToSend = progress.hintToSend
    snapshot.clientExpectsToReceive = progress.hintToReceive
    snapshot.expectedToSend = details.plan.source?.identity.sizeBytes
    snapshot.file = progress.filePath
    snapshot.body = progress.bodyPath
    snapshot.description = progress.taskDescription
    snapshot.sha256 = progress.sha256
    snapshot.isLengthVerified = progress.isLengthVerified ? nil : false
    snapshot.validator = progress.resumePoint?.validator.fieldValue
    snapshot.wasted = progress.wasted > 0 ? progress.wasted : nil
    snapshot.pin = details.plan.source?.pin.rawValue
    snapshot.response = progress.response.map(response)
    snapshot.cancelCause = progress.cancelCause?.rawValue
    if let cause = progress.cancelCause {
      snapshot.error = WireFailure(
        code: "cancelled", isTransient: false, domain: "", number: 0, detail: word(cause))
    } else {
      snapshot.error = progress.failure.map(failure)
    }
    if isFull {
      snapshot.headers = wire(details.request.headers.redacted(secretNames: details.request.secretHeaderNames))
    }
  }

  private static func blocker(_ blocker: Blocker) -> WireBlocker {
    WireBlocker(
      name: blocker.name.rawValue, cause: blocker.cause, lifts: blocker.lifts,
      sinceMilliseconds: blocker.since?.milliseconds, untilMilliseconds: blocker.until?.milliseconds)
  }

  static func response(_ head: ResponseHead) -> WireResponse {
    WireResponse(
      status: head.status, headers: wire(head.headers), url: head.url, httpVersion: head.httpVersion)
  }

  static func failure(_ failure: TransferFailure) -> WireFailure {
    WireFailure(
      code: failure.code.rawValue, isTransient: failure.retryability == .transient, domain: failure.domain,
      number: failure.number, detail: failure.detail)
  }

  private static func wire(_ fields: HeaderFields) -> [WireHeader] {
    fields.fields.map { WireHeader(name: $0.name, value: $0.value) }
  }

  private static func question(_ question: Question, number: Int64) -> WireQuestion {
    switch question {
    case .delayedRequest: return WireQuestion(number: number, kind: "delayedRequest")
    case .freshRequest(let status, let failures):
      var wire = WireQuestion(number: number, kind: "freshRequest")
      wire.status = status
      wire.previousFailures = failures
      return wire
    case .challenge(let challenge):
      var wire = WireQuestion(number: number, kind: "challenge")
      wire.method = challenge.method.rawValue
      wire.isProxy = challenge.isProxy
      wire.origin = challenge.origin
      wire.realm = challenge.realm
      wire.previousFailures = challenge.previousFailures
      wire.certificates = challenge.server?.chain
      wire.certificate = challenge.server?.certificate
      wire.key = challenge.server?.key
      wire.isVouched = challenge.server?.isVouched
      return wire
    }
  }

  static func word(_ state: TaskState) -> String {
    switch state {
    case .suspended: "suspended"
    case .waiting: "waiting"
    case .running: "running"
    case .asking: "asking"
    case .finalizing: "finalizing"
    case .finished(let ending): ending.rawValue
    }
  }

  private static func word(_ cause: CancelCause) -> String {
    switch cause {
    case .requested: "It was cancelled."
    case .sessionInvalidated: "Its session was invalidated."
    case .forceQuit: "Its app was force-quit."
    }
  }
}
