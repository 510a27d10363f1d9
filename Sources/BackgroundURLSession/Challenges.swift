#if !canImport(Darwin)
  internal import Certificates
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import TransferCore
  internal import WireProtocol

  /// A challenge on its way to the program and back, for either kind of session.
  ///
  /// Apple's NSURLSession.h: a task's credentials are asked of the task delegate, what concerns the whole connection of
  /// the session's. One does not stand in for the other; where the method is not there, the default handling decides.
  struct PosedChallenge: Sendable {
    let challenge: Challenge
    let space: URLProtectionSpace
    private let storage: URLCredentialStorage?
    /// User and password of the task's own URL, where they are meant for the place that asks.
    private let urlCredential: URLCredential?

    /// Nil for an origin that cannot be read.
    init?(_ challenge: Challenge, of url: URL?, _ configuration: URLSessionConfiguration) {
      guard let space = ChallengeTranslation.space(of: challenge, configuration.trustedAuthorities) else { return nil }
      self.challenge = challenge
      self.space = space
      storage = configuration.urlCredentialStorage
      urlCredential = Self.credential(in: url, for: challenge)
    }

    /// Basic is shown with the first request already: a server that asks for it has refused it.
    private static func credential(in url: URL?, for challenge: Challenge) -> URLCredential? {
      guard challenge.method == .digest, !challenge.isProxy, let url,
        Origin(url: url.absoluteString)?.description == challenge.origin, let user = url.user(percentEncoded: false),
        let password = url.password(percentEncoded: false)
      else { return nil }
      return URLCredential(user: user, password: password, persistence: .none)
    }

    private var proposedCredential: URLCredential? {
      let stored = storage.flatMap { storage in
        ChallengeTranslation.known(space, in: storage).flatMap { storage.defaultCredential(for: $0) }
      }
      return stored ?? urlCredential
    }

    /// Asks the delegate; `answer` is called once. On the delegate queue.
    func put(
      _ response: URLResponse?, _ task: URLSessionTask, _ owner: URLSession, _ delegates: Delegates,
      _ answer: @escaping @Sendable (ChallengeAnswer) -> Void
    ) {
      let sender = ChallengeSender()
      let posed = URLAuthenticationChallenge(
        protectionSpace: space, proposedCredential: proposedCredential,
        previousFailureCount: challenge.previousFailures,
        failureResponse: response, error: nil, sender: sender)
      delegates.put(posed, task, owner) { disposition, credential in
        if let delegate = delegates.session, sender.tookDefault(of: delegate) {
          ServerAcquaintance.noteSilence(of: delegate)
        }
        answer(self.answer(of: disposition, credential))
      }
    }

    private func answer(
      of disposition: URLSession.AuthChallengeDisposition, _ credential: URLCredential?
    ) -> ChallengeAnswer {
      switch disposition {
      case .useCredential: credential.map { use($0, isNew: true) } ?? .proceed
      // One that was refused is not offered again.
      case .performDefaultHandling:
        challenge.previousFailures == 0 ? proposedCredential.map { use($0, isNew: false) } ?? .proceed : .proceed
      // Whom the authorities vouch for the default would accept.
      case .rejectProtectionSpace: challenge.server?.isVouched == true ? .cancel : .proceed
      case .cancelAuthenticationChallenge: .cancel
      }
    }

    private func use(_ credential: URLCredential, isNew: Bool) -> ChallengeAnswer {
      if challenge.method == .serverTrust { return trust((credential as? ServerTrustCredential)?.trust) }
      if challenge.method == .clientCertificate, let identity = credential.identity {
        return .identity(identity.content)
      }
      guard let user = credential.user, let password = credential.password else {
        Diagnostics.log("the credential is none for a \(challenge.method.rawValue) challenge, which takes its default")
        return .proceed
      }
      // Apple's interface has no token; the password is taken for one.
      if challenge.method == .bearer { return .token(password) }
      guard challenge.takesPassword else {
        Diagnostics.log("a \(challenge.method.rawValue) challenge cannot be answered by a user and a password here")
        return .proceed
      }
      return .credential(user: user, password: password, isNew ? credential : nil)
    }

    /// What the program gave stays in the storage, where its persistence says so.
    func keep(_ credential: URLCredential?) {
      guard let credential, credential.persistence != .none, let storage else { return }
      storage.setDefaultCredential(credential, for: ChallengeTranslation.known(space, in: storage) ?? space)
    }
  }

  extension PosedChallenge {
    /// Another server's trust says nothing about this one.
    private func trust(_ given: SecTrust?) -> ChallengeAnswer {
      if let shown = challenge.server?.certificate, given?.chain.first?.fingerprint == shown { return .trust(shown) }
      Diagnostics.log("a server is accepted by URLCredential(trust:) of its own serverTrust; the default is taken")
      return .proceed
    }
  }

  /// What becomes of a challenge.
  enum ChallengeAnswer: Sendable {
    /// The third: what the program gave, and ``PosedChallenge/keep(_:)`` may keep.
    case credential(user: String, password: String, URLCredential?)
    case token(String)
    /// The certificate that the server showed is the right one.
    case trust(String)
    /// What the server is shown.
    case identity(ClientIdentity)
    /// As if nobody could be asked.
    case proceed
    case cancel
  }

  extension Delegates {
    /// The method that a challenge of this kind is for; `handler` is called once.
    func put(
      _ challenge: URLAuthenticationChallenge, _ asking: URLSessionTask, _ owner: URLSession,
      _ handler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
      let once = Once()
      let first: @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void = { disposition, credential in
        if once.isFirst() { handler(disposition, credential) }
      }
      if ChallengeTranslation.sessionMethods.contains(challenge.protectionSpace.authenticationMethod) {
        guard let session else { return first(.performDefaultHandling, nil) }
        session.urlSession(owner, didReceive: challenge, completionHandler: first)
      } else {
        guard let task else { return first(.performDefaultHandling, nil) }
        task.urlSession(owner, task: asking, didReceive: challenge, completionHandler: first)
      }
    }
  }

  /// `URLAuthenticationChallenge` wants one; challenges of URLSession are answered by their handler, as Apple says.
  final class ChallengeSender: NSObject, URLAuthenticationChallengeSender, Sendable {
    private let silent = Mutex<Set<ObjectIdentifier>>([])
    /// This delegate's method is the protocol's own. One that hands its challenges on has a method, whatever the other
    /// says.
    func tookDefault(of delegate: any URLSessionDelegate) -> Bool {
      silent.withLock { $0.contains(ObjectIdentifier(delegate)) }
    }
    func takeDefault(of delegate: any URLSessionDelegate) {
      silent.withLock { _ = $0.insert(ObjectIdentifier(delegate)) }
    }

    func use(_ credential: URLCredential, for challenge: URLAuthenticationChallenge) {}
    func continueWithoutCredential(for challenge: URLAuthenticationChallenge) {}
    func cancel(_ challenge: URLAuthenticationChallenge) {}
    func performDefaultHandling(for challenge: URLAuthenticationChallenge) {}
    func rejectProtectionSpaceAndContinue(with challenge: URLAuthenticationChallenge) {}
  }

  enum ChallengeTranslation {
    /// The storage's own value of a protection space: FoundationNetworking takes two that say the same for different.
    static func known(_ space: URLProtectionSpace, in storage: URLCredentialStorage) -> URLProtectionSpace? {
      storage.allCredentials.keys.first {
        $0.host == space.host && $0.port == space.port && $0.protocol == space.protocol
          && $0.realm == space.realm && $0.authenticationMethod == space.authenticationMethod
          && $0.isProxy() == space.isProxy() && $0.proxyType == space.proxyType
      }
    }

    /// What the session's method is asked about, and not the task's.
    static let sessionMethods = [
      NSURLAuthenticationMethodNegotiate, NSURLAuthenticationMethodNTLM, NSURLAuthenticationMethodClientCertificate,
      NSURLAuthenticationMethodServerTrust,
    ]

    /// What the daemon asks; nil for what is no challenge.
    static func challenge(of question: WireQuestion) -> Challenge? {
      guard question.kind == "challenge" else { return nil }
      return Challenge(
        method: question.method.flatMap(Challenge.Method.init(rawValue:)) ?? .unknown,
        isProxy: question.isProxy ?? false, origin: question.origin ?? "", realm: question.realm,
        previousFailures: question.previousFailures ?? 0, server: server(of: question))
    }

    private static func server(of question: WireQuestion) -> ShownServer? {
      guard let chain = question.certificates, let certificate = question.certificate, let key = question.key else {
        return nil
      }
      return ShownServer(chain: chain, certificate: certificate, key: key, isVouched: question.isVouched ?? false)
    }

    /// The protection space of a challenge; nil for an origin that cannot be read.
    static func space(of challenge: Challenge, _ authorities: URL? = nil) -> URLProtectionSpace? {
      guard let origin = URL(string: challenge.origin), let host = origin.host else { return nil }
      let scheme = origin.scheme ?? "http"
      let port = origin.port ?? (scheme == "https" ? 443 : 80)
      if let server = challenge.server, let trust = SecTrust(server, host: host, authorities) {
        return ServerTrustSpace(trust, host: host, port: port, protocol: scheme)
      }
      let method =
        switch challenge.method {
        case .basic: NSURLAuthenticationMethodHTTPBasic
        case .digest: NSURLAuthenticationMethodHTTPDigest
        case .negotiate: NSURLAuthenticationMethodNegotiate
        case .ntlm: NSURLAuthenticationMethodNTLM
        case .clientCertificate: NSURLAuthenticationMethodClientCertificate
        case .serverTrust: NSURLAuthenticationMethodServerTrust
        case .bearer, .unknown: NSURLAuthenticationMethodDefault
        }
      if challenge.isProxy {
        return URLProtectionSpace(
          proxyHost: host, port: port, type: scheme, realm: challenge.realm, authenticationMethod: method)
      }
      return URLProtectionSpace(
        host: host, port: port, protocol: scheme, realm: challenge.realm, authenticationMethod: method)
    }

    /// The configuration's versions of TLS, what the delegate is asked, and the program's pinned domains. There is no
    /// version above 1.3 that a maximum of 1.3 would forbid.
    static func apply(
      _ configuration: URLSessionConfiguration, to network: inout WireNetwork, hasDelegate: Bool
    ) {
      var tls = network.tls ?? WireTLS()
      tls.minimum = version(configuration.tlsMinimumSupportedProtocolVersion)
      let maximum = configuration.tlsMaximumSupportedProtocolVersion
      tls.maximum = maximum == .TLSv13 ? nil : version(maximum)
      tls.authorityFile = configuration.trustedAuthorities?.absoluteURL.path
      if configuration.challengesEveryServer { tls.asksAboutServers = true }
      if hasDelegate { tls.asksForCertificate = true }
      if !PinnedDomains.declared.isEmpty { tls.pinnedDomains = PinnedDomains.declared }
      network.tls = tls
    }

    /// The same, for this process.
    static func settings(of wire: WireTLS?) -> TLSSettings {
      TLSSettings(
        minimum: wire?.minimum.flatMap(TLSSettings.Version.init(rawValue:)),
        maximum: wire?.maximum.flatMap(TLSSettings.Version.init(rawValue:)),
        authorityFile: wire?.authorityFile, asksAboutServers: wire?.asksAboutServers ?? false,
        asksForCertificate: wire?.asksForCertificate ?? false,
        pinnedDomains: (wire?.pinnedDomains ?? []).map {
          PinnedDomain(domain: $0.domain, includesSubdomains: $0.includesSubdomains ?? false, keys: $0.keys)
        })
    }

    private static func version(_ version: tls_protocol_version_t) -> String {
      switch version {
      case .TLSv10: "1.0"
      case .TLSv11: "1.1"
      case .TLSv12: "1.2"
      case .TLSv13: "1.3"
      }
    }
  }
#endif
