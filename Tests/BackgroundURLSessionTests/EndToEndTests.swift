import Foundation
import Glibc
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// Tells of each message as it comes, with what a test wants to look at while the message is being handled.
private final class Watcher: NSObject, URLSessionDownloadDelegate, URLSessionDataDelegate, Sendable {
  enum Message: Sendable {
    case wrote(Int64)
    case sent(Int64)
    case file(number: Int, path: String, content: Data)
    case data(Data)
    case response(Int)
    case complete(number: Int, status: Int?, error: (any Error)?)
    case finishEvents
    case invalid((any Error)?)
  }

  let messages: AsyncStream<Message>
  private let continuation: AsyncStream<Message>.Continuation

  override init() {
    (messages, continuation) = AsyncStream.makeStream()
  }

  /// The first message that `pick` takes; the ones before it are gone.
  func first<Picked: Sendable>(_ pick: (Message) -> Picked?) async throws -> Picked {
    for await message in messages {
      if let picked = pick(message) { return picked }
    }
    throw CancellationError()
  }

  func completion() async throws -> (number: Int, status: Int?, error: (any Error)?) {
    try await first {
      if case .complete(let number, let status, let error) = $0 { (number, status, error) } else { nil }
    }
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let content = (try? Data(contentsOf: location)) ?? Data()
    continuation.yield(.file(number: downloadTask.taskIdentifier, path: location.path, content: content))
  }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
    totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
  ) {
    continuation.yield(.wrote(totalBytesWritten))
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64
  ) {
    continuation.yield(.sent(totalBytesSent))
  }
  func urlSession(
    _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
    completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
  ) {
    continuation.yield(.response((response as? HTTPURLResponse)?.statusCode ?? 0))
    completionHandler(.allow)
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    continuation.yield(.data(data))
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let status = (task.response as? HTTPURLResponse)?.statusCode
    continuation.yield(.complete(number: task.taskIdentifier, status: status, error: error))
  }
  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) { continuation.yield(.finishEvents) }
  func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?) {
    continuation.yield(.invalid(error))
  }
}

@Suite("With the real daemon", .serialized, .timeLimit(.minutes(1)))
struct EndToEndTests {
  static let length = 400_000

  @Test("a download goes on without its process; the next one finds it, its words and its growth, and gets the file")
  func downloadOutlivesProcess() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let gates = [Gate(), Gate()]
    let server = try LocalServer.start { _ in
      .generated(length: Self.length)
        .stall(afterBytes: 100_000, until: gates[0]).stall(afterBytes: 300_000, until: gates[1])
    }
    defer { server.stop() }

    let first = home.newProcess()
    let firstWatcher = Watcher()
    let session = first.session(firstWatcher)
    let task = session.downloadTask(with: try #require(URL(string: server.url("/file"))))
    #expect(task.taskIdentifier == 1)
    task.taskDescription = "lesson"
    task.resume()
    let seen = try await firstWatcher.first { if case .wrote(let total) = $0 { total } else { nil } }
    first.endProcess()
    gates[0].open()
    #expect(await Self.blocking { gates[1].waitForWaiters() })

    let watcher = Watcher()
    let (second, next) = try await Self.nextProcess(home, watcher)
    let tasks = await next.allTasks
    #expect(tasks.map(\.taskIdentifier) == [1])
    let found = try #require(tasks.first as? URLSessionDownloadTask)
    #expect(found.taskDescription == "lesson")
    #expect(found.countOfBytesReceived >= seen)
    gates[1].open()
    let (path, content) = try await watcher.first {
      if case .file(1, let path, let content) = $0 { (path, content) } else { nil }
    }
    #expect(path.contains("com.apple.nsurlsessiond/Downloads"))
    #expect(isWhole(content))
    let end = try await watcher.completion()
    #expect(end.number == 1 && end.status == 200 && end.error == nil)
    #expect(found.countOfBytesReceived == Int64(Self.length))
    try await watcher.first { if case .finishEvents = $0 { () } else { nil } }
    #expect(await next.allTasks.isEmpty)
    #expect(server.requests.count == 1)
    #expect(server.requests.allSatisfy { $0.head.headers["Range"] == nil })
    try await eventually("the delivered file is removed") { !FileManager.default.fileExists(atPath: path) }
    second.endProcess()
  }

