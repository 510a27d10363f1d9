// A transfer service that is one object for the whole app, and gives each caller's answer to a closure kept by task.
//
//   DocumentFetcher URL…
//
// Its author expects: each closure is called once, with the content of its own address or with the error of its own
// task; a cancelled task's closure gets URLError.cancelled; identifiers of tasks are different from each other.

import BackgroundURLSession
import Foundation

final class TransferService: NSObject, URLSessionDownloadDelegate, @unchecked Sendable {
  static let shared = TransferService()

  typealias Completion = @Sendable (Result<Data, any Error>) -> Void

  private let lock = NSLock()
  private var completions: [Int: Completion] = [:]
  private var results: [Int: Result<Data, any Error>] = [:]
  private lazy var session: URLSession = {
    let configuration = URLSessionConfiguration.background(withIdentifier: "com.example.documents")
    configuration.isDiscretionary = false
    configuration.httpAdditionalHeaders = ["X-Client": "DocumentFetcher"]
    return URLSession(configuration: configuration, delegate: self, delegateQueue: nil)
  }()

  @discardableResult
  func fetch(_ url: URL, completion: @escaping Completion) -> URLSessionDownloadTask {
    let task = lock.withLock {
      let task = session.downloadTask(with: url)
      completions[task.taskIdentifier] = completion
      return task
    }
    task.resume()
    return task
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let result = Result { try Data(contentsOf: location) }
    lock.withLock { results[downloadTask.taskIdentifier] = result }
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let (completion, result) = lock.withLock {
      (completions.removeValue(forKey: task.taskIdentifier), results.removeValue(forKey: task.taskIdentifier))
    }
    if let error { completion?(.failure(error)) } else if let result { completion?(result) }
  }
}

@main
struct DocumentFetcher {
  static func main() async {
    let urls = CommandLine.arguments.dropFirst().compactMap { URL(string: $0) }
    await withTaskGroup(of: String.self) { group in
      for url in urls {
        group.addTask {
          await withCheckedContinuation { continuation in
            let task = TransferService.shared.fetch(url) { result in
              switch result {
              case .success(let data): continuation.resume(returning: "\(url.lastPathComponent): \(data.count) bytes")
              case .failure(let error as URLError):
                continuation.resume(returning: "\(url.lastPathComponent): error \(error.code.rawValue)")
              case .failure(let error): continuation.resume(returning: "\(url.lastPathComponent): \(error)")
              }
            }
            if url.lastPathComponent == "never" { task.cancel() }
          }
        }
      }
      var lines: [String] = []
      for await line in group { lines.append(line) }
      print(lines.sorted().joined(separator: "\n"))
    }
  }
}
