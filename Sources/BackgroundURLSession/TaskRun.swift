#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization

  /// Who fetches what a task of this process asks for: the network, a `URLProtocol`, or the disk.
  ///
  /// It tells its ``TaskRun`` of the response, then of the bytes, then of the end, in order and on any thread.
  protocol Carrier: AnyObject, Sendable {
    func start()
    func pause()
    func resume()
    /// Followed by the end, unless that was told already.
    func cancel()
    func prioritize(_ priority: Float)
    /// Bytes are wanted again.
    func takeMore()
    /// The last callback about the task was made.
    func release()
  }

  /// A task of this process on its way: what its carrier tells, in the words of the delegates or for a handler.
  final class TaskRun: Sendable {
    let session: OrdinarySession
    let order: TaskOrder
    private let state = Mutex(State())

    private struct State {
      var task: URLSessionTask?
      /// Kept while the task goes on.
      var owner: URLSession?
      var carrier: (any Carrier)?
      var isStarted = false
      var hasEnded = false
      var collected = Data()
      /// Bytes that were told of and not yet taken.
      var waiting = 0
      var isHeld = false
    }

    init(session: OrdinarySession, order: TaskOrder) {
      self.session = session
      self.order = order
    }

    func belongs(to task: URLSessionTask, of owner: URLSession?) {
      state.withLock {
        $0.task = task
        $0.owner = owner
      }
    }

    var task: URLSessionTask? { state.withLock { $0.task } }
    private var carrier: (any Carrier)? { state.withLock { $0.carrier } }

    /// No more is told of the task.
    var isOver: Bool { state.withLock { $0.hasEnded } }

    // MARK: What the program does

    func resume() {
      guard let task else { return }
      let isFirst = state.withLock { state in
        defer { state.isStarted = true }
        return !state.isStarted
      }
      guard isFirst else {
        carrier?.resume()
        return
      }
      if let refusal = task.fields.withLock({ $0.refusal }) { return ended(refusal, file: nil) }
      guard let request = task.fields.withLock({ $0.currentRequest }) else { return }
      start(request)
    }

    /// Also for the request that a redirect of a `URLProtocol` led to.
    func start(_ request: URLRequest) {
      let carrier = Carriers.carrier(of: request, for: self)
      let mayStart = state.withLock { state in
        guard !state.hasEnded else { return false }
        state.carrier = carrier
        return true
      }
      guard mayStart else { return }
      carrier.start()
      guard let task else { return }
      let (isCanceling, isSuspended) = task.fields.withLock { ($0.isCanceling, $0.suspensions > 0) }
      if isCanceling { carrier.cancel() } else if isSuspended { carrier.pause() }
    }

    func suspend() { carrier?.pause() }

    func prioritize(_ priority: Float) { carrier?.prioritize(priority) }

    func cancel() {
      if let carrier { return carrier.cancel() }
      ended(FailureTranslation.cancellation(url: task?.originalRequest?.url), file: nil)
    }

    // MARK: What the carrier tells

    /// Queues a callback of the task, with the delegate that it has.
    func post(_ body: @escaping @Sendable (URLSessionTask, URLSession, Delegates) -> Void) {
      guard let task else { return }
      session.post(task) { owner, delegates in
        let own = task.fields.withLock { $0.delegate }
        body(task, owner, own.map { Delegates($0) } ?? delegates)
      }
    }

    func responded(_ response: URLResponse) {
      guard let task else { return }
      task.fields.withLock {
        $0.response = response
        $0.expectedToReceive = response.expectedContentLength
      }
      post { task, owner, delegates in
        Cookies.store(of: response, for: task, in: self.session.configuration)
        switch self.order.handler {
        case .bytes(let source): source.respond(response)
        case .data, .file: break
        case nil: self.askDisposition(response, task, owner, delegates)
        }
      }
    }

    private func askDisposition(
      _ response: URLResponse, _ task: URLSessionTask, _ owner: URLSession, _ delegates: Delegates
    ) {
      guard let dataTask = task as? URLSessionDataTask, let delegate = delegates.data else { return }
      task.fields.withLock { $0.isAwaitingDisposition = true }
      delegate.urlSession(owner, dataTask: dataTask, didReceive: response) { self.session.decide($0, for: task) }
    }

    /// Bytes that wait for the delegate beyond which the server waits.
    static let roomBytes = 1 << 20

    /// False: that is enough until ``Carrier/takeMore()``.
    func received(_ data: Data) -> Bool {
      guard let task else { return true }
      let isData = task is URLSessionDataTask
      task.fields.withLock { if isData { $0.received += Int64(data.count) } }
      let isEnough = state.withLock { state in
        state.waiting += data.count
        if state.waiting > Self.roomBytes { state.isHeld = true }
        return state.isHeld
      }
      post { task, owner, delegates in
        self.handOver(data, task, owner, delegates)
      }
      return !isEnough
    }

    private func handOver(_ data: Data, _ task: URLSessionTask, _ owner: URLSession, _ delegates: Delegates) {
      switch order.handler {
      case .data:
        state.withLock { $0.collected.append(data) }
      case .bytes(let source):
        // Taken when the program has read it.
        return source.append(data) { self.taken(data.count) }
      case .file, nil:
        if let task = task as? URLSessionDataTask, !task.fields.withLock({ $0.discardsBody }) {
          session.reportCounts(of: task, owner, delegates)
          delegates.data?.urlSession(owner, dataTask: task, didReceive: data)
        }
      }
      taken(data.count)
    }

    private func taken(_ count: Int) {
      let carrier: (any Carrier)? = state.withLock { state in
        state.waiting -= count
        guard state.isHeld, state.waiting < Self.roomBytes / 2 else { return nil }
        state.isHeld = false
        return state.carrier
      }
      carrier?.takeMore()
    }

    /// - Parameter received: nil where ``received(_:)`` counts.
    func progressed(received: Int64?, sent: Int64) {
      guard let task else { return }
      let mustQueue = task.fields.withLock { fields in
        if let received { fields.received = received }
        fields.sent = sent
        defer { fields.isProgressQueued = true }
        return !fields.isProgressQueued
      }
      if mustQueue { post { self.session.reportCounts(of: $0, $1, $2) } }
    }

    func awaitsConnectivity() {
      post { task, owner, delegates in delegates.task?.urlSession(owner, taskIsWaitingForConnectivity: task) }
    }

    /// The delegate decides about a redirect; `answer` is called once, on any thread, nil: the redirect's response is
    /// the result.
    func asksRedirect(
      _ response: HTTPURLResponse, _ request: URLRequest, _ answer: @escaping @Sendable (URLRequest?) -> Void
    ) {
      let once: @Sendable (URLRequest?) -> Void = { [first = Once()] request in
        guard first.isFirst() else { return }
        if let request, let task = self.task {
          let configuration = self.session.configuration
          let next = Cookies.added(to: request, of: task.originalRequest, configuration)
          task.fields.withLock { $0.currentRequest = next }
          return answer(next)
        }
        answer(request)
      }
      post { task, owner, delegates in
        Cookies.store(of: response, for: task, in: self.session.configuration)
        guard let delegate = delegates.task else { return once(request) }
        delegate.urlSession(
          owner, task: task, willPerformHTTPRedirection: response, newRequest: request, completionHandler: once)
      }
    }

    // MARK: The end

    /// - Parameter file: what a download brought; it is removed by ``Carrier/release()``.
    func ended(_ error: URLError?, file: URL?) {
      let isFirst = state.withLock { state in
        defer { state.hasEnded = true }
        return !state.hasEnded
      }
      guard isFirst else { return }
      post { self.conclude(error, file, $0, $1, $2) }
    }

    private func conclude(
      _ failure: URLError?, _ file: URL?, _ task: URLSessionTask, _ owner: URLSession, _ delegates: Delegates
    ) {
      var error = failure
      // Cancelled after the last byte came, and before the program heard of that.
      if error == nil, task.fields.withLock({ $0.isCanceling }) {
        error = FailureTranslation.cancellation(url: task.originalRequest?.url)
      }
      if let file, error == nil {
        let size = (try? FileManager.default.attributesOfItem(atPath: file.path))?[.size] as? NSNumber
        task.fields.withLock { $0.received = max($0.received, size?.int64Value ?? 0) }
      }
      session.reportCounts(of: task, owner, delegates)
      if let file, error == nil, order.handler == nil, let download = task as? URLSessionDownloadTask {
        delegates.download?.urlSession(owner, downloadTask: download, didFinishDownloadingTo: file)
      }
      task.fields.withLock {
        $0.isCompleted = true
        $0.error = error
        $0.run = nil
      }
      let (carrier, collected) = state.withLock { state in
        defer {
          state.carrier = nil
          state.task = nil
          state.owner = nil
          state.collected = Data()
        }
        return (state.carrier, state.collected)
      }
      switch order.handler {
      case .data(let handler): handler(error == nil ? collected : nil, task.response, error)
      case .file(let handler): handler(error == nil ? file : nil, task.response, error)
      case .bytes(let source): source.finish(error)
      case nil: delegates.task?.urlSession(owner, task: task, didCompleteWithError: error)
      }
      carrier?.release()
      session.forget(task)
    }
  }

  /// Lets the first of several through.
  final class Once: Sendable {
    private let isOver = Atomic(false)

    func isFirst() -> Bool { !isOver.exchange(true, ordering: .relaxed) }
  }
#endif
