import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// Answers requests for the hosts that a test has a script for.
private class Stub: URLProtocol, @unchecked Sendable {
  typealias Step = @Sendable (Stub) -> Void

  private struct Script: Sendable {
    var start: Step
    var stop: Step
  }

  private static let scripts = Mutex<[String: Script]>([:])
  static func play(_ host: String, stop: @escaping Step = { _ in }, start: @escaping Step) {
    scripts.withLock { $0[host] = Script(start: start, stop: stop) }
  }
  private static func script(of request: URLRequest) -> Script? {
    request.url?.host.flatMap { host in scripts.withLock { $0[host] } }
  }

  override class func canInit(with request: URLRequest) -> Bool { script(of: request) != nil }
  override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }
  override func startLoading() { Self.script(of: request)?.start(self) }
  override func stopLoading() { Self.script(of: request)?.stop(self) }

  func head(_ status: Int = 200, _ fields: [String: String] = [:]) -> HTTPURLResponse {
    HTTPURLResponse(url: request.url!, statusCode: status, httpVersion: "HTTP/1.1", headerFields: fields)!
  }
  func respond(_ status: Int = 200, _ fields: [String: String] = [:]) {
    client?.urlProtocol(self, didReceive: head(status, fields), cacheStoragePolicy: .notAllowed)
  }
  func send(_ text: String) { client?.urlProtocol(self, didLoad: Data(text.utf8)) }
  func finish() { client?.urlProtocolDidFinishLoading(self) }
  func fail(_ error: any Error) { client?.urlProtocol(self, didFailWithError: error) }
  func redirect(to next: URLRequest) {
    client?.urlProtocol(self, wasRedirectedTo: next, redirectResponse: head(302, ["Location": "\(next.url!)"]))
  }
}

/// A second class, to tell the two apart.
private final class Latecomer: Stub, @unchecked Sendable {
  override func startLoading() {
    respond()
    send("latecomer")
    finish()
  }
}

/// What a stub asked is answered to.
private final class Sender: NSObject, URLAuthenticationChallengeSender, Sendable {
  private let stub: Stub
  init(_ stub: Stub) { self.stub = stub }

  private func finish(_ text: String) {
    stub.respond()
    stub.send(text)
    stub.finish()
  }
  func use(_ credential: URLCredential, for challenge: URLAuthenticationChallenge) {
    finish("use \(credential.user ?? "") \(credential.password ?? "")")
  }
  func continueWithoutCredential(for challenge: URLAuthenticationChallenge) { finish("without") }
  func cancel(_ challenge: URLAuthenticationChallenge) { stub.fail(URLError(.userCancelledAuthentication)) }
  func performDefaultHandling(for challenge: URLAuthenticationChallenge) { finish("default") }
  func rejectProtectionSpaceAndContinue(with challenge: URLAuthenticationChallenge) { finish("reject") }
}

/// Answers every challenge of a task in one way, and those of the connection in none.
private final class Doorman: NSObject, URLSessionTaskDelegate, Sendable {
  private let disposition: URLSession.AuthChallengeDisposition
  private let credential: URLCredential?
  init(_ disposition: URLSession.AuthChallengeDisposition, _ credential: URLCredential? = nil) {
    self.disposition = disposition
    self.credential = credential
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    completionHandler(disposition, credential)
  }
}

@Suite("URLProtocol in ordinary sessions", .timeLimit(.minutes(1)))
struct URLProtocolTests {
  private func configuration(_ classes: [AnyClass] = [Stub.self]) -> URLSessionConfiguration {
    let configuration = URLSessionConfiguration.ephemeral
    configuration.protocolClasses = classes
    return configuration
  }
  private func session(_ delegate: (any URLSessionDelegate)? = nil) -> URLSession {
    URLSession(configuration: configuration(), delegate: delegate, delegateQueue: nil)
  }
  private func url(_ host: String, _ path: String = "/") -> URL { URL(string: "https://\(host)\(path)")! }

