import Foundation
import Glibc
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

@testable import BackgroundURLSession

/// A delegate as it is written on Apple's systems: it looks at the server's certificates and decides.
final class TrustDecider: NSObject, URLSessionDownloadDelegate, Sendable {
  typealias Decision =
    @Sendable (_ trust: SecTrust, _ asked: Int) -> (
      URLSession.AuthChallengeDisposition, URLCredential?
    )

  enum Message: Sendable {
    case asked(leaf: Data, host: String, port: Int, failures: Int)
    case file(Data)
    case complete(status: Int?, error: URLError?)
  }

  let messages: AsyncStream<Message>
  private let continuation: AsyncStream<Message>.Continuation
  private let decision: Decision
  private let identity: SecIdentity?
  private let count = Mutex(0)
  let wishes = Mutex(0)
  var asked: Int { count.withLock { $0 } }

  init(identity: SecIdentity? = nil, _ decision: @escaping Decision) {
    (messages, continuation) = AsyncStream.makeStream()
    self.decision = decision
    self.identity = identity
  }

  static func accepting() -> TrustDecider {
    TrustDecider { trust, _ in (.useCredential, URLCredential(trust: trust)) }
  }

  func all() async -> [Message] {
    var all: [Message] = []
    for await message in messages {
      all.append(message)
      if case .complete = message { break }
    }
    return all
  }

  func urlSession(
    _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    let space = challenge.protectionSpace
    if space.authenticationMethod == NSURLAuthenticationMethodClientCertificate {
      wishes.withLock { $0 += 1 }
      guard let identity, challenge.previousFailureCount == 0 else {
        return completionHandler(.performDefaultHandling, nil)
      }
      return completionHandler(
        .useCredential, URLCredential(identity: identity, certificates: nil, persistence: .forSession))
    }
    guard space.authenticationMethod == NSURLAuthenticationMethodServerTrust, let trust = space.serverTrust,
      let chain = SecTrustCopyCertificateChain(trust) as? [SecCertificate], let leaf = chain.first
    else { return completionHandler(.performDefaultHandling, nil) }
    continuation.yield(
      .asked(
        leaf: SecCertificateCopyData(leaf) as Data, host: space.host, port: space.port,
        failures: challenge.previousFailureCount))
    let number = count.withLock { count in
      count += 1
      return count
    }
    let (disposition, credential) = decision(trust, number)
    completionHandler(disposition, credential)
  }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    continuation.yield(.file((try? Data(contentsOf: location)) ?? Data()))
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let status = (task.response as? HTTPURLResponse)?.statusCode
    continuation.yield(.complete(status: status, error: error as? URLError))
  }
}

extension [TrustDecider.Message] {
  var leaves: [Data] { compactMap { if case .asked(let leaf, _, _, _) = $0 { leaf } else { nil } } }
  var ports: [Int] { compactMap { if case .asked(_, _, let port, _) = $0 { port } else { nil } } }
  var file: Data? { compactMap { if case .file(let data) = $0 { data } else { nil } }.first }
  var end: (status: Int?, error: URLError?)? {
    if case .complete(let status, let error)? = last { (status, error) } else { nil }
  }
}

/// Which of the two homes carries a session's tasks out.
enum TrustHome: CaseIterable, Sendable { case ordinary, background }

/// A site, a daemon where one is needed, and sessions of either kind.
final class TrustScene {
  let server: LocalServer
  let site: SecureServer
  let daemon: DaemonHome?
  private(set) var process: SessionRegistry?
  private var sessions: [URLSession] = []
  private let home: TrustHome

  init(
    _ home: TrustHome, trustsAuthority: Bool = false,
    _ respond: @escaping @Sendable (Request) -> Response = { _ in .text("content") }
  ) async throws {
    self.home = home
    server = try LocalServer.start(handler: respond)
    site = try await SecureServer(before: server)
    try site.show("self")
    daemon = home == .background ? try DaemonHome(trusting: trustsAuthority ? site.authority : nil) : nil
    process = daemon?.newProcess()
  }

