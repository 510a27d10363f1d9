import Glibc
import LinuxSystem
import Testing
import WireProtocol

/// A network of two namespaces and a cable, made for one test: the daemon at one end, nginx at the other. Needs root;
/// nothing of the machine's own network is touched.
final class CableNetwork {
  static let ip = ["/usr/sbin/ip", "/sbin/ip"].first(where: Shell.isExecutable)
  static let nft = ["/usr/sbin/nft", "/sbin/nft"].first(where: Shell.isExecutable)

  /// Why there can be none here; nil when there can.
  static let obstacle: String? = {
    guard geteuid() == 0 else { return "not root" }
    guard let ip, nft != nil else { return "ip or nft is missing (apt-get install iproute2 nftables)" }
    guard WebServer.Kind.nginx.program != nil else { return "nginx is missing (apt-get install nginx-light)" }
    let name = "ferry-probe-\(getpid())"
    guard let made = try? Shell.output(ip, ["netns", "add", name]), made.status == .exited(code: 0) else {
      return "no network namespace can be made"
    }
    _ = try? Shell.output(ip, ["netns", "delete", name])
    return nil
  }()

  static let serverAddress = "198.18.0.1"
  static let port: UInt16 = 8080
  let ours: String
  let theirs: String
  let server: WebServer

