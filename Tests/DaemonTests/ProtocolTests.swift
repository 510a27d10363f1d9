import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// A client that knows only docs/Protocol.md and Python's standard library.
@Suite(.timeLimit(.minutes(3))) struct ProtocolTests {
  private let home: DaemonHome
  private let server: ContentServer

  init() throws {
    home = try DaemonHome()
    server = try ContentServer()
  }

  private struct Event: Decodable {
    var event: String
    var id: Int64?
    var number: Int64?
    var kind: String?
    var session: Int64?
    var task: Result?

    struct Result: Decodable { var file: String? }
  }

  private func python(_ arguments: [String], input: String? = nil) throws -> (status: ChildProcess.ExitStatus, [String])
  {
    let script = Files.parent(of: #filePath) + "/Fixtures/protocol_client.py"
    let command = arguments.map { "'\($0)'" }.joined(separator: " ")
    let pipe = input.map { "printf '\($0)' | " } ?? ""
    let result = try Shell.output(
      "/bin/sh", ["-c", "\(pipe)exec /usr/bin/python3 '\(script)' \(command)"], environment: home.environment)
    return (result.status, (result.output + result.errors).split(separator: "\n").map { String($0) })
  }

  private func events(_ lines: [String]) -> [Event] {
    lines.compactMap { try? JSONDecoder().decode(Event.self, from: Data($0.utf8)) }
  }

  @Test func itDownloadsUploadsCollectsAndAcknowledges() throws {
    defer { server.stop() }
    try home.startForeground()
    let content = GeneratedContent(length: 600_000, seed: 12)
    for path in ["/a", "/b", "/c"] { server.put(path, content) }

    let placed = try python(["run", "--to", home.out + "/a", "--key", "k", server.url("/a")])
    #expect(placed.status == .exited(code: 0), "\(placed.1)")
    expectContent(home.out + "/a", content)
    #expect(events(placed.1).filter { $0.event == "delivery" }.map(\.kind) == ["completion"])

    // It does not acknowledge: all comes again, in order and with the same numbers, to the next that asks.
    let first = try python(["run", "--no-acknowledge", "--session", "two", server.url("/b"), server.url("/c")])
    #expect(first.status == .exited(code: 0), "\(first.1)")
    let told = events(first.1).filter { $0.event == "delivery" }
    #expect(Set(told.compactMap(\.kind)).isSuperset(of: ["file", "completion"]))
    let second = try python(["collect", "--session", "two"])
    #expect(second.status == .exited(code: 0), "\(second.1)")
    let again = events(second.1).filter { $0.event == "delivery" }
    #expect(again.prefix(told.count).map(\.number) == told.map(\.number))
    #expect(again.last?.kind == "finishEvents")
    for event in again where event.kind == "file" { #expect(event.task?.file?.isEmpty == false) }
    try eventually("acknowledged files are gone", is: { home.ownFiles().isEmpty })

    let body = home.path + "/body"
    try Files.atomicWrite(body, Array("what is sent".utf8))
    server.put("/up", GeneratedContent(length: 10, seed: 1))
    let sent = try python(["run", "--session", "three", "--upload", body, server.url("/up")])
    #expect(sent.status == .exited(code: 0), "\(sent.1)")
    #expect(server.server.requests.contains { $0.path == "/up" && $0.bodyText == "what is sent" })

    let failed = try python(["run", "--session", "four", server.url("/missing")])
    #expect(failed.status == .exited(code: 1) || failed.1.contains { $0.contains("404") }, "\(failed.1)")
  }

  @Test func itAsksAndIsToldWhatIsWrong() throws {
    defer { server.stop() }
    let nobody = try python(["list"])
    #expect(nobody.status == .exited(code: 3), "without a daemon: \(nobody.1)")
    try home.startForeground()
    #expect(try python(["list"]).status == .exited(code: 0))
    #expect(try python(["call", "daemon.status"]).status == .exited(code: 0))
    let unknown = try python(["call", "task.fly"])
    #expect(unknown.status == .exited(code: 2) && unknown.1.contains { $0.contains("methodNotFound") }, "\(unknown.1)")
    let raw = try python(["raw"], input: "this is no message\\n")
    #expect(raw.1.contains { $0.contains("goodbye") }, "\(raw.1)")
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let gate = Gate()
    server.put("/slow", GeneratedContent(length: 100_000, seed: 2)) { $0.stall(afterBytes: 10, until: gate) }
    let id = try client.download(server.url("/slow"), to: home.out + "/slow", in: session)
    gate.open()
    #expect(try python(["watch", "\(id)"]).status == .exited(code: 0))
  }
}
