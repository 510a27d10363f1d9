import CurlEngine
import Foundation
import Glibc
import Testing
import TransferCore

extension EngineTests {
  @Suite struct Uploads {
    let bytes = pattern(3_000_000)

    @Test func anUploadFromAFilesystemThatCanHangIsReadByTheWorker() throws {
      let bytes = bytes
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        let isSame = peer.readBody(bytes.count) == bytes
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\(isSame ? "same" : "diff")")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let (source, body) = rig.source(bytes, isLocal: false)
      let outcome = rig.run(
        rig.order(server.url + "/", method: "PUT", body: .file(source)), part: rig.part(isLocal: false), body: body)
      #expect(outcome.summary?.held == 4)
      #expect(outcome.facts?.sent == 3_000_000)
      #expect(outcome.facts?.source == .unchanged)
      #expect(String(decoding: rig.content(), as: UTF8.self) == "same")
      #expect(rig.worker.callCount >= 5)
    }

    @Test func anEmptySourceIsSentAsOne() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 0\n\n")
      let rig = try EngineRig()
      let (source, body) = rig.source([])
      let outcome = rig.run(
        rig.order(server.url + "/", method: "PUT", body: .file(source)), part: rig.part(), body: body)
      #expect(outcome.summary?.held == 0)
      #expect(server.head.contains("Content-Length: 0"))
    }

    @Test(arguments: [true, false]) func anEarlyAnswerIsTheAnswer(closes: Bool) throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        if !closes { peer.waitForEnd() }
      }
      let rig = try EngineRig()
      let bytes = pattern(8_000_000)
      for _ in 0..<10 {
        let (source, body) = rig.source(bytes)
        let outcome = rig.run(
          rig.order(server.url + "/", method: "POST", rule: .any, body: .file(source), fresh: true), part: rig.part(),
          body: body)
        #expect(outcome.head?.status == 413)
        #expect(outcome.summary?.held == 3)
        guard outcome.summary != nil else { break }
      }
    }

    @Test(arguments: [true, false]) func aSourceThatGotShorterFails(isLocal: Bool) throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      // Larger than what the sockets' buffers and a read ahead hold, so that the cut comes in the middle.
      let (source, body) = rig.source(pattern(30_000_000), isLocal: isLocal)
      let order = rig.order(server.url + "/", method: "PUT", body: .file(source))
      rig.engine.start(order, part: rig.part(), body: body)
      rig.turn { $0.events.contains { if case .progressed(_, _, let sent) = $0 { sent > 0 } else { false } } }
      unsafe truncate(rig.path("source"), 1000)
      let outcome = rig.outcome(of: order.attempt)
      #expect(outcome.failure?.code == .sourceChanged)
      #expect(outcome.facts?.source == .changed)
      #expect(outcome.facts?.requestWasSent == true)
    }

    @Test(arguments: [true, false]) func aSourceThatChangedBeforeIsNotSent(isLocal: Bool) throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 0\n\n")
      let rig = try EngineRig()
      var (source, body) = rig.source(bytes, isLocal: isLocal)
      source.identity.modifiedNanoseconds += 1
      let outcome = rig.run(
        rig.order(server.url + "/", method: "PUT", body: .file(source)), part: rig.part(), body: body)
      #expect(outcome.failure?.code == .sourceChanged)
      #expect(outcome.facts == AttemptFacts(requestWasSent: false, sent: 0, received: 0, source: .changed))
      #expect(server.connectionCount == 0)
    }

    @Test func aSourceThatChangedMeanwhileFailsThoughTheServerTookIt() throws {
      let rig = try EngineRig()
      let (source, body) = rig.source(Array("hello".utf8))
      let path = source.path
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        _ = peer.readBody(5)
        let handle = FileHandle(forWritingAtPath: path)
        try? handle?.write(contentsOf: Array("HELLO".utf8))
        try? handle?.close()
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        peer.waitForEnd()
      }
      let outcome = rig.run(
        rig.order(server.url + "/", method: "PUT", body: .file(source)), part: rig.part(), body: body)
      #expect(outcome.failure?.code == .sourceChanged)
      #expect(outcome.facts?.source == .changed)
    }

    @Test func aDeletedSourceIsSentAllTheSame() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 0\n\n", closes: true)
      let rig = try EngineRig()
      let (source, body) = rig.source(Array("hello".utf8))
      unsafe unlink(source.path)
      let outcome = rig.run(
        rig.order(server.url + "/", method: "PUT", body: .file(source), fresh: true), part: rig.part(), body: body)
      #expect(outcome.summary?.held == 0)
    }

    /// libcurl sent a POST twice when a reused connection closed without an answer.
    @Test func aPostIsNeverSentTwice() throws {
      let served = HeadBox()
      let server = ScriptedServer { peer in
        guard let first = peer.readHead() else { return }
        if first.hasPrefix("GET") {
          peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
          guard peer.readHead() != nil else { return }
        }
        served.set(served.get() + "POST ")
      }
      let rig = try EngineRig()
      #expect(rig.run(rig.order(server.url + "/"), part: rig.part()).summary != nil)
      let (source, body) = rig.source(Array("hello".utf8))
      let outcome = rig.run(
        rig.order(server.url + "/", method: "POST", body: .file(source), fresh: true), part: rig.part(), body: body)
      #expect(outcome.failure?.code == .connectionLost)
      #expect(outcome.facts?.requestWasSent == true)
      #expect(served.get() == "POST ")
    }

    @Test func aRedirectedUploadEndsEarly() throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 308 Permanent Redirect\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let (source, body) = rig.source(pattern(20_000_000))
      let outcome = rig.run(
        rig.order(server.url + "/", method: "PUT", body: .file(source)), part: rig.part(), body: body)
      #expect(outcome.end == .redirected(location: server.url + "/there"))
    }
  }
}