  /// Not left to `deinit`: what holds the scene longer than its test would keep its processes.
  func stop() {
    for session in sessions { session.invalidateAndCancel() }
    process?.endProcess()
    daemon?.stop()
    site.stop()
    server.stop()
  }

  /// Ends the process, as a daemon sees it, and begins the next one.
  func nextProcess() {
    process?.endProcess()
    process = daemon?.newProcess()
  }

  func session(
    _ delegate: any URLSessionDelegate, _ name: String = "trust",
    _ change: (URLSessionConfiguration) -> Void = { _ in }
  ) -> URLSession {
    let configuration: URLSessionConfiguration = process == nil ? .ephemeral : .background(withIdentifier: name)
    configuration.connectionProxyDictionary = [:]
    change(configuration)
    let session = URLSession(
      configuration: configuration, delegate: delegate, delegateQueue: nil, registry: process ?? .shared)
    sessions.append(session)
    return session
  }

  /// Downloads, and tells all that the delegate heard.
  func download(
    _ path: String = "file", _ delegate: TrustDecider, _ name: String = "trust",
    _ change: (inout URLRequest) -> Void = { _ in }
  ) async throws -> [TrustDecider.Message] {
    var request = URLRequest(url: try #require(URL(string: site.url + path)))
    change(&request)
    session(delegate, name).downloadTask(with: request).resume()
    return await delegate.all()
  }
}

@Suite(
  "A server that nobody vouches for", .serialized, .timeLimit(.minutes(2)),
  .enabled(if: SecureServer.program != nil, "nginx is not installed; scripts/test installs it"))
struct ServerTrustTests {
  @Test(
    "whose certificate is the bundled one is accepted, and nothing is sent to it before",
    arguments: TrustHome.allCases)
  func acceptedByItsBytes(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    let bundled = try scene.site.der("self")
    let decider = TrustDecider { [server = scene.server] trust, _ in
      var error: CFError?
      let isTrusted = unsafe SecTrustEvaluateWithError(trust, &error)
      #expect(!isTrusted && error?.code == Int(errSecNotTrusted))
      #expect(server.requestCount == 0)
      let leaf = (SecTrustCopyCertificateChain(trust) as? [SecCertificate])?.first
      guard leaf.map(SecCertificateCopyData) == bundled else { return (.cancelAuthenticationChallenge, nil) }
      return (.useCredential, URLCredential(trust: trust))
    }
    let messages = try await scene.download("file", decider)
    #expect(messages.leaves == [bundled] && messages.ports == [Int(scene.site.port)])
    #expect(messages.file == Data("content".utf8))
    #expect(messages.end?.status == 200 && messages.end?.error == nil)
    #expect(scene.server.requestCount == 1)
  }

  @Test("is trusted by a bundled authority", arguments: TrustHome.allCases)
  func acceptedByAnAuthority(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    try scene.site.show("server")
    let authority = try #require(SecCertificateCreateWithData(nil, try scene.site.der("ca") as CFData))
    let decider = TrustDecider { trust, _ in
      let isTrusted = SecTrustEvaluateWithError(trust, nil)
      #expect(!isTrusted)
      guard SecTrustSetAnchorCertificates(trust, [authority] as CFArray) == errSecSuccess,
        SecTrustSetAnchorCertificatesOnly(trust, true) == errSecSuccess, SecTrustEvaluateWithError(trust, nil)
      else { return (.cancelAuthenticationChallenge, nil) }
      return (.useCredential, URLCredential(trust: trust))
    }
    let messages = try await scene.download("file", decider)
    #expect(messages.file == Data("content".utf8) && decider.asked == 1)
  }

  @Test("is accepted under another name than its own", arguments: TrustHome.allCases)
  func anotherName(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    let decider = TrustDecider.accepting()
    scene.session(decider).downloadTask(
      with: try #require(URL(string: "https://127.0.0.1:\(scene.site.port)/file"))
    ).resume()
    let messages = await decider.all()
    #expect(messages.file == Data("content".utf8) && decider.asked == 1)
  }

