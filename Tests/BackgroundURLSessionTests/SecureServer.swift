import Foundation
import Glibc
import LoopbackServer
import Testing

/// nginx with TLS and HTTP/2 for `localhost`, before a server of the test's own, under an authority of its own.
///
/// What it shows on ``port`` can be changed at any time (``show(_:)``); on ``otherPort`` it shows `other.pem`, and on
/// ``clientPort`` it wants a certificate of the client.
final class SecureServer: Sendable {
  static let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first { (path: String) in
    FileManager.default.isExecutableFile(atPath: path)
  }

  let folder: URL
  let port: UInt16
  let otherPort: UInt16
  let clientPort: UInt16
  private let process = Process()
  var url: String { "https://localhost:\(port)/" }
  var authority: String { path("ca.pem") }

  init(before server: LocalServer) async throws {
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-tls-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try Self.makeCertificates(folder)
    // The kernel chooses; the ports stay bound until nginx has taken them over.
    let reserved = try (0..<3).map { _ in try ReservedPort() }
    port = reserved[0].number
    otherPort = reserved[1].number
    clientPort = reserved[2].number
    try show("server")
    try configuration(server).write(to: folder.appendingPathComponent("nginx.conf"), atomically: true, encoding: .utf8)
    process.executableURL = URL(fileURLWithPath: Self.program ?? "")
    process.arguments = ["-p", folder.path, "-c", path("nginx.conf"), "-e", path("error.log")]
    // Whoever reads what the tests print does not wait for this process.
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    do {
      // Written once it listens.
      try await eventually { [folder] in
        FileManager.default.fileExists(atPath: folder.appendingPathComponent("pid").path)
      }
    } catch {
      stop()
      throw error
    }
    withExtendedLifetime(reserved) {}
  }

  func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

  /// What is shown from the next handshake on: "server" (of the authority, for localhost), "self" (of nobody, for
  /// localhost) or "other" (of nobody, with another key).
  func show(_ name: String) throws {
    try FileManager.default.copyItem(atPath: path("\(name).pem"), toPath: path("next.pem"))
    let hasReplaced = unsafe rename(path("next.pem"), path("current.pem")) == 0
    try #require(hasReplaced)
  }

  /// A certificate in DER, as a program would have it in its bundle.
  func der(_ name: String) throws -> Data {
    let text = try String(contentsOfFile: path("\(name).pem"), encoding: .utf8)
    let lines = text.split(separator: "\n").drop { $0 != "-----BEGIN CERTIFICATE-----" }.dropFirst()
    return try #require(Data(base64Encoded: lines.prefix { !$0.hasPrefix("-") }.joined()))
  }

  private func configuration(_ server: LocalServer) -> String {
    let path = folder.path
    let shared = "server_name localhost; location / { proxy_pass http://127.0.0.1:\(server.port); }"
    return """
      \(geteuid() == 0 ? "user root;" : "")
      daemon off; worker_processes 1; pid \(path)/pid; error_log \(path)/error.log;
      events {}
      http {
        access_log off; client_body_temp_path \(path)/b; proxy_temp_path \(path)/p; fastcgi_temp_path \(path)/f;
        uwsgi_temp_path \(path)/u; scgi_temp_path \(path)/s; proxy_buffering off;
        # A name with a variable is read at each handshake.
        map $server_port $shown { default current; }
        server {
          listen 127.0.0.1:\(port) ssl http2 reuseport;
          ssl_certificate \(path)/$shown.pem; ssl_certificate_key \(path)/$shown.pem;
          location /away { return 302 https://localhost:\(otherPort)/arrived; }
          \(shared)
        }
        server {
          listen 127.0.0.1:\(otherPort) ssl http2 reuseport;
          ssl_certificate \(path)/other.pem; ssl_certificate_key \(path)/other.pem;
          \(shared)
        }
        server {
          listen 127.0.0.1:\(clientPort) ssl http2 reuseport;
          ssl_certificate \(path)/server.pem; ssl_certificate_key \(path)/server.pem;
          ssl_verify_client on; ssl_client_certificate \(path)/ca.pem;
          \(shared)
        }
      }
      """
  }

  private static func makeCertificates(_ folder: URL) throws {
    let script = """
      new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
      openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj /CN=ferry-test
      openssl req $new -keyout server.key -out server.csr -subj /CN=localhost
      printf 'subjectAltName=DNS:localhost' > san
      openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.crt -days 2 -extfile san
      for name in self other; do
        openssl req -x509 $new -keyout $name.key -out $name.crt -days 2 -subj /CN=localhost \\
          -addext subjectAltName=DNS:localhost
      done
      openssl req $new -keyout client.key -out client.csr -subj /CN=a-client
      openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out client.crt -days 2
      openssl pkcs12 -export -in client.crt -inkey client.key -out client.p12 -passout pass:bundle
      for name in server self other client; do cat $name.crt $name.key > $name.pem; done
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

  func stop() {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
  }
}
