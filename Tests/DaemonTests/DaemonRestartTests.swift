import FerryClient
import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// `daemon.restart`: the executable that stands there now takes over, and nobody notices.
@Suite(.timeLimit(.minutes(5))) struct DaemonRestartTests {
  @Test(arguments: ["--foreground", "--supervise"]) func theInstalledExecutableTakesOver(mode: String) throws {
    let server = try ContentServer()
    defer { server.stop() }
    let home = try DaemonHome()
    // A copy, so that another one can be put in its place.
    let installed = home.path + "/bin-ferryd"
    let copy = { (from: String) throws in
      try? Files.remove(installed + ".new")
      try FileManager.default.copyItem(atPath: from, toPath: installed + ".new")
      #expect(unsafe rename(installed + ".new", installed) == 0)
    }
    try copy(DaemonHome.executable("ferryd"))
    let child = try Program(installed, [mode], environment: home.environment, folder: home.path)
    defer {
      child.kill()
    }
    let client = try home.connect()
    let session = try client.open("s")
    let content = GeneratedContent(length: 2_000_000, seed: 3)
    server.put("/a", content) { $0.stall(afterBytes: 1_500_001) }
    let id = try client.download(server.url("/a"), to: home.out + "/a", in: session)
    try client.waitForBytes(of: id, atLeast: 1_500_000)
    let process = client.daemonProcessID
    // The upgrade: another file at the same path.
    try copy(DaemonHome.executable("ferryd"))
    let before = try readText("/proc/\(process)/maps")
    #expect(before.contains("bin-ferryd (deleted)"))
    let command = try home.run("ferry", ["daemon", "restart"])
    #expect(command.status == .exited(code: 0), "\(command.errors)")
    #expect(command.output.contains("took over as process"), "\(command.output)")
    #expect(try client.waitForGoodbye() == "the daemon restarts")
    let next = try home.connect()
    #expect(next.daemonProcessID == process, "the same process, another program")
    let after = try readText("/proc/\(process)/maps")
    #expect(after.contains("bin-ferryd") && !after.contains("bin-ferryd (deleted)"))
    let task = try next.waitForEnd(of: id)
    #expect(task.state == "succeeded")
    expectContent(home.out + "/a", content)
    #expect(task.wasted == nil)
    // What a person's umask says still holds.
    var status = stat()
    #expect(unsafe stat(home.out + "/a", &status) == 0 && status.st_mode & 0o777 == 0o666 & ~currentMask())
  }

  private func currentMask() -> mode_t {
    let mask = umask(0o022)
    umask(mask)
    return mask
  }

  @Test func withoutAnExecutableItStays() throws {
    let home = try DaemonHome()
    let installed = home.path + "/bin-ferryd"
    try FileManager.default.copyItem(atPath: DaemonHome.executable("ferryd"), toPath: installed)
    let child = try Program(installed, ["--foreground"], environment: home.environment, folder: home.path)
    defer { child.kill() }
    let client = try home.connect()
    try Files.remove(installed)
    #expect(throws: ProtocolClient.Failure.self) {
      try client.call(.daemonRestart(EmptyParameters()), EmptyResult.self)
    }
    #expect(try client.status().isRestarting == nil)
  }

  @Test func whatCannotBeContinuedMayEnd() throws {
    let gate = Gate()
    let server = try LocalServer.start { request in
      .generated(length: 400_000, seed: 7).stall(afterBytes: 200_000, until: gate)
    }
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startSupervised()
    let client = try home.connect()
    let session = try client.open("s")
    // No validator: begun again it would be fetched twice.
    let plain = try client.download(server.url("/plain"), in: session)
    let data = try client.enqueue(WireTaskSpecification(kind: "data", url: server.url("/data")), in: session)
    try client.waitForBytes(of: plain, atLeast: 200_000)
    try client.waitForBytes(of: data, atLeast: 1)
    _ = try client.call(.daemonRestart(EmptyParameters()), EmptyResult.self)
    // It waits, answers, takes new work, and begins none of it.
    #expect(try client.status().isRestarting == true)
    let later = try client.download(server.url("/later"), in: session)
    #expect(try client.show(later).state == "waiting")
    gate.open()
    #expect(try client.waitForGoodbye() == "the daemon restarts")
    let next = try home.connect()
    #expect(try next.open("s") == session)
    for id in [plain, data, later] {
      let task = try next.waitForEnd(of: id)
      #expect(task.state == "succeeded", "\(task)")
    }
    #expect(server.requestCount == 3)
  }

  /// The whole promise, in numbers.
  @Test func fiftyTransfersAndFiveClientsDoNotNotice() async throws {
    let server = try ContentServer()
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startSupervised()
    let length = 1_500_000
    var sessions: [Session] = []
    var ferries: [Ferry] = []
    var receipts: [(Session, Receipt, GeneratedContent)] = []
    let troubles = Troubles()
    for client in 0..<5 {
      let ferry = Ferry(app: "restart-\(client)", environment: home.environment)
      let session = try await ferry.session("s")
      ferries.append(ferry)
      sessions.append(session)
      for number in 0..<10 {
        let content = GeneratedContent(length: length, seed: UInt64(client * 10 + number + 1))
        let path = "/\(client)-\(number)"
        // Slow enough that the restart comes in the middle of them all.
        server.put(path, content) { $0.throttled(bytes: 40_000, every: .milliseconds(100)) }
        let url = try #require(URL(string: server.url(path)))
        receipts.append((session, try await session.download(url), content))
      }
      Task {
        for await event in session.events {
          if case .unavailable(let error) = event { troubles.note("\(client): \(error)") }
        }
      }
    }
    let observer = try home.connect()
    try eventually("all are under way") {
      try observer.list().count { $0.received > 200_000 } >= 20 ? () : nil
    }
    let command = try home.run("ferry", ["daemon", "restart"])
    #expect(command.status == .exited(code: 0), "\(command.errors)")
    for (session, receipt, content) in receipts {
      switch try await session.outcome(of: receipt) {
      case .succeeded(let done): expectContent(done.file?.path, content)
      case .failed(let failure): Issue.record("task \(receipt.id) failed: \(failure)")
      case .cancelled: Issue.record("task \(receipt.id) was cancelled")
      }
    }
    #expect(troubles.all == [])
    let tasks = try home.connect().list()
    let wasted = tasks.reduce(Int64(0)) { $0 + ($1.wasted ?? 0) }
    let sent = server.server.exchanges.reduce(Int64(0)) { $0 + Int64($1.bodyBytesSent) }
    let twice = sent - Int64(receipts.count * length)
    print("restart during \(receipts.count) transfers: \(wasted) bytes thrown away, \(twice) bytes sent twice")
    #expect(wasted == 0)
    // What was in the kernel's buffers when each connection was cut.
    #expect(twice < Int64(receipts.count) * 1_000_000)
    withExtendedLifetime(ferries) {}
  }
}

/// What clients complained of.
private final class Troubles: Sendable {
  private let lines = Mutex<[String]>([])
  var all: [String] { lines.withLock { $0 } }
  func note(_ line: String) { lines.withLock { $0.append(line) } }
}