  @Test("a delegate hears of a stub as of a server")
  func data() async throws {
    Stub.play("data.test") { stub in
      stub.respond(203, ["Content-Length": "5"])
      stub.send("he")
      stub.send("llo")
      stub.finish()
    }
    let recorder = Recorder()
    let session = session(recorder)
    let task = session.dataTask(with: url("data.test"))
    task.resume()
    session.finishTasksAndInvalidate()
    try await eventually { recorder.lines.last == "invalid 0" }
    #expect(recorder.lines == ["created 1", "response 203", "data 2", "data 3", "complete 1 0", "invalid 0"])
    #expect(task.countOfBytesReceived == 5 && task.countOfBytesExpectedToReceive == 5)
  }

  @Test("the stub sees the request as it was made, body included")
  func request() async throws {
    Stub.play("request.test") { stub in
      var body = stub.request.httpBody ?? Data()
      if let stream = stub.request.httpBodyStream {
        stream.open()
        var piece = [UInt8](repeating: 0, count: 100)
        body.append(contentsOf: piece[..<max(0, unsafe stream.read(&piece, maxLength: 100))])
        stream.close()
      }
      stub.respond(201)
      stub.send(
        "\(stub.request.httpMethod ?? "") \(stub.request.value(forHTTPHeaderField: "X-A") ?? "")"
          + " \(stub.request.value(forHTTPHeaderField: "X-B") ?? "") \(String(decoding: body, as: UTF8.self))")
      stub.finish()
    }
    let configuration = configuration()
    configuration.httpAdditionalHeaders = ["X-B": "b"]
    let session = URLSession(configuration: configuration)
    var post = URLRequest(url: url("request.test"))
    post.httpMethod = "POST"
    post.setValue("a", forHTTPHeaderField: "X-A")
    let (bytes, response) = try await session.upload(for: post, from: Data("bytes".utf8))
    #expect(String(decoding: bytes, as: UTF8.self) == "POST a b bytes")
    #expect((response as? HTTPURLResponse)?.statusCode == 201)
    let file = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-\(UUID().uuidString)")
    try Data("file".utf8).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    #expect(String(decoding: try await session.upload(for: post, fromFile: file).0, as: UTF8.self) == "POST a b file")
    post.httpBody = Data("own".utf8)
    #expect(String(decoding: try await session.data(for: post).0, as: UTF8.self) == "POST a b own")
  }

  @Test("a download hands over a file, which is removed afterwards")
  func download() async throws {
    Stub.play("download.test") { stub in
      stub.respond(200, ["Content-Length": "6"])
      stub.send("abc")
      stub.send("def")
      stub.finish()
    }
    let contents = Mutex<[String]>([])
    let recorder = Recorder { line in
      guard line.hasPrefix("file ") else { return }
      let path = line.split(separator: " ")[2]
      contents.withLock { $0.append((try? String(contentsOfFile: String(path), encoding: .utf8)) ?? "nothing") }
    }
    session(recorder).downloadTask(with: url("download.test")).resume()
    try await eventually { recorder.lines.last == "complete 1 0" }
    #expect(contents.withLock { $0 } == ["abcdef"])
    #expect(recorder.lines.contains { $0.hasPrefix("wrote") && $0.hasSuffix(" 6 6") })
    let file = try #require(recorder.lines.first { $0.hasPrefix("file") }?.split(separator: " ").last.map(String.init))
    try await eventually { !FileManager.default.fileExists(atPath: file) }
    let (kept, _) = try await session().download(from: url("download.test"))
    #expect(try String(contentsOf: kept, encoding: .utf8) == "abcdef")
    try FileManager.default.removeItem(at: kept)
  }

