import Glibc
import LinuxSystem
import Testing
import WireProtocol

extension InteroperabilityTests {
  /// tinyproxy before nginx: a request as a proxy wants it for http, a tunnel for https; both continue after a cut.
  @Test(arguments: WebServer.Transport.allCases) func throughAProxy(_ transport: WebServer.Transport) throws {
    guard WebServer.Kind.nginx.program != nil, Tinyproxy.program != nil else {
      print("SKIPPED: nginx or tinyproxy is not installed (apt-get install nginx-light tinyproxy)")
      return
    }
    let server = try WebServer(.nginx, transport)
    defer { server.end() }
    try server.put("whole.bin", InteroperabilityBench.content(12_000_000, seed: 4))
    let proxy = try Tinyproxy()
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

/// A small proxy for http, and for https by CONNECT.
final class Tinyproxy {
  static let program = ["/usr/bin/tinyproxy", "/usr/sbin/tinyproxy"].first(where: Shell.isExecutable)

  let port: UInt16
  private let reserved: ReservedPort
  private let folder: String
  private let running: Program

  init() throws {
    folder = "/tmp/ferry-proxy-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    reserved = try ReservedPort()
    port = reserved.number
    let path = folder + "/tinyproxy.conf"
    do {
      let file = try Files.createPrivate(path)
      let text = """
        Port \(port)
        Listen 127.0.0.1
        Timeout 600
        LogFile "\(folder)/log"
        PidFile "\(folder)/pid"
        MaxClients 50
        Allow 127.0.0.1

        """
      try Syscall.writeAll(file.raw, Array(text.utf8).span, at: 0)
    }
    let program = try #require(Self.program)
    running = try Program(program, ["-d", "-c", path], environment: ["PATH": "/usr/bin:/bin"], folder: folder)
    try eventually("tinyproxy listens: \(running.errorText) \(running.outputText)") {
      if let status = running.status { throw Late("tinyproxy ended: \(status) \(running.errorText)") }
      return try Relay.canConnect(to: port)
    }
  }

  deinit { end() }

  func end() {
    running.kill()
    Shell.remove(folder)
  }
}
