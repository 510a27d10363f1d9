import CurlEngine
import Foundation
import Glibc
import LinuxSystem
import Synchronization
import Testing
import TransferCore

extension EngineTests {
  /// Bodies that leave libcurl's hands (docs/decisions/0008).
  @Suite struct Splicing {
    static let total = 96 << 20
    static let bytes = pattern(total)

    static func head(_ length: Int = total, _ fields: String = "") -> String {
      "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\nETag: \"1\"\r\n\(fields)\r\n"
    }

    /// Serves the body after a head, from the offset that a Range asks for, `count` bytes of it at most.
    static func server(
      limit: Int = total, _ end: @escaping @Sendable (Peer) -> Void = { $0.waitForEnd() }
    )
      -> ScriptedServer
    {
      ScriptedServer { peer in
        guard let request = peer.readHead() else { return }
        if let range = request.split(separator: "\r\n").first(where: { $0.hasPrefix("Range: bytes=") }),
          let start = Int(range.dropFirst("Range: bytes=".count).dropLast())
        {
          peer.send(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes \(start)-\(total - 1)/\(total)\r\n"
              + "Content-Length: \(total - start)\r\nETag: \"1\"\r\n\r\n")
          peer.send(Array(bytes[start...]))
          return peer.waitForEnd()
        }
        peer.send(head())
        peer.send(limit == total ? bytes : Array(bytes[..<limit]))
        end(peer)
      }
    }

    /// Most of the body went past libcurl, and the file holds what was sent.
    static func expectWhole(_ outcome: Outcome, _ rig: EngineRig, spliced: Int = total / 2) {
      #expect(outcome.end == .complete(TransferSummary(held: Int64(total), isLengthVerified: true)))
      #expect(outcome.facts?.received == Int64(total))
      #expect(outcome.isOrdered)
      #expect(rig.engine.splicedBytes >= spliced)
      let isSame = rig.content() == bytes
      #expect(isSame)
    }

    @Test func aLongPlainBodyIsSpliced() throws {
      let server = Self.server()
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
      Self.expectWhole(outcome, rig)
      #expect(outcome.synced == outcome.synced.sorted())
      #expect((outcome.facts?.metrics?.responseEnd ?? 0) > (outcome.facts?.metrics?.responseStart ?? .max))
      #expect(outcome.facts?.metrics?.responseBodyBytes == Int64(Self.total))
    }

    @Test func twoAtOnceDoNotMix() throws {
      let server = Self.server()
      let rig = try EngineRig()
      let orders = [rig.order(server.url + "/1"), rig.order(server.url + "/2")]
      for (index, order) in orders.enumerated() {
        rig.engine.start(order, part: rig.part("part\(index)"), body: nil)
      }
      for (index, order) in orders.enumerated() {
        #expect(rig.outcome(of: order.attempt).summary?.held == Int64(Self.total))
        let isSame = rig.content("part\(index)") == Self.bytes
        #expect(isSame)
      }
      #expect(rig.engine.splicedBytes > Self.total)
    }

