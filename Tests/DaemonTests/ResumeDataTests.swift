import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// Resume data, results that nobody collects, and what was measured: with a real daemon and a real server.
@Suite(.timeLimit(.minutes(5))) struct ResumeDataTests {
  static let content = GeneratedContent(length: 3_000_000, seed: 5)

  /// Starts a download, waits until a good part is here, and cancels it for resume data.
  private func cancelHalfway(
    _ path: String, _ server: ContentServer, _ client: ProtocolClient, _ session: Int64, to file: String? = nil
  ) throws -> (id: Int64, kept: WireKeptPart?) {
    let id = try client.download(server.url(path), to: file, in: session)
    try client.waitForBytes(of: id, atLeast: 1_500_000)
    let request = TaskIdentifiersParameters(ids: [id], producesResumeData: true)
    let result = try client.call(.taskCancel(request), TaskIdentifiersResult.self)
    #expect(result.ids == [id])
    return (id, result.kept?.first)
  }

  private func resuming(_ token: String?, key: String? = nil) -> WireTaskSpecification {
    var specification = WireTaskSpecification(kind: "download", url: "")
    specification.resumeToken = token
    specification.key = key
    return specification
  }

  @Test func aNewTaskGoesOnWhereACancelledOneEnded() throws {
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/a", Self.content) { $0.stall(afterBytes: 1_500_001) }
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    let (id, kept) = try cancelHalfway("/a", server, client, session)
    let part = try #require(kept)
    #expect(part.id == id && part.received >= 1_500_000)
    let ended = try client.show(id)
    #expect(ended.state == "cancelled" && ended.resumeToken == part.resumeToken)
    #expect(try client.status().keptParts == 1)
    // The first task's end is collected, and the daemon dies: the part outlives both.
    var delivery = try client.delivery()
    while delivery.kind != "finishEvents" {
      try client.acknowledge([delivery.number], in: session)
      delivery = try client.delivery()
    }
    client.close()
    try home.killDaemon()
    try home.startForeground()
    let next = try home.connect()
    #expect(try next.open("s") == session)
    #expect(try next.status().keptBytes ?? 0 >= 1_500_000)
    let resumed = try next.enqueue(resuming(part.resumeToken), in: session)
    let shown = try next.show(resumed)
    #expect(shown.url == server.url("/a") && shown.expected == 3_000_000)
    let offset = try next.wait(for: "the offset") { notification -> Int64? in
      if case .taskResumed(let notice) = notification, notice.id == resumed { notice.offset } else { nil }
    }
    #expect(offset >= 1_500_000)
    let task = try next.waitForEnd(of: resumed)
    expectContent(task.file, Self.content)
    #expect(server.server.requests.count == 2)
    let range = server.server.requests.last?.head.headers["Range"]
    #expect(range == "bytes=\(offset)-")
    #expect(server.server.requests.last?.head.headers["If-Range"] == "\"5\"")
    #expect(try next.status().keptParts == 0)
    // Its file is under the first task's name, and goes like any other.
    try next.acknowledge(Array(1...20), in: session)
    try eventually("the file is gone", is: { home.ownFiles().isEmpty })
  }

  @Test func aTicketIsRefusedTwiceByOthersAndWithoutAValidator() throws {
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/a", Self.content) { $0.stall(afterBytes: 1_500_001) }
    server.put("/plain", Self.content, etag: false) { $0.stall(afterBytes: 1_500_001) }
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    #expect(try cancelHalfway("/plain", server, client, session).kept == nil)
    let part = try #require(try cancelHalfway("/a", server, client, session).kept)
    let other = try client.open("s", app: "other", attach: false)
    func refusal(_ specification: WireTaskSpecification, _ session: Int64) throws -> WireError.Name? {
      try client.enqueue([specification], in: session)[0].error?.name
    }
    #expect(try refusal(resuming(part.resumeToken), other) == .resumeDataInvalid)
    #expect(try refusal(resuming(part.resumeToken, key: "k"), session) == nil)
    #expect(try refusal(resuming(part.resumeToken, key: "k"), session) == nil, "the same request again")
    #expect(try refusal(resuming(part.resumeToken, key: "l"), session) == .resumeDataInvalid)
    #expect(try refusal(resuming(String(repeating: "0", count: 32)), session) == .resumeDataInvalid)
    #expect(throws: ProtocolClient.Failure.self) { try client.enqueue([resuming("zz")], in: session) }
    // Nothing of it was harmed.
    #expect(try client.status().quarantined == [])
  }

  @Test func aChangedObjectBeginsAgainAndIsWhole() throws {
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/a", Self.content) { $0.stall(afterBytes: 1_500_001) }
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    let part = try #require(try cancelHalfway("/a", server, client, session, to: home.out + "/a").kept)
    #expect(DaemonHome.names(in: home.out).contains { $0.hasSuffix(".part") })
    let changed = GeneratedContent(length: 2_000_000, seed: 6)
    server.put("/a", changed)
    let resumed = try client.enqueue(resuming(part.resumeToken), in: session)
    let offset = try client.wait(for: "the offset") { notification -> Int64? in
      if case .taskResumed(let notice) = notification, notice.id == resumed { notice.offset } else { nil }
    }
    #expect(offset == 0)
    let task = try client.waitForEnd(of: resumed)
    #expect(task.file == home.out + "/a")
    expectContent(task.file, changed)
    try eventually("the part is gone", is: { DaemonHome.names(in: home.out) == ["a"] })
  }

  @Test func aTaskThatFailsTellsHowItGoesOn() throws {
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/a", Self.content) { $0.stall(afterBytes: 1_500_001) }
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    var specification = WireTaskSpecification.download(server.url("/a"))
    specification.resourceTimeoutSeconds = 3
    let id = try client.enqueue(specification, in: session)
    let ended = try client.waitForEnd(of: id)
    #expect(ended.state == "failed" && ended.error?.code == "resourceTimedOut")
    let token = try #require(ended.resumeToken)
    let task = try client.waitForEnd(of: try client.enqueue(resuming(token), in: session))
    expectContent(task.file, Self.content)
    #expect(server.server.requests.last?.head.headers["Range"] != nil)
  }

  // MARK: Results that nobody collects

  @Test func aResultSaysBeforehandThatItGoes() throws {
    let server = try LocalServer.start { _ in .generated(length: 1000, seed: 1).etag("\"a\"") }
    defer { server.stop() }
    let home = try DaemonHome(["FERRY_RETENTION_SECONDS": "14"])
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s")
    let id = try client.download(server.url("/a"), in: session)
    let ended = try client.waitForEnd(of: id)
    let finished = try #require(ended.finishedMilliseconds)
    #expect(try client.show(id).expiresMilliseconds == finished + 14_000)
    // The last seventh of its time: two seconds.
    try eventually("the log warns", is: { daemon.errorText.contains("The result of task \(id) will be removed soon") })
    #expect(try client.show(id).state == "succeeded")
    let list = try home.run("ferry", ["list"])
    #expect(list.output.contains("succeeded, goes in"), "\(list.output)")
    try client.wait(for: "the end of its retention") { notification in
      if case .taskRemoved(let notice) = notification, notice.id == id { () } else { nil }
    }
    try eventually("its file is gone", is: { home.ownFiles().isEmpty })
  }

  @Test func aRetentionThatIsNoneIsRefused() throws {
    let home = try DaemonHome(["FERRY_RETENTION_SECONDS": "a week"])
    let run = try home.run("ferryd", ["--foreground"])
    #expect(run.status == .exited(code: 1))
    #expect(run.errors.contains("FERRY_RETENTION_SECONDS must be a number of seconds"), "\(run.errors)")
  }

  // MARK: Metrics

  @Test func whatWasMeasuredIsToldWithTheEnd() throws {
    let attempts = Mutex(0)
    let server = try LocalServer.start { request in
      if request.path == "/from" { return .status(302).header("Location", "/to") }
      let count = attempts.withLock { count -> Int in
        count += 1
        return count
      }
      return count == 1 ? .status(503) : .generated(length: 200_000, seed: 2).etag("\"a\"")
    }
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.call(
      .sessionOpen(
        SessionOpenParameters(
          app: "tests", identifier: "s", attach: true, collectsResults: true, network: WireNetwork(),
          wantsMetrics: true)), SessionOpenResult.self
    ).session
    let before = Double(Clocks.wallMilliseconds())
    let id = try client.download(server.url("/from"), in: session)
    var delivery = try client.delivery()
    #expect(delivery.kind == "file" && delivery.task?.metrics == nil, "once is enough")
    delivery = try client.delivery()
    let after = Double(Clocks.wallMilliseconds())
    let metrics = try #require(delivery.task?.metrics)
    #expect(metrics.transactions.map(\.status) == [302, 503, 302, 200])
    #expect(metrics.redirects == 2 && metrics.omitted == nil)
    for transaction in metrics.transactions {
      #expect(transaction.startMilliseconds >= before - 1 && transaction.startMilliseconds <= after + 1)
      #expect(transaction.networkProtocol == "http/1.1" && transaction.remoteAddress == "127.0.0.1")
      #expect(transaction.remotePort == Int(server.port))
      #expect(transaction.requestHeaderBytes > 0 && transaction.responseHeaderBytes > 0)
      let times = [
        transaction.domainLookupStartSeconds, transaction.domainLookupEndSeconds, transaction.connectStartSeconds,
        transaction.connectEndSeconds, transaction.requestStartSeconds, transaction.requestEndSeconds,
        transaction.responseStartSeconds, transaction.responseEndSeconds,
      ].compactMap { $0 }
      #expect(times == times.sorted(), "\(transaction)")
      #expect(times.last.map { $0 * 1000 <= after - before + 2 } == true, "\(transaction)")
      #expect((transaction.isReused == true) == (transaction.connectStartSeconds == nil))
    }
    #expect(metrics.transactions[0].isReused == nil)
    #expect(metrics.transactions.contains { $0.isReused == true })
    #expect(metrics.transactions[3].responseBodyBytes == 200_000)
    // Whoever did not ask is not told; `task.show` tells everybody, also after a restart.
    #expect(try client.show(id).metrics == metrics)
    try home.killDaemon()
    try home.startForeground()
    let next = try home.connect()
    #expect(try next.show(id).metrics == metrics)
    _ = try next.open("s")
    #expect(try next.delivery().task?.metrics == nil && next.delivery().task?.metrics == nil)
    let page = try home.run("ferry", ["show", "\(id)"])
    #expect(page.output.split(separator: "\n").count { $0.hasPrefix("timing:") } == 4, "\(page.output)")
    #expect(page.output.contains("GET 200 http/1.1 from 127.0.0.1:\(server.port)"), "\(page.output)")
  }
}
