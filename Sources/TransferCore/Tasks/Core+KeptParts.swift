/// Part files that outlive their task, so that another one can go on from them: what Apple calls resume data.
///
/// A kept part is a row of its own, and its file keeps its name; the task that goes on in it remembers whose name that
/// is. So no file is touched when a part changes hands, and there is no moment in which a crash could lose it or give
/// it to two.
extension Core {
  // MARK: Whose file it is

  /// Whose id stands in the name of the task's part file.
  func partOwner(_ id: TaskID) -> TaskID { adoptions[id] ?? id }

  /// The part file is the task's to write and to remove; not so when it was kept, or another task goes on in it.
  func holdsPart(_ id: TaskID) -> Bool {
    let owner = partOwner(id)
    if keptOf[owner] != nil { return false }
    if let holder = adoptedBy[owner] { return holder == id }
    return owner == id
  }

  /// What is kept of a task that has ended; nil where there is nothing, or another task took it.
  package func keptPart(of id: TaskID) -> KeptPart? {
    guard let part = keptOf[partOwner(id)].flatMap({ keptParts[$0] }), part.task == id else { return nil }
    return part
  }

  package func keptPart(_ token: ResumeToken) -> KeptPart? { keptParts[token] }

  package var keptPartCount: Int { keptOrder.count }

  /// Bytes of all kept parts, as they were when each was kept.
  package var keptPartBytes: Int64 {
    keptOrder.reduce(0) { $0.addingClamped(keptParts[$1]?.received ?? 0) }
  }

  // MARK: Keeping

  /// Whether what a task fetched is worth keeping at its end. Called while it is still in its last state.
  /// - Parameters:
  ///   - isAsked: the client asked for resume data.
  ///   - isHeard: a program hears of the end.
  func keepsPart(_ id: TaskID, _ result: Result, isAsked: Bool, isHeard: Bool) -> Bool {
    guard let cell = tasks[id], cell.entry.kind == .download, cell.entry.state != .finalizing, cell.entry.received > 0,
      let held = details[id], held.plan.request.method == "GET", held.progress.resumePoint != nil,
      !held.plan.request.headers.contains("Range"), holdsPart(id)
    else { return false }
    switch result {
    case .succeeded: return false
    case .cancelled(.requested): return isAsked
    case .cancelled(.sessionInvalidated): return false
    // Nobody asked: only where a program hears of it, and never beside a person's files.
    case .cancelled(.forceQuit): return isHeard && held.plan.destination == .managed
    case .failed(let failure):
      return isHeard && held.plan.destination == .managed && Self.leavesUsablePart(failure.code)
    }
  }

  /// False where the bytes themselves were the fault.
  private static func leavesUsablePart(_ code: FailureCode) -> Bool {
    switch code {
    case .lengthMismatch, .digestMismatch, .contentDecodingFailed, .rangeUnsatisfiable, .bodyTooLarge, .partFileLost,
      .recordUnreadable, .fileExists:
      false
    case .hostNotFound, .connectionRefused, .connectionLost, .timedOut, .networkUnavailable, .secureConnectionFailed,
      .certificateUntrusted, .proxyFailed, .httpStatus, .tooManyRedirects, .redirectForbidden, .badServerResponse,
      .pinnedKeyMismatch, .clientCertificateRequired, .clientCertificateRejected, .clientCertificateUnusable,
      .credentialsRequired, .proxyCredentialsRequired, .noSpace, .destinationUnavailable, .fileReadFailed,
      .fileWriteFailed, .sourceMissing, .sourceChanged, .sourceUnreadable, .outcomeUnknown, .resourceTimedOut,
      .sessionDisconnected, .unsupportedURL, .invalidRequest, .internalFault:
      true
    }
  }

