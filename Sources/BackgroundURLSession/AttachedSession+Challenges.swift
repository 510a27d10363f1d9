#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import WireProtocol

  /// What the daemon asks the program, in the words of the delegate protocols (Apple's NSURLSession.h): a task's
  /// credentials are asked of the task delegate, what concerns the whole connection of the session's. One does not
  /// stand in for the other; where the method is not there, the default handling decides.
  extension AttachedSession {
    /// Called on the connection's thread; again after each reconnect, as long as nobody answered.
    func asked(_ snapshot: TaskSnapshot) {
      guard let question = snapshot.question else { return }
      let task = known(snapshot)
      let isNew = task.fields.withLock { fields in
        defer { fields.askedQuestion = question.number }
        return fields.askedQuestion != question.number
      }
      // The first asking is in the delegate's hands, or its answer is on its way.
      guard isNew else { return }
      post(task) { owner, delegates in
        switch question.kind {
        case "challenge": self.challenge(task, snapshot, question, owner, delegates)
        case "delayedRequest": self.beginDelayed(task, snapshot, question, owner, delegates)
        // Apple's interface has no word for it.
        default: self.answer(task, question, "proceed")
        }
      }
    }

    private func answer(
      _ task: URLSessionTask, _ question: WireQuestion, _ word: String,
      _ fill: (inout TaskAnswerParameters) -> Void = { _ in }
    ) {
      guard let id = task.fields.withLock({ $0.id }) else { return }
      var parameters = TaskAnswerParameters(id: id, question: question.number, answer: word)
      fill(&parameters)
      send(.taskAnswer(parameters))
    }

    // MARK: Delayed requests

    private func beginDelayed(
      _ task: URLSessionTask, _ snapshot: TaskSnapshot, _ question: WireQuestion, _ owner: URLSession,
      _ delegates: Delegates
    ) {
      guard let delegate = delegates.task, let request = task.currentRequest ?? task.originalRequest else {
        return answer(task, question, "proceed")
      }
      let once = Once()
      delegate.urlSession(owner, task: task, willBeginDelayedRequest: request) { disposition, replacement in
        guard once.isFirst() else { return }
        switch disposition {
        case .continueLoading: self.answer(task, question, "proceed")
        case .cancel: self.answer(task, question, "cancel")
        case .useNewRequest: self.useNewRequest(replacement ?? request, for: task, question)
        }
      }
    }

    /// What the original says of networks that may be used stays (NSURLSession.h); so do its method and body, which the
    /// daemon keeps since the task was made.
    private func useNewRequest(_ request: URLRequest, for task: URLSessionTask, _ question: WireQuestion) {
      guard let url = request.url else { return answer(task, question, "proceed") }
      if request.httpMethod != task.originalRequest?.httpMethod {
        Diagnostics.log("a delayed request keeps the method that its task was made with")
      }
      let headers = RequestTranslation.headers(of: request, url: url, configuration: configuration)
      task.fields.withLock { $0.currentRequest = request }
      answer(task, question, "request") {
        $0.url = url.absoluteString
        $0.headers = headers
        $0.replacesHeaders = true
      }
    }

    // MARK: Challenges

    private func challenge(
      _ task: URLSessionTask, _ snapshot: TaskSnapshot, _ question: WireQuestion, _ owner: URLSession,
      _ delegates: Delegates
    ) {
      guard let space = ChallengeTranslation.space(of: question) else { return answer(task, question, "proceed") }
      let challenge = URLAuthenticationChallenge(
        protectionSpace: space, proposedCredential: proposedCredential(for: space),
        previousFailureCount: question.previousFailures ?? 0,
        failureResponse: snapshot.response.flatMap(RequestTranslation.response), error: nil,
        sender: ChallengeSender())
      let once = Once()
      let answer: @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void = { disposition, credential in
        if once.isFirst() { self.settle(disposition, credential, space, task, question) }
      }
      switch question.method {
      case "negotiate", "ntlm", "clientCertificate", "serverTrust":
        guard let delegate = delegates.session else { return answer(.performDefaultHandling, nil) }
        delegate.urlSession(owner, didReceive: challenge, completionHandler: answer)
      default:
        guard let delegate = delegates.task else { return answer(.performDefaultHandling, nil) }
        delegate.urlSession(owner, task: task, didReceive: challenge, completionHandler: answer)
      }
    }

    private func proposedCredential(for space: URLProtectionSpace) -> URLCredential? {
      guard let storage = configuration.urlCredentialStorage else { return nil }
      return ChallengeTranslation.known(space, in: storage).flatMap { storage.defaultCredential(for: $0) }
    }

    private func settle(
      _ disposition: URLSession.AuthChallengeDisposition, _ credential: URLCredential?, _ space: URLProtectionSpace,
      _ task: URLSessionTask, _ question: WireQuestion
    ) {
      switch disposition {
      case .useCredential:
        guard let credential else { return answer(task, question, "proceed") }
        keep(credential, for: space)
        use(credential, for: task, question)
      case .performDefaultHandling:
        // One that was refused is not offered again.
        guard question.previousFailures ?? 0 == 0, let credential = proposedCredential(for: space) else {
          return answer(task, question, "proceed")
        }
        use(credential, for: task, question)
      case .rejectProtectionSpace: answer(task, question, "proceed")
      case .cancelAuthenticationChallenge:
        task.fields.withLock { $0.isCanceling = true }
        answer(task, question, "cancel")
      }
    }

    private func keep(_ credential: URLCredential, for space: URLProtectionSpace) {
      guard credential.persistence != .none, let storage = configuration.urlCredentialStorage else { return }
      storage.setDefaultCredential(credential, for: ChallengeTranslation.known(space, in: storage) ?? space)
    }

    private func use(_ credential: URLCredential, for task: URLSessionTask, _ question: WireQuestion) {
      guard let user = credential.user, let password = credential.password else {
        Diagnostics.log("only credentials of a user and a password can be used; the challenge takes its default")
        return answer(task, question, "proceed")
      }
      switch question.method {
      case "basic", "digest": break
      case "unknown" where question.isProxy == true: break
      case "bearer":
        // Apple's interface has no token; the password is taken for one.
        return answer(task, question, "request") {
          $0.headers = [WireHeader(name: "Authorization", value: "Bearer \(password)")]
        }
      default:
        Diagnostics.log("a \(question.method ?? "") challenge cannot be answered by a user and a password here")
        return answer(task, question, "proceed")
      }
      answer(task, question, "credential") { $0.credential = WireCredential(user: user, password: password) }
    }
  }

  /// `URLAuthenticationChallenge` wants one; challenges of URLSession are answered by their handler, as Apple says.
  private final class ChallengeSender: NSObject, URLAuthenticationChallengeSender {
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

    /// The protection space of a challenge; nil for an origin that cannot be read.
    static func space(of question: WireQuestion) -> URLProtectionSpace? {
      guard let origin = question.origin.flatMap(URL.init(string:)), let host = origin.host else { return nil }
      let scheme = origin.scheme ?? "http"
      let port = origin.port ?? (scheme == "https" ? 443 : 80)
      // The last two stand as texts: FoundationNetworking withholds their names.
      let method =
        switch question.method {
        case "basic": NSURLAuthenticationMethodHTTPBasic
        case "digest": NSURLAuthenticationMethodHTTPDigest
        case "negotiate": NSURLAuthenticationMethodNegotiate
        case "ntlm": NSURLAuthenticationMethodNTLM
        case "clientCertificate": "NSURLAuthenticationMethodClientCertificate"
        case "serverTrust": "NSURLAuthenticationMethodServerTrust"
        default: NSURLAuthenticationMethodDefault
        }
      if question.isProxy == true {
        return URLProtectionSpace(
          proxyHost: host, port: port, type: scheme, realm: question.realm, authenticationMethod: method)
      }
      return URLProtectionSpace(
        host: host, port: port, protocol: scheme, realm: question.realm, authenticationMethod: method)
    }

    /// The configuration's versions of TLS. There is none above 1.3 that a maximum of 1.3 would forbid.
    static func apply(_ configuration: URLSessionConfiguration, to network: inout WireNetwork) {
      var tls = network.tls ?? WireTLS()
      tls.minimum = version(configuration.tlsMinimumSupportedProtocolVersion)
      let maximum = configuration.tlsMaximumSupportedProtocolVersion
      tls.maximum = maximum == .TLSv13 ? nil : version(maximum)
      network.tls = tls
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
