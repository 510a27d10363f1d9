import CurlEngine
import Foundation
import Glibc
import Synchronization
import Testing
import TransferCore

extension EngineTests {
  @Suite struct Pressure {
    /// Serves `total` bytes and counts those that the kernel took.
    static func source(_ total: Int) -> (ScriptedServer, Counter) {
      let counter = Counter()
      let chunk = pattern(65_536)
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n")
        while counter.value < total {
          let count = min(chunk.count, total - counter.value)
          guard peer.send(Array(chunk[..<count])) else { return }
          counter.add(count)
        }
        peer.waitForEnd()
      }
      return (server, counter)
    }

    @Test func bytesForAClientArriveInOrder() throws {
      let bytes = pattern(5_000_000)
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5000000\n\n", bytes)
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/", sink: .client))
      let isSame1 = outcome.received == bytes
      #expect(isSame1)
      #expect(outcome.end == .complete(TransferSummary(held: 5_000_000, isLengthVerified: true)))
      #expect(outcome.isOrdered)
    }

    @Test func aServerThatHoldsItsFirstAnswerGetsTheSecondRequest() throws {
      let asked = Counter()
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        asked.add(1)
        for _ in 0..<2000 where asked.value < 2 { usleep(5000) }  // sleep: the other request's thread
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let orders = [rig.order(server.url + "/1", sink: .client), rig.order(server.url + "/2", sink: .client)]
      for order in orders { rig.engine.start(order, part: nil, body: nil) }
      rig.turn(seconds: 5) { _ in asked.value == 2 }
      #expect(asked.value == 2)
      for order in orders { #expect(rig.outcome(of: order.attempt, seconds: 10).summary?.held == 1) }
    }

    @Test func aPausedTransferLeavesTheBytesWithTheServer() throws {
      let total = 200_000_000
      let (server, counter) = Self.source(total)
      let rig = try EngineRig()
      let order = rig.order(server.url + "/", sink: .client, timeout: .seconds(2))
      rig.engine.start(order, part: nil, body: nil)
      rig.turn { $0.events.contains { if case .received = $0 { true } else { false } } }
      rig.engine.pause(order.attempt)
      // Paused for longer than the watchdog waits: nothing ends, and the server is held back.
      rig.turn(seconds: 3.5) { _ in false }
      let early = Outcome(rig.events)
      #expect(early.end == nil)
      #expect(counter.value < total / 2)
      rig.engine.unpause(order.attempt)
      let outcome = rig.outcome(of: order.attempt, seconds: 60)
      #expect(outcome.summary?.held == Int64(total))
      #expect(outcome.received.count == total)
    }

    @Test func aClientThatDoesNotDrainHoldsTheServerBack() throws {
      let total = 200_000_000
      let (server, counter) = Self.source(total)
      let rig = try EngineRig()
      let order = rig.order(server.url + "/", sink: .client)
      rig.engine.start(order, part: nil, body: nil)
      for _ in 0..<80 where counter.value < total { rig.turnWithoutDraining() }
      #expect(counter.value < total / 2)
      rig.engine.stop(order.attempt)
    }

    @Test(arguments: [true, false]) func aDiskThatDoesNotSyncHoldsTheServerBack(isLocal: Bool) throws {
      let total = 200_000_000
      let (server, counter) = Self.source(total)
      let worker = TestWorker()
      let rig = try EngineRig(worker: worker)
      worker.hold()
      let order = rig.order(server.url + "/", timeout: .seconds(2))
      rig.engine.start(order, part: rig.part(isLocal: isLocal), body: nil)
      rig.turn(seconds: 3.5) { _ in false }
      #expect(Outcome(rig.events).end == nil)
      #expect(Outcome(rig.events).synced.isEmpty)
      #expect(counter.value > 8_000_000)
      #expect(counter.value < total / 2)
      worker.release()
      let outcome = rig.outcome(of: order.attempt, seconds: 60)
      #expect(outcome.summary?.held == Int64(total))
      #expect(rig.content().count == total)
      #expect(outcome.synced == outcome.synced.sorted())
      #expect(outcome.synced.count > 5)
      #expect(outcome.isOrdered)
    }

    /// 24 MB/s for two seconds and more, and no sync ends: half a second's worth is all that a reboot may cost.
    @Test func aSyncThatHangsHoldsASlowServerBackAfterHalfASecond() throws {
      let counter = Counter()
      let piece = pattern(1_200_000)
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while peer.send(piece) {
          counter.add(piece.count)
          usleep(50_000)  // sleep: a link of that speed
        }
      }
      let worker = TestWorker()
      let rig = try EngineRig(worker: worker)
      worker.hold()
      let order = rig.order(server.url + "/", timeout: .seconds(20))
      rig.engine.start(order, part: rig.part(), body: nil)
      rig.turn(seconds: 3) { _ in false }
      let counters = rig.events.compactMap { event -> Int64? in
        if case .progressed(_, let held, _) = event { held } else { nil }
      }
      #expect((counters.max() ?? 0) > 6_000_000)
      // 12 MB in half a second; by bytes alone 48 MiB would be taken.
      #expect((counters.max() ?? 0) < 30_000_000)
      rig.engine.stop(order.attempt)
      worker.release()
    }

