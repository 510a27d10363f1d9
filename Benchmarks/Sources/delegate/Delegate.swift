import BackgroundURLSession
import Foundation

/// `delegate SESSION COUNT`: a program as an Apple developer would write it takes COUNT results that wait through its
/// session's delegate queue, and ends. The app is FERRY_APP_ID.
@main
struct Program {
  static func main() {
    guard CommandLine.arguments.count == 3, let wanted = Int(CommandLine.arguments[2]) else {
      fatalError("usage: delegate SESSION COUNT")
    }
    let collector = Collector(wanted)
    let configuration = URLSessionConfiguration.background(withIdentifier: CommandLine.arguments[1])
    let session = URLSession(configuration: configuration, delegate: collector, delegateQueue: nil)
    collector.done.wait()
    withExtendedLifetime(session) {}
  }
}

/// SAFETY: the counts are touched on the delegate queue alone, which runs one callback after another.
final class Collector: NSObject, URLSessionDownloadDelegate, @unchecked Sendable {
  let done = DispatchSemaphore(value: 0)
  private let wanted: Int
  private var files = 0
  private var ended = 0

  init(_ wanted: Int) { self.wanted = wanted }

  func urlSession(_ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL) {
    files += 1
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    ended += 1
    if ended == wanted { done.signal() }
  }
}
