import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

struct Answer<Value: Sendable>: Sendable {
  var value: Value?
  var response: URLResponse?
  var error: URLError?
  var status: Int? { (response as? HTTPURLResponse)?.statusCode }
}

extension URLSession {
  func dataAnswer(_ request: URLRequest, onStart: (URLSessionTask) -> Void = { _ in }) async -> Answer<Data> {
    await withCheckedContinuation { continuation in
      let task = dataTask(with: request) { data, response, error in
        continuation.resume(returning: Answer(value: data, response: response, error: error as? URLError))
      }
      task.resume()
      onStart(task)
    }
  }
}

func request(
  _ server: LocalServer, _ path: String = "/", _ adjust: (inout URLRequest) -> Void = { _ in }
) -> URLRequest {
  var request = URLRequest(url: URL(string: server.url(path))!)
  adjust(&request)
  return request
}

@Suite("Handlers and async forms of ordinary sessions", .timeLimit(.minutes(1)))
struct HandlerTests {
  let session = URLSession(configuration: .ephemeral)

  @Test("a data task's handler gets body and head; a status is no error", arguments: [200, 404, 500, 401])
  func data(status: Int) async throws {
    let server = try LocalServer.start { _ in .text("hello").status(status) }
    defer { server.stop() }
    let answer = await session.dataAnswer(request(server))
    #expect(answer.value == Data("hello".utf8))
    #expect(answer.status == status)
    #expect(answer.error == nil)
  }

