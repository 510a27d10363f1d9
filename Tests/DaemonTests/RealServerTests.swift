import Foundation
import Glibc
import LinuxSystem
import Testing
import TransferCore
import WireProtocol

/// Against servers that others wrote: nginx over HTTP/1.1, TLS and HTTP/2, with a certificate authority made for the
/// test; and what real proxies and TLS peers do that the loopback server cannot.
///
/// `FERRY_BIG_BYTES` sets the size of the big file (200 MB where it is not set).
@Suite(
  .serialized, .timeLimit(.minutes(10)),
  .enabled(if: RealServer.isInstalled, "nginx and openssl are not installed; scripts/test installs them"))
struct RealServerTests {
  private static func scene(_ server: RealServer, trusted: Bool = true) throws -> Scene {
    try Scene(network: WireNetwork(certificateFile: trusted ? server.authority : nil))
  }

  @Test func aFileComesOverTLSAndHTTP2() throws {
    let server = try RealServer()
    let original = try server.makeFile("file", bytes: 3_000_000)
    let scene = try Self.scene(server)
    let expected = try RealServer.digest(original)
    let id = try scene.get(server.secure("/file")) { $0.sha256 = expected }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(task.response?.httpVersion == "2")
    #expect(task.validator?.hasPrefix("\"") == true)
    #expect(try RealServer.areSame(original, scene.path("result")))
    #expect(try server.accesses.map(\.protocol) == ["HTTP/2.0"])
  }

  @Test func anAuthorityThatNobodyTrustsEndsTheTask() throws {
    let server = try RealServer()
    _ = try server.makeFile("file", bytes: 1000)
    let scene = try Self.scene(server, trusted: false)
    let task = try scene.ended(try scene.get(server.secure("/file")))
    #expect(task.state == "failed")
    #expect(task.error?.code == "certificateUntrusted")
    #expect(task.error?.isTransient == false)
    #expect(task.attempts == 1)
    #expect(try server.accesses.isEmpty)
  }

  @Test func aCertificateOfAnotherHostEndsTheTask() throws {
    let server = try RealServer()
    _ = try server.makeFile("file", bytes: 1000)
    let scene = try Self.scene(server)
    let url = server.secure("/file").replacing("localhost", with: "127.0.0.1")
    let task = try scene.ended(try scene.get(url))
    #expect(task.error?.code == "certificateUntrusted", "\(Scene.text(task))")
    #expect(task.error?.isTransient == false)
    #expect(try server.accesses.isEmpty)
  }

  @Test func aRedirectFromTLSToPlainIsNotFollowed() throws {
    let server = try RealServer()
    _ = try server.makeFile("file", bytes: 1000)
    let scene = try Self.scene(server)
    let task = try scene.ended(try scene.get(server.secure("/down")))
    #expect(task.state == "failed")
    #expect(task.error?.code == "redirectForbidden")
    #expect(try server.accesses.map(\.path) == ["/down"])
    // The other way round is fine.
    let up = try scene.ended(try scene.get(server.plain("/up"), to: "up"))
    #expect(up.state == "succeeded", "\(Scene.text(up))")
    #expect(up.currentURL == server.secure("/file"))
  }

