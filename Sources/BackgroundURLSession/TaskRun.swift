#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import TransferCore
  internal import WireProtocol

  /// Who fetches what a task of this process asks for: the network, a `URLProtocol`, or the disk.
  ///
  /// It tells its ``TaskRun`` of the response, then of the bytes, then of the end, in order and on any thread.
  protocol Carrier: AnyObject, Sendable {
    func start()
    func pause()
    func resume()
    /// Followed by the end, unless that was told already.
    /// - Parameter keepsPart: what was fetched is kept, where it can be continued; the error holds its resume data.
    func cancel(keepsPart: Bool)
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
    /// The body for a handler. It has a lock of its own: the engine's thread, which needs the other, would wait for
    /// every growth.
    private let collected = Mutex(Data())

    /// When the program made the task.
    private let made = Date()

    private struct State {
      var task: URLSessionTask?
      /// The task whose turns order the callbacks: the first, also when the delegate made a download of it.
      var lane: URLSessionTask?
      /// Where the body of such a download is collected.
      var spool: Spool?
      var resumeDataHandler: (@Sendable (Data?) -> Void)?
      /// Kept while the task goes on.
      var owner: URLSession?
      var carrier: (any Carrier)?
      var isStarted = false
      var hasEnded = false
      /// Bytes that were told of and not yet taken.
      var waiting = 0
      var isHeld = false
      /// What the program gave for a challenge; it is kept when it has been taken.
      var unproven: (challenge: PosedChallenge, credential: URLCredential)?
    }

    init(session: OrdinarySession, order: TaskOrder) {
      self.session = session
      self.order = order
    }

    func belongs(to task: URLSessionTask, of owner: URLSession?) {
      state.withLock {
        $0.task = task
        $0.lane = task
        $0.owner = owner
      }
    }

    /// The delegate made a download of the data task when its response had come.
    func goesOn(as download: URLSessionDownloadTask) {
      let spool = Spool()
      state.withLock {
        $0.task = download
        $0.spool = spool
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
      guard Self.mayLoad(request, session.configuration) else {
        let text = "The request may be answered by a cache only, and there is none."
        return ended(FailureTranslation.make(.resourceUnavailable, text, url: request.url), file: nil)
      }
      start(request)
    }

    /// False where only a cache may answer.
    private static func mayLoad(_ request: URLRequest, _ configuration: URLSessionConfiguration) -> Bool {
      let own = request.cachePolicy
      return (own == .useProtocolCachePolicy ? configuration.requestCachePolicy : own) != .returnCacheDataDontLoad
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
      if isCanceling { carrier.cancel(keepsPart: false) } else if isSuspended { carrier.pause() }
    }

    func suspend() { carrier?.pause() }

    func prioritize(_ priority: Float) { carrier?.prioritize(priority) }

    func cancel() { cancel(keepsPart: false) }

    /// `handler` is called on the session's queue, before the task's last message.
    func cancel(producing handler: @escaping @Sendable (Data?) -> Void) {
      let isLate = state.withLock { state in
        if !state.hasEnded { state.resumeDataHandler = handler }
        return state.hasEnded
      }
      if isLate { session.queue.append { handler(nil) } }
      cancel(keepsPart: true)
    }

    private func cancel(keepsPart: Bool) {
      if let carrier { return carrier.cancel(keepsPart: keepsPart) }
      // What it would have gone on from is still there.
      let url = task?.originalRequest?.url
      ended(FailureTranslation.cancellation(url: url, resumeData: order.resumeData), file: nil)
    }

    // MARK: What the carrier tells

    /// Queues a callback of the task, with the delegate that it has.
    func post(_ body: @escaping @Sendable (URLSessionTask, URLSession, Delegates) -> Void) {
      guard let lane = state.withLock({ $0.lane }) else { return }
      session.post(lane) { owner, delegates in
        guard let task = self.task else { return }
        let own = task.fields.withLock { $0.delegate }
        body(task, owner, own.map { Delegates($0) } ?? delegates)
      }
    }

    func informed(_ response: HTTPURLResponse) {
      post { task, owner, delegates in
        delegates.task?.urlSession(owner, task: task, didReceiveInformationalResponse: response)
      }
    }

    func responded(_ response: URLResponse) {
      guard let task else { return }
      task.fields.withLock {
        $0.response = response
        $0.expectedToReceive = response.expectedContentLength
      }
      post { task, owner, delegates in
        self.keepProven()
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
      if let spool = state.withLock({ $0.spool }) {
        let written = spool.append(data)
        task.fields.withLock { $0.received = written }
        session.reportCounts(of: task, owner, delegates)
        return taken(data.count)
      }
      switch order.handler {
      case .data:
        collected.withLock { $0.append(data) }
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

    /// A download goes on from a kept part.
    func resumed(at offset: Int64, of total: Int64?) {
      task?.fields.withLock {
        $0.received = offset
        if let total { $0.expectedToReceive = total }
      }
      post { self.session.reportResumption(of: $0, at: offset, $1, $2) }
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
        self.keepProven()
        Cookies.store(of: response, for: task, in: self.session.configuration)
        guard let delegate = delegates.task else { return once(request) }
        delegate.urlSession(
          owner, task: task, willPerformHTTPRedirection: response, newRequest: request, completionHandler: once)
      }
    }

    // MARK: Challenges

    /// The delegate is asked for a credential; `answer` is called at most once, on any thread, nil: the response that
    /// asks is the result.
    /// - Parameter response: nil where there is no connection yet.
    func asksCredential(
      _ challenge: Challenge, _ response: HTTPURLResponse?,
      _ answer: @escaping @Sendable (Answer?) -> Void
    ) {
      guard let posed = PosedChallenge(challenge, of: task?.currentRequest?.url, session.configuration) else {
        return answer(nil)
      }
      post { task, owner, delegates in
        // The last one was refused, or taken by a proxy before its server.
        if challenge.previousFailures == 0 { self.keepProven() } else { self.state.withLock { $0.unproven = nil } }
        posed.put(response, task, owner, self.ofConnection(delegates)) { given in
          switch given {
          case .credential(let user, let password, let new):
            self.state.withLock { $0.unproven = new.map { (posed, $0) } }
            answer(.credential(user: user, password: Secret(password)))
          case .trust(let certificate):
            self.session.acquaintance.remember(challenge)
            answer(.trust(certificate: certificate))
          case .identity(let identity): answer(.tls(TLSSettings().with(identity)))
          case .proceed:
            self.session.acquaintance.remember(challenge)
            answer(nil)
          case .token: answer(nil)
          case .cancel: task.cancel()
          }
        }
      }
    }

    /// A challenge of a `URLProtocol`, for its sender to hear of.
    func asks(
      _ challenge: URLAuthenticationChallenge,
      _ answer: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
      post { task, owner, delegates in self.ofConnection(delegates).put(challenge, task, owner, answer) }
    }

    /// A task's own delegate is not asked about the connection.
    private func ofConnection(_ delegates: Delegates) -> Delegates {
      Delegates(session: session.delegate, task: delegates.task)
    }

    private func keepProven() {
      let proven = state.withLock { state in
        defer { state.unproven = nil }
        return state.unproven
      }
      if let proven { proven.challenge.keep(proven.credential) }
    }

    // MARK: The end

    private struct End: Sendable {
      var error: URLError?
      var file: URL?
      var metrics: MetricsLog
      let date = Date()
    }

    /// - Parameter file: what a download brought; it is removed by ``Carrier/release()``.
    func ended(_ error: URLError?, file: URL?, _ metrics: MetricsLog = MetricsLog()) {
      let isFirst = state.withLock { state in
        defer { state.hasEnded = true }
        return !state.hasEnded
      }
      guard isFirst else { return }
      let end = End(error: error, file: file, metrics: metrics)
      post { self.conclude(end, $0, $1, $2) }
    }

    private func conclude(_ end: End, _ task: URLSessionTask, _ owner: URLSession, _ delegates: Delegates) {
      let spool = state.withLock { $0.spool }
      var error = end.error ?? spool?.failure
      // Cancelled after the last byte came, and before the program heard of that.
      if error == nil, task.fields.withLock({ $0.isCanceling }) {
        error = FailureTranslation.cancellation(url: task.originalRequest?.url)
      }
      let file = error == nil ? end.file ?? spool?.url : nil
      if let file {
        let size = (try? FileManager.default.attributesOfItem(atPath: file.path))?[.size] as? NSNumber
        task.fields.withLock { $0.received = max($0.received, size?.int64Value ?? 0) }
      }
      session.reportCounts(of: task, owner, delegates)
      if let file, order.handler == nil, let download = task as? URLSessionDownloadTask {
        delegates.download?.urlSession(owner, downloadTask: download, didFinishDownloadingTo: file)
      }
      if let delegate = delegates.task {
        let metrics = URLSessionTaskMetrics(WireMetrics(end.metrics), of: task, from: made, to: end.date)
        delegate.urlSession(owner, task: task, didFinishCollecting: metrics)
      }
      task.fields.withLock {
        $0.isCompleted = true
        $0.error = error
        $0.run = nil
      }
      let last = state.withLock { state in
        defer { state = State(isStarted: true, hasEnded: true) }
        return state
      }
      last.resumeDataHandler?(error?.downloadTaskResumeData)
      switch order.handler {
      case .data(let handler):
        let data = collected.withLock { data in
          defer { data = Data() }
          return data
        }
        handler(error == nil ? data : nil, task.response, error)
      case .file(let handler): handler(file, task.response, error)
      case .bytes(let source): source.finish(error)
      case nil: delegates.task?.urlSession(owner, task: task, didCompleteWithError: error)
      }
      last.carrier?.release()
      spool?.remove()
      session.forget(task)
    }
  }

  /// Lets the first of several through.
  final class Once: Sendable {
    private let isOver = Atomic(false)

    func isFirst() -> Bool { !isOver.exchange(true, ordering: .relaxed) }
  }
#endif
