import Foundation
import Glibc
import LoopbackServer
import Synchronization
import Testing

@testable import BackgroundURLSession

/// nginx with TLS and HTTP/2 for `localhost`, before a server of the test's own, under an authority of its own.
private final class SecureServer {
  static let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first { (path: String) in
    FileManager.default.isExecutableFile(atPath: path)
  }

  let folder: URL
  let port: UInt16
  private let process = Process()
  var url: String { "https://localhost:\(port)/" }
  var authority: String { folder.appendingPathComponent("ca.pem").path }

  init(before server: LocalServer) async throws {
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-tls-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try Self.makeCertificates(folder)
    // The kernel chooses; the port stays bound until nginx has taken it over.
    let reserved = try ReservedPort()
    port = reserved.number
    let path = folder.path
    try """
    \(geteuid() == 0 ? "user root;" : "")
    daemon off; worker_processes 1; pid \(path)/pid; error_log \(path)/error.log;
    events {}
    http {
      access_log off; client_body_temp_path \(path)/b; proxy_temp_path \(path)/p; fastcgi_temp_path \(path)/f;
      uwsgi_temp_path \(path)/u; scgi_temp_path \(path)/s;
      server {
        listen 127.0.0.1:\(port) ssl http2 reuseport; server_name localhost;
        ssl_certificate \(path)/server.pem; ssl_certificate_key \(path)/server.key;
        location / { proxy_pass http://127.0.0.1:\(server.port); }
      }
    }
    """.write(to: folder.appendingPathComponent("nginx.conf"), atomically: true, encoding: .utf8)
    process.executableURL = URL(fileURLWithPath: Self.program ?? "")
    process.arguments = ["-p", path, "-c", "\(path)/nginx.conf", "-e", "\(path)/error.log"]
    process.standardError = FileHandle.nullDevice
    try process.run()
    // Written once it listens.
    try await eventually { FileManager.default.fileExists(atPath: "\(path)/pid") }
    withExtendedLifetime(reserved) {}
  }

  private static func makeCertificates(_ folder: URL) throws {
    let script = """
      new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
      openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj /CN=ferry-test
      openssl req $new -keyout server.key -out server.csr -subj /CN=localhost
      printf 'subjectAltName=DNS:localhost' > san
      openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile san
      """
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/sh")
    process.arguments = ["-ec", script]
    process.currentDirectoryURL = folder
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "openssl made no certificates")
  }

  deinit {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
  }
}

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
    try await body(try await SecureServer(before: server))
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
