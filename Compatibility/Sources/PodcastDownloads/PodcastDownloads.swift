// A delegate on the main actor, called on the main queue.
//
//   PodcastDownloads FOLDER URL…
//
// Its author expects: every delegate method runs on the main actor, so that plain properties may be read and written in
// it; progress never falls; each episode is in the folder under its own name when the program ends; an episode that the
// server does not have comes as an ordinary completion with status 404.

import BackgroundURLSession
import Foundation

@MainActor
final class EpisodeDownloader: NSObject, @preconcurrency URLSessionDownloadDelegate {
  private let folder: URL
  private var written: [Int: Int64] = [:]
  private var remaining = 0
  private var whenDone: CheckedContinuation<Void, Never>?

  private lazy var session = URLSession(
    configuration: .background(withIdentifier: "com.example.podcasts"), delegate: self, delegateQueue: .main)

  init(folder: URL) { self.folder = folder }

  func download(_ episodes: [URL]) async {
    remaining = episodes.count
    for episode in episodes {
      let task = session.downloadTask(with: episode)
      task.countOfBytesClientExpectsToReceive = 1_000_000
      task.resume()
    }
    await withCheckedContinuation { whenDone = $0 }
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
    totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
  ) {
    if totalBytesWritten < written[downloadTask.taskIdentifier, default: 0] { print("progress went back") }
    written[downloadTask.taskIdentifier] = totalBytesWritten
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    guard let response = downloadTask.response as? HTTPURLResponse, response.statusCode == 200 else { return }
    let name = downloadTask.originalRequest?.url?.lastPathComponent ?? "episode"
    do {
      try FileManager.default.moveItem(at: location, to: folder.appendingPathComponent(name))
    } catch {
      print("\(name) not moved: \(error)")
    }
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let name = task.originalRequest?.url?.lastPathComponent ?? "episode"
    let status = (task.response as? HTTPURLResponse)?.statusCode ?? 0
    if let error = error as? URLError {
      print("\(name): error \(error.code.rawValue)")
    } else {
      print("\(name): status \(status), \(task.countOfBytesReceived) bytes")
    }
    remaining -= 1
    if remaining == 0 { whenDone?.resume() }
  }
}

@main
struct PodcastDownloads {
  static func main() async {
    let arguments = CommandLine.arguments.dropFirst()
    let folder = URL(fileURLWithPath: arguments.first ?? ".", isDirectory: true)
    await EpisodeDownloader(folder: folder).download(arguments.dropFirst().compactMap { URL(string: $0) })
    print("all done")
  }
}
