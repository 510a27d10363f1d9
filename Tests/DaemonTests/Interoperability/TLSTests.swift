import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// TLS with nginx: whom the client trusts, what it shows, which versions it speaks.
@Suite(
  .serialized, .timeLimit(.minutes(5)),
  .enabled(if: RealServer.isInstalled, "nginx and openssl are not installed; scripts/test installs them"))
struct TLSTests {
  /// A server with a file, and what it was asked for.
  private final class Site {
    let server: WebServer
    var files: TestAuthority.Files { get throws { try #require(server.certificates) } }
    var url: String { server.url + "/file" }

    init(_ lines: String = "") throws {
      server = try WebServer(.nginx, .tls, lines: lines)
      try server.put("file", QuestionCases.content.allBytes)
    }

    deinit { server.end() }

    /// Lines of the access log.
    func accesses() throws -> [String] {
      try readText(server.folder + "/access.log").split(separator: "\n").map(String.init)
    }
  }

  private static func trusting(_ site: Site, answersChallenges: Bool = true) throws -> Scene {
    try Scene(
      network: WireNetwork(tls: WireTLS(authorityFile: try site.files.authority)), answersChallenges: answersChallenges)
  }

  // MARK: Trust

  @Test func aServerThatNobodyTrustsIsAskedAboutAndTheAuthorityGoesOn() throws {
    let site = try Site()
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(site.url)
    let question = try QuestionCases.asking(scene, id)
    #expect(question.method == "serverTrust" && question.origin == site.server.url)
    #expect(try site.accesses().isEmpty)
    // Another authority is no help.
    let stranger = try TestAuthority.make(in: try Self.folder(scene))
    try QuestionCases.answer(scene, id, "tls") { $0.tls = WireTLS(authorityFile: stranger.authority) }
    _ = try QuestionCases.asking(scene, id, failures: 1)
    #expect(try site.accesses().isEmpty)
    let authority = try site.files.authority
    try QuestionCases.answer(scene, id, "tls") { $0.tls = WireTLS(authorityFile: authority) }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try scene.bytes("result") == QuestionCases.content.allBytes)
  }

  @Test func aServerThatNobodyTrustsIsAcceptedByItsCertificate() throws {
    let site = try Site()
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(site.url)
    let question = try QuestionCases.asking(scene, id)
    let shown = try #require(question.certificate)
    let pin = try site.files.pin
    #expect(question.isVouched == false && question.key == pin)
    #expect(question.certificates?.isEmpty == false)
    let other = "sha256//" + String(repeating: "A", count: 43) + "="
    for wrong in [other, "sha256//x", nil] {
      #expect(throws: (any Error).self) {
        try QuestionCases.answer(scene, id, "trust") { $0.certificate = wrong }
      }
    }
    #expect(try site.accesses().isEmpty)
    try QuestionCases.answer(scene, id, "trust") { $0.certificate = shown }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    // It was this task's.
    _ = try QuestionCases.asking(scene, try scene.get(site.url, to: "again"))
    #expect(try site.accesses().count == 1)
  }

