public import FoundationEssentials
import TransferCore
import WireProtocol

/// A named group of tasks that outlives this program. Obtained from ``Ferry/session(_:options:)``.
///
/// The session is this process's as long as the object lives and ``close()`` was not called; then another process may
/// attach to it. Its tasks go on in any case.
public final class Session: Sendable {
  /// The name that it was opened under, unique within the app.
  public let identifier: String
  private let hub: Hub
  private let core: SessionCore

  init(identifier: String, hub: Hub, core: SessionCore) {
    self.identifier = identifier
    self.hub = hub
    self.core = core
  }

  deinit { hub.remove(core) }

  // MARK: New tasks

  /// Enqueues a download; see ``NewTask/download(_:to:collision:sha256:options:)``. When this returns, the task is
  /// durable.
  public func download(
    _ url: URL, to file: LocalPath? = nil, collision: Collision = .fail, sha256: String? = nil,
    options: TaskOptions = TaskOptions()
  ) async throws(FerryError) -> Receipt {
    try await enqueue(.download(url, to: file, collision: collision, sha256: sha256, options: options))
  }

  /// Enqueues a download that goes on where another one ended, into the same place.
  ///
  /// - Throws: `resumeDataInvalid` where the data is not ours, was used before, or is too old.
  public func download(
    resuming resumeData: Data, options: TaskOptions = TaskOptions()
  ) async throws(FerryError) -> Receipt {
    try await enqueue(.download(resuming: resumeData, options: options))
  }

  /// Enqueues a download into a folder, under the last component of the URL's path.
  public func download(
    _ url: URL, intoFolder folder: LocalPath, collision: Collision = .rename, sha256: String? = nil,
    options: TaskOptions = TaskOptions()
  ) async throws(FerryError) -> Receipt {
    try await enqueue(
      .download(url, intoFolder: folder, collision: collision, sha256: sha256, options: options))
  }

  /// Enqueues an upload of a file.
  public func upload(
    _ file: LocalPath, to url: URL, method: UploadMethod = .put, options: TaskOptions = TaskOptions()
  ) async throws(FerryError) -> Receipt {
    try await enqueue(.upload(file, to: url, method: method, options: options))
  }

  /// Enqueues one task.
  public func enqueue(_ task: NewTask) async throws(FerryError) -> Receipt {
    guard let outcome = try await enqueue([task]).first else {
      throw FerryError(.internalError, "the daemon answered an enqueued task with nothing")
    }
    return try outcome.get()
  }

  /// Enqueues many tasks; the outcomes are in their order. One that is refused does not keep the others out.
  ///
  /// - Throws: what concerns them all; those that were sent before may be enqueued then. Enqueue again with the same
  ///   ``TaskOptions/key``s to find out.
  public func enqueue(_ tasks: [NewTask]) async throws(FerryError) -> [Result<Receipt, FerryError>] {
    let session = try openID()
    var outcomes: [Result<Receipt, FerryError>?] = Array(repeating: nil, count: tasks.count)
    var places: [Int] = []
    var specifications: [WireTaskSpecification] = []
    for (index, task) in tasks.enumerated() {
      do throws(FerryError) {
        specifications.append(try task.specification())
        places.append(index)
      } catch {
        outcomes[index] = .failure(error)
      }
    }
    for batch in EnqueueBatches.split(specifications) {
      let accepted = try await send(batch, to: session)
      for (offset, task) in accepted.prefix(batch.count).enumerated() {
        outcomes[places[batch.startIndex + offset]] = receipt(task)
      }
    }
    let missing = FerryError(.internalError, "the daemon's reply left this task out")
    return outcomes.map { $0 ?? .failure(missing) }
  }

