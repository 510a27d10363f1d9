// A background URLSession in a program without an app: plain URLSession source, and one more import.
//
//   bgtool start URL          begins a download and exits after two seconds; the download goes on
//   bgtool upload FILE URL    begins an upload and exits after two seconds; the upload goes on
//   bgtool status             prints what is on its way
//   bgtool resume             prints what is on its way and waits until it has arrived

import BackgroundURLSession
import Foundation

final class Transfers: NSObject, URLSessionDownloadDelegate, URLSessionDataDelegate, Sendable {
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let attributes = try? FileManager.default.attributesOfItem(atPath: location.path)
    let size = (attributes?[.size] as? NSNumber)?.int64Value ?? -1
    say("finished task \(downloadTask.taskIdentifier) \(size) bytes at \(location.path)")
    let name = downloadTask.originalRequest?.url?.lastPathComponent ?? "download"
    let destination = URL(fileURLWithPath: name.isEmpty || name == "/" ? "download" : name)
    do {
      try? FileManager.default.removeItem(at: destination)
      try FileManager.default.moveItem(at: location, to: destination)
      say("moved to \(destination.path)")
    } catch {
      say("not moved: \(error)")
    }
  }

  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    say("response of task \(dataTask.taskIdentifier) \(String(decoding: data, as: UTF8.self))")
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let status = (task.response as? HTTPURLResponse)?.statusCode ?? 0
    let outcome = (error as? URLError).map { "error \($0.code.rawValue) \($0.localizedDescription)" } ?? "error nil"
    say("complete task \(task.taskIdentifier) status \(status) \(outcome)")
  }

  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
    say("finished events")
    // The handler runs after this method has returned and the results count as taken.
    session.getAllTasks { if $0.isEmpty { exit(0) } }
  }

  func urlSession(_ session: URLSession, didBecomeInvalidWithError error: (any Error)?) {
    say("invalid \(error.map { "\($0)" } ?? "by request")")
    exit(1)
  }
}

func say(_ line: String) {
  FileHandle.standardOutput.write(Data("\(line)\n".utf8))
}

@main
struct BackgroundTool {
  static func main() async throws {
    let arguments = Array(CommandLine.arguments.dropFirst())
    let session = URLSession(
      configuration: .background(withIdentifier: "bgtool.session"), delegate: Transfers(), delegateQueue: nil)
    switch (arguments.first, arguments.count) {
    case ("start", 2):
      guard let url = URL(string: arguments[1]) else { return say("no URL: \(arguments[1])") }
      try await begin(session.downloadTask(with: url), "download of \(url.lastPathComponent)")
    case ("upload", 3):
      guard let url = URL(string: arguments[2]) else { return say("no URL: \(arguments[2])") }
      var request = URLRequest(url: url)
      request.httpMethod = "POST"
      let file = URL(fileURLWithPath: arguments[1])
      try await begin(session.uploadTask(with: request, fromFile: file), "upload of \(file.lastPathComponent)")
    case ("status", 1):
      _ = await printTasks(of: session)
    case ("resume", 1):
      let isIdle = await printTasks(of: session)
      // The delegate ends the process when results come.
      try await Task.sleep(for: .seconds(isIdle ? 5 : 86_400))
    default:
      say("usage: bgtool start URL | upload FILE URL | status | resume")
      exit(64)
    }
  }

  static func begin(_ task: URLSessionTask, _ description: String) async throws {
    task.taskDescription = description
    task.resume()
    say("started task \(task.taskIdentifier)")
    try await Task.sleep(for: .seconds(2))
    say("exiting; received \(task.countOfBytesReceived), sent \(task.countOfBytesSent)")
  }

  static func printTasks(of session: URLSession) async -> Bool {
    let tasks = await session.allTasks
    if tasks.isEmpty { say("no tasks") }
    for task in tasks {
      say(
        "task \(task.taskIdentifier) \"\(task.taskDescription ?? "")\" received \(task.countOfBytesReceived) "
          + "sent \(task.countOfBytesSent)")
    }
    return tasks.isEmpty
  }
}