    /// What comes after the body is not the body's, and the connection is not used again.
    @Test func bytesBehindTheBodyAreNobodys() throws {
      let server = Self.server { peer in
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      Self.expectWhole(rig.run(rig.order(server.url + "/"), part: rig.part()), rig)
      Self.expectWhole(rig.run(rig.order(server.url + "/"), part: rig.part()), rig)
      #expect(server.connectionCount == 2)
    }

    @Test(arguments: ["closes", "resets"]) func aConnectionThatEndsEarlyIsContinued(how: String) throws {
      let limit = 80 << 20
      let server = Self.server(limit: limit) { $0.endEarly(how) }
      let rig = try EngineRig()
      let first = rig.run(rig.order(server.url + "/"), part: rig.part())
      #expect(first.failure?.code == .connectionLost)
      #expect(first.failure?.retryability == .transient)
      let held = first.held ?? 0
      #expect(held > 0)
      #expect(held <= limit)
      if how == "closes" { #expect(held == limit) }
      let part = rig.content()
      let isSame = part == Array(Self.bytes[..<part.count])
      #expect(isSame)
      #expect(part.count == Int(held))

      let resume = ResumePoint(validator: .entityTag("\"1\""), offset: held, total: Int64(Self.total))
      let descriptor = unsafe open(rig.path("part"), O_RDWR | O_CLOEXEC)
      let again = PartFile(
        descriptor: descriptor, size: held, access: FileAccess(isLocal: true, worker: rig.worker))
      let second = rig.run(rig.order(server.url + "/", resume: resume), part: again)
      #expect(second.summary?.held == Int64(Self.total))
      let isWhole = rig.content() == Self.bytes
      #expect(isWhole)
    }

    /// The pipe's bytes are written by hand where a file cannot be spliced to (splice(2): EINVAL, as with O_APPEND).
    @Test func aFileThatCannotBeSplicedToGetsTheSameBytes() throws {
      let server = Self.server()
      let rig = try EngineRig()
      var part = rig.part()
      _ = close(part.descriptor)
      part.descriptor = unsafe open(rig.path("part"), O_RDWR | O_APPEND | O_CLOEXEC)
      Self.expectWhole(rig.run(rig.order(server.url + "/"), part: part), rig)
    }

    @Test func aPausedTransferWaitsAndGoesOn() throws {
      let server = Self.server()
      let rig = try EngineRig()
      let order = rig.order(server.url + "/", timeout: .seconds(1))
      rig.engine.start(order, part: rig.part(), body: nil)
      #expect(rig.turn { $0.engine.splicedBytes > 0 })
      rig.engine.pause(order.attempt)
      rig.turn(seconds: 0.2) { _ in false }
      let before = rig.engine.splicedBytes
      // Longer than the watchdog waits.
      rig.turn(seconds: 2) { _ in false }
      #expect(rig.engine.splicedBytes == before)
      #expect(Outcome(rig.events).end == nil)
      rig.engine.unpause(order.attempt)
      Self.expectWhole(rig.outcome(of: order.attempt), rig)
    }

    @Test func aServerThatFallsSilentIsTimedOut() throws {
      let server = Self.server(limit: 40 << 20)
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", timeout: .seconds(1)), part: rig.part())
      #expect(outcome.failure?.code == .timedOut)
      #expect(outcome.held == 40 << 20)
      #expect(rig.engine.splicedBytes > 0)
    }

    @Test func aStoppedTransferLeavesNothing() throws {
      let server = Self.server(limit: 40 << 20)
      let rig = try EngineRig()
      rig.turn(seconds: 0.1) { _ in false }
      let before = openDescriptors()
      let order = rig.order(server.url + "/")
      rig.engine.start(order, part: rig.part(), body: nil)
      #expect(rig.turn { $0.engine.splicedBytes > 0 })
      rig.events = []
      rig.engine.stop(order.attempt)
      rig.turn(seconds: 0.2) { _ in false }
      #expect(rig.events.isEmpty)
      rig.engine.close()
      rig.engine.turn(now: PollLoop.now + .seconds(31))
      let part = rig.content()
      let isSame = part == Array(Self.bytes[..<part.count])
      #expect(isSame)
      // The server's end of the connection, and the pipe, which goes with the engine's idle connections.
      #expect(rig.turn(seconds: 10) { _ in openDescriptors() <= before + 2 })
    }

    @Test(.enabled(if: geteuid() == 0, "needs the right to mount a small filesystem"))
    func aDiskThatFillsEndsTheAttemptAndTheNextIsNotGivenItsBytes() throws {
      let server = Self.server()
      let rig = try EngineRig()
      let small = rig.path("small")
      try FileManager.default.createDirectory(atPath: small, withIntermediateDirectories: true)
      guard try run("/bin/mount", "-t", "tmpfs", "-o", "size=50m", "tmpfs", small) == 0 else { return }
      defer { _ = try? run("/bin/umount", "-l", small) }
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part("small/part"))
      #expect(outcome.failure?.code == .noSpace)
      let held = Int(outcome.held ?? 0)
      #expect(held == 50 << 20)
      #expect(rig.engine.splicedBytes > 0)
      let isSame = rig.content("small/part") == Array(Self.bytes[..<held])
      #expect(isSame)
      Self.expectWhole(rig.run(rig.order(server.url + "/"), part: rig.part()), rig)
    }

    private func run(_ program: String, _ arguments: String...) throws -> Int32 {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: program)
      process.arguments = arguments
      try process.run()
      process.waitUntilExit()
      return process.terminationStatus
    }

