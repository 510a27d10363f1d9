// A background session in a command-line program, with a Sendable delegate on a queue of the session's own.
//
//   bgtool start URL         bgtool upload FILE URL         bgtool status         bgtool resume
//
// Its author expects: `start` ends after two seconds and the download goes on; `status` in later processes finds the
// same task, with its number and description, and a counter that has grown meanwhile; `resume` gets the file and the
// completion; the server saw one request, without a Range.

import BackgroundURLSession
import Foundation

final class BackgroundDelegate: NSObject, URLSessionDownloadDelegate, URLSessionDataDelegate, Sendable {
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let size = (try? FileManager.default.attributesOfItem(atPath: location.path)[.size] as? Int) ?? -1
    print("didFinishDownloadingTo task \(downloadTask.taskIdentifier) bytes \(size)")
    print("in the daemon's folder: \(location.path.contains("com.apple.nsurlsessiond/Downloads"))")
  }

  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    print("didReceive \(String(decoding: data, as: UTF8.self))")
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let outcome = error.map { "\($0)" } ?? "nil"
    print("didCompleteWithError task \(task.taskIdentifier) \(task.taskDescription ?? "-") \(outcome)")
  }

  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
    print("didFinishEvents")
    exit(0)
  }
}

@main
struct BackgroundTool {
  static func main() async throws {
    let arguments = CommandLine.arguments
    let configuration = URLSessionConfiguration.background(withIdentifier: "com.example.bgtool")
    configuration.sessionSendsLaunchEvents = false
    let session = URLSession(configuration: configuration, delegate: BackgroundDelegate(), delegateQueue: nil)
    switch arguments.dropFirst().first {
    case "start":
      let task = session.downloadTask(with: URL(string: arguments[2])!)
      task.taskDescription = "started by \(ProcessInfo.processInfo.processIdentifier)"
      task.resume()
      print("started task \(task.taskIdentifier)")
      try await Task.sleep(for: .seconds(2))
    case "upload":
      var request = URLRequest(url: URL(string: arguments[3])!)
      request.httpMethod = "POST"
      let task = session.uploadTask(with: request, fromFile: URL(fileURLWithPath: arguments[2]))
      task.taskDescription = "upload"
      task.resume()
      print("started task \(task.taskIdentifier)")
      try await Task.sleep(for: .seconds(2))
    case "status":
      for task in await session.allTasks {
        print("task \(task.taskIdentifier) sent \(task.countOfBytesSent) received \(task.countOfBytesReceived)")
      }
    case "resume":
      for task in await session.allTasks { print("found task \(task.taskIdentifier) \(task.taskDescription ?? "-")") }
      try await Task.sleep(for: .seconds(60))
      print("nothing came")
    default: print("usage: bgtool start URL | upload FILE URL | status | resume")
    }
  }
}