  @Test("the shared session works, and cannot be invalidated")
  func shared() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    #expect(URLSession.shared === URLSession.shared)
    URLSession.shared.invalidateAndCancel()
    URLSession.shared.finishTasksAndInvalidate()
    let (data, _) = try await URLSession.shared.data(from: URL(string: server.url("/"))!)
    #expect(data == Data("hello".utf8))
  }

  @Test("a download's handler gets a file that is gone when it returned")
  func download() async throws {
    let server = try LocalServer.start { _ in .generated(length: 300_000) }
    defer { server.stop() }
    let kept = Mutex<(URL?, Int, Int64)>((nil, 0, 0))
    let error: URLError? = await withCheckedContinuation { continuation in
      let task = session.downloadTask(with: request(server)) { file, _, error in
        kept.withLock { $0 = (file, (file.flatMap { try? Data(contentsOf: $0) })?.count ?? -1, 0) }
        continuation.resume(returning: error as? URLError)
      }
      task.resume()
    }
    #expect(error == nil)
    let (file, count, _) = kept.withLock { $0 }
    #expect(count == 300_000)
    let path = try #require(file?.path)
    try await eventually { !FileManager.default.fileExists(atPath: path) }
    // With its last file goes the folder.
    try await eventually { await session.allTasks.isEmpty }
  }

  @Test("async: data, upload of bytes and files, download")
  func asyncForms() async throws {
    let server = try LocalServer.start { request in .bytes(request.body).header("X-Method", request.method) }
    defer { server.stop() }
    var post = request(server)
    post.httpMethod = "POST"
    let body = Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0) })
    let (echo, response) = try await session.upload(for: post, from: body)
    #expect(echo.count == body.count && isSame(echo, body))
    #expect((response as? HTTPURLResponse)?.value(forHTTPHeaderField: "X-Method") == "POST")
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-\(UUID().uuidString)")
    try body.write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    #expect(isSame(try await session.upload(for: post, fromFile: file).0, body))
    post.httpBody = Data("abc".utf8)
    #expect(try await session.data(for: post).0 == Data("abc".utf8))
    let (place, _) = try await session.download(for: post)
    #expect(try Data(contentsOf: place) == Data("abc".utf8))
    try FileManager.default.removeItem(at: place)
  }

  @Test("handlers of uploads get the response")
  func uploadHandlers() async throws {
    let server = try LocalServer.start { request in .bytes(request.body).status(201) }
    defer { server.stop() }
    let put = request(server) { $0.httpMethod = "PUT" }
    let answer: Answer<Data> = await withCheckedContinuation { continuation in
      session.uploadTask(with: put, from: Data("bytes".utf8)) {
        continuation.resume(returning: Answer(value: $0, response: $1, error: $2 as? URLError))
      }.resume()
    }
    #expect(answer.value == Data("bytes".utf8))
    #expect(answer.status == 201)
  }

  @Test("cancelling gives URLError.cancelled, by the task and by the Swift task")
  func cancelling() async throws {
    let server = try LocalServer.start { _ in .text("late").hold(until: Gate()) }
    defer { server.stop() }
    let answer = await session.dataAnswer(request(server)) { $0.cancel() }
    #expect(answer.error?.code == .cancelled)
    #expect(answer.value == nil)
    let url = URL(string: server.url("/"))!
    let waiting = Task { try await session.data(from: url) }
    #expect(await server.waitForRequests(1))
    waiting.cancel()
    let error = await #expect(throws: URLError.self) { try await waiting.value }
    #expect(error?.code == .cancelled)
  }

  @Test("a lost connection, a refused one and a 401 end in errors or answers, and none hangs or traps")
  func failures() async throws {
    let server = try LocalServer.start { request in
      switch request.path {
      case "/lost": .generated(length: 100_000).cut(afterBytes: 10_000)
      case "/reset": .resetWithoutAnswer()
      default: .status(401).header("WWW-Authenticate", "Digest realm=\"a\", nonce=\"b\"")
      }
    }
    #expect(await session.dataAnswer(request(server, "/lost")).error?.code == .networkConnectionLost)
    #expect(await session.dataAnswer(request(server, "/reset")).error?.code == .networkConnectionLost)
    #expect(await session.dataAnswer(request(server, "/401")).status == 401)
    server.stop()
    #expect(await session.dataAnswer(request(server)).error?.code == .cannotConnectToHost)
    let ftp = URLRequest(url: URL(string: "ftp://host.test/")!)
    #expect(await session.dataAnswer(ftp).error?.code == .unsupportedURL)
  }

  @Test("both time limits are kept")
  func timeouts() async throws {
    let server = try LocalServer.start { request in
      request.path == "/slow"
        ? .generated(length: 1_000_000).throttled(bytes: 1000, every: .milliseconds(100))
        : .text("x").hold(until: Gate())
    }
    defer { server.stop() }
    let silent = request(server) { $0.timeoutInterval = 0.5 }
    #expect(await session.dataAnswer(silent).error?.code == .timedOut)
    let configuration = URLSessionConfiguration.ephemeral
    configuration.timeoutIntervalForResource = 1
    let impatient = URLSession(configuration: configuration)
    let begin = ContinuousClock.now
    #expect(await impatient.dataAnswer(request(server, "/slow")).error?.code == .timedOut)
    #expect(begin.duration(to: .now) < .seconds(8))
  }

  @Test("headers of the configuration go out, and a content coding is undone")
  func headersAndCodings() async throws {
    let text = Array("plain text".utf8)
    let server = try LocalServer.start { _ in .bytes([]).contentEncoding("gzip", bytes: Gzip.stored(text)) }
    defer { server.stop() }
    let configuration = URLSessionConfiguration.default
    configuration.httpAdditionalHeaders = ["X-All": "1", "X-Both": "configuration"]
    let session = URLSession(configuration: configuration)
    let answer = await session.dataAnswer(request(server) { $0.setValue("request", forHTTPHeaderField: "X-Both") })
    #expect(answer.value == Data(text))
    let head = try #require(server.requests.first?.head)
    #expect(head.headers["X-All"] == "1")
    #expect(head.headers["X-Both"] == "request")
    #expect(head.headers["Accept-Encoding"]?.contains("gzip") == true)
  }

  @Test("cookies come in and go out, over redirects too, and stay in the session's storage")
  func cookies() async throws {
    let server = try LocalServer.start { request in
      switch request.path {
      case "/set":
        .redirect(to: "/get").addingHeader("Set-Cookie", "a=1; Expires=Wed, 09 Jun 2100 10:18:14 GMT; Path=/")
          .addingHeader("Set-Cookie", "b=2")
      default: .text(request.head.headers["Cookie"] ?? "none")
      }
    }
    defer { server.stop() }
    let body = await session.dataAnswer(request(server, "/set")).value
    #expect(body.map { String(decoding: $0, as: UTF8.self) }?.split(separator: "; ").sorted() == ["a=1", "b=2"])
    let again = await session.dataAnswer(request(server, "/get")).value
    #expect(again.map { String(decoding: $0, as: UTF8.self) }?.contains("a=1") == true)
    let without = request(server, "/get") { $0.httpShouldHandleCookies = false }
    #expect(await session.dataAnswer(without).value == Data("none".utf8))
    #expect(await URLSession(configuration: .ephemeral).dataAnswer(request(server, "/get")).value == Data("none".utf8))
  }

  @Test("data: and file: URLs")
  func localURLs() async throws {
    let text = URL(string: "data:text/plain;charset=utf-8;base64,aGVsbG8=")!
    let (data, response) = try await session.data(from: text)
    #expect(data == Data("hello".utf8))
    #expect(response.mimeType == "text/plain" && response.textEncodingName == "utf-8")
    #expect(try await session.data(from: URL(string: "data:,a%20b%FF")!).0 == Data([97, 32, 98, 255]))
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-\(UUID().uuidString)")
    let content = Data((0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 >> 3) })
    try content.write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    #expect(isSame(try await session.data(from: file).0, content))
    let (copy, _) = try await session.download(from: file)
    #expect(isSame(try Data(contentsOf: copy), content))
    try FileManager.default.removeItem(at: copy)
    let error = await #expect(throws: URLError.self) {
      try await session.data(from: URL(fileURLWithPath: "/no/such/file"))
    }
    #expect(error?.code == .fileDoesNotExist)
  }

  @Test("bytes come as they arrive, and the server waits for a reader")
  func bytes() async throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in .generated(length: 200_000).stall(afterBytes: 5, until: gate) }
    defer { server.stop() }
    let (bytes, response) = try await session.bytes(for: request(server))
    #expect((response as? HTTPURLResponse)?.statusCode == 200)
    var read: [UInt8] = []
    for try await byte in bytes {
      read.append(byte)
      if read.count == 5 { gate.open() }
    }
    #expect(read.count == 200_000)
    let expected = try await session.data(for: request(server)).0
    #expect(isSame(Data(read), expected))
  }

  @Test("a body of which nobody reads is cancelled")
  func unreadBytes() async throws {
    let server = try LocalServer.start { _ in .generated(length: 100_000_000) }
    defer { server.stop() }
    _ = try await session.bytes(for: request(server))
    #expect(await server.waitForExchanges(1))
    #expect(server.exchanges.first?.end == .clientLeft)
  }

  @Test("a hundred sessions share one thread")
  func threads() async throws {
    let server = try LocalServer.start { _ in .text("x") }
    defer { server.stop() }
    func loops() -> Int {
      let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
      return tasks.filter {
        (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "URLSession\n"
      }.count
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<100 {
        group.addTask {
          let one = URLSession(configuration: .ephemeral)
          _ = try await one.data(for: request(server))
        }
      }
      try await group.waitForAll()
    }
    // The thread of a look-up, of another test, has the name of the one that made it.
    try await eventually { loops() == 1 }
  }

  @Test("requests to a server that holds its first answer reach it at once")
  func parallel() async throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in .text("x").hold(until: gate) }
    defer { server.stop() }
    async let first = session.dataAnswer(request(server, "/1"))
    async let second = session.dataAnswer(request(server, "/2"))
    let bothArrived = await server.waitForRequests(2)
    #expect(bothArrived)
    gate.open()
    #expect(await first.error == nil)
    #expect(await second.error == nil)
  }
}

/// Without a report of each byte that differs.
func isSame(_ one: Data, _ other: Data) -> Bool { one == other }

/// Asks again until it holds; the test's time limit is the deadline.
func eventually(_ holds: () async throws -> Bool) async throws {
  while try await !holds() {
    try await Task.sleep(for: .milliseconds(5))  // sleep: the interval of asking
  }
}
