import FerryClient
import Foundation
import Synchronization
import Testing
import TransferCore
import WireProtocol

@testable import BackgroundURLSession

private let url = URL(string: "http://host.test/file")!
private let token = ResumeToken(high: 0x0123_4567_89AB_CDEF, low: 42)
private let ticket = Data(ResumeTicket(token: token, received: 40).bytes)

@Suite("Resume data", .timeLimit(.minutes(1)))
struct ResumeTests {
  @Test("is what the daemon kept, and nil where it kept nothing")
  func producing() async {
    let stage = Stage()
    let session = stage.session(Recorder())
    let task = session.downloadTask(with: url)
    stage.daemon.state.withLock {
      $0.kept = [WireKeptPart(id: 100, resumeToken: token.description, received: 40)]
    }
    #expect(await task.cancelByProducingResumeData() == ticket)
    #expect(
      stage.daemon.requests.last == .taskCancel(TaskIdentifiersParameters(ids: [100], producesResumeData: true)))
    // Once only: the task is on its way to its end.
    #expect(await task.cancelByProducingResumeData() == nil)
    stage.daemon.state.withLock { $0.kept = [] }
    #expect(await session.downloadTask(with: url).cancelByProducingResumeData() == nil)
  }

  @Test("is in the error of a task that can be continued, under Apple's key")
  func inErrors() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let failure = WireFailure(code: "timedOut", isTransient: false, domain: "", number: 0, detail: "late")
    for (number, state) in ["failed", "cancelled", "failed"].enumerated() {
      session.downloadTask(with: url).resume()
      stage.deliver(
        Int64(number + 1), "completion",
        ScriptedDaemon.snapshot(id: Int64(100 + number), number: Int64(number + 1), state: state, received: 40) {
          $0.error = failure
          if number < 2 { $0.resumeToken = token.description }
        })
    }
    var seen = await recorder.messages(6).count
    while recorder.state.withLock({ $0.errors.count }) < 3 { seen = await recorder.messages(seen + 1).count }
    let errors = recorder.state.withLock { $0.errors.map { $0 as? URLError } }
    #expect(errors.map { $0?.code } == [.timedOut, .cancelled, .timedOut])
    #expect(errors.map { $0?.downloadTaskResumeData } == [ticket, ticket, nil])
    #expect(errors[0]?.userInfo["NSURLSessionDownloadTaskResumeData"] as? Data == ticket)
    #expect(NSURLSessionDownloadTaskResumeData == "NSURLSessionDownloadTaskResumeData")
  }

  @Test("makes a task that knows what is asked of whom, and hears from where it goes on")
  func continuing() async throws {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    stage.daemon.state.withLock {
      $0.shown = ScriptedDaemon.snapshot(state: "suspended", received: 40) { $0.expected = 100 }
    }
    let task = session.downloadTask(withResumeData: ticket)
    let enqueue = try #require(
      stage.daemon.requests.compactMap { request -> TaskEnqueueParameters? in
        if case .taskEnqueue(let parameters) = request { parameters } else { nil }
      }.last)
    #expect(enqueue.tasks.map(\.resumeToken) == [token.description])
    #expect(task.originalRequest?.url == url)
    #expect(task.countOfBytesReceived == 40 && task.countOfBytesExpectedToReceive == 100)
    #expect(task.state == .suspended)
    task.resume()
    stage.registry.receive(.taskResumed(TaskResumedNotice(id: 100, offset: 40, expected: 100)))
    #expect(await recorder.messages(2) == ["created 1", "resumed 40 100"])
  }

  static let foreign: [Data] = [
    Data(), Data("<?xml version=\"1.0\"?><plist/>".utf8), Data("bplist00".utf8) + Data(count: 200),
    ticket.prefix(20), ticket + Data([0]), Data(ticket.map { $0 ^ 1 }),
    Data("FERRYRES".utf8) + Data([9]) + Data(count: 32),
  ]

  @Test("that is not ours fails the task when it is resumed, in Apple's words", arguments: foreign)
  func refusing(data: Data) async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let task = session.downloadTask(withResumeData: data)
    #expect(task.originalRequest == nil)
    task.resume()
    _ = await recorder.messages(2)
    let error = recorder.state.withLock { $0.errors.first.flatMap { $0 as? URLError } }
    #expect(error?.code == .cannotWriteToFile)
    #expect(error?.localizedDescription.hasPrefix("Invalid resume data for background download.") == true)
    #expect(error?.downloadTaskResumeData == nil)
  }

  @Test("that was used before, or is another program's, fails likewise")
  func usedTwice() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    stage.daemon.state.withLock { $0.enqueueFailure = WireError(.resumeDataInvalid, "used") }
    session.downloadTask(withResumeData: ticket).resume()
    _ = await recorder.messages(2)
    let error = recorder.state.withLock { $0.errors.first.flatMap { $0 as? URLError } }
    #expect(error?.code == .cannotWriteToFile)
    #expect(error?.localizedDescription.hasPrefix("Invalid resume data") == true)
  }

  @Test("of an upload is nil, and an upload from it fails")
  func uploads() async throws {
    let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try Data("x".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let task = session.uploadTask(with: URLRequest(url: url), fromFile: file)
    #expect(await task.cancelByProducingResumeData() == nil)
    session.uploadTask(withResumeData: ticket).resume()
    _ = await recorder.messages(3)
    #expect((recorder.state.withLock { $0.errors.first } as? URLError)?.code == .cannotOpenFile)
  }
}