  init(rateBytesPerSecond: Int? = nil) throws {
    let word = String(Clocks.randomWord() & 0xFFFFFF, radix: 36)
    (ours, theirs) = ("ferry-c\(word)", "ferry-s\(word)")
    let ip = try #require(Self.ip)
    for arguments in [
      ["netns", "add", ours], ["netns", "add", theirs],
      ["-n", ours, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", theirs],
      ["-n", ours, "address", "add", "198.18.0.2/24", "dev", "cable"],
      ["-n", theirs, "address", "add", "\(Self.serverAddress)/24", "dev", "cable"],
      // Packets of the size of a real wire: a lost one of 64 KiB is another thing.
      ["-n", theirs, "link", "set", "cable", "gso_max_segs", "1"],
      ["-n", theirs, "link", "set", "cable", "up"], ["-n", ours, "link", "set", "cable", "up"],
      ["-n", ours, "link", "set", "lo", "up"],
    ] {
      let made = try Shell.output(ip, arguments)
      guard made.status == .exited(code: 0) else {
        for name in [ours, theirs] { _ = try? Shell.output(ip, ["netns", "delete", name]) }
        throw Late("ip \(arguments.joined(separator: " ")): \(made.errors)")
      }
    }
    server = try WebServer(
      .nginx, address: (Self.serverAddress, Self.port), wrapper: [ip, "netns", "exec", theirs],
      rateBytesPerSecond: rateBytesPerSecond)
  }

  deinit { end() }

  func end() {
    server.end()
    for name in [ours, theirs] { if let ip = Self.ip { _ = try? Shell.output(ip, ["netns", "delete", name]) } }
  }

  func url(_ path: String) -> String { "http://\(Self.serverAddress):\(Self.port)/\(path)" }

  func link(_ state: String) throws {
    let made = try Shell.output(try #require(Self.ip), ["-n", ours, "link", "set", "cable", state])
    try #require(made.status == .exited(code: 0), "\(made.errors)")
  }

  /// What happens to packets at the daemon's end, by the hook that they pass (input or output); nil takes the rule
  /// away.
  func filter(_ hook: String = "input", _ rule: String?) throws {
    let nft = try #require(Self.nft)
    let text = rule.map {
      "add table inet t; add chain inet t c { type filter hook \(hook) priority 0; }; add rule inet t c \($0)"
    }
    let made = try Shell.output(
      try #require(Self.ip), ["netns", "exec", ours, nft, text ?? "flush ruleset"])
    try #require(made.status == .exited(code: 0), "\(made.errors)")
  }

  /// Packets that the rules counted.
  func counted() throws -> Int {
    let made = try Shell.output(
      try #require(Self.ip), ["netns", "exec", ours, try #require(Self.nft), "list", "ruleset"])
    let words = made.output.split { $0 == " " || $0 == "\n" }
    return words.indices.reduce(0) { sum, index in
      words[index] == "packets" && index + 1 < words.count ? sum + (Int(words[index + 1]) ?? 0) : sum
    }
  }

  /// The daemon at our end of the cable.
  func startDaemon(_ home: DaemonHome) throws -> Program {
    let program = try Program(
      try #require(Self.ip), ["netns", "exec", ours, DaemonHome.executable("ferryd"), "--foreground"],
      environment: home.environment, folder: home.path)
    try eventually("the daemon answers \(program.errorText)") {
      if let client = try? ProtocolClient(home) { return client.close() }
      if let status = program.status { throw Late("the daemon ended: \(status) \(program.errorText)") }
      return nil
    }
    return program
  }
}

@Suite(.serialized) struct NetworkTroubleTests {
  static let isFull = Interoperability.isFull
  static let silenceSeconds = 8.0

  /// A network, a daemon on it, and a file; `trouble` is made once bytes are moving.
  private func download(
    _ length: Int, rate: Int? = nil, before: (CableNetwork) throws -> Void = { _ in },
    trouble: (CableNetwork, ProtocolClient, Int64) throws -> Void = { _, _, _ in },
    after: (CableNetwork) throws -> Void = { _ in }
  ) throws -> TaskSnapshot? {
    if let obstacle = CableNetwork.obstacle {
      print("SKIPPED: network trouble: \(obstacle)")
      return nil
    }
    let network = try CableNetwork(rateBytesPerSecond: rate)
    defer { network.end() }
    try network.server.put("whole.bin", InteroperabilityBench.content(length, seed: 11))
    let home = try DaemonHome()
    defer { home.end() }
    let daemon = try network.startDaemon(home)
    defer { daemon.kill() }
    let client = try home.connect()
    let session = try client.open("s")
    // nginx is up when a first small file has come.
    try network.server.put("ready.bin", [1])
    let ready = try client.waitForEnd(of: try client.download(network.url("ready.bin"), in: session))
    #expect(ready.state == "succeeded")
    try before(network)
    var wire = WireTaskSpecification.download(network.url("whole.bin"), to: home.out + "/a")
    // A connection that is silent for so long is given up. The one that brought the first file may be used again.
    wire.requestTimeoutSeconds = Self.silenceSeconds
    let id = try client.enqueue(wire, in: session)
    try trouble(network, client, id)
    let task = try client.waitForEnd(of: id, seconds: 300)
    #expect(task.state == "succeeded", "\(task)")
    let same =
      try InteroperabilityBench.digest(home.out + "/a")
      == InteroperabilityBench.digest(network.server.root + "/whole.bin")
    #expect(same, "other bytes")
    try after(network)
    return task
  }

  /// One packet of five is lost on its way to us.
  @Test func loss() throws {
    _ = try download(
      Self.isFull ? 4_000_000 : 600_000, before: { try $0.filter("input", "numgen random mod 100 < 20 counter drop") },
      after: { network in
        let lost = try network.counted()
        #expect(lost > 50, "only \(lost) packets were lost")
      })
  }

  /// Every connection is reset for a while; the download goes on where it was.
  @Test func resets() throws {
    let task = try download(
      6_000_000, rate: 3_000_000,
      trouble: { network, client, id in
        try client.waitForBytes(of: id, atLeast: 1_000_000)
        try network.filter("output", "tcp dport \(CableNetwork.port) counter reject with tcp reset")
        try client.waitForTask(id, "waits for another attempt") { $0.state == "waiting" && $0.attempts >= 1 }
        #expect(try network.counted() > 0)
        try network.filter("output", nil)
      })
    guard let task else { return }
    #expect(task.attempts >= 2 && task.wasted ?? 0 == 0, "\(task)")
  }

  /// The cable is pulled out in the middle, and put back: after some seconds, or after a minute (FERRY_INTEROP=full).
  @Test func pulledCable() throws {
    let task = try download(
      6_000_000, rate: 3_000_000,
      trouble: { network, client, id in
        try client.waitForBytes(of: id, atLeast: 1_000_000)
        try network.link("down")
        // The length of the outage is what is tested: nothing is waited for here.
        _ = poll(nil, 0, (Self.isFull ? 60 : 3) * 1000)
        try network.link("up")
      })
    guard let task else { return }
    #expect(task.wasted ?? 0 == 0, "\(task)")
  }

  /// A daemon that is asked while no cable is in: it waits until there is one.
  @Test func noCableAtFirst() throws {
    _ = try download(100_000, before: { try $0.link("down") }) { network, client, id in
      try eventually("it waits for a network") {
        let task = try client.show(id)
        return task.state == "waiting" && task.blockers?.contains { $0.name == "network" } == true
      }
      try network.link("up")
    }
  }

  /// Half a second for every byte, each way: a redirect, a file, and one that is continued.
  @Test func delay() throws {
    guard WebServer.Kind.nginx.program != nil else { return print("SKIPPED: nginx is not installed") }
    let server = try WebServer(.nginx)
    defer { server.end() }
    try server.put("whole.bin", InteroperabilityBench.content(2_000_000, seed: 12))
    try server.put("dir/index.html", InteroperabilityBench.content(1000, seed: 13))
    let relay = try Relay(to: server.port, delayMilliseconds: 500)
    defer { relay.stop() }
    let home = try DaemonHome()
    defer { home.end() }
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    let names = ["whole.bin", "dir"]
    let ids = try names.map {
      try client.download("http://localhost:\(relay.port)/\($0)", to: "\(home.out)/\($0)", in: session)
    }
    for (name, id) in zip(["whole.bin", "dir/index.html"], ids) {
      let task = try client.waitForEnd(of: id)
      #expect(task.state == "succeeded", "\(name): \(task)")
      let same =
        try InteroperabilityBench.digest(try #require(task.file))
        == InteroperabilityBench.digest("\(server.root)/\(name)")
      #expect(same, "\(name)")
    }
  }
}
