import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

@Suite("Resume data, metrics and timeouts of ordinary sessions", .timeLimit(.minutes(1)))
struct OrdinaryResumeTests {
  private static let total = 3_000_000

  /// The first answer stalls after a third, every other is whole.
  private func stallingServer(etag: String? = "\"a\"") throws -> LocalServer {
    let count = Mutex(0)
    return try LocalServer.start { _ in
      let isFirst = count.withLock { count in
        count += 1
        return count == 1
      }
      var answer = Response.generated(length: Self.total, seed: 7)
      if let etag { answer = answer.etag(etag) }
      return isFirst ? answer.stall(afterBytes: Self.total / 3) : answer
    }
  }

  private func session(_ delegate: (any URLSessionDelegate)?, timeout: TimeInterval? = nil) -> URLSession {
    let configuration = URLSessionConfiguration.ephemeral
    if let timeout { configuration.timeoutIntervalForRequest = timeout }
    return URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
  }

  private static var content: Data { Data(GeneratedContent(length: total, seed: 7).bytes(0..<total)) }

  // MARK: Resume data

  @Test("a cancelled download gives resume data, and another one goes on from it")
  func cancelling() async throws {
    let server = try stallingServer()
    defer { server.stop() }
    let received = Gate()
    let recorder = Recorder { line in
      if line.hasPrefix("wrote"), line.split(separator: " ")[2].utf8.count == 7 { received.open() }
    }
    let first = session(recorder)
    let task = first.downloadTask(with: request(server, "/a"))
    task.resume()
    #expect(await received.wait(seconds: 30))
    let data = try #require(await task.cancelByProducingResumeData())
    try await eventually { recorder.lines.last == "complete 1 -999" }
    #expect((recorder.state.withLock { $0.errors.last } as? URLError)?.downloadTaskResumeData == data)
    // Another session of this process goes on, once.
    let whole = Mutex(Data())
    let next = Recorder { line in
      guard line.hasPrefix("file") else { return }
      let path = String(line.split(separator: " ")[2])
      whole.withLock { $0 = (try? Data(contentsOf: URL(fileURLWithPath: path))) ?? Data() }
    }
    let second = session(next)
    let resumed = second.downloadTask(withResumeData: data)
    #expect(resumed.originalRequest?.url?.path == "/a")
    resumed.resume()
    try await eventually { next.lines.last?.hasPrefix("complete") == true }
    #expect(next.lines.last == "complete 1 0")
    #expect(isSame(whole.withLock { $0 }, Self.content))
    let place = try #require(next.lines.first { $0.hasPrefix("resumed") }?.split(separator: " ").compactMap { Int($0) })
    #expect(place[0] >= 900_000 && place[1] == Self.total, "\(next.lines.prefix(3))")
    #expect(server.requests.last?.head.headers["Range"] == "bytes=\(place[0])-")
    #expect(resumed.countOfBytesReceived == Self.total && resumed.countOfBytesExpectedToReceive == Self.total)
    second.downloadTask(withResumeData: data).resume()
    try await eventually { next.lines.last == "complete 2 -3003" }
  }

  @Test("a download that fails has resume data in its error; async forms go on from it")
  func failing() async throws {
    let server = try stallingServer()
    defer { server.stop() }
    let session = session(nil, timeout: 1)
    let error = await #expect(throws: URLError.self) { try await session.download(for: request(server)) }
    #expect(error?.code == .timedOut)
    let data = try #require(error?.downloadTaskResumeData)
    let (file, response) = try await session.download(resumeFrom: data)
    defer { try? FileManager.default.removeItem(at: file) }
    #expect((response as? HTTPURLResponse)?.statusCode == 206)
    #expect(isSame(try Data(contentsOf: file), Self.content))
  }

  @Test("no validator, no resume data; none of a task that did not run, nor of an upload")
  func none() async throws {
    let server = try stallingServer(etag: nil)
    defer { server.stop() }
    let received = Gate()
    let recorder = Recorder { line in
      if line.hasPrefix("wrote") { received.open() }
    }
    let session = session(recorder)
    let task = session.downloadTask(with: request(server))
    task.resume()
    #expect(await received.wait(seconds: 30))
    #expect(await task.cancelByProducingResumeData() == nil)
    #expect(await task.cancelByProducingResumeData() == nil)
    #expect(await session.downloadTask(with: request(server)).cancelByProducingResumeData() == nil)
    #expect(await session.uploadTask(with: request(server), from: Data()).cancelByProducingResumeData() == nil)
    try await eventually { await session.allTasks.isEmpty }
    #expect(server.requestCount == 1)
  }

  // MARK: Timeouts

