import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// What a client is told of work is on the disk, whoever asks and however: the disks of these daemons are slow, full,
/// or hang.
@Suite(.timeLimit(.minutes(3))) struct DurableAnswersTests {
  /// Each way to learn of task 1, or of an app.
  enum Question: String, CaseIterable, Sendable {
    case list, show, status, watch, refusal, app

    /// Whether it is there.
    func isAnswered(_ client: ProtocolClient) throws -> Bool {
      do {
        switch self {
        case .list: return try client.list().map(\.id) == [1]
        case .show: return try client.show(1).id == 1
        case .status: return try client.status().tasks["suspended"] == 1
        case .watch:
          return try client.call(.taskWatch(TaskWatchParameters(ids: [1])), TaskIdentifiersResult.self).ids == [1]
        case .refusal:
          let nothing = TaskUpdateParameters(id: 1)
          return try client.call(.taskUpdate(nothing), TaskIdentifiersResult.self).ids == [1]
        case .app:
          return try client.call(.appShow(AppParameters(app: "org.a")), AppShowResult.self).app.app == "org.a"
        }
      } catch ProtocolClient.Failure.refused(let error) where [.taskUnknown, .appUnknown].contains(error.name) {
        return false
      }
    }

    func begin(_ client: ProtocolClient) throws {
      guard self != .app else {
        try client.send(.appRegister(AppRegisterParameters(app: "org.a", command: ["/bin/true"])))
        return
      }
      let session = try client.open("s", collects: false)
      try client.send(
        .taskEnqueue(TaskEnqueueParameters(session: session, tasks: [DurableAnswersTests.suspended()])))
    }

    func end(_ client: ProtocolClient) throws {
      switch self {
      case .app: try client.send(.appRemove(AppParameters(app: "org.a")))
      default: try client.send(.taskRemove(TaskIdentifiersParameters(ids: [1])))
      }
    }
  }

  private static func suspended(_ description: String? = nil) -> WireTaskSpecification {
    var specification = WireTaskSpecification(kind: "download", url: "http://127.0.0.1:9/f")
    specification.isSuspended = true
    specification.description = description
    return specification
  }

  private static func faults(_ action: String, _ passages: ClosedRange<Int>) -> [String: String] {
    ["FERRY_FAULT": passages.map { "store.commit:\($0):\(action)" }.joined(separator: ",")]
  }

  @Test(arguments: Question.allCases) func whatWasToldOutlivesTheDaemon(_ question: Question) throws {
    let home = try DaemonHome()
    func start() throws -> (worker: ProtocolClient, reader: ProtocolClient) {
      try home.startForeground(Self.faults("400ms", 1...12))
      return (try home.connect(), try home.connect())
    }
    var (worker, reader) = try start()
    try question.begin(worker)
    try eventually("it is there", is: { try question.isAnswered(reader) })
    try home.killDaemon()
    (worker, reader) = try start()
    #expect(try question.isAnswered(reader), "a client was told of it")
    try question.end(worker)
    try eventually("it is gone", is: { try !question.isAnswered(reader) })
    try home.killDaemon()
    (worker, reader) = try start()
    #expect(try !question.isAnswered(reader), "a client was told that it is gone")
  }

  /// A download begins before its row is on the disk; whoever watches all tasks hears of it later.
  @Test func whatIsHeardOfATaskOutlivesTheDaemon() throws {
    let server = try LocalServer.start { _ in Response.generated(length: 400_000, seed: 1).stall(afterBytes: 200_000) }
    defer { server.stop() }
    let home = try DaemonHome()
    try home.startForeground(Self.faults("600ms", 1...12))
    let (worker, watcher) = (try home.connect(), try home.connect())
    let session = try worker.open("s", collects: false)
    _ = try watcher.call(.taskWatch(TaskWatchParameters()), TaskIdentifiersResult.self)
    try worker.send(
      .taskEnqueue(TaskEnqueueParameters(session: session, tasks: [.download(server.url("/f"))])))
    _ = try watcher.next()
    try home.killDaemon()
    try home.startForeground()
    #expect(try home.connect().list().map(\.id) == [1], "a client has heard of it: \(watcher.notifications)")
  }

  @Test func aClientIsAnsweredWhileNothingCanBeStored() throws {
    let home = try DaemonHome()
    let daemon = try home.startForeground(Self.faults("ENOSPC", 2...100))
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let promise = try client.send(
      .taskEnqueue(TaskEnqueueParameters(session: session, tasks: [Self.suspended()])))
    // Each is answered, the first perhaps when the commit has failed.
    let reader = try home.connect()
    try eventually("the task is shown", is: { try reader.list().map(\.id) == [1] })
    #expect(try reader.show(1).state == "suspended")
    #expect(try reader.status().degraded != nil)
    #expect(throws: ProtocolClient.Failure.self) { try reader.show(2) }
    // An app that starts is not kept waiting, and not told that it is registered.
    _ = try reader.call(
      .appAttach(AppAttachParameters(app: "org.x", state: "foreground", launch: nil)), EmptyResult.self)
    do {
      _ = try reader.call(
        .appRegister(AppRegisterParameters(app: "org.x", command: ["/bin/true"])), EmptyResult.self)
      Issue.record("a registration was accepted that cannot be stored")
    } catch ProtocolClient.Failure.refused(let error) {
      #expect(error.name == .degraded, "\(error)")
    }
    // On the client's own connection too, before the promise.
    #expect(try client.list().map(\.id) == [1])
    #expect(daemon.errorText.contains("fault point"), "the fault was met")
    // What was said in such a time may be gone, and the promise was not made.
    try home.killDaemon()
    #expect(throws: ProtocolClient.Failure.self) { try client.reply(to: promise, TaskEnqueueResult.self) }
    try home.startForeground()
    #expect(try home.connect().list().isEmpty)
  }

  /// Nothing can be promised then; a person who waits is told why.
  @Test func theCommandSaysWhyItsAnswerIsLate() throws {
    let home = try DaemonHome()
    try home.startForeground(Self.faults("ENOSPC", 3...12))
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let id = try client.enqueue(Self.suspended(), in: session)
    try client.send(.taskEnqueue(TaskEnqueueParameters(session: session, tasks: [Self.suspended()])))
    try eventually("the state cannot be stored", is: { try client.status().degraded != nil })
    let late = try home.run("ferry", ["cancel", String(id)])
    #expect(late.status == .exited(code: 0), "\(late)")
    #expect(late.errors.contains("ferryd cannot store its state ("), "\(late)")
    let usual = try home.run("ferry", ["remove", String(id)])
    #expect(usual.status == .exited(code: 0) && usual.errors.isEmpty, "\(usual)")
  }

  @Test func aCommitThatHangsSilencesNobodyForLong() throws {
    let home = try DaemonHome()
    let daemon = try home.startForeground(Self.faults("60000ms", 2...2))
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    try client.send(.taskEnqueue(TaskEnqueueParameters(session: session, tasks: [Self.suspended()])))
    let reader = try home.connect()
    try eventually("the task is shown", is: { try reader.list().map(\.id) == [1] })
    let began = ContinuousClock.now
    #expect(try client.list().map(\.id) == [1])
    #expect(try reader.status().tasks == ["suspended": 1])
    #expect(ContinuousClock.now - began < .seconds(4), "those who ask then do not wait")
    #expect(daemon.errorText.contains("is not stored after"))
  }

  /// A client that asks for much at once is answered all of it, also when the answers have to wait.
  @Test(arguments: [false, true]) func manyAnswersAreHeldInParts(isSlow: Bool) throws {
    let home = try DaemonHome()
    try home.startForeground(isSlow ? Self.faults("1000ms", 3...3) : [:])
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let filler = String(repeating: "d", count: 2000)
    let tasks = (1...100).map { _ in Self.suspended(filler) }
    #expect(try client.enqueue(tasks, in: session).count == 100)
    // More than a client may have waiting; a request that changes something is among those that ask.
    var lists: [Int64] = []
    if isSlow { try client.send(.taskRemove(TaskIdentifiersParameters(ids: [1]))) }
    for _ in 0..<60 { lists.append(try client.send(.taskList(TaskListParameters()))) }
    for list in lists {
      #expect(try client.reply(to: list, TaskListResult.self).tasks.count == (isSlow ? 99 : 100))
    }
  }

  /// Whose connection ends gets what was held for it, and hears why it ends; one that has gone takes nothing along.
  @Test func aConnectionThatEndsIsToldWhatWasHeld() throws {
    let home = try DaemonHome()
    try home.startForeground(Self.faults("700ms", 3...3))
    let (client, leaver) = (try home.connect(), try home.connect())
    let session = try client.open("s", collects: false)
    let id = try client.enqueue(Self.suspended(), in: session)
    try client.send(.taskRemove(TaskIdentifiersParameters(ids: [id])))
    let list = try client.send(.taskList(TaskListParameters()))
    try client.send(raw: Array("garbage\n".utf8))
    _ = try leaver.send(.taskList(TaskListParameters()))
    leaver.close()
    #expect(try client.waitForGoodbye() != nil)
    #expect(try client.reply(to: list, TaskListResult.self).tasks.isEmpty)
    #expect(try home.connect().list().isEmpty)
  }

  @Test func readingCostsNoCommit() throws {
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    _ = try client.enqueue(Self.suspended(), in: session)
    let before = try client.status().commits
    for _ in 0..<100 {
      _ = try client.list()
      _ = try client.show(1)
      try client.watch(1)
    }
    #expect(try client.status().commits == before)
  }
}
