import FerryClient
import Foundation
import Glibc
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

@testable import BackgroundURLSession

/// Hears how tasks end.
private final class Ends: NSObject, URLSessionDataDelegate, URLSessionDownloadDelegate, Sendable {
  let ends: AsyncStream<(number: Int, error: URLError?)>
  private let continuation: AsyncStream<(number: Int, error: URLError?)>.Continuation

  override init() { (ends, continuation) = AsyncStream.makeStream() }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {}
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    continuation.yield((task.taskIdentifier, error as? URLError))
  }

  func next() async throws -> (number: Int, error: URLError?) {
    for await end in ends { return end }
    throw CancellationError()
  }
}

/// When tasks begin and when they are given up, as their configuration, their request and they themselves say it: with
/// the real daemon and real attempts.
@Suite("Scheduling with the real daemon", .serialized, .timeLimit(.minutes(1)))
struct SchedulingTests {
  /// A daemon, a server that holds its answers until the gate opens, and a program's session.
  private final class Stage: Sendable {
    let home: DaemonHome
    let gate = Gate()
    let server: LocalServer
    let registry: SessionRegistry
    let ends = Ends()
    let person: DaemonConnection

    init(_ respond: (@Sendable (Request) -> Response)? = nil) throws {
      home = try DaemonHome()
      let gate = gate
      server = try LocalServer.start { request in
        respond?(request) ?? .generated(length: 1000).etag("\"a\"").hold(until: gate)
      }
      registry = home.newProcess()
      person = try DaemonConnection.open(client: "person", environment: home.environment, onNotification: { _ in })
    }

    func end() {
      gate.open()
      person.close()
      registry.endProcess()
      server.stop()
      home.stop()
    }

    func session(_ configure: (URLSessionConfiguration) -> Void = { _ in }) -> URLSession {
      let configuration = URLSessionConfiguration.background(withIdentifier: "tests.session")
      configure(configuration)
      return URLSession(configuration: configuration, delegate: ends, delegateQueue: nil, registry: registry)
    }

    func request(_ path: String = "/file") throws -> URLRequest {
      URLRequest(url: try #require(URL(string: server.url(path))))
    }

    /// What `ferry conditions set` does.
    func set(_ name: String, _ value: String) throws {
      let values = [ConditionValue(name: name, value: value)]
      _ = try person.call(
        .conditionsSet(ConditionsSetParameters(values: values)), returning: ConditionsResult.self)
    }

    /// The names of what keeps the first task from running.
    func blockers() throws -> [String] {
      let result = try person.call(.taskShow(TaskShowParameters(id: 1)), returning: TaskShowResult.self)
      return (result.task.blockers ?? []).map(\.name)
    }
  }

  @Test("a discretionary task waits for power, and begins when it returns")
  func discretionary() async throws {
    let stage = try Stage()
    defer { stage.end() }
    stage.gate.open()
    try stage.set("power", "battery")
    stage.session { $0.isDiscretionary = true }.downloadTask(with: try stage.request()).resume()
    try await eventually("it waits for power") { try stage.blockers() == ["externalPower"] }
    #expect(stage.server.requestCount == 0)
    try stage.set("power", "external")
    #expect(try await stage.ends.next().error == nil)
    #expect(stage.server.requestCount == 1)
  }

  @Test(
    "a network that is not allowed is not used; the task begins on another",
    arguments: [
      ("metered", "unmetered", "expensive"), ("metered", "unmetered", "cellular"),
      ("constrained", "unconstrained", "constrained"), ("constrained", "unconstrained", "ultra"),
      ("metered", "unmetered", "request"),
    ])
  func networks(condition: String, blocker: String, knob: String) async throws {
    let stage = try Stage()
    defer { stage.end() }
    stage.gate.open()
    try stage.set(condition, "yes")
    let session = stage.session {
      switch knob {
      case "expensive": $0.allowsExpensiveNetworkAccess = false
      case "cellular": $0.allowsCellularAccess = false
      case "constrained": $0.allowsConstrainedNetworkAccess = false
      case "ultra": $0.allowsUltraConstrainedNetworkAccess = false
      default: break
      }
    }
    var request = try stage.request()
    if knob == "request" { request.allowsExpensiveNetworkAccess = false }
    session.downloadTask(with: request).resume()
    try await eventually("it waits for another network") { try stage.blockers() == [blocker] }
    #expect(stage.server.requestCount == 0)
    try stage.set(condition, "no")
    #expect(try await stage.ends.next().error == nil)
  }

  @Test("a data task that has begun is not begun again when its network becomes expensive: it fails and says why")
  func expensiveInTheMiddle() async throws {
    let gate = Gate()
    let stage = try Stage { _ in .generated(length: 100_000).stall(afterBytes: 50_000, until: gate) }
    defer { stage.end() }
    defer { gate.open() }
    stage.session { $0.allowsExpensiveNetworkAccess = false }.dataTask(with: try stage.request()).resume()
    #expect(await gate.waitForWaiters())
    try await eventually("bytes have come") {
      let result = try stage.person.call(.taskShow(TaskShowParameters(id: 1)), returning: TaskShowResult.self)
      return result.task.received > 0
    }
    try stage.set("metered", "yes")
    let error = try await stage.ends.next().error
    #expect(error?.code == .notConnectedToInternet && error?.networkUnavailableReason == .expensive)
  }