    @Test func aSmallFileIsNotSynced() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
      let rig = try EngineRig()
      let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
      #expect(outcome.synced.isEmpty)
      #expect(rig.worker.callCount == 0)
    }

    @Test func aSlowFileIsSyncedAfterTwoSeconds() throws {
      let gate = Counter()
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello")
        while gate.value == 0 { usleep(10_000) }  // sleep: looks again
        peer.send("!")
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      let order = rig.order(server.url + "/")
      rig.engine.start(order, part: rig.part(), body: nil)
      let isSynced = rig.turn(seconds: 10) { !Outcome($0.events).synced.isEmpty }
      #expect(isSynced)
      gate.add(1)
      let outcome = rig.outcome(of: order.attempt)
      #expect(outcome.synced == [5])
      #expect(outcome.summary?.held == 6)
    }

    @Test func aSyncThatFailsFailsTheAttempt() throws {
      let gate = Counter()
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello")
        while gate.value == 0 { usleep(10_000) }  // sleep: looks again
      }
      let rig = try EngineRig()
      // Writes to /dev/null succeed and syncs of it do not (EINVAL).
      let descriptor = unsafe open("/dev/null", O_WRONLY | O_CLOEXEC)
      let part = PartFile(descriptor: descriptor, size: 0, access: FileAccess(isLocal: true, worker: rig.worker))
      let outcome = rig.run(rig.order(server.url + "/"), part: part)
      gate.add(1)
      // After a failed fsync what the file holds cannot be trusted any more.
      #expect(outcome.failure?.code == .partFileLost)
      #expect(outcome.failure?.number == Int(EINVAL))
      #expect(outcome.synced.isEmpty)
    }
  }

  @Suite struct Resources {
    @Test func aThousandTransfersLeaveNoDescriptor() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
      let rig = try EngineRig()
      _ = rig.run(rig.order(server.url + "/"), part: rig.part())
      // The server's threads share this process: what its earlier scripts held may go meanwhile, so "no more".
      let before = openDescriptors()
      for _ in 0..<1000 {
        let outcome = rig.run(rig.order(server.url + "/"), part: rig.part())
        guard outcome.summary?.held == 5 else {
          Issue.record("\(String(describing: outcome.end))")
          return
        }
        rig.events = []
      }
      #expect(server.connectionCount == 1)
      #expect(openDescriptors() <= before)
    }

    @Test(arguments: ["lookup", "connect", "request", "body"])
    func aStoppedTransferLeavesNothing(phase: String) throws {
      let server = ScriptedServer { peer in
        _ = peer.readHead()
        if phase == "body" { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello") }
        peer.waitForEnd()
      }
      let rig = try EngineRig()
      rig.turn(seconds: 0.2) { _ in false }
      let before = openDescriptors()
      // 192.0.2.0/24 (RFC 5737) answers nobody.
      let url = phase == "connect" ? "http://192.0.2.1/" : phase == "lookup" ? "http://a.invalid/" : server.url + "/"
      let order = rig.order(url)
      rig.engine.start(order, part: rig.part(), body: nil)
      switch phase {
      case "body": rig.turn { !$0.events.isEmpty }
      case "request": rig.turn { _ in server.connectionCount == 1 }
      default: rig.turn(seconds: 0.05) { _ in false }
      }
      rig.events = []
      rig.engine.stop(order.attempt)
      let start = ContinuousClock.now
      rig.engine.stop(order.attempt)
      #expect(ContinuousClock.now - start < .seconds(1))
      rig.engine.close()
      let isClean = rig.turn(seconds: 40) { _ in openDescriptors() <= before }
      #expect(isClean, "\(openDescriptors()) descriptors, \(before) before")
      #expect(rig.events.isEmpty)
    }

    @Test func manyLookupsAtOnceAllEnd() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
      let rig = try EngineRig()
      let port = server.url.split(separator: ":").last ?? ""
      let orders = (0..<200).map { _ in rig.order("http://localhost:\(port)/") }
      for (index, order) in orders.enumerated() {
        rig.engine.start(order, part: rig.part("part\(index)"), body: nil)
      }
      let isDone = rig.turn(seconds: 60) { $0.events.count { $0.isEnd } == 200 }
      #expect(isDone)
      for order in orders {
        #expect(Outcome(rig.events.filter { $0.attempt == order.attempt }).summary?.held == 5)
      }
    }

    @Test func idleConnectionsAreDropped() throws {
      let ended = Counter()
      let server = ScriptedServer { peer in
        while peer.readHead() != nil { peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") }
        ended.add(1)
      }
      let rig = try EngineRig()
      #expect(rig.run(rig.order(server.url + "/"), part: rig.part()).summary != nil)
      #expect(rig.engine.nextDeadline != nil)
      rig.engine.turn(now: PollLoop.now + .seconds(31))
      #expect(rig.turn(seconds: 5) { _ in ended.value == 1 })
      #expect(rig.engine.nextDeadline == nil)
      #expect(rig.run(rig.order(server.url + "/"), part: rig.part()).summary != nil)
      #expect(server.connectionCount == 2)
    }

    @Test func anIDThatRunsIsNotStartedAgain() throws {
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
      let rig = try EngineRig()
      let order = rig.order(server.url + "/")
      rig.engine.start(order, part: rig.part(), body: nil)
      rig.engine.start(order, part: rig.part("second"), body: nil)
      #expect(rig.outcome(of: order.attempt).summary?.held == 5)
      rig.turn(seconds: 0.2) { _ in false }
      #expect(rig.events.count { $0.isEnd } == 1)
    }
  }
}

final class Counter: Sendable {
  private let count = Atomic<Int>(0)
  var value: Int { count.load(ordering: .acquiring) }
  func add(_ more: Int) { count.add(more, ordering: .acquiringAndReleasing) }
}