    /// A part's length can stand in Content-Range, while its bytes come in chunks or end with the connection.
    @Test(arguments: [nil, 1 << 20, total - 1000]) func aPartWithoutContentLengthIsNotSpliced(chunk: Int?) throws {
      let start = 1000
      let server = ScriptedServer { peer in
        guard peer.readHead() != nil else { return }
        peer.send(
          "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes \(start)-\(Self.total - 1)/\(Self.total)\r\n"
            + "ETag: \"1\"\r\n" + (chunk == nil ? "" : "Transfer-Encoding: chunked\r\n") + "\r\n")
        guard let chunk else { return _ = peer.send(Array(Self.bytes[start...])) }
        for first in stride(from: start, to: Self.total, by: chunk) {
          let piece = Array(Self.bytes[first..<min(first + chunk, Self.total)])
          peer.send(String(piece.count, radix: 16) + "\r\n")
          peer.send(piece)
          peer.send("\r\n")
        }
        peer.send("0\r\n\r\n")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let part = rig.part(holding: Array(Self.bytes[..<start]))
      let resume = ResumePoint(validator: .entityTag("\"1\""), offset: Int64(start), total: Int64(Self.total))
      let outcome = rig.run(rig.order(server.url + "/", resume: resume), part: part)
      #expect(outcome.summary?.held == Int64(Self.total))
      let isSame = rig.content() == Self.bytes
      #expect(isSame)
      #expect(rig.engine.splicedBytes == 0)
    }

    /// What follows a part that only the connection ends contradicts its Content-Range.
    @Test func aPartThatGoesOnBehindItsRangeFails() throws {
      let server = ScriptedServer { peer in
        guard peer.readHead() != nil else { return }
        peer.send(
          "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-\(Self.total - 1)/\(Self.total)\r\n"
            + "ETag: \"1\"\r\n\r\n")
        peer.send(Self.bytes)
        peer.send("more")
      }
      let rig = try EngineRig()
      let resume = ResumePoint(validator: .entityTag("\"1\""), offset: 0, total: Int64(Self.total))
      let outcome = rig.run(rig.order(server.url + "/", resume: resume), part: rig.part())
      #expect(outcome.failure?.code == .lengthMismatch)
    }

    /// Challenged on one connection, a transfer can be answered on another one that is idle, within one call of
    /// libcurl, which does not tell of it before: the first one is not its any more.
    @Test func anAnswerOnAnotherConnectionIsSplicedFromThere() throws {
      let length = 8 << 20
      let right = Array(Self.bytes[..<length])
      let gate = Gate()
      let server = ScriptedServer { peer in
        guard let request = peer.readHead() else { return }
        if request.contains(" /first ") {
          gate.open("first asked")
          gate.pass("first may end")
          peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
          gate.pass("first has ended")
          // There before it is asked for, so that libcurl finds it as soon as it has asked.
          peer.send(Self.head(length))
          peer.send(Array(right[..<65536]))
          gate.open("answer is there")
          peer.send(Array(right[65536...]))
        } else {
          gate.open("second asked")
          gate.pass("answer is there")
          peer.send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
          usleep(300_000)  // sleep: libcurl has changed the connection by then
          peer.send(pattern(length, seed: 2))
        }
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let first = rig.order(server.url + "/first")
      rig.engine.start(first, part: rig.part("first"), body: nil)
      #expect(rig.turn { _ in gate.isOpen("first asked") })
      var second = rig.order(server.url + "/second")
      second.credential = TransferCredential(user: "u", password: Secret("p"), method: nil, origin: server.url)
      rig.engine.start(second, part: rig.part(), body: nil)
      #expect(rig.turn { _ in gate.isOpen("second asked") })
      gate.open("first may end")
      #expect(rig.outcome(of: first.attempt).summary?.held == 2)
      gate.open("first has ended")
      #expect(rig.outcome(of: second.attempt).summary?.held == Int64(length))
      let isSame = rig.content() == right
      #expect(isSame)
    }

    /// Holds come and go at every moment of a body.
    @Test func manyShortPausesLoseNothing() throws {
      let server = Self.server()
      let rig = try EngineRig()
      for round in 0..<6 {
        let order = rig.order(server.url + "/\(round)")
        rig.engine.start(order, part: rig.part(), body: nil)
        var isPaused = false
        var turns = 0
        let hasEnded = rig.turn { rig in
          if rig.events.contains(where: { $0.attempt == order.attempt && $0.isEnd }) { return true }
          turns += 1
          if turns % (round + 1) == 0 || isPaused {
            isPaused.toggle()
            if isPaused { rig.engine.pause(order.attempt) } else { rig.engine.unpause(order.attempt) }
          }
          return false
        }
        #expect(hasEnded)
        #expect(rig.outcome(of: order.attempt).summary?.held == Int64(Self.total))
        let isSame = rig.content() == Self.bytes
        #expect(isSame)
      }
    }

    /// The row still vouches for the old bytes until it is told of the new ones; then, until the row knows them.
    @Test(arguments: [false, true]) func aBodyThatWaitsForItsRecordIsWhole(keepsResumePoint: Bool) throws {
      let server = ScriptedServer { peer in
        guard peer.readHead() != nil else { return }
        peer.send(Self.head())
        peer.send(Self.bytes)
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let resume = ResumePoint(validator: .entityTag("\"0\""), offset: 3, total: Int64(Self.total))
      var order = rig.order(server.url + "/", resume: resume)
      order.keepsResumePoint = keepsResumePoint
      rig.engine.start(order, part: rig.part(holding: [1, 2, 3]), body: nil)
      #expect(rig.turn { Outcome($0.events).verdict != nil })
      rig.turn(seconds: 0.2) { _ in false }
      #expect(rig.content().isEmpty)
      rig.engine.releaseBody(order.attempt)
      if keepsResumePoint {
        rig.turn(seconds: 0.3) { _ in false }
        #expect(rig.engine.splicedBytes == 0)
        rig.engine.releaseBody(order.attempt)
      }
      Self.expectWhole(rig.outcome(of: order.attempt), rig)
    }

    /// The worker that syncs is behind: the body waits at the bound, and goes on.
    @Test func aDiskThatIsBehindHoldsTheBody() throws {
      let server = Self.server()
      let rig = try EngineRig()
      let order = rig.order(server.url + "/", timeout: .seconds(1))
      rig.worker.hold()
      rig.engine.start(order, part: rig.part(), body: nil)
      #expect(rig.turn { $0.engine.splicedBytes > 0 })
      rig.turn(seconds: 1.5) { _ in false }
      let held = Outcome(rig.events).held ?? 0
      #expect(held > 0)
      #expect(held < 64 << 20)
      rig.worker.release()
      Self.expectWhole(rig.outcome(of: order.attempt), rig)
    }

    /// A transfer that is stopped while nobody watches its socket leaves the number to the next one.
    @Test func aStopInAHoldLeavesTheSocketsNumberToTheNext() throws {
      let server = Self.server()
      let rig = try EngineRig()
      for round in 0..<5 {
        let order = rig.order(server.url + "/\(round)")
        rig.engine.start(order, part: rig.part("stopped"), body: nil)
        let before = rig.engine.splicedBytes
        #expect(rig.turn { $0.engine.splicedBytes > before })
        rig.engine.pause(order.attempt)
        rig.turn(seconds: 0.1) { _ in false }
        rig.engine.stop(order.attempt)
        rig.engine.unpause(order.attempt)
      }
      Self.expectWhole(rig.run(rig.order(server.url + "/"), part: rig.part()), rig)
    }

    /// Without a descriptor for the pipe the body comes as it ever did.
    @Test func aBodyWithoutAPipeIsLeftToLibcurl() throws {
      let gate = Gate()
      let server = ScriptedServer { peer in
        guard peer.readHead() != nil else { return }
        peer.send(Self.head())
        gate.pass("descriptors are short")
        peer.send(Self.bytes)
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let order = rig.order(server.url + "/")
      rig.engine.start(order, part: rig.part(), body: nil)
      #expect(rig.turn { Outcome($0.events).verdict != nil })
      var limit = rlimit()
      #expect(unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
      var short = limit
      // poll(2) allows that many entries, and no new descriptor is that low.
      short.rlim_cur = 3
      #expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &short) == 0)
      gate.open("descriptors are short")
      let isOver = rig.turn { $0.events.contains { $0.isEnd } }
      #expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
      #expect(isOver)
      Self.expectWhole(Outcome(rig.events), rig, spliced: 0)
      #expect(rig.engine.splicedBytes == 0)
    }

    enum Way: CaseIterable { case name, httpProxy, socks, challenge }

    /// The socket is the connection's, whatever was done on it or beside it before.
    @Test(arguments: Way.allCases) func bodiesAreSplicedOnEveryPlainWay(way: Way) throws {
      let server = ScriptedServer { peer in
        if way == .socks {
          guard let greeting = peer.readBody(2), peer.readBody(Int(greeting[1])) != nil else { return }
          peer.send([5, 0])
          guard let request = peer.readBody(5), peer.readBody(Int(request[4]) + 2) != nil else { return }
          peer.send([5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        }
        while let head = peer.readHead() {
          if way == .challenge, !head.contains("Authorization") {
            let challenge = "WWW-Authenticate: Digest realm=\"x\", nonce=\"1\", qop=\"auth\"\r\nContent-Length: 2\r\n"
            peer.send("HTTP/1.1 401 Unauthorized\r\n\(challenge)\r\nno")
            continue
          }
          peer.send("HTTP/1.1 103 Early Hints\r\n\r\n" + Self.head())
          peer.send(Self.bytes)
        }
      }
      let rig = try EngineRig()
      var order = rig.order(server.url + "/")
      let other = "http://server.invalid/"
      switch way {
      case .name: order.request.url = "http://localhost:\(server.port)/"
      case .httpProxy:
        order.request.url = other
        order.network.httpProxy = server.url
      case .socks:
        order.request.url = other
        order.network.httpProxy = "socks5h://127.0.0.1:\(server.port)"
      case .challenge:
        order.credential = TransferCredential(user: "u", password: Secret("p"), method: nil, origin: server.url)
      }
      Self.expectWhole(rig.run(order, part: rig.part()), rig)
    }

    @Test func whatIsNotPlainOrNotLongStaysWithLibcurl() throws {
      let rig = try EngineRig()
      let short = FixedServer("HTTP/1.1 200 OK\nContent-Length: 500000\n\n", pattern(500_000))
      for _ in 0..<2 {
        #expect(rig.run(rig.order(short.url + "/"), part: rig.part()).summary?.held == 500_000)
      }
      #expect(short.connectionCount == 1)
      let chunked = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for start in stride(from: 0, to: Self.total, by: 1 << 20) {
          peer.send("100000\r\n")
          peer.send(Array(Self.bytes[start..<start + 1 << 20]))
          peer.send("\r\n")
        }
        peer.send("0\r\n\r\n")
        peer.waitForEnd()
      }
      #expect(rig.run(rig.order(chunked.url + "/"), part: rig.part()).summary?.held == Int64(Self.total))
      let server = Self.server()
      let remote = rig.part(isLocal: false)
      #expect(rig.run(rig.order(server.url + "/"), part: remote).summary?.held == Int64(Self.total))
      let another = Self.server()
      #expect(rig.run(rig.order(another.url + "/", sink: .client)).received.count == Self.total)
      #expect(rig.engine.splicedBytes == 0)
    }
  }
}

extension Peer {
  fileprivate func endEarly(_ how: String) { if how == "resets" { reset() } else { close() } }
}

/// Steps that a test and its server wait for.
private final class Gate: Sendable {
  private let opened = Mutex<Set<String>>([])
  func open(_ step: String) { opened.withLock { _ = $0.insert(step) } }
  func isOpen(_ step: String) -> Bool { opened.withLock { $0.contains(step) } }
  /// Waits, at most some seconds.
  func pass(_ step: String) {
    for _ in 0..<2000 where !isOpen(step) { usleep(5000) }  // sleep: looks again
  }
}
