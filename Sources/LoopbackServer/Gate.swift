/// Something that happens once, for tests to wait for or to let happen.
///
/// Responses and bodies that were told to hold until a gate stay held until ``open()``. A gate also serves as an event:
/// open it in a hook, wait for it in the test.
public final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var waiters = 0
    var wakeups: [Wakeup] = []
  }

  private let state = Monitor(State())

  /// A closed gate.
  public init() {}

  /// Lets everything through, now and later. Opening it again does nothing.
  public func open() {
    let wakeups = state.withLock { state in
      state.isOpen = true
      defer { state.wakeups = [] }
      return state.wakeups
    }
    for wakeup in wakeups { wakeup.signal() }
  }

  /// Whether ``open()`` was called.
  public var isOpen: Bool { state.read { $0.isOpen } }

  /// How many responses, bodies and threads wait at this gate now.
  public var waiters: Int { state.read { $0.waiters } }

  /// Blocks the calling thread until the gate is open; false when `seconds` passed first.
  public func wait(seconds: Double = 10) -> Bool {
    state.withLock { $0.waiters += 1 }
    defer { state.withLock { $0.waiters -= 1 } }
    return state.wait(seconds: seconds) { $0.isOpen }
  }

  /// Blocks the calling thread until at least `count` wait at the gate; false when `seconds` passed first.
  public func waitForWaiters(_ count: Int = 1, seconds: Double = 10) -> Bool {
    state.wait(seconds: seconds) { $0.waiters >= count }
  }

  func attach(_ wakeup: Wakeup) {
    state.withLock { state in
      state.waiters += 1
      state.wakeups.append(wakeup)
    }
  }

  func detach(_ wakeup: Wakeup) {
    state.withLock { state in
      state.waiters -= 1
      if let index = state.wakeups.firstIndex(where: { $0 === wakeup }) { state.wakeups.remove(at: index) }
    }
  }
}
