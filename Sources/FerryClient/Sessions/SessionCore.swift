import FoundationEssentials
import Synchronization
import WireProtocol

/// What a session's object, its results and the connection's thread share.
final class SessionCore: Sendable {
  struct Waiter {
    let ticket: Int
    let continuation: CheckedContinuation<Result<TaskStatus, FerryError>, Never>
  }

  struct State {
    var mirror = SessionMirror()
    /// Numbers of `file` and `body` deliveries whose completion has not come yet.
    var held: [Int64: [Int64]] = [:]
    var waiters: [Int64: [Waiter]] = [:]
    var nextTicket = 0
    /// What is to be acknowledged when one of the acknowledgements that are on their way was answered.
    var gathered: [Handled] = []
    var acknowledging = 0
    /// How often the daemon lost its state: numbers of deliveries count within one of its lives.
    var losses = 0
    var isClosed = false
  }

  /// Deliveries that the program is done with.
  struct Handled {
    var numbers: [Int64]
    /// The task whose last result this was.
    var task: Int64?
    /// Nil: nobody waits for it.
    var completion: (@Sendable (Result<Void, FerryError>) -> Void)?
  }

  /// What one request acknowledges.
  struct Batch {
    var session: Int64
    var losses: Int
    var handled: [Handled]
  }

  let connection: DaemonConnection
  let parameters: SessionOpenParameters
  let events: EventQueue
  let state = Mutex(State())

  init(connection: DaemonConnection, parameters: SessionOpenParameters) {
    self.connection = connection
    self.parameters = parameters
    let box = WeakCore()
    events = EventQueue { number in box.core?.acknowledgeUnwatched([number]) }
    box.core = self
  }

  /// The durable id; nil before the session was opened.
  var id: Int64? { state.withLock { $0.mirror.session } }
  var isClosed: Bool { state.withLock { $0.isClosed } }
  func knows(_ task: Int64) -> Bool { state.withLock { $0.mirror.tasks[task] != nil } }

  // MARK: Opening

  func opened(_ result: SessionOpenResult) {
    let void = state.withLock { state -> [Handled]? in
      guard !state.mirror.opened(result) else { return nil }
      state.held = [:]
      state.losses += 1
      // The new session counts its deliveries from 1 too.
      defer { state.gathered = [] }
      return state.gathered
    }
    guard let void else { return }
    events.forgetFinishNumbers()
    events.push(.unavailable(Self.lostState))
    for handled in void { handled.completion?(.failure(Self.lostState)) }
    failWaiters(Self.lostState)
  }

  private static let lostState =
    FerryError(.sessionUnknown, "ferryd lost its state; the session is empty and its receipts are void")

  /// On the connection's thread, after a reconnect.
  func openAgain() {
    guard !isClosed else { return }
    do throws(ConnectionFailure) {
      opened(try connection.call(.sessionOpen(parameters), returning: SessionOpenResult.self))
    } catch {
      // `lost`: the next reconnect tries again.
      if error.kind != .lost, error.kind != .closed { events.push(.unavailable(FerryError(error))) }
    }
    for task in state.withLock({ $0.waiters.keys.sorted() }) { askForWaiters(task) }
  }

  // MARK: What comes from the daemon

  /// On the connection's thread; who waits for events is woken by ``EventQueue/wake()``.
  func handle(_ notification: DaemonNotification) {
    let changes = state.withLock { $0.isClosed ? [] : $0.mirror.apply(notification) }
    for change in changes { handle(change) }
  }

  private func handle(_ change: SessionMirror.Change) {
    switch change {
    case .progressed(let task): events.add(.progressed(TaskStatus(task)))
    case .changed(let snapshot): changed(TaskStatus(snapshot))
    case .resumed(let task, let offset): events.add(.resumed(TaskStatus(task), offset: offset))
    case .responded, .bytes: break
    case .delivered(let notice): delivered(notice)
    case .acknowledgeAgain(let numbers): acknowledgeUnwatched(numbers)
    case .ended:
      events.push(.ended)
      close(tellingDaemon: false)
    }
  }