/// Writes the order of the last messages down, with the metrics.
private final class MetricsRecorder: NSObject, URLSessionDownloadDelegate, Sendable {
  let metrics = Mutex<[URLSessionTaskMetrics]>([])
  let lines = Mutex<[String]>([])
  let done: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  override init() { (done, continuation) = AsyncStream.makeStream() }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) { lines.withLock { $0.append("file") } }
  func urlSession(_ session: URLSession, task: URLSessionTask, didFinishCollecting metrics: URLSessionTaskMetrics) {
    lines.withLock { $0.append("metrics") }
    self.metrics.withLock { $0.append(metrics) }
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    lines.withLock { $0.append("complete") }
    continuation.yield()
  }
}

@Suite("Metrics", .timeLimit(.minutes(1)))
struct MetricsTests {
  @Test("come between the file and the last message, with the daemon's measurements")
  func order() async throws {
    let stage = Stage()
    let recorder = MetricsRecorder()
    let session = stage.session(recorder)
    guard case .sessionOpen(let open) = stage.daemon.requests.first else {
      Issue.record("no open")
      return
    }
    #expect(open.wantsMetrics == true)
    session.downloadTask(with: url).resume()
    var first = WireTransaction(url: "http://host.test/file", method: "GET", startMilliseconds: 1_700_000_000_000.5)
    first.status = 302
    var last = WireTransaction(url: "http://other.test/file", method: "GET", startMilliseconds: 1_700_000_001_000)
    last.status = 200
    last.networkProtocol = "h2"
    last.domainLookupStartSeconds = 0
    last.domainLookupEndSeconds = 0.25
    last.tlsVersion = 0x0304
    last.tlsCipherSuite = 0x1302
    last.isReused = true
    last.responseBodyBytes = 40
    last.remoteAddress = "192.0.2.1"
    last.remotePort = 443
    let task = ScriptedDaemon.snapshot(state: "succeeded", received: 100) {
      $0.metrics = WireMetrics(transactions: [first, last], redirects: 1)
      $0.createdMilliseconds = 1_700_000_000_000
      $0.finishedMilliseconds = 1_700_000_002_000
      $0.file = "/tmp/none"
      $0.response = ScriptedDaemon.response(headers: [WireHeader(name: "Content-Encoding", value: "gzip")])
    }
    stage.deliver(1, "file", task)
    stage.deliver(2, "completion", task)
    for await _ in recorder.done { break }
    #expect(recorder.lines.withLock { $0 } == ["file", "metrics", "complete"])
    let metrics = try #require(recorder.metrics.withLock { $0.first })
    #expect(metrics.redirectCount == 1 && metrics.taskInterval.duration == 2)
    #expect(metrics.transactionMetrics.count == 2)
    #expect((metrics.transactionMetrics[0].response as? HTTPURLResponse)?.statusCode == 302)
    let transaction = metrics.transactionMetrics[1]
    #expect(transaction.request.url?.host == "other.test")
    #expect(transaction.networkProtocolName == "h2" && transaction.isReusedConnection)
    #expect(transaction.fetchStartDate == Date(timeIntervalSince1970: 1_700_000_001))
    #expect(transaction.domainLookupEndDate == Date(timeIntervalSince1970: 1_700_000_001.25))
    #expect(transaction.connectStartDate == nil)
    #expect(transaction.negotiatedTLSProtocolVersion == .TLSv13)
    #expect(transaction.negotiatedTLSCipherSuite?.rawValue == 0x1302)
    #expect(transaction.countOfResponseBodyBytesReceived == 40)
    #expect(transaction.countOfResponseBodyBytesAfterDecoding == 100)
    #expect(transaction.resourceFetchType == .networkLoad)
  }
}

