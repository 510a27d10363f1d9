import Foundation
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// Writes down what it is told of responses, in order.
private final class Hearer: NSObject, URLSessionDataDelegate, Sendable {
  private let told = Mutex<[String]>([])
  private let heads = Mutex<[HTTPURLResponse]>([])
  private let end = Mutex<CheckedContinuation<Void, Never>?>(nil)

  var lines: [String] { told.withLock { $0 } }
  var responses: [HTTPURLResponse] { heads.withLock { $0 } }
  private func note(_ line: String) { told.withLock { $0.append(line) } }

  func urlSession(
    _ session: URLSession, task: URLSessionTask, didReceiveInformationalResponse response: HTTPURLResponse
  ) {
    heads.withLock { $0.append(response) }
    note("informed \(response.statusCode) \(response.url?.path ?? "")")
  }
  func urlSession(
    _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
    newRequest request: URLRequest, completionHandler: @escaping @Sendable (URLRequest?) -> Void
  ) {
    note("redirect \(response.statusCode)")
    completionHandler(request)
  }
  func urlSession(
    _ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse,
    completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void
  ) {
    note("response \((response as? HTTPURLResponse)?.statusCode ?? 0)")
    completionHandler(.allow)
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    note("data \(data.count)")
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    note("complete \((error as? URLError)?.code.rawValue ?? 0)")
    end.withLock { $0.take() }?.resume()
  }

  func run(_ task: URLSessionTask) async {
    await withCheckedContinuation { continuation in
      end.withLock { $0 = continuation }
      task.resume()
    }
  }
}

@Suite("Informational responses", .timeLimit(.minutes(1)))
struct InformationalTests {
  private func session(_ delegate: any URLSessionDelegate) -> URLSession {
    URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: nil)
  }

  @Test("early hints are told before the response, with all their links")
  func earlyHints() async throws {
    let server = try LocalServer.start { _ in
      .text("hello").informational(103, ["Link": "</a.css>; rel=preload", "link": "</b.js>; rel=preload", "X-A": "1"])
    }
    defer { server.stop() }
    let hearer = Hearer()
    let session = session(hearer)
    defer { session.invalidateAndCancel() }
    await hearer.run(session.dataTask(with: request(server, "/page")))
    #expect(hearer.lines == ["informed 103 /page", "response 200", "data 5", "complete 0"])
    let hints = try #require(hearer.responses.first)
    #expect(hints.value(forHTTPHeaderField: "Link") == "</a.css>; rel=preload, </b.js>; rel=preload")
    #expect(hints.value(forHTTPHeaderField: "X-A") == "1")
    #expect(hints.value(forHTTPHeaderField: "Content-Length") == nil, "nothing of the final response")
  }

  @Test("several come in their order, and those of protocols are left out")
  func several() async throws {
    let server = try LocalServer.start { _ in
      .text("x").informational(100).informational(102).informational(104).informational(103).informational(199)
    }
    defer { server.stop() }
    let hearer = Hearer()
    let session = session(hearer)
    defer { session.invalidateAndCancel() }
    await hearer.run(session.dataTask(with: request(server)))
    #expect(
      hearer.lines == [100, 102, 103, 199].map { "informed \($0) /" } + ["response 200", "data 1", "complete 0"])
  }

  @Test("each hop of a redirect tells its own, downloads and uploads too")
  func redirected() async throws {
    let server = try LocalServer.start { request in
      request.head.target == "/old"
        ? .redirect(to: "/new").informational(103, ["Link": "</old>"])
        : .text("x").informational(103, ["Link": "</new>"])
    }
    defer { server.stop() }
    let told = ["informed 103 /old", "redirect 302", "informed 103 /new"]
    for kind in ["data", "download", "upload"] {
      let hearer = Hearer()
      let session = session(hearer)
      defer { session.invalidateAndCancel() }
      let request = request(server, "/old") { if kind == "upload" { $0.httpMethod = "PUT" } }
      let task: URLSessionTask =
        switch kind {
        case "data": session.dataTask(with: request)
        case "download": session.downloadTask(with: request)
        default: session.uploadTask(with: request, from: Data("body".utf8))
        }
      await hearer.run(task)
      #expect(hearer.lines.filter { !$0.hasPrefix("response") && !$0.hasPrefix("data") } == told + ["complete 0"])
      #expect(hearer.responses.map { $0.value(forHTTPHeaderField: "Link") } == ["</old>", "</new>"])
    }
  }

  @Test("a server that does nothing but inform is left", arguments: [(2000, 10), (8, 30_000)])
  func flood(count: Int, bytes: Int) async throws {
    let server = try LocalServer.start { _ in
      (0..<count).reduce(.text("never")) { response, _ in
        response.informational(103, ["Link": String(repeating: "l", count: bytes)])
      }
    }
    defer { server.stop() }
    let hearer = Hearer()
    let session = session(hearer)
    defer { session.invalidateAndCancel() }
    await hearer.run(session.dataTask(with: request(server)))
    #expect(hearer.lines.last == "complete \(URLError.Code.badServerResponse.rawValue)")
    #expect(hearer.responses.count <= 1000 && hearer.responses.count * bytes <= 128 << 10)
    #expect(server.requests.count == 1, "and not asked again")
  }
}
