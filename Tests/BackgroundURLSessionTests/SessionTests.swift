import FerryClient
import Foundation
import Synchronization
import Testing
import WireProtocol

@testable import BackgroundURLSession

private let url = URL(string: "http://host.test/file")!

@Suite("A background session", .timeLimit(.minutes(1)))
struct SessionTests {
  @Test("creates tasks suspended and durable, numbered from 1")
  func creation() throws {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let task = session.downloadTask(with: url)
    #expect(task.taskIdentifier == 1)
    #expect(task.state == .suspended)
    #expect(recorder.lines == ["created 1"])
    guard case .taskEnqueue(let enqueue) = stage.daemon.requests.last else {
      Issue.record("no enqueue in \(stage.daemon.requests)")
      return
    }
    #expect(enqueue.session == ScriptedDaemon.sessionID)
    #expect(enqueue.tasks[0].isSuspended == true)
    #expect(enqueue.tasks[0].statusRule == "any")
    #expect(enqueue.tasks[0].key?.isEmpty == false)
    #expect(session.downloadTask(with: url).taskIdentifier == 2)
  }

  @Test("attaches at once, collecting results, and knows the tasks of earlier processes")
  func rebuilding() async throws {
    let stage = Stage()
    stage.daemon.state.withLock {
      $0.unfinished = [
        ScriptedDaemon.snapshot(id: 40, number: 1, state: "running", received: 650_000) {
          $0.description = "lesson"
          $0.expected = 2_000_000
          $0.headers = [WireHeader(name: "Authorization", value: "<redacted>"), WireHeader(name: "A", value: "b")]
        },
        ScriptedDaemon.snapshot(id: 41, number: 2, kind: "upload", state: "suspended", sent: 5),
      ]
    }
    let session = stage.session(Recorder())
    guard case .sessionOpen(let open) = stage.daemon.requests.first else {
      Issue.record("no open")
      return
    }
    #expect(open.attach && open.collectsResults)
    #expect(open.identifier == "s")
    #expect(open.network.maximumConnectionsPerHost == 6)
    let tasks = await session.allTasks
    #expect(tasks.map(\.taskIdentifier) == [1, 2])
    #expect(tasks[0].taskDescription == "lesson")
    #expect(tasks[0].countOfBytesReceived == 650_000)
    #expect(tasks[0].countOfBytesExpectedToReceive == 2_000_000)
    #expect(tasks[0].state == .running)
    #expect(tasks[0].originalRequest?.allHTTPHeaderFields == ["A": "b"])
    #expect(tasks[1].state == .suspended)
    #expect(tasks[1].countOfBytesSent == 5)
    let (data, uploads, downloads) = await session.tasks
    #expect(data.isEmpty)
    #expect(uploads.first === tasks[1] && downloads.first === tasks[0])
    #expect(await session.allTasks[0] === tasks[0])
  }

