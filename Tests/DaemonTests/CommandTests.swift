import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing

/// The built `ferry` against the built `ferryd` and a real server, as a person or a script uses them.
@Suite(.serialized, .timeLimit(.minutes(5))) struct CommandTests {
  static let content = GeneratedContent(length: 300_000, seed: 5)

  /// Runs `body` with a home and a server, and ends both, the home's daemon included.
  static func with(
    _ handler: @escaping LocalServer.Handler, _ body: (CommandHome, LocalServer) throws -> Void
  ) throws {
    let server = try LocalServer.start(handler: handler)
    defer { server.stop() }
    let home = try CommandHome()
    do {
      try body(home, server)
    } catch {
      try? home.close()
      throw error
    }
    try home.close()
  }

  private static func serve(_ request: Request) -> Response {
    .generated(length: content.length, seed: content.seed).etag("\"v1\"")
  }

  // MARK: get

  @Test func getFetchesAFileAndPrintsItsPathOnly() throws {
    try Self.with(Self.serve) { home, server in
      let got = try home.run("get", server.url("/some/big%20file.bin?token=1"))
      #expect(got.code == 0, "\(got)")
      #expect(got.output == "\(home.work)/big file.bin\n")
      #expect(got.error.isEmpty)
      #expect(home.file("big file.bin") == Self.content.allBytes)
      #expect(server.requestCount == 1)
      #expect(server.requests.first?.headers["Range"] == nil)
    }
  }

  @Test func anExistingFileIsRefusedBeforeAnythingIsFetched() throws {
    try Self.with(Self.serve) { home, server in
      try home.write("a", "mine")
      let refused = try home.run("get", server.url("/a"))
      #expect(refused.code == 10, "\(refused)")
      #expect(refused.error.contains("--replace"))
      #expect(server.requestCount == 0)
      #expect(home.file("a") == Array("mine".utf8))

      let renamed = try home.run("get", server.url("/a"), "--rename")
      #expect(renamed.code == 0, "\(renamed)")
      #expect(renamed.output != "\(home.work)/a\n")
      #expect(home.file("a") == Array("mine".utf8))

      let replaced = try home.run("get", server.url("/a"), "--replace")
      #expect(replaced.output == "\(home.work)/a\n", "\(replaced)")
      #expect(home.file("a") == Self.content.allBytes)
    }
  }

  @Test func failuresHaveTheirExitCodes() throws {
    try Self.with({ $0.path == "/missing" ? .status(404) : Self.serve($0) }) { home, server in
      let missing = try home.run("get", server.url("/missing"))
      #expect(missing.code == 7, "\(missing)")
      #expect(missing.error.contains("404"))
      let digest = try home.run("get", server.url("/a"), "--sha256", String(repeating: "0", count: 64))
      #expect(digest.code == 8, "\(digest)")
      #expect(home.file("a") == nil)
      let late = try home.run("get", "http://127.0.0.1:1/a", "--max-time", "0.5")
      #expect(late.code == 12, "\(late)")
      #expect(try home.run("get", server.url("/a"), "-o", "no/such/folder/a").code == 10)
      #expect(try home.run("show", "99").code == 4)
      #expect(try home.run("get", "example.org/a").code == 2)
      #expect(try home.run("put", "nothing", server.url("/a")).code == 11)
    }
  }

  /// It looked as if it hung.
  @Test func withoutATerminalItSaysOnceWhyItWaits() throws {
    let first = FirstOnly()
    try Self.with({ first.take() ? .status(503).header("Retry-After", "3") : Self.serve($0) }) { home, server in
      let got = try home.run("get", server.url("/a"))
      #expect(got.code == 0, "\(got)")
      #expect(home.file("a") == Self.content.allBytes)
      let lines = got.error.split(separator: "\n")
      #expect(lines.count == 1, "\(got)")
      #expect(got.error.contains("Task 1 waits: ") && got.error.contains("503"), "\(got)")
      #expect(got.error.contains("`ferry why 1`"))
    }
  }

  @Test func aRightDigestAndAFolderAreTaken() throws {
    try Self.with({ _ in .text("hello\n") }) { home, server in
      try FileManager.default.createDirectory(atPath: "\(home.work)/in", withIntermediateDirectories: false)
      let got = try home.run(
        "get", server.url("/a.txt"), "-o", "in", "--sha256",
        "5891B5B522D5DF086D0FF0B110FBD9D21BB4FC7163AF34D08286A2E846F6BE03")
      #expect(got.output == "\(home.work)/in/a.txt\n", "\(got)")
      #expect(home.file("in/a.txt") == Array("hello\n".utf8))
    }
  }

  @Test func detachedTransfersAreListedShownAndWaitedFor() throws {
    let gate = Gate()
    try Self.with({ Self.serve($0).stall(afterBytes: 1000, until: gate) }) { home, server in
      let detached = try home.run("get", "-d", server.url("/a"), "--session", "mine")
      #expect(detached.code == 0 && detached.output == "1\n", "\(detached)")
      let task = try home.waitForTask(1, "first bytes") { $0.received > 0 }
      #expect(task.state == "running" && task.session == "mine" && task.kind == "download")
      #expect(task.expected == Int64(Self.content.length))

      let listed = try home.run("list")
      #expect(listed.output.split(separator: "\n").count == 2, "\(listed)")
      let array = try JSONDecoder().decode(
        [ShownTask].self, from: Data(try home.run("list", "--json", "--unfinished").output.utf8))
      #expect(array.map(\.id) == [1])
      #expect(try home.run("list", "--json", "--session", "other").output == "[]\n")
      #expect(try home.run("why", "1").output.hasPrefix("Task 1 is running"))

      gate.open()
      let waited = try home.run("wait", "1")
      #expect(waited.code == 0 && waited.output == "\(home.work)/a\n", "\(waited)")
      #expect(try home.run("wait").code == 0)
      #expect(home.file("a") == Self.content.allBytes)
      #expect(try home.run("remove", "1").code == 0)
      #expect(try home.run("list", "--json").output == "[]\n")
      #expect(home.file("a") == Self.content.allBytes)
    }
  }

  @Test func interruptingLetsGoAndTheTransferGoesOn() throws {
    let gate = Gate()
    try Self.with({ Self.serve($0).stall(afterBytes: 1000, until: gate) }) { home, server in
      let running = try home.start(["get", server.url("/a")])
      #expect(gate.waitForWaiters(seconds: 30))
      running.interrupt()
      let left = try running.finish()
      #expect(left.code == 130, "\(left)")
      #expect(left.error.contains("`ferry wait 1`"))
      #expect(left.output.isEmpty)
      gate.open()
      #expect(try home.run("wait", "1").code == 0)
      #expect(home.file("a") == Self.content.allBytes)
      #expect(server.requestCount == 1)
    }
  }

  @Test func aCommandStaysThroughTheDeathOfTheDaemon() throws {
    let gate = Gate()
    let first = FirstOnly()
    let stalled: LocalServer.Handler = { request in
      first.take() ? Self.serve(request).stall(afterBytes: 150_000, until: gate) : Self.serve(request)
    }
    try Self.with(stalled) { home, server in
      let running = try home.start(["get", server.url("/a")])
      #expect(gate.waitForWaiters(seconds: 30))
      try home.waitForTask(1, "bytes") { $0.received >= 100_000 }
      struct Status: Decodable { var pid: Int32 }
      let status = try JSONDecoder().decode(
        Status.self, from: Data(try home.run("daemon", "status", "--json").output.utf8))
      kill(status.pid, SIGKILL)
      let got = try running.finish()
      gate.open()
      #expect(got.code == 0, "\(got)")
      #expect(home.file("a") == Self.content.allBytes)
    }
  }

  // MARK: put

  @Test func putSendsAFileAndPrintsTheAnswer() throws {
    try Self.with({ _ in Response.text("made\n").status(201) }) { home, server in
      try home.write("src", "hello")
      let sent = try home.run("put", "src", server.url("/up"), "-X", "POST", "-H", "X-A: b c")
      #expect(sent.code == 0 && sent.output == "made\n" && sent.error.isEmpty, "\(sent)")
      let request = try #require(server.requests.first)
      #expect(request.method == "POST" && request.bodyText == "hello")
      #expect(request.headers["X-A"] == "b c")
      #expect(request.headers["Content-Length"] == "5")
      #expect(request.headers["Idempotency-Key"]?.isEmpty == false)

      let bare = try home.run(
        "put", "src", server.url("/up"), "-X", "PATCH", "--no-idempotency-key", "-o", "answer")
      #expect(bare.code == 0 && bare.output.isEmpty, "\(bare)")
      #expect(home.file("answer") == Array("made\n".utf8))
      #expect(server.requests.last?.headers["Idempotency-Key"] == nil)
      #expect(try home.run("put", "src", server.url("/up"), "-o", "answer").code == 10)
    }
  }

  @Test func aRefusedUploadEndsWithTheServersCode() throws {
    try Self.with({ _ in .status(422) }) { home, server in
      try home.write("src", "hello")
      let refused = try home.run("put", "src", server.url("/up"))
      #expect(refused.code == 7 && refused.error.contains("422"), "\(refused)")
      #expect(server.requestCount == 1)
    }
  }

  // MARK: Steering

  @Test func manyFirstCommandsAtOnceMeetOneDaemon() throws {
    try Self.with(Self.serve) { home, server in
      let running = try (0..<20).map { try home.start(["get", "-d", server.url("/file-\($0)")]) }
      let ids = try running.map { (command) throws -> String in
        let detached = try command.finish()
        #expect(detached.code == 0, "\(detached)")
        return detached.output
      }
      #expect(Set(ids).count == 20)
      let waited = try home.run("wait")
      #expect(waited.code == 0, "\(waited)")
      for index in 0..<20 { #expect(home.file("file-\(index)") == Self.content.allBytes) }
      #expect(server.requestCount == 20)
    }
  }

  @Test func tasksArePausedResumedAndCancelled() throws {
    let gate = Gate()
    try Self.with({ Self.serve($0).stall(afterBytes: 1000, until: gate) }) { home, server in
      #expect(try home.run("get", "-d", server.url("/a")).code == 0)
      let running = try home.start(["get", server.url("/b")])
      try home.waitForTask(1, "bytes") { $0.received > 0 }
      #expect(try home.run("pause", "1").code == 0)
      try home.waitForTask(1, "the pause") { $0.state == "suspended" }
      #expect(try home.run("resume", "1").code == 0)
      try home.waitForTask(1, "the second attempt") { $0.state == "running" }

      let second = try home.run("list", "--json", "--unfinished")
      let ids = try JSONDecoder().decode([ShownTask].self, from: Data(second.output.utf8)).map(\.id)
      #expect(ids.count == 2)
      let cancelled = try home.run("cancel", "1", "2", "77", "--json")
      #expect(cancelled.code == 4, "\(cancelled)")
      #expect(cancelled.output.contains("77"))
      let ended = try running.finish()
      #expect(ended.code == 13, "\(ended)")
      #expect(try home.run("wait", "1").code == 13)
      gate.open()
    }
  }

  @Test func secretsAreNeverShown() throws {
    try Self.with({ _ in .text("x") }) { home, server in
      let secret = "s3cr3t-value"
      let got = try home.run(
        "get", server.url("/a"), "-H", "Authorization: Bearer \(secret)", "-H", "Cookie: c=\(secret)",
        "--secret-header", "X-Key: \(secret)")
      #expect(got.code == 0, "\(got)")
      #expect(server.requests.first?.headers["X-Key"] == secret)
      for arguments in [["show", "1"], ["show", "1", "--json"], ["list", "--json"], ["daemon", "log"]] {
        let shown = try home.start(arguments).finish()
        #expect(shown.code == 0, "\(shown)")
        #expect(!shown.output.contains(secret), "\(arguments)")
      }
      #expect(try home.run("show", "1").output.contains("<redacted>"))
    }
  }

  // MARK: The daemon

  @Test func statusStartsNoDaemon() throws {
    try Self.with(Self.serve) { home, _ in
      let absent = try home.run("daemon", "status")
      #expect(absent.code == 3, "\(absent)")
      #expect(try home.run("daemon", "status", "--json").output.contains("\"isRunning\" : false"))
      #expect(try home.run("daemon", "stop").code == 0)
      #expect(try home.run("daemon", "start").code == 0)
      let present = try home.run("daemon", "status")
      #expect(present.code == 0 && present.output.contains(home.root), "\(present)")
      #expect(try home.run("daemon", "log").code == 0)
      #expect(try home.run("daemon", "stop").code == 0)
      #expect(try home.run("daemon", "status").code == 3)
    }
  }

  // MARK: Terminals

  @Test func aTerminalSeesProgressAndItIsErased() throws {
    let gate = Gate()
    let first = FirstOnly()
    let handler: LocalServer.Handler = { request in
      first.take()
        ? .status(503).header("Retry-After", "1") : Self.serve(request).stall(afterBytes: 150_000, until: gate)
    }
    try Self.with(handler) { home, server in
      let terminal = try Terminal()
      let running = try home.start(["get", server.url("/a.bin")], terminal: terminal.slave)
      let waiting = try terminal.read(until: "next try")
      #expect(waiting.contains("waiting: ") && waiting.contains("503"), "\(waiting.debugDescription)")
      let progress = try terminal.read(until: " of 300 kB")
      #expect(progress.contains("\ra.bin"))
      gate.open()
      let got = try running.finish()
      #expect(got.code == 0 && got.output == "\(home.work)/a.bin\n", "\(got)")
      let rest = try terminal.read(until: "300 kB in ")
      #expect(rest.contains(" \r"), "the line is erased before the summary")
      #expect(!(waiting + progress + rest).contains("\u{1B}"))
    }
  }
}

/// A server that the world uses.
@Suite(.timeLimit(.minutes(5))) struct NginxTests {
  @Test func getFetchesAFileFromNginx() throws {
    let home = try CommandHome()
    let content = GeneratedContent(length: 30_000_000, seed: 9)
    try FileManager.default.createDirectory(atPath: "\(home.root)/www", withIntermediateDirectories: false)
    let file = try Files.createPrivate("\(home.root)/www/big.bin")
    try Syscall.writeAll(file.raw, content.allBytes)
    let nginx = try Nginx(folder: home.root)
    defer { nginx.stop() }
    let got = try home.run("get", "http://127.0.0.1:\(nginx.port)/big.bin")
    #expect(got.code == 0, "\(got)")
    #expect(home.file("big.bin") == content.allBytes)
    try home.close()
  }
}

/// nginx in the foreground on a free port, with all its files in one folder; it serves `www` in it.
private struct Nginx {
  let port: UInt16
  private let processID: Int32

  init(folder: String) throws {
    let program = try #require(
      ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first {
        FileManager.default.isExecutableFile(atPath: $0)
      },
      "nginx is missing; scripts/test installs it")
    // A port that was free a moment ago: nginx cannot be told to let the kernel choose.
    let probe = try LocalServer.start { _ in .status(404) }
    port = probe.port
    probe.stop()
    let configuration = """
      daemon off; master_process off; pid \(folder)/nginx.pid; error_log \(folder)/nginx.log;
      events {}
      http {
        access_log off; client_body_temp_path \(folder)/t1; proxy_temp_path \(folder)/t2;
        fastcgi_temp_path \(folder)/t3; uwsgi_temp_path \(folder)/t4; scgi_temp_path \(folder)/t5;
        server { listen 127.0.0.1:\(port); root \(folder)/www; }
      }
      """
    try Files.atomicWrite("\(folder)/nginx.conf", Array(configuration.utf8))
    processID = try ChildProcess.spawn(
      path: program, arguments: ["nginx", "-c", "\(folder)/nginx.conf", "-e", "\(folder)/nginx.log"],
      environment: ["PATH": "/usr/sbin:/usr/bin:/bin"], directory: folder, newSession: true)
  }

  func stop() {
    kill(processID, SIGTERM)
    _ = try? ChildProcess.wait(processID)
  }
}

/// True once.
private final class FirstOnly: Sendable {
  private let isTaken = Atomic(false)
  func take() -> Bool { !isTaken.exchange(true, ordering: .relaxed) }
}
