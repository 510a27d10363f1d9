#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import InProcessTransfers
  internal import Synchronization
  internal import TransferCore

  /// Fetches over HTTP, by the engine of this process. As a listener it is called on the engine's thread.
  final class NetworkCarrier: Carrier, TransferListener {
    private let run: TaskRun
    private let request: URLRequest
    private let transfer = Mutex<LocalTransfer?>(nil)
    private let home = TransferHome.shared

    init(_ run: TaskRun, _ request: URLRequest) {
      self.run = run
      self.request = request
    }

    // MARK: What the task asks for

    func start() {
      if run.order.isStreamed, request.httpBodyStream == nil { return askStream { self.begin($0) } }
      begin(request.httpBodyStream.map(BodyStream.init))
    }

    private func begin(_ stream: BodyStream?) {
      if run.order.isStreamed, stream == nil {
        let text = "The body is to come from a stream, and there is none."
        return run.ended(FailureTranslation.make(.requestBodyStreamExhausted, text, url: request.url), file: nil)
      }
      guard let url = request.url, let origin = Origin(url: url.absoluteString) else {
        let text = "The URL is not an absolute http or https URL with a host."
        return run.ended(FailureTranslation.make(.unsupportedURL, text, url: request.url), file: nil)
      }
      let made = LocalTransfer(
        session: run.session.local, draft: draft(url, origin.description), body: body(stream), listener: self)
      transfer.withLock { $0 = made }
      home.start(made)
      // Cancelled meanwhile: the task has had its last message.
      guard run.isOver else { return }
      home.cancel(made)
      transfer.withLock { $0 = nil }
    }

    private func draft(_ url: URL, _ origin: String) -> TaskDraft {
      let configuration = run.session.configuration
      // The response of an upload is handed over as it comes, so it is a data task with a body.
      var draft = TaskDraft(
        kind: run.order.kind == .download ? .download : .data, request: RequestTranslation.transfer(request),
        origin: origin)
      draft.statusRule = .any
      if run.session.asksAboutServers {
        draft.tls = TLSSettings(asksAboutServers: true)
        draft.accepted = run.session.acquaintance.known(origin)
      }
      draft.constraints = RequestTranslation.constraints(of: request, under: configuration, to: origin)
      draft.resumeToken = run.order.resumeToken
      let resource = Self.duration(configuration.timeoutIntervalForResource) ?? .seconds(604_800)
      let seconds =
        request.timeoutInterval == RequestTranslation.unsetTimeoutSeconds
        ? configuration.timeoutIntervalForRequest : request.timeoutInterval
      draft.requestTimeout = Self.duration(seconds) ?? resource
      draft.resourceTimeout = resource
      if let fields = run.task?.fields.withLock({ $0 }) {
        draft.priority = Self.priority(fields.priority)
        draft.earliestBegin = fields.earliestBeginDate.map {
          WallInstant(milliseconds: RequestTranslation.milliseconds(of: $0))
        }
      }
      return draft
    }

    /// Nil for what is no limit.
    private static func duration(_ seconds: TimeInterval) -> Duration? {
      seconds > 0 && seconds < 1_000_000_000 ? .seconds(max(seconds, 0.001)) : nil
    }

    private static func priority(_ value: Float) -> UInt8 { UInt8(max(0, min(255, (value * 255).rounded()))) }

    private func body(_ stream: BodyStream?) -> LocalBody {
      if let source = run.order.source { return .file(source.absoluteURL.path) }
      if let stream { return .stream(StreamPump.feed(stream)) }
      guard let bytes = run.order.body ?? request.httpBody, !bytes.isEmpty || run.order.body != nil else {
        return .none
      }
      return .bytes([UInt8](bytes))
    }

    private func askStream(_ answer: @escaping @Sendable (BodyStream?) -> Void) {
      run.post { task, owner, delegates in
        guard let delegate = delegates.task else { return answer(nil) }
        let first = Once()
        delegate.urlSession(owner, task: task) { stream in
          if first.isFirst() { answer(stream.map(BodyStream.init)) }
        }
      }
    }

    private func tell(_ body: (LocalTransfer) -> Void) {
      if let transfer = transfer.withLock({ $0 }) { body(transfer) }
    }

    func pause() { tell(home.suspend) }
    func resume() { tell(home.resume) }
    func takeMore() { tell(home.takeMore) }
    func prioritize(_ priority: Float) { tell { home.prioritize($0, Self.priority(priority)) } }

    func cancel(keepsPart: Bool) {
      if let transfer = transfer.withLock({ $0 }) { return home.cancel(transfer, keepsPart: keepsPart) }
      run.ended(FailureTranslation.cancellation(url: request.url), file: nil)
    }

    func release() {
      let done = transfer.withLock { transfer in
        defer { transfer = nil }
        return transfer
      }
      if let done { home.release(done) }
    }

    // MARK: What the engine tells

    func transferInformed(_ head: ResponseHead) {
      // 104 is the protocol's of resumable uploads, not the program's.
      guard head.status != 104, let response = RequestTranslation.response(head) else { return }
      run.informed(response)
    }

    func transferResponded(_ head: ResponseHead) {
      if let response = RequestTranslation.response(head) { run.responded(response) }
    }

    func transferReceived(_ bytes: [UInt8]) -> Bool { run.received(Data(bytes)) }

    func transferProgressed(received: Int64, sent: Int64) {
      run.progressed(received: run.order.kind == .download ? received : nil, sent: sent)
    }

    func transferResumed(at offset: Int64, of total: Int64?) { run.resumed(at: offset, of: total) }

    func transferAsksRedirect(_ head: ResponseHead, _ proposed: TransferRequest) {
      guard let response = RequestTranslation.response(head), let task = run.task,
        let current = task.currentRequest, let url = URL(string: proposed.url)
      else { return tell(home.keepResponse) }
      var next = URLRequest(url: url)
      next.httpMethod = proposed.method
      next.timeoutInterval = current.timeoutInterval
      next.httpShouldHandleCookies = current.httpShouldHandleCookies
      if proposed.method == current.httpMethod { next.httpBody = current.httpBody }
      for field in proposed.headers.fields { next.addValue(field.value, forHTTPHeaderField: field.name) }
      run.asksRedirect(response, Cookies.removed(from: next, of: task.originalRequest)) { answer in
        self.tell { transfer in
          guard let answer, answer.url != nil else { return self.home.keepResponse(transfer) }
          self.home.follow(transfer, RequestTranslation.transfer(answer))
        }
      }
    }

    func transferAsksCredential(_ challenge: Challenge, _ head: ResponseHead?) {
      run.asksCredential(challenge, head.flatMap(RequestTranslation.response)) { given in
        self.tell { transfer in
          guard let given else { return self.home.keepResponse(transfer) }
          self.home.authorize(transfer, given)
        }
      }
    }

    func transferNeedsBody() {
      askStream { stream in
        let feed = stream.map { StreamPump.feed($0) }
        self.tell { self.home.provide(feed, to: $0) }
      }
    }

    func transferAwaitsConnectivity() { run.awaitsConnectivity() }

    func transferEnded(_ ending: LocalEnding, _ metrics: MetricsLog) {
      let url = run.task?.currentRequest?.url
      let resumeData = ending.keptPart.map { ResumableDownloads.shared.keep($0, of: run.task?.originalRequest) }
      switch ending {
      case .succeeded(let file):
        run.ended(nil, file: file.map { URL(fileURLWithPath: $0, isDirectory: false) }, metrics)
      case .failed(let failure, _) where failure.code == .invalidRequest && run.order.resumeToken != nil:
        run.ended(ResumableDownloads.refusal(failure.detail), file: nil, metrics)
      case .failed(let failure, _):
        run.ended(FailureTranslation.error(of: failure, url: url, resumeData: resumeData), file: nil, metrics)
      case .cancelled:
        run.ended(FailureTranslation.cancellation(url: url, resumeData: resumeData), file: nil, metrics)
      }
    }
  }

  /// A stream that the program gave away: from then on only its pump touches it.
  struct BodyStream: @unchecked Sendable {
    let stream: InputStream
  }

  /// Reads a stream as fast as the network takes it, on a thread where that may block.
  private final class StreamPump: @unchecked Sendable {
    private let stream: InputStream
    private let body = LocalFeed()
    /// Nothing else touches the stream.
    private let queue = DispatchQueue(label: "URLSession body stream")

    private init(_ stream: BodyStream) { self.stream = stream.stream }

    static func feed(_ stream: BodyStream) -> LocalFeed {
      let pump = StreamPump(stream)
      pump.queue.async {
        pump.stream.open()
        pump.read()
      }
      return pump.body
    }

    private static let pieceBytes = 64 * 1024

    private func read() {
      var piece = [UInt8](repeating: 0, count: Self.pieceBytes)
      while true {
        let count = unsafe piece.withUnsafeMutableBufferPointer { buffer in
          // SAFETY: the stream writes at most as many bytes as the buffer holds.
          unsafe buffer.baseAddress.map { unsafe stream.read($0, maxLength: buffer.count) } ?? -1
        }
        guard count > 0 else {
          stream.close()
          return count == 0 ? body.finish() : body.fail()
        }
        let hasRoom = body.offer(Array(piece[..<count])) { self.queue.async { self.read() } }
        guard hasRoom else { return }
      }
    }
  }
#endif
