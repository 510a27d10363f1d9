import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import TransferCore
import WireProtocol

/// A filesystem of its own, small enough to fill. Needs the right to mount.
final class SmallFilesystem {
  let path: String
  static let isPossible: Bool = {
    guard geteuid() == 0, let small = try? SmallFilesystem(kibibytes: 64) else { return false }
    return !small.path.isEmpty
  }()

  init(kibibytes: Int) throws {
    path = "/tmp/ferry-small-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(path)
    let status = try Shell.run(
      "/bin/mount", ["-t", "tmpfs", "-o", "size=\(kibibytes)k,mode=0700", "ferry-test", path])
    guard status == .exited(code: 0) else {
      Shell.remove(path)
      throw Late("mount(8): \(status)")
    }
  }

  deinit {
    _ = try? Shell.run("/bin/umount", ["-l", path])
    Shell.remove(path)
  }

  private var filler: String { path + "/filler" }

  /// Leaves so many bytes free.
  func fill(leaving bytes: Int64 = 0) throws {
    let file = OwnedDescriptor(
      adopting: try Syscall.retrying("open") { unsafe open(filler, O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0o600) })
    let chunk = [UInt8](repeating: 0xEE, count: 4096)
    while try Files.freeBytes(path: path) > bytes {
      do throws(SystemError) { try Syscall.writeAll(file.raw, chunk) } catch { return }
    }
  }

  func free() throws { try Files.remove(filler) }
}

