import Glibc
import LinuxSystem
import LoopbackServer
import Testing

/// An authority of our own and a certificate by it for localhost, made once for all tests of this process.
enum TestAuthority {
  struct Files: Sendable {
    var authority: String
    var certificate: String
    var key: String
    /// Certificate and key in one file, as lighttpd wants them.
    var both: String
    /// Of a client, by the same authority; its key, in clear and under the password "key password".
    var client: String
    var clientKey: String
    var clientKeyUnderPassword: String
    /// "sha256//" and the base 64 of the SHA-256 of the server's public key.
    var pin: String
  }

  static func make(in folder: String) throws -> Files {
    let script = """
      cd '\(folder)'
      curve='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
      openssl req -x509 $curve -keyout ca.key -out ca.pem -days 2 -subj /CN=ferry-test
      openssl req $curve -keyout server.key -out server.csr -subj /CN=localhost
      printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > san
      openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile san
      cat server.pem server.key > both.pem
      openssl req $curve -keyout client.key -out client.csr -subj /CN=ferry-client
      openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out client.pem -days 2
      openssl pkey -in client.key -aes128 -passout 'pass:key password' -out locked.key
      openssl x509 -in server.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary |
        openssl base64 > pin
      chmod 644 server.key both.pem
      """
    let made = try Shell.output("/bin/sh", ["-ec", script])
    try #require(made.status == .exited(code: 0), "openssl: \(made.errors)")
    return Files(
      authority: folder + "/ca.pem", certificate: folder + "/server.pem", key: folder + "/server.key",
      both: folder + "/both.pem", client: folder + "/client.pem", clientKey: folder + "/client.key",
      clientKeyUnderPassword: folder + "/locked.key",
      pin: "sha256//" + (try readText(folder + "/pin")).filter { !$0.isNewline })
  }
}

/// A web server of the distribution with a folder of its own, ended by its id.
final class WebServer {
  enum Kind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case nginx, apache2, lighttpd, caddy, h2o, python
    var testDescription: String { rawValue }

    var program: String? {
      let candidates: [String] =
        switch self {
        case .nginx: ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"]
        case .apache2: ["/usr/sbin/apache2"]
        case .lighttpd: ["/usr/sbin/lighttpd"]
        case .caddy: ["/usr/bin/caddy"]
        case .h2o: ["/usr/bin/h2o"]
        case .python: ["/usr/bin/python3"]
        }
      return candidates.first(where: Shell.isExecutable)
    }

    /// What `apt-get install` would bring.
    var package: String {
      switch self {
      case .nginx: "nginx-light"
      case .python: "python3"
      case .apache2, .lighttpd, .caddy, .h2o: rawValue
      }
    }

    var knowsTLS: Bool {
      switch self {
      case .nginx, .apache2, .caddy, .h2o: true
      case .lighttpd: (unsafe access("/usr/lib/lighttpd/mod_openssl.so", R_OK)) == 0
      case .python: false
      }
    }

    /// Python's has no ranges and no entity tags: nothing can be continued.
    var knowsRanges: Bool { self != .python }

