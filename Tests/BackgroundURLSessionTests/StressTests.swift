import Foundation
import Synchronization
import Testing
import WireProtocol

@testable import BackgroundURLSession

/// Counts, per task, the messages that came and those that came out of order.
private final class Ledger: NSObject, URLSessionDownloadDelegate, Sendable {
  struct State {
    var files: [Int: Int] = [:]
    var completions: [Int: Int] = [:]
    var outOfOrder = 0
    var running = 0
    var overlaps = 0
    var whenComplete: (count: Int, CheckedContinuation<Void, Never>)?
  }
  let state = Mutex(State())

  func completed(_ count: Int) async {
    await withCheckedContinuation { continuation in
      let isThere = state.withLock { state in
        if state.completions.count >= count { return true }
        state.whenComplete = (count, continuation)
        return false
      }
      if isThere { continuation.resume() }
    }
  }

  private func enter() {
    state.withLock {
      $0.running += 1
      if $0.running > 1 { $0.overlaps += 1 }
    }
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    enter()
    let number = downloadTask.taskIdentifier
    state.withLock {
      $0.files[number, default: 0] += 1
      if location.lastPathComponent != "\(number)" || $0.completions[number] != nil { $0.outOfOrder += 1 }
      $0.running -= 1
    }
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    enter()
    let number = task.taskIdentifier
    let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
      state.completions[number, default: 0] += 1
      if state.files[number] == nil || task.state != .completed { state.outOfOrder += 1 }
      state.running -= 1
      guard let waiter = state.whenComplete, state.completions.count >= waiter.count else { return nil }
      state.whenComplete = nil
      return waiter.1
    }
    waiter?.resume()
  }
}

@Suite("Many threads and many tasks", .timeLimit(.minutes(2)))
struct StressTests {
  @Test("every task made by many threads at once is told of once, in order, and acknowledged")
  func manyTasks() async {
    let stage = Stage()
    let ledger = Ledger()
    let queue = OperationQueue()
    queue.maxConcurrentOperationCount = 4
    let session = stage.session(ledger, queue: queue)
    let registry = stage.registry
    // The daemon's side: one thread, as the connection has one.
    let connection = DispatchQueue(label: "connection")
    let deliveries = Mutex<Int64>(0)
    stage.daemon.state.withLock {
      $0.onSend = { request in
        guard case .taskResume(let parameters) = request, let id = parameters.ids.first else { return }
        connection.async {
          let number = id - 99
          let done = ScriptedDaemon.snapshot(id: id, number: number, state: "succeeded", received: 10) {
            $0.file = "/x/\(number)"
          }
          registry.receive(.taskProgress(TaskProgressNotice(id: id, received: 5, expected: 10, sent: 0)))
          for kind in ["file", "completion"] {
            let delivery = deliveries.withLock {
              $0 += 1
              return $0
            }
            registry.receive(
              .delivery(DeliveryNotice(session: ScriptedDaemon.sessionID, number: delivery, kind: kind, task: done)))
          }
        }
      }
    }
    let threads = 8
    let tasksOfThread = 150
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<threads {
        group.addTask {
          for _ in 0..<tasksOfThread {
            session.downloadTask(with: URL(string: "http://host.test/")!).resume()
          }
        }
      }
    }
    let count = threads * tasksOfThread
    await ledger.completed(count)
    await withCheckedContinuation { done in session.getAllTasks { _ in done.resume() } }
    let state = ledger.state.withLock { ($0.files.count, $0.completions.count, $0.outOfOrder, $0.overlaps) }
    #expect(state == (count, count, 0, 0))
    #expect(ledger.state.withLock { $0.files.values.allSatisfy { $0 == 1 } })
    #expect(stage.daemon.acknowledged == (1...Int64(2 * count)).map { $0 })
    #expect(await session.allTasks.isEmpty)
  }
}