  /// The daemon refuses a batch with a malformed task as a whole, and accepts nothing of it: halves find the one.
  private func send(
    _ batch: ArraySlice<WireTaskSpecification>, to session: Int64
  ) async throws(FerryError) -> [EnqueuedTask] {
    let request = ClientRequest.taskEnqueue(TaskEnqueueParameters(session: session, tasks: Array(batch)))
    do {
      return try await core.connection.callAsync(request, returning: TaskEnqueueResult.self).tasks
    } catch {
      guard let refusal = error.wireError, refusal.name == .invalidURL || refusal.name == .invalidParameters else {
        throw FerryError(error)
      }
      guard batch.count > 1 else { return [EnqueuedTask(error: refusal)] }
    }
    let middle = batch.startIndex + batch.count / 2
    return try await send(batch[..<middle], to: session) + send(batch[middle...], to: session)
  }

  private func receipt(_ task: EnqueuedTask) -> Result<Receipt, FerryError> {
    if let error = task.error { return .failure(FerryError(error)) }
    guard let id = task.id, let number = task.number else {
      return .failure(FerryError(.internalError, "the daemon's reply has neither a receipt nor an error"))
    }
    return .success(
      Receipt(
        id: id, number: number, session: identifier, app: core.parameters.app,
        pin: task.pin.flatMap(SourcePin.init(rawValue:))))
  }

  // MARK: Following

  /// For one consumer. Results are offered here until they are acknowledged.
  public var events: SessionEvents { SessionEvents(queue: core.events) }

  /// Waits until the task has ended. This does not acknowledge its result, which is offered among the ``events`` too.
  ///
  /// - Throws: `taskUnknown` for a task whose result was acknowledged; `daemonUnavailable`; `cancelled` with the Swift
  ///   task that waits.
  public func outcome(of receipt: Receipt) async throws(FerryError) -> TaskOutcome {
    let status = try await core.wait(for: receipt.id)
    guard let outcome = status.outcome else { throw FerryError(.internalError, "task \(receipt.id) has no outcome") }
    return outcome
  }

  /// The task as it stands.
  public func status(of receipt: Receipt) async throws(FerryError) -> TaskStatus {
    TaskStatus(try await call(.taskShow(TaskShowParameters(id: receipt.id)), TaskShowResult.self).task)
  }

  /// All tasks of the session in the order of their creation, finished ones until their result is acknowledged.
  public func tasks(unfinishedOnly: Bool = false) async throws(FerryError) -> [TaskStatus] {
    var all: [TaskStatus] = []
    var after: Int64?
    while true {
      let page = try await call(
        .taskList(
          TaskListParameters(after: after, session: try openID(), isUnfinishedOnly: unfinishedOnly ? true : nil)),
        TaskListResult.self)
      all += page.tasks.map(TaskStatus.init)
      // A page that does not lead on would be asked for without end.
      guard let next = page.next, next > after ?? 0 else { return all }
      after = next
    }
  }

  // MARK: Changing

  /// Ends the task; its result is ``TaskOutcome/cancelled``, and its part file is removed. One that has ended stays as
  /// it is.
  public func cancel(_ receipts: Receipt...) async throws(FerryError) {
    try await reach(receipts) { .taskCancel($0) }
  }

  /// Ends a download and keeps what was fetched. Nil where it cannot be continued: the server gave no validator to
  /// trust, or nothing was received. The part waits seven days for ``download(resuming:options:)``; a download to a
  /// file keeps it hidden beside that file.
  public func cancelProducingResumeData(_ receipt: Receipt) async throws(FerryError) -> Data? {
    let request = TaskIdentifiersParameters(ids: [receipt.id], producesResumeData: true)
    let result = try await call(.taskCancel(request), TaskIdentifiersResult.self)
    guard result.unknown.isEmpty else { throw FerryError(.taskUnknown, "the daemon has no task \(receipt.id)") }
    return result.kept?.first.flatMap { ResumeTicket.data(token: $0.resumeToken, received: $0.received) }
  }

  /// Stops the tasks until ``resume(_:)`` and keeps what was fetched. One that runs and may not be repeated (a POST
  /// without an Idempotency-Key) stays as it is, as does one that is finalizing or has ended.
  public func suspend(_ receipts: Receipt...) async throws(FerryError) {
    try await reach(receipts) { .taskSuspend($0) }
  }

