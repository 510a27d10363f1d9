import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

extension InteroperabilityTests {
  /// A proxy before nginx: a request as a proxy wants it for http, a tunnel for https; both continue after a cut.
  @Test(arguments: ProxyServer.Kind.allCases, WebServer.Transport.allCases)
  func throughAProxy(_ kind: ProxyServer.Kind, _ transport: WebServer.Transport) throws {
    guard WebServer.Kind.nginx.program != nil, kind.program != nil else {
      print("SKIPPED: nginx or \(kind) is not installed (apt-get install nginx-light \(kind))")
      return
    }
    let server = try WebServer(.nginx, transport)
    defer { server.end() }
    try server.put("whole.bin", InteroperabilityBench.content(12_000_000, seed: 4))
    let proxy = try ProxyServer(kind)
    defer { proxy.end() }
    // The relay stands between the client and the proxy, so that the cut falls into the tunnel.
    let relay = try Relay(to: proxy.port, limit: 5_000_000)
    defer { relay.stop() }
    let address = "http://127.0.0.1:\(relay.port)"
    let network = WireNetwork(httpProxy: address, httpsProxy: address, certificateFile: server.authority)
    let home = try DaemonHome()
    defer { home.end() }
    try home.startForeground()
    var client = try home.connect()
    let session = try client.open("s", network: network)
    let id = try client.download(server.url + "/whole.bin", to: home.out + "/a", in: session)
    try client.waitForBytes(of: id, atLeast: 3_000_000)
    try home.killDaemon()
    relay.letAllPass()
    try home.startForeground()
    client = try home.connect()
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "succeeded", "\(task)")
    let same =
      try InteroperabilityBench.digest(home.out + "/a") == InteroperabilityBench.digest(server.root + "/whole.bin")
    #expect(same)
    #expect(relay.passed < 5_000_000 + 9_500_000, "\(relay.passed) bytes came through the proxy")
    #expect(task.response?.httpVersion.hasPrefix(transport == .tls ? "2" : "1") == true)
    relay.stop()
    try eventually("the relay ends", is: { relay.openings.count == relay.connections })
    let first =
      transport == .tls ? "CONNECT localhost:\(server.port) " : "GET http://localhost:\(server.port)/whole.bin "
    #expect(relay.openings.allSatisfy { $0.hasPrefix(first) }, "\(relay.openings.map { $0.prefix(80) })")
    // A host that is to be reached without it.
    let direct = try client.open(
      "direct",
      network: WireNetwork(
        httpProxy: "http://127.0.0.1:1", httpsProxy: "http://127.0.0.1:1", noProxy: "localhost",
        certificateFile: server.authority))
    let second = try client.waitForEnd(
      of: try client.download(server.url + "/whole.bin", to: home.out + "/b", in: direct))
    #expect(second.state == "succeeded", "\(second)")
  }
}

/// A proxy of the distribution for http, and for https by CONNECT.
final class ProxyServer {
  enum Kind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case tinyproxy, squid
    var testDescription: String { rawValue }

    var program: String? { ["/usr/bin/\(rawValue)", "/usr/sbin/\(rawValue)"].first(where: Shell.isExecutable) }

    var arguments: [String] {
      switch self {
      case .tinyproxy: ["-d", "-c"]
      case .squid: ["-N", "-d", "1", "-f"]
      }
    }

    /// - Parameter scheme: of squid, the scheme by which it asks for a user and a password; nil: it asks nobody.
    func configuration(port: UInt16, folder: String, scheme: String?) -> String {
      switch self {
      case .tinyproxy:
        """
        Port \(port)
        Listen 127.0.0.1
        Timeout 600
        LogFile "\(folder)/log"
        PidFile "\(folder)/pid"
        MaxClients 50
        Allow 127.0.0.1

        """
      case .squid:
        // It is itself that is of interest, and not its cache.
        """
        http_port 127.0.0.1:\(port)
        \(scheme.map { ProxyServer.login($0, folder) } ?? "http_access allow localhost")
        http_access deny all
        cache deny all
        memory_cache_shared off
        pid_filename \(folder)/pid
        cache_log \(folder)/log
        access_log none
        coredump_dir \(folder)
        visible_hostname localhost
        pinger_enable off
        max_filedescriptors 1024
        shutdown_lifetime 0 seconds

        """
      }
    }
  }

  let port: UInt16
  private let reserved: ReservedPort
  private let folder: String
  private let running: Program

  /// Who may pass, where it asks.
  static let user = "ann"
  static let password = "pw-5f3a91c07e"

  fileprivate static func login(_ scheme: String, _ folder: String) -> String {
    let helper = scheme == "digest" ? "digest_file_auth" : "basic_ncsa_auth"
    return """
      auth_param \(scheme) program /usr/lib/squid/\(helper) \(folder)/users
      auth_param \(scheme) children 1
      auth_param \(scheme) realm squid
      acl known proxy_auth REQUIRED
      http_access allow known
      """
  }

  private static func writeUsers(_ scheme: String, in folder: String) throws {
    var word = password
    if scheme == "basic" {
      word = try Shell.output("/usr/bin/openssl", ["passwd", "-apr1", word]).output.filter { !$0.isNewline }
    }
    let file = try Files.createPrivate(folder + "/users")
    try Syscall.writeAll(file.raw, Array("\(user):\(word)\n".utf8).span, at: 0)
    // Its helpers run as another user.
    unsafe chmod(folder + "/users", 0o644)
  }

  /// - Parameter scheme: as in ``Kind/configuration(port:folder:scheme:)``.
  init(_ kind: Kind, asking scheme: String? = nil) throws {
    folder = "/tmp/ferry-proxy-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    // squid gives up the right of root to write here.
    try #require(unsafe chmod(folder, 0o777) == 0)
    reserved = try ReservedPort()
    port = reserved.number
    let path = folder + "/\(kind).conf"
    do {
      let file = try Files.createPrivate(path)
      let text = kind.configuration(port: port, folder: folder, scheme: scheme)
      try Syscall.writeAll(file.raw, Array(text.utf8).span, at: 0)
    }
    if let scheme { try Self.writeUsers(scheme, in: folder) }
    let program = try #require(kind.program)
    running = try Program(
      program, kind.arguments + [path], environment: ["PATH": "/usr/bin:/bin:/usr/sbin:/sbin"], folder: folder)
    try eventually("\(kind) listens: \(running.errorText) \(running.outputText)") {
      if let status = running.status { throw Late("\(kind) ended: \(status) \(running.errorText)") }
      return try Relay.canConnect(to: port)
    }
  }

  deinit { end() }

  func end() {
    running.kill()
    Shell.remove(folder)
  }
}
