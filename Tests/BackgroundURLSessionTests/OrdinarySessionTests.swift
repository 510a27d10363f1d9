import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// A delegate whose answers to redirects, and streams for bodies, a test chooses.
private final class Decider: NSObject, URLSessionDataDelegate, Sendable {
  let redirect: @Sendable (URLRequest) -> URLRequest?
  let stream: @Sendable () -> InputStream?
  let ended = Mutex<(@Sendable (Data, URLSessionTask) -> Void)?>(nil)
  let body = Mutex(Data())

  init(
    redirect: @escaping @Sendable (URLRequest) -> URLRequest? = { $0 },
    stream: @escaping @Sendable () -> InputStream? = { nil }
  ) {
    self.redirect = redirect
    self.stream = stream
  }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
  ) {
    completionHandler(redirect(request))
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (InputStream?) -> Void
  ) {
    completionHandler(stream())
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    body.withLock { $0.append(data) }
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    ended.withLock { $0 }?(body.withLock { $0 }, task)
  }

  /// Resumes the task and waits for its end.
  func run(_ task: URLSessionTask) async -> (body: String, status: Int?, error: URLError?) {
    await withCheckedContinuation { continuation in
      ended.withLock {
        $0 = { body, task in
          let status = (task.response as? HTTPURLResponse)?.statusCode
          continuation.resume(returning: (String(decoding: body, as: UTF8.self), status, task.error as? URLError))
        }
      }
      task.resume()
    }
  }
}

