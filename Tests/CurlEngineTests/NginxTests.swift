import CurlEngine
import Foundation
import Glibc
import LoopbackServer
import Testing
import TransferCore

/// nginx with TLS and HTTP/2, under an authority of our own.
final class Nginx {
  static let path = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"].first { (path: String) in
    FileManager.default.isExecutableFile(atPath: path)
  }

  let folder: URL
  private let reserved: ReservedPort
  var port: UInt16 { reserved.number }
  private let process = Process()
  var url: String { "https://localhost:\(port)" }
  var authority: String { folder.appendingPathComponent("ca.pem").path }

  init(files: [String: [UInt8]]) throws {
    reserved = try ReservedPort()
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-nginx-\(UUID().uuidString)")
    let root = folder.appendingPathComponent("root")
    try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
    // The workers run as another user.
    for path in [folder.path, root.path] { unsafe chmod(path, 0o755) }
    for (name, bytes) in files { try Data(bytes).write(to: root.appendingPathComponent(name)) }
    try Self.makeCertificates(folder)
    try configuration.write(to: folder.appendingPathComponent("nginx.conf"), atomically: true, encoding: .utf8)
    process.executableURL = URL(fileURLWithPath: Self.path ?? "")
    process.arguments = ["-p", folder.path, "-c", folder.appendingPathComponent("nginx.conf").path]
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
  }

  private var configuration: String {
    """
    daemon off; worker_processes 1; pid \(folder.path)/pid; error_log \(folder.path)/error.log;
    events { worker_connections 256; }
    http {
      access_log off; sendfile on; client_max_body_size 1m;
      client_body_temp_path \(folder.path)/b; proxy_temp_path \(folder.path)/p; fastcgi_temp_path \(folder.path)/f;
      uwsgi_temp_path \(folder.path)/u; scgi_temp_path \(folder.path)/s;
      server {
        listen 127.0.0.1:\(port) ssl http2 reuseport; server_name localhost;
        ssl_certificate \(folder.path)/server.pem; ssl_certificate_key \(folder.path)/server.key;
        root \(folder.path)/root;
        location /slow/ { alias \(folder.path)/root/; limit_rate 100k; }
        location /moved { return 302 /file; }
        location /busy { return 503; }
      }
    }
    """
  }

  private static func makeCertificates(_ folder: URL) throws {
    let script = """
      openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ca.key -out ca.pem -days 2 \
        -subj /CN=ferry-test
      openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout server.key -out server.csr \
        -subj /CN=localhost
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
  }

  deinit {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
  }
}

extension EngineTests {
  @Suite(.enabled(if: Nginx.path != nil)) struct UnderTLS {
    /// Waits until the server answers.
    static func rig(_ nginx: Nginx) throws -> (EngineRig, NetworkSettings) {
      let rig = try EngineRig()
      let network = NetworkSettings(certificateFile: nginx.authority)
      let end = Date().addingTimeInterval(10)
      while rig.run(rig.order(nginx.url + "/small", network: network), part: rig.part()).summary == nil, Date() < end {
        rig.turn(seconds: 0.05) { _ in false }
      }
      rig.events = []
      return (rig, network)
    }

    @Test func bodiesComeOverHTTP2AndContinue() throws {
      let bytes = pattern(12_000_000)
      let nginx = try Nginx(files: ["file": bytes, "small": [1, 2, 3]])
      let (rig, network) = try Self.rig(nginx)
      let whole = rig.run(rig.order(nginx.url + "/file", network: network), part: rig.part())
      #expect(whole.head?.httpVersion == "2")
      #expect(whole.end == .complete(TransferSummary(held: 12_000_000, isLengthVerified: true)))
      let isSame = rig.content() == bytes
      #expect(isSame)
      let tag = try #require(whole.head?.validator)
      let point = ResumePoint(validator: tag, offset: 5_000_000, total: 12_000_000)
      let rest = rig.run(
        rig.order(nginx.url + "/file", resume: point, network: network),
        part: rig.part(holding: Array(bytes[..<5_000_000])))
      #expect(rest.verdict == .continueAt(5_000_000))
      let isSameAgain = rig.content() == bytes
      #expect(isSameAgain)
      let moved = rig.run(rig.order(nginx.url + "/moved", network: network), part: rig.part())
      #expect(moved.end == .redirected(location: nginx.url + "/file"))
    }

    @Test func manyTransfersShareAConnectionWhileOneIsPaused() throws {
      let bytes = pattern(300_000)
      let nginx = try Nginx(files: ["file": bytes, "large": pattern(30_000_000), "small": [1, 2, 3]])
      let (rig, network) = try Self.rig(nginx)
      let paused = rig.order(nginx.url + "/large", sink: .client, network: network, timeout: .seconds(2))
      rig.engine.start(paused, part: nil, body: nil)
      rig.turn { $0.events.contains { if case .received = $0 { true } else { false } } }
      rig.engine.pause(paused.attempt)
      let orders = (0..<40).map { _ in rig.order(nginx.url + "/file", network: network) }
      for (index, order) in orders.enumerated() {
        rig.engine.start(order, part: rig.part("part\(index)"), body: nil)
      }
      for order in orders { #expect(rig.outcome(of: order.attempt).summary?.held == 300_000) }
      rig.turn(seconds: 2.5) { _ in false }
      let early = Outcome(rig.events.filter { $0.attempt == paused.attempt })
      #expect(early.end == nil)
      #expect(early.received.count < 20_000_000)
      rig.engine.unpause(paused.attempt)
      let outcome = rig.outcome(of: paused.attempt)
      #expect(outcome.received.count == 30_000_000)
    }

    /// A handle that was a stream among others serves again.
    @Test func handlesOfASharedConnectionServeAgain() throws {
      let nginx = try Nginx(files: ["file": pattern(300_000), "small": [1, 2, 3]])
      let (rig, network) = try Self.rig(nginx)
      for round in 0..<4 {
        let orders = (0..<24).map { _ in rig.order(nginx.url + "/file", network: network) }
        for (index, order) in orders.enumerated() {
          rig.engine.start(order, part: rig.part("part\(round)-\(index)"), body: nil)
        }
        for order in orders {
          let outcome = rig.outcome(of: order.attempt)
          #expect(outcome.summary?.held == 300_000, "\(String(describing: outcome.failure))")
        }
      }
    }

    @Test func anUploadThatIsTooLargeGetsItsAnswer() throws {
      let nginx = try Nginx(files: ["small": [1, 2, 3]])
      let (rig, network) = try Self.rig(nginx)
      let (source, body) = rig.source(pattern(8_000_000))
      let outcome = rig.run(
        rig.order(
          nginx.url + "/file", method: "POST", rule: .any, body: .file(source), network: network, fresh: true),
        part: rig.part(), body: body)
      #expect(outcome.head?.status == 413)
      #expect(outcome.summary != nil)
    }

    @Test func anAuthorityThatIsNotOursIsNotTrusted() throws {
      let nginx = try Nginx(files: ["small": [1, 2, 3]])
      let (rig, network) = try Self.rig(nginx)
      let stranger = rig.run(rig.order(nginx.url + "/small"), part: rig.part())
      #expect(stranger.failure?.code == .certificateUntrusted)
      #expect(stranger.failure?.retryability == .permanent)
      #expect(stranger.facts?.requestWasSent == false)
      // The certificate is for "localhost" only.
      let misnamed = rig.run(
        rig.order("https://127.0.0.1:\(nginx.port)/small", network: network), part: rig.part())
      #expect(misnamed.failure?.code == .certificateUntrusted)
      #expect(misnamed.failure?.detail.contains("not for this host") == true)
      let missing = NetworkSettings(certificateFile: "/nowhere.pem")
      let unread = rig.run(rig.order(nginx.url + "/small", network: missing, fresh: true), part: rig.part())
      #expect(unread.failure?.code == .certificateUntrusted)
    }

    /// How a body without a length ends on a TLS server of a few lines of Python.
    enum Ending: String, CaseIterable {
      case goodbye, cut, streamEnd, streamCut, streamGoodbye, streamReset, streamResetWithoutError
    }

    static let server = """
      import ssl,socket,sys
      how=sys.argv[1]; h2=how.startswith('stream')
      c=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain('server.pem','server.key')
      c.set_alpn_protocols(['h2' if h2 else 'http/1.1'])
      s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(); print(s.getsockname()[1],flush=True)
      p,_=s.accept(); t=c.wrap_socket(p,server_side=True)
      def frame(kind,flags,stream,body):
        return len(body).to_bytes(3,'big')+bytes([kind,flags])+stream.to_bytes(4,'big')+body
      if h2:
        seen=b''
        t.sendall(frame(4,0,0,b''))
        while b'\\x00\\x00\\x00\\x01' not in seen[24:] or len(seen)<100: seen+=t.recv(65536)
        t.sendall(frame(4,1,0,b'')+frame(1,4,1,bytes([0x88]))+frame(0,1 if how=='streamEnd' else 0,1,b'hello'))
        if how=='streamReset': t.sendall(frame(3,0,1,(2).to_bytes(4,'big')))
        if how=='streamResetWithoutError': t.sendall(frame(3,0,1,(0).to_bytes(4,'big')))
      else:
        t.recv(65536); t.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\nhello')
      if how in ('goodbye','streamGoodbye'): t.unwrap()
      elif how in ('cut','streamCut'): socket.close(t.detach())
      else:
        try: t.settimeout(10); t.recv(65536); t.recv(65536)
        except OSError: pass
      """

    /// A close of the connection without TLS's own word for it may be an attacker's cut.
    @Test(arguments: Ending.allCases) func onlyACleanEndIsOne(ending: Ending) throws {
      let nginx = try Nginx(files: [:])
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
      process.arguments = ["python3", "-c", Self.server, ending.rawValue]
      process.currentDirectoryURL = nginx.folder
      let pipe = Pipe()
      process.standardOutput = pipe
      process.standardError = FileHandle.nullDevice
      try process.run()
      let line = String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self)
      let port = try #require(line.split(separator: "\n").first)
      let rig = try EngineRig()
      let outcome = rig.run(
        rig.order("https://localhost:\(port)/", network: NetworkSettings(certificateFile: nginx.authority)),
        part: rig.part())
      rig.engine.close()
      process.terminate()
      process.waitUntilExit()
      switch ending {
      case .goodbye, .streamEnd, .streamResetWithoutError:
        #expect(outcome.end == .complete(TransferSummary(held: 5, isLengthVerified: false)))
      case .cut, .streamCut, .streamGoodbye, .streamReset:
        #expect(outcome.failure?.code == .connectionLost)
        #expect(outcome.failure?.retryability == .transient)
      }
      #expect(rig.content() == Array("hello".utf8))
    }

    @Test func plainHTTPIsNoTLS() throws {
      let rig = try EngineRig()
      // The greeting of TLS holds no blank line: answer whatever comes.
      let talker = ScriptedServer { peer in
        _ = peer.readBody(10)
        peer.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        peer.waitForEnd()
      }
      let outcome = rig.run(
        rig.order("https://127.0.0.1:\(talker.port)/"), part: rig.part())
      #expect(outcome.failure?.code == .secureConnectionFailed)
      #expect(outcome.failure?.retryability == .permanent)
      let cutter = ScriptedServer { peer in
        _ = peer.readBody(10)
        peer.reset()
      }
      let second = rig.run(rig.order("https://127.0.0.1:\(cutter.port)/"), part: rig.part())
      #expect(second.failure?.code == .secureConnectionFailed)
      #expect(second.failure?.retryability == .transient)
    }
  }
}
