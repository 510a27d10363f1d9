import CurlEngine
import Glibc
import Synchronization
import Testing
import TransferCore

/// A server that answers every request with the same bytes, keeps the last request's head, and then waits or closes.
final class FixedServer: Sendable {
  private let server: Mutex<ScriptedServer?> = Mutex(nil)
  let url: String

  init(_ answer: [UInt8], closes: Bool = false, resets: Bool = false) {
    let box = HeadBox()
    let server = ScriptedServer { peer in
      while let head = peer.readHead() {
        box.set(head)
        peer.send(answer)
        if resets { return peer.reset() }
        if closes { return }
      }
    }
    self.box = box
    url = server.url
    self.server.withLock { $0 = server }
  }

  private let box: HeadBox
  var head: String { box.get() }
  var connectionCount: Int { server.withLock { $0?.connectionCount ?? 0 } }

  convenience init(_ text: String, _ body: [UInt8] = [], closes: Bool = false, resets: Bool = false) {
    self.init(
      Array(text.replacing("\n", with: "\r\n").utf8) + body, closes: closes, resets: resets)
  }
}

final class HeadBox: Sendable {
  private let head = Mutex<String>("")
  func set(_ text: String) { head.withLock { $0 = text } }
  func get() -> String { head.withLock { $0 } }
}

extension EngineTests {
  @Suite struct Verdicts {
    let bytes = pattern(100_000)
    var held: [UInt8] { Array(bytes[..<40_000]) }
    let point = ResumePoint(validator: .entityTag("\"a\""), offset: 40_000, total: 100_000)

    @Test func aPartContinuesWhatIsHeld() throws {
      let server = FixedServer(
        "HTTP/1.1 206 Partial Content\nContent-Range: bytes 40000-99999/100000\nContent-Length: 60000\nETag: \"a\"\n\n",
        Array(bytes[40_000...]))
      let rig = try EngineRig()
      // More is held than was proven durable: the rest is cut off, not written over.
      let part = rig.part(holding: held + pattern(5000, seed: 9))
      let outcome = rig.run(rig.order(server.url + "/", resume: point), part: part)
      #expect(outcome.verdict == .continueAt(40_000))
      #expect(outcome.end == .complete(TransferSummary(held: 100_000, isLengthVerified: true)))
      let isSame1 = rig.content() == bytes
      #expect(isSame1)
      #expect(server.head.contains("Range: bytes=40000-\r\n"))
      #expect(server.head.contains("If-Range: \"a\""))
      #expect(server.head.contains("User-Agent: ferry/0.1"))
      #expect(!server.head.contains("Accept"))
    }

    @Test func aWholeAnswerToAResumptionReplacesWhatIsHeld() throws {
      let fresh = pattern(70_000, seed: 5)
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 70000\nETag: \"b\"\n\n", fresh)
      let rig = try EngineRig()
      let order = rig.order(server.url + "/", resume: point)
      rig.engine.start(order, part: rig.part(holding: bytes), body: nil)
      rig.turn { !$0.events.isEmpty }
      #expect(Outcome(rig.events).verdict == .takeWhole)
      // The old bytes are gone, and no new one comes before the row has forgotten the old.
      #expect(rig.content().isEmpty)
      rig.turn(seconds: 0.3) { _ in false }
      #expect(rig.content().isEmpty)
      rig.engine.releaseBody(order.attempt)
      let outcome = rig.outcome(of: order.attempt)
      #expect(outcome.end == .complete(TransferSummary(held: 70_000, isLengthVerified: true)))
      let isSame2 = rig.content() == fresh
      #expect(isSame2)
    }