  @Test("a request that brings nothing for its time fails; one that brings a little goes on")
  func requestTimeout() async throws {
    let server = try LocalServer.start { request in
      request.path == "/slow"
        ? .generated(length: 40).throttled(bytes: 8, every: .milliseconds(400)) : .text("late").hold(until: Gate())
    }
    defer { server.stop() }
    let session = session(nil, timeout: 1)
    #expect(await session.dataAnswer(request(server)).error?.code == .timedOut)
    #expect(await session.dataAnswer(request(server, "/slow")).value?.count == 40)
    let patient = URLSession(configuration: .ephemeral)
    let answer = await patient.dataAnswer(request(server) { $0.timeoutInterval = 1 })
    #expect(answer.error?.code == .timedOut)
  }

  @Test("a resource that does not come in its time fails, however busy it is")
  func resourceTimeout() async throws {
    let server = try LocalServer.start { _ in
      .generated(length: 1_000_000).throttled(bytes: 100, every: .milliseconds(100))
    }
    defer { server.stop() }
    let configuration = URLSessionConfiguration.ephemeral
    configuration.timeoutIntervalForResource = 1
    let session = URLSession(configuration: configuration)
    #expect(await session.dataAnswer(request(server)).error?.code == .timedOut)
    await #expect(throws: URLError.self) { try await session.download(for: request(server)) }
  }

  // MARK: Metrics

  private final class Meter: NSObject, URLSessionDataDelegate, Sendable {
    let metrics = Mutex<[URLSessionTaskMetrics]>([])
    func urlSession(_ session: URLSession, task: URLSessionTask, didFinishCollecting metrics: URLSessionTaskMetrics) {
      self.metrics.withLock { $0.append(metrics) }
    }
  }

  @Test("each transaction is measured: redirects, connections that are used again, bytes")
  func metrics() async throws {
    let server = try LocalServer.start { request in
      request.path == "/from"
        ? .redirect(to: "/to") : .generated(length: 200_000).throttled(bytes: 50_000, every: .milliseconds(50))
    }
    defer { server.stop() }
    let meter = Meter()
    let session = session(meter)
    let before = Date()
    _ = try await session.upload(for: request(server, "/to") { $0.httpMethod = "PUT" }, from: Data(count: 5000))
    _ = try await session.data(for: request(server, "/from"))
    let after = Date()
    let all = meter.metrics.withLock { $0 }
    try #require(all.count == 2)
    for metrics in all {
      #expect(metrics.taskInterval.start >= before && metrics.taskInterval.end <= after)
      #expect(metrics.taskInterval.duration > 0.1)
    }
    let upload = try #require(all[0].transactionMetrics.first)
    #expect(all[0].transactionMetrics.count == 1 && all[0].redirectCount == 0)
    #expect(upload.countOfRequestBodyBytesSent == 5000 && upload.request.httpMethod == "PUT")
    #expect(!upload.isReusedConnection && upload.connectStartDate != nil && upload.secureConnectionStartDate == nil)
    let hops = all[1].transactionMetrics
    try #require(hops.count == 2 && all[1].redirectCount == 1)
    #expect(hops.map { ($0.response as? HTTPURLResponse)?.statusCode } == [302, 200])
    #expect(hops.map { $0.request.url?.path } == ["/from", "/to"])
    #expect(hops[1].isReusedConnection && hops[1].connectStartDate == nil)
    #expect(hops[1].countOfResponseBodyBytesReceived == 200_000)
    for hop in hops + [upload] {
      #expect(hop.networkProtocolName == "http/1.1" && hop.resourceFetchType == .networkLoad)
      #expect(hop.remoteAddress == "127.0.0.1" && hop.remotePort == Int(server.port) && hop.localPort != nil)
      #expect(hop.countOfRequestHeaderBytesSent > 0 && hop.countOfResponseHeaderBytesReceived > 0)
      let dates = [
        hop.fetchStartDate, hop.domainLookupStartDate, hop.domainLookupEndDate, hop.connectStartDate,
        hop.connectEndDate, hop.requestStartDate, hop.requestEndDate, hop.responseStartDate, hop.responseEndDate,
      ].compactMap { $0 }
      #expect(dates == dates.sorted() && dates.count >= 5, "\(dates.map { $0.timeIntervalSince(dates[0]) })")
      // Milliseconds of the wall clock, which may be set meanwhile, and microseconds of another one.
      #expect(dates.first.map { $0 >= before - 0.01 } == true && dates.last.map { $0 <= after + 0.01 } == true)
    }
  }

  @Test("metrics come for tasks with closures, failed ones, and those without a server")
  func metricsOfOthers() async throws {
    let server = try LocalServer.start { _ in .closeWithoutAnswer() }
    defer { server.stop() }
    let meter = Meter()
    let session = session(meter)
    #expect(await session.dataAnswer(request(server)).error != nil)
    _ = try await session.data(from: URL(string: "data:,hello")!)
    let all = meter.metrics.withLock { $0 }
    #expect(all.map(\.transactionMetrics.count) == [1, 0])
    #expect(all.first?.transactionMetrics.first?.response == nil)
  }
}
