import FerryClient
import Foundation
import Glibc
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

@testable import BackgroundURLSession

/// Answers challenges by a script, and tells of each and of the end.
private final class Keeper: NSObject, URLSessionDownloadDelegate, Sendable {
  typealias Decision = @Sendable (Int) -> (URLSession.AuthChallengeDisposition, URLCredential?)

  enum Message: Sendable {
    case challenged(method: String, host: String, port: Int, realm: String?, failures: Int)
    case delayed(URL?)
    case resumed(Int64)
    case file(Data)
    case complete(status: Int?, error: URLError?)
  }

  let messages: AsyncStream<Message>
  private let continuation: AsyncStream<Message>.Continuation
  private let decision: Decision
  private let delayed: @Sendable (URLRequest) -> (URLSession.DelayedRequestDisposition, URLRequest?)

  init(
    delayed: @escaping @Sendable (URLRequest) -> (URLSession.DelayedRequestDisposition, URLRequest?) = { _ in
      (.continueLoading, nil)
    }, challenged decision: @escaping Decision = { _ in (.performDefaultHandling, nil) }
  ) {
    (messages, continuation) = AsyncStream.makeStream()
    self.decision = decision
    self.delayed = delayed
  }

  func first<Picked: Sendable>(_ pick: (Message) -> Picked?) async throws -> Picked {
    for await message in messages {
      if let picked = pick(message) { return picked }
    }
    throw CancellationError()
  }

  /// All until the task's last message, that included.
  func all() async -> [Message] {
    var all: [Message] = []
    for await message in messages {
      all.append(message)
      if case .complete = message { break }
    }
    return all
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    let space = challenge.protectionSpace
    continuation.yield(
      .challenged(
        method: space.authenticationMethod, host: space.host, port: space.port, realm: space.realm,
        failures: challenge.previousFailureCount))
    let (disposition, credential) = decision(challenge.previousFailureCount)
    completionHandler(disposition, credential)
    // Only the first call counts.
    completionHandler(.cancelAuthenticationChallenge, nil)
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, willBeginDelayedRequest request: URLRequest,
    completionHandler: @escaping @Sendable (URLSession.DelayedRequestDisposition, URLRequest?) -> Void
  ) {
    continuation.yield(.delayed(request.url))
    let (disposition, replacement) = delayed(request)
    completionHandler(disposition, replacement)
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    continuation.yield(.file((try? Data(contentsOf: location)) ?? Data()))
  }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didResumeAtOffset fileOffset: Int64,
    expectedTotalBytes: Int64
  ) {
    continuation.yield(.resumed(fileOffset))
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let status = (task.response as? HTTPURLResponse)?.statusCode
    continuation.yield(.complete(status: status, error: error as? URLError))
  }
}

/// Has the session's method only.
private final class SessionOnly: NSObject, URLSessionDelegate, Sendable {
  let count = Mutex(0)
  func urlSession(
    _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    count.withLock { $0 += 1 }
    completionHandler(.cancelAuthenticationChallenge, nil)
  }
}

@Suite("What the delegate is asked", .serialized, .timeLimit(.minutes(1)))
struct ChallengeTests {
  static let length = 300_000

  static func credential(_ password: String) -> URLCredential {
    URLCredential(user: "ann", password: password, persistence: .none)
  }

  @Test("a challenge that came while no process was there is put before the next one; the transfer goes on")
  func unattended() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let login = Login.digest(user: "ann", password: "secret")
    let asksNow = Mutex(false)
    let gate = Gate()
    let server = try LocalServer.start { request in
      if asksNow.withLock({ $0 }), !login.isShown(by: request) { return login.challenge }
      let content = Response.generated(length: Self.length).etag("\"a\"")
      return request.headers["Range"] == nil
        ? content.stall(afterBytes: 100_000, until: gate).cut(afterBytes: 100_000) : content
    }
    defer { server.stop() }
    let first = home.newProcess()
    let session = first.session(Keeper())
    session.downloadTask(with: try #require(URL(string: server.url("/file")))).resume()
    #expect(await EndToEndTests.blocking { gate.waitForWaiters() })
    first.endProcess()
    asksNow.withLock { $0 = true }
    gate.open()
    let came = await EndToEndTests.blocking { Self.wait { server.requestCount >= 2 } }
    #expect(came)
    // Twice: the question survives the daemon as well.
    home.killDaemon()

    let keeper = Keeper(challenged: { _ in (.useCredential, Self.credential("secret")) })
    let (second, next) = try await EndToEndTests.nextProcess(home, keeper)
    let messages = await keeper.all()
    guard case .challenged(let method, let host, let port, let realm, let failures)? = messages.first else {
      Issue.record("The first message is \(messages)")
      return
    }
    #expect(method == NSURLAuthenticationMethodHTTPDigest)
    #expect(host == "127.0.0.1" && port == Int(server.port) && realm == "loopback" && failures == 0)
    #expect(messages.contains { if case .file(let data) = $0 { data.count == Self.length } else { false } })
    #expect(messages.contains { if case .resumed(100_000) = $0 { true } else { false } })
    #expect(server.requests.last?.headers["Range"] == "bytes=100000-")
    next.invalidateAndCancel()
    second.endProcess()
  }

