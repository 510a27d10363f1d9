#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking

  /// How a session's tasks are carried out.
  ///
  /// A session copies its configuration when it is made; later changes have no effect on it. Defaults are Apple's.
  /// `docs/AppleCompatibility.md` lists which properties the daemon acts on.
  open class URLSessionConfiguration: NSObject, NSCopying, @unchecked Sendable {
    /// Whether more than one network path may carry a connection.
    public enum MultipathServiceType: Int, Sendable {
      /// One path only.
      case none = 0
      /// A second path takes over when the first one fails.
      case handover = 1
      /// The path with the smaller delay.
      case interactive = 2
      /// Both paths together.
      case aggregate = 3
    }

    /// The name under which the session outlives its process; nil unless ``background(withIdentifier:)`` made this.
    public let identifier: String?
    /// Default: `.useProtocolCachePolicy`. There is no cache: every request is loaded, and one that only a cache may
    /// answer fails with `URLError.resourceUnavailable`.
    open var requestCachePolicy: NSURLRequest.CachePolicy = .useProtocolCachePolicy
    /// Seconds without progress after which a task fails with `URLError.timedOut`; in a background session the
    /// attempt is made again. Default: 60.
    ///
    /// A request whose own `timeoutInterval` differs from 60 uses that.
    open var timeoutIntervalForRequest: TimeInterval = 60
    /// Seconds, all attempts together, after which a task fails with `URLError.timedOut`. Default: 604 800 (7 days).
    open var timeoutIntervalForResource: TimeInterval = 604_800
    /// A hint that is kept and not acted on. Default: `.default`.
    open var networkServiceType: NSURLRequest.NetworkServiceType = .default
    /// Whether a cellular network may carry the session's tasks. Default: true. Nothing on Linux tells a cellular
    /// network from another metered one, so false is as ``allowsExpensiveNetworkAccess`` being false.
    open var allowsCellularAccess = true
    /// Whether a metered network may carry the session's tasks. Default: true. False: tasks of a background session
    /// wait for another, and one that runs when the network becomes metered is stopped and continued later. Those of
    /// an ordinary session fail with `URLError.notConnectedToInternet`, whose `networkUnavailableReason` says why;
    /// with ``waitsForConnectivity`` those that have not begun wait.
    open var allowsExpensiveNetworkAccess = true
    /// Whether a network that a person wants to be used sparingly may carry the session's tasks: one that was marked as
    /// metered by hand (NetworkManager does not merely guess it). Default: true. False is as for
    /// ``allowsExpensiveNetworkAccess``.
    open var allowsConstrainedNetworkAccess = true
    /// Default: true. Linux knows one degree of sparing only, so false is as ``allowsConstrainedNetworkAccess`` being
    /// false.
    open var allowsUltraConstrainedNetworkAccess = true
    /// Default: false. Kept; no effect yet.
    open var requiresDNSSECValidation = false
    /// Whether a task waits for a network that it may use in place of failing. Default: false. Background sessions
    /// always wait, as on Apple's systems.
    open var waitsForConnectivity = false
    /// True: tasks wait for external power and a network that is not metered, but at most until half of
    /// ``timeoutIntervalForResource`` is over, or a day before its end where that is later. Default: false.
    open var isDiscretionary = false
    /// Default: nil. Linux has no app extensions, so nothing requires it.
    open var sharedContainerIdentifier: String?
    /// Whether the daemon may start the program when its tasks have ended. Default: true.
    open var sessionSendsLaunchEvents = true
    /// Proxies under the keys `HTTPEnable`, `HTTPProxy`, `HTTPPort`, `HTTPSEnable`, `HTTPSProxy`, `HTTPSPort` and
    /// `ExceptionsList`. Default: nil, which means the environment's `http_proxy`, `https_proxy` and `no_proxy`.
    open var connectionProxyDictionary: [AnyHashable: Any]?
    /// Default: TLS 1.2. Below it the system's own OpenSSL policy may still refuse.
    open var tlsMinimumSupportedProtocolVersion: tls_protocol_version_t = .TLSv12
    /// Default: TLS 1.3.
    open var tlsMaximumSupportedProtocolVersion: tls_protocol_version_t = .TLSv13
    /// Only here. True: the session's delegate is asked about each server before anything is sent to it, by
    /// ``NSURLAuthenticationMethodServerTrust``, also where the authorities vouch for it. Default: false.
    ///
    /// An ordinary session does so anyway where its delegate has the method. In a background session each task then
    /// waits for a process that answers, which is what a program wants that pins certificates in its delegate's code.
    open var challengesEveryServer = false
    /// Only here. A PEM file of authorities whom the session trusts, in place of those that the environment's
    /// `SSL_CERT_FILE` names, or the system's. Default: nil. Read when a connection is made, by the daemon too: a file
    /// that cannot be read fails the task.
    open var trustedAuthorities: URL?
    /// Default: false. No effect, as in every current HTTP client.
    open var httpShouldUsePipelining = false
    /// Whether cookies of ``httpCookieStorage`` are added to a request when its task is created. Default: true.
    open var httpShouldSetCookies = true
    /// Default: `.onlyFromMainDocumentDomain`, which counts as `.always` without a main document. Cookies of a
    /// background task's final response are stored when its completion reaches a process; those of redirects are not.
    open var httpCookieAcceptPolicy: HTTPCookie.AcceptPolicy = .onlyFromMainDocumentDomain
    /// Headers of every task; a request's own header of the same name wins. Default: nil.
    open var httpAdditionalHeaders: [AnyHashable: Any]?
    /// Connections of this session to one host at a time. Default: 6.
    open var httpMaximumConnectionsPerHost = 6
    /// Default: nil. Kept, and not used: there is no cache.
    open var urlCache: URLCache?
    /// Default: false. No effect; deprecated on Apple's systems too.
    open var shouldUseExtendedBackgroundIdleMode = false
    /// Subclasses of ``URLProtocol`` that are asked, in order, whether they answer a request. Default: none. They never
    /// apply to background sessions, as on Apple's systems.
    open var protocolClasses: [AnyClass]?
    /// Default: `.none`. No effect.
    open var multipathServiceType: MultipathServiceType = .none
    /// Default: false. No effect.
    open var usesClassicLoadingMode = false
    /// Default: false. No effect.
    open var enablesEarlyData = false

    /// Whence ``httpShouldSetCookies`` takes cookies. Default: the shared storage; nil: none.
    open var httpCookieStorage: HTTPCookieStorage? {
      get { cookieStorageChoice.map(\.storage) ?? .shared }
      set { cookieStorageChoice = Choice(storage: newValue) }
    }

    /// Default: the shared storage. Its default credential of a protection space is proposed to the delegate, and used
    /// by default handling; credentials whose persistence is not `.none` are kept in it.
    open var urlCredentialStorage: URLCredentialStorage? {
      get { credentialStorageChoice.map(\.storage) ?? .shared }
      set { credentialStorageChoice = Choice(storage: newValue) }
    }

    // Kept apart from the property so that the shared storage, a file, is opened only by who wants it.
    private struct Choice<Storage> { var storage: Storage? }
    private var cookieStorageChoice: Choice<HTTPCookieStorage>?
    private var credentialStorageChoice: Choice<URLCredentialStorage>?

    init(identifier: String?) {
      self.identifier = identifier
      super.init()
    }

    /// A copy that shares nothing with this.
    open func copy(with zone: NSZone? = nil) -> Any {
      let copy = URLSessionConfiguration(identifier: identifier)
      copy.takeValues(of: self)
      return copy
    }

    private func takeValues(of other: URLSessionConfiguration) {
      requestCachePolicy = other.requestCachePolicy
      timeoutIntervalForRequest = other.timeoutIntervalForRequest
      timeoutIntervalForResource = other.timeoutIntervalForResource
      networkServiceType = other.networkServiceType
      allowsCellularAccess = other.allowsCellularAccess
      allowsExpensiveNetworkAccess = other.allowsExpensiveNetworkAccess
      allowsConstrainedNetworkAccess = other.allowsConstrainedNetworkAccess
      allowsUltraConstrainedNetworkAccess = other.allowsUltraConstrainedNetworkAccess
      requiresDNSSECValidation = other.requiresDNSSECValidation
      waitsForConnectivity = other.waitsForConnectivity
      isDiscretionary = other.isDiscretionary
      sharedContainerIdentifier = other.sharedContainerIdentifier
      sessionSendsLaunchEvents = other.sessionSendsLaunchEvents
      connectionProxyDictionary = other.connectionProxyDictionary
      tlsMinimumSupportedProtocolVersion = other.tlsMinimumSupportedProtocolVersion
      tlsMaximumSupportedProtocolVersion = other.tlsMaximumSupportedProtocolVersion
      challengesEveryServer = other.challengesEveryServer
      trustedAuthorities = other.trustedAuthorities
      httpShouldUsePipelining = other.httpShouldUsePipelining
      httpShouldSetCookies = other.httpShouldSetCookies
      httpCookieAcceptPolicy = other.httpCookieAcceptPolicy
      httpAdditionalHeaders = other.httpAdditionalHeaders
      httpMaximumConnectionsPerHost = other.httpMaximumConnectionsPerHost
      urlCache = other.urlCache
      shouldUseExtendedBackgroundIdleMode = other.shouldUseExtendedBackgroundIdleMode
      protocolClasses = other.protocolClasses
      multipathServiceType = other.multipathServiceType
      usesClassicLoadingMode = other.usesClassicLoadingMode
      enablesEarlyData = other.enablesEarlyData
      cookieStorageChoice = other.cookieStorageChoice
      credentialStorageChoice = other.credentialStorageChoice
    }

    func snapshot() -> URLSessionConfiguration {
      let copy = URLSessionConfiguration(identifier: identifier)
      copy.takeValues(of: self)
      return copy
    }

    /// A configuration of a session whose tasks are carried out by this process, and end with it.
    open class var `default`: URLSessionConfiguration {
      let configuration = URLSessionConfiguration(identifier: nil)
      configuration.protocolClasses = []
      return configuration
    }

    /// As ``default``, with cookies of the session's own, kept in memory.
    open class var ephemeral: URLSessionConfiguration {
      let configuration = URLSessionConfiguration.default
      let inMemory = FoundationNetworking.URLSessionConfiguration.ephemeral
      configuration.httpCookieStorage = inMemory.httpCookieStorage
      configuration.urlCredentialStorage = inMemory.urlCredentialStorage
      return configuration
    }

    /// A configuration of a session whose tasks are carried out by the daemon and outlive the process.
    ///
    /// - Parameter identifier: the session's name within the program; not empty. A later process of the same program
    ///   that uses the same name finds the session's tasks and results.
    open class func background(withIdentifier identifier: String) -> URLSessionConfiguration {
      guard !identifier.isEmpty else {
        fatalError("The identifier of a background session configuration must not be empty.")
      }
      return URLSessionConfiguration(identifier: identifier)
    }
  }

  // The names are Apple's (Security framework).
  // swift-format-ignore: AlwaysUseLowerCamelCase, TypeNamesShouldBeCapitalized
  /// Versions of TLS, with their numbers on the wire (RFC 8446 section 4.2.1).
  public enum tls_protocol_version_t: UInt16, Sendable {
    /// TLS 1.0.
    case TLSv10 = 0x0301
    /// TLS 1.1.
    case TLSv11 = 0x0302
    /// TLS 1.2.
    case TLSv12 = 0x0303
    /// TLS 1.3.
    case TLSv13 = 0x0304
  }
#endif
