#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking
  internal import Synchronization

  /// A program's own way to answer requests, for tests and for schemes of its own.
  ///
  /// Name a subclass in ``URLSessionConfiguration/protocolClasses``, or register it for ``URLSession/shared``. It
  /// overrides ``canInit(with:)-(URLRequest)``, ``canonicalRequest(for:)``, ``startLoading()`` and ``stopLoading()``,
  /// and tells its ``client`` of the response, the bytes and the end, in that order and on any thread. Background
  /// sessions never ask it.
  ///
  /// A subclass of FoundationNetworking's class of this name is not asked: it could not be `Sendable`.
  open class URLProtocol: NSObject, @unchecked Sendable {
    private static let registered = Mutex<[URLProtocol.Type]>([])

    /// ``URLSession/shared`` asks `protocolClass` before those that were registered earlier. False for a class that is
    /// no URLProtocol.
    open class func registerClass(_ protocolClass: AnyClass) -> Bool {
      guard let type = protocolClass as? URLProtocol.Type else { return false }
      registered.withLock { known in
        if !known.contains(where: { $0 == type }) { known.append(type) }
      }
      return true
    }

    /// Takes ``registerClass(_:)`` back, for requests that begin later.
    open class func unregisterClass(_ protocolClass: AnyClass) {
      registered.withLock { known in known.removeAll { $0 == protocolClass } }
    }

    /// The latest first.
    static var classesOfShared: [URLProtocol.Type] { registered.withLock { $0.reversed() } }

    // MARK: What a subclass decides

    /// Whether the class answers this request. Default: false.
    open class func canInit(with request: URLRequest) -> Bool { false }

    /// Whether the class answers the task's present request. Default: as ``canInit(with:)-(URLRequest)`` says.
    open class func canInit(with task: URLSessionTask) -> Bool { task.currentRequest.map(canInit(with:)) ?? false }

    /// The request as the class wants to see it. Default: as it is.
    open class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

    /// Whether one answer serves both. Never asked: there is no cache. Default: true for equal requests.
    open class func requestIsCacheEquivalent(_ first: URLRequest, to second: URLRequest) -> Bool { first == second }

    /// An override says `required` in place of `override`.
    public required init(
      request: URLRequest, cachedResponse: CachedURLResponse?, client: (any URLProtocolClient)?
    ) {
      self.request = request
      self.cachedResponse = cachedResponse
      self.client = client
      super.init()
    }

    /// Answer ``request``. Called once, on a queue of the request's own. Must be overridden.
    open func startLoading() { fatalError("\(Self.self) is a URLProtocol and must override startLoading()") }

    /// Nobody wants more: the answer is complete, or the task was cancelled. Called once, on the queue of
    /// ``startLoading()``, after that has returned. Must be overridden.
    open func stopLoading() { fatalError("\(Self.self) is a URLProtocol and must override stopLoading()") }

    // MARK: What it works with

    /// What is asked for. The body of an upload is its `httpBody`, or for a file its `httpBodyStream`.
    open private(set) var request: URLRequest
    /// Nil: there is no cache.
    open private(set) var cachedResponse: CachedURLResponse?
    /// Who hears the answer.
    open private(set) var client: (any URLProtocolClient)?
    private let asker = Mutex<URLSessionTask?>(nil)
    /// The task that asks.
    open var task: URLSessionTask? { asker.withLock { $0 } }

    func belongs(to task: URLSessionTask?) { asker.withLock { $0 = task } }

    // MARK: Marks on requests

    /// What ``setProperty(_:forKey:in:)`` attached to the request.
    open class func property(forKey key: String, in request: URLRequest) -> Any? {
      FoundationNetworking.URLProtocol.property(forKey: key, in: request)
    }

    /// Attaches a value that is not sent, so that a class recognises a request which it made itself.
    open class func setProperty(_ value: Any, forKey key: String, in request: NSMutableURLRequest) {
      FoundationNetworking.URLProtocol.setProperty(value, forKey: key, in: request)
    }

    /// Takes ``setProperty(_:forKey:in:)`` back.
    open class func removeProperty(forKey key: String, in request: NSMutableURLRequest) {
      FoundationNetworking.URLProtocol.removeProperty(forKey: key, in: request)
    }
  }

  /// Who hears what a ``URLProtocol`` answers: the session's side of it. What comes after the end, or after a redirect,
  /// is not heard.
  public protocol URLProtocolClient: NSObjectProtocol {
    /// The answer is another request; the task's delegate decides whether it is followed.
    func urlProtocol(_ protocol: URLProtocol, wasRedirectedTo request: URLRequest, redirectResponse: URLResponse)
    /// The answer is what a cache holds.
    func urlProtocol(_ protocol: URLProtocol, cachedResponseIsValid cachedResponse: CachedURLResponse)
    /// The head of the answer; the policy has no effect.
    func urlProtocol(
      _ protocol: URLProtocol, didReceive response: URLResponse, cacheStoragePolicy policy: URLCache.StoragePolicy)
    /// Bytes of the answer, in addition to those before.
    func urlProtocol(_ protocol: URLProtocol, didLoad data: Data)
    /// The answer is complete.
    func urlProtocolDidFinishLoading(_ protocol: URLProtocol)
    /// There is no answer, or no whole one.
    func urlProtocol(_ protocol: URLProtocol, didFailWithError error: any Error)
    /// Nobody is asked yet: the challenge's sender is told to go on without a credential.
    func urlProtocol(_ protocol: URLProtocol, didReceive challenge: URLAuthenticationChallenge)
    /// The challenge is void.
    func urlProtocol(_ protocol: URLProtocol, didCancel challenge: URLAuthenticationChallenge)
  }
#endif