  @Test("a stub's challenge is put before the delegate, and its sender hears the answer")
  func challenges() async throws {
    Stub.play("challenge.test") { stub in
      let isTrust = stub.request.url?.path == "/trust"
      let space = URLProtectionSpace(
        host: "challenge.test", port: 443, protocol: "https", realm: "area",
        authenticationMethod: isTrust ? "NSURLAuthenticationMethodServerTrust" : NSURLAuthenticationMethodHTTPBasic)
      let challenge = URLAuthenticationChallenge(
        protectionSpace: space, proposedCredential: nil, previousFailureCount: 0, failureResponse: nil, error: nil,
        sender: Sender(stub))
      stub.client?.urlProtocol(stub, didReceive: challenge)
    }
    func answer(_ doorman: Doorman?, _ path: String = "/") async -> Answer<Data> {
      await session(doorman).dataAnswer(URLRequest(url: url("challenge.test", path)))
    }
    let ann = URLCredential(user: "ann", password: "secret", persistence: .none)
    #expect(await answer(Doorman(.useCredential, ann)).value == Data("use ann secret".utf8))
    #expect(await answer(Doorman(.useCredential)).value == Data("without".utf8))
    #expect(await answer(Doorman(.rejectProtectionSpace)).value == Data("reject".utf8))
    #expect(await answer(Doorman(.performDefaultHandling)).value == Data("default".utf8))
    #expect(await answer(Doorman(.cancelAuthenticationChallenge)).error?.code == .userCancelledAuthentication)
    #expect(await answer(nil).value == Data("default".utf8))
    // What is the session's matter does not come to the task's method.
    #expect(await answer(Doorman(.useCredential, ann), "/trust").value == Data("default".utf8))
  }

  @Test("the stub's error comes out, whatever it is")
  func errors() async throws {
    struct Fault: Error {}
    Stub.play("errors.test") { stub in
      switch stub.request.url?.path {
      case "/own": stub.fail(URLError(.notConnectedToInternet))
      case "/cocoa": stub.fail(NSError(domain: NSURLErrorDomain, code: NSURLErrorTimedOut))
      default: stub.fail(Fault())
      }
    }
    let session = session()
    let own = await session.dataAnswer(URLRequest(url: url("errors.test", "/own")))
    #expect(own.error?.code == .notConnectedToInternet)
    let cocoa = await session.dataAnswer(URLRequest(url: url("errors.test", "/cocoa")))
    #expect(cocoa.error?.code == .timedOut)
    let other = await session.dataAnswer(URLRequest(url: url("errors.test", "/other"))).error
    #expect(other?.code == .unknown && other?.userInfo[NSUnderlyingErrorKey] is Fault)
  }

