import TransferCore

/// What the simulated engine reports, as the real one does.
enum EngineReport {
  case responded(AttemptID, ResponseHead, ResponseVerdict)
  case progressed(AttemptID, held: Int64, sent: Int64)
  case received(AttemptID, Span)
  case synced(AttemptID, offset: Int64)
  case ended(AttemptID, AttemptEnd, requestWasSent: Bool)

  var attempt: AttemptID {
    switch self {
    case .responded(let attempt, _, _), .progressed(let attempt, _, _), .received(let attempt, _),
      .synced(let attempt, _), .ended(let attempt, _, _):
      attempt
    }
  }
}

/// One attempt on the simulated wire.
final class Transfer {
  /// What becomes of the body on its way.
  enum Fate {
    case whole
    /// The connection is reset, ends as if all were well, or falls silent after so many bytes.
    case reset(after: Int64), cut(after: Int64), silent(after: Int64)
  }

  let order: AttemptOrder
  let part: Inode?
  let source: Inode?
  var held: Int64
  var sent: Int64 = 0
  var received: Int64 = 0
  var requestWasSent = false
  var answer: Answer?
  var verdict: ResponseVerdict?
  var framing = Framing()
  var fate = Fate.whole
  var isHeldForRecord = false
  var isSyncing = false
  /// The wire is done; only a sync is awaited.
  var pendingEnd: AttemptEnd?

  init(_ order: AttemptOrder, part: Inode?, source: Inode?) {
    self.order = order
    self.part = part
    self.source = source
    held = part?.content.length ?? 0
  }
}

/// How long the body says it is (RFC 9112 section 6.3), as the real engine reads it.
struct Framing {
  var expected: Int64?
  var endsWithConnection = false

  /// Nil: the fields contradict each other.
  static func read(_ head: ResponseHead) -> Framing? {
    if head.status == 204 || head.status == 304 { return Framing(expected: 0) }
    let isChunked = head.headers.contains("Transfer-Encoding")
    var expected = isChunked ? nil : head.headers["Content-Length"].flatMap { Int64($0) }
    if head.status == 206,
      case .range(let first, let last, _)? = head.headers["Content-Range"].flatMap({ ContentRange($0) })
    {
      if let told = expected, told != last - first + 1 { return nil }
      expected = last - first + 1
    }
    return Framing(expected: expected, endsWithConnection: !isChunked && expected == nil)
  }
}

/// The engine's contract over a simulated network: judges by ``ResponseTable``, holds a body until it is released,
/// tells nothing of a stopped attempt.
final class SimulatedEngine {
  unowned let world: Simulation
  unowned let daemon: SimulatedDaemon
  private(set) var transfers: [AttemptID: Transfer] = [:]
  private(set) var queue: [EngineReport] = []

  init(_ world: Simulation, _ daemon: SimulatedDaemon) {
    self.world = world
    self.daemon = daemon
  }

  var isEmpty: Bool { transfers.isEmpty }
  var holdsBodies: Bool { transfers.values.contains { $0.isHeldForRecord } }

  func start(_ order: AttemptOrder, part: Inode?, source: Inode?) {
    guard transfers[order.attempt] == nil else { return }
    let transfer = Transfer(order, part: part, source: source)
    transfers[order.attempt] = transfer
    guard isSourceUnchanged(transfer) else { return finish(transfer, .failed(Self.sourceChanged)) }
    later(transfer, 1...80) { $0.connect(transfer) }
  }

  func stop(_ attempt: AttemptID) {
    if world.bug == .stopIgnored, transfers[attempt]?.requestWasSent == true { return }
    world.tell(.stopped(attempt))
    let transfer = transfers.removeValue(forKey: attempt)
    if let transfer { world.tell(.left(attempt, task: transfer.order.task, nil, transfer.verdict)) }
    let dropped = queue.filter { $0.attempt == attempt }
    queue.removeAll { $0.attempt == attempt }
    guard let transfer, world.strikes(.staleEngineEvent, perMille: 100) || world.bug == .staleAttemptAccepted else {
      return
    }
    // A late event of an attempt that is no more must do nothing.
    queue += dropped
    push(.progressed(attempt, held: transfer.held + 1000, sent: 0))
    push(.synced(attempt, offset: 1_000_000))
    push(.ended(attempt, .complete(TransferSummary(held: transfer.held, isLengthVerified: true)), requestWasSent: true))
  }

