import FoundationEssentials
import Synchronization
import Testing
import TransferCore
import WireProtocol

@testable import FerryClient

@Suite(.timeLimit(.minutes(2))) struct DaemonConnectionTests {
  private static let ignore: @Sendable (DaemonNotification) -> Void = { _ in }

  private static func fastPolicy(patience: Duration = .seconds(30)) -> ReconnectPolicy {
    var policy = ReconnectPolicy()
    policy.longestPause = .milliseconds(50)
    policy.patience = patience
    return policy
  }

  private static func open(
    _ folder: TemporaryFolder, policy: ReconnectPolicy = fastPolicy(),
    onNotification: @escaping @Sendable (DaemonNotification) -> Void = ignore
  ) throws -> DaemonConnection {
    try DaemonConnection.open(
      client: "test/1", environment: folder.environment, startsDaemon: false, deadline: .seconds(5),
      reconnecting: policy, onNotification: onNotification)
  }

  private static func snapshot(_ id: Int64) -> TaskSnapshot {
    TaskSnapshot(
      id: id, session: "s", app: "a", sessionID: 1, number: id, kind: "download", state: "running", method: "GET",
      url: "http://localhost/", received: 0, sent: 0, attempts: 1, priority: 0.5, createdMilliseconds: 0)
  }

  @Test func saysHelloFirstAndReturnsResults() throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, request in
      guard case .taskShow(let parameters) = request else { return }
      client.result(id, TaskShowResult(task: Self.snapshot(parameters.id)))
    }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    let shown = try connection.call(.taskShow(TaskShowParameters(id: 7)), returning: TaskShowResult.self)
    #expect(shown.task.id == 7)
    #expect(daemon.requests.first?.request == .hello(HelloParameters(client: "test/1")))
    #expect(connection.daemon?.daemon == "fake/1")
  }

  @Test func errorsArriveWithTheirNames() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, _ in
      client.error(id, WireError(.taskUnknown, "there is no task 9"))
    }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    let failure = await #expect(throws: ConnectionFailure.self) {
      try await connection.callAsync(.taskShow(TaskShowParameters(id: 9)), returning: TaskShowResult.self)
    }
    #expect(failure?.kind == .refused)
    #expect(failure?.wireError?.name == .taskUnknown)
  }

  @Test func noDaemonIsToldWithTheRemedy() throws {
    let folder = try TemporaryFolder()
    let failure = #expect(throws: ConnectionFailure.self) { _ = try Self.open(folder) }
    #expect(failure?.kind == .daemonUnavailable)
    #expect(failure?.message.contains("ferryd.sock") == true)
    #expect(failure?.message.contains("systemctl") == true)
  }

  @Test func aDaemonThatCannotBeStartedIsNamed() throws {
    let folder = try TemporaryFolder()
    let failure = #expect(throws: ConnectionFailure.self) {
      try DaemonConnection.open(
        client: "test/1", environment: ["FERRY_HOME": folder.path, "FERRY_DAEMON": folder.path + "/none"],
        startsDaemon: true, deadline: .seconds(5), onNotification: Self.ignore)
    }
    #expect(failure?.kind == .daemonUnavailable)
    #expect(failure?.message.contains("/none") == true)
  }

  @Test func aDaemonThatEndsAtOnceIsReported() throws {
    let folder = try TemporaryFolder()
    let failure = #expect(throws: ConnectionFailure.self) {
      try DaemonConnection.open(
        client: "test/1", environment: ["FERRY_HOME": folder.path, "FERRY_DAEMON": "/bin/false"], startsDaemon: true,
        deadline: .seconds(5), onNotification: Self.ignore)
    }
    #expect(failure?.message.contains("exit status 1") == true)
  }

  /// Nobody reads what a daemon says that is started without a folder to write to.
  @Test func aFolderThatNoDaemonCouldUseIsNamedBeforeOneIsStarted() throws {
    let failure = #expect(throws: ConnectionFailure.self) {
      try DaemonConnection.open(
        client: "test/1", environment: ["FERRY_HOME": "relative", "FERRY_DAEMON": "/bin/false"], startsDaemon: true,
        deadline: .seconds(5), onNotification: Self.ignore)
    }
    #expect(failure?.kind == .daemonUnavailable)
    #expect(failure?.message.contains("FERRY_HOME relative: it must be an absolute path") == true)
  }

  @Test func anotherProtocolVersionIsRefused() throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path, answersHello: false) { client, id, _ in
      client.result(id, HelloResult(version: 2, daemon: "ferryd/9", pid: 1, capabilities: []))
    }
    defer { daemon.stop() }
    let failure = #expect(throws: ConnectionFailure.self) { _ = try Self.open(folder) }
    #expect(failure?.kind == .versionMismatch)
  }

  @Test func notificationsComeInOrderAndUnknownOnesAreIgnored() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, _ in
      client.result(id, EmptyResult())
      client.write(Data("{\"jsonrpc\":\"2.0\",\"method\":\"task.sung\",\"params\":{}}\n".utf8))
      for id in 1...500 {
        client.notify(.taskProgress(TaskProgressNotice(id: Int64(id), received: 1, expected: nil, sent: 0)))
      }
    }
    defer { daemon.stop() }
    let got = Collector<Int64>()
    let connection = try Self.open(folder) { notification in
      if case .taskProgress(let notice) = notification { got.append(notice.id) }
    }
    _ = try connection.call(.taskWatch(TaskWatchParameters()), returning: EmptyResult.self)
    #expect(try await got.wait(for: 500) == Array(1...500))
    #expect(daemon.connections.count == 1)
    connection.close()
  }

  @Test func unansweredRequestsAreSentAgainInOrderAfterSessionsOpenedThemselves() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, request in
      if client.number == 0 {
        // The first daemon takes requests and dies with the fifth.
        if case .taskCancel(let parameters) = request, parameters.ids == [5] { client.drop() }
      } else if case .sessionOpen = request {
        client.result(id, SessionOpenResult(session: 3, nextTaskNumber: 1, isNew: false))
      } else {
        client.result(id, TaskIdentifiersResult(ids: [], unknown: []))
      }
    }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    let reopened = Collector<Int64>()
    let open = ClientRequest.sessionOpen(
      SessionOpenParameters(app: "a", identifier: "s", attach: true, collectsResults: true, network: WireNetwork()))
    _ = connection.onReconnect { [weak connection] in
      guard let result = try? connection?.call(open, returning: SessionOpenResult.self) else { return }
      reopened.append(result.session)
    }
    for id in 1...4 { connection.send(.taskCancel(TaskIdentifiersParameters(ids: [Int64(id)]))) }
    let last = try connection.call(
      .taskCancel(TaskIdentifiersParameters(ids: [5])), returning: TaskIdentifiersResult.self)
    #expect(last.ids == [])
    #expect(reopened.all == [3])
    let second = daemon.requests.filter { $0.connection == 1 }.map(\.request)
    #expect(
      second == [.hello(HelloParameters(client: "test/1")), open]
        + (1...5).map { .taskCancel(TaskIdentifiersParameters(ids: [Int64($0)])) })
    connection.close()
  }

  @Test func aBlockingCallWorksInsideANotification() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, request in
      switch request {
      case .taskWatch:
        client.result(id, EmptyResult())
        for id in 1...3 {
          client.notify(.taskProgress(TaskProgressNotice(id: Int64(id), received: 1, expected: nil, sent: 0)))
        }
      case .taskShow(let parameters): client.result(id, TaskShowResult(task: Self.snapshot(parameters.id)))
      default: break
      }
    }
    defer { daemon.stop() }
    let shared = Shared()
    let shown = Collector<Int64>()
    let opened = try Self.open(folder) { notification in
      guard case .taskProgress(let notice) = notification, let connection = shared.connection else { return }
      let result = try? connection.call(
        .taskShow(TaskShowParameters(id: notice.id)), returning: TaskShowResult.self)
      shown.append(result?.task.id ?? -1)
    }
    shared.connection = opened
    _ = try opened.call(.taskWatch(TaskWatchParameters()), returning: EmptyResult.self)
    #expect(try await shown.wait(for: 3) == [1, 2, 3])
    opened.close()
    shared.connection = nil
  }

  private final class Shared: Sendable {
    private let slot = Mutex<DaemonConnection?>(nil)
    var connection: DaemonConnection? {
      get { slot.withLock { $0 } }
      set { slot.withLock { $0 = newValue } }
    }
  }

  enum Garbage: CaseIterable {
    case words, noIdentifier, array, wrongParameters, nulByte, deepNesting, hugeIdentifier, endlessLine

    var text: String {
      switch self {
      case .words: "garbage\n"
      case .noIdentifier: "{\"jsonrpc\":\"2.0\"}\n"
      case .array: "[1,2]\n"
      case .wrongParameters: "{\"jsonrpc\":\"2.0\",\"method\":\"delivery\",\"params\":{}}\n"
      case .nulByte: "\u{0}\n"
      case .deepNesting: String(repeating: "[", count: 100_000) + "\n"
      case .hugeIdentifier: "{\"id\":1e99,\"result\":{}}\n"
      case .endlessLine: String(repeating: "x", count: WireLimits.messageBytes + 70_000)
      }
    }
  }

  @Test(arguments: Garbage.allCases)
  func garbageFromTheDaemonEndsThatConnectionOnly(_ garbage: Garbage) throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, _ in
      if client.number == 0 {
        client.write(Data(garbage.text.utf8))
      } else {
        client.result(id, EmptyResult())
      }
    }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    _ = try connection.call(.taskWatch(TaskWatchParameters()), returning: EmptyResult.self)
    #expect(daemon.connections.count == 2)
    connection.close()
  }

  @Test func callsFailWhenNoDaemonComesBackAndWorkWhenOneDoes() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { client, id, request in
      if case .taskWatch = request { client.result(id, EmptyResult()) }
    }
    defer { daemon.stop() }
    let connection = try Self.open(folder, policy: Self.fastPolicy(patience: .milliseconds(300)))
    let unavailable = Collector<ConnectionFailure>()
    _ = connection.onUnavailable { unavailable.append($0) }
    daemon.stop()
    let failure = await #expect(throws: ConnectionFailure.self) {
      try await connection.callAsync(.taskWatch(TaskWatchParameters()), returning: EmptyResult.self)
    }
    #expect(failure?.kind == .daemonUnavailable)
    #expect(try await unavailable.wait(for: 1).count == 1)
    #expect(throws: ConnectionFailure.self) {
      try connection.call(.taskWatch(TaskWatchParameters()), returning: EmptyResult.self)
    }
    try daemon.start()
    try await eventually {
      (try? connection.call(.taskWatch(TaskWatchParameters()), returning: EmptyResult.self)) != nil
    }
    connection.close()
  }

  @Test func aDaemonThatDoesNotAnswerTimesOut() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { _, _, _ in }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    let blocking = #expect(throws: ConnectionFailure.self) {
      try connection.call(
        .taskWatch(TaskWatchParameters()), returning: EmptyResult.self, timeout: .milliseconds(50))
    }
    #expect(blocking?.kind == .timedOut)
    let waiting = await #expect(throws: ConnectionFailure.self) {
      try await connection.callAsync(
        .taskWatch(TaskWatchParameters()), returning: EmptyResult.self, timeout: .milliseconds(50))
    }
    #expect(waiting?.kind == .timedOut)
  }

  @Test func closingFailsWhatWaits() async throws {
    let folder = try TemporaryFolder()
    let daemon = try FakeDaemon(home: folder.path) { _, _, _ in }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    async let waiting: EmptyResult = connection.callAsync(
      .taskWatch(TaskWatchParameters()), returning: EmptyResult.self)
    try await eventually { daemon.requests.count >= 2 }
    connection.close()
    do {
      _ = try await waiting
      Issue.record("the call returned")
    } catch {
      #expect((error as? ConnectionFailure)?.kind == .closed)
    }
    #expect(!connection.send(.taskWatch(TaskWatchParameters())))
  }

  @Test func manyTasksShareOneConnectionWhileItBreaks() async throws {
    let folder = try TemporaryFolder()
    let count = Counter()
    let daemon = try FakeDaemon(home: folder.path) { client, id, request in
      guard case .taskShow(let parameters) = request else { return }
      // Every hundredth request kills the connection before its answer.
      if count.next() % 100 == 0 { client.drop() }
      client.result(id, TaskShowResult(task: Self.snapshot(parameters.id)))
    }
    defer { daemon.stop() }
    let connection = try Self.open(folder)
    let right = try await withThrowingTaskGroup(of: Bool.self) { group in
      for id in 1...400 {
        group.addTask {
          let result = try await connection.callAsync(
            .taskShow(TaskShowParameters(id: Int64(id))), returning: TaskShowResult.self)
          return result.task.id == Int64(id)
        }
      }
      var right = 0
      for try await isRight in group where isRight { right += 1 }
      return right
    }
    #expect(right == 400)
    #expect(daemon.connections.count >= 4)
    connection.close()
  }

  private final class Counter: Sendable {
    private let value = Mutex(0)
    func next() -> Int {
      value.withLock { value in
        value += 1
        return value
      }
    }
  }
}
