// Unit tests that answer requests themselves, with a URLProtocol in the session's configuration.
//
// Their author expects: no request reaches a network; the stub sees method, address, headers and body as they were
// made; a status, a body and an error of the stub come out of the session as if a server had sent them.

import BackgroundURLSession
import Catalogue
import Foundation
import Testing

final class StubProtocol: URLProtocol, @unchecked Sendable {
  typealias Answer = @Sendable (URLRequest) throws -> (HTTPURLResponse, Data)

  nonisolated(unsafe) static var answers: [String: Answer] = [:]
  static let lock = NSLock()

  override class func canInit(with request: URLRequest) -> Bool { true }
  override class func canonicalRequest(for request: URLRequest) -> URLRequest { request }

  override func startLoading() {
    let answer = Self.lock.withLock { Self.answers[request.url?.host ?? ""] }
    do {
      guard let answer else { throw URLError(.cannotFindHost) }
      let (response, data) = try answer(request)
      client?.urlProtocol(self, didReceive: response, cacheStoragePolicy: .notAllowed)
      client?.urlProtocol(self, didLoad: data)
      client?.urlProtocolDidFinishLoading(self)
    } catch {
      client?.urlProtocol(self, didFailWithError: error)
    }
  }

  override func stopLoading() {}
}

@Suite(.timeLimit(.minutes(1))) struct CatalogueTests {
  /// Each test has a host of its own, so that they may run at once.
  private func client(_ host: String, _ answer: @escaping StubProtocol.Answer) -> CatalogueClient {
    StubProtocol.lock.withLock { StubProtocol.answers[host] = answer }
    let configuration = URLSessionConfiguration.ephemeral
    configuration.protocolClasses = [StubProtocol.self]
    return CatalogueClient(session: URLSession(configuration: configuration), address: URL(string: "https://\(host)")!)
  }

  private static func response(_ request: URLRequest, _ status: Int) -> HTTPURLResponse {
    HTTPURLResponse(url: request.url!, statusCode: status, httpVersion: "HTTP/1.1", headerFields: nil)!
  }

  @Test func booksAreDecoded() async throws {
    let books = [Book(title: "Momo", year: 1973)]
    let client = client("books.test") { request in
      #expect(request.httpMethod == "GET" && request.url?.path == "/books")
      return (Self.response(request, 200), try JSONEncoder().encode(books))
    }
    #expect(try await client.books() == books)
  }

  @Test func aStatusIsAnError() async throws {
    let client = client("status.test") { request in (Self.response(request, 503), Data()) }
    await #expect(throws: CatalogueClient.Failure.status(503)) { try await client.books() }
  }

  @Test func theStubsErrorComesOut() async throws {
    let client = client("offline.test") { _ in throw URLError(.notConnectedToInternet) }
    let error = await #expect(throws: URLError.self) { try await client.books() }
    #expect(error?.code == .notConnectedToInternet)
  }

  @Test func anUploadIsMadeAsAsked() async throws {
    let client = client("upload.test") { request in
      #expect(request.httpMethod == "POST")
      #expect(request.value(forHTTPHeaderField: "Content-Type") == "application/json")
      return (Self.response(request, 201), Data())
    }
    try await client.add(Book(title: "Krabat", year: 1971))
  }

  @Test func aClosureGetsTheBody() async throws {
    let client = client("cover.test") { request in (Self.response(request, 200), Data([1, 2, 3])) }
    let data = try await withCheckedThrowingContinuation { continuation in
      client.cover(of: Book(title: "Momo", year: 1973)) { continuation.resume(with: $0) }
    }
    #expect(data == Data([1, 2, 3]))
  }
}