  func releaseBody(_ attempt: AttemptID) {
    guard let transfer = transfers[attempt], transfer.isHeldForRecord else { return }
    transfer.isHeldForRecord = false
    later(transfer, 0...5) { $0.moveBody(transfer) }
  }

  func drain(limit: Int) -> [EngineReport] {
    let taken = Array(queue.prefix(limit))
    queue.removeFirst(taken.count)
    return taken
  }

  /// The daemon died: its sockets and descriptors are gone.
  func die() {
    transfers.removeAll()
    queue.removeAll()
  }

  // MARK: Towards the server

  private func later(
    _ transfer: Transfer, _ milliseconds: ClosedRange<Int>, _ body: @escaping (SimulatedEngine) -> Void
  ) {
    world.schedule(after: world.dice.nanoseconds(milliseconds: milliseconds)) { [weak self] in
      guard let self, transfers[transfer.order.attempt] === transfer else { return }
      body(self)
    }
  }

  private func push(_ report: EngineReport) {
    queue.append(report)
    daemon.wake()
  }

  private func fail(_ transfer: Transfer, _ code: FailureCode, _ detail: String) {
    finish(transfer, .failed(TransferFailure(code, .transient, domain: "curl", detail: detail)))
  }

  /// Nothing comes any more; the watchdog ends it.
  private func fallSilent(_ transfer: Transfer) {
    world.schedule(after: transfer.order.noProgressTimeout.nanosecondsClamped) { [weak self] in
      guard let self, transfers[transfer.order.attempt] === transfer else { return }
      fail(transfer, .timedOut, "No byte came for too long.")
    }
  }

  private func connect(_ transfer: Transfer) {
    if world.isNetworkDown {
      if world.dice.below(3) == 0 { return fallSilent(transfer) }
      return fail(transfer, .networkUnavailable, "The network is down.")
    }
    if world.strikes(.nameNotFound, perMille: 25) { return fail(transfer, .hostNotFound, "No such host.") }
    if world.strikes(.connectionRefused, perMille: 40) { return fail(transfer, .connectionRefused, "Refused.") }
    if world.strikes(.dropBeforeRequest, perMille: 20) { return fail(transfer, .connectionLost, "Lost.") }
    transfer.requestWasSent = true
    sendBody(transfer)
  }

  private func sendBody(_ transfer: Transfer) {
    guard case .file(let source) = transfer.order.body, transfer.sent < source.identity.sizeBytes else {
      return later(transfer, 0...40) { $0.reachServer(transfer) }
    }
    if world.isNetworkDown || world.strikes(.dropInRequest, perMille: 30) {
      return fail(transfer, .connectionLost, "The connection was lost while the body was sent.")
    }
    let rest = Int(clamping: source.identity.sizeBytes - transfer.sent)
    transfer.sent += Int64(world.dice.within(1...rest))
    push(.progressed(transfer.order.attempt, held: 0, sent: transfer.sent))
    later(transfer, 1...60) { $0.sendBody(transfer) }
  }

  private func reachServer(_ transfer: Transfer) {
    let order = transfer.order
    let isWhole = if case .file(let source) = order.body { transfer.sent == source.identity.sizeBytes } else { true }
    let request = IncomingRequest(
      order: order, now: world.now, bodyIsWhole: isWhole, isDigestKnown: daemon.isDigestKnown(order.task))
    let answer = world.answer(request)
    let mustNotRepeat = answer.hasActed && !order.request.isIdempotent
    if mustNotRepeat { world.tell(.acted(order.task)) }
    // On a reused connection that closed without an answer libcurl sends the request again by itself.
    if !order.needsFreshConnection, world.strikes(.resentRequest, perMille: 20), mustNotRepeat {
      world.tell(.acted(order.task))
    }
    if world.strikes(.dropBeforeAnswer, perMille: 30) || world.isNetworkDown {
      return fail(transfer, .connectionLost, "The connection was lost before the answer.")
    }
    if world.strikes(.stall, perMille: 10) { return fallSilent(transfer) }
    transfer.answer = answer
    later(transfer, 1...120) { $0.takeHead(transfer, answer) }
  }

  // MARK: From the server

