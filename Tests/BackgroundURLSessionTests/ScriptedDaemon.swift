import FerryClient
import Foundation
import Synchronization
import WireProtocol

@testable import BackgroundURLSession

/// A daemon in memory: it answers as the protocol says and keeps what it was asked; tests speak for it.
final class ScriptedDaemon: DaemonLine {
  struct State {
    var requests: [ClientRequest] = []
    var nextID: Int64 = 100
    var nextNumber: Int64 = 1
    var unfinished: [TaskSnapshot] = []
    var openFailure: WireError?
    var sessionID = ScriptedDaemon.sessionID
    var enqueueFailure: WireError?
    /// What `task.cancel` with resume data answers.
    var kept: [WireKeptPart] = []
    /// What `task.show` answers.
    var shown: TaskSnapshot?
    var onSend: (@Sendable (ClientRequest) -> Void)?
    var whileEnqueueing: (@Sendable (Int64) -> Void)?
  }

  static let sessionID: Int64 = 7
  let state = Mutex(State())

  var requests: [ClientRequest] { state.withLock { $0.requests } }

  var acknowledged: [Int64] {
    requests.flatMap { request -> [Int64] in
      if case .deliveryAcknowledge(let parameters) = request { parameters.numbers } else { [] }
    }
  }

  func call<R: Decodable & Sendable>(_ request: ClientRequest, returning: R.Type) throws(ConnectionFailure) -> R {
    state.withLock { $0.requests.append(request) }
    guard let result = try answer(request) as? R else {
      throw .refused(WireError(.internalError, "the script has no answer to \(request.name)"))
    }
    return result
  }

  func send(_ request: ClientRequest) -> Bool {
    let onSend = state.withLock {
      $0.requests.append(request)
      return $0.onSend
    }
    onSend?(request)
    return true
  }

  func ask<R: Decodable & Sendable>(
    _ request: ClientRequest, returning: R.Type, completion: @escaping @Sendable (Result<R, ConnectionFailure>) -> Void
  ) {
    let outcome = Result { () throws(ConnectionFailure) in try call(request, returning: returning) }
    completion(outcome)
    state.withLock { $0.onSend }?(request)
  }

  private func answer(_ request: ClientRequest) throws(ConnectionFailure) -> any Sendable {
    switch request {
    case .sessionOpen:
      if let failure = state.withLock({ $0.openFailure }) { throw .refused(failure) }
      return SessionOpenResult(session: state.withLock { $0.sessionID }, nextTaskNumber: 1, isNew: false)
    case .taskList:
      return TaskListResult(tasks: state.withLock { $0.unfinished })
    case .taskEnqueue(let parameters):
      let (tasks, hook) = state.withLock { state -> ([EnqueuedTask], (@Sendable (Int64) -> Void)?) in
        let tasks = parameters.tasks.map { _ in
          if let failure = state.enqueueFailure { return EnqueuedTask(error: failure) }
          defer {
            state.nextID += 1
            state.nextNumber += 1
          }
          return EnqueuedTask(id: state.nextID, number: state.nextNumber)
        }
        return (tasks, state.whileEnqueueing)
      }
      if let id = tasks.first?.id { hook?(id) }
      return TaskEnqueueResult(tasks: tasks)
    case .taskCancel(let parameters):
      return TaskIdentifiersResult(ids: parameters.ids, unknown: [], kept: state.withLock { $0.kept })
    case .taskShow:
      guard let task = state.withLock({ $0.shown }) else { throw .refused(WireError(.taskUnknown, "none")) }
      return TaskShowResult(task: task)
    default:
      return EmptyResult()
    }
  }

  static func snapshot(
    id: Int64 = 100, number: Int64 = 1, kind: String = "download", state: String, received: Int64 = 0,
    sent: Int64 = 0, adjust: (inout TaskSnapshot) -> Void = { _ in }
  ) -> TaskSnapshot {
    var task = TaskSnapshot(
      id: id, session: "s", app: "test", sessionID: sessionID, number: number, kind: kind, state: state,
      method: "GET", url: "http://host.test/file", received: received, sent: sent, attempts: 1, priority: 0.5,
      createdMilliseconds: 0)
    adjust(&task)
    return task
  }

