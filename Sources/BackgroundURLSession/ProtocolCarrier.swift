#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization

  /// Has a `URLProtocol` answer.
  final class ProtocolCarrier: NSObject, Carrier, URLProtocolClient, @unchecked Sendable {
    private let run: TaskRun
    private let request: URLRequest
    private let type: URLProtocol.Type
    private let queue = DispatchQueue(label: "URLProtocol")
    /// Touched on the queue only.
    private var answering: URLProtocol?
    private let isOver = Atomic(false)
    private let isRedirected = Atomic(false)
    private let spool: Spool?

    /// Nil: no class of the session wants the request.
    static func wanting(_ request: URLRequest, for run: TaskRun) -> ProtocolCarrier? {
      let named = (run.session.configuration.protocolClasses ?? []).compactMap { $0 as? URLProtocol.Type }
      let classes = run.session.isShared ? URLProtocol.classesOfShared + named : named
      guard let task = run.task else { return nil }
      return classes.first { $0.canInit(with: task) }.map { ProtocolCarrier(run, request, $0) }
    }

    private init(_ run: TaskRun, _ request: URLRequest, _ type: URLProtocol.Type) {
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
        answering.belongs(to: self.run.task)
        self.answering = answering
        answering.startLoading()
      }
    }

    // A URLProtocol cannot be held back.
    func pause() {}
    func resume() {}
    func takeMore() {}
    func prioritize(_ priority: Float) {}

    func cancel(keepsPart: Bool) { end(FailureTranslation.cancellation(url: request.url)) }

    func release() { spool?.remove() }

    /// False: it was over before. The protocol is told at once, not when the program has heard of the end.
    private func stop() -> Bool {
      guard !isOver.exchange(true, ordering: .relaxed) else { return false }
      queue.async {
        self.answering?.stopLoading()
        self.answering = nil
      }
      return true
    }

    private func end(_ error: URLError?) {
      if stop() { run.ended(error, spool) }
    }

    /// What the protocol tells counts: not after its end, nor after it told of a redirect.
    private var goesOn: Bool { !isOver.load(ordering: .relaxed) && !isRedirected.load(ordering: .relaxed) }

    // MARK: What the protocol tells

    func urlProtocol(
      _ protocol: URLProtocol, didReceive response: URLResponse, cacheStoragePolicy policy: URLCache.StoragePolicy
    ) {
      if goesOn { run.responded(response) }
    }

    func urlProtocol(_ protocol: URLProtocol, didLoad data: Data) {
      if goesOn { _ = run.take(data, spool) }
    }

    func urlProtocolDidFinishLoading(_ protocol: URLProtocol) {
      if goesOn { end(nil) }
    }

    func urlProtocol(_ protocol: URLProtocol, didFailWithError error: any Error) {
      guard goesOn else { return }
      if let error = error as? URLError { return end(error) }
      let described = error as NSError
      let isOurs = described.domain == NSURLErrorDomain
      let code = isOurs ? URLError.Code(rawValue: described.code) ?? .unknown : .unknown
      var userInfo = described.userInfo
      userInfo[NSUnderlyingErrorKey] = error
      end(URLError(code, userInfo: userInfo))
    }

    func urlProtocol(_ protocol: URLProtocol, wasRedirectedTo request: URLRequest, redirectResponse: URLResponse) {
      guard goesOn, let response = redirectResponse as? HTTPURLResponse else { return }
      isRedirected.store(true, ordering: .relaxed)
      run.asksRedirect(response, request) { next in
        guard self.stop() else { return }
        guard let next else {
          self.run.responded(response)
          return self.run.ended(nil, self.spool)
        }
        self.release()
        self.run.start(next)
      }
    }

    func urlProtocol(_ protocol: URLProtocol, cachedResponseIsValid cachedResponse: CachedURLResponse) {
      urlProtocol(`protocol`, didReceive: cachedResponse.response, cacheStoragePolicy: .notAllowed)
      urlProtocol(`protocol`, didLoad: cachedResponse.data)
      urlProtocolDidFinishLoading(`protocol`)
    }

    func urlProtocol(_ protocol: URLProtocol, didReceive challenge: URLAuthenticationChallenge) {
      guard goesOn else { return }
      run.asks(challenge) { disposition, credential in
        self.queue.async {
          guard self.goesOn, let sender = challenge.sender else { return }
          switch (disposition, credential) {
          case (.useCredential, let credential?): sender.use(credential, for: challenge)
          case (.useCredential, nil): sender.continueWithoutCredential(for: challenge)
          case (.performDefaultHandling, _): sender.performDefaultHandling(for: challenge)
          case (.cancelAuthenticationChallenge, _): sender.cancel(challenge)
          case (.rejectProtectionSpace, _): sender.rejectProtectionSpaceAndContinue(with: challenge)
          }
        }
      }
    }

    func urlProtocol(_ protocol: URLProtocol, didCancel challenge: URLAuthenticationChallenge) {}
  }
#endif
