import Glibc
import LinuxSystem
import Synchronization
import Testing
import TransferCore

struct SideBySideTests {
  @Test(arguments: [0, 1, 2, 3, 500])
  func eachInputGetsItsOutputInItsPlace(count: Int) {
    let calls = Atomic<Int>(0)
    let outputs = SideBySide.map(Array(0..<count)) { number in
      calls.add(1, ordering: .relaxed)
      return number * 2
    }
    #expect(outputs == (0..<count).map { $0 * 2 })
    #expect(calls.load(ordering: .relaxed) == count)
  }

  /// Eight come together at a gate that opens for all of them or for none.
  @Test func callsThatWaitAreMadeEightAtATime() {
    let inside = Atomic<Int>(0)
    let most = Mutex(0)
    let end = BootInstant.now() + .seconds(20)
    let outputs = SideBySide.map(Array(0..<33)) { number in
      guard number > 0 else {
        // Longer than a call that has not waited.
        let until = BootInstant.now() + .milliseconds(2)
        while BootInstant.now() < until { sched_yield() }
        return true
      }
      let now = inside.add(1, ordering: .sequentiallyConsistent).newValue
      most.withLock { $0 = max($0, now) }
      while most.withLock({ $0 }) < 8, BootInstant.now() < end { sched_yield() }
      inside.subtract(1, ordering: .sequentiallyConsistent)
      return BootInstant.now() < end
    }
    #expect(outputs == Array(repeating: true, count: 33))
    #expect(most.withLock { $0 } == 8)
  }
}
