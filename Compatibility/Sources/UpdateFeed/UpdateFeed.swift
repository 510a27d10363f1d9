// An actor that turns a session's delegate into a stream of events.
//
//   UpdateFeed URL…
//
// Its author expects: events of one task come in order (progress, file, end); a file that is moved inside of the
// delegate method is whole; the stream ends when the session has become invalid.

import BackgroundURLSession
import Foundation

enum TransferEvent: Sendable {
  case progress(task: Int, Double)
  case file(task: Int, URL)
  case ended(task: Int, URLError?)
}

actor TransferFeed {
  private let session: URLSession
  nonisolated let events: AsyncStream<TransferEvent>

  private final class Relay: NSObject, URLSessionDownloadDelegate, Sendable {
    let continuation: AsyncStream<TransferEvent>.Continuation
    let folder: URL

    init(_ continuation: AsyncStream<TransferEvent>.Continuation, folder: URL) {
      self.continuation = continuation
      self.folder = folder
    }

    func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
      totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
    ) {
      guard totalBytesExpectedToWrite > 0 else { return }
      let fraction = Double(totalBytesWritten) / Double(totalBytesExpectedToWrite)
      continuation.yield(.progress(task: downloadTask.taskIdentifier, fraction))
    }
    func urlSession(
      _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
    ) {
      // The file goes when this returns, so it is moved here and not where the event is read.
      let kept = folder.appendingPathComponent("update-\(downloadTask.taskIdentifier)")
      try? FileManager.default.removeItem(at: kept)
      guard (try? FileManager.default.moveItem(at: location, to: kept)) != nil else { return }
      continuation.yield(.file(task: downloadTask.taskIdentifier, kept))
    }
    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
      continuation.yield(.ended(task: task.taskIdentifier, error as? URLError))
    }
    func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?) { continuation.finish() }
  }

  init(identifier: String, folder: URL) {
    let (events, continuation) = AsyncStream<TransferEvent>.makeStream()
    self.events = events
    session = URLSession(
      configuration: .background(withIdentifier: identifier), delegate: Relay(continuation, folder: folder),
      delegateQueue: nil)
  }

  func download(_ url: URL) -> Int {
    let task = session.downloadTask(with: url)
    task.priority = URLSessionTask.highPriority
    task.resume()
    return task.taskIdentifier
  }

  func finish() { session.finishTasksAndInvalidate() }
}

@main
struct UpdateFeed {
  static func main() async {
    let folder = URL(fileURLWithPath: FileManager.default.currentDirectoryPath, isDirectory: true)
    let feed = TransferFeed(identifier: "com.example.updates", folder: folder)
    for argument in CommandLine.arguments.dropFirst() {
      if let url = URL(string: argument) { print("task \(await feed.download(url))") }
    }
    await feed.finish()
    var fractions: [Int: Double] = [:]
    var lines: [String] = []
    for await event in feed.events {
      switch event {
      case .progress(let task, let fraction):
        if fraction < fractions[task, default: 0] { lines.append("task \(task) went back") }
        fractions[task] = fraction
      case .file(let task, let url): lines.append("task \(task) file \(url.lastPathComponent)")
      case .ended(let task, let error):
        lines.append("task \(task) ended \(error.map { "\($0.code.rawValue)" } ?? "well") at \(fractions[task] ?? 0)")
      }
    }
    print(lines.sorted().joined(separator: "\n"))
    print("the stream has ended")
  }
}
