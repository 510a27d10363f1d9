/// How a session's tasks are carried out.
package enum SessionConduct: Hashable, Sendable {
  /// Whether anybody waits or not: failures are retried until the task's time is over, redirects are followed.
  case background
  /// For a program that waits: failures are told at once, and it decides about each redirect. Nothing is kept for it
  /// beyond its tasks.
  case foreground(waitsForConnectivity: Bool)
}

/// What only the client of a foreground session asks for.
package enum ForegroundCommand: Hashable, Sendable {
  /// Makes a session and attaches the peer to it; the key must be new.
  case open(SessionKey, network: NetworkSettings, waitsForConnectivity: Bool)
  /// The answer to ``ForegroundEffect/askRedirect(_:_:_:)``: the request to go on with.
  case follow(TaskID, TransferRequest)
  /// An answer to ``ForegroundEffect/askCredential(_:_:_:)``.
  case authorize(TaskID, Answer)
  /// The other answer to both: the response that was asked about is the result, `held` bytes of its body are in the
  /// part file. Nil: there is none, and the task fails; or it asks for a credential and did not come to its end, so
  /// that it is asked for again, and what comes then is the result.
  case keepResponse(TaskID, held: Int64?)
}

/// What a shell with foreground sessions does beside the rest.
package enum ForegroundEffect: Hashable, Sendable {
  /// The client decides about a redirect: the response, and the request that would follow it.
  case askRedirect(TaskID, ResponseHead, TransferRequest)
  /// The client is asked for a credential; no response came with the question where a connection could not be made.
  case askCredential(TaskID, ResponseHead?, Challenge)
  /// Stop receiving: the task was suspended, and keeps its connection.
  case pause(AttemptID)
  case unpause(AttemptID)
  /// The task waits for a network, or for one that it may use; told anew each time that it is found to.
  case awaitsConnectivity(TaskID)
}

extension Core {
  mutating func carryOut(_ command: ForegroundCommand, _ token: RequestToken, _ now: ClockReading) {
    switch command {
    case .open(let key, let network, let waits):
      guard sessions[key] == nil else {
        return refuse(token, .sessionInUse, "The session \"\(key.identifier)\" is open already.")
      }
      lastSessionID.rawValue += 1
      var record = SessionRecord(id: lastSessionID, key: key, network: network, collectsResults: false)
      record.conduct = .foreground(waitsForConnectivity: waits)
      var cell = SessionCell(record: record)
      cell.attached = token.peer
      sessions.insert(cell, isStored: true)
      effects.append(.reply(token, .sessionOpened(lastSessionID, nextTaskNumber: 1, isNew: true)))
    case .follow(let id, let request):
      if let work = deciding(id), work.challenge == nil { follow(request, id, work, now) }
      effects.append(.reply(token, .done))
    case .authorize(let id, let answer):
      authorize(id, answer, now)
      effects.append(.reply(token, .done))
    case .keepResponse(let id, let held):
      keepResponse(id, held: held, now)
      effects.append(.reply(token, .done))
    }
  }

  func isForeground(_ session: SessionID?) -> Bool {
    guard let session else { return false }
    return sessions[session]?.record.conduct.isForeground ?? false
  }

  /// Whether a failed attempt is followed by another.
  func mayTryAgain(_ cell: TaskCell, _ failure: TransferFailure?) -> Bool {
    switch sessions[cell.entry.session]?.record.conduct {
    case .background, nil: true
    // What has begun to arrive was given to the program, which would get it twice.
    case .foreground(let waits): waits && failure?.code == .networkUnavailable && cell.entry.received == 0
    }
  }

  // MARK: What the client decides

  /// The response about which the client of a task decides.
  package func headInQuestion(_ id: TaskID) -> ResponseHead? { deciding(id)?.head }

  /// It is one that asks for a credential.
  package func asksCredential(_ id: TaskID) -> Bool { deciding(id)?.challenge != nil }

  func deciding(_ id: TaskID) -> ActiveTask? {
    guard let work = active[id], work.phase == .deciding else { return nil }
    return work
  }

  /// The attempt is over; the task keeps its slot while its client decides.
  mutating func askRedirect(_ id: TaskID, _ work: ActiveTask, _ head: ResponseHead, _ next: TransferRequest) {
    active[id]?.phase = .deciding
    effects.append(.foreground(.askRedirect(id, head, next)))
  }

  private mutating func follow(
    _ request: TransferRequest, _ id: TaskID, _ work: ActiveTask, _ now: ClockReading
  ) {
    guard Origin(url: request.url) != nil else {
      leaveWireAfterEnd(id)
      let failure = TransferFailure(
        .unsupportedURL, .permanent, detail: "The redirect leads to something that is no http or https URL.")
      return finish(id, .failed(failure), now)
    }
    // The credential was taken; what the next place refuses is counted anew.
    if details[id]?.progress.access != nil { details[id]?.progress.access?.failures = 0 }
    hop(id, work, request)
  }

  mutating func keepResponse(_ id: TaskID, held: Int64?, _ now: ClockReading) {
    guard let work = deciding(id), let kind = tasks[id]?.entry.kind, let request = work.request else { return }
    guard let head = work.head else {
      if let challenge = work.challenge?.challenge,
        acceptVouched(challenge, of: id) || goWithoutIdentity(challenge, of: id)
      {
        return hop(id, work, request, isRedirect: false)
      }
      leaveWireAfterEnd(id)
      if let failure = work.challenge?.failure { finish(id, .failed(failure), now) }
      return
    }
    guard let held else {
      declineChallenges(id)
      return hop(id, work, request, isRedirect: false)
    }
    leaveWireAfterEnd(id)
    // What was kept to go on from made room for it.
    details[id]?.progress.resumePoint = nil
    details[id]?.progress.response = head
    if kind == .data { return finish(id, .succeeded, now) }
    finalize(id, held: max(0, held), encoding: head.contentEncodingToUndo, now)
  }

  // MARK: Suspension

  /// A suspended transfer keeps its connection, and its slot goes to another: six that are suspended must not keep a
  /// seventh from its host.
  mutating func hold(_ id: TaskID) {
    guard let work = active[id], !work.isPaused else { return }
    active[id]?.isPaused = true
    if let lane = tasks[id]?.lane { admission.release(lane) }
    tasks[id]?.entry.deadline = nil
    tasks[id]?.deadlineAt = nil
    if work.phase == .onTheWire { effects.append(.foreground(.pause(work.attempt))) }
  }

  mutating func letGo(_ id: TaskID, _ now: ClockReading) {
    guard let work = active[id], work.isPaused, let timeout = details[id]?.plan.resourceTimeout else { return }
    active[id]?.isPaused = false
    if let lane = tasks[id]?.lane { admission.occupy(lane) }
    setDeadline(id, timeout, now)
    if work.phase == .onTheWire { effects.append(.foreground(.unpause(work.attempt))) }
  }
}

extension SessionConduct {
  package var isForeground: Bool {
    switch self {
    case .background: false
    case .foreground: true
    }
  }
}