  private func takeHead(_ transfer: Transfer, _ answer: Answer) {
    guard let framing = Framing.read(answer.head) else {
      return fail(transfer, .badServerResponse, "The lengths contradict each other.")
    }
    transfer.framing = framing
    var judged = answer.head
    if world.bug == .partValidatorIgnored || world.bug == .weakValidatorTrusted { judged = world.bend(judged) }
    let verdict = ResponseTable.judge(judged, transfer.order.judgement)
    if let failure = prepare(transfer, verdict, answer.head) { return finish(transfer, .failed(failure)) }
    transfer.verdict = verdict
    if verdict == .takeWhole, transfer.order.judgement.resume != nil, world.bug != .bodyNotHeld {
      transfer.isHeldForRecord = true
    }
    transfer.fate = drawFate(answer.body.length)
    push(.responded(transfer.order.attempt, world.bug == .weakValidatorTrusted ? judged : answer.head, verdict))
    push(.progressed(transfer.order.attempt, held: transfer.held, sent: transfer.sent))
    if verdict == .redirect {
      return finish(transfer, .redirected(location: answer.head.headers["Location"] ?? ""))
    }
    guard verdict.takesBody else { return later(transfer, 0...50) { $0.finish(transfer, .discarded) } }
    later(transfer, 0...30) { $0.moveBody(transfer) }
  }

  private func prepare(_ transfer: Transfer, _ verdict: ResponseVerdict, _ head: ResponseHead) -> TransferFailure? {
    switch verdict {
    case .takeWhole: return world.bug == .wholeDoesNotCut && transfer.held > 0 ? nil : cut(transfer, to: 0)
    case .continueAt(let offset): return cut(transfer, to: offset)
    case .redirect:
      let location = head.headers["Location"] ?? ""
      if location.hasPrefix("ftp") || Origin(url: location) != nil { return nil }
      return TransferFailure(.badServerResponse, .permanent, detail: "The redirect's Location is not a URL.")
    case .alreadyComplete, .restart, .retryLater, .ask, .reject: return nil
    }
  }

  private func cut(_ transfer: Transfer, to offset: Int64) -> TransferFailure? {
    guard let part = transfer.part else {
      transfer.held = 0
      return nil
    }
    guard offset <= part.content.length else {
      return TransferFailure(.partFileLost, .transient, detail: "The part file is shorter than what continues it.")
    }
    if offset < part.content.length { world.noteTouch(part, transfer.order.task) }
    part.truncate(to: offset)
    transfer.held = offset
    return nil
  }

  private func drawFate(_ length: Int64) -> Transfer.Fate {
    let point = Int64(world.dice.below(Int(clamping: length) + 1))
    if world.strikes(.dropInBody, perMille: 120) { return .reset(after: point) }
    if world.strikes(.cleanTruncation, perMille: 40) { return .cut(after: point) }
    if world.strikes(.stall, perMille: 30) { return .silent(after: point) }
    return .whole
  }

  /// The next bytes arrive.
  private func moveBody(_ transfer: Transfer) {
    guard let answer = transfer.answer, !transfer.isHeldForRecord, transfer.pendingEnd == nil else { return }
    if world.isNetworkDown { return fallSilent(transfer) }
    var limit = answer.body.length
    switch transfer.fate {
    case .whole: break
    case .reset(let point), .cut(let point), .silent(let point): limit = min(limit, point)
    }
    if transfer.received >= limit { return endBody(transfer) }
    let room = Int(clamping: limit - transfer.received)
    let count = Int64(world.dice.within(1...max(1, world.dice.pick([room, room, room / 2, 20]))))
    let taken = min(count, limit - transfer.received)
    if let expected = transfer.framing.expected, transfer.received + taken > expected {
      return fail(transfer, .lengthMismatch, "The server sent more than it announced.")
    }
    var span = answer.body
    span.offset += transfer.received
    span.length = taken
    if let failure = write(span, transfer) {
      push(.progressed(transfer.order.attempt, held: transfer.held, sent: transfer.sent))
      return finish(transfer, .failed(failure))
    }
    transfer.received += taken
    push(.progressed(transfer.order.attempt, held: transfer.held, sent: transfer.sent))
    if world.dice.below(3) == 0 { sync(transfer) }
    later(transfer, 1...world.dice.pick([5, 200, 2000])) { $0.moveBody(transfer) }
  }