  /// A person compares what is shown, and says so at the terminal.
  @Test func aPersonAcceptsAServersCertificate() throws {
    let site = try Site()
    let home = try CommandHome()
    let fetching = try home.start(["get", "--ask", site.url])
    try eventually("the task is there", is: { try home.run("show", "1").code == 0 })
    try home.waitForTask(1, "a question") { $0.state == "asking" }
    let why = try home.run("why", "1")
    let shown = String(try #require(why.output.firstMatch(of: /--trust (sha256\/\/[^`]+)`/)).output.1)
    #expect(why.output.contains("`ferry answer 1 --cacert FILE`"), "\(why)")
    for wrong in ["", "sha256//x", "sha256//" + String(repeating: "A", count: 43) + "="] {
      let refused = try home.run("answer", "1", "--trust", wrong)
      #expect(refused.code != 0 && !refused.error.isEmpty, "\(refused)")
    }
    #expect(try home.run("answer", "1", "--trust", shown, "--proceed").code == 2)
    #expect(try site.accesses().isEmpty)
    #expect(try home.run("answer", "1", "--trust", shown).code == 0)
    let fetched = try fetching.finish()
    #expect(fetched.code == 0, "\(fetched)")
    #expect(try site.accesses().count == 1)
  }

  @Test(arguments: [true, false]) func aPinnedDomainHasItsKeyOrNothingIsSent(isRight: Bool) throws {
    let site = try Site()
    let pin = isRight ? try site.files.pin : "sha256//" + String(repeating: "A", count: 43) + "="
    let scene = try Scene(
      network: WireNetwork(
        tls: WireTLS(
          authorityFile: try site.files.authority, pinnedDomains: [WirePinnedDomain(domain: "localhost", keys: [pin])]))
    )
    let task = try scene.ended(try scene.get(site.url))
    #expect(task.error?.code == (isRight ? nil : "pinnedKeyMismatch"), "\(Scene.text(task))")
    #expect(try site.accesses().count == (isRight ? 1 : 0))
  }

  private static func folder(_ scene: Scene) throws -> String {
    let folder = scene.path("stranger")
    try Files.makePrivateDirectory(folder)
    return folder
  }

  @Test func trustThatIsNotGivenEndsTheTask() throws {
    let site = try Site()
    let scene = try Scene(answersChallenges: true)
    let id = try scene.get(site.url)
    _ = try QuestionCases.asking(scene, id)
    try QuestionCases.answer(scene, id, "proceed")
    let task = try scene.ended(id)
    #expect(task.error?.code == "certificateUntrusted", "\(Scene.text(task))")
    #expect(try site.accesses().isEmpty)
  }

  @Test(arguments: [true, false]) func aPinnedKeyIsTheServersOrNothingIsSent(isRight: Bool) throws {
    let site = try Site()
    let scene = try Self.trusting(site)
    let wrong = "sha256//" + String(repeating: "A", count: 43) + "="
    let pin = isRight ? try site.files.pin : wrong
    let task = try scene.ended(try scene.get(site.url) { $0.tls = WireTLS(pinnedKeys: [wrong, pin]) })
    #expect(task.state == (isRight ? "succeeded" : "failed"), "\(Scene.text(task))")
    #expect(task.error?.code == (isRight ? nil : "pinnedKeyMismatch"))
    #expect(try site.accesses().count == (isRight ? 1 : 0))
  }

  // MARK: Versions

  @Test(arguments: [
    // what the server speaks, what we do
    ("TLSv1.2", WireTLS(minimum: "1.3"), false), ("TLSv1.3", WireTLS(maximum: "1.2"), false),
    ("TLSv1.2", WireTLS(maximum: "1.2"), true), ("TLSv1.3", WireTLS(minimum: "1.3"), true),
    ("TLSv1.2 TLSv1.3", WireTLS(minimum: "1.2", maximum: "1.2"), true),
  ])
  func versionsOfTLSHaveBounds(spoken: String, given: WireTLS, fits: Bool) throws {
    let site = try Site("ssl_protocols \(spoken);")
    let scene = try Self.trusting(site)
    let task = try scene.ended(try scene.get(site.url) { $0.tls = given })
    #expect(task.state == (fits ? "succeeded" : "failed"), "\(Scene.text(task))")
    #expect(task.error?.code == (fits ? nil : "secureConnectionFailed"))
    #expect(task.attempts == 1)
  }

  // MARK: Certificates of ours

  private static let wantsCertificate = "ssl_verify_client on; ssl_client_certificate cert/ca.pem;"

  @Test(arguments: [false, true], ["TLSv1.2", "TLSv1.3"])
  func aClientCertificateIsShown(isLocked: Bool, version: String) throws {
    let site = try Site("\(Self.wantsCertificate) ssl_protocols \(version);")
    let scene = try Self.trusting(site)
    let files = try site.files
    let task = try scene.ended(
      try scene.get(site.url) {
        $0.tls = WireTLS(
          certificateFile: files.client, keyFile: isLocked ? files.clientKeyUnderPassword : files.clientKey,
          keyPassword: isLocked ? "key password" : nil)
      })
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    try eventually("the key's password is in no file") {
      try Tool.run("/bin/grep", ["-rlaF", "key password", scene.home]).output.isEmpty
    }
    // nginx itself says that there was none.
    let without = try scene.ended(try scene.get(site.url, to: "without"))
    #expect(without.error?.number == 400, "\(Scene.text(without))")
  }

  @Test func aWrongPasswordOfAKeyEndsTheTaskAndIsNotTold() throws {
    let site = try Site(Self.wantsCertificate)
    let scene = try Self.trusting(site)
    let files = try site.files
    let task = try scene.ended(
      try scene.get(site.url) {
        $0.tls = WireTLS(
          certificateFile: files.client, keyFile: files.clientKeyUnderPassword, keyPassword: SecretCases.secret)
      })
    #expect(task.error?.code == "clientCertificateUnusable", "\(Scene.text(task))")
    try SecretCases.waitForNoLeak(scene)
    #expect(!scene.log.contains(SecretCases.secret))
  }

  /// A server that breaks off without one (RFC 8446 section 4.4.2.4), as OpenSSL does.
  @Test func aClientCertificateThatIsMissingIsAskedFor() throws {
    let site = try Site()
    let files = try site.files
    let peer = try ScriptedPeer(
      """
      import contextlib, socket, ssl, sys
      context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
      context.minimum_version = ssl.TLSVersion.TLSv1_3
      context.load_cert_chain(sys.argv[1], sys.argv[2])
      context.load_verify_locations(sys.argv[3])
      context.verify_mode = ssl.CERT_REQUIRED
      listener = socket.create_server(("127.0.0.1", 0))
      print(listener.getsockname()[1], flush=True)
      while True:
        plain, _ = listener.accept()
        secure = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        try:
          secure.do_handshake()
          secure.recv(65536)
          secure.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\nConnection: close\\r\\n\\r\\nhello")
          secure.unwrap()
        except OSError:
          # A close with the request unread is a reset, and a client that is still writing would not see the alert.
          with contextlib.suppress(OSError):
            secure.shutdown(socket.SHUT_WR)
            while secure.recv(65536):
              pass
        secure.close()
      """, [files.certificate, files.key, files.authority])
    let scene = try Self.trusting(site)
    let id = try scene.get("https://localhost:\(peer.port)/file")
    let question = try QuestionCases.asking(scene, id)
    #expect(question.method == "clientCertificate" && question.origin == "https://localhost:\(peer.port)")
    try QuestionCases.answer(scene, id, "tls") {
      $0.tls = WireTLS(certificateFile: files.client, keyFile: files.clientKey)
    }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
  }
}

/// What a proxy asks.
extension InteroperabilityTests {
  @Test(arguments: ["basic", "digest"], WebServer.Transport.allCases)
  func aProxyThatAsksIsAnswered(scheme: String, transport: WebServer.Transport) throws {
    guard WebServer.Kind.nginx.program != nil, ProxyServer.Kind.squid.program != nil else {
      print("SKIPPED: nginx or squid is not installed (apt-get install nginx-light squid-openssl)")
      return
    }
    let server = try WebServer(.nginx, transport)
    defer { server.end() }
    try server.put("file", QuestionCases.content.allBytes)
    let proxy = try ProxyServer(.squid, asking: scheme)
    defer { proxy.end() }
    let address = "http://127.0.0.1:\(proxy.port)"
    let scene = try Scene(
      network: WireNetwork(httpProxy: address, httpsProxy: address, certificateFile: server.authority),
      answersChallenges: true)
    let id = try scene.get(server.url + "/file")
    for (failures, password) in ["wrong", ProxyServer.password].enumerated() {
      let question = try QuestionCases.asking(scene, id, failures: failures)
      #expect(question.isProxy == true && question.origin == address)
      // Of a tunnel libcurl does not tell how it was refused.
      #expect(question.method == (transport == .tls ? "unknown" : scheme))
      try QuestionCases.answer(scene, id, "credential") {
        $0.credential = WireCredential(user: ProxyServer.user, password: password)
      }
    }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try scene.bytes("result") == QuestionCases.content.allBytes)
    try eventually("no file holds the password") {
      try Tool.run("/bin/grep", ["-rlaF", ProxyServer.password, scene.home]).output.isEmpty
    }
  }
}
