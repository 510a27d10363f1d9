import Foundation
import Testing

@testable import TransferCore

@Suite struct ReplayTests {
  /// FERRY_SEED=n walks from that seed only; FERRY_STEPS=n walks further.
  @Test func randomWorldsKeepTheirPromises() {
    let variables = ProcessInfo.processInfo.environment
    let only = variables["FERRY_SEED"].flatMap(UInt64.init)
    let steps = variables["FERRY_STEPS"].flatMap(Int.init) ?? 2500
    var counts: [String: Int] = [:]
    for seed in only.map({ [$0] }) ?? Array(1...10) {
      var world = RandomWorld(seed: seed)
      for step in 0..<steps {
        world.step()
        guard world.faults.isEmpty else {
          for fault in Set(world.faults).sorted().prefix(5) {
            Issue.record(
              "Seed \(seed), step \(step): \(fault) Again: FERRY_SEED=\(seed) swift test --filter ReplayTests")
          }
          break
        }
      }
      counts.merge(world.counts, uniquingKeysWith: +)
      for (_, ending) in world.endings { counts["ended: \(ending)", default: 0] += 1 }
    }
    print(counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
    guard only == nil else { return }
    // Walks that never meet something prove nothing about it.
    for name in ResponseVerdict.allNames where name != "alreadyComplete" {
      #expect(counts[name, default: 0] > 0, "\(name)")
    }
    for name in [
      "ended: succeeded", "ended: failed", "ended: cancelled", "restart", "acknowledge", "invalidate and cancel",
      "finish and invalidate", "placed", "loaded", "prepared", "redirect",
    ] { #expect(counts[name, default: 0] > 0, "\(name)") }
  }
}
