import Foundation
import Glibc
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// Trust is what the environment says when a session is made, so each case is a process of its own.
@Suite(
  "Ordinary sessions and a real TLS server", .timeLimit(.minutes(1)),
  .enabled(if: SecureServer.program != nil, "nginx is not installed; scripts/test installs it"))
struct OrdinaryTLSTests {
  /// Sets what a program's environment has of trusted certificates, and no proxies.
  private static func trust(_ file: String?) {
    for name in ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] { unsafe unsetenv(name) }
    if let file { unsafe setenv("SSL_CERT_FILE", file, 1) } else { unsafe unsetenv("SSL_CERT_FILE") }
  }

  private static func with(_ body: (SecureServer) async throws -> Void) async throws {
    let server = try LocalServer.start { request in
      request.path == "/up" ? .text("\(request.bodyByteCount)") : .generated(length: 300_000, seed: 3)
    }
    defer { server.stop() }
    let site = try await SecureServer(before: server)
    defer { site.stop() }
    try await body(site)
  }

  /// What each way of asking ends with.
  private static func errors(_ url: URL) async -> [URLError?] {
    var request = URLRequest(url: url)
    request.httpMethod = "PUT"
    let upload = request
    return [
      await failure { try await URLSession.shared.data(from: url) },
      await failure { try await URLSession.shared.download(from: url) },
      await failure { try await URLSession.shared.upload(for: upload, from: Data(count: 70_000)) },
    ]
  }

  private static func failure(_ work: () async throws -> some Any) async -> URLError? {
    do {
      _ = try await work()
      return nil
    } catch {
      return error as? URLError
    }
  }

  @Test("with the system's certificates, a server of an unknown authority is not trusted, and the error says so")
  func unknownAuthority() async throws {
    try await Self.with { server in
      await #expect(processExitsWith: .success) { [address = server.url as String] in
        OrdinaryTLSTests.trust(nil)
        let url = try #require(URL(string: address))
        for error in await OrdinaryTLSTests.errors(url) {
          #expect(error?.code == .serverCertificateUntrusted)
          #expect(error?.localizedDescription.contains("the server's certificate is not trusted: ") == true)
          #expect(error?.failingURL?.host == "localhost")
        }
      }
    }
  }

  @Test("with the authority in SSL_CERT_FILE, data, downloads and uploads work, over HTTP/2")
  func knownAuthority() async throws {
    try await Self.with { server in
      await #expect(processExitsWith: .success) {
        [address = server.url as String, authority = server.authority as String] in
        OrdinaryTLSTests.trust(authority)
        let url = try #require(URL(string: address))
        let content = GeneratedContent(length: 300_000, seed: 3)
        let (data, response) = try await URLSession.shared.data(from: url)
        #expect((response as? HTTPURLResponse)?.statusCode == 200)
        #expect(data.count == 300_000 && content.verify(Array(data)) == nil)
        let (file, _) = try await URLSession.shared.download(from: url)
        let saved = try Data(contentsOf: file)
        #expect(saved.count == 300_000 && content.verify(Array(saved)) == nil)
        try FileManager.default.removeItem(at: file)
        var request = URLRequest(url: url.appendingPathComponent("up"))
        request.httpMethod = "PUT"
        let (answer, _) = try await URLSession.shared.upload(for: request, from: Data(count: 70_000))
        #expect(answer == Data("70000".utf8))
        let witness = Witness()
        _ = try await URLSession.shared.data(for: URLRequest(url: url), delegate: witness)
        let transaction = try #require(witness.metrics.withLock { $0 }.last)
        #expect(transaction.networkProtocolName == "h2")
        #expect([.TLSv12, .TLSv13].contains(transaction.negotiatedTLSProtocolVersion))
      }
    }
  }

  @Test("a certificate for another host is not trusted, whoever signed it")
  func anotherHost() async throws {
    try await Self.with { server in
      await #expect(processExitsWith: .success) {
        [address = "https://127.0.0.1:\(server.port)/" as String, authority = server.authority as String] in
        OrdinaryTLSTests.trust(authority)
        let url = try #require(URL(string: address))
        for error in await OrdinaryTLSTests.errors(url) {
          #expect(error?.code == .serverCertificateUntrusted)
          #expect(error?.localizedDescription.hasSuffix("the server's certificate is not for this host.") == true)
        }
      }
    }
  }

  @Test("a file of certificates that is not there is named in the error")
  func noFile() async throws {
    try await Self.with { server in
      await #expect(processExitsWith: .success) { [address = server.url as String] in
        OrdinaryTLSTests.trust("/nowhere.pem")
        let url = try #require(URL(string: address))
        for error in await OrdinaryTLSTests.errors(url) {
          #expect(error?.code == .serverCertificateUntrusted)
          #expect(error?.localizedDescription.contains("SSL_CERT_FILE") == true)
        }
      }
    }
  }

  @Test("the session's delegate is asked about a server that is not trusted, and cannot trust it")
  func challenge() async throws {
    try await Self.with { server in
      await #expect(processExitsWith: .success) { [address = server.url as String] in
        OrdinaryTLSTests.trust(nil)
        let url = try #require(URL(string: address))
        let witness = Witness()
        let session = URLSession(configuration: .ephemeral, delegate: witness, delegateQueue: nil)
        let error = await OrdinaryTLSTests.failure { try await session.data(from: url) }
        #expect(error?.code == .serverCertificateUntrusted)
        #expect(witness.asked.withLock { $0 } == ["NSURLAuthenticationMethodServerTrust"])
      }
    }
  }
}

/// Keeps what it is asked and what was measured.
private final class Witness: NSObject, URLSessionTaskDelegate, Sendable {
  let asked = Mutex<[String]>([])
  let metrics = Mutex<[URLSessionTaskTransactionMetrics]>([])

  func urlSession(
    _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
    completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
  ) {
    asked.withLock { $0.append(challenge.protectionSpace.authenticationMethod) }
    completionHandler(.performDefaultHandling, nil)
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didFinishCollecting metrics: URLSessionTaskMetrics) {
    self.metrics.withLock { $0 += metrics.transactionMetrics }
  }
}