  @Test("timeoutIntervalForRequest begins the attempt anew, as background sessions do; the task does not fail")
  func requestTimeout() async throws {
    let gate = Gate()
    let isFirst = Mutex(true)
    let stage = try Stage { _ in
      let whole = Response.generated(length: 200_000).etag("\"a\"")
      let mustStall = isFirst.withLock { isFirst in
        defer { isFirst = false }
        return isFirst
      }
      return mustStall ? whole.stall(afterBytes: 100_000, until: gate) : whole
    }
    defer { stage.end() }
    defer { gate.open() }
    stage.session { $0.timeoutIntervalForRequest = 1 }.downloadTask(with: try stage.request()).resume()
    #expect(try await stage.ends.next().error == nil)
    #expect(stage.server.requests.map { $0.headers["Range"] } == [nil, "bytes=100000-"])
  }

  @Test("timeoutIntervalForResource ends the task, whatever it waits for", arguments: [false, true])
  func resourceTimeout(waits: Bool) async throws {
    let stage = try Stage()
    defer { stage.end() }
    if waits { try stage.set("metered", "yes") }
    let session = stage.session {
      $0.timeoutIntervalForResource = 1
      $0.allowsExpensiveNetworkAccess = false
    }
    session.downloadTask(with: try stage.request()).resume()
    #expect(try await stage.ends.next().error?.code == .timedOut)
    #expect(stage.server.requestCount == (waits ? 0 : 1))
  }

  @Test("no more tasks of a host run at once than httpMaximumConnectionsPerHost")
  func connectionsPerHost() async throws {
    let stage = try Stage()
    defer { stage.end() }
    let session = stage.session { $0.httpMaximumConnectionsPerHost = 2 }
    for number in 1...5 { session.downloadTask(with: try stage.request("/\(number)")).resume() }
    #expect(await stage.gate.waitForWaiters(2))
    try await eventually("the others wait for a slot") {
      let tasks = try stage.person.call(.taskShow(TaskShowParameters(id: 5)), returning: TaskShowResult.self)
      return tasks.task.blockers?.map(\.name) == ["hostSlots"]
    }
    stage.gate.open()
    for _ in 1...5 { #expect(try await stage.ends.next().error == nil) }
    #expect(stage.server.peakConcurrentRequests == 2)
  }

  @Test("of the tasks that wait for a slot the one with the highest priority is next")
  func priority() async throws {
    let stage = try Stage()
    defer { stage.end() }
    let session = stage.session { $0.httpMaximumConnectionsPerHost = 1 }
    session.downloadTask(with: try stage.request("/first")).resume()
    #expect(await stage.gate.waitForWaiters(1))
    for (name, priority) in [
      ("low", URLSessionTask.lowPriority), ("default", URLSessionTask.defaultPriority),
      ("high", URLSessionTask.highPriority), ("highest", 1),
    ] {
      let task = session.downloadTask(with: try stage.request("/\(name)"))
      task.priority = priority
      task.resume()
    }
    try await eventually("all are there") {
      let tasks = try stage.person.call(.taskShow(TaskShowParameters(id: 5)), returning: TaskShowResult.self)
      return tasks.task.state == "waiting"
    }
    stage.gate.open()
    for _ in 1...5 { #expect(try await stage.ends.next().error == nil) }
    #expect(stage.server.requests.map(\.path) == ["/first", "/highest", "/high", "/default", "/low"])
  }

  @Test("a task begins no earlier than its date, which a later process finds")
  func earliestBeginDate() async throws {
    let stage = try Stage()
    defer { stage.end() }
    stage.gate.open()
    let session = stage.session()
    let task = session.downloadTask(with: try stage.request())
    task.earliestBeginDate = Date(timeIntervalSinceNow: 3600)
    task.countOfBytesClientExpectsToReceive = 1200
    task.resume()
    try await eventually("it waits for its date") { try stage.blockers() == ["time"] }
    stage.registry.endProcess()
    let (next, later) = try await EndToEndTests.nextProcess(stage.home, stage.ends)
    let found = await later.allTasks.first
    #expect(found?.countOfBytesClientExpectsToReceive == 1200)
    let date = try #require(found?.earliestBeginDate)
    #expect(abs(date.timeIntervalSinceNow - 3600) < 60)
    #expect(stage.server.requestCount == 0)
    let soon = Date(timeIntervalSinceNow: 0.5)
    found?.earliestBeginDate = soon
    #expect(try await stage.ends.next().error == nil)
    #expect(Date() >= soon)
    next.endProcess()
  }

  @Test("a download that is larger than the disk waits for space, and says so")
  func sizeEstimate() async throws {
    let stage = try Stage()
    defer { stage.end() }
    stage.gate.open()
    let session = stage.session()
    let task = session.downloadTask(with: try stage.request())
    task.countOfBytesClientExpectsToReceive = 1 << 60
    task.resume()
    try await eventually("it waits for space") { try stage.blockers() == ["space"] }
    #expect(stage.server.requestCount == 0)
    task.countOfBytesClientExpectsToReceive = NSURLSessionTransferSizeUnknown
    #expect(try await stage.ends.next().error == nil)
  }
}

/// For what nothing tells of: looks again until the deadline.
private func eventually(
  _ what: Comment, within limit: Duration = .seconds(10), _ condition: () async throws -> Bool
) async throws {
  let end = ContinuousClock.now + limit
  while ContinuousClock.now < end {
    if try await condition() { return }
    try await Task.sleep(for: .milliseconds(20))  // sleep: looks again
  }
  Issue.record(what)
}