  private func changed(_ task: TaskStatus) {
    switch task.state {
    case .waiting: events.add(.waiting(task))
    // Without a question it is of a daemon that knows none.
    case .asking: events.add(task.question.map { .asking(task, $0) } ?? .waiting(task))
    case .suspended, .running, .finalizing: events.add(.progressed(task))
    case .succeeded, .failed, .cancelled: resumeWaiters(task)
    }
  }

  private func delivered(_ notice: DeliveryNotice) {
    guard let snapshot = notice.task, let kind = DeliveryKind(rawValue: notice.kind) else {
      if notice.kind == DeliveryKind.finishEvents.rawValue {
        events.addAllFinished(notice.number)
      } else {
        // Of a later release: nothing here can handle it, and unacknowledged it would come for ever.
        acknowledgeUnwatched([notice.number])
      }
      return
    }
    switch kind {
    case .file, .body:
      state.withLock { $0.held[snapshot.id, default: []].append(notice.number) }
      resumeWaiters(TaskStatus(snapshot))
    case .completion:
      let (numbers, losses) = state.withLock { state in
        ((state.held.removeValue(forKey: snapshot.id) ?? []) + [notice.number], state.losses)
      }
      let task = TaskStatus(snapshot)
      if let result = TaskResult(task: task, core: self, losses: losses, numbers: numbers) {
        events.add(.finished(result))
      }
      resumeWaiters(task)
    case .finishEvents: events.addAllFinished(notice.number)
    }
  }

  private enum DeliveryKind: String { case file, body, completion, finishEvents }

  // MARK: Acknowledging

  /// - Parameter losses: of the daemon's state, when they were offered.
  func acknowledge(_ numbers: [Int64], task: Int64, after losses: Int) async throws(FerryError) {
    let outcome = await withCheckedContinuation { (answer: CheckedContinuation<Result<Void, FerryError>, Never>) in
      acknowledge(Handled(numbers: numbers, task: task) { answer.resume(returning: $0) }, after: losses)
    }
    try outcome.get()
  }

  private func acknowledgeUnwatched(_ numbers: [Int64]) { acknowledge(Handled(numbers: numbers), after: nil) }

  /// Requests on their way beyond which results gather: each waits for a commit. A program that handles thousands of
  /// results a second would make a request of each.
  fileprivate static let acknowledgements = 4
  /// So many make a request all the same, for what it frees in the daemon's window is offered with it: with all of the
  /// window in requests that wait for one commit the daemon would have nothing to do meanwhile. The window bounds how
  /// many such requests there are.
  fileprivate static let gatheredResults = 16

  private func acknowledge(_ handled: Handled, after losses: Int?) {
    let (refusal, batch) = state.withLock { state -> (FerryError?, Batch?) in
      guard !state.isClosed, state.mirror.session != nil else {
        return (FerryError(.closed, "the session is closed"), nil)
      }
      guard losses == nil || losses == state.losses else { return (Self.lostState, nil) }
      state.mirror.deliveries.handled(handled.numbers)
      state.gathered.append(handled)
      return (nil, state.takeDue())
    }
    if let refusal { handled.completion?(.failure(refusal)) }
    send(batch)
  }

  private func send(_ batch: Batch?) {
    guard let batch else { return }
    let numbers = batch.handled.flatMap(\.numbers)
    connection.request(
      .deliveryAcknowledge(DeliveryAcknowledgeParameters(session: batch.session, numbers: numbers)),
      returning: EmptyResult.self
    ) { [self] outcome in
      let next = state.withLock { state in
        if case .success = outcome, state.losses == batch.losses {
          state.mirror.deliveries.confirmed(numbers)
          for task in batch.handled.compactMap(\.task) { state.mirror.forget(task) }
        }
        state.acknowledging -= 1
        return state.takeDue()
      }
      let result = outcome.map { _ in }.mapError { FerryError($0) }
      for handled in batch.handled { handled.completion?(result) }
      send(next)
    }
  }

  // MARK: Waiting for one task

