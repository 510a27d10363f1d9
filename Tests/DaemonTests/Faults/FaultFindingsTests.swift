import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// One test for each fault that the fault loop found.
@Suite(.timeLimit(.minutes(3))) struct FaultFindingsTests {
  /// The decoded result stood in its place, and the daemon died before the record knew of any answer: the bytes as they
  /// came were placed over or beside it, or found its name taken.
  @Test(arguments: ["fail", "replace", "rename"], ["folder.fsync:1:kill", "store.commit:3:kill"])
  func aDecodedResultThatStandsInItsPlaceIsRecognized(collision: String, fault: String) throws {
    let content = GeneratedContent(length: 30_000, seed: 4)
    let server = try LocalServer.start { _ in
      Response.bytes([]).contentEncoding("gzip", bytes: Gzip.stored(content.allBytes)).etag("\"z\"")
    }
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startForeground(["FERRY_FAULT": fault])
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    var wanted = WireTaskSpecification.download(server.url("/f"), to: home.out + "/f", key: "k")
    wanted.collision = collision
    let id = try client.enqueue(wanted, in: session)
    try eventually("the daemon dies", is: { home.daemonProcessID == nil })
    try home.startForeground()
    let task = try home.waitForEnd(of: id)
    #expect(task.state == "succeeded", "\(task.error?.detail ?? "")")
    expectContent(task.file, content)
    try eventually("only the result is left", is: { DaemonHome.names(in: home.out) == ["f"] })
  }

  /// Nobody sweeps a user's folder: a removal that a daemon owes outlives it.
  @Test(arguments: ["kill", "EIO"], ["remove", "cancel"])
  func whatARemovedTaskHeldGoesInTheEnd(how: String, command: String) throws {
    let content = GeneratedContent(length: 400_000, seed: 4)
    let server = try LocalServer.start { _ in
      Response.generated(length: content.length, seed: content.seed).stall(afterBytes: 200_000)
    }
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startForeground(["FERRY_FAULT": "file.remove:1:\(how)"])
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let id = try client.download(server.url("/f"), to: home.out + "/f", in: session)
    try client.waitForBytes(of: id, atLeast: 200_000)
    #expect(DaemonHome.names(in: home.out) == [".ferry-\(id).part"])
    let parameters = TaskIdentifiersParameters(ids: [id])
    try client.send(command == "remove" ? .taskRemove(parameters) : .taskCancel(parameters))
    if how == "kill" {
      try eventually("the daemon dies", is: { home.daemonProcessID == nil })
      try home.startForeground()
    }
    try eventually("its folder is as it was", is: { DaemonHome.names(in: home.out).isEmpty })
    #expect(try home.connect().list().allSatisfy { $0.state == "cancelled" })
  }

  /// What the predecessor pinned passed for another task's, whose end left it behind; and a server had acted on a
  /// request that nobody had on record.
  @Test func anIdThatWasNeverOnRecordIsNotGivenAgain() throws {
    let server = try LocalServer.start { .text($0.method) }
    defer { server.stop() }
    let home = try DaemonHome()
    // The first commit makes the session.
    try home.startForeground(["FERRY_FAULT": "store.commit:2:kill"])
    let source = home.path + "/source"
    let file = try Files.createPrivate(source)
    try Syscall.writeAll(file.raw, Array("body".utf8))
    var client = try home.connect()
    var session = try client.open("s", collects: false)
    _ = try client.send(
      .taskEnqueue(TaskEnqueueParameters(session: session, tasks: [.upload(source, to: server.url("/lost"))])))
    try eventually("the daemon dies", is: { home.daemonProcessID == nil })
    #expect(home.ownFiles().map(Files.lastComponent(of:)) == ["ferry-1.source"])
    #expect(server.requests.isEmpty)
    try home.startForeground()
    client = try home.connect()
    session = try client.open("s", collects: false)
    let id = try client.download(server.url("/f"), in: session)
    #expect(id == 2)
    #expect(try client.waitForEnd(of: id).state == "succeeded")
    try eventually("only the result is left", is: { home.ownFiles().map(Files.lastComponent(of:)) == ["ferry-2.tmp"] })
  }
}
