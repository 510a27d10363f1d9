extension Core {
  // MARK: Towards the wire

  /// Puts a waiting task in its lane's line.
  mutating func line(up id: TaskID, _ now: ClockReading) {
    guard var cell = tasks[id], cell.entry.state == .waiting else { return }
    let wasQueued = cell.isQueued
    admission.enqueue(&cell, at: now.boot)
    if cell.isQueued != wasQueued { tasks[id]?.isQueued = cell.isQueued }
    noteUnjudged(cell)
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
    // The wait is over; a clock that is set back must not bring it back.
    tasks[id]?.entry.notBefore = nil
    // A request that may not be repeated must be on record before it leaves; the others need no row for that.
    if tasks[id]?.entry.isRepeatable == false { touch(id) }
    effects.append(.announce(id, .state))
    if isResident(id) { open(id) } else { load(id) }
  }

  /// Asks for the details of a task, and of those behind it in its line: else each of them would wait for the store
  /// alone.
  private mutating func load(_ id: TaskID) {
    if !prefetched.contains(id) { effects.append(.loadDetails(id)) }
    guard let lane = tasks[id]?.lane, prefetched.count < Limits.prefetchedDetails / 2 else { return }
    for next in admission.upcoming(lane, Limits.prefetchedDetails)
    where !isResident(next) && tasks[next]?.entry.state == .waiting && prefetched.insert(next).inserted {
      effects.append(.loadDetails(next))
    }
  }

  private mutating func open(_ id: TaskID) {
    guard let held = details[id], var work = active[id] else { return }
    work.phase = .opening
    if work.request == nil { work.request = held.request }
    active[id] = work
    let part = held.plan.kind == .data ? nil : held.plan.partPath
    effects.append(
      .openFiles(
        work.attempt,
        OpenOrder(task: id, partPath: part, source: held.plan.source, destination: held.plan.destination)))
  }

  mutating func take(_ loaded: TaskDetails?, of id: TaskID, _ now: ClockReading) {
    prefetched.remove(id)
    guard let cell = tasks[id] else {
      runHeldCommands(after: id, now)
      return dropStale()
    }
    if let loaded {
      // What is in memory is newer than what was read.
      if !isResident(id) { keepResident(id, loaded) }
    } else if !isResident(id) {
      unreadable.insert(id)
    }
    // What the restart means for the task comes first: a command must not find it on a wire that is no more.
    if unreadable.contains(id), !cell.entry.state.isFinished { quarantine(id, now) }
    conclude(id, now)
    runHeldCommands(after: id, now)
    judgeConditions(of: id, now)
    if active[id]?.phase == .loading { open(id) }
    if let due = tasks[id]?.deadlineAt, due <= now.boot { timeOut(id, now) }
    if cell.entry.kind == .data { endDataTasks(of: cell.entry.session, now) }
    forgetIfExpired(id, now)
  }

  private mutating func quarantine(_ id: TaskID, _ now: ClockReading) {
    if active[id] != nil { leaveWire(id) }
    finish(id, .failed(Self.recordUnreadable), now)
  }

  /// Of a task whose details cannot be read, also after it has ended.
  package static let recordUnreadable = TransferFailure(
    .recordUnreadable, .permanent,
    detail: "The daemon's record of this task is damaged; it was set aside. Enqueue the transfer again.")

  mutating func filesFailed(_ attempt: AttemptID, _ failure: TransferFailure, _ now: ClockReading) {
    guard let id = owner(attempt), let work = active[id], let cell = tasks[id] else { return dropStale() }
    leaveWireAfterEnd(id)
    settle(failure, of: id, work, cell, false, now)
  }

  /// Files are open: builds the request, or finds that nothing is left to ask for.
  mutating func begin(_ attempt: AttemptID, _ files: OpenedFiles, _ now: ClockReading) {
    guard let id = owner(attempt), var work = active[id], let held = details[id], let cell = tasks[id],
      let session = sessions[cell.entry.session]?.record, var request = work.request
    else {
      // The attempt was ended while its files were opened: nobody else would close them.
      effects.append(.stop(attempt))
      return dropStale()
    }
    if files.isPlaced, let length = files.partBytes, held.plan.kind == .download {
      // Nothing may be written to a file that its user can see already; recording it is all that is missing.
      effects.append(.stop(attempt))
      leaveWireAfterEnd(id)
      let encoding = held.progress.response?.contentEncodingToUndo
      // Whether its length was verified is known no more, but from the record, or from what decoding it has shown.
      if encoding == nil, cell.entry.expected != length { details[id]?.progress.isLengthVerified = false }
      return finalize(id, held: length, encoding: encoding, now)
    }
    let resume = resumePoint(held, files)
    if let resume, let total = resume.total, resume.offset == total, held.plan.kind == .download {
      // Failure case 23: what is held is whole already.
      effects.append(.stop(attempt))
      leaveWireAfterEnd(id)
      return finalize(id, held: total, encoding: held.progress.response?.contentEncodingToUndo, now)
    }
    if let missing = missingSpace(held, cell, files, resume) {
      effects.append(.stop(attempt))
      leaveWireAfterEnd(id)
      return settle(missing, of: id, now)
    }
    work.resume = resume
    work.roomBytes = files.freeBytes.map { $0.addingClamped(files.partBytes ?? 0) }
    work.phase = .onTheWire
    active[id] = work
    let isForeground = session.conduct.isForeground
    let decodes = isForeground && held.plan.kind == .data
    request.headers = attemptHeaders(request, resume, decodes: decodes)
    let access = attemptAccess(held, request, session)
    if access.credential != nil { request.headers.remove("Authorization") }
    if access.proxyCredential != nil { request.headers.remove("Proxy-Authorization") }
    // This attempt may overwrite a part file that the row still vouches for: the row must forget it first.
    let forgetsPart = resume == nil && held.progress.resumePoint != nil
    if forgetsPart {
      details[id]?.progress.resumePoint = nil
      // Its client expects to hear from where it goes on.
      if adoptions[id] != nil { effects.append(.announce(id, .resumed(offset: 0))) }
    }
    let mustBeOnRecord = forgetsPart || !cell.entry.isRepeatable || cell.entry.attempts > 1
    if mustBeOnRecord {
      touch(id, progress: forgetsPart)
      active[id]?.awaitsRecord = true
    }
    let order = AttemptOrder(
      attempt: attempt, task: id, request: request, network: session.network,
      body: request.method == held.plan.request.method ? held.plan.source.map(RequestBody.file) ?? .none : .none,
      sink: held.plan.kind == .data ? .client : .partFile(path: held.plan.partPath),
      judgement: JudgementContext(
        kind: held.plan.kind, statusRule: held.plan.statusRule, resume: resume, now: now.wall,
        // A program that waits is given a part that it did not ask for, and sees that it is one.
        asksForPart: (isForeground || request.headers.contains("Range")) && resume == nil,
        asking: askRule(held, session)),
      noProgressTimeout: held.plan.requestTimeout, needsFreshConnection: !request.isIdempotent,
      keepsResumePoint: held.plan.kind == .download && held.plan.request.method == "GET",
      decodesContent: decodes, keepsAskedBody: isForeground, tellsInterim: isForeground, credential: access.credential,
      proxyCredential: access.proxyCredential, tls: access.tls, trust: access.trust)
    effects.append(.begin(order, afterCommit: mustBeOnRecord))
    if work.isPaused { effects.append(.foreground(.pause(attempt))) }
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

  private func missingSpace(
    _ held: TaskDetails, _ cell: TaskCell, _ files: OpenedFiles, _ resume: ResumePoint?
  ) -> TransferFailure? {
    guard let free = files.freeBytes else { return nil }
    if let total = resume?.total { return Self.missingSpace(needed: total - (resume?.offset ?? 0), free: free) }
    // What its owner expects is looked at before the server was asked; header fields count in it, and are few.
    if cell.entry.expected == nil, let hint = held.progress.hintToReceive, held.plan.kind == .download, resume == nil {
      return Self.missingSpace(needed: hint, free: free.addingClamped(files.partBytes ?? 0))
    }
    // What was too large for the disk a moment ago is not fetched again to find out that it still is.
    guard resume == nil else { return nil }
    guard held.progress.failure?.code == .noSpace, let total = cell.entry.expected else {
      // Whatever the answer is, there is no room for it: the server is asked when there is.
      return free == 0 ? TransferFailure(.noSpace, .transient, detail: "The disk has no room for transfers.") : nil
    }
    return Self.missingSpace(needed: total, free: free.addingClamped(files.partBytes ?? 0))
  }

  private static func missingSpace(needed: Int64, free: Int64) -> TransferFailure? {
    guard needed > free else { return nil }
    return TransferFailure(
      .noSpace, .transient, detail: "The disk has \(free) bytes free for transfers, and \(needed) more are needed.")
  }

  /// Failure case 41: a whole body that does not fit is not begun. Only what may be asked for again is left so.
  private func missingSpace(for head: ResponseHead, _ work: ActiveTask, _ cell: TaskCell) -> TransferFailure? {
    guard work.verdict == .takeWhole, cell.entry.kind == .download, isSafe(cell.entry.id), let free = work.roomBytes,
      let length = head.contentLength
    else { return nil }
    return Self.missingSpace(needed: length, free: free)
  }

  private func attemptHeaders(_ request: TransferRequest, _ resume: ResumePoint?, decodes: Bool) -> HeaderFields {
    var headers = request.headers
    // Offsets count the bytes of one representation, so that no server may choose an encoding (failure cases 5 and 6).
    if !headers.contains("Accept-Encoding") {
      headers.set("Accept-Encoding", to: decodes ? AttemptOrder.decodedEncodings : "identity")
    }
    if let resume {
      headers.set("Range", to: "bytes=\(resume.offset)-")
      headers.set("If-Range", to: resume.validator.fieldValue)
    }
    return headers
  }

  // MARK: On the wire

  /// The shell hands the attempt's order to the engine now: from here on the server may have the request.
  package mutating func began(_ attempt: AttemptID) {
    if let id = owner(attempt) { active[id]?.awaitsRecord = false }
  }

  func owner(_ attempt: AttemptID) -> TaskID? {
    guard let id = attemptOwners[attempt], let work = active[id], work.attempt == attempt, work.phase != .deciding
    else { return nil }
    return id
  }

  mutating func dropStale() { staleEvents += 1 }

  mutating func note(_ head: ResponseHead, _ verdict: ResponseVerdict, _ attempt: AttemptID, _ now: ClockReading) {
    guard let id = owner(attempt), var work = active[id], let cell = tasks[id] else { return dropStale() }
    work.verdict = verdict
    work.head = head
    work.awaitsFirstByte = false
    admission.noteAnswer(cell.lane)
    if let missing = missingSpace(for: head, work, cell) {
      tasks[id]?.entry.expected = head.contentLength
      leaveWire(id)
      return settle(missing, of: id, now)
    }
    defer { active[id] = work }
    if verdict.takesBody, details[id]?.progress.access?.failures ?? 0 > 0 { details[id]?.progress.access?.failures = 0 }
    switch verdict {
    case .takeWhole:
      if details[id]?.progress.resumePoint != nil {
        details[id]?.progress.resumePoint = nil
        touch(id, progress: true)
      }
      if work.resume != nil {
        details[id]?.progress.wasted += work.resume?.offset ?? 0
        effects.append(.announce(id, .resumed(offset: 0)))
      }
      details[id]?.progress.response = head
      work.awaitsFirstByte = true
      work.newPoint = validatorToKeep(head, id).map { ResumePoint(validator: $0, offset: 0, total: head.totalLength) }
      tasks[id]?.entry.received = 0
      tasks[id]?.entry.expected = head.contentLength
      // The engine holds the body back when it was asked to continue something: the row must forget that first.
      if work.resume != nil { effects.append(.releaseBody(attempt)) }
      if cell.entry.kind == .data { effects.append(.announce(id, .response(head))) }
    case .continueAt(let told):
      let offset = max(0, told)
      let whole = details[id]?.progress.response
      details[id]?.progress.response = head.continuing(whole)
      work.awaitsFirstByte = true
      work.newPoint = nil
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
    if held > entry.received {
      active[id]?.madeProgress = true
      if tasks[id]?.questionsInRow != 0 { tasks[id]?.questionsInRow = 0 }
      vouch(for: id)
    }
    tasks[id]?.entry.received = max(0, held)
    // An engine that sends a body anew counts anew; what the server may have stays sent.
    tasks[id]?.entry.sent = max(entry.sent, sent)
    effects.append(.announce(id, .progress))
  }

  /// A body byte of this attempt is in the part file, so it was cut to where the body begins, and what it holds is what
  /// the row may say. Before that a kill could leave old bytes under a new validator.
  private mutating func vouch(for id: TaskID) {
    guard active[id]?.awaitsFirstByte == true else { return }
    active[id]?.awaitsFirstByte = false
    switch active[id]?.verdict {
    case .takeWhole: details[id]?.progress.resumePoint = active[id]?.newPoint
    // The server does continue what it began. (With a digest to meet the count is also that of its mismatches.)
    case .continueAt where details[id]?.plan.expectedSHA256 == nil: details[id]?.progress.restarts = 0
    case .continueAt, .alreadyComplete, .restart, .redirect, .retryLater, .ask, .reject, nil: break
    }
    details[id]?.progress.bootID = configuration.bootID
    guard details[id]?.progress.resumePoint != nil, let attempt = active[id]?.attempt else { return }
    // A small body is here before its row could say how it continues; after a crash it is fetched again.
    if active[id]?.verdict == .takeWhole, active[id]?.resume == nil, let expected = tasks[id]?.entry.expected,
      expected < Limits.unrecordedBytes
    {
      return
    }
    touch(id, progress: true)
    effects.append(.releaseBody(attempt))
  }

  mutating func noteSync(_ attempt: AttemptID, _ offset: Int64) {
    guard let id = owner(attempt) else { return dropStale() }
    if offset > 0 { vouch(for: id) }
    guard let point = details[id]?.progress.resumePoint else { return }
    details[id]?.progress.resumePoint?.offset = min(max(offset, 0), point.total ?? .max)
    touch(id, progress: true)
  }

  mutating func note(_ metrics: TransactionMetrics, _ attempt: AttemptID) {
    guard let id = owner(attempt) else { return dropStale() }
    details[id]?.progress.metrics.append(metrics)
    if active[id]?.cameByRedirect == true { details[id]?.progress.metrics.redirects += 1 }
  }

  mutating func end(_ attempt: AttemptID, _ end: AttemptEnd, _ requestWasSent: Bool, _ now: ClockReading) {
    guard let id = owner(attempt), let work = active[id], let cell = tasks[id] else { return dropStale() }
    switch end {
    case .complete(let summary):
      guard work.verdict?.takesBody == true else { return contradict(id, work, cell, requestWasSent, now) }
      leaveWireAfterEnd(id)
      details[id]?.progress.isLengthVerified = summary.isLengthVerified
      if cell.entry.kind == .data { return finish(id, .succeeded, now) }
      // A part need not repeat the coding of the whole that it continues.
      let encoding =
        work.resume == nil ? summary.contentEncoding : details[id]?.progress.response?.contentEncodingToUndo
      finalize(id, held: max(0, summary.held), encoding: encoding, now)
    case .redirected(let location):
      guard work.verdict == .redirect, let request = work.request, let status = work.head?.status else {
        return contradict(id, work, cell, requestWasSent, now)
      }
      follow(location, id, work, request, status, now)
      stopIfBlocked(id, now)
    case .discarded:
      if case .ask(let failure)? = work.verdict, askClient(about: failure, of: id, work) { return }
      leaveWireAfterEnd(id)
      if case .retryLater(let failure)? = work.verdict, let last = lastWord(failure, id, work, cell) {
        return finish(id, .failed(last), now)
      }
      settle(work, of: id, now)
    case .failed(let failure):
      if work.madeProgress { tasks[id]?.entry.failures = 0 }
      if askClient(about: failure, of: id, work) { return }
      leaveWireAfterEnd(id)
      if Self.isUnreachable(failure), !work.madeProgress, work.head == nil, !isForeground(cell.entry.session) {
        admission.noteUnreachable(cell.lane, at: now.boot, random: random.next())
      }
      if ask(about: failure, of: id, work, now) { return }
      settle(failure, of: id, work, cell, requestWasSent, now)
    case .untrusted(let failure, let server):
      active[id]?.shown = server
      if goesOnVouched(id, work, server) { return }
      self.end(attempt, .failed(failure), requestWasSent, now)
    }
  }

  /// The attempt ended in a way that its verdict does not allow: nothing of it is used.
  private mutating func contradict(
    _ id: TaskID, _ work: ActiveTask, _ cell: TaskCell, _ requestWasSent: Bool, _ now: ClockReading
  ) {
    leaveWireAfterEnd(id)
    let failure = TransferFailure(
      .internalFault, .transient, detail: "The attempt ended in a way that its response does not allow.")
    settle(failure, of: id, work, cell, requestWasSent, now)
  }

  /// An attempt failed; `cell` is the task's as it was before.
  private mutating func settle(
    _ failure: TransferFailure, of id: TaskID, _ work: ActiveTask, _ cell: TaskCell, _ requestWasSent: Bool,
    _ now: ClockReading
  ) {
    if let last = hopelessAfter(failure, cell, work, requestWasSent) { return finish(id, .failed(last), now) }
    settle(failure, of: id, now)
  }

  /// A status that is worth a second try, but not by a request that may not be repeated: 408, 425, 429 and 503 say that
  /// nothing was done (RFC 9110 section 15, RFC 8470 section 5.2, RFC 6585 section 4); after any other the server may
  /// have acted (RFC 9110 section 9.2.2).
  private func lastWord(
    _ failure: TransferFailure, _ id: TaskID, _ work: ActiveTask, _ cell: TaskCell
  ) -> TransferFailure? {
    guard !cell.entry.isRepeatable, !isSafe(id) else { return nil }
    if !wasAnsweredByRedirect(id, work), [408, 425, 429, 503].contains(failure.number) { return nil }
    var last = failure
    last.retryability = .permanent
    last.retryAfterSeconds = nil
    last.detail += " The server may have acted on the request, so it was not sent again."
    return last
  }

  /// A redirect turned the request into a GET: the server acted on it, and said where its answer stands.
  func wasAnsweredByRedirect(_ id: TaskID, _ work: ActiveTask) -> Bool {
    guard let method = work.request?.method, let original = details[id]?.plan.request.method else { return false }
    return method != original
  }

  /// A lost answer to a request that may not be repeated ends the task: sending it again could do the thing twice.
  private func hopelessAfter(
    _ failure: TransferFailure, _ cell: TaskCell, _ work: ActiveTask, _ wasSent: Bool
  ) -> TransferFailure? {
    let wasAnswered = wasAnsweredByRedirect(cell.entry.id, work)
    if cell.entry.kind == .data {
      // The client already has bytes that a second attempt would give it again.
      return cell.entry.received > 0 || ((wasSent || wasAnswered) && !isSafe(cell.entry.id)) ? failure : nil
    }
    guard !cell.entry.isRepeatable, wasSent || wasAnswered, failure.retryability == .transient else { return nil }
    if !wasAnswered, let source = details[cell.entry.id]?.plan.source, cell.entry.sent < source.identity.sizeBytes {
      return nil
    }
    return TransferFailure(
      .outcomeUnknown, .permanent, domain: failure.domain, number: failure.number,
      detail: "The request was sent, but its answer was lost (\(failure.detail)) The server may have acted on it, so "
        + "it was not sent again; an Idempotency-Key header would allow that.")
  }

  /// The server has all of a request that is not safe to repeat, and may act on it.
  func mayHaveActed(_ id: TaskID) -> Bool {
    guard let work = active[id], let entry = tasks[id]?.entry, !entry.isRepeatable, !isSafe(id) else { return false }
    if wasAnsweredByRedirect(id, work) { return true }
    guard work.phase == .onTheWire, !work.awaitsRecord else { return false }
    return entry.sent >= details[id]?.plan.source?.identity.sizeBytes ?? 0
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
  private mutating func follow(
    _ location: String, _ id: TaskID, _ work: ActiveTask, _ request: TransferRequest, _ status: Int,
    _ now: ClockReading
  ) {
    func stop(_ code: FailureCode, _ detail: String) {
      leaveWireAfterEnd(id)
      finish(id, .failed(TransferFailure(code, .permanent, domain: "http", number: status, detail: detail)), now)
    }
    guard work.hops < Limits.redirects else {
      return stop(.tooManyRedirects, "The server redirected more than \(Limits.redirects) times.")
    }
    let target = Origin(url: location)
    let origin = Origin(url: request.url)
    if origin?.scheme == "https", let target, target.scheme == "http" {
      return stop(
        .redirectForbidden, "The server redirected from https to http on \(target.host), which is not followed.")
    }
    let next = Redirect.next(request, status: status, to: location, leavesOrigin: target != origin)
    // The program may know what to do with a target that nobody here can follow.
    if isForeground(tasks[id]?.entry.session), let head = work.head { return askRedirect(id, work, head, next) }
    guard target != nil, origin != nil else {
      return stop(.unsupportedURL, "The server redirected to something that is no http or https URL.")
    }
    hop(id, work, next)
  }

  /// Goes on with the request that a redirect led to, or with the same one and what its server asked for.
  mutating func hop(_ id: TaskID, _ work: ActiveTask, _ request: TransferRequest, isRedirect: Bool = true) {
    lastAttempt.rawValue += 1
    var next = work
    attemptOwners[work.attempt] = nil
    attemptOwners[lastAttempt] = id
    next.attempt = lastAttempt
    next.hops += isRedirect ? 1 : 0
    next.cameByRedirect = isRedirect
    next.challenge = nil
    next.shown = nil
    next.verdict = nil
    next.head = nil
    next.awaitsFirstByte = false
    next.newPoint = nil
    next.request = request
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
    if let lane = tasks[id]?.lane, !work.isPaused { admission.release(lane) }
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
    if leavesOrigin { next.headers.removeBoundToOrigin(request.secretHeaderNames) }
    return next
  }
}

extension ResponseHead {
  /// The coding that the content must be freed from before it is delivered; nil for none, or one that nobody here
  /// undoes.
  package var contentEncodingToUndo: String? {
    guard let text = headers["Content-Encoding"]?.trimmingOptionalWhitespace.asciiLowercased else { return nil }
    // RFC 9110 section 8.4.1.3: "x-gzip" is the same.
    let coding = text == "x-gzip" ? "gzip" : text
    return ["gzip", "deflate", "br"].contains(coding) ? coding : nil
  }

  /// This part's head with what the response that it continues said of the whole: a 206 to If-Range leaves out what the
  /// client knows already (RFC 9110 section 15.3.7), its coding included.
  func continuing(_ earlier: ResponseHead?) -> ResponseHead {
    let ofOneMessage = ["content-length", "content-range", "transfer-encoding", "connection", "keep-alive", "trailer"]
    var whole = self
    for field in earlier?.headers.fields ?? []
    where !headers.contains(field.name) && !ofOneMessage.contains(field.name.asciiLowercased) {
      whole.headers.fields.append(field)
    }
    return whole
  }
}
