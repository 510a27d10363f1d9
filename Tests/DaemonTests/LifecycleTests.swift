import FerryClient
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// How the daemon begins and ends.
@Suite(.timeLimit(.minutes(3))) struct LifecycleTests {
  @Test func aDaemonStartedByHandServesADownload() throws {
    let server = try LocalServer.start { _ in .generated(length: 300_000, seed: 3).etag("\"a\"") }
    defer { server.stop() }
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    #expect(client.daemonProcessID == daemon.processID)
    let session = try client.open("s")
    let managed = try client.download(server.url("/a"), in: session)
    let placed = try client.download(server.url("/b"), to: home.out + "/b", in: session)
    for id in [managed, placed] {
      let task = try client.waitForEnd(of: id)
      #expect(task.state == "succeeded")
      expectContent(task.file, GeneratedContent(length: 300_000, seed: 3))
    }
    daemon.signal(SIGTERM)
    #expect(try daemon.wait() == .exited(code: 0))
  }
}
