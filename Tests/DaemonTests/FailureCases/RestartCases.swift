import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import TransferCore
import WireProtocol

/// The daemon's deaths, and what clients are owed: rows 10, 11, 13, 14, 16, 17, 36, 48, 65, 66 and 69 of
/// docs/FailureCases.md.
@Suite(.timeLimit(.minutes(3))) struct RestartCases {
  private static func managed(_ url: String) -> WireTaskSpecification {
    WireTaskSpecification(kind: "download", url: url)
  }

  /// Row 10: the part file lost its tail (and its last bytes are what a torn disk left): what is there is what counts.
  @Test func aPartFileThatLostItsTailIsContinuedFromWhatIsThere() throws {
    let server = try Script.start(
      { _ in ResumeCases.whole().stall(afterBytes: 200_000) }, { _ in ResumeCases.whole() })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    try scene.wait(id, for: "200,000 bytes") { $0.received == 200_000 }
    try scene.restart {
      #expect(unsafe truncate(scene.path(".ferry-\(id).part"), 50_000) == 0)
    }
    #expect(try scene.ended(id).state == "succeeded")
    #expect(server.requests.last?.headers["Range"] == "bytes=50000-")
    try ResumeCases.expectWhole(scene)
  }

  /// Row 10: after a reboot only what was synced counts; the rest may be zeros.
  @Test func afterARebootOnlyWhatWasSyncedCounts() throws {
    let length = 12_000_000
    let server = try Script.start(
      { _ in Response.generated(length: length, seed: 6).etag("\"a\"").stall(afterBytes: 11_000_000) },
      { _ in Response.generated(length: length, seed: 6).etag("\"a\"") })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    try scene.wait(id, for: "11,000,000 bytes") { $0.received == 11_000_000 }
    // A synced offset counts when its row is durable, a commit later.
    try eventually("a synced offset is on record", is: { try Database(scene.home).resumeOffset(id) > 0 })
    let part = scene.path(".ferry-\(id).part")
    try scene.restart(SIGKILL, ["FERRY_TEST_BOOT_ID": "another boot"]) {
      let synced = try Database(scene.home).resumeOffset(id)
      // What the page cache held and the disk did not.
      let file = try FileHandle(forWritingTo: URL(filePath: part))
      try file.seek(toOffset: UInt64(synced))
      try file.write(contentsOf: Data(count: 11_000_000 - synced))
      try file.close()
    }
    #expect(try scene.ended(id).state == "succeeded")
    let found = try scene.bytes("result")
    #expect(found.count == length)
    #expect(GeneratedContent(length: length, seed: 6).verify(found) == nil)
    let start = Int(server.requests.last?.headers["Range"]?.dropFirst(6).dropLast() ?? "0") ?? 0
    #expect(11_000_000 - start <= 8 << 20, "continued at \(start)")
  }

  /// Row 10: an empty, a zeroed and a torn database are set aside, and the daemon works.
  @Test(arguments: ["empty", "zeros", "torn"])
  func aDamagedDatabaseIsSetAsideAndTheDaemonStarts(damage: String) throws {
    let server = try LocalServer.start { _ in ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    let first = try scene.get(server.url("/a"), to: "a") { $0.isSuspended = true }
    try scene.restart {
      let database = "\(scene.home)/ferry.sqlite"
      for suffix in ["-wal", "-shm"] { try Files.remove(database + suffix) }
      let size = try Files.identity(path: database).sizeBytes
      switch damage {
      case "empty": try Data().write(to: URL(filePath: database))
      case "zeros": try Data(count: Int(size)).write(to: URL(filePath: database))
      default:
        var bytes = try Data(contentsOf: URL(filePath: database))
        for index in 100..<min(bytes.count, 8000) { bytes[index] = UInt8(truncatingIfNeeded: index &* 31) }
        try bytes.write(to: URL(filePath: database))
      }
    }
    let id = try scene.get(server.url("/b"), to: "b")
    #expect(try scene.ended(id).state == "succeeded")
    try ResumeCases.expectWhole(scene, "b")
    if damage != "empty" { #expect(scene.log.contains("damaged"), "\(scene.log)") }
    _ = first
  }

  /// Row 11.
  @Test func oneUnreadableRowIsReportedAndTheOthersStart() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    server.refuseConnections()
    let ids = try (0..<5).map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    try scene.restart { try Database(scene.home).spoil(ids[2]) }
    try server.acceptConnections()
    for (index, id) in ids.enumerated() where index != 2 {
      #expect(try scene.ended(id).state == "succeeded")
      try ResumeCases.expectWhole(scene, "file\(index)")
    }
    let status = try scene.call(.daemonStatus(EmptyParameters()), DaemonStatusResult.self)
    let isTold = try scene.call(.taskList(TaskListParameters()), TaskListResult.self).tasks
      .contains { $0.id == ids[2] && $0.error?.code == "recordUnreadable" }
    #expect(!status.quarantined.isEmpty || isTold)
    #expect(scene.log.contains("set aside"))
  }

  /// Row 13.
  @Test func aClientKilledInItsFirstResultGetsTheOthersAndTheFirstAgain() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    let ids = try scene.enqueue((0..<3).map { Self.managed(server.url("/\($0)")) }).compactMap(\.id)
    try scene.waitForDeliveries("three results") { $0.count { $0.kind == "completion" } == 3 }
    try scene.waitForDeliveries("finish-events") { $0.contains { $0.kind == "finishEvents" } }
    let before = scene.deliveries
    #expect(before.map(\.number) == (1...7).map(Int64.init))
    // Each result's file comes before its completion.
    for id in ids {
      #expect(before.filter { $0.task?.id == id }.map(\.kind) == ["file", "completion"])
    }
    // The client dies without a word; the next one is offered all of it again, under the same numbers.
    for signal in [nil, SIGKILL] {
      if let signal { try scene.restart(signal) } else { scene.close() }
      scene.forgetDeliveries()
      if signal == nil { try scene.connect() } else { scene.close(); scene.forgetDeliveries(); try scene.connect() }
      try scene.waitForDeliveries("everything again") { $0.count == 7 }
      #expect(scene.deliveries.map(\.number) == before.map(\.number))
      #expect(scene.deliveries.map(\.kind) == before.map(\.kind))
    }
    // What was acknowledged never comes again, what was not always does.
    try scene.acknowledge([before[0].number, before[1].number])
    scene.close()
    scene.forgetDeliveries()
    try scene.restart()
    try scene.waitForDeliveries("the rest") { $0.count == 5 }
    #expect(scene.deliveries.map(\.number) == Array(before.map(\.number).dropFirst(2)))
  }

  /// Row 14.
  @Test func aResultOfWhichNobodyHeardIsStillThere() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    server.refuseConnections()
    let id = try scene.enqueue(Self.managed(server.url("/file")))
    scene.close()
    try server.acceptConnections()
    #expect(server.waitForExchanges(1, seconds: 20))
    // Somebody looks on without being the session's client.
    try scene.connect(attaching: false)
    while try scene.show(id).state != "succeeded" {}
    scene.close()
    try scene.restart()
    try scene.waitForDeliveries("the file") { $0.contains { $0.kind == "file" } }
    let delivery = try #require(scene.deliveries.first { $0.kind == "file" })
    let path = try #require(delivery.task?.file)
    #expect(ResumeCases.content.verify(try Files.read(path, limitBytes: 1 << 20)) == nil)
    // It may be moved away by who is offered it, and goes once it is acknowledged.
    try scene.acknowledge([delivery.number])
    let deadline = BootInstant.now() + .seconds(10)
    while (try? Files.identity(path: path)) != nil {
      try #require(BootInstant.now() < deadline)
      _ = try scene.show(id)
    }
  }

  /// Row 16.
  @Test func aTaskIsNotShownAsRunningAfterAKill() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole().stall(afterBytes: 100_000) }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    try scene.wait(id, for: "100,000 bytes") { $0.received == 100_000 }
    try scene.restart {
      // Not before the kill: the old daemon would write down that it lost the connection.
      server.refuseConnections(endingCurrent: true)
    }
    let task = try scene.wait(id, for: "waiting with a reason") { $0.state == "waiting" && $0.reason != nil }
    #expect(task.received == 100_000)
    #expect(task.error?.code == "connectionRefused" || task.reason == "about to start")
  }

  /// Row 16: a body too small to be recorded before it is whole is fetched again.
  @Test func aSmallBodyCutByAKillIsFetchedAgain() throws {
    let content = GeneratedContent(length: 200_000, seed: 13)
    let server = try Script.start(
      { _ in Response.bytes(content.allBytes).etag("\"a\"").stall(afterBytes: 90_000) },
      { _ in Response.bytes(content.allBytes).etag("\"a\"") })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    try scene.wait(id, for: "90,000 bytes") { $0.received == 90_000 }
    try scene.restart()
    #expect(try scene.ended(id).state == "succeeded")
    #expect(content.verify(try scene.bytes("result")) == nil)
  }

  /// Row 16: nothing waits for a record that nobody writes, whatever its length.
  @Test(arguments: [0, 1, 131_071, 131_072, 131_073, 200_000, 262_143, 262_144, 262_145])
  func bodiesOfEveryLengthArrive(length: Int) throws {
    let server = try LocalServer.start { _ in Response.generated(length: length, seed: 14).etag("\"a\"") }
    defer { server.stop() }
    let scene = try Scene()
    #expect(try scene.ended(try scene.get(server.url("/file")), seconds: 10).state == "succeeded")
    #expect(try scene.bytes("result") == GeneratedContent(length: length, seed: 14).allBytes)
  }

  /// Row 17.
  @Test func whatHasFinishedIsStillListedAfterRestarts() throws {
    let server = try LocalServer.start { request in request.path == "/bad" ? .status(404) : ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    let good = try scene.get(server.url("/file"), to: "good")
    let bad = try scene.get(server.url("/bad"), to: "bad")
    _ = try scene.ended(good)
    _ = try scene.ended(bad)
    for signal in [SIGKILL, SIGTERM] {
      try scene.restart(signal)
      // What was shown as ended a moment before its commit is placed once more, without a request.
      _ = try scene.ended(good)
      let tasks = try scene.call(.taskList(TaskListParameters()), TaskListResult.self).tasks
      #expect(tasks.map(\.id) == [good, bad])
      #expect(tasks.map(\.state) == ["succeeded", "failed"])
      #expect(tasks.map { $0.response?.status ?? $0.error?.number } == [200, 404])
      #expect(tasks[0].file == scene.path("good"))
    }
    #expect(server.requestCount == 2)
  }

  /// Row 36: pause and resume as fast as they come; no old run writes into the new one's file.
  @Test func anOldRunNeverWritesIntoANewOne() throws {
    let server = try LocalServer.start(configuration: Self.smallBuffers) { _ in
      Response.generated(length: 2_000_000, seed: 7).etag("\"a\"").throttled(bytes: 16_000, every: .milliseconds(4))
    }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    for _ in 0..<40 {
      try scene.suspend(id)
      try scene.resume(id)
    }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded")
    let found = try scene.bytes("result")
    #expect(found.count == 2_000_000)
    #expect(GeneratedContent(length: 2_000_000, seed: 7).verify(found) == nil)
  }

  private static let smallBuffers: LocalServer.Configuration = {
    var configuration = LocalServer.Configuration()
    configuration.sendBufferByteCount = 16 << 10
    return configuration
  }()

  /// Row 36: one state, one daemon, though the first one does not answer.
  @Test func aSecondDaemonDoesNotTakeTheStateOfAStoppedOne() throws {
    let scene = try Scene()
    kill(scene.processID, SIGSTOP)
    defer { kill(scene.processID, SIGCONT) }
    let second = try Tool.run(
      "\(Scene.programFolder)/ferryd", ["--foreground"], environment: ["FERRY_HOME": scene.home])
    #expect(second.status == 75, "\(second.output)")
  }

  /// Row 48.
  @Test func aPausedTaskStaysPaused() throws {
    let server = try LocalServer.start { request in
      request.path == "/paused" && request.headers["Range"] == nil
        ? ResumeCases.whole().stall(afterBytes: 100_000) : ResumeCases.whole()
    }
    defer { server.stop() }
    let scene = try Scene()
    let paused = try scene.get(server.url("/paused"), to: "paused")
    try scene.wait(paused, for: "100,000 bytes") { $0.received == 100_000 }
    try scene.suspend(paused)
    #expect(try scene.ended(try scene.get(server.url("/a"), to: "a")).state == "succeeded")
    for signal in [SIGKILL, SIGTERM] {
      try scene.restart(signal)
      #expect(try scene.show(paused).state == "suspended")
      #expect(try scene.show(paused).received == 100_000)
      #expect(try scene.ended(try scene.get(server.url("/\(signal)"), to: "b\(signal)")).state == "succeeded")
      #expect(try scene.show(paused).state == "suspended")
    }
    #expect(server.requests.count { $0.path == "/paused" } == 1)
    try scene.resume(paused)
    #expect(try scene.ended(paused).state == "succeeded")
    #expect(server.requests.last?.headers["Range"] == "bytes=100000-")
    try ResumeCases.expectWhole(scene, "paused")
  }

  /// Row 65.
  @Test func hundredsOfSmallTransfersEndInOneFinishEvents() throws {
    let server = try LocalServer.start { _ in .generated(length: 1000) }
    defer { server.stop() }
    let scene = try Scene()
    let count = 400
    _ = try scene.enqueue((0..<count).map { Self.managed(server.url("/\($0)")) })
    // At most 256 are offered ahead of their acknowledgements, so acknowledge as they come.
    var acknowledged = 0
    while acknowledged < count * 2 + 1 {
      let known = acknowledged
      try scene.waitForDeliveries("more than \(known)") { $0.count > known }
      let fresh = scene.deliveries.dropFirst(known).map(\.number)
      try scene.acknowledge(Array(fresh))
      acknowledged += fresh.count
    }
    let kinds = scene.deliveries.map(\.kind)
    #expect(kinds.count { $0 == "completion" } == count)
    #expect(kinds.count { $0 == "finishEvents" } == 1)
    #expect(kinds.last == "finishEvents")
    #expect(scene.deliveries.map(\.number) == (1...Int64(count * 2 + 1)).map { $0 })
    #expect(server.peakConcurrentRequests <= 6)
  }

  /// Row 66.
  @Test func anotherRunsTasksAreNormalAndIdsAreNeverUsedAgain() async throws {
    let server = try LocalServer.start { _ in ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    server.refuseConnections()
    let earlier = try scene.get(server.url("/earlier"), to: "earlier") { $0.description = "mine, from before" }
    try scene.restart()
    // A client that did not create it hears of it, with its description.
    try server.acceptConnections()
    let task = try scene.ended(earlier)
    #expect(task.description == "mine, from before")
    try scene.waitForDeliveries("its completion") { $0.contains { $0.kind == "completion" } }
    try scene.acknowledge(scene.deliveries.map(\.number))
    #expect(throws: (any Error).self) { try scene.show(earlier) }
    try scene.restart()
    let later = try scene.get(server.url("/later"), to: "later")
    #expect(later > earlier)
    let number = try scene.show(later).number
    #expect(number == 2)
    // What is not there is said, and harms nothing.
    let reached = try scene.call(
      .taskCancel(TaskIdentifiersParameters(ids: [earlier, later])), TaskIdentifiersResult.self)
    #expect(reached.unknown == [earlier])
    #expect(reached.ids == [later])
  }

  /// Row 69: memory and messages do not grow with a server that is faster than the disk.
  @Test func aVeryFastServerFloodsNeitherMemoryNorClients() throws {
    let length = 256 << 20
    let server = try LocalServer.start { _ in Response.generated(length: length, seed: 9).etag("\"a\"") }
    defer { server.stop() }
    let scene = try Scene()
    let began = BootInstant.now()
    let id = try scene.get(server.url("/file"))
    let task = try scene.ended(id, seconds: 100)
    #expect(task.state == "succeeded")
    let seconds = (BootInstant.now() - began) / .seconds(1)
    #expect(Double(scene.progress(id).count) <= seconds * 10 + 5)
    #expect(try Memory.peakKilobytes(scene.processID) < 80_000)
    #expect(try Files.identity(path: scene.path("result")).sizeBytes == Int64(length))
  }
}

/// The daemon's database, looked at and harmed from outside with Python's SQLite.
struct Database {
  let path: String
  init(_ home: String) { path = "\(home)/ferry.sqlite" }

  private func run(_ script: String, _ arguments: [String]) throws -> String {
    let outcome = try Tool.run("/usr/bin/env", ["python3", "-c", script, path] + arguments)
    guard outcome.status == 0 else { throw Scene.Trouble(outcome.output) }
    return outcome.output
  }

  func resumeOffset(_ id: Int64) throws -> Int {
    let script = """
      import sqlite3, sys
      query = "SELECT resume_offset FROM task_progress WHERE task = ?"
      row = sqlite3.connect(sys.argv[1]).execute(query, (int(sys.argv[2]),)).fetchone()
      print(row[0] or 0)
      """
    return Int(try run(script, ["\(id)"]).trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
  }

  /// Puts a text where a number belongs.
  func spoil(_ id: Int64) throws {
    let script = """
      import sqlite3, sys
      db = sqlite3.connect(sys.argv[1])
      db.execute("UPDATE task SET received = 'garbage' WHERE id = ?", (int(sys.argv[2]),))
      db.commit()
      """
    _ = try run(script, ["\(id)"])
  }
}

enum Memory {
  /// VmHWM of proc(5): the most that was ever resident.
  static func peakKilobytes(_ processID: Int32) throws -> Int {
    let status = try readText("/proc/\(processID)/status")
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
    return Int(
      line.split(separator: " ").dropFirst().first.map { String($0).trimmingCharacters(in: .whitespaces) } ?? "")
      ?? Int.max
  }
}
