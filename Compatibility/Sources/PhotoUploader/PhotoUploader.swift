// A queue of uploads that begins a failed one again: from its resume data where there is some, else from the file.
//
//   PhotoUploader URL FILE…
//
// Its author expects: each file's bytes arrive as they are, under the method and headers of the request; the response's
// body comes through didReceive; cancelling with resume data and uploading again ends well, with or without resume
// data; progress counts up to the file's size.

import BackgroundURLSession
import Foundation

final class UploadQueue: NSObject, URLSessionDataDelegate, @unchecked Sendable {
  private let lock = NSLock()
  private var waiting: [URL]
  private var retries: [String: Int] = [:]
  private var bodies: [Int: Data] = [:]
  private var sent: [Int: Int64] = [:]
  private let address: URL
  private let done: @Sendable () -> Void
  private lazy var session = URLSession(
    configuration: .background(withIdentifier: "com.example.photos"), delegate: self, delegateQueue: nil)

  init(_ files: [URL], to address: URL, done: @escaping @Sendable () -> Void) {
    waiting = files
    self.address = address
    self.done = done
  }

  func start() {
    guard let file = lock.withLock({ waiting.isEmpty ? nil : waiting.removeFirst() }) else { return done() }
    let task = upload(file)
    guard file.lastPathComponent.hasPrefix("interrupted") else { return }
    // A person who taps pause at once.
    task.cancel { resumeData in self.retry(file, resumeData) }
  }

  private func upload(_ file: URL) -> URLSessionUploadTask {
    var request = URLRequest(url: address.appendingPathComponent(file.lastPathComponent))
    request.httpMethod = "PUT"
    request.setValue("image/jpeg", forHTTPHeaderField: "Content-Type")
    let task = session.uploadTask(with: request, fromFile: file)
    task.taskDescription = file.path
    task.resume()
    return task
  }

  private func retry(_ file: URL, _ resumeData: Data?) {
    lock.withLock { retries[file.path, default: 0] += 1 }
    guard let resumeData else {
      _ = upload(file)
      return
    }
    let task = session.uploadTask(withResumeData: resumeData)
    task.taskDescription = file.path
    task.resume()
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64
  ) {
    lock.withLock { sent[task.taskIdentifier] = totalBytesSent }
  }

  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    lock.withLock { bodies[dataTask.taskIdentifier, default: Data()].append(data) }
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let file = URL(fileURLWithPath: task.taskDescription ?? "")
    let (body, count, tries) = lock.withLock {
      (bodies.removeValue(forKey: task.taskIdentifier), sent[task.taskIdentifier], retries[file.path] ?? 0)
    }
    if let error = error as? URLError {
      if error.code == .cancelled { return }
      if tries < 3 { return retry(file, error.uploadTaskResumeData) }
      print("\(file.lastPathComponent): error \(error.code.rawValue)")
    } else {
      let status = (task.response as? HTTPURLResponse)?.statusCode ?? 0
      let words = String(decoding: body ?? Data(), as: UTF8.self)
      print("\(file.lastPathComponent): status \(status), sent \(count ?? 0), retries \(tries), answer \(words)")
    }
    start()
  }
}

@main
struct PhotoUploader {
  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    let files = arguments.dropFirst().map { URL(fileURLWithPath: $0) }
    await withCheckedContinuation { continuation in
      let queue = UploadQueue(Array(files), to: URL(string: arguments[0])!) { continuation.resume() }
      queue.start()
    }
  }
}
