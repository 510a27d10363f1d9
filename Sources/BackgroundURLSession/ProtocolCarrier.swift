#if !canImport(Darwin)
  internal import Foundation
  public import FoundationNetworking
  internal import Synchronization

  /// A program's own way to answer requests, for tests and for schemes of its own.
  ///
  /// Name a subclass in ``URLSessionConfiguration/protocolClasses``, or register it for ``URLSession/shared``. It
  /// overrides `canInit(with:)`, `canonicalRequest(for:)`, `startLoading()` and `stopLoading()`, and tells its `client`
  /// of the response, the bytes and the end, in that order and on any thread. `startLoading()` and `stopLoading()` are
  /// called on a queue of the request's own. Background sessions never ask it.
  open class URLProtocol: FoundationNetworking.URLProtocol {
    private static let registered = Mutex<[FoundationNetworking.URLProtocol.Type]>([])

    /// ``URLSession/shared`` asks `protocolClass` before those that were registered earlier. False for a class that is
    /// no URLProtocol.
    open override class func registerClass(_ protocolClass: AnyClass) -> Bool {
      guard let type = protocolClass as? FoundationNetworking.URLProtocol.Type else { return false }
      registered.withLock { known in
        if !known.contains(where: { $0 == type }) { known.append(type) }
      }
      return true
    }

    /// Takes ``registerClass(_:)`` back, for requests that begin later.
    open override class func unregisterClass(_ protocolClass: AnyClass) {
      registered.withLock { known in known.removeAll { $0 == protocolClass } }
    }

    /// The latest first.
    static var classesOfShared: [FoundationNetworking.URLProtocol.Type] { registered.withLock { $0.reversed() } }
  }

  /// Has a `URLProtocol` answer.
  final class ProtocolCarrier: NSObject, Carrier, URLProtocolClient, @unchecked Sendable {
    typealias Answering = FoundationNetworking.URLProtocol

    private let run: TaskRun
    private let request: URLRequest
    private let type: Answering.Type
    private let queue = DispatchQueue(label: "URLProtocol")
    /// Touched on the queue only.
    private var answering: Answering?
    private let isOver = Atomic(false)
    private let spool: Spool?

    /// Nil: no class of the session wants the request.
    static func wanting(_ request: URLRequest, for run: TaskRun) -> ProtocolCarrier? {
      let named = (run.session.configuration.protocolClasses ?? []).compactMap { $0 as? Answering.Type }
      let classes = run.session.isShared ? URLProtocol.classesOfShared + named : named
      return classes.first { $0.canInit(with: request) }.map { ProtocolCarrier(run, request, $0) }
    }

    private init(_ run: TaskRun, _ request: URLRequest, _ type: Answering.Type) {
      self.run = run
      self.request = request
      self.type = type
      spool = run.order.kind == .download ? Spool() : nil
    }

    // MARK: What the task asks for

    func start() {
      queue.async {
        guard !self.isOver.load(ordering: .relaxed) else { return }
        var asked = self.request
        if let body = self.run.order.body { asked.httpBody = body }
        if let source = self.run.order.source { asked.httpBodyStream = InputStream(url: source) }
        let answering = self.type.init(
          request: self.type.canonicalRequest(for: asked), cachedResponse: nil, client: self)
        self.answering = answering
        answering.startLoading()
      }
    }

    // A URLProtocol cannot be held back.
    func pause() {}
    func resume() {}
    func takeMore() {}
    func prioritize(_ priority: Float) {}

    func cancel() { end(FailureTranslation.cancellation(url: request.url)) }

    func release() {
      stop()
      spool?.remove()
    }

    private func stop() {
      queue.async {
        self.answering?.stopLoading()
        self.answering = nil
      }
    }

    private func end(_ error: URLError?) {
      guard !isOver.exchange(true, ordering: .relaxed) else { return }
      run.ended(error, spool)
    }

    private var goesOn: Bool { !isOver.load(ordering: .relaxed) }

    // MARK: What the protocol tells

    func urlProtocol(
      _ protocol: Answering, didReceive response: URLResponse, cacheStoragePolicy policy: URLCache.StoragePolicy
    ) {
      if goesOn { run.responded(response) }
    }

    func urlProtocol(_ protocol: Answering, didLoad data: Data) {
      if goesOn { _ = run.take(data, spool) }
    }

    func urlProtocolDidFinishLoading(_ protocol: Answering) { end(nil) }

    func urlProtocol(_ protocol: Answering, didFailWithError error: any Error) {
      if let error = error as? URLError { return end(error) }
      let described = error as NSError
      let isOurs = described.domain == NSURLErrorDomain
      let code = isOurs ? URLError.Code(rawValue: described.code) ?? .unknown : .unknown
      var userInfo = described.userInfo
      userInfo[NSUnderlyingErrorKey] = error
      end(URLError(code, userInfo: userInfo))
    }

    func urlProtocol(_ protocol: Answering, wasRedirectedTo request: URLRequest, redirectResponse: URLResponse) {
      guard goesOn, let response = redirectResponse as? HTTPURLResponse else { return }
      run.asksRedirect(response, request) { next in
        guard let next else {
          self.run.responded(response)
          return self.end(nil)
        }
        guard !self.isOver.exchange(true, ordering: .relaxed) else { return }
        self.release()
        self.run.start(next)
      }
    }

    func urlProtocol(_ protocol: Answering, cachedResponseIsValid cachedResponse: CachedURLResponse) {
      guard goesOn else { return }
      run.responded(cachedResponse.response)
      urlProtocol(`protocol`, didLoad: cachedResponse.data)
      end(nil)
    }

    /// Challenges are not asked about; the protocol's sender goes on without a credential.
    func urlProtocol(_ protocol: Answering, didReceive challenge: URLAuthenticationChallenge) {
      challenge.sender?.performDefaultHandling(for: challenge)
    }

    func urlProtocol(_ protocol: Answering, didCancel challenge: URLAuthenticationChallenge) {}
  }
#endif
