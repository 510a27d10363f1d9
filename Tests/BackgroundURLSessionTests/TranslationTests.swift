import Foundation
import Testing
import TransferCore
import WireProtocol

@testable import BackgroundURLSession

@Suite("From the daemon's failures to URLError")
struct FailureTranslationTests {
  static let expected: [(FailureCode, URLError.Code)] = [
    (.hostNotFound, .cannotFindHost), (.connectionRefused, .cannotConnectToHost),
    (.connectionLost, .networkConnectionLost), (.timedOut, .timedOut), (.resourceTimedOut, .timedOut),
    (.networkUnavailable, .notConnectedToInternet), (.secureConnectionFailed, .secureConnectionFailed),
    (.certificateUntrusted, .serverCertificateUntrusted), (.proxyFailed, .cannotConnectToHost),
    (.httpStatus, .badServerResponse), (.tooManyRedirects, .httpTooManyRedirects),
    (.redirectForbidden, .redirectToNonExistentLocation), (.badServerResponse, .badServerResponse),
    (.credentialsRequired, .userAuthenticationRequired), (.lengthMismatch, .networkConnectionLost),
    (.digestMismatch, .cannotDecodeRawData), (.contentDecodingFailed, .cannotDecodeContentData),
    (.rangeUnsatisfiable, .badServerResponse), (.bodyTooLarge, .dataLengthExceedsMaximum),
    (.noSpace, .cannotWriteToFile), (.fileWriteFailed, .cannotWriteToFile), (.fileExists, .cannotCreateFile),
    (.destinationUnavailable, .cannotCreateFile), (.fileReadFailed, .cannotOpenFile),
    (.partFileLost, .networkConnectionLost), (.sourceMissing, .fileDoesNotExist),
    (.sourceChanged, .requestBodyStreamExhausted), (.sourceUnreadable, .noPermissionsToReadFile),
    (.outcomeUnknown, .networkConnectionLost), (.sessionDisconnected, .backgroundSessionWasDisconnected),
    (.recordUnreadable, .unknown), (.unsupportedURL, .unsupportedURL), (.invalidRequest, .badURL),
    (.internalFault, .unknown), (.pinnedKeyMismatch, .serverCertificateUntrusted),
    (.clientCertificateRequired, .clientCertificateRequired), (.clientCertificateRejected, .clientCertificateRejected),
    (.clientCertificateUnusable, .clientCertificateRejected), (.proxyCredentialsRequired, .userAuthenticationRequired),
  ]

  @Test("each code has its own row")
  func table() {
    #expect(Set(Self.expected.map(\.0)) == Set(FailureCode.allCases))
    for (code, urlError) in Self.expected { #expect(FailureTranslation.urlErrorCode(of: code) == urlError) }
  }

  @Test("a code of a newer daemon is unknown, and its words are kept")
  func newerDaemon() {
    let task = ScriptedDaemon.snapshot(state: "failed") {
      $0.error = WireFailure(code: "quotaGone", isTransient: false, domain: "", number: 0, detail: "the quota is gone")
      $0.currentURL = "http://other.test/"
    }
    let error = FailureTranslation.error(of: task)
    #expect(error?.code == .unknown)
    #expect(error?.localizedDescription == "the quota is gone")
    #expect(error?.failingURL?.absoluteString == "http://other.test/")
  }

  @Test("success has no error; a failure without words has one")
  func ends() {
    #expect(FailureTranslation.error(of: ScriptedDaemon.snapshot(state: "succeeded")) == nil)
    #expect(FailureTranslation.error(of: ScriptedDaemon.snapshot(state: "failed"))?.code == .unknown)
    #expect(FailureTranslation.error(of: ScriptedDaemon.snapshot(state: "cancelled"))?.code == .cancelled)
    var quit = ScriptedDaemon.snapshot(state: "cancelled")
    quit.cancelCause = "forceQuit"
    let error = FailureTranslation.error(of: quit)
    #expect(error?.code == .cancelled)
    #expect(error?.backgroundTaskCancelledReason == .userForceQuitApplication)
    #expect(error?.userInfo[NSURLErrorBackgroundTaskCancelledReasonKey] as? Int == 0)
    quit.cancelCause = "requested"
    #expect(FailureTranslation.error(of: quit)?.backgroundTaskCancelledReason == nil)
  }

  @Test("the accessors of resume data and reasons read their keys")
  func accessors() {
    let error = URLError(
      .cancelled,
      userInfo: [
        NSURLSessionDownloadTaskResumeData: Data([1]), NSURLErrorBackgroundTaskCancelledReasonKey: 0,
        NSURLErrorNetworkUnavailableReasonKey: 1,
      ])
    #expect(error.downloadTaskResumeData == Data([1]))
    #expect(error.uploadTaskResumeData == nil)
    #expect(error.backgroundTaskCancelledReason == .userForceQuitApplication)
    #expect(error.networkUnavailableReason == .expensive)
    #expect(URLError(.cancelled).backgroundTaskCancelledReason == nil)
  }
}

@Suite("Between URLRequest and the wire")
struct RequestTranslationTests {
  static let url = URL(string: "https://host.test/a?b=c")!

