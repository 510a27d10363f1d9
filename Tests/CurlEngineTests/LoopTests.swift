import CurlEngine
import Foundation
import Glibc
import LinuxSystem
import Testing
import TransferCore

extension EngineTests {
  /// The engine on the daemon's own loop and worker.
  @Suite struct OnTheLoop {
    @Test func aLargeBodyArrivesOnTheRealLoop() throws {
      let bytes = pattern(30_000_000)
      let server = FixedServer("HTTP/1.1 200 OK\nContent-Length: 30000000\n\n", bytes)
      let rig = try EngineRig()
      let loop = try EventLoop()
      let bridge = try EventLoopBridge(loop)
      let engine = try bridge.makeEngine()
      let worker = try Worker(name: "files", limit: 4)
      defer {
        bridge.detach()
        worker.stop(andWait: true)
      }
      for isLocal in [true, false] {
        var part = rig.part(isLocal: isLocal)
        part.access = FileAccess(isLocal: isLocal, worker: worker)
        let order = rig.order("http://localhost:\(server.url.split(separator: ":")[2])/")
        engine.start(order, part: part, body: nil)
        var events: [EngineEvent] = []
        let end = Date().addingTimeInterval(30)
        while !events.contains(where: \.isEnd), Date() < end {
          let deadline = min(engine.nextDeadline?.nanoseconds ?? .max, PollLoop.now.nanoseconds + 1_000_000_000)
          try loop.wait(until: .init(nanoseconds: deadline))
          engine.turn(now: PollLoop.now)
          engine.drainEvents(into: &events, limit: 64)
        }
        let outcome = Outcome(events)
        #expect(outcome.summary?.held == 30_000_000)
        // At the first 4 MiB; how many follow is a question of speed.
        #expect(outcome.synced.count >= 1)
        let isSame1 = rig.content() == bytes
        #expect(isSame1)
      }
      #expect(bridge.refusedWatches == 0)
    }
  }
}