    var takesPut: Bool {
      switch self {
      case .nginx, .apache2: true
      case .lighttpd: (unsafe access("/usr/lib/lighttpd/mod_webdav.so", R_OK)) == 0
      case .caddy, .h2o, .python: false
      }
    }
  }

  enum Transport: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case plain, tls
    var testDescription: String { rawValue }
  }

  let kind: Kind
  let transport: Transport
  let folder: String
  let port: UInt16
  /// Of a server that speaks TLS.
  let certificates: TestAuthority.Files?
  var authority: String? { certificates?.authority }
  private let lines: String
  private let reserved: ReservedPort?
  private var program: Program?

  var root: String { folder + "/site" }
  var processID: Int32 { program?.processID ?? -1 }
  var scheme: String { transport == .tls ? "https" : "http" }
  var url: String { "\(scheme)://localhost:\(port)" }

  /// - Parameters:
  ///   - address: where it listens: a port of the loopback that the kernel chose, or this one of a namespace.
  ///   - wrapper: a program that starts it, with its arguments: `ip netns exec NAME`.
  ///   - lines: of nginx, for its server.
  init(
    _ kind: Kind, _ transport: Transport = .plain, address: (host: String, port: UInt16)? = nil,
    wrapper: [String] = [], rateBytesPerSecond: Int? = nil, lines: String = ""
  ) throws {
    self.lines = lines
    self.kind = kind
    self.transport = transport
    folder = "/tmp/ferry-web-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    for name in ["site", "site/dir", "site/put", "tmp", "cert"] { try Files.makePrivateDirectory("\(folder)/\(name)") }
    // Workers run as another user.
    for name in ["", "/site", "/site/dir", "/tmp", "/cert"] { unsafe chmod(folder + name, 0o755) }
    for name in ["/site/put", "/tmp"] { unsafe chmod(folder + name, 0o777) }
    let reserved = address == nil ? try ReservedPort() : nil
    self.reserved = reserved
    port = address?.port ?? reserved?.number ?? 0
    certificates = transport == .tls ? try TestAuthority.make(in: folder + "/cert") : nil
    let host = address?.host ?? "127.0.0.1"
    let command = try command(host, certificates, rateBytesPerSecond)
    let all = wrapper + command
    program = try Program(
      all[0], Array(all.dropFirst()),
      environment: [
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": folder, "XDG_DATA_HOME": folder, "LANG": "C.UTF-8",
      ],
      folder: folder)
    guard address == nil else { return }
    try waitUntilListening()
  }

  deinit { end() }

  func end() {
    guard let program else { return }
    // Each has workers of its own, which a killed parent leaves behind: it ends them itself.
    program.signal(kind == .python ? SIGKILL : SIGTERM)
    if (try? program.wait(seconds: 10)) == nil { program.kill() }
    self.program = nil
    Shell.remove(folder)
  }

  private func waitUntilListening() throws {
    try eventually("\(kind) listens (\(program?.errorText ?? ""))") {
      if let status = program?.status { throw Late("\(kind) ended: \(status) \(program?.errorText ?? "")") }
      return try Relay.canConnect(to: port)
    }
  }

  // MARK: Content

  /// A file whose Last-Modified is old enough to be trusted.
  func put(_ name: String, _ bytes: [UInt8], hoursOld: Int = 2) throws {
    let path = "\(root)/\(name)"
    unsafe unlink(path)
    let file = try Files.createPrivate(path)
    try Syscall.writeAll(file.raw, bytes.span, at: 0)
    unsafe chmod(path, 0o644)
    var times = [timespec(), timespec()]
    let moment = time(nil) - hoursOld * 3600
    times[0].tv_sec = moment
    times[1].tv_sec = moment
    try #require(unsafe futimens(file.raw, &times) == 0)
  }

  // MARK: Configurations

  private func write(_ name: String, _ text: String) throws -> String {
    let path = "\(folder)/\(name)"
    let file = try Files.createPrivate(path)
    try Syscall.writeAll(file.raw, Array(text.utf8).span, at: 0)
    unsafe chmod(path, 0o644)
    return path
  }

  private func command(_ host: String, _ tls: TestAuthority.Files?, _ rate: Int?) throws -> [String] {
    let program = try #require(kind.program, "\(kind) is not installed")
    switch kind {
    case .nginx: return [program, "-p", folder, "-c", try write("nginx.conf", nginx(host, tls, rate))]
    case .apache2:
      return [program, "-d", folder, "-D", "FOREGROUND", "-f", try write("apache.conf", apache(host, tls))]
    case .lighttpd: return [program, "-D", "-f", try write("lighttpd.conf", lighttpd(host, tls))]
    case .caddy:
      return [program, "run", "--adapter", "caddyfile", "--config", try write("Caddyfile", caddy(host, tls))]
    case .h2o: return [program, "-m", "worker", "-c", try write("h2o.conf", h2o(host, tls))]
    case .python:
      return [program, "-m", "http.server", "\(port)", "--bind", host, "--directory", root, "--protocol", "HTTP/1.1"]
    }
  }

  private func nginx(_ host: String, _ tls: TestAuthority.Files?, _ rate: Int?) -> String {
    let security = tls.map { "ssl_certificate \($0.certificate); ssl_certificate_key \($0.key);" } ?? ""
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map { "\($0)_temp_path \(folder)/tmp/\($0);" }
    return """
      daemon off; worker_processes 1; pid \(folder)/pid; error_log \(folder)/error.log;
      events { worker_connections 256; }
      http {
        access_log \(folder)/access.log; sendfile on; client_max_body_size 64m; \(temporary.joined(separator: " "))
        \(rate.map { "limit_rate \($0);" } ?? "")
        server {
          listen \(host):\(port) \(tls == nil ? "" : "ssl http2"); server_name localhost; \(security)
          root \(root);
          \(lines)
          location /put/ { dav_methods PUT; }
        }
      }
      """
  }

  private func apache(_ host: String, _ tls: TestAuthority.Files?) -> String {
    var modules = ["mpm_event", "authz_core", "dir", "dav", "dav_fs"]
    if tls != nil { modules += ["ssl", "http2"] }
    let loads = modules.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }
    let security =
      tls.map {
        """
        Protocols h2 http/1.1
        SSLEngine on
        SSLCertificateFile \($0.certificate)
        SSLCertificateKeyFile \($0.key)
        SSLSessionCache none
        """
      } ?? ""
    return """
      \(loads.joined(separator: "\n"))
      ServerName localhost
      Listen \(host):\(port)
      PidFile \(folder)/pid
      ErrorLog \(folder)/error.log
      Mutex file:\(folder)/tmp default
      DefaultRuntimeDir \(folder)/tmp
      \(geteuid() == 0 ? "User www-data\nGroup www-data" : "")
      StartServers 1
      DocumentRoot \(root)
      DavLockDB \(folder)/tmp/dav
      DirectoryIndex index.html
      <Directory \(root)>
        Require all granted
      </Directory>
      <Directory \(root)/put>
        Dav On
      </Directory>
      \(security)
      """
  }

  private func lighttpd(_ host: String, _ tls: TestAuthority.Files?) -> String {
    var modules = ["mod_indexfile"]
    if kind.takesPut { modules.append("mod_webdav") }
    if tls != nil { modules.append("mod_openssl") }
    let security = tls.map { "ssl.engine = \"enable\"\nssl.pemfile = \"\($0.both)\"" } ?? ""
    let dav =
      kind.takesPut ? "$HTTP[\"url\"] =~ \"^/put/\" {\n  webdav.activate = \"enable\"\n}" : ""
    return """
      server.modules = (\(modules.map { "\"\($0)\"" }.joined(separator: ", ")))
      server.document-root = "\(root)"
      server.bind = "\(host)"
      server.port = \(port)
      server.errorlog = "\(folder)/error.log"
      server.stat-cache-engine = "disable"
      mimetype.assign = ("" => "application/octet-stream")
      server.upload-dirs = ("\(folder)/tmp")
      index-file.names = ("index.html")
      \(security)
      \(dav)
      """
  }

  private func caddy(_ host: String, _ tls: TestAuthority.Files?) -> String {
    """
    {
      admin off
      auto_https off
      storage file_system \(folder)/tmp
    }
    \(tls == nil ? "http" : "https")://:\(port) {
      bind \(host)
      \(tls.map { "tls \($0.certificate) \($0.key)" } ?? "")
      root * \(root)
      file_server
    }
    """
  }

  private func h2o(_ host: String, _ tls: TestAuthority.Files?) -> String {
    let security = tls.map { "\n  ssl:\n    certificate-file: \($0.certificate)\n    key-file: \($0.key)" } ?? ""
    return """
      \(geteuid() == 0 ? "user: www-data" : "")
      pid-file: \(folder)/tmp/pid
      error-log: \(folder)/error.log
      num-threads: 1
      listen:
        host: \(host)
        port: \(port)\(security)
      hosts:
        "default":
          paths:
            "/":
              file.dir: \(root)
      """
  }
}