  func wait(for task: Int64) async throws(FerryError) -> TaskStatus {
    let ticket = state.withLock { state in
      state.nextTicket += 1
      return state.nextTicket
    }
    let outcome = await withTaskCancellationHandler {
      await withCheckedContinuation { (continuation: CheckedContinuation<Result<TaskStatus, FerryError>, Never>) in
        let refusal = state.withLock { state -> FerryError? in
          if state.isClosed { return FerryError(.closed, "the session is closed") }
          if Task.isCancelled { return Self.cancelled }
          state.waiters[task, default: []].append(Waiter(ticket: ticket, continuation: continuation))
          return nil
        }
        if let refusal {
          continuation.resume(returning: .failure(refusal))
        } else {
          askForWaiters(task)
        }
      }
    } onCancel: {
      let waiter = state.withLock { state -> Waiter? in
        guard let index = state.waiters[task]?.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return state.waiters[task]?.remove(at: index)
      }
      waiter?.continuation.resume(returning: .failure(Self.cancelled))
    }
    return try outcome.get()
  }

  private static let cancelled = FerryError(.cancelled, "the Swift task that waited was cancelled")

  /// Asks for the present state: the task may have ended before anybody waited.
  private func askForWaiters(_ task: Int64) {
    connection.request(.taskShow(TaskShowParameters(id: task)), returning: TaskShowResult.self) { [self] outcome in
      switch outcome {
      case .success(let shown):
        state.withLock { $0.mirror.learned(shown.task) }
        resumeWaiters(TaskStatus(shown.task))
      case .failure(let failure): failWaiters(FerryError(failure), of: task)
      }
    }
  }

  private func resumeWaiters(_ task: TaskStatus) {
    guard task.state.isFinished else { return }
    let waiters = state.withLock { $0.waiters.removeValue(forKey: task.id) ?? [] }
    for waiter in waiters { waiter.continuation.resume(returning: .success(task)) }
  }

  private func failWaiters(_ error: FerryError, of task: Int64? = nil) {
    let waiters = state.withLock { state -> [Waiter] in
      if let task { return state.waiters.removeValue(forKey: task) ?? [] }
      defer { state.waiters = [:] }
      return state.waiters.keys.sorted().flatMap { state.waiters[$0] ?? [] }
    }
    for waiter in waiters { waiter.continuation.resume(returning: .failure(error)) }
  }

  func unavailable(_ failure: ConnectionFailure) {
    let error = FerryError(failure)
    events.push(.unavailable(error))
    failWaiters(error)
  }

  // MARK: The end

  func close(tellingDaemon: Bool) {
    let (session, batch) = state.withLock { state -> (Int64??, Batch?) in
      guard !state.isClosed else { return (nil, nil) }
      state.isClosed = true
      return (.some(state.mirror.session), state.takeGathered())
    }
    guard let session else { return }
    send(batch)
    events.finish()
    failWaiters(FerryError(.closed, "the session is closed"))
    if tellingDaemon, let session {
      connection.request(
        .sessionClose(SessionCloseParameters(session: session)), returning: EmptyResult.self
      ) { _ in }
    }
  }
}

extension SessionCore.State {
  /// What gathered, where it is to wait no longer.
  mutating func takeDue() -> SessionCore.Batch? {
    guard acknowledging < SessionCore.acknowledgements || gathered.count >= SessionCore.gatheredResults else {
      return nil
    }
    return takeGathered()
  }

  mutating func takeGathered() -> SessionCore.Batch? {
    guard !gathered.isEmpty, let session = mirror.session else { return nil }
    defer { gathered = [] }
    acknowledging += 1
    return SessionCore.Batch(session: session, losses: losses, handled: gathered)
  }
}

/// Breaks the ring of a session and its queue.
private final class WeakCore: Sendable {
  private struct Reference { weak var core: SessionCore? }
  private let reference = Mutex(Reference())
  var core: SessionCore? {
    get { reference.withLock { $0.core } }
    set { reference.withLock { $0.core = newValue } }
  }
}