    /// A row with the new validator must not meet the old bytes, so the verdict waits for the cut.
    @Test func theVerdictWaitsForAWorkersCut() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
      let worker = TestWorker()
      let rig = try EngineRig(worker: worker)
      for isResumption in [true, false] {
        worker.hold()
        let order = rig.order(server.url + "/", resume: isResumption ? point : nil)
        rig.engine.start(order, part: rig.part(holding: bytes, isLocal: false), body: nil)
        #expect(rig.turn { _ in worker.waitingCount > 0 })
        rig.turn(seconds: 0.3) { _ in false }
        #expect(rig.events.filter { $0.attempt == order.attempt }.isEmpty)
        worker.release()
        rig.turn { $0.events.contains { $0.attempt == order.attempt } }
        if isResumption {
          rig.turn(seconds: 0.3) { _ in false }
          #expect(rig.content().isEmpty)
          rig.engine.releaseBody(order.attempt)
        }
        let outcome = rig.outcome(of: order.attempt)
        #expect(outcome.isOrdered)
        #expect(outcome.summary?.held == 5)
        #expect(rig.content() == Array("hello".utf8))
      }
    }

    @Test func anEmptyWholeAnswerCutsWhatIsHeld() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 0\n\n")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", resume: point), part: rig.part(holding: held))
      #expect(outcome.end == .complete(TransferSummary(held: 0, isLengthVerified: true)))
      #expect(rig.content().isEmpty)
    }

    @Test func whatIsHeldMustReachTheOffset() throws {
      let server = FixedServer(
        "HTTP/1.1 206 Partial Content\nContent-Range: bytes 40000-99999/100000\nContent-Length: 60000\nETag: \"a\"\n\n",
        Array(bytes[40_000...]))
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", resume: point), part: rig.part(holding: [1, 2, 3]))
      #expect(outcome.failure?.code == .partFileLost)
      #expect(rig.content() == [1, 2, 3])
    }

    @Test(arguments: [
      "HTTP/1.1 206 Partial Content\nContent-Range: bytes 0-99999/100000\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 206 Partial Content\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 412 Precondition Failed\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 416 Range Not Satisfiable\nContent-Range: bytes */100000\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 416 Range Not Satisfiable\nContent-Range: bytes */40000\nETag: \"a\"\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 401 Unauthorized\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 503 Busy\nRetry-After: 7\nContent-Length: 5\n\nwrong",
      "HTTP/1.1 503 Busy\nTransfer-Encoding: chunked\n\n5\nwrong\n0\n\n",
      "HTTP/1.1 404 Not Found\nContent-Length: 5\n\nwrong",
    ])
    func anAnswerOfNoUseLeavesWhatIsHeld(answer: String) throws {
      let server = FixedServer(answer)
      let rig = try EngineRig()
      var point = point
      if answer.contains("*/40000") { point.total = nil }
      let outcome = rig.run(rig.order(server.url + "/", resume: point), part: rig.part(holding: held))
      if answer.contains("0-99999") {
        // Content-Range and Content-Length contradict each other.
        #expect(outcome.failure?.code == .badServerResponse)
      } else {
        #expect(outcome.end == .discarded)
        #expect(outcome.verdict != nil)
      }
      if answer.contains("*/40000") { #expect(outcome.verdict == .alreadyComplete) }
      let isSame3 = rig.content() == held
      #expect(isSame3)
      #expect(outcome.isOrdered)
      // A small body is read to its end, so that the connection serves the next attempt.
      guard outcome.end == .discarded else { return }
      _ = rig.run(rig.order(server.url + "/", resume: point), part: rig.part("other", holding: held))
      #expect(server.connectionCount == 1)
    }

    @Test func aLargeBodyOfNoUseIsNotRead() throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 503 Busy\r\nContent-Length: 100000000\r\n\r\n")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part(), seconds: 5)
      #expect(outcome.end == .discarded)
    }

    @Test func aSlowBodyOfNoUseIsGivenUp() throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 100\r\n\r\nx")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part(), seconds: 10)
      #expect(outcome.end == .redirected(location: server.url + "/there"))
    }

    @Test(arguments: [
      ("/b?c#d", "/b?c#d"), ("b", "/x/b"), ("../b c", "/b%20c"), ("//other.example/p", "http://other.example/p"),
      ("https://other.example:8443/p", "https://other.example:8443/p"),
      ("ftp://other.example/p", "ftp://other.example/p"),
    ])
    func aRedirectGivesItsTarget(location: String, target: String) throws {
      let server = FixedServer("HTTP/1.1 307 Temporary Redirect\nLocation: \(location)\nContent-Length: 3\n\nabc")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/x/a"), part: rig.part(holding: [7]))
      let wanted = target.hasPrefix("/") ? server.url + target : target
      #expect(outcome.end == .redirected(location: wanted))
      #expect(outcome.verdict == .redirect)
      #expect(rig.content() == [7])
    }

    @Test func interimAnswersAndTrailersAreNotJudged() throws {
      let server = FixedServer(
        """
        HTTP/1.1 103 Early Hints
        Link: </a>

        HTTP/1.1 200 OK
        Transfer-Encoding: chunked
        Trailer: X-End
        X-Folded: one
          two

        5
        hello
        0
        X-End: 1


        """)
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
      #expect(outcome.end == .complete(TransferSummary(held: 5, isLengthVerified: true)))
      #expect(outcome.head?.headers["X-Folded"] == "one two")
      #expect(outcome.head?.headers["Link"] == nil)
      #expect(outcome.head?.headers["X-End"] == nil)
    }

    @Test func everyStatusIsAResultUnderTheRuleAny() throws {
      let server = FixedServer("HTTP/1.1 404 Not Found\nContent-Length: 4\n\ngone")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", rule: .any), part: rig.part())
      #expect(outcome.end == .complete(TransferSummary(held: 4, isLengthVerified: true)))
      #expect(outcome.head?.status == 404)
    }

    @Test func anEncodedBodyIsKeptAsItCame() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Encoding: GZIP\nContent-Length: 4\n\nzzzz")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
      #expect(outcome.summary?.contentEncoding == "gzip")
      #expect(rig.content() == Array("zzzz".utf8))
    }

    @Test func aHeadRequestTakesNoBody() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 400\n\n")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", method: "HEAD"), part: rig.part())
      #expect(outcome.end == .complete(TransferSummary(held: 0, isLengthVerified: true)))
    }

    @Test func aPostWithoutABodySaysSo() throws {
      let server = FixedServer("HTTP/1.1 204 No Content\n\n")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", method: "POST", fresh: true), part: rig.part())
      #expect(outcome.summary?.held == 0)
      #expect(server.head.hasPrefix("POST / HTTP/1.1"))
      #expect(server.head.contains("Content-Length: 0"))
    }
  }
}