/// Disks that are full, break, or come back with nonsense.
@Suite(.timeLimit(.minutes(5))) struct DiskTests {
  @Test(
    .enabled(if: SmallFilesystem.isPossible, "needs the right to mount a small filesystem"), arguments: [true, false])
  func aFullDestinationIsWaitedFor(isLengthKnown: Bool) throws {
    let small = try SmallFilesystem(kibibytes: 12 << 10)
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 8 << 20, seed: 6)
    // Without a length the disk is found full in the middle of the body.
    server.put("/f", content) { isLengthKnown ? $0 : $0.chunked() }
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    try small.fill(leaving: 3 << 20)
    let id = try client.download(server.url("/f"), to: small.path + "/f", in: session)
    let waiting = try client.waitForTask(id, "waits for space") { $0.state == "waiting" && $0.attempts >= 1 }
    #expect(waiting.error?.code == "noSpace")
    let reason = try #require(waiting.reason)
    // What is there and what is missing, in bytes.
    let later = try client.waitForTask(id, "knows what it needs", seconds: 30) { task in
      task.state == "waiting" && task.reason.map { $0.contains("bytes free") && $0.contains("are needed") } == true
    }
    print("full disk: \(reason) / \(later.reason ?? "")")
    #expect(isLengthKnown || later.received > 0, "what came is kept")
    // Others are not stopped by it.
    server.put("/g", content)
    let other = try client.download(server.url("/g"), to: home.out + "/g", in: session)
    #expect(try client.waitForEnd(of: other).state == "succeeded")
    try small.free()
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "succeeded")
    expectContent(task.file, content)
    for twice in try server.fetchedTwice("/f") { #expect(twice <= 1 << 20) }
  }

  @Test(.enabled(if: SmallFilesystem.isPossible, "needs the right to mount a small filesystem"))
  func aFullStateFolderIsSaidAndGoneThrough() throws {
    let small = try SmallFilesystem(kibibytes: 16 << 10)
    let outside = try DaemonHome()
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 3 << 20, seed: 8)
    let gate = Gate()
    server.put("/f", content) { $0.stall(afterBytes: 1 << 20, until: gate) }
    let home = try DaemonHome(at: small.path)
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let id = try client.download(server.url("/f"), to: outside.out + "/f", in: session)
    try client.waitForBytes(of: id, atLeast: 1 << 20)
    try small.fill()
    // Accepted work must be on record: these wait for it, one of them finds the disk full.
    var promised: [Int64] = []
    let degraded = try eventually("the daemon says that it cannot store", seconds: 60) { () -> String? in
      let number = promised.count
      server.put("/p\(number)", GeneratedContent(length: 1000, seed: 1))
      var specification = WireTaskSpecification.download(server.url("/p\(number)"), to: outside.out + "/p\(number)")
      specification.description = String(repeating: "d", count: 60_000)
      promised.append(
        try client.send(.taskEnqueue(TaskEnqueueParameters(session: session, tasks: [specification]))))
      return try client.status().degraded
    }
    print("full state folder: \(degraded)")
    // New work is refused in words, questions are answered.
    do {
      try client.download(server.url("/q"), to: outside.out + "/q", in: session)
      Issue.record("work was accepted that cannot be stored")
    } catch ProtocolClient.Failure.refused(let error) {
      #expect(error.name == .degraded, "\(error)")
    }
    #expect(try client.show(id).state == "running")
    // What runs goes on; its result gets its name when its row can say so.
    gate.open()
    try eventually("the running download is in", is: { try client.show(id).received == Int64(content.length) })
    try small.free()
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "succeeded")
    expectContent(task.file, content)
    try eventually("the daemon can store again", is: { try client.status().degraded == nil })
    // Every promise that was made is kept; those that were refused said so.
    var kept = 0
    for request in promised {
      do {
        let receipt = try client.reply(to: request, TaskEnqueueResult.self).tasks[0]
        if let id = receipt.id {
          #expect(try client.waitForEnd(of: id).state == "succeeded")
          kept += 1
        }
      } catch ProtocolClient.Failure.refused(let error) {
        #expect(error.name == .degraded)
      }
    }
    #expect(kept > 0)
    try client.download(server.url("/f"), to: outside.out + "/again", in: session)
    daemon.signal(SIGTERM)
    #expect(try daemon.wait() == .exited(code: 0))
  }

  /// Failure case 82. Bodies of unknown length: nothing says beforehand that they do not fit.
  @Test(.enabled(if: SmallFilesystem.isPossible, "needs the right to mount a small filesystem"))
  func partsLeaveTheRecordsTheirRoom() throws {
    let small = try SmallFilesystem(kibibytes: 32 << 10)
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 14 << 20, seed: 6)
    let gate = Gate()
    // None can have its end before all have filled the disk.
    for number in 1...3 { server.put("/\(number)", content) { $0.chunked().stall(afterBytes: 8 << 20, until: gate) } }
    let home = try DaemonHome(at: small.path)
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let ids = try (1...3).map { try client.download(server.url("/\($0)"), in: session) }
    for id in ids { try client.waitForBytes(of: id, atLeast: 8 << 20) }
    gate.open()
    for id in ids {
      try client.waitForTask(id, "waits for room", seconds: 60) { $0.state == "waiting" && $0.error?.code == "noSpace" }
    }
    #expect(try Files.freeBytes(path: small.path) > 1 << 20, "the records have room")
    #expect(try client.show(ids[0]).blockers?.map(\.name) == ["space"])
    #expect(try client.status().degraded == nil, "work for other disks is taken")
    _ = try client.call(.taskCancel(TaskIdentifiersParameters(ids: [ids[0]])), TaskIdentifiersResult.self)
    _ = try client.call(.taskRemove(TaskIdentifiersParameters(ids: [ids[1]])), TaskIdentifiersResult.self)
    // They have made room for the last one.
    let task = try client.waitForEnd(of: ids[2])
    #expect(task.state == "succeeded")
    expectContent(task.file, content)
    daemon.signal(SIGTERM)
    #expect(try daemon.wait() == .exited(code: 0))
  }

  /// Failure case 82: what somebody else writes takes all the room that there is.
  @Test(
    .enabled(if: SmallFilesystem.isPossible, "needs the right to mount a small filesystem"), arguments: [false, true])
  func onADiskThatIsFullTasksCanBeCancelledAndRemoved(startsOnIt: Bool) throws {
    let small = try SmallFilesystem(kibibytes: 32 << 10)
    let server = try ContentServer()
    defer { server.stop() }
    let gate = Gate()
    defer { gate.open() }
    let content = GeneratedContent(length: 6 << 20, seed: 6)
    for number in 1...2 { server.put("/\(number)", content) { $0.stall(afterBytes: 5 << 20, until: gate) } }
    server.put("/later", GeneratedContent(length: 1000, seed: 1))
    let home = try DaemonHome(at: small.path)
    let daemon = try home.startForeground()
    var client = try home.connect()
    var session = try client.open("s", collects: false)
    let ids = try (1...2).map { try client.download(server.url("/\($0)"), in: session) }
    for id in ids { try client.waitForBytes(of: id, atLeast: 5 << 20) }
    if startsOnIt { daemon.kill() }
    try small.fill()
    if startsOnIt {
      try home.startForeground()
      client = try home.connect()
      session = try client.open("s", attach: false)
    }
    // Large enough that the file system has no page left for it that is allocated already.
    for _ in 1...4 {
      var update = TaskUpdateParameters(id: ids[0])
      update.description = String(repeating: "d", count: 60_000)
      _ = try client.call(.taskUpdate(update), EmptyResult.self)
    }
    let degraded = try eventually("new work is refused", seconds: 60) { try client.status().degraded }
    #expect(degraded.contains("full"))
    #expect(throws: ProtocolClient.Failure.self) { try client.download(server.url("/later"), in: session) }
    _ = try client.call(.taskCancel(TaskIdentifiersParameters(ids: [ids[0]])), TaskIdentifiersResult.self)
    #expect(try client.show(ids[0]).state == "cancelled")
    _ = try client.call(.taskRemove(TaskIdentifiersParameters(ids: ids)), TaskIdentifiersResult.self)
    try eventually("their parts are gone", is: { home.ownFiles().isEmpty })
    try eventually("there is room for work again", is: { try client.status().degraded == nil })
    let later = try client.download(server.url("/later"), in: session)
    #expect(try client.waitForEnd(of: later).state == "succeeded")
  }

  /// Else parts take what is freed as it comes, and the reserve never has its room again.
  @Test(.enabled(if: SmallFilesystem.isPossible, "needs the right to mount a small filesystem"))
  func whatIsFreedIsTheReservesFirst() throws {
    let small = try SmallFilesystem(kibibytes: 8 << 10)
    let file = try Files.createPrivate(small.path + "/part")
    try small.fill(leaving: 3 << 19)
    let room = KeptRoom(bytes: 1 << 20)
    #expect(room.admits(1 << 18, to: file.raw))
    room.double(true)
    #expect(!room.admits(1 << 18, to: file.raw))
    #expect(room.bytes == 2 << 20)
    room.double(false)
    #expect(room.admits(1 << 18, to: file.raw))
  }

  /// After a failed fsync(2) the kernel takes the lost pages for clean: a second call says that all is well. The bytes
  /// must be fetched again.
  @Test(arguments: ["worker.fsync:1:EIO", "part.fsync:1:EIO", "worker.fsync:1:ENOSPC"], [false, true])
  func bytesThatTheDiskDidNotKeepAreFetchedAgain(_ fault: String, isPlaced: Bool) throws {
    let server = try ContentServer()
    defer { server.stop() }
    // Beyond 4 MiB the part file is synced while it grows.
    let content = GeneratedContent(length: fault.hasPrefix("part") ? 12 << 20 : 700_000, seed: 8)
    server.put("/f", content)
    let home = try DaemonHome(["FERRY_FAULT": fault])
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let id = try client.download(server.url("/f"), to: isPlaced ? home.out + "/f" : nil, in: session)
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "succeeded", "\(task)")
    expectContent(task.file, content)
    #expect(server.server.requests.map { $0.headers["Range"] } == [nil, nil])
  }

  @Test(arguments: [
    "folder.fsync:1:EIO", "file.place:1:EIO", "part.open:1:EIO",
    "store.commit:2:EIO", "store.commit:3:ENOSPC",
  ])
  func aDiskErrorIsGoneThrough(_ fault: String) throws {
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 700_000, seed: 8)
    for path in ["/managed", "/placed"] { server.put(path, content) }
    let home = try DaemonHome(["FERRY_FAULT": fault])
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let receipts = try client.enqueue(
      [.download(server.url("/managed")), .download(server.url("/placed"), to: home.out + "/placed")], in: session)
    for receipt in receipts {
      let id = try #require(receipt.id)
      let task = try client.waitForEnd(of: id)
      #expect(task.state == "succeeded", "\(task)")
      expectContent(task.file, content)
    }
    #expect(daemon.errorText.contains("fault point"), "the fault was met")
    try eventually("only the result is left", is: { DaemonHome.names(in: home.out) == ["placed"] })
    #expect(try client.status().degraded == nil)
  }

  // MARK: Records

  private func sql(_ home: DaemonHome, _ statement: String) throws {
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
    let result = try Shell.output("/usr/bin/python3", ["-c", script, home.path + "/ferry.sqlite", statement])
    try #require(result.status == .exited(code: 0), "\(result.errors)")
  }

  /// The disk fails a read now and then: that is no damaged record.
  @Test func aReadThatFailsForAWhileLosesNothing() throws {
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 50_000, seed: 3)
    for number in 1...3 { server.put("/\(number)", content) }
    let home = try DaemonHome()
    var daemon = try home.startForeground()
    var client = try home.connect()
    let session = try client.open("s")
    for number in 1...3 {
      var specification = WireTaskSpecification(kind: "download", url: server.url("/\(number)"))
      specification.isSuspended = true
      _ = try client.enqueue(specification, in: session)
    }
    func restart() throws {
      daemon.signal(SIGTERM)
      try daemon.wait()
      daemon = try home.startForeground(["FERRY_FAULT": "store.read:1:EIO,store.read:2:EIO"])
      client = try home.connect()
    }
    // Plans are read when their tasks begin.
    try restart()
    _ = try client.open("s", attach: false)
    _ = try client.call(.taskResume(TaskIdentifiersParameters(ids: [1, 2, 3])), TaskIdentifiersResult.self)
    for id in 1...3 { #expect(try client.waitForEnd(of: Int64(id)).state == "succeeded") }
    #expect(daemon.errorText.contains("fault point"), "the fault was met")
    // Results are read when somebody comes for them.
    try restart()
    _ = try client.open("s")
    for _ in 1...3 {
      let file = try client.delivery()
      #expect(file.kind == "file")
      expectContent(file.task?.file, content)
      try client.acknowledge([file.number], in: session)
      let end = try client.delivery()
      #expect(end.kind == "completion")
      try client.acknowledge([end.number], in: session)
    }
    #expect(daemon.errorText.contains("fault point"), "the fault was met")
  }

  struct Damage: CustomTestStringConvertible, Sendable {
    var statement: String
    /// The row of the task itself is lost; else only its details are.
    var losesTask: Bool
    var testDescription: String { statement }
  }

  @Test(arguments: [
    Damage(statement: "UPDATE task SET state = 'pondering' WHERE id = 2", losesTask: true),
    Damage(statement: "UPDATE task SET received = -5 WHERE id = 2", losesTask: true),
    Damage(statement: "UPDATE task_plan SET method = x'00ff' WHERE task = 2", losesTask: false),
    Damage(statement: "UPDATE task_progress SET wasted = 'much' WHERE task = 2", losesTask: false),
    Damage(statement: "DELETE FROM task_plan WHERE task = 2", losesTask: false),
  ]) func anUnreadableRowStopsNobodyElse(_ damage: Damage) throws {
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 50_000, seed: 8)
    for number in 1...3 { server.put("/\(number)", content) }
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    for number in 1...3 {
      var specification = WireTaskSpecification.download(server.url("/\(number)"), to: home.out + "/\(number)")
      specification.isSuspended = true
      #expect(try client.enqueue(specification, in: session) == Int64(number))
    }
    daemon.signal(SIGTERM)
    try daemon.wait()
    try sql(home, damage.statement)
    try home.startForeground()
    let next = try home.connect()
    let again = try next.open("s")
    #expect(again == session)
    _ = try next.call(.taskResume(TaskIdentifiersParameters(ids: [1, 2, 3])), TaskIdentifiersResult.self)
    for id in [Int64(1), 3] { #expect(try next.waitForEnd(of: id).state == "succeeded") }
    if damage.losesTask {
      #expect(try next.status().quarantined.count == 1)
      #expect(try next.list().map(\.id) == [1, 3])
    } else {
      let task = try next.waitForEnd(of: 2)
      #expect(task.state == "failed" && task.error?.code == "recordUnreadable", "\(task)")
    }
    // Its name is free again for whoever tries anew.
    server.put("/again", content)
    let fresh = try next.download(server.url("/again"), to: home.out + "/2", in: session)
    #expect(fresh > 3, "an id is never used again")
    let task = try next.waitForEnd(of: fresh)
    #expect(task.state == "succeeded")
  }

  @Test(arguments: [0, 50, 5000]) func aDamagedDatabaseIsSetAside(offset: Int) throws {
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/f", GeneratedContent(length: 50_000, seed: 8))
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    do {
      let client = try home.connect()
      let session = try client.open("s", collects: false)
      #expect(try client.waitForEnd(of: client.download(server.url("/f"), to: home.out + "/f", in: session)).hasEnded)
    }
    daemon.signal(SIGTERM)
    try daemon.wait()
    let database = home.path + "/ferry.sqlite"
    var bytes = try Files.read(database, limitBytes: 64 << 20)
    for index in offset..<min(offset + 4096, bytes.count) { bytes[index] = UInt8(truncatingIfNeeded: index &* 31) }
    try Files.atomicWrite(database, bytes)
    let next = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("t", collects: false)
    server.put("/g", GeneratedContent(length: 50_000, seed: 8))
    let task = try client.waitForEnd(of: client.download(server.url("/g"), to: home.out + "/g", in: session))
    #expect(task.state == "succeeded")
    #expect(next.errorText.contains("error"), "it says what was damaged: \(next.errorText)")
    expectContent(home.out + "/f", GeneratedContent(length: 50_000, seed: 8))
  }
}