@Suite("Ordinary sessions with a delegate", .timeLimit(.minutes(1)))
struct OrdinarySessionTests {
  private func session(_ delegate: any URLSessionDelegate) -> URLSession {
    URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: nil)
  }

  @Test("a data task's messages come in Apple's order")
  func dataTask() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let recorder = Recorder()
    let session = session(recorder)
    let task = session.dataTask(with: request(server))
    #expect(task.state == .suspended && task.taskIdentifier == 1)
    #expect(await session.allTasks == [task])
    task.resume()
    #expect(await recorder.messages(4) == ["created 1", "response 200", "data 5", "complete 1 0"])
    #expect(task.state == .completed)
    #expect(task.countOfBytesReceived == 5 && task.countOfBytesExpectedToReceive == 5)
    #expect(await session.allTasks.isEmpty)
    session.finishTasksAndInvalidate()
    #expect(await recorder.messages(5).last == "invalid 0")
    #expect(session.delegate == nil)
  }

  @Test("a download hands its file over, then it is removed")
  func download() async throws {
    let server = try LocalServer.start { _ in .generated(length: 50_000) }
    defer { server.stop() }
    let sizes = Mutex<[Int]>([])
    let recorder = Recorder { line in
      guard line.hasPrefix("file ") else { return }
      let path = String(line.split(separator: " ")[2])
      sizes.withLock { $0.append((try? Data(contentsOf: URL(fileURLWithPath: path)))?.count ?? -1) }
    }
    let session = session(recorder)
    session.downloadTask(with: request(server)).resume()
    session.finishTasksAndInvalidate()
    try await eventually { recorder.lines.last == "invalid 0" }
    #expect(sizes.withLock { $0 } == [50_000])
    let lines = recorder.lines
    #expect(lines.first == "created 1")
    #expect(lines.filter { $0.hasPrefix("wrote") }.last == "wrote 50000 50000 50000" || lines.count > 5)
    #expect(lines.dropLast().last == "complete 1 0")
    let file = try #require(lines.first { $0.hasPrefix("file") }?.split(separator: " ").last.map(String.init))
    try await eventually { !FileManager.default.fileExists(atPath: file) }
  }

  @Test("an upload tells what it sent, and gives its response")
  func upload() async throws {
    let server = try LocalServer.start { request in .text("\(request.bodyByteCount)") }
    defer { server.stop() }
    let recorder = Recorder()
    let session = session(recorder)
    let task = session.uploadTask(with: request(server) { $0.httpMethod = "PUT" }, from: Data(count: 70_000))
    #expect(task.countOfBytesExpectedToSend == 70_000)
    task.resume()
    try await eventually { recorder.lines.last == "complete 1 0" }
    #expect(recorder.lines.filter { $0.hasPrefix("sent") }.last?.hasSuffix(" 70000 70000") == true)
    #expect(recorder.lines.contains("response 200") && recorder.lines.contains("data 5"))
    #expect(server.requests.first?.head.headers["Content-Length"] == "70000")
  }

  @Test("the delegate refuses a response: the task is cancelled, and no data comes")
  func refusedResponse() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let recorder = Recorder(disposition: .cancel)
    session(recorder).dataTask(with: request(server)).resume()
    #expect(await recorder.messages(3) == ["created 1", "response 200", "complete 1 -999"])
  }

  @Test("nothing comes while the delegate decides, and the server waits")
  func backpressure() async throws {
    let total = 60_000_000
    let halfway = Gate()
    let server = try LocalServer.start { _ in .generated(length: total).onBytes(total / 2) { halfway.open() } }
    defer { server.stop() }
    let recorder = Recorder(disposition: nil)
    let task = session(recorder).dataTask(with: request(server))
    task.resume()
    #expect(await recorder.messages(2) == ["created 1", "response 200"])
    // Long enough for a server that is not held back.
    #expect(await !halfway.wait(seconds: 1))
    recorder.held.withLock { $0 }?(.allow)
    try await eventually { recorder.lines.last == "complete 1 0" }
    #expect(task.countOfBytesReceived == Int64(total))
  }

  @Test("redirects: followed, changed, or taken as the result")
  func redirects() async throws {
    let server = try LocalServer.start { request in
      request.path == "/from"
        ? .redirect(to: "/to").header("Content-Length", "0") : .text(request.head.headers["X-New"] ?? request.path)
    }
    defer { server.stop() }
    let following = Decider()
    let followed = session(following).dataTask(with: request(server, "/from"))
    #expect(await following.run(followed) == ("/to", 200, nil))
    #expect(followed.currentRequest?.url?.path == "/to" && followed.originalRequest?.url?.path == "/from")
    let changing = Decider(redirect: { request in
      var next = request
      next.setValue("changed", forHTTPHeaderField: "X-New")
      return next
    })
    #expect(await changing.run(session(changing).dataTask(with: request(server, "/from"))) == ("changed", 200, nil))
    let keeping = Decider(redirect: { _ in nil })
    #expect(await keeping.run(session(keeping).dataTask(with: request(server, "/from"))) == ("", 302, nil))
  }

  @Test("a suspended task does not go on; a task can be cancelled before it ran")
  func suspension() async throws {
    let total = 60_000_000
    let (gate, halfway) = (Gate(), Gate())
    let server = try LocalServer.start { _ in
      .generated(length: total).hold(until: gate).onBytes(total / 2) { halfway.open() }
    }
    defer { server.stop() }
    let recorder = Recorder()
    let session = session(recorder)
    let task = session.dataTask(with: request(server))
    task.resume()
    #expect(await server.waitForRequests(1))
    task.suspend()
    gate.open()
    #expect(await !halfway.wait(seconds: 1))
    #expect(task.state == .suspended)
    task.resume()
    try await eventually { recorder.lines.last == "complete 1 0" }
    let never = session.dataTask(with: request(server))
    never.cancel()
    try await eventually { recorder.lines.last == "complete 2 -999" }
    #expect(server.requestCount == 1)
  }

  @Test("invalidating cancels what runs, and the session's last message comes last")
  func invalidating() async throws {
    let server = try LocalServer.start { _ in .text("x").hold(until: Gate()) }
    defer { server.stop() }
    let recorder = Recorder()
    let session = session(recorder)
    session.dataTask(with: request(server)).resume()
    _ = session.dataTask(with: request(server))
    session.invalidateAndCancel()
    let lines = await recorder.messages(5)
    #expect(Set(lines[2...3]) == ["complete 1 -999", "complete 2 -999"])
    #expect(lines.last == "invalid 0")
  }

  @Test("bodies from streams, and a new stream where a redirect needs the body again")
  func streams() async throws {
    let server = try LocalServer.start { request in
      request.path == "/from" ? .redirect(to: "/to", status: 307) : .text("\(request.bodyByteCount)")
    }
    defer { server.stop() }
    let content = Data(count: 500_000)
    let delegate = Decider(stream: { InputStream(data: content) })
    let put = request(server, "/from") { $0.httpMethod = "PUT" }
    #expect(await delegate.run(session(delegate).uploadTask(withStreamedRequest: put)) == ("500000", 200, nil))
    let own = Decider()
    let direct = request(server, "/to") {
      $0.httpMethod = "PUT"
      $0.httpBodyStream = InputStream(data: content)
    }
    #expect(await own.run(session(own).dataTask(with: direct)) == ("500000", 200, nil))
    let none = Decider()
    #expect(await none.run(session(none).uploadTask(withStreamedRequest: put)).error != nil)
  }

  @Test("a task's own delegate is asked in place of the session's")
  func taskDelegate() async throws {
    let server = try LocalServer.start { request in
      request.path == "/from" ? .redirect(to: "/to") : .text("there")
    }
    defer { server.stop() }
    let keeping = Decider(redirect: { _ in nil })
    let (_, response) = try await URLSession(configuration: .default)
      .data(for: request(server, "/from"), delegate: keeping)
    #expect((response as? HTTPURLResponse)?.statusCode == 302)
  }

  @Test("what is no resume data is refused")
  func resumeData() async throws {
    let recorder = Recorder()
    session(recorder).downloadTask(withResumeData: Data([1])).resume()
    #expect(await recorder.messages(2).last == "complete 1 -3003")
  }

  @Test("there is no cache: what may come from one alone does not come at all")
  func cachePolicy() async throws {
    let server = try LocalServer.start { _ in .text("hello").header("Cache-Control", "max-age=3600") }
    defer { server.stop() }
    let session = URLSession(configuration: .default)
    for _ in 0..<2 {
      #expect(await session.dataAnswer(request(server) { $0.cachePolicy = .returnCacheDataElseLoad }).status == 200)
    }
    let answer = await session.dataAnswer(request(server) { $0.cachePolicy = .returnCacheDataDontLoad })
    #expect(answer.error?.code == .resourceUnavailable)
    let configuration = URLSessionConfiguration.ephemeral
    configuration.requestCachePolicy = .returnCacheDataDontLoad
    let other = URLSession(configuration: configuration)
    #expect(await other.dataAnswer(request(server)).error?.code == .resourceUnavailable)
    #expect(server.requestCount == 2)
  }

  @Test("credentials reach the server that they are for, and no other one behind a redirect")
  func credentials() async throws {
    let other = try LocalServer.start { request in .text(request.head.headers["Authorization"] ?? "nothing") }
    defer { other.stop() }
    let server = try LocalServer.start { request in
      switch request.path {
      case "/away": .redirect(to: other.url("/"))
      case "/near": .redirect(to: "/")
      default: .text(request.head.headers["Authorization"] ?? "nothing")
      }
    }
    defer { server.stop() }
    let session = URLSession(configuration: .ephemeral)
    func answer(_ request: URLRequest) async -> String {
      String(decoding: await session.dataAnswer(request).value ?? Data(), as: UTF8.self)
    }
    for path in ["/", "/near", "/away"] {
      let expected = path == "/away" ? "nothing" : "Basic dXNlcjpwYXNz"
      let field = request(server, path) { $0.setValue("Basic dXNlcjpwYXNz", forHTTPHeaderField: "Authorization") }
      #expect(await answer(field) == expected, "\(path)")
      let address = "http://user:pass@127.0.0.1:\(server.port)\(path)"
      #expect(await answer(URLRequest(url: URL(string: address)!)) == expected, "\(path) by the URL")
    }
  }
}
