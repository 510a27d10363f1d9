package import TransferCore

/// Moves bytes for attempts, and decides nothing: what goes out is in the order, what comes back is judged by
/// ``ResponseTable``, and everything else is reported. One loop thread calls every method.
package protocol TransferEngine: AnyObject {
  /// Puts an attempt on the wire. The engine owns the descriptors from here on. Nothing is thrown: an order that cannot
  /// be carried out ends with `.ended(.failed)`. An id that is already running is ignored.
  /// - Parameters:
  ///   - part: where body bytes go; needed for `ResponseSink.partFile`.
  ///   - body: the opened source; needed for `RequestBody.file`.
  func start(_ order: AttemptOrder, part: PartFile?, body: BodyFile?)
  /// Takes an attempt off the wire. No event of it, also of those not yet drained, is seen afterwards.
  func stop(_ attempt: AttemptID)
  /// Lets the body reach the part file. Needed once after `.responded` with `takeWhole` to an order that asked to
  /// continue (`judgement.resume`): until then the file is cut to nothing, and stays so, because the row that vouches
  /// for the old bytes must be gone before new ones stand in their place. Needed once more after the first
  /// `.progressed` of a body that can be continued (`keepsResumePoint`), when the row says how. Harmless otherwise.
  func releaseBody(_ attempt: AttemptID)
  /// Stops receiving (backpressure of a data task's client); the no-progress watchdog rests meanwhile.
  func pause(_ attempt: AttemptID)
  func unpause(_ attempt: AttemptID)
  /// Appends up to `limit` events in the order in which they happened; called once a tick.
  func drainEvents(into events: inout [EngineEvent], limit: Int)
  /// True when `drainEvents` would give something.
  var hasEvents: Bool { get }
  /// When `turn` must be called at the latest; nil when nothing waits for time.
  var nextDeadline: BootInstant? { get }
  /// Does what time asks for: libcurl's timer, the watchdog, syncs that are due.
  func turn(now: BootInstant)
}

/// What happened to an attempt.
package enum EngineEvent: Hashable, Sendable {
  /// A response of 1xx, before the final one, where the order wants to hear of it.
  case informed(AttemptID, ResponseHead)
  /// The final header block is in and was judged, and the part file is cut to the offset at which the body goes on; at
  /// most once an attempt, before any byte of the body.
  case responded(AttemptID, ResponseHead, ResponseVerdict)
  /// Counters since the last drain: length of the part file (or bytes received for a client), body bytes sent.
  case progressed(AttemptID, held: Int64, sent: Int64)
  /// Body bytes for an attached client (`ResponseSink.client` only).
  case received(AttemptID, [UInt8])
  /// The part file is durable up to this offset in bytes.
  case synced(AttemptID, offset: Int64)
  /// The attempt is over and its descriptors are released. The last event of every attempt that was not stopped.
  indirect case ended(AttemptID, AttemptEnd, AttemptFacts)

  package var attempt: AttemptID {
    switch self {
    case .informed(let attempt, _), .responded(let attempt, _, _), .progressed(let attempt, _, _),
      .received(let attempt, _), .synced(let attempt, _), .ended(let attempt, _, _):
      attempt
    }
  }
}

/// What is known of an attempt beside its end.
package struct AttemptFacts: Hashable, Sendable {
  /// A byte of the request left this machine, so the server can have acted on it.
  package var requestWasSent: Bool
  /// Body bytes sent.
  package var sent: Int64
  /// Body bytes received, discarded ones included.
  package var received: Int64
  package var source: SourceCheck
  /// Nil when it never went on the wire.
  package var metrics: TransactionMetrics?
  /// A body that the verdict discards was received to its end.
  package var discardedWhole: Bool

  package init(
    requestWasSent: Bool, sent: Int64, received: Int64, source: SourceCheck, metrics: TransactionMetrics? = nil,
    discardedWhole: Bool = false
  ) {
    self.metrics = metrics
    self.discardedWhole = discardedWhole
    self.requestWasSent = requestWasSent
    self.sent = sent
    self.received = received
    self.source = source
  }
}

/// Whether the source of an upload was still the one that was meant when the attempt ended.
package enum SourceCheck: String, Hashable, Sendable {
  /// The order had no source.
  case notApplicable
  case unchanged
  case changed
}

/// Where the engine says which descriptors it waits for. Readiness comes back through
/// ``CurlEngine/ready(_:readable:writable:)``.
package protocol LoopRegistrar: AnyObject {
  /// Replaces what was watched of this descriptor. Level-triggered.
  func watch(_ descriptor: Int32, readable: Bool, writable: Bool)
  func unwatch(_ descriptor: Int32)
}