  static func configuration() -> URLSessionConfiguration {
    let configuration = URLSessionConfiguration.background(withIdentifier: "s")
    configuration.httpCookieStorage = nil
    return configuration
  }

  @Test("the request's headers win over the configuration's, whatever their case")
  func headers() {
    let configuration = Self.configuration()
    configuration.httpAdditionalHeaders = ["x-one": "configuration", "X-Two": 2]
    var request = URLRequest(url: Self.url)
    request.setValue("request", forHTTPHeaderField: "X-One")
    let lines = RequestTranslation.headers(of: request, url: Self.url, configuration: configuration)
    #expect(lines == [WireHeader(name: "X-One", value: "request"), WireHeader(name: "X-Two", value: "2")])
  }

  @Test("cookies of the configuration's storage are added at creation, unless somebody turned them off")
  func cookies() throws {
    let storage = try #require(URLSessionConfiguration.ephemeral.httpCookieStorage)
    let cookie = try #require(
      HTTPCookie(properties: [.domain: "host.test", .path: "/", .name: "k", .value: "v", .secure: "TRUE"]))
    storage.setCookie(cookie)
    let configuration = Self.configuration()
    configuration.httpCookieStorage = storage
    var request = URLRequest(url: Self.url)
    func lines() -> [WireHeader] {
      RequestTranslation.headers(of: request, url: Self.url, configuration: configuration)
    }
    #expect(lines() == [WireHeader(name: "Cookie", value: "k=v")])
    request.httpShouldHandleCookies = false
    #expect(lines().isEmpty)
    request.httpShouldHandleCookies = true
    configuration.httpShouldSetCookies = false
    #expect(lines().isEmpty)
  }

  @Test("a request may forbid a network that its configuration allows, and not the other way")
  func networks() throws {
    let configuration = Self.configuration()
    var request = URLRequest(url: Self.url)
    func requires() throws -> [String]? {
      try #require(
        RequestTranslation.specification(
          kind: "download", request: request, source: nil, configuration: configuration)
      ).requires
    }
    #expect(try requires() == nil)
    request.allowsExpensiveNetworkAccess = false
    #expect(!request.allowsExpensiveNetworkAccess && request.allowsConstrainedNetworkAccess)
    let copy = request
    #expect(!copy.allowsExpensiveNetworkAccess && copy.url == Self.url)
    #expect(try requires() == ["unmetered"])
    #expect(RequestTranslation.headers(of: request, url: Self.url, configuration: configuration).isEmpty)
    #expect(RequestTranslation.transfer(request).headers.fields.map(\.name) == ["Accept"])
    request.allowsExpensiveNetworkAccess = true
    request.allowsConstrainedNetworkAccess = false
    #expect(try requires() == ["unconstrained"])
    request = URLRequest(url: Self.url)
    request.allowsCellularAccess = false
    #expect(try requires() == ["unmetered"])
    request = URLRequest(url: Self.url)
    configuration.allowsExpensiveNetworkAccess = false
    configuration.allowsConstrainedNetworkAccess = false
    request.allowsExpensiveNetworkAccess = true
    #expect(try requires() == ["unmetered", "unconstrained"])
  }

  @Test("an ordinary session's request may use this machine itself, whatever is forbidden")
  func loopback() {
    let configuration = Self.configuration()
    var request = URLRequest(url: Self.url)
    func constraints(_ origin: String = "http://host.test:80") -> Constraints {
      RequestTranslation.constraints(of: request, under: configuration, to: origin)
    }
    #expect(constraints() == [])
    configuration.allowsCellularAccess = false
    #expect(constraints() == .unmetered)
    request.allowsConstrainedNetworkAccess = false
    #expect(constraints() == [.unmetered, .unconstrained])
    #expect(constraints("http://localhost:80") == [] && constraints("http://127.0.0.1:80") == [])
  }

  @Test("a transfer that was stopped for its conditions says which")
  func unavailability() {
    var task = TaskSnapshot(
      id: 1, session: "s", app: "a", sessionID: 1, number: 1, kind: "data", state: "failed", method: "GET",
      url: "https://host.test/", received: 1, sent: 0, attempts: 1, priority: 0.5, createdMilliseconds: 0)
    for (number, reason) in [(2, URLError.NetworkUnavailableReason.expensive), (4, .constrained), (8, nil)] {
      task.error = WireFailure(
        code: "networkUnavailable", isTransient: false, domain: "condition", number: number, detail: "x")
      let error = FailureTranslation.error(of: task)
      #expect(error?.code == .notConnectedToInternet)
      #expect(error?.networkUnavailableReason == reason)
      let local = TransferFailure(.networkUnavailable, .permanent, domain: "condition", number: number, detail: "x")
      #expect(FailureTranslation.error(of: local, url: nil, resumeData: nil).networkUnavailableReason == reason)
    }
  }

  @Test("times come from the request where it sets them, else from the configuration")
  func times() throws {
    let configuration = Self.configuration()
    configuration.timeoutIntervalForRequest = 7
    configuration.timeoutIntervalForResource = 70
    configuration.isDiscretionary = true
    var request = URLRequest(url: Self.url)
    func specification() throws -> WireTaskSpecification {
      try #require(
        RequestTranslation.specification(
          kind: "download", request: request, source: nil, configuration: configuration))
    }
    #expect(try specification().requestTimeoutSeconds == 7)
    #expect(try specification().resourceTimeoutSeconds == 70)
    #expect(try specification().isDiscretionary == true)
    #expect(try specification().addsIdempotencyKey == false)
    #expect(try specification().url == "https://host.test/a?b=c")
    request.timeoutInterval = 5
    request.setValue("Basic x", forHTTPHeaderField: "Proxy-Authorization")
    #expect(try specification().requestTimeoutSeconds == 5)
    #expect(try specification().secretHeaders == ["Proxy-Authorization"])
    #expect(try specification().key != specification().key)
    request.url = nil
    #expect(
      RequestTranslation.specification(kind: "data", request: request, source: nil, configuration: configuration)
        == nil)
  }

  @Test("response lines of one name are joined")
  func response() throws {
    let response = try #require(
      RequestTranslation.response(
        ScriptedDaemon.response(
          status: 206,
          headers: [
            WireHeader(name: "Vary", value: "a"), WireHeader(name: "vary", value: "b"),
            WireHeader(name: "ETag", value: "\"x\""),
          ])))
    #expect(response.statusCode == 206)
    #expect(response.value(forHTTPHeaderField: "vary") == "a, b")
    #expect(response.value(forHTTPHeaderField: "etag") == "\"x\"")
  }

  @Test("dates become milliseconds, and none of them ends the program")
  func dates() {
    #expect(RequestTranslation.milliseconds(of: Date(timeIntervalSince1970: 1.5)) == 1500)
    #expect(RequestTranslation.milliseconds(of: .distantPast) == 0)
    #expect(RequestTranslation.milliseconds(of: Date(timeIntervalSince1970: .infinity)) == 253_402_300_799_000)
    #expect(RequestTranslation.milliseconds(of: Date(timeIntervalSince1970: .nan)) >= 0)
  }

  @Test("a proxy dictionary replaces the environment's proxies")
  func proxies() {
    let configuration = Self.configuration()
    configuration.httpMaximumConnectionsPerHost = 2
    var network = WireNetwork(httpProxy: "http://environment:1", noProxy: "x")
    RequestTranslation.apply(configuration, to: &network)
    #expect(network == WireNetwork(httpProxy: "http://environment:1", noProxy: "x", maximumConnectionsPerHost: 2))
    configuration.connectionProxyDictionary = [
      "HTTPEnable": 1, "HTTPProxy": "p.test", "HTTPPort": 3128, "HTTPSEnable": false, "HTTPSProxy": "q.test",
      "ExceptionsList": ["a.test", "b.test"],
    ]
    RequestTranslation.apply(configuration, to: &network)
    #expect(
      network
        == WireNetwork(httpProxy: "http://p.test:3128", noProxy: "a.test,b.test", maximumConnectionsPerHost: 2))
  }
}

