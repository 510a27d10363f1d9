/// What the shell is to do. Effects run in order; those that carry a promise wait for the commit of their tick, and are
/// run then if ``Core/isStillMeant(_:)``.
///
/// Effects pass through several lists: the large ones are `indirect`, so that all of them are small.
package enum Effect: Hashable, Sendable {
  case reply(RequestToken, Reply)
  /// Tell those who watch the task.
  case announce(TaskID, Announcement)
  /// Offer a result to the attached client.
  case offer(PeerID, DeliveryRecord)
  /// Put a task's question before the attached client.
  case ask(PeerID, TaskID)
  case endSession(PeerID, SessionID)
  case prepare(RequestToken, [PrepareOrder])
  /// Undo a preparation that came too late or was refused.
  case discardPreparation([TaskID])
  case loadDetails(TaskID)
  indirect case openFiles(AttemptID, OpenOrder)
  /// Put the request on the wire. `afterCommit`: the row must say so first, because sending it twice could do harm, or
  /// because the row still describes a part file that this attempt may overwrite. Meanwhile the attempt may have been
  /// stopped: what waited is run only if ``Core/isStillMeant(_:)``.
  indirect case begin(AttemptOrder, afterCommit: Bool)
  /// Let the body reach the part file: the row has forgotten what was held before, or says what is held now.
  case releaseBody(AttemptID)
  /// End the attempt; no event of it is wanted any more.
  case stop(AttemptID)
  indirect case finalize(FinalizeOrder)
  case removeFiles([String])
  /// Only for tasks of foreground sessions.
  indirect case foreground(ForegroundEffect)
  indirect case app(AppEffect)

  /// Whether the effect may run only when the changes of its tick are durable.
  package var needsCommit: Bool {
    switch self {
    // A refusal promises nothing; "the state cannot be stored" could otherwise not be said while it cannot.
    case .reply(_, .refused), .reply(_, .noted): false
    case .reply, .offer, .ask, .endSession, .releaseBody, .removeFiles: true
    case .announce(_, let announcement): announcement == .state || announcement == .removed
    case .begin(_, let afterCommit): afterCommit
    // Work begins when it is on record, and not before. The id of a task that was never on record is given again: what
    // was made under it would pass for the other task's. In a folder that nobody sweeps its file would stay for ever,
    // in the way of the same request when it comes again. Nor may the bytes of a kept part change while its own row is
    // still there to vouch for them.
    case .openFiles, .finalize: true
    case .app(let effect): effect.needsCommit
    case .prepare, .discardPreparation, .loadDetails, .stop, .foreground: false
    }
  }

  /// The task whose own row is all that must be durable of that commit: what is made for a task needs its row, and no
  /// newer commit than that.
  package var needsRowOf: TaskID? {
    switch self {
    case .openFiles(_, let order): order.task
    case .finalize(let order): order.task
    case .reply, .announce, .offer, .ask, .endSession, .prepare, .discardPreparation, .loadDetails, .begin,
      .releaseBody, .stop, .removeFiles, .foreground, .app:
      nil
    }
  }
}

package enum Announcement: Hashable, Sendable {
  case state
  case progress
  /// The server accepted a resumption at this offset, or refused it (0).
  case resumed(offset: Int64)
  case response(ResponseHead)
  /// Its result is not collected, and goes at this moment.
  case expiring(at: WallInstant)
  /// The task is no more: removed, acknowledged, or past its retention.
  case removed
}

/// Which files an attempt needs.
package struct OpenOrder: Hashable, Sendable {
  package var task: TaskID
  /// Opened for writing, made when missing; never truncated here.
  package var partPath: String?
  package var source: UploadSource?
  /// Where the part file will be placed: whether it stands there already must be known before it is written to.
  package var destination: Destination

  package init(task: TaskID, partPath: String?, source: UploadSource?, destination: Destination = .managed) {
    self.task = task
    self.partPath = partPath
    self.source = source
    self.destination = destination
  }
}

/// How a complete part file becomes a result.
package struct FinalizeOrder: Hashable, Sendable {
  package var task: TaskID
  package var partPath: String
  package var destination: Destination
  /// Length that the part file must have, in bytes.
  package var held: Int64
  /// Undo this Content-Encoding first.
  package var contentEncoding: String?
  package var expectedSHA256: String?

  package init(
    task: TaskID, partPath: String, destination: Destination, held: Int64, contentEncoding: String?,
    expectedSHA256: String?
  ) {
    self.task = task
    self.partPath = partPath
    self.destination = destination
    self.held = held
    self.contentEncoding = contentEncoding
    self.expectedSHA256 = expectedSHA256
  }
}

package enum Reply: Hashable, Sendable {
  case sessionOpened(SessionID, nextTaskNumber: Int64, isNew: Bool)
  case enqueued([EnqueueOutcome])
  case identifiers(reached: [TaskID], unknown: [TaskID])
  case cancelled(reached: [TaskID], unknown: [TaskID], kept: [KeptPart])
  case done
  /// Done, and nothing of it must outlive the daemon.
  case noted
  case refused(Refusal)
}

package enum EnqueueOutcome: Hashable, Sendable {
  case accepted(TaskID, number: Int64, existed: Bool, pin: PinKind?)
  case refused(Refusal)
}

/// Why a command was not carried out. The names are those of the wire's errors.
package struct Refusal: Hashable, Sendable {
  package enum Name: String, CaseIterable, Hashable, Sendable {
    case sessionInUse, sessionUnknown, sessionInvalidated, taskUnknown, destinationClaimed, destinationUnusable
    case destinationExists, sourceMissing, sourceUnusable, degraded, tooManyTasks, invalidParameters
    case appUnknown
    case resumeDataInvalid
    /// The task asks nothing, or something else by now.
    case notAsking
  }

  package var name: Name
  package var message: String

  package init(_ name: Name, _ message: String) {
    self.name = name
    self.message = message
  }
}
