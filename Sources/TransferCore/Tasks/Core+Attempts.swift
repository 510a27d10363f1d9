extension Core {
  // MARK: Towards the wire

  /// Puts a waiting task in its lane's line.
  mutating func line(up id: TaskID, _ now: ClockReading) {
    guard var cell = tasks[id], cell.entry.state == .waiting else { return }
    admission.enqueue(&cell, at: now.boot)
    tasks[id] = cell
  }

  /// Whether a task that has a slot may use it. What is not so yet comes back by an event of its own.
  func mayRun(_ cell: TaskCell, _ now: ClockReading) -> Bool {
    guard cell.entry.state == .waiting else { return false }
    if let wakeAt = cell.wakeAt, wakeAt > now.boot { return false }
    // Data tasks go to their client; `wakeDataTasks` puts them in line when one attaches.
    if cell.entry.kind == .data, sessions[cell.entry.session]?.attached == nil { return false }
    return true
  }

  /// The task got a slot.
  mutating func start(_ id: TaskID, _ now: ClockReading) {
    lastAttempt.rawValue += 1
    let attempt = lastAttempt
    active[id] = ActiveTask(phase: .loading, attempt: attempt, beganAt: now.boot)
    attemptOwners[attempt] = id
    tasks[id]?.entry.state = .running(attempt)
    tasks[id]?.entry.attempts += 1
    tasks[id]?.entry.sent = 0
    tasks[id]?.wakeAt = nil
    // A request that may not be repeated must be on record before it leaves; the others need no row for that.
    if tasks[id]?.entry.isRepeatable == false { touch(id) }
    effects.append(.announce(id, .state))
    if details[id] != nil { open(id) } else { effects.append(.loadDetails(id)) }
  }

  private mutating func open(_ id: TaskID) {
    guard let held = details[id], var work = active[id] else { return }
    work.phase = .opening
    if work.request == nil { work.request = held.plan.request }
    active[id] = work
    let part = held.plan.kind == .data ? nil : held.plan.partPath
    effects.append(.openFiles(work.attempt, OpenOrder(task: id, partPath: part, source: held.plan.source)))
  }

  mutating func take(_ loaded: TaskDetails?, of id: TaskID, _ now: ClockReading) {
    guard let cell = tasks[id] else { return dropStale() }
    if let loaded {
      // What is in memory is newer than what was read.
      if details[id] == nil { keepResident(id, loaded) }
    } else if details[id] == nil {
      unreadable.insert(id)
    }
    runHeldCommands(after: id, now)
    if unreadable.contains(id), !cell.entry.state.isFinished { return quarantine(id, now) }
    if active[id]?.phase == .loading { open(id) }
    if let due = cell.deadlineAt, due <= now.boot { timeOut(id, now) }
    conclude(id, now)
    forgetIfExpired(id, now)
  }

  private mutating func runHeldCommands(after id: TaskID, _ now: ClockReading) {
    guard !heldCommands.isEmpty else { return }
    var ready: [HeldCommand] = []
    for index in heldCommands.indices { heldCommands[index].missing.remove(id) }
    ready = heldCommands.filter(\.missing.isEmpty)
    heldCommands.removeAll(where: \.missing.isEmpty)
    for held in ready { receive(held.command, held.token, now) }
  }

  private mutating func quarantine(_ id: TaskID, _ now: ClockReading) {
    if active[id] != nil { leaveWire(id) }
    finish(
      id,
      .failed(
        TransferFailure(
          .recordUnreadable, .permanent,
          detail: "The daemon's record of this task is damaged; it was set aside. Enqueue the transfer again.")), now)
  }

  mutating func filesFailed(_ attempt: AttemptID, _ failure: TransferFailure, _ now: ClockReading) {
    guard let id = owner(attempt) else { return dropStale() }
    leaveWireAfterEnd(id)
    settle(failure, of: id, now)
  }

  /// Files are open: builds the request, or finds that nothing is left to ask for.
  mutating func begin(_ attempt: AttemptID, _ files: OpenedFiles, _ now: ClockReading) {
    guard let id = owner(attempt), var work = active[id], let held = details[id], let cell = tasks[id],
      let session = sessions[cell.entry.session]?.record, var request = work.request
    else { return dropStale() }
    let resume = resumePoint(held, files)
    if let resume, let total = resume.total, resume.offset == total, held.plan.kind == .download {
      // Failure case 23: what is held is whole already.
      effects.append(.stop(attempt))
      leaveWireAfterEnd(id)
      return finalize(id, held: total, encoding: held.progress.response?.contentEncodingToUndo, now)
    }
    if let missing = missingSpace(held, files, resume) {
      effects.append(.stop(attempt))
      leaveWireAfterEnd(id)
      return settle(missing, of: id, now)
    }
    work.resume = resume
    work.phase = .onTheWire
    active[id] = work
    request.headers = attemptHeaders(request, resume, held.plan)
    // This attempt may overwrite a part file that the row still vouches for: the row must forget it first.
    let forgetsPart = resume == nil && held.progress.resumePoint != nil
    if forgetsPart { details[id]?.progress.resumePoint = nil }
    let mustBeOnRecord = forgetsPart || !cell.entry.isRepeatable || cell.entry.attempts > 1
    if mustBeOnRecord { touch(id, progress: forgetsPart) }
    let order = AttemptOrder(
      attempt: attempt, task: id, request: request, network: session.network,
      body: request.method == held.plan.request.method ? held.plan.source.map(RequestBody.file) ?? .none : .none,
      sink: held.plan.kind == .data ? .client : .partFile(path: held.plan.partPath),
      judgement: JudgementContext(
        kind: held.plan.kind, statusRule: held.plan.statusRule, resume: resume, now: now.wall),
      noProgressTimeout: held.plan.requestTimeout, needsFreshConnection: !request.isIdempotent)
    effects.append(.begin(order, afterCommit: mustBeOnRecord))
  }

  /// Where the part file can be continued. In the boot that wrote it the page cache is whole, so its own length counts;
  /// after a reboot only what was synced does.
  private func resumePoint(_ held: TaskDetails, _ files: OpenedFiles) -> ResumePoint? {
    guard held.plan.kind == .download, held.plan.request.method == "GET", var point = held.progress.resumePoint,
      let length = files.partBytes, !held.plan.request.headers.contains("Range")
    else { return nil }
    point.offset = held.progress.bootID == configuration.bootID ? length : min(point.offset, length)
    if let total = point.total, point.offset > total { return nil }
    return point.offset > 0 ? point : nil
  }

  private func missingSpace(_ held: TaskDetails, _ files: OpenedFiles, _ resume: ResumePoint?) -> TransferFailure? {
    guard let free = files.freeBytes, let total = resume?.total else { return nil }
    let needed = total - (resume?.offset ?? 0)
    guard needed > free else { return nil }
    return TransferFailure(
      .noSpace, .transient, detail: "The disk has \(free) bytes free, and \(needed) more are needed.")
  }

  private func attemptHeaders(_ request: TransferRequest, _ resume: ResumePoint?, _ plan: TaskPlan) -> HeaderFields {
    var headers = request.headers
    // Offsets count the bytes of one representation, so that no server may choose an encoding (failure cases 5 and 6).
    if !headers.contains("Accept-Encoding") { headers.set("Accept-Encoding", to: "identity") }
    if let resume {
      headers.set("Range", to: "bytes=\(resume.offset)-")
      headers.set("If-Range", to: resume.validator.fieldValue)
    }
    return headers
  }

  // MARK: On the wire

  func owner(_ attempt: AttemptID) -> TaskID? {
    guard let id = attemptOwners[attempt], active[id]?.attempt == attempt else { return nil }
    return id
  }

  mutating func dropStale() { staleEvents += 1 }

  mutating func note(_ head: ResponseHead, _ verdict: ResponseVerdict, _ attempt: AttemptID, _ now: ClockReading) {
    guard let id = owner(attempt), var work = active[id], let cell = tasks[id] else { return dropStale() }
    work.verdict = verdict
    work.head = head
    active[id] = work
    admission.noteAnswer(cell.lane)
    switch verdict {
    case .takeWhole:
      let hadResumePoint = details[id]?.progress.resumePoint != nil
      if work.resume != nil {
        details[id]?.progress.wasted += work.resume?.offset ?? 0
        effects.append(.announce(id, .resumed(offset: 0)))
      }
      details[id]?.progress.response = head
      details[id]?.progress.bootID = configuration.bootID
      let point = validatorToKeep(head, id).map { ResumePoint(validator: $0, offset: 0, total: head.totalLength) }
      details[id]?.progress.resumePoint = point
      tasks[id]?.entry.received = 0
      tasks[id]?.entry.expected = head.totalLength
      if hadResumePoint || details[id]?.progress.resumePoint != nil { touch(id, progress: true) }
      // The engine holds the body back when it was asked to continue something: the row must forget that first.
      if work.resume != nil { effects.append(.releaseBody(attempt)) }
      if cell.entry.kind == .data { effects.append(.announce(id, .response(head))) }
    case .continueAt(let offset):
      details[id]?.progress.response = head
      details[id]?.progress.bootID = configuration.bootID
      let durable = min(offset, details[id]?.progress.resumePoint?.offset ?? offset)
      details[id]?.progress.resumePoint?.offset = durable
      if let total = head.totalLength { details[id]?.progress.resumePoint?.total = total }
      tasks[id]?.entry.received = offset
      tasks[id]?.entry.expected = head.totalLength ?? work.resume?.total
      touch(id, progress: true)
      effects.append(.announce(id, .resumed(offset: offset)))
    case .alreadyComplete, .restart, .redirect, .retryLater, .ask, .reject: break
    }
  }

  /// A validator is kept for downloads by GET only: nothing else is ever continued.
  private func validatorToKeep(_ head: ResponseHead, _ id: TaskID) -> Validator? {
    guard let plan = details[id]?.plan, plan.kind == .download, plan.request.method == "GET", head.status == 200
    else { return nil }
    return head.validator
  }

  mutating func noteProgress(_ attempt: AttemptID, held: Int64, sent: Int64) {
    guard let id = owner(attempt) else { return dropStale() }
    guard let entry = tasks[id]?.entry else { return }
    if held > entry.received { active[id]?.madeProgress = true }
    tasks[id]?.entry.received = max(0, held)
    tasks[id]?.entry.sent = max(0, sent)
    effects.append(.announce(id, .progress))
  }

  mutating func noteSync(_ attempt: AttemptID, _ offset: Int64) {
    guard let id = owner(attempt) else { return dropStale() }
    guard details[id]?.progress.resumePoint != nil else { return }
    details[id]?.progress.resumePoint?.offset = offset
    touch(id, progress: true)
  }

  mutating func end(_ attempt: AttemptID, _ end: AttemptEnd, _ requestWasSent: Bool, _ now: ClockReading) {
    guard let id = owner(attempt), let work = active[id], let cell = tasks[id] else { return dropStale() }
    switch end {
    case .complete(let summary):
      leaveWireAfterEnd(id)
      details[id]?.progress.isLengthVerified = summary.isLengthVerified
      if cell.entry.kind == .data { return finish(id, .succeeded, now) }
      tasks[id]?.entry.received = summary.held
      finalize(id, held: summary.held, encoding: summary.contentEncoding, now)
    case .redirected(let location): follow(location, id, work, now)
    case .discarded:
      leaveWireAfterEnd(id)
      settle(work.verdict, of: id, now)
    case .failed(let failure):
      if work.madeProgress { tasks[id]?.entry.failures = 0 }
      leaveWireAfterEnd(id)
      if let verdict = hopelessAfter(failure, cell, requestWasSent) { return finish(id, .failed(verdict), now) }
      if Self.isUnreachable(failure), !work.madeProgress, work.head == nil {
        admission.noteUnreachable(cell.lane, at: now.boot, random: random.next())
      }
      settle(failure, of: id, now)
    }
  }

  /// A lost answer to a request that may not be repeated ends the task: sending it again could do the thing twice.
  private func hopelessAfter(_ failure: TransferFailure, _ cell: TaskCell, _ wasSent: Bool) -> TransferFailure? {
    if cell.entry.kind == .data {
      // The client already has bytes that a second attempt would give it again.
      return cell.entry.received > 0 || (wasSent && !cell.entry.isRepeatable && !isSafe(cell.entry.id)) ? failure : nil
    }
    guard !cell.entry.isRepeatable, wasSent, failure.retryability == .transient else { return nil }
    if let source = details[cell.entry.id]?.plan.source, cell.entry.sent < source.identity.sizeBytes { return nil }
    return TransferFailure(
      .outcomeUnknown, .permanent, domain: failure.domain, number: failure.number,
      detail: "The request was sent, but its answer was lost (\(failure.detail)) The server may have acted on it, so "
        + "it was not sent again; an Idempotency-Key header would allow that.")
  }

  private func isSafe(_ id: TaskID) -> Bool { details[id]?.plan.request.isIdempotent ?? false }

  private static func isUnreachable(_ failure: TransferFailure) -> Bool {
    switch failure.code {
    case .hostNotFound, .connectionRefused, .networkUnavailable, .proxyFailed: true
    default: false
    }
  }

  // MARK: Redirects

  /// Every hop is judged here; the task's own URL stays as it is, and the next attempt starts from it.
  private mutating func follow(_ location: String, _ id: TaskID, _ work: ActiveTask, _ now: ClockReading) {
    guard let request = work.request, let status = work.head?.status else { return dropStale() }
    func stop(_ code: FailureCode, _ detail: String) {
      leaveWireAfterEnd(id)
      finish(id, .failed(TransferFailure(code, .permanent, domain: "http", number: status, detail: detail)), now)
    }
    guard work.hops < Limits.redirects else {
      return stop(.tooManyRedirects, "The server redirected more than \(Limits.redirects) times.")
    }
    guard let target = Origin(url: location), let origin = Origin(url: request.url) else {
      return stop(.unsupportedURL, "The server redirected to something that is no http or https URL.")
    }
    if origin.scheme == "https", target.scheme == "http" {
      return stop(
        .redirectForbidden, "The server redirected from https to http on \(target.host), which is not followed.")
    }
    lastAttempt.rawValue += 1
    var next = work
    attemptOwners[work.attempt] = nil
    attemptOwners[lastAttempt] = id
    next.attempt = lastAttempt
    next.hops += 1
    next.verdict = nil
    next.head = nil
    next.request = Redirect.next(request, status: status, to: location, leavesOrigin: target != origin)
    active[id] = next
    tasks[id]?.entry.state = .running(lastAttempt)
    tasks[id]?.entry.sent = 0
    open(id)
  }

  // MARK: Leaving the wire

  /// Ends a running task's attempt from our side.
  mutating func leaveWire(_ id: TaskID) {
    guard let work = active[id] else { return }
    effects.append(.stop(work.attempt))
    leaveWireAfterEnd(id)
  }

  /// The attempt is over: its slot is free.
  mutating func leaveWireAfterEnd(_ id: TaskID) {
    guard let work = active.removeValue(forKey: id) else { return }
    attemptOwners[work.attempt] = nil
    if let lane = tasks[id]?.lane { admission.release(lane) }
  }
}

/// What a redirect makes of a request (RFC 9110 section 15.4).
package enum Redirect {
  package static func next(
    _ request: TransferRequest, status: Int, to location: String, leavesOrigin: Bool
  ) -> TransferRequest {
    var next = request
    next.url = location
    let becomesGet =
      status == 303 ? request.method != "HEAD" : (status == 301 || status == 302) && request.method == "POST"
    if becomesGet, request.method != "GET" {
      next.method = "GET"
      next.headers.fields.removeAll { field in
        ["content-type", "content-encoding", "content-language", "content-length", "idempotency-key"]
          .contains(field.name.asciiLowercased)
      }
    }
    if leavesOrigin {
      next.headers.fields.removeAll { SecretHeaders.isSecret($0.name, marked: request.secretHeaderNames) }
    }
    return next
  }
}

extension ResponseHead {
  /// The coding that the content must be freed from before it is delivered; nil for none, or one that is no coding.
  package var contentEncodingToUndo: String? {
    guard let text = headers["Content-Encoding"]?.trimmingOptionalWhitespace.asciiLowercased, !text.isEmpty,
      text != "identity"
    else { return nil }
    return text
  }
}
