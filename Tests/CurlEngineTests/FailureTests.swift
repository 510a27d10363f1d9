import CurlEngine
import Foundation
import Glibc
import LoopbackServer
import Testing
import TransferCore

extension EngineTests {
  @Suite struct Failures {
    struct Case: Sendable, CustomTestStringConvertible {
      var name: String
      var answer: String
      var code: FailureCode
      var retryability: Retryability
      var kept: String = ""
      var resets = false
      var testDescription: String { name }
    }

    static let cases = [
      Case(
        name: "cut", answer: "HTTP/1.1 200 OK\nContent-Length: 10\n\nhello", code: .connectionLost,
        retryability: .transient, kept: "hello"),
      Case(
        name: "reset", answer: "HTTP/1.1 200 OK\nContent-Length: 10\n\n", code: .connectionLost,
        retryability: .transient, resets: true),
      Case(
        name: "chunks without an end", answer: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nhello\n",
        code: .connectionLost, retryability: .transient, kept: "hello"),
      Case(
        name: "a part longer than its range",
        answer:
          "HTTP/1.1 206 P\nETag: \"a\"\nContent-Range: bytes 0-4/5\nTransfer-Encoding: chunked\n\n7\nhellooo\n0\n\n",
        code: .lengthMismatch, retryability: .transient),
      Case(
        name: "a part shorter than its range",
        answer: "HTTP/1.1 206 P\nETag: \"a\"\nContent-Range: bytes 0-4/5\nTransfer-Encoding: chunked\n\n3\nhel\n0\n\n",
        code: .lengthMismatch, retryability: .transient, kept: "hel"),
      Case(name: "no answer", answer: "", code: .connectionLost, retryability: .transient),
      Case(name: "not HTTP", answer: "SSH-2.0-hello\n", code: .badServerResponse, retryability: .transient),
      Case(
        name: "half a header", answer: "HTTP/1.1 200 OK\nContent-Le", code: .connectionLost, retryability: .transient),
      Case(
        name: "lengths that differ", answer: "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6\n\nhello",
        code: .badServerResponse, retryability: .transient),
      Case(
        name: "a length that is none", answer: "HTTP/1.1 200 OK\nContent-Length: many\n\nhello",
        code: .badServerResponse, retryability: .transient),
      Case(
        name: "too many fields",
        answer: "HTTP/1.1 200 OK\n" + String(repeating: "A: b\n", count: 300) + "Content-Length: 0\n\n",
        code: .badServerResponse, retryability: .permanent),
      Case(
        name: "too many bytes",
        answer: "HTTP/1.1 200 OK\n"
          + (0..<3).map { "A\($0): " + String(repeating: "x", count: 60_000) + "\n" }.joined() + "\n",
        code: .badServerResponse, retryability: .permanent),
      Case(
        name: "a redirect to nowhere", answer: "HTTP/1.1 302 Found\nLocation: http://[bad\nContent-Length: 0\n\n",
        code: .badServerResponse, retryability: .permanent),
      Case(
        name: "an unasked upgrade", answer: "HTTP/1.1 101 Switching Protocols\nUpgrade: x\n\nhello",
        code: .badServerResponse, retryability: .transient),
    ]

    /// libcurl 7.88 then writes into a header of the handle's last answer, which it has freed.
    @Test func anAnswerThatBeginsWithAFoldedLineDoesNoHarm() throws {
      let rig = try EngineRig()
      let server = ScriptedServer { peer in
        let head = peer.readHead() ?? ""
        let first = head.contains("/folded") ? " X-Folded: \(String(repeating: "y", count: 500))" : "X-Plain: z"
        peer.send("HTTP/1.1 200 OK\r\n\(first)\r\nContent-Length: 2\r\n\r\nhi")
      }
      for _ in 0..<10 {
        let plain = rig.run(rig.order(server.url + "/plain"), part: rig.part())
        #expect(plain.summary?.held == 2)
        let folded = rig.run(rig.order(server.url + "/folded"), part: rig.part())
        #expect(folded.end != nil)
      }
    }

    @Test(arguments: cases) func aBrokenAnswerFails(row: Case) throws {
      let server = FixedServer(row.answer, closes: true, resets: row.resets)
      let rig = try EngineRig()
      let resume =
        row.answer.contains(" 206 ") ? ResumePoint(validator: .entityTag("\"a\""), offset: 0, total: 5) : nil
      let outcome = rig.run(rig.order(server.url + "/secret?token=1", resume: resume), part: rig.part())
      #expect(outcome.failure?.code == row.code)
      #expect(outcome.failure?.retryability == row.retryability)
      #expect(String(decoding: rig.content(), as: UTF8.self) == row.kept)
      #expect(outcome.facts?.requestWasSent == true)
      #expect(outcome.failure?.detail.contains("token") == false)
      #expect(outcome.isOrdered)
    }

    @Test func aBodyThatOnlyTheConnectionEndsIsNotVerified() throws {
      let server = FixedServer("HTTP/1.1 200 OK\n\nhello", closes: true)
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
      #expect(outcome.end == .complete(TransferSummary(held: 5, isLengthVerified: false)))
    }

