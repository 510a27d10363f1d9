import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// What a reboot and a killed client leave, and what is made of it.
@Suite(.timeLimit(.minutes(5))) struct RebootTests {
  /// A reboot is simulated: another boot id, and the page cache's bytes replaced by what a disk may hold instead.
  @Test(arguments: [false, true]) func afterARebootOnlyWhatWasSyncedCounts(isPlaced: Bool) throws {
    let content = GeneratedContent(length: 30_000_000, seed: 77)
    let answers = Mutex(0)
    let server = try LocalServer.start { _ in
      let number = answers.withLock { answers in
        answers += 1
        return answers
      }
      let whole = Response.generated(length: content.length, seed: content.seed).etag("\"v\"")
      return number <= 3 ? whole.stall(afterBytes: 5_000_000 + number * 1_234_567) : whole
    }
    defer { server.stop() }
    let home = try DaemonHome()
    var id: Int64 = 0
    var reached: Int64 = 0
    var twice: [Int64] = []
    for boot in 1...3 {
      let daemon = try home.startForeground(["FERRY_TEST_BOOT_ID": "boot-\(boot)"])
      let client = try home.connect()
      if boot == 1 {
        id = try client.download(server.url("/f"), to: isPlaced ? home.out + "/f" : nil, in: try client.open("s"))
      }
      // The synced offset of the row is where this boot begins.
      try #require(server.waitForRequests(boot, seconds: 30))
      let start = Int64(ContentServer.rangeStart(server.requests[boot - 1]))
      if boot > 1 { twice.append(reached - start) }
      reached = start + 5_000_000 + Int64(boot) * 1_234_567
      try client.waitForBytes(of: id, atLeast: reached)
      try eventually("some of it is on record as synced", is: { try syncedBytes(home, id) > 0 })
      daemon.kill()
      try ruin(home, id)
    }
    try home.startForeground(["FERRY_TEST_BOOT_ID": "boot-4"])
    let task = try home.waitForEnd(of: id)
    #expect(task.state == "succeeded", "\(task)")
    expectContent(task.file, content)
    twice.append(reached - Int64(ContentServer.rangeStart(server.requests[3])))
    print("after reboots \(twice) bytes were fetched twice")
    for count in twice { #expect((0...Int64(8 << 20)).contains(count)) }
    #expect(server.requestCount == 4)
  }

  private func syncedBytes(_ home: DaemonHome, _ id: Int64) throws -> Int64 {
    let script = """
      import sqlite3, sys
      print(sqlite3.connect(sys.argv[1]).execute(
          "SELECT coalesce(resume_offset, 0) FROM task_progress WHERE task = ?", (int(sys.argv[2]),)).fetchone()[0])
      """
    let result = try Shell.output("/usr/bin/python3", ["-c", script, home.path + "/ferry.sqlite", "\(id)"])
    return Int64(result.output.filter(\.isNumber)) ?? 0
  }

  /// Replaces everything behind the synced offset, and adds to it.
  private func ruin(_ home: DaemonHome, _ id: Int64) throws {
    let script = """
      import os, sqlite3, sys
      row = sqlite3.connect(sys.argv[1]).execute(
          "SELECT part_path, resume_offset FROM task_plan JOIN task_progress USING (task) WHERE task = ?",
          (int(sys.argv[2]),)).fetchone()
      size = os.path.getsize(row[0])
      assert row[1] is not None and 0 < row[1] <= size, row
      with open(row[0], "r+b") as file:
          file.seek(row[1])
          file.write(b"\\xa5" * (size - row[1] + 100_000))
      print(size - row[1])
      """
    let result = try Shell.output("/usr/bin/python3", ["-c", script, home.path + "/ferry.sqlite", "\(id)"])
    try #require(result.status == .exited(code: 0), "\(result.errors)")
  }

  enum Moment: String, CaseIterable {
    case beforePlacing = "file.place:1:kill"
    case afterPlacing = "folder.fsync:1:kill"
  }

  /// Placing is repeated after a kill, and must find what it had done.
  @Test(arguments: Moment.allCases, ["fail", "replace", "rename"])
  func aKillAroundPlacingMakesNoSecondFile(_ moment: Moment, _ collision: String) throws {
    let content = GeneratedContent(length: 300_000, seed: 6)
    let server = try LocalServer.start { _ in .generated(length: content.length, seed: content.seed).etag("\"v\"") }
    defer { server.stop() }
    let home = try DaemonHome()
    let first = try home.startForeground(["FERRY_FAULT": moment.rawValue])
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    var specification = WireTaskSpecification.download(server.url("/f"), to: home.out + "/f")
    specification.collision = collision
    if collision != "fail" { try Files.atomicWrite(home.out + "/f", Array("was here before".utf8)) }
    let id = try client.enqueue(specification, in: session)
    #expect(try first.wait() == .signalled(number: SIGKILL))
    try home.startForeground()
    let task = try home.waitForEnd(of: id)
    #expect(task.state == "succeeded", "\(task)")
    expectContent(task.file, content)
    let expected = collision == "rename" ? 2 : 1
    try eventually(
      "only results: \(DaemonHome.names(in: home.out))",
      is: {
        DaemonHome.names(in: home.out).count == expected
      })
    if collision == "rename" { #expect(try readText(home.out + "/f") == "was here before") }
  }

  /// The client dies in its handling of a result: the next process is offered the same one, and the file is there.
  @Test func aKilledClientsResultIsOfferedToTheNext() throws {
    let content = GeneratedContent(length: 400_000, seed: 5)
    let server = try LocalServer.start { _ in .generated(length: content.length, seed: content.seed).etag("\"v\"") }
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startForeground()
    do {
      let client = try home.connect()
      let session = try client.open("s", attach: false)
      try client.download(server.url("/f"), in: session)
      client.close()
    }
    let victim = """
      import json, os, socket, time
      link = socket.socket(socket.AF_UNIX)
      link.connect(os.environ["FERRY_HOME"] + "/ferryd.sock")
      lines = link.makefile("rw")
      def call(number, method, params):
          lines.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\\n")
          lines.flush()
      call(1, "hello", {"version": 1, "client": "victim/1"})
      call(2, "session.open", {"app": "tests", "identifier": "s", "attach": True, "collectsResults": True,
                               "network": {}})
      for line in lines:
          message = json.loads(line)
          if message.get("method") == "delivery" and message["params"]["kind"] == "file":
              print(message["params"]["number"], message["params"]["task"]["file"], flush=True)
              time.sleep(1000)
      """
    var seen: [String] = []
    for _ in 0..<3 {
      let process = try Program(
        "/usr/bin/python3", ["-c", victim], environment: home.environment, folder: home.path)
      let line = try eventually("the victim handles its file: \(process.errorText)") {
        process.outputText.hasSuffix("\n") ? process.outputText : nil
      }
      process.kill()
      seen.append(line)
    }
    #expect(Set(seen).count == 1, "\(seen)")
    let client = try home.connect()
    let session = try client.open("s")
    let file = try client.delivery()
    #expect(seen[0] == "\(file.number) \(file.task?.file ?? "")\n")
    expectContent(file.task?.file, content)
    try client.acknowledge([file.number], in: session)
    client.close()
    // An acknowledged one never comes again; those behind it do, in order, also after the daemon died.
    try home.killDaemon()
    try home.startForeground()
    let next = try home.connect()
    #expect(try next.open("s") == session)
    let completion = try next.delivery()
    #expect(completion.kind == "completion" && completion.number == file.number + 1)
    let last = try next.delivery()
    #expect(last.kind == "finishEvents" && last.number == file.number + 2)
    try next.acknowledge([completion.number, last.number], in: session)
    #expect(try next.list().isEmpty)
    try eventually("the file is gone", is: { home.ownFiles().isEmpty })
  }
}