@Suite("Endings", .timeLimit(.minutes(1)))
struct EndingTests {
  @Test("a task that this program never made is told with an object of its own, and listed while it lasts")
  func orphans() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let mine = session.downloadTask(with: url)
    let stranger = ScriptedDaemon.snapshot(id: 900, number: 9, state: "running", received: 5) {
      $0.description = "of an earlier run"
      $0.url = "http://host.test/other"
    }
    stage.registry.receive(.taskState(TaskStateNotice(task: stranger)))
    let tasks = await session.allTasks
    #expect(tasks.map(\.taskIdentifier) == [1, 9])
    #expect(tasks.first === mine)
    #expect(tasks.last?.taskDescription == "of an earlier run")
    #expect(tasks.last?.originalRequest?.url?.path == "/other")
    // Its end, and that of one which nothing was heard of before.
    for (number, id) in [(Int64(1), Int64(900)), (2, 901)] {
      stage.deliver(
        number, "completion",
        ScriptedDaemon.snapshot(id: id, number: id - 891, state: "failed") { $0.description = "x" })
    }
    #expect(await recorder.messages(3).suffix(2) == ["complete 9 -1", "complete 10 -1"])
    #expect(await session.allTasks.map(\.taskIdentifier) == [1])
  }

  @Test("the first opening of a process takes an invalidation back, a reconnect does not, and repeats its own")
  func reopening() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    session.finishTasksAndInvalidate()
    stage.registry.reconnected()
    let opens = stage.daemon.requests.compactMap { request -> Bool? in
      if case .sessionOpen(let open) = request { open.revives ?? false } else { nil }
    }
    #expect(opens == [true, false])
    let invalidation = ClientRequest.sessionInvalidate(
      SessionInvalidateParameters(session: ScriptedDaemon.sessionID, cancel: false))
    #expect(stage.daemon.requests.filter { $0 == invalidation }.count == 2)
    stage.registry.receive(.sessionEnded(SessionEndedNotice(session: ScriptedDaemon.sessionID)))
    #expect(await recorder.messages(1) == ["invalid 0"])
    // The identifier is free again, and the next session takes its own way.
    let next = stage.session(recorder)
    #expect((next.backing as? AttachedSession) !== (session.backing as? AttachedSession))
    #expect(next.downloadTask(with: url).taskIdentifier > 0)
  }

  @Test("a session that ended while the connection was broken still says so")
  func endedUnheard() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    session.invalidateAndCancel()
    // The daemon made another one, for the old one is gone.
    stage.daemon.state.withLock { $0.sessionID = 8 }
    stage.registry.reconnected()
    let invalidation = ClientRequest.sessionInvalidate(SessionInvalidateParameters(session: 8, cancel: false))
    #expect(stage.daemon.requests.last == invalidation)
    stage.registry.receive(.sessionEnded(SessionEndedNotice(session: 8)))
    #expect(await recorder.messages(1) == ["invalid 0"])
    withExtendedLifetime(session) {}
  }
}