  @Test("fails where the default is taken, and is sent nothing", arguments: TrustHome.allCases)
  func refused(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    // Another server's trust, and a password, say nothing about this one.
    let strange = Mutex<SecTrust?>(nil)
    _ = try await scene.download(
      "file",
      TrustDecider { trust, _ in
        strange.withLock { $0 = trust }
        return (.performDefaultHandling, nil)
      }, "first")
    try scene.site.show("other")
    let answers: [TrustDecider.Decision] = [
      { _, _ in (.performDefaultHandling, nil) }, { _, _ in (.rejectProtectionSpace, nil) },
      { _, _ in (.useCredential, nil) },
      { _, _ in (.useCredential, URLCredential(user: "a", password: "b", persistence: .none)) },
      { [trust = strange.withLock { $0 }] _, _ in (.useCredential, trust.map { URLCredential(trust: $0) }) },
    ]
    for (number, answer) in answers.enumerated() {
      let messages = try await scene.download("file", TrustDecider(answer), "second \(number)")
      #expect(messages.end?.error?.code == .serverCertificateUntrusted, "\(messages)")
      #expect(messages.leaves.count == 1)
    }
    let cancelled = try await scene.download(
      "file", TrustDecider { _, _ in (.cancelAuthenticationChallenge, nil) }, "third")
    #expect(cancelled.end?.error?.code == .cancelled)
    #expect(scene.server.requestCount == 0)
  }

  @Test("that shows another certificate when it is called again is asked about anew", arguments: TrustHome.allCases)
  func exchanged(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    let decider = TrustDecider { [site = scene.site] trust, asked in
      if asked == 1 { try? site.show("other") }
      return asked < 3 ? (.useCredential, URLCredential(trust: trust)) : (.performDefaultHandling, nil)
    }
    let messages = try await scene.download("file", decider)
    #expect(messages.leaves == [try scene.site.der("self"), try scene.site.der("other")])
    #expect(messages.file == Data("content".utf8))
    #expect(scene.server.requestCount == 1)
    // Nothing of the first one's connections can be of use here.
    try scene.site.show("server")
    let next = try await scene.download(
      "file",
      TrustDecider { [site = scene.site] trust, asked in
        if asked == 1 { try? site.show("self") }
        return asked == 1 ? (.useCredential, URLCredential(trust: trust)) : (.performDefaultHandling, nil)
      }, "again")
    #expect(next.end?.error?.code == .serverCertificateUntrusted && next.leaves.count == 2)
    #expect(scene.server.requestCount == 1)
  }

  @Test(
    "leads to another port, which is asked about by itself and is shown no credentials",
    arguments: TrustHome.allCases)
  func redirected(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    let change: (inout URLRequest) -> Void = { $0.setValue("Bearer secret", forHTTPHeaderField: "Authorization") }
    let messages = try await scene.download("away", TrustDecider.accepting(), "both", change)
    #expect(messages.ports == [Int(scene.site.port), Int(scene.site.otherPort)])
    #expect(messages.leaves == [try scene.site.der("self"), try scene.site.der("other")])
    #expect(messages.file == Data("content".utf8))
    #expect(scene.server.requests.map { $0.headers["Authorization"] } == [nil])
    // Who shows there what was accepted here is a stranger all the same: the word was for one place.
    let first = try await scene.download(
      "away",
      TrustDecider { trust, asked in
        asked == 1 ? (.useCredential, URLCredential(trust: trust)) : (.performDefaultHandling, nil)
      }, "one")
    #expect(first.end?.error?.code == .serverCertificateUntrusted)
    #expect(scene.server.requestCount == 1)
  }