  @Test(arguments: [true, false])
  func aKilledDaemonContinuesByRange(isSecure: Bool) throws {
    let server = try RealServer()
    let length = 12_000_000
    let original = try server.makeFile("slow/file", bytes: length)
    let scene = try Self.scene(server)
    let id = try scene.get(isSecure ? server.secure("/slow/file") : server.plain("/slow/file"))
    try scene.wait(id, for: "2,000,000 bytes") { $0.received > 2_000_000 }
    scene.close()
    try scene.end(SIGKILL)
    let held = try Files.identity(path: scene.path(".ferry-\(id).part")).sizeBytes
    try scene.start()
    let task = try scene.ended(id, seconds: 60)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try RealServer.areSame(original, scene.path("result")))
    let accesses = try server.accesses
    // nginx writes a line when a request has ended, so the order is not that of the beginnings.
    #expect(accesses.contains { $0.status == 206 && $0.range == "bytes=\(held)-" }, "\(accesses)")
    #expect(task.response?.status == 206)
  }

  @Test(arguments: [true, false])
  func aHundredSmallFilesShareFewConnections(isSecure: Bool) throws {
    let server = try RealServer()
    for index in 0..<100 { _ = try server.makeFile("small\(index)", bytes: 1000 + index) }
    let scene = try Self.scene(server)
    let ids = try scene.getAtOnce(
      (0..<100).map { (isSecure ? server.secure("/small\($0)") : server.plain("/small\($0)"), "file\($0)") })
    for (index, id) in ids.enumerated() {
      let task = try scene.ended(id)
      #expect(task.state == "succeeded", "\(Scene.text(task))")
      #expect(try RealServer.areSame(server.file("small\(index)"), scene.path("file\(index)")))
    }
    let accesses = try server.accesses
    #expect(accesses.count == 100)
    #expect(Set(accesses.map(\.connection)).count <= (isSecure ? 2 : 12), "\(Set(accesses.map(\.connection)))")
    try scene.waitForNames((0..<100).map { "file\($0)" }.sorted())
  }

  @Test func aBigFileComesWithFlatMemory() throws {
    let length = Int(ProcessInfo.processInfo.environment["FERRY_BIG_BYTES"] ?? "") ?? 200_000_000
    let server = try RealServer(under: ProcessInfo.processInfo.environment["FERRY_BIG_FOLDER"] ?? "/tmp")
    let original = try server.makeFile("big", bytes: length)
    let scene = try Self.scene(server)
    let id = try scene.get(server.plain("/big")) { $0.destination = "\(server.folder)/result" }
    let task = try scene.ended(id, seconds: 400)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try RealServer.areSame(original, "\(server.folder)/result"))
    #expect(try Memory.peakKilobytes(scene.processID) < 60_000)
  }

  /// Row 7: without close_notify nobody can tell that a body without a length is whole (RFC 8446 section 6.1).
  @Test func aTLSConnectionThatBreaksOffIsNoEnd() throws {
    let server = try RealServer()
    let peer = try ScriptedPeer(
      """
      import socket, ssl, sys
      context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
      context.load_cert_chain(sys.argv[1], sys.argv[2])
      listener = socket.create_server(("127.0.0.1", 0))
      print(listener.getsockname()[1], flush=True)
      count = 0
      while True:
        plain, _ = listener.accept()
        count += 1
        try:
          secure = context.wrap_socket(plain, server_side=True)
          secure.recv(65536)
          secure.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n")
          secure.sendall(b"half" if count == 1 else b"the whole")
          if count == 1:
            socket.socket(fileno=secure.detach()).close()
          else:
            secure.unwrap()
            secure.close()
        except OSError as error:
          print(error, file=sys.stderr)
      """, [server.certificate, server.key])
    let scene = try Self.scene(server)
    let task = try scene.ended(try scene.get("https://localhost:\(peer.port)/file"))
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(task.attempts == 2)
    #expect(task.isLengthVerified == false)
    #expect(try scene.bytes("result") == Array("the whole".utf8))
  }

  /// Row 50: https goes through the proxy's CONNECT, and no header of the request is shown to it.
  @Test func aProxyTunnelsTLSAndSeesNoSecret() throws {
    let server = try RealServer()
    let original = try server.makeFile("file", bytes: 300_000)
    let proxy = try ScriptedPeer(ScriptedPeer.tunnel, [])
    let scene = try Scene(
      network: WireNetwork(httpsProxy: "http://127.0.0.1:\(proxy.port)", certificateFile: server.authority))
    let id = try scene.get(server.secure("/file")) {
      $0.headers = [WireHeader(name: "Authorization", value: "Bearer secret")]
    }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(try RealServer.areSame(original, scene.path("result")))
    let head = try #require(proxy.line())
    #expect(head.hasPrefix("CONNECT localhost:\(server.securePort) "), "\(head)")
    #expect(!head.contains("secret"))
  }

  /// Row 50: a proxy that wants a password is an end, with the remedy; one that is gone is waited for.
  @Test func aProxyThatRefusesIsNamed() throws {
    let server = try RealServer()
    let proxy = try ScriptedPeer(ScriptedPeer.refusing, [])
    let scene = try Scene(
      network: WireNetwork(httpsProxy: "http://127.0.0.1:\(proxy.port)", certificateFile: server.authority))
    let task = try scene.ended(try scene.get(server.secure("/file")))
    #expect(task.state == "failed")
    #expect(task.error?.code == "proxyCredentialsRequired")
    #expect(task.error?.detail.contains("407") == true)
  }
}

/// An nginx of our own on two ports that the kernel chose, with a certificate authority of its own.
final class RealServer {
  struct Access: CustomStringConvertible {
    var path: String
    var status: Int
    var range: String
    var `protocol`: String
    var connection: String
    var description: String { "\(path) \(status) \(range)" }
  }

