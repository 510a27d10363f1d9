import CurlEngine
import LinuxSystem
import TransferCore

extension TransferLoop {
  // MARK: What the program asks for

  func take(_ message: TransferHome.Message) {
    switch message {
    case .open(let session):
      sessionsOpened += 1
      let key = SessionKey(app: app, identifier: "\(sessionsOpened)")
      command(
        .foreground(.open(key, network: session.network, waitsForConnectivity: session.waitsForConnectivity)),
        for: message)
    case .close(let session):
      if let id = session.id { command(.invalidateSession(id, cancel: false)) }
    case .start(let transfer):
      guard let session = transfer.session.id else {
        return fail(transfer, Self.unavailable("the session is not open"))
      }
      var draft = transfer.draft
      // The core sends a body where it was told of a source; what it is, only the loop knows.
      switch transfer.body {
      case .none: break
      case .file(let path): draft.sourcePath = path
      case .feed: draft.sourcePath = "/"
      }
      command(.enqueue(session, [draft]), for: message)
    case .resume(let transfer): steer(transfer) { .resume([$0]) }
    case .suspend(let transfer): steer(transfer) { .suspend([$0]) }
    case .cancel(let transfer, let keepsPart): steer(transfer) { .cancel([$0], producesResumeData: keepsPart) }
    case .prioritize(let transfer, let priority):
      steer(transfer) { .update($0, TaskChange(priority: priority)) }
    case .takeMore(let transfer):
      if let id = transfer.id { letGo(id, .listener) }
    case .follow(let transfer, let request):
      if let id = transfer.id { works[id]?.keptBody = [] }
      steer(transfer) { .foreground(.follow($0, request)) }
    case .authorize(let transfer, let answer):
      if let id = transfer.id { works[id]?.keptBody = [] }
      steer(transfer) { .foreground(.authorize($0, answer)) }
    case .keepResponse(let transfer): keepResponse(transfer)
    case .provide(let feed, let length, let transfer): provide(feed, length, transfer)
    case .release(let transfer):
      if let id = transfer.id { forget(id) }
    case .opened(let attempt, let result): openedFiles(attempt, result)
    case .finalized(let id, let outcome): handle(.finalized(id, outcome))
    case .observed(let facts): observed(facts)
    }
    // In order: what one message causes is done before the next is looked at.
    perform()
  }

  private func steer(_ transfer: LocalTransfer, _ make: (TaskID) -> Command) {
    if let id = transfer.id { command(make(id)) }
  }

  private func keepResponse(_ transfer: LocalTransfer) {
    guard let id = transfer.id, let work = works[id] else { return }
    works[id]?.keptBody = []
    works[id]?.isInQuestion = false
    guard let head = core.headInQuestion(id) else { return forgo(id) }
    if core.asksCredential(id), !work.isKeptWhole { return forgo(id) }
    transfer.listener.transferResponded(head)
    var held: Int64 = 0
    if transfer.draft.kind == .data {
      if !work.keptBody.isEmpty { _ = transfer.listener.transferReceived(work.keptBody) }
    } else {
      do throws(SystemError) {
        held = try LocalFileCalls.write(work.keptBody, to: core.managedPath(id, app: app))
      } catch {
        // Finalizing finds fewer bytes than the response had, and says so.
        held = 0
      }
    }
    transfer.listener.transferProgressed(received: Int64(work.keptBody.count), sent: 0)
    command(.foreground(.keepResponse(id, held: held)))
  }

  /// There is no response to keep, or not all of it.
  private func forgo(_ id: TaskID) { command(.foreground(.keepResponse(id, held: nil))) }

  // MARK: Effects

  /// Runs what is to be done, in order, and what follows from that.
  func perform() {
    while firstEffect < effects.count {
      let effect = effects[firstEffect]
      firstEffect += 1
      // An answer that comes at once may have overtaken the effect.
      if core.isStillMeant(effect) { perform(effect) }
    }
    effects.removeAll(keepingCapacity: true)
    firstEffect = 0
  }

