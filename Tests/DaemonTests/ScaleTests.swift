import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// Many small files, many clients, and clients that mean harm. FERRY_SMALL_FILES=10000 is the whole run.
@Suite(.timeLimit(.minutes(8))) struct ScaleTests {
  @Test func thousandsOfSmallDownloadsLeaveNothingBehind() throws {
    let total = Knob.number("FERRY_SMALL_FILES", 2000)
    let server = try LocalServer.start { request in
      let number = Int(request.path.dropFirst()) ?? 0
      return .generated(length: 500 + number % 700, seed: UInt64(number)).etag("\"\(number)\"")
    }
    defer { server.stop() }
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    let began = ContinuousClock.now
    // The first part warms up what is kept for reuse; what the others add to it was left behind.
    let parts = 4
    var descriptors: [Int] = []
    var memory: [Int] = []
    for part in 0..<parts {
      let numbers = (total * part / parts)..<(total * (part + 1) / parts)
      try download(numbers, server, client, session)
      try eventually("no file is left: \(home.ownFiles().prefix(3))", is: { home.ownFiles().isEmpty })
      descriptors.append(ProcessFacts.descriptors(daemon.processID))
      memory.append(ProcessFacts.privateKibibytes(daemon.processID))
    }
    print("\(total) small downloads in \(ContinuousClock.now - began): descriptors \(descriptors), KiB \(memory)")
    #expect(try client.list().isEmpty)
    #expect(server.requestCount == total, "none was fetched twice")
    #expect(descriptors[parts - 1] <= descriptors[0] + 4)
    #expect(memory[parts - 1] <= memory[0] + 8 << 10)
    client.close()
    daemon.signal(SIGTERM)
    #expect(try daemon.wait() == .exited(code: 0))
  }

  /// Enqueues, collects, looks at some of the files, acknowledges all.
  private func download(_ numbers: Range<Int>, _ server: LocalServer, _ client: ProtocolClient, _ session: Int64) throws
  {
    for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 1000) {
      let batch = (start..<min(start + 1000, numbers.upperBound)).map { number in
        var specification = WireTaskSpecification.download(server.url("/\(number)"), key: "\(number)")
        specification.description = "\(number)"
        return specification
      }
      #expect(try client.enqueue(batch, in: session).allSatisfy { $0.error == nil })
    }
    var completed: Set<String> = []
    var waiting: [Int64] = []
    while completed.count < numbers.count {
      // In order, the notices of states among them: what is left behind would be looked at again and again.
      guard case .delivery(let notice) = try client.next() else { continue }
      waiting.append(notice.number)
      guard let task = notice.task else { continue }
      let number = Int(task.description ?? "") ?? -1
      #expect(task.state == "succeeded")
      if notice.kind == "file", number % 97 == 0 {
        expectContent(task.file, GeneratedContent(length: 500 + number % 700, seed: UInt64(number)))
      }
      if notice.kind == "completion" { #expect(completed.insert("\(number)").inserted, "\(number) came twice") }
      if waiting.count >= 64 {
        try client.acknowledge(waiting, in: session)
        waiting = []
      }
    }
    // What says that this was all comes last, at least once.
    while try client.delivery().kind != "finishEvents" {}
    try client.acknowledge(waiting, in: session)
  }

  @Test func aThousandIdleClientsCostLittle() throws {
    var limit = rlimit()
    unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    limit.rlim_cur = min(limit.rlim_max, max(limit.rlim_cur, 8192))
    _ = unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    let before = (ProcessFacts.descriptors(daemon.processID), ProcessFacts.privateKibibytes(daemon.processID))
    let peakBefore = ProcessFacts.peakKibibytes(daemon.processID)
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    for _ in 0..<1000 {
      sockets.append(
        try eventually("the daemon accepts") {
          do throws(SystemError) {
            let socket = try UnixSocket.connect(home.socketPath, nonblocking: true)
            return socket.take()
          } catch {
            // The backlog is full for a moment.
            if error.number == EAGAIN { return nil }
            throw error
          }
        })
    }
    try eventually("all are there", is: { try client.status().peers >= 1001 })
    #expect(ProcessFacts.privateKibibytes(daemon.processID) < before.1 + 32 << 10)
    #expect(ProcessFacts.peakKibibytes(daemon.processID) < peakBefore + 32 << 10)
    // Work goes on beside them.
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let id = try client.download(server.url("/"), to: home.out + "/hello", in: try client.open("s", collects: false))
    #expect(try client.waitForEnd(of: id).state == "succeeded")
    for socket in sockets { close(socket) }
    sockets = []
    try eventually("all are gone", is: { try client.status().peers == 1 })
    try eventually("their descriptors are closed", is: { ProcessFacts.descriptors(daemon.processID) <= before.0 + 8 })
  }

  /// More than one turn of the loop has time for: nobody is left out, and a transfer goes on meanwhile.
  @Test func everyOneOfManyBusyClientsIsServed() throws {
    let server = try LocalServer.start { _ in
      .generated(length: 8 << 20, seed: 81).throttled(bytes: 64 << 10, every: .milliseconds(4))
    }
    defer { server.stop() }
    let home = try DaemonHome()
    _ = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    var suspended = WireTaskSpecification.download(server.url("/"))
    suspended.isSuspended = true
    let waiting = try client.enqueue(Array(repeating: suspended, count: 100), in: session).compactMap(\.id)
    let running = try client.download(server.url("/"), to: home.out + "/file", in: session)
    let others = try (0..<16).map { _ in try home.connect() }
    let asked = try others.map { other in
      try (0..<8).map { _ in try other.send(.taskList(TaskListParameters(limit: 100, session: session))) }
    }
    for (other, numbers) in zip(others, asked) {
      for number in numbers {
        let told = try other.reply(to: number, TaskListResult.self).tasks
        #expect(told.map(\.id) == waiting)
      }
    }
    #expect(try client.waitForEnd(of: running).state == "succeeded")
    expectContent(home.out + "/file", GeneratedContent(length: 8 << 20, seed: 81))
  }

  @Test func aClientThatNeverReadsIsCutOff() throws {
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    let before = ProcessFacts.privateKibibytes(daemon.processID)
    let peakBefore = ProcessFacts.peakKibibytes(daemon.processID)
    let deaf = try home.connect()
    let line = [UInt8]("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"daemon.status\"}\n".utf8)
    let many = Array(repeating: line, count: 200).flatMap { $0 }
    var peak = 0
    var sent = 0
    while try deaf.send(raw: many) {
      sent += many.count
      peak = max(peak, ProcessFacts.privateKibibytes(daemon.processID))
      // Nobody else waits for it.
      if sent % (many.count * 16) == 0 { #expect(try client.status().pid == daemon.processID) }
      try #require(sent < 1 << 28, "it was never cut off")
    }
    #expect(peak < before + 96 << 10)
    #expect(ProcessFacts.peakKibibytes(daemon.processID) < peakBefore + 96 << 10)
    #expect(try client.status().peers == 1)
    #expect(daemon.errorText.contains("does not read"))
  }

  @Test func anEndlessLineIsCutOff() throws {
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    let before = ProcessFacts.privateKibibytes(daemon.processID)
    let peakBefore = ProcessFacts.peakKibibytes(daemon.processID)
    let endless = try ProtocolClient(home, saysHello: false)
    let chunk = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 16)
    var sent = 0
    var peak = 0
    while try endless.send(raw: chunk) {
      sent += chunk.count
      peak = max(peak, ProcessFacts.privateKibibytes(daemon.processID))
      try #require(sent < 1 << 30, "a gigabyte was taken")
    }
    #expect(sent <= WireLimits.messageBytes + 2 << 20)
    #expect(peak < before + 32 << 10)
    #expect(ProcessFacts.peakKibibytes(daemon.processID) < peakBefore + 32 << 10)
    #expect(try client.status().peers == 1)
    #expect(daemon.errorText.contains("longer than"))
  }

  @Test func garbageGetsAGoodbyeAndHarmsNobody() throws {
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let client = try home.connect()
    var random = SeededRandom(seed: 3)
    var lines: [[UInt8]] = [
      Array("hello\n".utf8), Array("GET / HTTP/1.1\r\nHost: x\r\n\r\n".utf8), [0, 0, 0, 0x0A],
      Array("{\"jsonrpc\":\"2.0\",\"id\":1,\n".utf8), [0xFF, 0xFE, 0x80, 0x0A], Array("\n".utf8), Array("[]\n".utf8),
      Array(repeating: UInt8(ascii: "["), count: 1_000_000) + [0x0A],
      Array("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":".utf8)
        + Array(repeating: Array("{\"a\":".utf8), count: 200_000).flatMap { $0 } + [0x0A],
    ]
    for _ in 0..<40 {
      var line = (0..<Int.random(in: 1...300, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      line.append(0x0A)
      lines.append(line)
    }
    for line in lines {
      let peer = try ProtocolClient(home, saysHello: false)
      try peer.send(raw: line)
      let reason = try peer.waitForGoodbye()
      #expect(reason?.isEmpty == false, "\(String(decoding: line.prefix(40), as: UTF8.self)): no reason was given")
    }
    #expect(try client.status().pid == daemon.processID)
    // A request that is wrong, but one, is answered and nothing more.
    let peer = try ProtocolClient(home, saysHello: false)
    for (line, name) in [
      ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"task.list\",\"params\":{}}", WireError.Name.invalidRequest),
      (
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"version\":99,\"client\":\"x\"}}",
        .versionUnsupported
      ),
      ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{}}", .invalidParameters),
      ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"task.fly\",\"params\":{}}", .methodNotFound),
      ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"task.list\",\"params\":{}}", .invalidRequest),
    ] {
      try peer.send(raw: Array((line + "\n").utf8))
      do {
        _ = try peer.reply(to: 1, EmptyResult.self)
        Issue.record("\(line) was taken")
      } catch ProtocolClient.Failure.refused(let error) {
        #expect(error.name == name, "\(line): \(error)")
      }
    }
  }

  @Test(.enabled(if: geteuid() == 0, "needs the right to become another user"))
  func anotherUserIsNotLetIn() throws {
    let home = try DaemonHome()
    let daemon = try home.startForeground()
    let script = """
      import socket, sys
      link = socket.socket(socket.AF_UNIX)
      try:
          link.connect(sys.argv[1])
      except OSError as error:
          print("refused", error.errno)
          sys.exit(0)
      link.settimeout(20)
      try:
          link.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"version":1,"client":"x"}}\\n')
          print("answer", link.recv(1000))
      except ConnectionError:
          print("answer", b"")
      """
    func asNobody() throws -> String {
      let result = try Shell.output(
        "/usr/bin/setpriv",
        ["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script, home.socketPath])
      return result.output + result.errors
    }
    #expect(try asNobody() == "refused \(EACCES)\n", "the folder and the socket are private")
    // Even where somebody opened both, the daemon looks who it is.
    try #require(Shell.run("/bin/chmod", ["a+rwx", home.path, home.socketPath]) == .exited(code: 0))
    #expect(try asNobody() == "answer b''\n")
    #expect(daemon.errorText.contains("Refused a connection of user 65534"))
    #expect(try home.connect().status().peers == 1)
  }
}