  @Test("an upload goes on without its process and without its source; its count grows with nobody attached")
  func uploadOutlivesProcess() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let gate = Gate()
    var configuration = LocalServer.Configuration()
    configuration.receiveBufferByteCount = 64 * 1024
    let server = try LocalServer.start(
      configuration: configuration, head: { _ in .stall(afterBytes: 1_000_000, until: gate) }
    ) { request in .text("POST \(request.path) \(request.bodyByteCount) bytes").status(201) }
    defer { server.stop() }
    let source = home.folder.appendingPathComponent("source")
    try Data(GeneratedContent(length: 5_000_000).allBytes).write(to: source)

    let first = home.newProcess()
    let firstWatcher = Watcher()
    let session = first.session(firstWatcher)
    var request = URLRequest(url: try #require(URL(string: server.url("/uploads"))))
    request.httpMethod = "POST"
    session.uploadTask(with: request, fromFile: source).resume()
    let seen = try await firstWatcher.first { if case .sent(let total) = $0 { total } else { nil } }
    first.endProcess()
    try FileManager.default.removeItem(at: source)

    let watcher = Watcher()
    let (second, next) = try await Self.nextProcess(home, watcher)
    let found = try #require(await next.allTasks.first as? URLSessionUploadTask)
    #expect(found.countOfBytesSent >= seen)
    #expect(found.countOfBytesExpectedToSend == 5_000_000)
    gate.open()
    let body = try await watcher.first { if case .data(let data) = $0 { data } else { nil } }
    #expect(String(decoding: body, as: UTF8.self) == "POST /uploads 5000000 bytes")
    let end = try await watcher.completion()
    #expect(end.number == 1 && end.status == 201 && end.error == nil)
    second.endProcess()
  }

