#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import TransferCore
  internal import WireProtocol

  /// One background session in this process: a mirror of the daemon's session, and the order in which its delegate
  /// hears of it. All ``URLSession`` objects of one identifier share it.
  final class AttachedSession: Sendable {
    let identifier: String
    let configuration: URLSessionConfiguration
    let queue: CallbackQueue
    let registry: SessionRegistry
    private let state: Mutex<State>

    struct State {
      /// The daemon's id of the session; nil while the daemon has not been reached.
      var id: Int64?
      /// Why it has not.
      var disconnection = FailureTranslation.disconnection("the session is not attached yet")
      /// The object that the delegate is handed; kept, with the delegate, until the session is invalid.
      var owner: URLSession?
      var delegates: Delegates
      var tasks: [Int64: URLSessionTask] = [:]
      /// The program invalidated the session, or another process has it.
      var isInvalidated = false
      /// Set when another process has it.
      var invalidation: URLError?
      var hasEnded = false
      var refusedTasks = 0
      /// Numbers of deliveries only grow; the ones up to this have been queued.
      var lastDelivery: Int64 = 0
      /// Queued, and not acknowledged yet.
      var openDeliveries: Set<Int64> = []
    }

    init(
      identifier: String, configuration: URLSessionConfiguration, delegate: (any URLSessionDelegate)?,
      queue: OperationQueue, registry: SessionRegistry
    ) {
      self.identifier = identifier
      self.configuration = configuration
      self.queue = CallbackQueue(queue)
      self.registry = registry
      state = Mutex(State(delegates: Delegates(delegate)))
    }

    /// Before the session is attached.
    func belongs(to owner: URLSession) { state.withLock { $0.owner = owner } }

    var id: Int64? { state.withLock { $0.id } }
    var isAttached: Bool { state.withLock { $0.id != nil || $0.isInvalidated } }
    var isInvalidated: Bool { state.withLock { $0.isInvalidated } }
    var delegate: (any URLSessionDelegate)? { state.withLock { $0.delegates.session } }
    var audience: (owner: URLSession?, delegates: Delegates) { state.withLock { ($0.owner, $0.delegates) } }

    func task(_ id: Int64) -> URLSessionTask? { state.withLock { $0.tasks[id] } }

    /// The unfinished ones, in the order of their numbers.
    var unfinishedTasks: [URLSessionTask] {
      state.withLock { $0.tasks.values.map { $0 } }
        .filter { task in task.fields.withLock { $0.isListed && !$0.isCompleted } }
        .sorted { $0.taskIdentifier < $1.taskIdentifier }
    }

    func send(_ request: ClientRequest) {
      guard let line = registry.line, line.send(request) else {
        return Diagnostics.log(
          "\(request.name.rawValue) could not be sent: the connection is closed, or too much waits for it")
      }
    }

    // MARK: Attaching

    /// - Parameter isNew: this process makes the session; an invalidation by an earlier one is over.
    private func openRequest(isNew: Bool) -> ClientRequest {
      var network = registry.network
      RequestTranslation.apply(configuration, to: &network)
      ChallengeTranslation.apply(configuration, to: &network, hasDelegate: delegate != nil)
      return .sessionOpen(
        SessionOpenParameters(
          app: registry.app, identifier: identifier, attach: true, collectsResults: true, network: network,
          sendsLaunchEvents: configuration.sessionSendsLaunchEvents, revives: isNew,
          wantsMetrics: state.withLock { $0.delegates.task != nil }, answersChallenges: delegate != nil))
    }

    /// Called while notifications wait. Learns the tasks that earlier processes left.
    func attach(through line: any DaemonLine) {
      do throws(ConnectionFailure) {
        let opened = try line.call(openRequest(isNew: !isInvalidated), returning: SessionOpenResult.self)
        for snapshot in try Self.unfinished(of: opened.session, through: line) { _ = known(snapshot) }
        state.withLock { $0.id = opened.session }
      } catch {
        couldNotAttach(error)
      }
    }

    private static func unfinished(
      of session: Int64, through line: any DaemonLine
    ) throws(ConnectionFailure) -> [TaskSnapshot] {
      var tasks: [TaskSnapshot] = []
      var after: Int64?
      repeat {
        let request = TaskListParameters(after: after, session: session, isUnfinishedOnly: true)
        let page = try line.call(.taskList(request), returning: TaskListResult.self)
        tasks += page.tasks
        after = page.next
      } while after != nil
      return tasks
    }

    func couldNotAttach(_ failure: ConnectionFailure) {
      if failure.wireError?.name == .sessionInUse {
        return becomeInvalid(
          FailureTranslation.make(
            .backgroundSessionInUseByAnotherProcess,
            "Another process of this program is attached to the background session \(identifier)."))
      }
      state.withLock { $0.disconnection = FailureTranslation.disconnection(failure.message) }
      Diagnostics.log("the background session \(identifier) has no daemon: \(failure.message)")
    }

    /// On the connection's thread, before anything else is sent.
    func attachAfterReconnect(through line: any DaemonLine) {
      let old = state.withLock { $0.hasEnded ? nil : $0.id }
      guard let old else { return }
      do {
        let opened = try line.call(openRequest(isNew: false), returning: SessionOpenResult.self)
        // A daemon without its state may give the same id again, to a session that it did not know.
        guard opened.session == old, !opened.isNew else { return abandon(for: opened.session) }
        for snapshot in try Self.unfinished(of: old, through: line) { _ = known(snapshot) }
        if state.withLock({ $0.isInvalidated }) {
          // Repeating it does no harm, and a session that ended meanwhile says so again.
          send(.sessionInvalidate(SessionInvalidateParameters(session: old, cancel: false)))
        }
      } catch {
        // When the connection broke again, this is called again. A refusal may pass: the daemon may still count the
        // broken connection as attached.
        if error.kind == .refused { attachLater() }
      }
    }

    private func attachLater() {
      let mustTry = state.withLock { state in
        state.id = nil
        return !state.hasEnded
      }
      guard mustTry else { return }
      DispatchQueue.global().asyncAfter(deadline: .now() + Self.pauseBeforeAttachingAgain) { [registry] in
        registry.attachAgain(self)
        if !self.isAttached { self.attachLater() }
      }
    }

    /// Seconds.
    static let pauseBeforeAttachingAgain: TimeInterval = 1

    /// The daemon lost its state: what it held for the old session is gone.
    private func abandon(for newID: Int64) {
      let lost = state.withLock { state in
        let lost = state.tasks
        state.tasks = [:]
        state.id = newID
        state.lastDelivery = 0
        state.openDeliveries = []
        return lost
      }
      for (_, task) in lost.sorted(by: { $0.key < $1.key }) {
        complete(task, with: FailureTranslation.disconnection("the daemon's records were replaced"))
      }
      // It was invalidated and had ended, and the connection broke before the daemon could say so.
      if isInvalidated { send(.sessionInvalidate(SessionInvalidateParameters(session: newID, cancel: false))) }
    }

    // MARK: Making tasks

    /// Durable when this returns; a task that the daemon refused says why when it is resumed.
    ///
    /// `refusal` is set when it is known beforehand that the task cannot be carried out.
    func makeTask<Made: URLSessionTask>(
      _ make: Maker<Made>, _ kind: TaskKind, _ request: URLRequest?, source: URL? = nil, resumeToken: String? = nil,
      refusal: URLError? = nil
    ) -> Made {
      let isInvalidatedByProgram = state.withLock { $0.isInvalidated && $0.invalidation == nil }
      guard !isInvalidatedByProgram else {
        fatalError("Attempted to create a task in a session that has been invalidated")
      }
      let task: Made
      if let request, refusal == nil {
        task = enqueued(make, kind, request, source: source, resumeToken: resumeToken)
      } else {
        task = refused(make, request, refusal ?? FailureTranslation.make(.badURL, "There is no request."))
      }
      let (owner, delegates) = audience
      if let owner { delegates.task?.urlSession(owner, didCreateTask: task) }
      return task
    }

    private func enqueued<Made: URLSessionTask>(
      _ make: Maker<Made>, _ kind: TaskKind, _ request: URLRequest, source: URL?, resumeToken: String?
    ) -> Made {
      guard
        var wire = RequestTranslation.specification(
          kind: kind.rawValue, request: request, source: source, configuration: configuration)
      else { return refused(make, request, FailureTranslation.make(.badURL, "The request has no URL.")) }
      guard kind == .upload || (request.httpBody?.count ?? 0) <= WireLimits.bodyBytes else {
        let text = "The request's body is larger than \(WireLimits.bodyBytes) bytes; use uploadTask(with:fromFile:)."
        return refused(make, request, FailureTranslation.make(.dataLengthExceedsMaximum, text, url: request.url))
      }
      guard kind == .upload || request.httpBody != nil || request.httpBodyStream == nil else {
        let text = "A stream does not outlive this process; use httpBody or uploadTask(with:fromFile:)."
        return refused(make, request, FailureTranslation.make(.unsupportedURL, text, url: request.url))
      }
      guard RequestTranslation.fitsMessage(wire) else {
        let text = "The request's URL and headers are too long for the daemon."
        return refused(make, request, FailureTranslation.make(.dataLengthExceedsMaximum, text, url: request.url))
      }
      wire.resumeToken = resumeToken
      if !isAttached { registry.attachAgain(self) }
      // What a part is asked of, only the daemon knows.
      let shown = resumeToken == nil ? request : nil
      return registry.holding { [wire] in
        let (id, failure) = state.withLock { ($0.id, $0.invalidation ?? $0.disconnection) }
        guard let id, let line = registry.line else { return refused(make, shown, failure) }
        do throws(ConnectionFailure) {
          let parameters = TaskEnqueueParameters(session: id, tasks: [wire])
          let result = try line.call(.taskEnqueue(parameters), returning: TaskEnqueueResult.self)
          guard let receipt = result.tasks.first, let taskID = receipt.id, let number = receipt.number else {
            let error = result.tasks.first?.error ?? WireError(.internalError, "the daemon's receipt is empty")
            if resumeToken != nil { return refused(make, shown, Self.refusal(of: error.message)) }
            return refused(make, request, FailureTranslation.error(of: error, url: request.url))
          }
          if resumeToken != nil { return resuming(make, id: taskID, number: number, through: line) }
          return taken(make, request, headers: wire.headers ?? [], source: source, id: taskID, number: number)
        } catch {
          let refusal =
            error.wireError.map { FailureTranslation.error(of: $0, url: shown?.url) }
            ?? FailureTranslation.disconnection(error.message, url: shown?.url)
          return refused(make, shown, refusal)
        }
      }
    }

    func remember(_ task: URLSessionTask, as id: Int64) { state.withLock { $0.tasks[id] = task } }

    private func taken<Made: URLSessionTask>(
      _ make: Maker<Made>, _ request: URLRequest, headers: [WireHeader], source: URL?, id: Int64, number: Int64
    ) -> Made {
      var fields = TaskFields(number: Int(clamping: number))
      fields.id = id
      fields.originalRequest = request
      var current = request
      for header in headers { current.setValue(header.value, forHTTPHeaderField: header.name) }
      fields.currentRequest = current
      if let source {
        let attributes = try? FileManager.default.attributesOfItem(atPath: source.path)
        fields.expectedToSend = (attributes?[.size] as? NSNumber)?.int64Value ?? 0
      }
      let task = make(self, fields)
      state.withLock { $0.tasks[id] = task }
      return task
    }

    private func refused<Made: URLSessionTask>(_ make: Maker<Made>, _ request: URLRequest?, _ error: URLError) -> Made {
      let number = state.withLock {
        $0.refusedTasks += 1
        return -$0.refusedTasks
      }
      var fields = TaskFields(number: number)
      fields.originalRequest = request
      fields.currentRequest = request
      fields.refusal = error
      return make(self, fields)
    }

    /// The object of the daemon's task, made where this process has none.
    func known(_ snapshot: TaskSnapshot) -> URLSessionTask {
      if let task = task(snapshot.id) {
        task.fields.withLock { $0.apply(snapshot) }
        return task
      }
      let fields = TaskFields(snapshot)
      let task: URLSessionTask =
        switch TaskKind(rawValue: snapshot.kind) {
        case .download: URLSessionDownloadTask(session: self, fields: fields)
        case .upload: URLSessionUploadTask(session: self, fields: fields)
        case .data, nil: URLSessionDataTask(session: self, fields: fields)
        }
      state.withLock { $0.tasks[snapshot.id] = task }
      return task
    }

    // MARK: The end of a task

    /// Completes a task without the daemon.
    func complete(_ task: URLSessionTask, with error: URLError) {
      post(task) { self.finish(task, error, $0, $1) }
      // Nobody is left to be told, but the task's own state still tells.
      if state.withLock({ $0.owner == nil }) { _ = markCompleted(task, error) }
    }

    func finish(_ task: URLSessionTask, _ error: URLError?, _ owner: URLSession, _ delegates: Delegates) {
      guard markCompleted(task, error) else { return }
      delegates.task?.urlSession(owner, task: task, didCompleteWithError: error)
    }

    /// False when it was already.
    private func markCompleted(_ task: URLSessionTask, _ error: URLError?) -> Bool {
      let id: Int64? = task.fields.withLock {
        guard !$0.isCompleted else { return nil }
        $0.isCompleted = true
        $0.error = error
        if let progress = $0.progress { URLSessionTask.show($0, in: progress) }
        return $0.id ?? -1
      }
      guard let id else { return false }
      state.withLock { $0.tasks[id] = nil }
      return true
    }

    // MARK: The end of the session

    /// The program invalidates the session.
    func invalidate(cancel: Bool) {
      let (isFirst, id) = state.withLock { state in
        defer { state.isInvalidated = true }
        return (!state.isInvalidated, state.id)
      }
      if let id {
        guard isFirst || cancel else { return }
        if cancel { markCanceling() }
        send(.sessionInvalidate(SessionInvalidateParameters(session: id, cancel: cancel)))
      } else if isFirst {
        ended()
      }
    }

    private func markCanceling() {
      for task in unfinishedTasks { task.fields.withLock { $0.isCanceling = true } }
    }

    /// The daemon has nothing left of the session.
    func ended() { becomeInvalid(nil) }

    private func becomeInvalid(_ error: URLError?) {
      let isFirst = state.withLock { state in
        guard !state.hasEnded else { return false }
        state.isInvalidated = true
        state.invalidation = error
        state.hasEnded = true
        return true
      }
      guard isFirst else { return }
      // Before the delegate hears of it: it may make the session anew at once.
      registry.remove(self)
      post { owner, delegates in
        self.state.withLock {
          $0.owner = nil
          $0.delegates = Delegates(nil)
          $0.tasks = [:]
        }
        delegates.session?.urlSession(owner, didBecomeInvalidWithError: error)
      }
    }

    // MARK: Deliveries

    /// False for a delivery that is queued already; one that was acknowledged is acknowledged again.
    func takes(_ number: Int64, of session: Int64) -> Bool {
      let (isNew, wasAcknowledged) = state.withLock { state in
        if number > state.lastDelivery {
          state.lastDelivery = number
          state.openDeliveries.insert(number)
          return (true, false)
        }
        return (false, !state.openDeliveries.contains(number))
      }
      // Not at once: sending can wait for the thread that this runs on.
      if wasAcknowledged { queue.append { self.acknowledge(number, of: session) } }
      return isNew
    }

    func acknowledge(_ number: Int64, of session: Int64) {
      state.withLock { _ = $0.openDeliveries.remove(number) }
      send(.deliveryAcknowledge(DeliveryAcknowledgeParameters(session: session, numbers: [number])))
    }
  }
#endif