  /// Answers what a task asks, so that it goes on from what is held, or ends. Whoever answers first counts.
  ///
  /// - Throws: `notAsking` when the task asks nothing, or something else by now; `invalidArgument` for an answer that
  ///   does not fit the question; `taskUnknown`.
  public func answer(_ question: TaskQuestion, with answer: TaskAnswer) async throws(FerryError) {
    _ = try await call(.taskAnswer(try answer.parameters(question)), TaskIdentifiersResult.self)
  }

  /// Starts what is suspended, continues what is asking, and tries at once what waits after a failure.
  public func resume(_ receipts: Receipt...) async throws(FerryError) {
    try await reach(receipts) { .taskResume($0) }
  }

  /// Removes the tasks and what is kept of them; a file at a destination of its own stays.
  public func remove(_ receipts: Receipt...) async throws(FerryError) {
    try await reach(receipts) { .taskRemove($0) }
  }

  /// Changes what may change after creation; nil leaves it.
  public func update(
    _ receipt: Receipt, label: String? = nil, priority: Double? = nil, earliestBegin: Date? = nil
  ) async throws(FerryError) {
    _ = try await call(
      .taskUpdate(
        TaskUpdateParameters(
          id: receipt.id, description: label, priority: priority,
          earliestBeginMilliseconds: earliestBegin?.wireMilliseconds)), EmptyResult.self)
  }

  /// The session takes no new tasks, and is gone (``SessionEvent/ended``) when its last result was acknowledged.
  ///
  /// - Parameter cancellingTasks: true: unfinished tasks are cancelled; false: they finish first.
  public func invalidate(cancellingTasks: Bool = false) async throws(FerryError) {
    _ = try await call(
      .sessionInvalidate(SessionInvalidateParameters(session: try openID(), cancel: cancellingTasks)), EmptyResult.self)
  }

  /// Leaves the session: its ``events`` end, and another process may attach. Tasks go on.
  public func close() { hub.remove(core) }

  // MARK: Inside

  private func openID() throws(FerryError) -> Int64 {
    guard !core.isClosed, let id = core.id else { throw FerryError(.closed, "the session is closed") }
    return id
  }

  private func call<R: Decodable & Sendable>(_ request: ClientRequest, _ type: R.Type) async throws(FerryError) -> R {
    guard !core.isClosed else { throw FerryError(.closed, "the session is closed") }
    do {
      return try await core.connection.callAsync(request, returning: type)
    } catch {
      throw FerryError(error)
    }
  }

  private func reach(
    _ receipts: [Receipt], _ request: (TaskIdentifiersParameters) -> ClientRequest
  ) async throws(FerryError) {
    let ids = receipts.map(\.id)
    let result = try await call(request(TaskIdentifiersParameters(ids: ids)), TaskIdentifiersResult.self)
    guard result.unknown.isEmpty else {
      throw FerryError(
        .taskUnknown, "the daemon has no task \(result.unknown.map(String.init).joined(separator: ", "))")
    }
  }
}

/// A task's end, offered until it is acknowledged.
public struct TaskResult: Sendable {
  /// The task as it stood at its end.
  public let task: TaskStatus
  /// How it ended.
  public let outcome: TaskOutcome
  private let core: SessionCore
  private let losses: Int
  private let numbers: [Int64]

  init?(task: TaskStatus, core: SessionCore, losses: Int, numbers: [Int64]) {
    guard let outcome = task.outcome else { return nil }
    self.task = task
    self.outcome = outcome
    self.core = core
    self.losses = losses
    self.numbers = numbers
  }

  /// What the task was known by since it was enqueued.
  public var receipt: Receipt { task.receipt }

  /// Says that the program is done with the result: it is not offered again, the task's record goes, and with it a file
  /// in the daemon's own folder. When this throws, the result may be offered again to a later run of the program.
  public func acknowledge() async throws(FerryError) {
    try await core.acknowledge(numbers, task: task.id, after: losses)
  }
}
