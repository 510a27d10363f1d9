import FerryClient
import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// The native interface with the real `ferryd`, started, killed and started again.
@Suite(.timeLimit(.minutes(3))) struct RealDaemonTests {
  /// A daemon with a home of its own. It is ended with the object.
  final class Installation: Sendable {
    let folder: TemporaryFolder
    private let daemon = Mutex<Int32?>(nil)

    init() throws { folder = try TemporaryFolder() }

    static func executable() throws -> String {
      Files.parent(of: try ChildProcess.executablePath()) + "/ferryd"
    }

    var environment: [String: String] {
      get throws {
        [
          "FERRY_HOME": folder.path, "FERRY_DAEMON": try Self.executable(), "PATH": "/usr/bin:/bin",
          "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus", "FERRY_SYSFS": "/nonexistent",
        ]
      }
    }

    func start() throws {
      let child = try ChildProcess.spawn(
        path: Self.executable(), arguments: ["ferryd", "--foreground"], environment: environment, newSession: true)
      daemon.withLock { $0 = child }
    }

    private func takeChild() -> Int32? {
      daemon.withLock { child in
        defer { child = nil }
        return child
      }
    }

    /// As a crash does.
    func kill() {
      guard let child = takeChild() else { return }
      _ = Glibc.kill(child, SIGKILL)
      _ = try? ChildProcess.wait(child)
    }

    deinit {
      guard let child = takeChild() else { return }
      _ = Glibc.kill(child, SIGTERM)
      _ = try? ChildProcess.wait(child)
    }

    func ferry(startsDaemon: Bool = false) throws -> Ferry {
      Ferry(app: "test", environment: try environment, startsDaemon: startsDaemon)
    }

    /// The session, once the daemon that was just started listens.
    func session(_ ferry: Ferry) async throws -> Session {
      let end = ContinuousClock.now + .seconds(20)
      while ContinuousClock.now < end {
        let attempt = await Self.open(ferry)
        guard case .failure(let error) = attempt, error.code == .daemonUnavailable else { return try attempt.get() }
        try await Task.sleep(for: .milliseconds(5))  // sleep: looks again
      }
      throw TimedOut()
    }

    private static func open(_ ferry: Ferry) async -> Result<Session, FerryError> {
      do {
        return .success(try await ferry.session("s"))
      } catch {
        return .failure(error)
      }
    }
  }

  @Test func aProgramIsAskedAndAnswers() async throws {
    let login = Login.digest(user: "ann", password: "pw-31")
    let server = try LocalServer.start { login.isShown(by: $0) ? .text("hello") : login.challenge }
    defer { server.stop() }
    let installation = try Installation()
    try installation.start()
    let ferry = try installation.ferry()
    _ = try await installation.session(ferry)
    var options = SessionOptions()
    options.answersChallenges = true
    let session = try await ferry.session("asked", options: options)
    let receipt = try await session.download(try #require(URL(string: server.url("/file"))))
    var events = session.events.makeAsyncIterator()
    var questions: [TaskQuestion] = []
    while questions.count < 2, let event = await events.next() {
      guard case .asking(let task, let question) = event else { continue }
      #expect(task.question == question && question.receipt == receipt)
      questions.append(question)
      let password = questions.count == 1 ? "wrong" : "pw-31"
      try await session.answer(question, with: .credential(Credential(user: "ann", password: password)))
    }
    #expect(questions.map(\.previousFailures) == [0, 1])
    guard case .challenge(let challenge)? = questions.first?.kind else { throw TimedOut() }
    #expect(challenge.method == "digest" && challenge.origin == server.baseURL && challenge.realm == "loopback")
    let result = try await Self.nextResult(&events)
    guard case .succeeded = result.outcome else { throw TimedOut() }
    let late = try #require(questions.last)
    do {
      try await session.answer(late, with: .proceed)
      Issue.record("It was taken.")
    } catch {
      #expect(error.code == .notAsking)
    }
    try await result.acknowledge()
  }

  private static func nextResult(_ events: inout SessionEvents.Iterator) async throws -> TaskResult {
    while let event = await events.next() {
      if case .finished(let result) = event { return result }
    }
    throw TimedOut()
  }

  private static func address(_ server: LocalServer, _ path: String) throws -> URL {
    try #require(URL(string: server.url(path)))
  }

  @Test func aDownloadArrivesWithItsReceiptAndIsAcknowledged() async throws {
    let server = try LocalServer.start { _ in .generated(length: 300_000, seed: 3).etag("\"v\"") }
    defer { server.stop() }
    let installation = try Installation()
    try installation.start()
    let session = try await installation.session(installation.ferry())
    let destination = LocalPath(installation.folder.path + "/result")
    let receipt = try await session.download(Self.address(server, "/a"), to: destination)
    var events = session.events.makeAsyncIterator()
    let result = try await Self.nextResult(&events)
    #expect(result.receipt == receipt)
    guard case .succeeded(let transfer) = result.outcome else {
      Issue.record("\(result.outcome)")
      return
    }
    #expect(transfer.sizeBytes == 300_000)
    #expect(transfer.attempts == 1)
    #expect(transfer.finalURL == (try Self.address(server, "/a")))
    let bytes = [UInt8](try Data(contentsOf: destination.url))
    #expect(GeneratedContent(length: 300_000, seed: 3).verify(bytes) == nil && bytes.count == 300_000)
    try await result.acknowledge()
    #expect(try await session.tasks().isEmpty)
    let error = await #expect(throws: FerryError.self) { try await session.status(of: receipt) }
    #expect(error?.code == .taskUnknown)
  }

  @Test func aKilledDaemonResumesAndTheClientFollowsItThrough() async throws {
    let reached = Gate()
    let content = GeneratedContent(length: 6_000_000, seed: 9)
    let server = try LocalServer.start { request in
      let whole = Response.generated(length: 6_000_000, seed: 9).etag("\"v\"")
      // The first attempt stops in the middle and stays open until the daemon is dead.
      return request.headers["Range"] == nil
        ? whole.onBytes(5_000_000) { reached.open() }.stall(afterBytes: 5_000_000) : whole
    }
    defer { server.stop() }
    let installation = try Installation()
    try installation.start()
    let session = try await installation.session(installation.ferry())
    let destination = LocalPath(installation.folder.path + "/result")
    let receipt = try await session.download(Self.address(server, "/big"), to: destination)
    #expect(await reached.wait())
    // Until the daemon has told of bytes that it holds.
    var events = session.events.makeAsyncIterator()
    while case .some(let event) = await events.next() {
      if case .progressed(let task) = event, task.receivedBytes >= 4_000_000 { break }
    }
    installation.kill()
    try installation.start()
    let outcome = try await session.outcome(of: receipt)
    guard case .succeeded(let transfer) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(transfer.attempts == 2)
    let bytes = [UInt8](try Data(contentsOf: destination.url))
    #expect(bytes.count == content.length && content.verify(bytes) == nil)
    // The bytes of the first attempt were not fetched twice.
    let range = server.requests.compactMap { $0.headers["Range"] }
    #expect(range.count == 1 && range.first != "bytes=0-")
    let result = try await Self.nextResult(&events)
    #expect(result.receipt.id == receipt.id)
    try await result.acknowledge()
  }

  @Test func aResultThatWasNotAcknowledgedIsOfferedToTheNextRunOfTheProgram() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let installation = try Installation()
    try installation.start()
    do {
      let session = try await installation.session(installation.ferry())
      let receipt = try await session.download(Self.address(server, "/a"))
      guard case .succeeded(let transfer) = try await session.outcome(of: receipt) else { throw TimedOut() }
      #expect(try Data(contentsOf: #require(transfer.file).url) == Data("hello".utf8))
    }
    installation.kill()
    try installation.start()
    let session = try await installation.session(installation.ferry())
    var events = session.events.makeAsyncIterator()
    let result = try await Self.nextResult(&events)
    guard case .succeeded(let transfer) = result.outcome, let file = transfer.file else { throw TimedOut() }
    #expect(try Data(contentsOf: file.url) == Data("hello".utf8))
    try await result.acknowledge()
    try await eventually { unsafe access(file.path, F_OK) != 0 }
    guard case .allFinished = await events.next() else { throw TimedOut() }
  }

  @Test func anUploadIsSentAndRefusalsNameTheirCause() async throws {
    let server = try LocalServer.start { request in
      request.method == "PUT" ? Response.text("thanks").status(201) : .status(404)
    }
    defer { server.stop() }
    let installation = try Installation()
    try installation.start()
    let session = try await installation.session(installation.ferry())
    let file = LocalPath(installation.folder.path + "/body")
    try Data("payload".utf8).write(to: file.url)
    let receipt = try await session.upload(file, to: Self.address(server, "/put"))
    #expect(receipt.pin != nil)
    guard case .succeeded(let transfer) = try await session.outcome(of: receipt) else { throw TimedOut() }
    #expect(transfer.response?.status == 201)
    #expect(server.requests.first?.body == Array("payload".utf8))
    // A file that is not there, a destination that is taken, an answer that is none.
    let missing = await #expect(throws: FerryError.self) {
      try await session.upload(LocalPath(installation.folder.path + "/none"), to: Self.address(server, "/put"))
    }
    #expect(missing?.code == .sourceMissing)
    let taken = LocalPath(installation.folder.path + "/taken")
    var suspended = TaskOptions()
    suspended.startsSuspended = true
    let first = try await session.download(Self.address(server, "/x"), to: taken, options: suspended)
    let claimed = await #expect(throws: FerryError.self) {
      try await session.download(Self.address(server, "/x"), to: taken)
    }
    #expect(claimed?.code == .destinationClaimed)
    // The daemon refuses a batch with a malformed task as a whole; the others must be accepted all the same.
    var wrong = TaskOptions()
    wrong.headers = [Header("not a token", "x")]
    let many = try await session.enqueue(
      (0..<9).map { .download(try Self.address(server, "/x"), options: $0 == 6 ? wrong : suspended) })
    #expect(many.map { (try? $0.get()) != nil } == (0..<9).map { $0 != 6 })
    #expect(Set(many.compactMap { try? $0.get().id }).count == 8)
    try await session.resume(first)
    guard case .failed(let failure) = try await session.outcome(of: first) else { throw TimedOut() }
    #expect(failure.code == "httpStatus")
    #expect(failure.number == 404)
  }

  @Test func anotherProcessOfTheAppIsToldThatTheSessionIsInUse() async throws {
    let installation = try Installation()
    try installation.start()
    let session = try await installation.session(installation.ferry())
    let other = try installation.ferry()
    let error = await #expect(throws: FerryError.self) { try await other.session("s") }
    #expect(error?.code == .sessionInUse)
    session.close()
    // The close is on its way on another connection.
    let end = ContinuousClock.now + .seconds(20)
    var attached: Session?
    while attached == nil, ContinuousClock.now < end { attached = try? await other.session("s") }
    #expect(attached != nil)
  }

  @Test func theClientStartsTheDaemonAndTwentyClientsStartOne() async throws {
    let installation = try Installation()
    let environment = try installation.environment
    let processes = try await withThrowingTaskGroup(of: Int32.self) { group in
      for number in 0..<20 {
        group.addTask {
          let ferry = Ferry(app: "app-\(number)", environment: environment)
          let session = try await ferry.session("s")
          withExtendedLifetime(session) {}
          let record = try InstanceLock.read(environment["FERRY_HOME"]! + "/ferryd.lock")
          return try #require(record).processID
        }
      }
      return try await group.reduce(into: Set<Int32>()) { $0.insert($1) }
    }
    #expect(processes.count == 1)
    // It is told to end, and its supervisor with it.
    let connection = try await Task.detached {
      try DaemonConnection.open(client: "test/1", environment: environment, startsDaemon: false) { _ in }
    }.value
    _ = try await connection.callAsync(.daemonStop(EmptyParameters()), returning: EmptyResult.self)
    connection.close()
    for process in processes {
      try await eventually { Glibc.kill(process, 0) != 0 }
    }
  }
}
