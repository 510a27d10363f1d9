import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// Knobs: FERRY_INTEROP=full runs every server over every transport, and FERRY_INTEROP=NAME one server over both;
/// otherwise each runs once, nginx over both.
enum Interoperability {
  private static let knob = ProcessEnvironment.value(of: "FERRY_INTEROP")
  private static let only = knob.flatMap { WebServer.Kind(rawValue: $0) }
  static let isFull = knob == "full" || only != nil

  static let combinations: [Combination] = (only.map { [$0] } ?? WebServer.Kind.allCases).flatMap { kind in
    let transports: [WebServer.Transport] = kind.knowsTLS ? [.plain, .tls] : [.plain]
    if isFull { return transports.map { Combination(kind: kind, transport: $0) } }
    return [
      Combination(kind: kind, transport: [.nginx, .lighttpd, .h2o].contains(kind) ? .plain : transports.last ?? .plain)
    ]
      + (kind == .nginx ? [Combination(kind: kind, transport: .tls)] : [])
  }

  struct Combination: Sendable, CustomTestStringConvertible {
    var kind: WebServer.Kind
    var transport: WebServer.Transport
    var testDescription: String { "\(kind) \(transport)" }
  }
}

/// One suite against each server that the distribution has: what Ferry relies on, it must find in all of them.
@Suite(.serialized) struct InteroperabilityTests {
  @Test(arguments: Interoperability.combinations)
  func conformance(_ combination: Interoperability.Combination) throws {
    let kind = combination.kind
    // Visible in the output: a run without a server proves nothing about it.
    guard kind.program != nil else {
      print("SKIPPED: \(kind) is not installed (apt-get install \(kind.package))")
      return
    }
    guard combination.transport == .plain || kind.knowsTLS else {
      print("SKIPPED: \(kind) has no TLS here")
      return
    }
    let bench = try InteroperabilityBench(kind, combination.transport)
    do {
      try bench.wholeFiles()
      try bench.statuses()
      try bench.manyAtOnce()
      try bench.oneConnectionServesMany()
      try bench.continuedAfterACut()
      try bench.changedDuringACut()
      try bench.upload()
    } catch {
      Issue.record("\(combination): \(error)\n\(bench.home.logText.suffix(3000))")
    }
  }
}

/// A server, a relay before it, a daemon, and the checks.
final class InteroperabilityBench {
  let server: WebServer
  let home: DaemonHome
  private var client: ProtocolClient
  private var session: Int64
  private let kind: WebServer.Kind

  init(_ kind: WebServer.Kind, _ transport: WebServer.Transport) throws {
    self.kind = kind
    server = try WebServer(kind, transport)
    home = try DaemonHome()
    try home.startForeground()
    client = try home.connect()
    session = try client.open("s", network: WireNetwork(certificateFile: server.authority))
  }

  deinit {
    home.end()
    server.end()
  }

  // MARK: Tools

  static func content(_ length: Int, seed: UInt64) -> [UInt8] {
    GeneratedContent(length: length, seed: seed).bytes(0..<length)
  }

  /// sha256sum's own word.
  static func digest(_ path: String) throws -> String {
    let made = try Shell.output("/usr/bin/sha256sum", ["-b", path])
    return String(made.output.prefix(64))
  }

  func url(_ path: String, through relay: Relay? = nil) -> String {
    "\(server.scheme)://localhost:\(relay?.port ?? server.port)/\(path)"
  }

  private func specification(_ url: String, _ name: String, of original: String? = nil) throws -> WireTaskSpecification
  {
    var wire = WireTaskSpecification.download(url, to: "\(home.out)/\(name)")
    if let original { wire.sha256 = try Self.digest("\(server.root)/\(original)") }
    return wire
  }

  private func reconnect() throws {
    client = try home.connect()
    session = try client.open("s", network: WireNetwork(certificateFile: server.authority))
  }

  private func expectSame(_ task: TaskSnapshot, as original: String, _ what: String) throws {
    #expect(task.state == "succeeded", "\(kind) \(what): \(task.state) \(task.error.map { "\($0)" } ?? "")")
    guard let file = task.file else { return }
    let same = try Self.digest(file) == Self.digest("\(server.root)/\(original)")
    #expect(same, "\(kind) \(what): other bytes")
  }

  // MARK: Checks

  /// A plain file, an empty one, a name full of delimiters, and a folder that redirects to its page.
  func wholeFiles() throws {
    let odd = "a b%é+#?&=;'(1).bin"
    try server.put("whole.bin", Self.content(300_000, seed: 1))
    try server.put("empty.bin", [])
    try server.put(odd, Self.content(1000, seed: 2))
    try server.put("dir/index.html", Self.content(2000, seed: 3))
    let files = [
      ("whole.bin", "whole.bin"), ("empty.bin", "empty.bin"), (odd, "a%20b%25%C3%A9%2B%23%3F%26%3D%3B%27%281%29.bin"),
      ("dir/index.html", "dir"),
    ]
    for (index, (original, path)) in files.enumerated() {
      let id = try client.enqueue(specification(url(path), "whole\(index)", of: original), in: session)
      let task = try client.waitForEnd(of: id)
      try expectSame(task, as: original, path)
      #expect(task.isLengthVerified ?? true, "\(kind) \(path)")
      if path == "dir" { #expect(task.currentURL?.hasSuffix("/dir/") ?? task.response?.url.hasSuffix("/dir/") == true) }
      let isSecond = server.transport == .tls && kind.knowsTLS
      #expect(
        task.response?.httpVersion.hasPrefix(isSecond ? "2" : "1") == true,
        "\(kind) \(task.response.map { "\($0)" } ?? "")")
    }
  }