    @Test func bytesBehindTheLengthBelongToNothing() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello and more", closes: true)
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
      #expect(outcome.end == .complete(TransferSummary(held: 5, isLengthVerified: true)))
      #expect(rig.content() == Array("hello".utf8))
    }

    @Test func aRefusedConnectionIsTransient() throws {
      let rig = try EngineRig()
      let outcome = withExtendedLifetime(try ReservedPort()) { free in
        rig.run(rig.order("http://127.0.0.1:\(free.number)/"), part: rig.part())
      }
      #expect(outcome.failure?.code == .connectionRefused)
      #expect(outcome.failure?.retryability == .transient)
      #expect(outcome.facts?.requestWasSent == false)
    }

    @Test func anUnknownHostIsTransient() throws {
      let rig = try EngineRig()
      let outcome = rig.run(rig.order("http://no-such-host.invalid/"), part: rig.part(), seconds: 40)
      #expect(outcome.failure?.code == .hostNotFound)
      #expect(outcome.failure?.retryability == .transient)
    }

    @Test func aProxyThatIsNotThereIsNamed() throws {
      let server = FixedServer("HTTP/1.1 407 Proxy Authentication Required\nContent-Length: 0\n\n", closes: true)
      let rig = try EngineRig()
      let network = NetworkSettings(httpsProxy: server.url)
      let outcome = rig.run(rig.order("https://host.invalid/", network: network), part: rig.part())
      #expect(outcome.failure?.code == .proxyCredentialsRequired)
      #expect(outcome.failure?.retryability == .permanent)
      #expect(outcome.facts?.requestWasSent == false)
      #expect(server.head.hasPrefix("CONNECT host.invalid:443"))
      let lost = NetworkSettings(httpProxy: "http://no-such-proxy.invalid:3128")
      let second = rig.run(rig.order("http://host.invalid/", network: lost), part: rig.part(), seconds: 40)
      #expect(second.failure?.code == .proxyFailed)
    }

    @Test func aProxyOfTheSettingsIsUsed() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 3\n\nvia")
      let rig = try EngineRig()
      let network = NetworkSettings(httpProxy: server.url, noProxy: "127.0.0.1")
      let outcome = rig.run(rig.order("http://host.invalid/x", network: network), part: rig.part())
      #expect(outcome.summary?.held == 3)
      #expect(server.head.hasPrefix("GET http://host.invalid/x HTTP/1.1"))
    }

    @Test(arguments: [
      ("ftp://host/", FailureCode.unsupportedURL), ("http://", .unsupportedURL), ("http://h/a b", .unsupportedURL),
      ("http://h/\u{1}", .unsupportedURL), ("", .unsupportedURL), ("http://[::1/", .unsupportedURL),
    ])
    func aURLThatIsNoneIsRefused(url: String, code: FailureCode) throws {
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(url), part: rig.part())
      #expect(outcome.failure?.code == code)
      #expect(outcome.failure?.retryability == .permanent)
    }

    @Test func aHeaderThatSmugglesIsRefused() throws {
      let rig = try EngineRig()
      let first = rig.run(rig.order("http://127.0.0.1:1/", headers: [("A", "b\r\nC: d")]), part: rig.part())
      #expect(first.failure?.code == .invalidRequest)
      let second = rig.run(rig.order("http://127.0.0.1:1/", headers: [("A b", "c")]), part: rig.part())
      #expect(second.failure?.code == .invalidRequest)
      let third = rig.run(rig.order("http://127.0.0.1:1/", method: "GET / HTTP/1.1\r\nA:"), part: rig.part())
      #expect(third.failure?.code == .invalidRequest)
      #expect(third.failure?.detail.contains("HTTP/1.1") == false)
    }

    @Test func anOrderWithoutItsFilesIsRefused() throws {
      let rig = try EngineRig()
      #expect(rig.run(rig.order("http://127.0.0.1:1/")).failure?.code == .internalFault)
    }

    @Test(arguments: ["", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"])
    func silenceTimesOut(answer: String) throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send(answer)
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", timeout: .seconds(1)), part: rig.part(), seconds: 10)
      #expect(outcome.failure?.code == .timedOut)
      #expect(outcome.failure?.retryability == .transient)
      #expect(rig.content().count == (answer.isEmpty ? 0 : 5))
    }

    @Test func slowProgressDoesNotTimeOut() throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n")
        for _ in 0..<6 {
          usleep(400_000)  // sleep: a slow server
          peer.send("x")
        }
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", timeout: .seconds(1)), part: rig.part())
      #expect(outcome.summary?.held == 6)
    }

    @Test func aFullDiskIsSaidToBeOne() throws {
      // /dev/full answers every write with ENOSPC.
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
      let rig = try EngineRig()
      for isLocal in [true, false] {
        let descriptor = unsafe open("/dev/full", O_WRONLY | O_CLOEXEC)
        let part = PartFile(
          descriptor: descriptor, size: 0, access: FileAccess(isLocal: isLocal, worker: rig.worker))
        let outcome = rig.run(rig.order(server.url + "/"), part: part)
        #expect(outcome.failure?.code == .noSpace)
        #expect(outcome.failure?.domain == "errno")
        #expect(outcome.failure?.number == Int(ENOSPC))
        #expect(outcome.held == 0)
      }
    }
  }
}