  /// The states of all tasks, as the daemon tells.
  static func states(_ home: DaemonHome) -> [String] {
    guard
      let connection = try? DaemonConnection.open(
        client: "tests", environment: home.environment, startsDaemon: false, onNotification: { _ in })
    else { return [] }
    defer { connection.close() }
    let list = try? connection.call(.taskList(TaskListParameters()), returning: TaskListResult.self)
    return list?.tasks.map(\.state) ?? []
  }

  static func wait(_ holds: () -> Bool) -> Bool {
    for _ in 0..<2000 {
      if holds() { return true }
      usleep(10_000)  // sleep: looks again
    }
    return false
  }

  @Test("a wrong password counts as a failure; a cancelled challenge cancels the task")
  func wrongTwiceThenCancelled() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let login = Login.basic(user: "ann", password: "secret")
    let server = try LocalServer.start { login.isShown(by: $0) ? .text("content") : login.challenge }
    defer { server.stop() }
    let keeper = Keeper(challenged: { failures in
      failures < 2 ? (.useCredential, Self.credential("wrong")) : (.cancelAuthenticationChallenge, nil)
    })
    let process = home.newProcess()
    let session = process.session(keeper)
    session.downloadTask(with: try #require(URL(string: server.url("/file")))).resume()
    let messages = await keeper.all()
    let failures = messages.compactMap { if case .challenged(_, _, _, _, let count) = $0 { count } else { nil } }
    #expect(failures == [0, 1, 2])
    guard case .complete(_, let error)? = messages.last else { return }
    #expect(error?.code == .cancelled)
    session.invalidateAndCancel()
    process.endProcess()
  }

  @Test("default handling takes the storage's credential, and without one the 401 is the response")
  func defaultHandling() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let login = Login.basic(user: "ann", password: "secret")
    let server = try LocalServer.start { login.isShown(by: $0) ? .text("content") : login.challenge }
    defer { server.stop() }
    for (isStored, status) in [(false, 401), (true, 200)] {
      let process = home.newProcess()
      let configuration = URLSessionConfiguration.background(withIdentifier: "tests.\(isStored)")
      let storage = URLSessionConfiguration.ephemeral.urlCredentialStorage
      configuration.urlCredentialStorage = storage
      if isStored {
        let space = URLProtectionSpace(
          host: "127.0.0.1", port: Int(server.port), protocol: "http", realm: "loopback",
          authenticationMethod: NSURLAuthenticationMethodHTTPBasic)
        storage?.setDefaultCredential(
          URLCredential(user: "ann", password: "secret", persistence: .forSession), for: space)
      }
      let keeper = Keeper()
      let session = URLSession(
        configuration: configuration, delegate: keeper, delegateQueue: nil, registry: process)
      session.downloadTask(with: try #require(URL(string: server.url("/file")))).resume()
      let messages = await keeper.all()
      guard case .complete(let told, let error)? = messages.last else { return }
      #expect(error == nil)
      #expect(told == status)
      session.invalidateAndCancel()
      process.endProcess()
    }
  }

  @Test("the session's method does not stand in for the task's")
  func noFallback() async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let login = Login.basic(user: "ann", password: "secret")
    let server = try LocalServer.start { _ in login.challenge }
    defer { server.stop() }
    let process = home.newProcess()
    let delegate = SessionOnly()
    let session = process.session(delegate)
    let task = session.downloadTask(with: try #require(URL(string: server.url("/file"))))
    task.resume()
    #expect(await EndToEndTests.blocking { Self.wait { task.state == .completed } })
    #expect((task.response as? HTTPURLResponse)?.statusCode == 401)
    #expect(delegate.count.withLock { $0 } == 0)
    session.invalidateAndCancel()
    process.endProcess()
  }

  @Test(
    "a delayed request is asked for at its date, also where process and daemon had ended",
    arguments: ["continue", "new", "cancel"], [false, true])
  func delayed(way: String, isUnattended: Bool) async throws {
    let home = try DaemonHome()
    defer { home.stop() }
    let server = try LocalServer.start { .text($0.path) }
    defer { server.stop() }
    let fresh = try #require(URL(string: server.url("/fresh")))
    let keeper = Keeper(delayed: { _ in
      switch way {
      case "new": (.useNewRequest, URLRequest(url: fresh))
      case "cancel": (.cancel, nil)
      default: (.continueLoading, nil)
      }
    })
    var process = home.newProcess()
    var session = process.session(isUnattended ? SessionOnly() : keeper)
    let task = session.downloadTask(with: try #require(URL(string: server.url("/stale"))))
    task.earliestBeginDate = Date().addingTimeInterval(isUnattended ? 3 : 0.3)
    task.resume()
    if isUnattended {
      let isDurable = await EndToEndTests.blocking { Self.wait { Self.states(home) == ["waiting"] } }
      #expect(isDurable)
      process.endProcess()
      home.killDaemon()
      (process, session) = try await EndToEndTests.nextProcess(home, keeper)
    }
    let messages = await keeper.all()
    let asked = messages.compactMap { if case .delayed(let url) = $0 { url?.path } else { nil } }
    #expect(asked == ["/stale"])
    guard case .complete(_, let error)? = messages.last else { return }
    #expect(error?.code == (way == "cancel" ? .cancelled : nil))
    #expect(server.requests.map(\.path) == (way == "cancel" ? [] : way == "new" ? ["/fresh"] : ["/stale"]))
    session.invalidateAndCancel()
    process.endProcess()
  }
}
