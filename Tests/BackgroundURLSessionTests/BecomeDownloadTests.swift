import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// Turns each data task into what it is told to, and writes down what it hears.
private final class Converter: NSObject, URLSessionDataDelegate, URLSessionDownloadDelegate, Sendable {
  let disposition: URLSession.ResponseDisposition
  let lines = Mutex<[String]>([])
  let content = Mutex(Data())

  init(_ disposition: URLSession.ResponseDisposition) { self.disposition = disposition }

  private func note(_ line: String) { lines.withLock { $0.append(line) } }
  var heard: [String] { lines.withLock { $0 } }

  func urlSession(
    _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
    completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
  ) {
    note("response \(dataTask.taskIdentifier)")
    completionHandler(disposition)
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didBecome downloadTask: URLSessionDownloadTask) {
    note("became \(dataTask.taskIdentifier) \(downloadTask.taskIdentifier) \(dataTask.state == .completed)")
    if downloadTask.originalRequest?.url?.path == "/cancelled" { downloadTask.cancel() }
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) { note("data") }
  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didWriteData bytesWritten: Int64,
    totalBytesWritten: Int64, totalBytesExpectedToWrite: Int64
  ) {
    if totalBytesWritten == totalBytesExpectedToWrite { note("wrote all") }
  }
  func urlSession(_ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL) {
    content.withLock { $0 = (try? Data(contentsOf: location)) ?? Data() }
    note("file \(downloadTask.taskIdentifier) \(location.path)")
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    note("complete \(task.taskIdentifier) \((error as? URLError)?.code.rawValue ?? 0)")
  }
}

@Suite("Data tasks that become downloads", .timeLimit(.minutes(1)))
struct BecomeDownloadTests {
  private static let total = 5_000_000

  private func session(_ delegate: Converter) -> URLSession {
    URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: nil)
  }

  @Test("the body goes into a file, and the messages are those of a download")
  func becoming() async throws {
    let server = try LocalServer.start { _ in .generated(length: Self.total, seed: 3) }
    defer { server.stop() }
    let converter = Converter(.becomeDownload)
    let session = session(converter)
    let task = session.dataTask(with: request(server))
    task.resume()
    try await eventually { converter.heard.last == "complete 2 0" }
    let heard = converter.heard
    #expect(heard.prefix(3) == ["response 1", "became 1 2 true", "wrote all"])
    #expect(heard.count == 5 && heard[3].hasPrefix("file 2 "))
    let expected = Data(GeneratedContent(length: Self.total, seed: 3).bytes(0..<Self.total))
    #expect(isSame(converter.content.withLock { $0 }, expected))
    let file = String(heard[3].dropFirst("file 2 ".count))
    try await eventually { !FileManager.default.fileExists(atPath: file) }
    #expect(await session.allTasks.isEmpty && task.state == .completed && task.error == nil)
  }

  @Test("the download can be cancelled as any other, and leaves no file")
  func cancelling() async throws {
    let server = try LocalServer.start { _ in .generated(length: Self.total).stall(afterBytes: 100_000) }
    defer { server.stop() }
    let converter = Converter(.becomeDownload)
    session(converter).dataTask(with: request(server, "/cancelled")).resume()
    try await eventually { converter.heard.last == "complete 2 -999" }
    #expect(!converter.heard.contains { $0.hasPrefix("file") || $0 == "data" })
  }

  @Test("a small answer that is all there before the delegate decides becomes a download too")
  func small() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let converter = Converter(.becomeDownload)
    let session = session(converter)
    for _ in 0..<50 { session.dataTask(with: request(server)).resume() }
    try await eventually { converter.heard.count { $0.hasPrefix("complete") && $0.hasSuffix(" 0") } == 50 }
    #expect(converter.heard.count { $0 == "wrote all" } == 50 && !converter.heard.contains("data"))
  }

  @Test("a stream is not possible: the task is cancelled")
  func stream() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let converter = Converter(.becomeStream)
    session(converter).dataTask(with: request(server)).resume()
    try await eventually { converter.heard.last == "complete 1 -999" }
  }
}