  let folder: String
  let plainPort: UInt16
  let securePort: UInt16
  private var process: Int32 = -1

  static let program = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first(where: Scene.isExecutable)
  static var isInstalled: Bool { program != nil && Scene.isExecutable("/usr/bin/openssl") }

  var authority: String { "\(folder)/authority.pem" }
  var certificate: String { "\(folder)/server.pem" }
  var key: String { "\(folder)/server.key" }
  func plain(_ path: String) -> String { "http://127.0.0.1:\(plainPort)\(path)" }
  func secure(_ path: String) -> String { "https://localhost:\(securePort)\(path)" }
  func file(_ name: String) -> String { "\(folder)/www/\(name)" }

  init(under parent: String = "/tmp") throws {
    folder = "\(parent)/ferry-nginx-\(Clocks.randomWord())"
    try Files.makePrivateDirectory(folder)
    for name in ["www", "www/slow"] { try Files.makePrivateDirectory("\(folder)/\(name)") }
    let ports = [try FreePort(), try FreePort()]
    plainPort = ports[0].number
    securePort = ports[1].number
    do {
      try makeCertificates()
      try start(ports)
    } catch {
      try? FileManager.default.removeItem(atPath: folder)
      throw error
    }
  }

  deinit {
    if process > 0 {
      kill(process, SIGTERM)
      _ = try? ChildProcess.wait(process)
    }
    try? FileManager.default.removeItem(atPath: folder)
  }

  private func makeCertificates() throws {
    func openssl(_ arguments: [String]) throws {
      let outcome = try Tool.run("/usr/bin/openssl", arguments)
      guard outcome.status == 0 else { throw Scene.Trouble("openssl \(arguments): \(outcome.output)") }
    }
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    try openssl(
      ["req", "-x509"] + curve + [
        "-keyout", "\(folder)/authority.key", "-out", authority, "-days", "2", "-subj", "/CN=Ferry's test authority",
      ])
    try openssl(["req"] + curve + ["-keyout", key, "-out", "\(folder)/server.csr", "-subj", "/CN=localhost"])
    try Data("subjectAltName=DNS:localhost".utf8).write(to: URL(filePath: "\(folder)/names"))
    try openssl([
      "x509", "-req", "-in", "\(folder)/server.csr", "-CA", authority, "-CAkey", "\(folder)/authority.key",
      "-CAcreateserial", "-out", certificate, "-days", "2", "-extfile", "\(folder)/names",
    ])
  }

  private func start(_ ports: [FreePort]) throws {
    let configuration = """
      daemon off;
      worker_processes 1;
      \(geteuid() == 0 ? "user root;" : "")
      pid \(folder)/pid;
      error_log \(folder)/error.log;
      events {}
      http {
        log_format ferry '$uri|$status|$http_range|$server_protocol|$connection';
        access_log \(folder)/access.log ferry;
        client_body_temp_path \(folder)/body;
        proxy_temp_path \(folder)/proxy;
        fastcgi_temp_path \(folder)/fastcgi;
        uwsgi_temp_path \(folder)/uwsgi;
        scgi_temp_path \(folder)/scgi;
        sendfile on;
        root \(folder)/www;
        server {
          listen 127.0.0.1:\(plainPort);
          location /slow/ { limit_rate 4m; }
          location = /up { return 302 https://localhost:\(securePort)/file; }
        }
        server {
          listen 127.0.0.1:\(securePort) ssl http2;
          ssl_certificate \(certificate);
          ssl_certificate_key \(key);
          location /slow/ { limit_rate 4m; }
          location = /down { return 302 http://127.0.0.1:\(plainPort)/file; }
        }
      }
      """
    try Data(configuration.utf8).write(to: URL(filePath: "\(folder)/nginx.conf"))
    for port in ports { port.release() }
    let program = Self.program ?? "nginx"
    process = try ChildProcess.spawn(
      path: program, arguments: [program, "-c", "\(folder)/nginx.conf", "-e", "\(folder)/error.log"],
      environment: ["PATH": "/usr/bin:/bin"], newSession: true)
    let deadline = BootInstant.now() + .seconds(20)
    while !FreePort.answers(plainPort) || !FreePort.answers(securePort) {
      let errors = (try? readText("\(folder)/error.log")) ?? ""
      guard BootInstant.now() < deadline, try ChildProcess.reap(process) == nil else {
        throw Scene.Trouble("nginx did not start: \(errors)")
      }
    }
  }