  @Test("tells of a download in order, and acknowledges each delivery after the delegate returned")
  func download() async throws {
    let stage = Stage()
    let seen = Mutex<[String: [Int64]]>([:])
    let daemon = stage.daemon
    let recorder = Recorder { line in seen.withLock { $0[line] = daemon.acknowledged } }
    let session = stage.session(recorder)
    let task = session.downloadTask(with: url)
    task.resume()
    #expect(stage.daemon.requests.last == .taskResume(TaskIdentifiersParameters(ids: [100])))
    #expect(task.state == .running)
    stage.registry.receive(.taskProgress(TaskProgressNotice(id: 100, received: 10, expected: 30, sent: 0)))
    _ = await recorder.messages(2)
    let done = ScriptedDaemon.snapshot(state: "succeeded", received: 30) {
      $0.expected = 30
      $0.file = "/x/com.apple.nsurlsessiond/Downloads/app/f"
      $0.response = ScriptedDaemon.response(status: 404, headers: [WireHeader(name: "ETag", value: "\"1\"")])
    }
    stage.deliver(1, "file", done)
    stage.deliver(2, "completion", done)
    stage.deliver(3, "finishEvents", nil)
    let lines = await recorder.messages(6)
    #expect(
      lines == [
        "created 1", "wrote 10 10 30", "wrote 20 30 30", "file 1 /x/com.apple.nsurlsessiond/Downloads/app/f",
        "complete 1 0", "finishEvents",
      ])
    #expect(seen.withLock { $0["file 1 /x/com.apple.nsurlsessiond/Downloads/app/f"] } == [])
    #expect(seen.withLock { $0["complete 1 0"] } == [1])
    #expect(seen.withLock { $0["finishEvents"] } == [1, 2])
    #expect((task.response as? HTTPURLResponse)?.statusCode == 404)
    #expect(task.state == .completed)
    #expect(task.error == nil)
    #expect(await session.allTasks.isEmpty)
    #expect(stage.daemon.acknowledged == [1, 2, 3])
  }

  @Test("delivers results of tasks that this process never saw, without replaying their progress")
  func deliveryAfterRelaunch() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let done = ScriptedDaemon.snapshot(id: 9, number: 4, state: "succeeded", received: 30) { $0.file = "/f" }
    stage.deliver(12, "file", done)
    stage.deliver(13, "completion", done)
    #expect(await recorder.messages(2) == ["file 4 /f", "complete 4 0"])
    withExtendedLifetime(session) {}
  }

  @Test("takes a delivery once, and acknowledges it again where the acknowledgement was lost")
  func redelivery() async {
    let stage = Stage()
    let gate = DispatchSemaphore(value: 0)
    let recorder = Recorder { line in if line.hasPrefix("file") { gate.wait() } }
    let session = stage.session(recorder)
    let done = ScriptedDaemon.snapshot(id: 9, number: 4, state: "succeeded") { $0.file = "/f" }
    stage.deliver(1, "file", done)
    stage.deliver(1, "file", done)
    stage.deliver(2, "completion", done)
    gate.signal()
    _ = await recorder.messages(2)
    stage.registry.reconnected()
    stage.deliver(1, "file", done)
    stage.deliver(3, "finishEvents", nil)
    #expect(await recorder.messages(3) == ["file 4 /f", "complete 4 0", "finishEvents"])
    #expect(stage.daemon.acknowledged.filter { $0 == 1 }.count == 2)
    withExtendedLifetime(session) {}
  }

  @Test("hands the spooled response of an upload over in parts, before its completion")
  func upload() async throws {
    let folder = try TemporaryFolder()
    let source = try folder.write("source", Data(count: 1000))
    let body = try folder.write("body", Data(count: 64 * 1024 + 5))
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    var request = URLRequest(url: url)
    request.httpMethod = "POST"
    request.httpBody = Data("ignored".utf8)
    let task = session.uploadTask(with: request, fromFile: source)
    #expect(task.countOfBytesExpectedToSend == 1000)
    guard case .taskEnqueue(let enqueue) = stage.daemon.requests.last else {
      Issue.record("no enqueue")
      return
    }
    #expect(enqueue.tasks[0].source == source.path)
    #expect(enqueue.tasks[0].method == "POST")
    task.resume()
    let done = ScriptedDaemon.snapshot(kind: "upload", state: "succeeded", sent: 1000) {
      $0.expectedToSend = 1000
      $0.body = body.path
      $0.response = ScriptedDaemon.response(status: 201)
    }
    stage.deliver(1, "body", done)
    stage.deliver(2, "completion", done)
    #expect(
      await recorder.messages(5) == ["created 1", "sent 1000 1000 1000", "data 65536", "data 5", "complete 1 0"])
  }

  @Test("a failed task completes with a real URLError that names the URL")
  func failure() async throws {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    session.downloadTask(with: url).resume()
    let failed = ScriptedDaemon.snapshot(state: "failed") {
      $0.error = WireFailure(
        code: "hostNotFound", isTransient: false, domain: "curl", number: 6, detail: "no such host")
    }
    stage.deliver(1, "completion", failed)
    #expect(await recorder.messages(2).last == "complete 1 -1003")
    let error = try #require(recorder.state.withLock { $0.errors.first } as? URLError)
    #expect(error.failingURL == url)
    #expect(error.userInfo["NSErrorFailingURLStringKey"] as? String == url.absoluteString)
    #expect(error.localizedDescription == "no such host")
  }

  @Test("cancelling goes to the daemon; the completion says cancelled")
  func cancellation() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let task = session.downloadTask(with: url)
    task.cancel()
    task.cancel()
    task.resume()
    #expect(task.state == .canceling)
    #expect(stage.daemon.requests.last == .taskCancel(TaskIdentifiersParameters(ids: [100])))
    stage.deliver(1, "completion", ScriptedDaemon.snapshot(state: "cancelled"))
    #expect(await recorder.messages(2).last == "complete 1 -999")
    #expect(task.state == .completed)
  }

  @Test("suspensions nest")
  func suspensions() {
    let stage = Stage()
    let session = stage.session(nil)
    let task = session.downloadTask(with: url)
    task.suspend()
    task.resume()
    #expect(task.state == .suspended)
    task.resume()
    task.resume()
    #expect(task.state == .running)
    task.suspend()
    #expect(task.state == .suspended)
    let ids = TaskIdentifiersParameters(ids: [100])
    #expect(Array(stage.daemon.requests.suffix(2)) == [.taskResume(ids), .taskSuspend(ids)])
  }

  @Test("what a program sets on a task goes to the daemon")
  func updates() {
    let stage = Stage()
    let session = stage.session(nil)
    let task = session.downloadTask(with: url)
    task.taskDescription = "words"
    task.priority = 2
    task.earliestBeginDate = Date(timeIntervalSince1970: 10)
    task.taskDescription = nil
    #expect(task.priority == 1)
    #expect(
      Array(stage.daemon.requests.suffix(4)) == [
        .taskUpdate(TaskUpdateParameters(id: 100, description: "words")),
        .taskUpdate(TaskUpdateParameters(id: 100, priority: 1)),
        .taskUpdate(TaskUpdateParameters(id: 100, earliestBeginMilliseconds: 10_000)),
        .taskUpdate(Self.clearing("description")),
      ])
    task.earliestBeginDate = nil
    task.countOfBytesClientExpectsToSend = 5
    task.countOfBytesClientExpectsToReceive = -7
    #expect(task.countOfBytesClientExpectsToReceive == NSURLSessionTransferSizeUnknown)
    var sending = TaskUpdateParameters(id: 100)
    sending.clientExpectsToSend = 5
    #expect(
      Array(stage.daemon.requests.suffix(3)) == [
        .taskUpdate(Self.clearing("earliestBegin")), .taskUpdate(sending),
        .taskUpdate(Self.clearing("clientExpectsToReceive")),
      ])
  }

  private static func clearing(_ member: String) -> TaskUpdateParameters {
    var update = TaskUpdateParameters(id: 100)
    update.clear = [member]
    return update
  }

  @Test("notifications that overtake a receipt find their task")
  func overtaking() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let registry = stage.registry
    stage.daemon.state.withLock {
      $0.whileEnqueueing = { id in
        registry.receive(.taskState(TaskStateNotice(task: ScriptedDaemon.snapshot(id: id, state: "running"))))
        registry.receive(.taskProgress(TaskProgressNotice(id: id, received: 3, expected: nil, sent: 0)))
      }
    }
    let task = session.downloadTask(with: url)
    #expect(await recorder.messages(2).contains("wrote 3 3 -1"))
    let all = await session.allTasks
    #expect(all.count == 1 && all[0] === task)
  }

  @Test("an interrupted download says where it continues")
  func resumption() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    session.downloadTask(with: url).resume()
    stage.registry.receive(.taskProgress(TaskProgressNotice(id: 100, received: 50, expected: 90, sent: 0)))
    _ = await recorder.messages(2)
    stage.registry.receive(.taskResumed(TaskResumedNotice(id: 100, offset: 40, expected: 90)))
    stage.registry.receive(.taskProgress(TaskProgressNotice(id: 100, received: 60, expected: 90, sent: 0)))
    #expect(
      await recorder.messages(4) == ["created 1", "wrote 50 50 90", "resumed 40 90", "wrote 20 60 90"])
  }

  @Test("another process's session is refused with -996, and its tasks fail instead of ending the program")
  func inUse() async {
    let stage = Stage()
    stage.daemon.state.withLock { $0.openFailure = WireError(.sessionInUse, "attached elsewhere") }
    let recorder = Recorder()
    let session = stage.session(recorder)
    #expect(await recorder.messages(1) == ["invalid -996"])
    let task = session.downloadTask(with: url)
    task.resume()
    #expect(session.delegate == nil)
    stage.daemon.state.withLock { $0.openFailure = nil }
    let again = stage.session(Recorder())
    #expect(again.downloadTask(with: url).taskIdentifier == 1)
  }

  @Test("without a daemon a task fails with -997, and works once there is one")
  func disconnection() async throws {
    let daemon = ScriptedDaemon()
    let isReachable = Mutex(false)
    let registry = SessionRegistry(app: "test", network: WireNetwork()) { _ throws(ConnectionFailure) in
      guard isReachable.withLock({ $0 }) else { throw .daemonUnavailable("no ferryd; start it with `ferryd`") }
      return daemon
    }
    let recorder = Recorder()
    let session = URLSession(
      configuration: .background(withIdentifier: "s"), delegate: recorder, delegateQueue: nil, registry: registry)
    let task = session.downloadTask(with: url)
    #expect(task.taskIdentifier == -1)
    task.resume()
    #expect(await recorder.messages(2) == ["created -1", "complete -1 -997"])
    let error = try #require(recorder.state.withLock { $0.errors.first } as? URLError)
    #expect(error.localizedDescription.contains("start it with `ferryd`"))
    isReachable.withLock { $0 = true }
    #expect(session.downloadTask(with: url).taskIdentifier == 1)
  }

  @Test("a task that the daemon refuses fails with its reason")
  func refusedTask() async {
    let stage = Stage()
    stage.daemon.state.withLock { $0.enqueueFailure = WireError(.invalidURL, "only http and https") }
    let recorder = Recorder()
    let session = stage.session(recorder)
    session.downloadTask(with: URL(string: "ftp://host.test/")!).resume()
    #expect(await recorder.messages(2) == ["created -1", "complete -1 -1002"])
  }

  @Test("a request's body goes with it; one that cannot is refused, not dropped")
  func bodyOfRequest() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    var request = URLRequest(url: url)
    request.httpMethod = "POST"
    request.httpBody = Data([1, 2])
    _ = session.dataTask(with: request)
    guard case .taskEnqueue(let enqueue) = stage.daemon.requests.last else {
      Issue.record("no enqueue")
      return
    }
    #expect(enqueue.tasks[0].body == "AQI=")
    request.httpBody = Data(count: WireLimits.bodyBytes + 1)
    session.dataTask(with: request).resume()
    request.httpBody = nil
    request.httpBodyStream = InputStream(data: Data([1]))
    session.downloadTask(with: request).resume()
    #expect(
      await recorder.messages(5).filter { $0.hasPrefix("complete") } == ["complete -1 -1103", "complete -2 -1002"])
  }

  @Test("what is too long for a message is refused before it costs the connection")
  func tooLong() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    var request = URLRequest(url: url)
    request.setValue(String(repeating: "x", count: 1 << 20), forHTTPHeaderField: "X")
    let task = session.downloadTask(with: request)
    task.resume()
    #expect(await recorder.messages(2).last == "complete -1 -1103")
    let taken = session.downloadTask(with: url)
    let before = stage.daemon.requests.count
    taken.taskDescription = String(repeating: "x", count: 1 << 20)
    #expect(stage.daemon.requests.count == before)
  }

  @Test("a second object of one identifier is bound to the first")
  func secondObject() async {
    let stage = Stage()
    let first = Recorder()
    let second = Recorder()
    let sessions = [stage.session(first), stage.session(second)]
    let task = sessions[1].downloadTask(with: url)
    #expect(first.lines == ["created 1"])
    #expect(second.lines.isEmpty)
    let all = await sessions[0].allTasks
    #expect(all.first === task)
    #expect(sessions[1].delegate === first)
  }

  @Test("an invalidated session tells its delegate at last, and lets it go")
  func invalidation() async {
    let stage = Stage()
    weak var weakRecorder: Recorder?
    do {
      let recorder = Recorder()
      weakRecorder = recorder
      let session = stage.session(recorder)
      session.invalidateAndCancel()
      #expect(
        stage.daemon.requests.last
          == .sessionInvalidate(SessionInvalidateParameters(session: ScriptedDaemon.sessionID, cancel: true)))
      stage.registry.receive(.sessionEnded(SessionEndedNotice(session: ScriptedDaemon.sessionID)))
      #expect(await recorder.messages(1) == ["invalid 0"])
      let queue = session.delegateQueue
      await withCheckedContinuation { done in queue.addOperation { done.resume() } }
      #expect(session.delegate == nil)
    }
    #expect(weakRecorder == nil)
  }

  @Test("a data task's body waits for the delegate's decision")
  func dataTask() async {
    let stage = Stage()
    let recorder = Recorder(disposition: nil)
    let session = stage.session(recorder)
    let task = session.dataTask(with: url)
    task.resume()
    let bytes = Data("hello".utf8).base64EncodedString()
    // The head overtaken by the first bytes.
    stage.registry.receive(.taskData(TaskBytesNotice(id: 100, bytes: bytes)))
    stage.registry.receive(.taskResponse(TaskResponseNotice(id: 100, response: ScriptedDaemon.response())))
    stage.registry.receive(.taskData(TaskBytesNotice(id: 100, bytes: bytes)))
    let done = ScriptedDaemon.snapshot(kind: "data", state: "succeeded", received: 10)
    stage.registry.receive(.taskState(TaskStateNotice(task: done)))
    stage.deliver(1, "completion", done)
    stage.deliver(2, "finishEvents", nil)
    #expect(await recorder.messages(3) == ["created 1", "response 200", "finishEvents"])
    recorder.held.withLock { $0 }?(.allow)
    #expect(await recorder.messages(6).suffix(3) == ["data 5", "data 5", "complete 1 0"])
  }

  @Test("a data task whose response is refused is cancelled, and its data is not handed over")
  func refusedResponse() async {
    let stage = Stage()
    let recorder = Recorder(disposition: .cancel)
    let session = stage.session(recorder)
    session.dataTask(with: url).resume()
    stage.registry.receive(.taskResponse(TaskResponseNotice(id: 100, response: ScriptedDaemon.response())))
    stage.registry.receive(.taskData(TaskBytesNotice(id: 100, bytes: "AAAA")))
    stage.deliver(1, "completion", ScriptedDaemon.snapshot(kind: "data", state: "cancelled"))
    #expect(await recorder.messages(3) == ["created 1", "response 200", "complete 1 -999"])
    #expect(stage.daemon.requests.contains(.taskCancel(TaskIdentifiersParameters(ids: [100]))))
  }

  @Test("a progress object follows the counts and steers the task")
  func progress() async {
    let stage = Stage()
    let recorder = Recorder()
    let session = stage.session(recorder)
    let task = session.downloadTask(with: url)
    let progress = task.progress
    task.resume()
    stage.registry.receive(.taskProgress(TaskProgressNotice(id: 100, received: 30, expected: 60, sent: 0)))
    _ = await recorder.messages(2)
    #expect(progress.fractionCompleted == 0.5)
    #expect(progress === task.progress)
    await withCheckedContinuation { cancelled in
      stage.daemon.state.withLock {
        $0.onSend = { if case .taskCancel = $0 { cancelled.resume() } }
      }
      progress.cancel()
    }
    #expect(task.state == .canceling)
  }
}

/// A folder of one test, removed with it.
final class TemporaryFolder: Sendable {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("facade-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
  }

  func write(_ name: String, _ data: Data) throws -> URL {
    let file = url.appendingPathComponent(name)
    try data.write(to: file)
    return file
  }

  deinit { try? FileManager.default.removeItem(at: url) }
}
