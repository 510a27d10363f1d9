#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import FoundationNetworking
  internal import InProcessTransfers
  internal import Synchronization
  internal import TransferCore
  internal import WireProtocol

  /// A session whose tasks are carried out by this process and end with it: shared, default and ephemeral ones.
  final class OrdinarySession: SessionBacking {
    let configuration: URLSessionConfiguration
    let queue: CallbackQueue
    let isShared: Bool
    /// How transfers reach the network.
    let local: LocalSession
    let acquaintance = ServerAcquaintance()
    private let state: Mutex<State>

    private struct State {
      weak var owner: URLSession?
      /// Kept, with the delegate, until the session is invalid; a session without a delegate goes with its last task.
      var keptOwner: URLSession?
      var delegates: Delegates
      var tasks: [Int: URLSessionTask] = [:]
      var lastNumber = 0
      var isInvalidated = false
      var hasEnded = false
    }

    init(
      _ configuration: URLSessionConfiguration, delegate: (any URLSessionDelegate)?, queue: OperationQueue,
      isShared: Bool = false
    ) {
      self.configuration = configuration
      self.queue = CallbackQueue(queue)
      self.isShared = isShared
      var network = WireNetwork.fromEnvironment(ProcessInfo.processInfo.environment)
      RequestTranslation.apply(configuration, to: &network)
      ChallengeTranslation.apply(configuration, to: &network, hasDelegate: delegate != nil)
      local = LocalSession(
        network: NetworkSettings(
          httpProxy: network.httpProxy, httpsProxy: network.httpsProxy, noProxy: network.noProxy ?? "",
          certificateFile: network.certificateFile,
          maximumConnectionsPerHost: min(64, network.maximumConnectionsPerHost ?? 6),
          tls: ChallengeTranslation.settings(of: network.tls)),
        waitsForConnectivity: configuration.waitsForConnectivity)
      state = Mutex(State(delegates: Delegates(delegate)))
      TransferHome.shared.open(local)
    }

    deinit { TransferHome.shared.close(local) }

    /// Whether the delegate sees servers for which the authorities vouch. Behind a proxy that speaks TLS itself nobody
    /// could tell one's certificates from the other's.
    var asksAboutServers: Bool {
      guard ServerAcquaintance.isAsked(delegate), TransferHome.seesCertificates else { return false }
      return local.network.httpsProxy?.lowercased().hasPrefix("https://") != true
    }

    func belongs(to owner: URLSession) {
      state.withLock {
        $0.owner = owner
        if $0.delegates.session != nil { $0.keptOwner = owner }
      }
    }

    var takesHandlers: Bool { true }
    var delegate: (any URLSessionDelegate)? { state.withLock { $0.delegates.session } }
    var audience: (owner: URLSession?, delegates: Delegates) {
      state.withLock { ($0.hasEnded ? nil : $0.owner, $0.delegates) }
    }
    var unfinishedTasks: [URLSessionTask] {
      state.withLock { $0.tasks.values.map { $0 } }.sorted { $0.taskIdentifier < $1.taskIdentifier }
    }

    // MARK: Making tasks

    func makeTask<Made: URLSessionTask>(_ make: Maker<Made>, _ order: TaskOrder) -> Made {
      var order = order
      let refusal = order.complete()
      let task = addTask(make, order, refusal, TaskRun(session: self, order: order))
      let (owner, delegates) = audience
      let chosen = order.delegate.map { Delegates($0) } ?? delegates
      if let owner { chosen.task?.urlSession(owner, didCreateTask: task) }
      return task
    }

    private func addTask<Made: URLSessionTask>(
      _ make: Maker<Made>, _ order: TaskOrder, _ refusal: URLError?, _ run: TaskRun
    ) -> Made {
      let number: Int? = state.withLock { state in
        guard !state.isInvalidated else { return nil }
        state.lastNumber += 1
        return state.lastNumber
      }
      guard let number else { fatalError("Attempted to create a task in a session that has been invalidated") }
      var fields = TaskFields(number: number)
      fields.originalRequest = order.request
      fields.currentRequest = order.request.map { RequestTranslation.effective($0, configuration) }
      fields.expectedToSend = order.bodyBytes
      fields.refusal = refusal
      fields.delegate = order.delegate
      fields.run = run
      let task = make(self, fields)
      run.belongs(to: task, of: audience.owner)
      state.withLock { $0.tasks[number] = task }
      return task
    }

    // MARK: Steering them

    func run(_ task: URLSessionTask) { task.fields.withLock { $0.run }?.resume() }

    func pause(_ task: URLSessionTask) { task.fields.withLock { $0.run }?.suspend() }

    func cancel(_ task: URLSessionTask) { task.fields.withLock { $0.run }?.cancel() }

    func cancel(_ task: URLSessionTask, byProducingResumeData handler: @escaping @Sendable (Data?) -> Void) {
      let run: TaskRun? = task.fields.withLock { fields in
        guard task is URLSessionDownloadTask, !fields.isCompleted, !fields.isCanceling else { return nil }
        fields.isCanceling = true
        return fields.run
      }
      if let run { return run.cancel(producing: handler) }
      task.cancel()
      queue.append { handler(nil) }
    }

    func update(_ task: URLSessionTask, _ change: TaskUpdate) {
      switch change {
      case .priority(let value): task.fields.withLock { $0.run }?.prioritize(value)
      case .description, .earliestBegin, .clientExpectsToSend, .clientExpectsToReceive: break
      }
    }

    func convert(_ task: URLSessionTask, _ disposition: URLSession.ResponseDisposition) {
      guard disposition == .becomeDownload, let dataTask = task as? URLSessionDataTask else {
        Diagnostics.log("a data task cannot become a stream here; it is cancelled")
        return task.cancel()
      }
      let number = state.withLock { state in
        state.lastNumber += 1
        return state.lastNumber
      }
      let fields = task.fields.withLock { fields in
        fields.isCompleted = true
        defer { fields.run = nil }
        return fields.ofDownload(numbered: number)
      }
      let download = URLSessionDownloadTask(session: self, fields: fields)
      state.withLock {
        $0.tasks[task.taskIdentifier] = nil
        $0.tasks[number] = download
      }
      fields.run?.goesOn(as: download)
      // Before the task's turns that wait for this decision.
      queue.append {
        let (owner, delegates) = self.audience
        let data = fields.delegate.map { Delegates($0) }?.data ?? delegates.data
        if let owner { data?.urlSession(owner, dataTask: dataTask, didBecome: download) }
      }
    }

    // MARK: The end

    func invalidate(cancel: Bool) {
      guard !isShared else { return Diagnostics.log("URLSession.shared cannot be invalidated") }
      state.withLock { $0.isInvalidated = true }
      if cancel { for task in unfinishedTasks { task.cancel() } }
      endIfDone()
    }

    /// The task's last message was sent.
    func forget(_ task: URLSessionTask) {
      state.withLock { _ = $0.tasks.removeValue(forKey: task.taskIdentifier) }
      endIfDone()
    }

    private func endIfDone() {
      let isLast = state.withLock { state in
        guard state.isInvalidated, !state.hasEnded, state.tasks.isEmpty else { return false }
        return true
      }
      guard isLast else { return }
      post { owner, delegates in
        let isFirst = self.state.withLock { state in
          guard !state.hasEnded else { return false }
          state.hasEnded = true
          state.keptOwner = nil
          state.delegates = Delegates(nil)
          return true
        }
        if isFirst { delegates.session?.urlSession(owner, didBecomeInvalidWithError: nil) }
      }
    }
  }

  extension TaskOrder {
    /// Adds what resume data stands for. Returns why the task cannot be carried out in this process, which is told when
    /// it is resumed.
    mutating func complete() -> URLError? {
      guard let resumeData else {
        return request?.url == nil ? FailureTranslation.make(.badURL, "The request has no URL.") : nil
      }
      guard kind == .download else {
        return FailureTranslation.make(.cannotOpenFile, "There is no resume data for uploads yet.")
      }
      do throws(ResumeTicket.Fault) {
        let token = try ResumeTicket([UInt8](resumeData)).token
        resumeToken = token
        request = ResumableDownloads.shared.request(of: token)
        return request == nil ? ResumableDownloads.refusal("this process keeps no such part") : nil
      } catch {
        return ResumableDownloads.refusal(error.words)
      }
    }

    /// Bytes to send; −1 while unknown.
    var bodyBytes: Int64 {
      if let source {
        let attributes = try? FileManager.default.attributesOfItem(atPath: source.path)
        return (attributes?[.size] as? NSNumber)?.int64Value ?? 0
      }
      if let bytes = body ?? request?.httpBody { return Int64(bytes.count) }
      return isStreamed || request?.httpBodyStream != nil ? NSURLSessionTransferSizeUnknown : 0
    }
  }
#endif
