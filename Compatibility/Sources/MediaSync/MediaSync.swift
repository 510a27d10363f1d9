// Several background sessions with one delegate, told apart by the identifier of their configuration.
//
//   MediaSync PHOTO-URL MUSIC-URL
//
// Its author expects: each callback comes with the session it belongs to; each session numbers its tasks from 1; each
// has its own end of events; invalidating one leaves the other alone and ends with didBecomeInvalidWithError(nil).

import BackgroundURLSession
import Foundation

final class SyncEngine: NSObject, URLSessionDownloadDelegate, Sendable {
  enum Kind: String, CaseIterable {
    case photos = "com.example.sync.photos"
    case music = "com.example.sync.music"
  }

  let lines: AsyncStream<String>
  private let continuation: AsyncStream<String>.Continuation

  override init() {
    (lines, continuation) = AsyncStream.makeStream()
    super.init()
  }

  func session(_ kind: Kind) -> URLSession {
    let configuration = URLSessionConfiguration.background(withIdentifier: kind.rawValue)
    configuration.allowsExpensiveNetworkAccess = kind == .photos
    configuration.httpMaximumConnectionsPerHost = 2
    return URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
  }

  private func kind(_ session: URLSession) -> Kind {
    guard let kind = session.configuration.identifier.flatMap(Kind.init(rawValue:)) else {
      fatalError("unknown session")
    }
    return kind
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    continuation.yield("\(kind(session)) file of task \(downloadTask.taskIdentifier)")
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    continuation.yield("\(kind(session)) completed task \(task.taskIdentifier) \(error == nil)")
  }
  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
    continuation.yield("\(kind(session)) finished events")
  }
  func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?) {
    continuation.yield("\(kind(session)) invalid \(error == nil)")
  }
}

@main
struct MediaSync {
  static func main() async {
    let arguments = CommandLine.arguments.dropFirst().compactMap { URL(string: $0) }
    let engine = SyncEngine()
    let photos = engine.session(.photos)
    let music = engine.session(.music)
    photos.downloadTask(with: arguments[0]).resume()
    music.downloadTask(with: arguments[1]).resume()
    photos.finishTasksAndInvalidate()
    var seen: [String] = []
    for await line in engine.lines {
      seen.append(line)
      if seen.filter({ $0.contains("finished events") }).count == 2 || seen.count == 7 {
        if seen.contains(where: { $0.hasPrefix("photos invalid") }) { break }
      }
    }
    print(seen.sorted().joined(separator: "\n"))
    print("music tasks left: \(await music.allTasks.count)")
  }
}