  func statuses() throws {
    let id = try client.enqueue(specification(url("nothing.bin"), "nothing"), in: session)
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "failed" && task.error?.number == 404 && task.error?.code == "httpStatus", "\(kind) \(task)")
    #expect(!DaemonHome.names(in: home.out).contains("nothing"))
    var wire = WireTaskSpecification.download(url("nothing.bin"), to: "\(home.out)/page")
    wire.statusRule = "any"
    let page = try client.waitForEnd(of: try client.enqueue(wire, in: session))
    #expect(page.state == "succeeded" && page.response?.status == 404, "\(kind) \(page)")
  }

  func manyAtOnce() throws {
    var wires: [WireTaskSpecification] = []
    for index in 0..<20 {
      try server.put("many\(index).bin", Self.content(50_000 + index, seed: UInt64(100 + index)))
      wires.append(try specification(url("many\(index).bin"), "many\(index)", of: "many\(index).bin"))
    }
    let receipts = try client.enqueue(wires, in: session)
    for (index, receipt) in receipts.enumerated() {
      try expectSame(try client.waitForEnd(of: try #require(receipt.id)), as: "many\(index).bin", "many")
    }
  }

  /// Ten, one after the other: a connection is kept, and no HEAD is asked.
  func oneConnectionServesMany() throws {
    let relay = try Relay(to: server.port)
    defer { relay.stop() }
    for index in 0..<10 {
      let id = try client.enqueue(specification(url("many\(index).bin", through: relay), "kept\(index)"), in: session)
      try expectSame(try client.waitForEnd(of: id), as: "many\(index).bin", "kept")
    }
    #expect(relay.connections <= 2, "\(kind): \(relay.connections) connections for ten files in turn")
    relay.stop()
    guard server.transport == .plain else { return }
    try eventually("the relay ends", is: { relay.openings.count == relay.connections })
    let requests = relay.openings.joined().split(separator: "\r\n").filter { $0.contains(" HTTP/1.") }
    #expect(requests.count == 10 && requests.allSatisfy { $0.hasPrefix("GET ") }, "\(kind): \(requests)")
  }

  /// The daemon is killed in the middle and started again: the rest is fetched, not the whole.
  func continuedAfterACut() throws {
    let (task, relay) = try cut("resume.bin") {}
    defer { relay.stop() }
    try expectSame(task, as: "resume.bin", "resume")
    let again = relay.passed - Self.cutAt
    if kind.knowsRanges {
      #expect(
        again < Self.large - Self.cutAt / 2, "\(kind): \(again) bytes after the cut\n\(home.logText.suffix(3000))")
      #expect(task.wasted ?? 0 == 0, "\(kind)")
    } else {
      #expect(again >= Self.large, "\(kind) cannot continue, and seems to: \(again) bytes")
    }
  }

  /// The file is another one after the cut: nothing of the old one may be in it.
  func changedDuringACut() throws {
    let server = server
    let (task, relay) = try cut("changed.bin") {
      try server.put("changed.bin", Self.content(Self.large + 4096, seed: 99), hoursOld: 1)
    }
    defer { relay.stop() }
    try expectSame(task, as: "changed.bin", "changed")
    #expect(task.received == Int64(Self.large + 4096), "\(kind)")
  }

  private static let large = 12_000_000
  private static let cutAt = 5_000_000

  private func cut(_ name: String, meanwhile: () throws -> Void) throws -> (task: TaskSnapshot, relay: Relay) {
    try server.put(name, Self.content(Self.large, seed: 7))
    let relay = try Relay(to: server.port, limit: Self.cutAt)
    // No digest of the content is given: the protocol of ranges alone must find out.
    let id = try client.enqueue(specification(url(name, through: relay), name), in: session)
    try client.waitForBytes(of: id, atLeast: 3_000_000)
    try home.killDaemon()
    try meanwhile()
    relay.letAllPass()
    try home.startForeground()
    try reconnect()
    return (try client.waitForEnd(of: id), relay)
  }

  /// Where the server takes a PUT, it has the bytes; elsewhere the refusal is told as it is.
  func upload() throws {
    let source = "\(home.path)/source.bin"
    let bytes = Self.content(1_500_000, seed: 5)
    do {
      let file = try Files.createPrivate(source)
      try Syscall.writeAll(file.raw, bytes.span, at: 0)
    }
    let id = try client.enqueue(.upload(source, to: url("put/up.bin")), in: session)
    let task = try client.waitForEnd(of: id)
    if kind.takesPut {
      #expect(task.state == "succeeded" && [200, 201, 204].contains(task.response?.status), "\(kind) \(task)")
      let same = try Self.digest("\(server.root)/put/up.bin") == Self.digest(source)
      #expect(same, "\(kind): other bytes were put")
    } else {
      #expect(task.state == "failed" && [403, 404, 405, 501].contains(task.error?.number), "\(kind) \(task)")
    }
  }
}