  private func write(_ span: Span, _ transfer: Transfer) -> TransferFailure? {
    guard let part = transfer.part else {
      transfer.held += span.length
      push(.received(transfer.order.attempt, span))
      return nil
    }
    var span = span
    if world.disk.isFull {
      // The last bytes that fit are written before the error.
      span.length /= 2
    } else if world.strikes(.writeError, perMille: 15) {
      return TransferFailure(.fileWriteFailed, .transient, domain: "errno", number: 5, detail: "EIO.")
    }
    if span.length > 0 { world.noteTouch(part, transfer.order.task) }
    part.append(span)
    world.tell(.wrote(transfer.order.task, span))
    transfer.held = part.content.length
    guard world.disk.isFull else { return nil }
    return TransferFailure(.noSpace, .transient, domain: "errno", number: 28, detail: "No space left.")
  }

  private func sync(_ transfer: Transfer) {
    guard let part = transfer.part, !transfer.isSyncing else { return }
    transfer.isSyncing = true
    let length = part.content.length
    if world.bug == .rowBeforeSync { push(.synced(transfer.order.attempt, offset: length)) }
    let isSlow = world.strikes(.slowDisk, perMille: 100)
    world.schedule(after: world.dice.nanoseconds(milliseconds: isSlow ? 500...6000 : 1...40)) { [weak self] in
      guard let self, !daemon.isDead else { return }
      let isFailing = world.strikes(.syncError, perMille: 20)
      if !isFailing, world.bug != .rowBeforeSync { part.sync(through: length) }
      transfer.isSyncing = false
      guard transfers[transfer.order.attempt] === transfer else { return }
      if isFailing {
        transfer.pendingEnd = nil
        return fail(transfer, .fileWriteFailed, "The disk did not keep the bytes.")
      }
      push(.synced(transfer.order.attempt, offset: length))
      if let end = transfer.pendingEnd { finish(transfer, end) }
    }
  }

  private func endBody(_ transfer: Transfer) {
    switch transfer.fate {
    case .silent: return fallSilent(transfer)
    case .reset: return fail(transfer, .connectionLost, "The connection was reset in the body.")
    case .cut where transfer.framing.expected == nil && !transfer.framing.endsWithConnection:
      return fail(transfer, .connectionLost, "The last chunk is missing.")
    case .cut, .whole: break
    }
    if let expected = transfer.framing.expected, transfer.received != expected, world.bug != .lengthNotChecked {
      return fail(transfer, .lengthMismatch, "\(transfer.received) of \(expected) bytes came.")
    }
    guard isSourceUnchanged(transfer) else { return finish(transfer, .failed(Self.sourceChanged)) }
    finish(
      transfer,
      .complete(
        TransferSummary(
          held: transfer.held, isLengthVerified: !transfer.framing.endsWithConnection,
          contentEncoding: contentEncoding(transfer))))
  }

  private func contentEncoding(_ transfer: Transfer) -> String? {
    guard transfer.received > 0, let text = transfer.answer?.head.headers["Content-Encoding"] else { return nil }
    let coding = text.asciiLowercased == "x-gzip" ? "gzip" : text.asciiLowercased
    return ["gzip", "deflate", "br"].contains(coding) ? coding : nil
  }

  private func isSourceUnchanged(_ transfer: Transfer) -> Bool {
    guard case .file(let source) = transfer.order.body, let inode = transfer.source else { return true }
    return inode.modified == source.identity.modifiedNanoseconds && inode.content.length == source.identity.sizeBytes
  }

  private static let sourceChanged = TransferFailure(.sourceChanged, .permanent, detail: "The source was changed.")

  private func finish(_ transfer: Transfer, _ end: AttemptEnd) {
    if transfer.isSyncing {
      transfer.pendingEnd = end
      return
    }
    guard transfers.removeValue(forKey: transfer.order.attempt) != nil else { return }
    world.tell(.left(transfer.order.attempt, task: transfer.order.task, end, transfer.verdict))
    if world.bug == .slotLeaked, world.dice.below(12) == 0 { return }
    push(.progressed(transfer.order.attempt, held: transfer.held, sent: transfer.sent))
    push(.ended(transfer.order.attempt, end, requestWasSent: transfer.requestWasSent))
  }
}
