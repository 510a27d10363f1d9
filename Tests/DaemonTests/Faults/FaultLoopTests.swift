import Glibc
import LinuxSystem
import Synchronization
import Testing

/// Every passage of every fault point goes wrong once, in a real daemon under real work. FERRY_FAULTS=full is the whole
/// run; a plain one takes the first passage of each chain and some of the others, and FERRY_SEED other ones.
@Suite(.serialized, .timeLimit(.minutes(60))) struct FaultLoopTests {
  /// A point, and what can happen there.
  struct Point: Sendable {
    var name: String
    var kinds: [FaultRun.Kind]
  }

  static let points = [
    Point(name: "store.open", kinds: [.kill, .ioError, .noSpace]),
    Point(name: "store.commit", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "store.committed", kinds: [.kill, .stop]),
    Point(name: "store.read", kinds: [.kill, .stop, .ioError]),
    Point(name: "source.pin", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "body.spool", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "part.open", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "part.write", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "part.fsync", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "engine.begin", kinds: [.kill, .stop]),
    Point(name: "finalize.digest", kinds: [.kill, .stop, .ioError]),
    Point(name: "worker.fsync", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "file.place", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "file.rename", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "folder.fsync", kinds: [.kill, .stop, .ioError, .noSpace]),
    Point(name: "file.remove", kinds: [.kill, .stop, .ioError]),
    Point(name: "peer.accept", kinds: [.kill, .stop, .noDescriptors]),
    Point(name: "peer.reply", kinds: [.kill, .stop, .brokenPipe]),
  ]

  /// One point and kind, for rising passages until none fires.
  struct Chain: Sendable {
    var point: String
    var kind: FaultRun.Kind
    var scenario: FaultRun.Scenario
    var runs = 0
    var fired = 0
    var last = 0
    var deaths = 0
    var slowest = 0.0
    var problems: [String] = []

    var line: String {
      func pad(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.utf8.count))
      }
      let names = pad(point, 17) + pad(kind.rawValue, 8) + pad(scenario.rawValue, 11)
      return names + "\(last) passages, \(runs) runs, \(deaths) deaths, slowest \(Int(slowest * 1000)) ms"
        + (problems.isEmpty ? "" : ", \(problems)")
    }
  }

  @Test func whereverItFailsNothingIsLostOrDoubled() throws {
    let isWhole = ProcessEnvironment.value(of: "FERRY_FAULTS") == "full"
    let only = ProcessEnvironment.value(of: "FERRY_FAULT_POINT")
    var random = SeededRandom(seed: UInt64(Knob.number("FERRY_SEED", 1)))
    var chains: [(chain: Chain, passages: [Int])] = []
    for point in Self.points where only == nil || only == point.name {
      for kind in point.kinds {
        for scenario in FaultRun.Scenario.allCases {
          // Stopping kills nothing: in a plain run one passage shows that it is gone through.
          let sample = kind == .stop ? [1] : [1, Int.random(in: 2...9, using: &random)]
          // A daemon that took all of its work on itself has its details in memory.
          let isSampled = scenario == (point.name == "store.read" ? .successor : .fresh) || kind == .kill
          guard isWhole || isSampled else { continue }
          chains.append((Chain(point: point.name, kind: kind, scenario: scenario), isWhole ? Array(1...2000) : sample))
        }
      }
    }
    let done = try runAll(chains)
    report(done, isWhole: isWhole, isOne: only != nil)
  }

  /// Several side by side: most of a run is waiting.
  private func runAll(_ chains: [(chain: Chain, passages: [Int])]) throws -> [Chain] {
    let next = Atomic(0)
    let done = Mutex<[Int: Chain]>([:])
    var workers: [Worker] = []
    for number in 0..<Knob.number("FERRY_FAULT_LANES", 4) {
      let worker = try Worker(name: "lane-\(number)", limit: 1)
      workers.append(worker)
      worker.submit {
        while true {
          let index = next.add(1, ordering: .relaxed).oldValue
          guard index < chains.count else { return }
          let chain = Self.run(chains[index].chain, chains[index].passages)
          // At once: the whole run takes long.
          print(chain.line)
          done.withLock { $0[index] = chain }
        }
      }
    }
    for worker in workers { worker.stop(andWait: true) }
    return done.withLock { done in chains.indices.compactMap { done[$0] } }
  }

  private static func run(_ start: Chain, _ passages: [Int]) -> Chain {
    var chain = start
    for passage in passages {
      let fault = FaultRun.Fault(
        point: chain.point, kind: chain.kind, scenario: chain.scenario, passage: passage)
      let outcome = FaultRun.run(fault, seconds: 60)
      chain.runs += 1
      chain.deaths += outcome.deaths
      chain.slowest = max(chain.slowest, outcome.seconds)
      chain.problems += outcome.problems
      guard outcome.fired || !outcome.problems.isEmpty else { break }
      if outcome.fired {
        chain.fired += 1
        chain.last = passage
      }
      if chain.problems.count > 12 { break }
    }
    return chain
  }

  /// Fails for what was not hit: a loop in which nothing fires proves nothing.
  private func report(_ chains: [Chain], isWhole: Bool, isOne: Bool) {
    print("\(chains.map(\.runs).reduce(0, +)) runs, \(chains.map(\.fired).reduce(0, +)) faults fired")
    for chain in chains { for problem in chain.problems { Issue.record("\(problem)") } }
    for point in Self.points {
      let own = chains.filter { $0.point == point.name }
      if own.isEmpty, isOne { continue }
      for kind in point.kinds {
        #expect(own.contains { $0.kind == kind && $0.fired > 0 }, "\(point.name) never met \(kind.rawValue)")
      }
    }
  }
}
