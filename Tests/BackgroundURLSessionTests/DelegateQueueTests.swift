import Foundation
import Synchronization
import Testing
import WireProtocol

@testable import BackgroundURLSession

@Suite("The delegate queue", .timeLimit(.minutes(1)))
struct DelegateQueueTests {
  @Test("runs callbacks in order and one at a time, also where it could run several")
  func serialised() async {
    let operations = OperationQueue()
    operations.maxConcurrentOperationCount = 8
    let queue = CallbackQueue(operations)
    let seen = Mutex<(order: [Int], running: Int, overlaps: Int)>(([], 0, 0))
    await withCheckedContinuation { done in
      for index in 0..<2000 {
        queue.append {
          seen.withLock {
            $0.running += 1
            if $0.running > 1 { $0.overlaps += 1 }
          }
          seen.withLock {
            $0.order.append(index)
            $0.running -= 1
          }
          if index == 1999 { done.resume() }
        }
      }
    }
    #expect(seen.withLock { $0.order } == Array(0..<2000))
    #expect(seen.withLock { $0.overlaps } == 0)
  }

  @Test("a callback may add callbacks; they follow")
  func reentrant() async {
    let queue = CallbackQueue(OperationQueue())
    let order = Mutex<[String]>([])
    await withCheckedContinuation { done in
      queue.append {
        queue.append {
          order.withLock { $0.append("inner") }
          done.resume()
        }
        order.withLock { $0.append("outer") }
      }
    }
    #expect(order.withLock { $0 } == ["outer", "inner"])
  }

  @Test("first in, first out, over the points where storage is given back")
  func fifo() {
    var fifo = FIFO<Int>()
    var next = 0
    var expected = 0
    for round in 0..<3000 {
      for _ in 0..<(round % 7) {
        fifo.append(next)
        next += 1
      }
      for _ in 0..<(round % 5) {
        guard let element = fifo.popFirst() else { break }
        #expect(element == expected)
        expected += 1
      }
    }
    while let element = fifo.popFirst() {
      #expect(element == expected)
      expected += 1
    }
    #expect(expected == next && fifo.isEmpty)
  }

  @Test("a main-actor delegate on the main queue hears everything on the main actor")
  @MainActor
  func mainActor() async {
    let stage = Stage()
    let service = MainActorService()
    let session = stage.session(service, queue: .main)
    let task = session.downloadTask(with: URL(string: "http://host.test/file")!)
    task.resume()
    let done = ScriptedDaemon.snapshot(state: "succeeded", received: 3) { $0.file = "/f" }
    stage.deliver(1, "file", done)
    stage.deliver(2, "completion", done)
    stage.deliver(3, "finishEvents", nil)
    await service.finished()
    #expect(service.lines == ["wrote 3", "file", "complete", "events"])
  }
}

/// The shape of a delegate in apps: isolated to the main actor, conforming with `@preconcurrency`.
@MainActor
final class MainActorService: NSObject, @preconcurrency URLSessionDownloadDelegate {
  var lines: [String] = []
  private var waiter: CheckedContinuation<Void, Never>?

  func finished() async {
    if lines.last == "events" { return }
    await withCheckedContinuation { waiter = $0 }
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    MainActor.assertIsolated()
    lines.append("file")
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
    totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
  ) {
    lines.append("wrote \(bytesWritten)")
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    if let error = error as? URLError { lines.append("\(error.code)") } else { lines.append("complete") }
  }

  nonisolated func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
    Task { @MainActor in
      lines.append("events")
      waiter?.resume()
      waiter = nil
    }
  }
}

/// Delegates as people write them: the witnesses must be found, not the protocol's defaults.
@Suite("Delegate methods in other spellings are heard", .timeLimit(.minutes(1)))
struct DelegateSpellingTests {
  final class PlainClosures: NSObject, URLSessionDataDelegate {
    let asked = Mutex(false)
    func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
      completionHandler: @escaping (URLSession.ResponseDisposition) -> Void
    ) {
      asked.withLock { $0 = true }
      completionHandler(.cancel)
    }
  }

  final class Asynchronous: NSObject, URLSessionDataDelegate {
    func urlSession(
      _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse
    ) async -> URLSession.ResponseDisposition {
      .cancel
    }
  }

  @Test("closures that are not Sendable, and async methods", arguments: [true, false])
  func spelling(isAsync: Bool) async {
    let stage = Stage()
    let session = stage.session(isAsync ? Asynchronous() : PlainClosures())
    session.dataTask(with: URL(string: "http://host.test/")!).resume()
    await withCheckedContinuation { cancelled in
      stage.daemon.state.withLock {
        $0.onSend = { if case .taskCancel = $0 { cancelled.resume() } }
      }
      stage.registry.receive(.taskResponse(TaskResponseNotice(id: 100, response: ScriptedDaemon.response())))
    }
  }
}