  static func response(status: Int = 200, headers: [WireHeader] = []) -> WireResponse {
    WireResponse(status: status, headers: headers, url: "http://host.test/file", httpVersion: "HTTP/1.1")
  }
}

/// A process's registry with a scripted daemon, and a session in it.
struct Stage {
  let daemon = ScriptedDaemon()
  let registry: SessionRegistry

  init() {
    let daemon = daemon
    registry = SessionRegistry(app: "test", network: WireNetwork()) { _ in daemon }
  }

  func session(
    _ delegate: (any URLSessionDelegate)?, identifier: String = "s", queue: OperationQueue? = nil
  ) -> URLSession {
    URLSession(
      configuration: .background(withIdentifier: identifier), delegate: delegate, delegateQueue: queue,
      registry: registry)
  }

  func deliver(_ number: Int64, _ kind: String, _ task: TaskSnapshot?) {
    registry.receive(
      .delivery(DeliveryNotice(session: ScriptedDaemon.sessionID, number: number, kind: kind, task: task)))
  }
}

/// Writes down what it is told, and waits for it.
final class Recorder: NSObject, URLSessionDownloadDelegate, URLSessionDataDelegate, Sendable {
  struct State {
    var lines: [String] = []
    var errors: [(any Error)?] = []
    var running = 0
    var overlaps = 0
    var waiters: [(count: Int, CheckedContinuation<Void, Never>)] = []
  }

  let state = Mutex(State())
  let onMessage: @Sendable (String) -> Void
  let disposition: URLSession.ResponseDisposition?

  init(
    disposition: URLSession.ResponseDisposition? = .allow, onMessage: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.disposition = disposition
    self.onMessage = onMessage
  }

  var lines: [String] { state.withLock { $0.lines } }

  private func record(_ line: String) {
    state.withLock {
      $0.running += 1
      if $0.running > 1 { $0.overlaps += 1 }
    }
    onMessage(line)
    let ready = state.withLock { state in
      state.running -= 1
      state.lines.append(line)
      let ready = state.waiters.filter { $0.count <= state.lines.count }
      state.waiters.removeAll { $0.count <= state.lines.count }
      return ready
    }
    for waiter in ready { waiter.1.resume() }
  }

  /// Waits until so many messages came. The test's time limit is the deadline.
  func messages(_ count: Int) async -> [String] {
    await withCheckedContinuation { continuation in
      let isThere = state.withLock { state in
        if state.lines.count >= count { return true }
        state.waiters.append((count, continuation))
        return false
      }
      if isThere { continuation.resume() }
    }
    return lines
  }

  func urlSession(_ session: URLSession, didCreateTask task: URLSessionTask) {
    record("created \(task.taskIdentifier)")
  }
  func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?) {
    record("invalid \((error as? URLError)?.code.rawValue ?? 0)")
  }
  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) { record("finishEvents") }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    state.withLock { $0.errors.append(error) }
    record("complete \(task.taskIdentifier) \((error as? URLError)?.code.rawValue ?? 0)")
  }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    record("file \(downloadTask.taskIdentifier) \(location.path)")
  }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
    totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
  ) {
    record("wrote \(bytesWritten) \(totalBytesWritten) \(totalBytesExpectedToWrite)")
  }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didResumeAtOffset fileOffset: Int64,
    expectedTotalBytes: Int64
  ) {
    record("resumed \(fileOffset) \(expectedTotalBytes)")
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64
  ) {
    record("sent \(bytesSent) \(totalBytesSent) \(totalBytesExpectedToSend)")
  }
  func urlSession(
    _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
    completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
  ) {
    record("response \((response as? HTTPURLResponse)?.statusCode ?? 0)")
    if let disposition { completionHandler(disposition) } else { held.withLock { $0 = completionHandler } }
  }
  let held = Mutex<(@Sendable (URLSession.ResponseDisposition) -> Void)?>(nil)
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    record("data \(data.count)")
  }
}