@Suite("A configuration")
struct ConfigurationTests {
  @Test("has Apple's defaults")
  func defaults() {
    let configuration = URLSessionConfiguration.background(withIdentifier: "s")
    #expect(configuration.identifier == "s")
    #expect(configuration.timeoutIntervalForRequest == 60)
    #expect(configuration.timeoutIntervalForResource == 604_800)
    #expect(configuration.httpMaximumConnectionsPerHost == 6)
    #expect(configuration.sessionSendsLaunchEvents)
    #expect(configuration.allowsCellularAccess && configuration.allowsExpensiveNetworkAccess)
    #expect(configuration.allowsConstrainedNetworkAccess && configuration.httpShouldSetCookies)
    #expect(!configuration.isDiscretionary && !configuration.waitsForConnectivity)
    #expect(configuration.urlCache == nil && configuration.sharedContainerIdentifier == nil)
    #expect(URLSessionConfiguration.default.identifier == nil)
    #expect(URLSessionConfiguration.ephemeral.httpCookieStorage !== HTTPCookieStorage.shared)
  }

  @Test("is copied by the session: later changes have no effect")
  func copies() throws {
    let stage = Stage()
    let configuration = URLSessionConfiguration.background(withIdentifier: "s")
    configuration.timeoutIntervalForRequest = 5
    configuration.httpCookieStorage = nil
    let session = URLSession(
      configuration: configuration, delegate: nil, delegateQueue: nil, registry: stage.registry)
    configuration.timeoutIntervalForRequest = 9
    #expect(session.configuration.timeoutIntervalForRequest == 5)
    #expect(session.configuration.httpCookieStorage == nil)
    session.configuration.timeoutIntervalForRequest = 11
    #expect(session.configuration.timeoutIntervalForRequest == 5)
    let copy = try #require(configuration.copy() as? URLSessionConfiguration)
    #expect(copy !== configuration && copy.timeoutIntervalForRequest == 9 && copy.identifier == "s")
  }
}