  /// The requests that have ended, in the order of their ends.
  var accesses: [Access] {
    get throws {
      try readText("\(folder)/access.log").split(separator: "\n").map { line in
        let words = line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
        return Access(
          path: words[0], status: Int(words[1]) ?? 0, range: words[2], protocol: words[3], connection: words[4])
      }
    }
  }

  /// A file whose every block differs from every other.
  func makeFile(_ name: String, bytes: Int) throws -> String {
    let path = file(name)
    let zeros = String(repeating: "0", count: 32)
    let outcome = try Tool.run(
      "/bin/sh",
      [
        "-c",
        "head -c \(bytes) /dev/zero | openssl enc -aes-128-ctr -K \(zeros) -iv \(zeros) > \(path)",
      ])
    guard outcome.status == 0 else { throw Scene.Trouble(outcome.output) }
    return path
  }

  static func areSame(_ one: String, _ other: String) throws -> Bool {
    try Tool.run("/usr/bin/cmp", [one, other]).status == 0
  }

  static func digest(_ path: String) throws -> String {
    String(try Tool.run("/usr/bin/sha256sum", [path]).output.prefix(64))
  }
}

/// A port that the kernel chose, kept until somebody else is about to listen on it.
final class FreePort {
  let number: UInt16
  private var socket: Int32

  init() throws {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var yes: Int32 = 1
    unsafe setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
    var address = Self.loopback(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isBound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe bind(socket, pointer, length) == 0 && getsockname(socket, pointer, &length) == 0
      }
    }
    guard isBound else { throw Scene.Trouble("no port: errno \(errno)") }
    self.socket = socket
    number = UInt16(bigEndian: address.sin_port)
  }

  func release() {
    if socket >= 0 { close(socket) }
    socket = -1
  }

  deinit { release() }

  private static func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = port.bigEndian
    return address
  }

  static func answers(_ port: UInt16) -> Bool {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(socket) }
    var address = loopback(port)
    return unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe connect(socket, pointer, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
  }
}

/// A small server in Python that says its port first, then a line for what it saw.
final class ScriptedPeer {
  private(set) var port: UInt16 = 0
  private let process: Int32
  private let output = Pipe()
  private var heard: [UInt8] = []

  init(_ script: String, _ arguments: [String]) throws {
    process = try ChildProcess.spawn(
      path: "/usr/bin/env", arguments: ["env", "python3", "-c", script] + arguments,
      environment: ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"],
      standardOutput: .descriptor(output.fileHandleForWriting.fileDescriptor), newSession: true)
    try output.fileHandleForWriting.close()
    guard let line = line(), let number = UInt16(line) else { throw Scene.Trouble("the script gave no port") }
    port = number
  }

  deinit {
    kill(process, SIGKILL)
    _ = try? ChildProcess.wait(process)
  }

  /// The next line; nil when none came in ten seconds.
  func line() -> String? {
    let descriptor = output.fileHandleForReading.fileDescriptor
    while true {
      if let end = heard.firstIndex(of: 0x0A) {
        defer { heard.removeFirst(end + 1) }
        return String(decoding: heard[..<end], as: UTF8.self)
      }
      var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
      var part = [UInt8](repeating: 0, count: 4096)
      guard unsafe poll(&entry, 1, 10_000) == 1, case let count = unsafe read(descriptor, &part, part.count), count > 0
      else { return nil }
      heard += part[..<count]
    }
  }

  /// Takes CONNECT for one connection after another, says its head in one line, and passes bytes on both ways.
  static let tunnel = """
    import select, socket
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
      client, _ = listener.accept()
      head = b""
      while b"\\r\\n\\r\\n" not in head:
        head += client.recv(1)
      print(head.decode().replace("\\r\\n", " | "), flush=True)
      host, port = head.split()[1].decode().rsplit(":", 1)
      server = socket.create_connection((host, int(port)))
      client.sendall(b"HTTP/1.1 200 Connection established\\r\\n\\r\\n")
      ways = {client: server, server: client}
      isOpen = True
      while isOpen:
        for ready in select.select(list(ways), [], [])[0]:
          data = ready.recv(65536)
          if not data:
            isOpen = False
            break
          ways[ready].sendall(data)
      client.close()
      server.close()
    """

  static let refusing = """
    import socket
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
      client, _ = listener.accept()
      client.recv(65536)
      client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\\r\\nProxy-Authenticate: Basic realm=x\\r\\n")
      client.sendall(b"Content-Length: 0\\r\\n\\r\\n")
      client.close()
    """
}