  private func perform(_ effect: Effect) {
    switch effect {
    case .reply(let token, let reply): answer(token, reply)
    case .announce(let id, let announcement): announce(id, announcement)
    case .prepare(let token, let orders): handle(.prepared(token, orders.map(prepared)))
    case .loadDetails(let id): handle(.detailsLoaded(id, details[id]))
    case .openFiles(let attempt, let order): openFiles(attempt, order)
    case .begin(let order, _):
      core.began(order.attempt)
      begin(order)
    case .releaseBody(let attempt): engine.releaseBody(attempt)
    case .stop(let attempt):
      opening[attempt] = nil
      opened.removeValue(forKey: attempt)?.closeAll()
      engine.stop(attempt)
    case .finalize(let order): finalize(order)
    case .removeFiles(let paths): remove(paths)
    case .foreground(let effect): perform(effect)
    // Apps are the daemon's.
    case .offer, .ask, .endSession, .discardPreparation, .app: break
    }
  }

  private func perform(_ effect: ForegroundEffect) {
    switch effect {
    case .askRedirect(let id, let head, let request):
      works[id]?.attempt = nil
      works[id]?.transfer.listener.transferAsksRedirect(head, request)
    case .askCredential(let id, let head, let challenge):
      works[id]?.attempt = nil
      works[id]?.transfer.listener.transferAsksCredential(challenge, head)
    case .pause(let attempt):
      if let id = core.taskOnWire(attempt) { hold(id, .suspended) }
    case .unpause(let attempt):
      if let id = core.taskOnWire(attempt) { letGo(id, .suspended) }
    case .awaitsConnectivity(let id):
      guard let work = works[id], !work.knowsThatItWaits else { return }
      works[id]?.knowsThatItWaits = true
      work.transfer.listener.transferAwaitsConnectivity()
    }
  }

  private func answer(_ token: RequestToken, _ reply: Reply) {
    guard let message = tokens.removeValue(forKey: token.sequence) else { return }
    switch (message, reply) {
    case (.open(let session), .sessionOpened(let id, _, _)): session.id = id
    case (.start(let transfer), .enqueued(let outcomes)):
      switch outcomes.first {
      case .accepted(let id, _, _, _):
        transfer.id = id
        works[id] = Work(transfer: transfer)
      case .refused(let refusal): refuse(transfer, refusal)
      case nil: refuse(transfer, Refusal(.invalidParameters, "The transfer was not taken."))
      }
    case (.start(let transfer), .refused(let refusal)): refuse(transfer, refusal)
    default: break
    }
  }

  private func refuse(_ transfer: LocalTransfer, _ refusal: Refusal) {
    fail(transfer, TransferFailure(.invalidRequest, .permanent, detail: refusal.message))
  }

  /// For a transfer that the core never took.
  private func fail(_ transfer: LocalTransfer, _ failure: TransferFailure) {
    transfer.listener.transferEnded(.failed(failure, nil), MetricsLog())
  }

  private func announce(_ id: TaskID, _ announcement: Announcement) {
    switch announcement {
    case .state:
      guard let cell = core.tasks[id], case .finished(let ending) = cell.entry.state else { return }
      end(id, ending, cell)
    case .resumed(let offset):
      works[id]?.transfer.listener.transferResumed(at: offset, of: core.tasks[id]?.entry.expected)
    case .removed, .progress, .response, .expiring: break
    }
  }

  private func end(_ id: TaskID, _ ending: TaskState.Ending, _ cell: TaskCell) {
    guard let work = works[id] else { return }
    let held = core.residentDetails(id) ?? details[id]
    let result: LocalEnding =
      switch ending {
      case .succeeded: .succeeded(file: held?.progress.filePath)
      case .cancelled: .cancelled(core.keptPart(of: id))
      case .failed:
        .failed(
          held?.progress.failure
            ?? TransferFailure(.internalFault, .permanent, detail: "The transfer failed without a reason."),
          core.keptPart(of: id))
      }
    work.transfer.listener.transferEnded(result, held?.progress.metrics ?? MetricsLog())
    if cell.entry.kind == .data || ending != .succeeded { forget(id) }
  }

  private func forget(_ id: TaskID) {
    guard let work = works.removeValue(forKey: id) else { return }
    work.transfer.id = nil
    command(.remove([id]))
  }
}