  @Test("is accepted for the task that asked, whose connection no other may use", arguments: TrustHome.allCases)
  func notForOthers(home: TrustHome) async throws {
    let gate = Gate()
    let scene = try await TrustScene(home) { request in
      request.path == "/slow"
        ? .generated(length: 300_000).stall(afterBytes: 100_000, until: gate) : .text("content")
    }
    defer { scene.stop() }
    let accepting = TrustDecider.accepting()
    let slow = scene.session(accepting, "accepting")
    slow.downloadTask(with: try #require(URL(string: scene.site.url + "slow"))).resume()
    #expect(await EndToEndTests.blocking { gate.waitForWaiters() })
    // HTTP/2, so that the connection would take another request at once.
    let other = TrustDecider { _, _ in (.performDefaultHandling, nil) }
    #expect(try await scene.download("file", other, "other").end?.error?.code == .serverCertificateUntrusted)
    #expect(other.asked == 1 && scene.server.requestCount == 1)
    // Also of the same session.
    slow.downloadTask(with: try #require(URL(string: scene.site.url + "file"))).resume()
    let server = scene.server
    #expect(await EndToEndTests.blocking { ChallengeTests.wait { server.requestCount == 2 } })
    #expect(accepting.asked == 2)
    gate.open()
    _ = await accepting.all()
  }

  @Test(
    "wants a certificate of the client, and is shown it", arguments: TrustHome.allCases, ["client.pem", "client.p12"])
  func clientCertificate(home: TrustHome, file: String) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    let password = file.hasSuffix(".p12") ? "bundle" : nil
    let identity = SecIdentity(contentsOf: URL(fileURLWithPath: scene.site.path(file)), password: password)
    let decider = TrustDecider(identity: identity) { trust, _ in (.useCredential, URLCredential(trust: trust)) }
    let url = try #require(URL(string: "https://localhost:\(scene.site.clientPort)/file"))
    scene.session(decider, "shown").downloadTask(with: url).resume()
    let messages = await decider.all()
    #expect(messages.file == Data("content".utf8) && messages.end?.status == 200, "\(messages)")
    #expect(decider.asked == 1 && decider.wishes.withLock { $0 } == 1)
    // nginx goes on without, and says what is missing.
    let bare = TrustDecider.accepting()
    scene.session(bare, "bare").downloadTask(with: url).resume()
    #expect(await bare.all().end?.status == 400)
    #expect(bare.wishes.withLock { $0 } == 1 && scene.server.requestCount == 1)
    guard let folder = scene.daemon?.folder else { return }
    let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
    let key = try String(contentsOfFile: scene.site.path("client.key"), encoding: .utf8).split(separator: "\n")[1]
    for case let file as URL in files {
      let content = (try? Data(contentsOf: file)) ?? Data()
      #expect(content.range(of: Data(key.utf8)) == nil, "\(file)")
    }
  }

  @Test("is not there: the authorities vouch for it, and the delegate pins another certificate all the same")
  func pinnedInCode() async throws {
    let scene = try await TrustScene(.ordinary)
    defer { scene.stop() }
    try scene.site.show("server")
    await #expect(processExitsWith: .success) {
      [address = scene.site.url as String, authority = scene.site.authority as String] in
      try await ServerTrustTests.pinInCode(try #require(URL(string: address)), authority)
    }
    #expect(scene.server.requestCount == 8)
  }

  /// Programs that pin, in a process whose authorities vouch for the server.
  static func pinInCode(_ address: URL, _ authority: String) async throws {
    unsafe setenv("SSL_CERT_FILE", authority, 1)
    func ask(_ asked: URLSession) async -> Data? {
      let result = try? await asked.data(from: address, delegate: nil)
      return result?.0
    }
    func session(_ delegate: any URLSessionDelegate) -> URLSession {
      let configuration = URLSessionConfiguration.ephemeral
      configuration.connectionProxyDictionary = [:]
      return URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
    }
    for refusal in [URLSession.AuthChallengeDisposition.cancelAuthenticationChallenge, .rejectProtectionSpace] {
      let refusing = TrustDecider { trust, _ in
        let isTrusted = SecTrustEvaluateWithError(trust, nil)
        #expect(isTrusted)
        return (refusal, nil)
      }
      let refused = await ask(session(refusing))
      #expect(refused == nil && refusing.asked == 1)
    }
    for disposition in [URLSession.AuthChallengeDisposition.useCredential, .performDefaultHandling] {
      let pinning = TrustDecider { trust, _ in (disposition, URLCredential(trust: trust)) }
      let one = session(pinning)
      for _ in 0..<3 {
        let content = await ask(one)
        #expect(content == Data("content".utf8))
      }
      #expect(pinning.asked == 1)
    }
    // A class without the method is asked nothing, and hinders nothing.
    final class Silent: NSObject, URLSessionDataDelegate, Sendable {}
    for _ in 0..<2 {
      let content = await ask(session(Silent()))
      #expect(content == Data("content".utf8))
    }
    #expect(!ServerAcquaintance.isAsked(Silent()))
  }

  @Test("is asked about in a background session that wants to see every server")
  func everyServerInTheBackground() async throws {
    let scene = try await TrustScene(.background, trustsAuthority: true)
    defer { scene.stop() }
    try scene.site.show("server")
    let refusing = TrustDecider { _, _ in (.cancelAuthenticationChallenge, nil) }
    let url = try #require(URL(string: scene.site.url + "file"))
    scene.session(refusing, "refusing") { $0.challengesEveryServer = true }.downloadTask(with: url).resume()
    #expect(await refusing.all().end?.error?.code == .cancelled)
    #expect(refusing.asked == 1 && scene.server.requestCount == 0)
    let other = TrustDecider { trust, _ in
      let isTrusted = SecTrustEvaluateWithError(trust, nil)
      return (isTrusted ? .useCredential : .performDefaultHandling, URLCredential(trust: trust))
    }
    scene.session(other, "other") { $0.challengesEveryServer = true }.downloadTask(with: url).resume()
    #expect(await other.all().file == Data("content".utf8))
    #expect(other.asked == 1 && scene.server.requestCount == 1)
    // Without it the authorities are enough.
    let unasked = try await scene.download("file", TrustDecider.accepting(), "unasked")
    #expect(unasked.file == Data("content".utf8) && unasked.leaves.isEmpty)
  }

  @Test("has an authority that the session trusts", arguments: TrustHome.allCases)
  func trustedAuthorities(home: TrustHome) async throws {
    let scene = try await TrustScene(home)
    defer { scene.stop() }
    try scene.site.show("server")
    let decider = TrustDecider { trust, _ in
      let isTrusted = SecTrustEvaluateWithError(trust, nil)
      #expect(isTrusted)
      return (.performDefaultHandling, nil)
    }
    let authority = URL(fileURLWithPath: scene.site.authority)
    let url = try #require(URL(string: scene.site.url + "file"))
    scene.session(decider) { $0.trustedAuthorities = authority }.downloadTask(with: url).resume()
    #expect(await decider.all().file == Data("content".utf8))
    // An ordinary session shows its delegate every server.
    #expect(decider.asked == (home == .ordinary ? 1 : 0))
    let other = try #require(URL(string: "https://localhost:\(scene.site.otherPort)/file"))
    let stranger = TrustDecider { _, _ in (.performDefaultHandling, nil) }
    scene.session(stranger, "stranger") { $0.trustedAuthorities = authority }.downloadTask(with: other).resume()
    #expect(await stranger.all().end?.error?.code == .serverCertificateUntrusted)
    #expect(scene.server.requestCount == 1)
  }

  /// Hands its challenges on, as delegates do that watch another.
  private final class Forwarder: NSObject, URLSessionDataDelegate, Sendable {
    private let inner: any URLSessionDelegate
    init(_ inner: any URLSessionDelegate) { self.inner = inner }
    func urlSession(
      _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
      completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
    ) {
      inner.urlSession(session, didReceive: challenge, completionHandler: completionHandler)
    }
  }

  @Test("is seen by a delegate that hands its challenges on, though another of its class had nobody to ask")
  func handedOn() async throws {
    final class Bare: NSObject, URLSessionDelegate, Sendable {}
    let scene = try await TrustScene(.ordinary)
    defer { scene.stop() }
    try scene.site.show("server")
    let url = try #require(URL(string: scene.site.url + "file"))
    let authority = URL(fileURLWithPath: scene.site.authority)
    let first = scene.session(Forwarder(Bare())) { $0.trustedAuthorities = authority }
    #expect(try await first.data(from: url, delegate: nil).0 == Data("content".utf8))
    let refusing = TrustDecider { _, _ in (.cancelAuthenticationChallenge, nil) }
    let second = scene.session(Forwarder(refusing)) { $0.trustedAuthorities = authority }
    await #expect(throws: (any Error).self) { try await second.data(from: url, delegate: nil) }
    #expect(refusing.asked == 1 && scene.server.requestCount == 1)
  }

  @Test("is sent a stream that cannot begin again, though it was looked at first")
  func streamed() async throws {
    final class Streaming: NSObject, URLSessionDataDelegate, Sendable {}
    let scene = try await TrustScene(.ordinary)
    defer { scene.stop() }
    try scene.site.show("server")
    var request = URLRequest(url: try #require(URL(string: scene.site.url + "file")))
    request.httpMethod = "POST"
    request.httpBodyStream = InputStream(data: Data("streamed".utf8))
    let session = scene.session(Streaming()) {
      $0.trustedAuthorities = URL(fileURLWithPath: scene.site.authority)
    }
    #expect(try await session.data(for: request, delegate: nil).0 == Data("content".utf8))
    #expect(scene.server.requestCount == 1)
  }

  @Test("has the keys that Info.plist expects, or none that would do")
  func pinnedDomains() {
    let pin = Data(repeating: 7, count: 32).base64EncodedString()
    let leaf: [String: Any] = ["NSPinnedLeafIdentities": [["SPKI-SHA256-BASE64": pin]]]
    let domains = PinnedDomains.read([
      "a.test": leaf, "b.test": leaf.merging(["NSIncludesSubdomains": true]) { $1 },
      "c.test": leaf.merging(["NSPinnedCAIdentities": [["SPKI-SHA256-BASE64": pin]]]) { $1 },
      "d.test": ["NSPinnedLeafIdentities": [["SPKI-SHA256-BASE64": "short"]]], "e.test": [String: Any](),
      "f.test": "nonsense", "G.test.": leaf, "*.i.test": leaf,
      "j.test": leaf.merging(["NSIncludesSubdomains": "YES"]) { $1 },
    ]).sorted { $0.domain < $1.domain }
    #expect(
      domains.map(\.domain) == [
        "a.test", "b.test", "c.test", "d.test", "e.test", "f.test", "g.test", "i.test", "j.test",
      ])
    #expect(
      domains.map(\.includesSubdomains) == [false, true, false, false, false, false, false, true, true])
    let kept = ["sha256//\(pin)"]
    #expect(domains.map(\.keys) == [kept, kept, [], [], [], [], kept, [], []])
  }