  @Test("a redirect is asked about, and its request goes to whoever wants it; what the stub says later is not heard")
  func redirects() async throws {
    let server = try LocalServer.start { _ in .text("from the network") }
    defer { server.stop() }
    Stub.play("redirect.test") { stub in
      switch stub.request.url?.path {
      case "/out": stub.redirect(to: BackgroundURLSessionTests.request(server))
      case "/in":
        stub.redirect(to: URLRequest(url: stub.request.url!.deletingLastPathComponent().appendingPathComponent("end")))
      default:
        stub.respond()
        stub.send("from the stub")
        return stub.finish()
      }
      // As Apple's sample of a URLProtocol does.
      stub.fail(NSError(domain: NSCocoaErrorDomain, code: 3072))
    }
    let following = Recorder()
    let session = session(following)
    #expect(try await session.data(from: url("redirect.test", "/in")).0 == Data("from the stub".utf8))
    let (bytes, response) = try await session.data(from: url("redirect.test", "/out"))
    #expect(bytes == Data("from the network".utf8) && response.url?.host == "127.0.0.1")
    final class Refusing: NSObject, URLSessionTaskDelegate {
      func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
      ) {
        completionHandler(nil)
      }
    }
    let kept = try await session.data(from: url("redirect.test", "/in"), delegate: Refusing()).1
    #expect((kept as? HTTPURLResponse)?.statusCode == 302)
  }

  @Test("bytes come while the stub goes on")
  func streaming() async throws {
    let gate = Gate()
    Stub.play("streaming.test") { stub in
      stub.respond()
      stub.send("a")
      Task {
        _ = await gate.wait(seconds: 30)
        stub.send("b")
        stub.finish()
      }
    }
    let (bytes, response) = try await session().bytes(from: url("streaming.test"))
    #expect((response as? HTTPURLResponse)?.statusCode == 200)
    var iterator = bytes.makeAsyncIterator()
    #expect(try await iterator.next() == UInt8(ascii: "a"))
    gate.open()
    #expect(try await iterator.next() == UInt8(ascii: "b"))
    #expect(try await iterator.next() == nil)
  }

  @Test("cancelling stops the stub at once: after its start has returned, and while the delegate is busy")
  func cancelling() async throws {
    let (started, mayReturn, stopped) = (Gate(), Gate(), Gate())
    let calls = Mutex<[String]>([])
    Stub.play("cancel.test") { stub in
      calls.withLock { $0.append("stop") }
      // Nobody hears it any more.
      stub.finish()
      stopped.open()
    } start: { stub in
      stub.respond()
      started.open()
      _ = mayReturn.wait()
      calls.withLock { $0.append("started") }
    }
    let busy = DispatchSemaphore(value: 0)
    let recorder = Recorder { line in
      if line == "response 200" { busy.wait() }
    }
    let task = session(recorder).dataTask(with: url("cancel.test"))
    task.resume()
    #expect(await started.wait(seconds: 30))
    task.cancel()
    mayReturn.open()
    #expect(await stopped.wait(seconds: 30))
    #expect(calls.withLock { $0 } == ["started", "stop"])
    busy.signal()
    try await eventually { recorder.lines.last == "complete 1 -999" }
  }

  @Test("a stub is stopped after it has finished, too")
  func stopping() async throws {
    let stopped = Gate()
    Stub.play("stop.test", stop: { _ in stopped.open() }) { stub in
      stub.respond()
      stub.finish()
    }
    #expect(await session().dataAnswer(URLRequest(url: url("stop.test"))).status == 200)
    #expect(await stopped.wait(seconds: 30))
  }

  @Test("registered classes answer the shared session, the latest first, and no other session")
  func registering() async throws {
    Stub.play("shared.test") { stub in
      stub.respond()
      stub.send("stub")
      stub.finish()
    }
    #expect(!URLProtocol.registerClass(NSObject.self))
    #expect(URLProtocol.registerClass(Stub.self) && URLProtocol.registerClass(Latecomer.self))
    #expect(try await URLSession.shared.data(from: url("shared.test")).0 == Data("latecomer".utf8))
    URLProtocol.unregisterClass(Latecomer.self)
    #expect(try await URLSession.shared.data(from: url("shared.test")).0 == Data("stub".utf8))
    // Nothing of that name exists.
    let other = URLSession(configuration: .ephemeral)
    #expect(await other.dataAnswer(URLRequest(url: url("shared.test"))).error != nil)
    URLProtocol.unregisterClass(Stub.self)
    #expect(await URLSession.shared.dataAnswer(URLRequest(url: url("shared.test"))).error != nil)
  }

  @Test("the first class of a configuration that wants the request has it; what none wants goes to the network")
  func perConfiguration() async throws {
    let server = try LocalServer.start { _ in .text("network") }
    defer { server.stop() }
    Stub.play("order.test") { stub in
      stub.respond()
      stub.finish()
    }
    let session = URLSession(configuration: configuration([Latecomer.self, Stub.self]))
    #expect(try await session.data(from: url("order.test")).0 == Data("latecomer".utf8))
    #expect(try await session.data(for: BackgroundURLSessionTests.request(server)).0 == Data("network".utf8))
  }

  @Test("background sessions never ask a URLProtocol")
  func background() async throws {
    let server = try LocalServer.start { _ in .text("network") }
    defer { server.stop() }
    let home = try DaemonHome()
    defer { home.stop() }
    Stub.play("localhost") { $0.fail(URLError(.cancelled)) }
    let configuration = URLSessionConfiguration.background(withIdentifier: "stubs")
    configuration.protocolClasses = [Stub.self]
    let recorder = Recorder()
    let process = home.newProcess()
    defer { process.endProcess() }
    let session = URLSession(
      configuration: configuration, delegate: recorder, delegateQueue: nil, registry: process)
    session.downloadTask(with: URL(string: "http://localhost:\(server.port)/")!).resume()
    try await eventually { recorder.lines.contains("complete 1 0") }
    #expect(server.requestCount == 1)
  }
}