  mutating func keepPart(_ id: TaskID, _ now: ClockReading) {
    guard let entry = tasks[id]?.entry, let held = details[id], let point = held.progress.resumePoint,
      let app = sessions[entry.session]?.record.key.app
    else { return }
    var token = ResumeToken(high: random.next(), low: random.next())
    while keptParts[token] != nil { token.low = random.next() }
    let owner = partOwner(id)
    let part = KeptPart(
      token: token, task: id, owner: owner, app: app, partPath: held.plan.partPath, request: held.plan.request,
      destination: held.plan.destination, expectedSHA256: held.plan.expectedSHA256, statusRule: held.plan.statusRule,
      keepsEncoding: held.plan.keepsEncoding, point: point, received: entry.received,
      response: held.progress.response, bootID: held.progress.bootID, keptAt: now.wall)
    remember(part, now)
    if adoptedBy[owner] == id { adoptedBy[owner] = nil }
    changes.append(.addKeptPart(part))
    if keptOrder.count > Limits.keptParts, let oldest = keptOrder.first(where: { !claimedParts.contains($0) }) {
      dropKeptPart(oldest)
    }
  }

  /// Takes a part in that was kept just now, or by an earlier daemon.
  mutating func remember(_ part: KeptPart, _ now: ClockReading) {
    keptParts[part.token] = part
    keptOrder.append(part.token)
    keptOf[part.owner] = part.token
    let left = min(max(Limits.keptPartRetention - (now.wall - part.keptAt), .zero), Limits.keptPartRetention)
    arm(Timer(at: now.boot + left, subject: .keptPart(part.token)))
  }

  /// Nobody went on from it: its file goes too.
  mutating func dropKeptPart(_ token: ResumeToken) {
    guard let part = takeKeptPart(token) else { return }
    effects.append(.removeFiles([part.partPath]))
  }

  private mutating func takeKeptPart(_ token: ResumeToken) -> KeptPart? {
    guard let part = keptParts.removeValue(forKey: token) else { return nil }
    keptOrder.removeAll { $0 == token }
    if keptOf[part.owner] == token { keptOf[part.owner] = nil }
    removals.append(.removeKeptPart(token))
    return part
  }

  /// The retention of a kept part may be over.
  mutating func expireKeptPart(_ token: ResumeToken, _ now: ClockReading) {
    guard let part = keptParts[token] else { return }
    let left = Limits.keptPartRetention - (now.wall - part.keptAt)
    // A task is about to take it, or the wall clock was set back.
    guard left <= .zero, !claimedParts.contains(token) else {
      let again = min(max(left, .seconds(60)), Limits.keptPartRetention)
      return arm(Timer(at: now.boot + again, subject: .keptPart(token)))
    }
    dropKeptPart(token)
  }

  // MARK: Going on

  /// The draft with what the kept part says of it, or why nobody can go on from it. The part is claimed from now on.
  mutating func claimPart(for draft: TaskDraft, in session: SessionID) -> Swift.Result<TaskDraft, Refused> {
    guard let token = draft.resumeToken else { return .success(draft) }
    let app = sessions[session]?.record.key.app
    guard let part = keptParts[token], part.app == app, !claimedParts.contains(token) else {
      return .failure(
        Refused(
          .resumeDataInvalid,
          "What the resume data refers to is not there: it was used already, is too old, or is another program's."))
    }
    claimedParts.insert(token)
    var draft = draft
    draft.request = part.request
    draft.origin = Origin(url: part.request.url)?.description ?? draft.origin
    draft.destination = part.destination
    draft.expectedSHA256 = part.expectedSHA256
    draft.statusRule = part.statusRule
    draft.keepsEncoding = part.keepsEncoding
    return .success(draft)
  }

  mutating func unclaimPart(of draft: TaskDraft) {
    if let token = draft.resumeToken { claimedParts.remove(token) }
  }

  /// The new task goes on in the part file; its row and the end of the part's are one commit.
  mutating func adoptPart(of draft: TaskDraft, by id: TaskID) -> KeptPart? {
    guard let token = draft.resumeToken else { return nil }
    claimedParts.remove(token)
    guard let part = takeKeptPart(token) else { return nil }
    adopt(PartAdoption(task: id, owner: part.owner))
    return part
  }

  mutating func adopt(_ adoption: PartAdoption) {
    adoptions[adoption.task] = adoption.owner
    adoptedBy[adoption.owner] = adoption.task
  }

  mutating func forgetAdoption(_ id: TaskID) {
    guard let owner = adoptions.removeValue(forKey: id) else { return }
    if adoptedBy[owner] == id { adoptedBy[owner] = nil }
  }

  struct Refused: Error {
    var refusal: Refusal
    init(_ name: Refusal.Name, _ text: String) { refusal = Refusal(name, text) }
  }
}