  @Test("a process killed inside didFinishDownloadingTo: the next one is offered the same file")
  func killedInsideDelegate() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let server = try LocalServer.start { _ in .generated(length: Self.length) }
    defer { server.stop() }
    try await #require(processExitsWith: .signal(SIGKILL)) {
      [path = home.folder.path as String, url = server.url("/file") as String] in
      final class Victim: NSObject, URLSessionDownloadDelegate, Sendable {
        func urlSession(
          _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
        ) {
          kill(getpid(), SIGKILL)
        }
      }
      var environment = ProcessInfo.processInfo.environment
      environment["FERRY_HOME"] = path
      environment["FERRY_APP_ID"] = "facade.tests"
      let registry = SessionRegistry.connected(in: environment)
      registry.session(Victim()).downloadTask(with: try #require(URL(string: url))).resume()
      try await Task.sleep(for: .seconds(30))  // sleep: dies before
    }
    let next = home.newProcess()
    let watcher = Watcher()
    let session = next.session(watcher)
    let content = try await watcher.first { if case .file(1, _, let content) = $0 { content } else { nil } }
    #expect(isWhole(content))
    let end = try await watcher.completion()
    #expect(end.number == 1 && end.error == nil)
    #expect(server.requests.count == 1)
    withExtendedLifetime(session) {}
    next.endProcess()
  }

  @Test("a daemon killed in the middle: neither the delegate nor the file notices")
  func killedDaemon() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let gate = Gate()
    let isFirst = Mutex(true)
    let server = try LocalServer.start { _ in
      let response = Response.generated(length: Self.length).etag("\"1\"")
      let stalls = isFirst.withLock { first in
        defer { first = false }
        return first
      }
      return stalls ? response.stall(afterBytes: 200_000, until: gate) : response
    }
    defer { server.stop() }
    let registry = home.newProcess()
    let watcher = Watcher()
    let task = registry.session(watcher).downloadTask(with: try #require(URL(string: server.url("/file"))))
    task.resume()
    _ = try await watcher.first { if case .wrote(let total) = $0 { total } else { nil } }
    home.killDaemon()
    let content = try await watcher.first { if case .file(1, _, let content) = $0 { content } else { nil } }
    #expect(isWhole(content))
    let end = try await watcher.completion()
    #expect(end.number == 1 && end.error == nil)
    #expect(task.state == .completed)
    gate.open()
    registry.endProcess()
  }

  @Test("an error page is a success; cancelling ends with -999; both are acknowledged once and for all")
  func statusAndCancellation() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let gate = Gate()
    let server = try LocalServer.start { request in
      request.path == "/missing" ? .text("no such page").status(404) : .text("late").hold(until: gate)
    }
    defer { server.stop() }
    let registry = home.newProcess()
    let watcher = Watcher()
    let session = registry.session(watcher)
    session.downloadTask(with: try #require(URL(string: server.url("/missing")))).resume()
    let content = try await watcher.first { if case .file(1, _, let content) = $0 { content } else { nil } }
    #expect(content == Data("no such page".utf8))
    let end = try await watcher.completion()
    #expect(end.status == 404 && end.error == nil)

    let late = session.downloadTask(with: try #require(URL(string: server.url("/late"))))
    late.resume()
    #expect(await Self.blocking { gate.waitForWaiters() })
    late.cancel()
    let cancelled = try await watcher.completion()
    #expect(cancelled.number == 2 && (cancelled.error as? URLError)?.code == .cancelled)
    gate.open()
    try await watcher.first { if case .finishEvents = $0 { () } else { nil } }
    await withCheckedContinuation { done in session.getAllTasks { _ in done.resume() } }
    registry.endProcess()

    let nextWatcher = Watcher()
    let (next, nextSession) = try await Self.nextProcess(home, nextWatcher)
    #expect(await nextSession.allTasks.isEmpty)
    #expect(nextSession.downloadTask(with: try #require(URL(string: server.url("/missing")))).taskIdentifier == 3)
    nextSession.invalidateAndCancel()
    // Nothing old comes again.
    let completions = Mutex<[Int]>([])
    try await nextWatcher.first { message in
      if case .complete(let number, _, _) = message { completions.withLock { $0.append(number) } }
      if case .invalid(let error) = message { return error == nil ? () : nil }
      return nil
    }
    #expect(completions.withLock { $0 } == [3])
    next.endProcess()
  }

  @Test("a second process is told that the session is in use, and gets it when the first is gone")
  func oneProcess() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let first = home.newProcess()
    let session = first.session(Watcher())
    _ = session.downloadTask(with: try #require(URL(string: "http://127.0.0.1:1/")))
    let second = home.newProcess()
    let watcher = Watcher()
    _ = second.session(watcher)
    let error = try await watcher.first { if case .invalid(let error) = $0 { error } else { nil } }
    #expect((error as? URLError)?.code == .backgroundSessionInUseByAnotherProcess)
    first.endProcess()
    second.endProcess()
    try await eventually("the session is free") {
      let third = home.newProcess()
      defer { third.endProcess() }
      let tasks = third.session(Watcher())
      return (tasks.backing as? AttachedSession)?.id != nil
    }
  }

  @Test("a data task hands its response over piece by piece")
  func dataTask() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let server = try LocalServer.start { _ in .generated(length: Self.length) }
    defer { server.stop() }
    let registry = home.newProcess()
    let watcher = Watcher()
    registry.session(watcher).dataTask(with: try #require(URL(string: server.url("/data")))).resume()
    let status = try await watcher.first { if case .response(let status) = $0 { status } else { nil } }
    #expect(status == 200)
    let received = Mutex(Data())
    let error = try await watcher.first { message -> URLError?? in
      if case .data(let data) = message { received.withLock { $0.append(data) } }
      if case .complete(_, _, let error) = message { return .some(error as? URLError) }
      return nil
    }
    #expect(error == nil)
    #expect(isWhole(received.withLock { $0 }))
    registry.endProcess()
  }

  /// A process that comes after one that ended. Unlike a real end, `endProcess` takes a moment.
  static func nextProcess(
    _ home: DaemonHome, _ watcher: any URLSessionDelegate
  ) async throws -> (SessionRegistry, URLSession) {
    let found = Mutex<(SessionRegistry, URLSession)?>(nil)
    try await eventually("the session is free") {
      let registry = home.newProcess()
      let session = registry.session(watcher)
      guard (session.backing as? AttachedSession)?.id != nil else {
        registry.endProcess()
        return false
      }
      found.withLock { $0 = (registry, session) }
      return true
    }
    return try #require(found.withLock { $0 })
  }

  /// Off the cooperative pool, which a wait must not block.
  static func blocking(_ wait: @escaping @Sendable () -> Bool) async -> Bool {
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async { continuation.resume(returning: wait()) }
    }
  }
}

/// Apart from the expectation, which would print both.
private func isWhole(_ content: Data) -> Bool {
  content == Data(GeneratedContent(length: EndToEndTests.length).allBytes)
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