  @Test("is accepted once: a daemon that was killed knows it, and asks nobody")
  func survivesTheDaemon() async throws {
    let gate = Gate()
    let scene = try await TrustScene(.background) { request in
      let content = Response.generated(length: 300_000).etag("\"a\"")
      return request.headers["Range"] == nil ? content.stall(afterBytes: 200_000, until: gate) : content
    }
    defer { scene.stop() }
    let decider = TrustDecider.accepting()
    scene.session(decider).downloadTask(with: try #require(URL(string: scene.site.url + "file"))).resume()
    #expect(await EndToEndTests.blocking { gate.waitForWaiters() })
    scene.daemon?.killDaemon()
    gate.open()
    let messages = await decider.all()
    #expect(messages.file?.count == 300_000 && decider.asked == 1)
    #expect(scene.server.requestCount == 2)
  }

  @Test("is asked about by the next process, with its certificates, where none was there")
  func unattended() async throws {
    let scene = try await TrustScene(.background)
    defer { scene.stop() }
    let silent = TrustDecider { _, _ in (.performDefaultHandling, nil) }
    // Suspended: nothing is asked while this process is there.
    let task = scene.session(silent).downloadTask(with: try #require(URL(string: scene.site.url + "file")))
    task.earliestBeginDate = Date().addingTimeInterval(0.2)
    task.resume()
    let home = try #require(scene.daemon)
    scene.process?.endProcess()
    #expect(await EndToEndTests.blocking { ChallengeTests.wait { ChallengeTests.states(home) == ["asking"] } })
    home.killDaemon()
    let decider = TrustDecider.accepting()
    scene.nextProcess()
    _ = scene.session(decider)
    let messages = await decider.all()
    #expect(messages.leaves == [try scene.site.der("self")])
    #expect(messages.file == Data("content".utf8))
  }
}
