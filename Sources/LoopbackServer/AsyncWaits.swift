// The same waits for asynchronous callers, which the compiler chooses by itself where `await` is possible: to block a
// thread of Swift's cooperative pool, which is as wide as the machine has cores, can keep from running just what is
// being waited for.

extension LocalServer {
  /// Waits until `count` requests have arrived; false when `seconds` passed first.
  public func waitForRequests(_ count: Int, seconds: Double = 10) async -> Bool {
    await PosixThread.answer { self.waitForRequests(count, seconds: seconds) }
  }

  /// Waits until `count` exchanges have ended; false when `seconds` passed first.
  public func waitForExchanges(_ count: Int, seconds: Double = 10) async -> Bool {
    await PosixThread.answer { self.waitForExchanges(count, seconds: seconds) }
  }

  /// Waits until exactly `count` connections are open; false when `seconds` passed first.
  public func waitForConnections(_ count: Int, seconds: Double = 10) async -> Bool {
    await PosixThread.answer { self.waitForConnections(count, seconds: seconds) }
  }

  /// Waits until the recorded requests satisfy `condition`, asked again after each change; false when `seconds`
  /// passed first.
  public func waitUntil(
    seconds: Double = 10, _ condition: @escaping @Sendable ([Request]) -> Bool
  ) async -> Bool {
    await PosixThread.answer { self.waitUntil(seconds: seconds, condition) }
  }
}

extension Gate {
  /// Waits until the gate is open; false when `seconds` passed first.
  public func wait(seconds: Double = 10) async -> Bool {
    await PosixThread.answer { self.wait(seconds: seconds) }
  }

  /// Waits until at least `count` wait at the gate; false when `seconds` passed first.
  public func waitForWaiters(_ count: Int = 1, seconds: Double = 10) async -> Bool {
    await PosixThread.answer { self.waitForWaiters(count, seconds: seconds) }
  }
}

extension PosixThread {
  /// Runs `body`, which may block, on a thread of its own; on this one when there is no thread left.
  fileprivate static func answer(_ body: @escaping @Sendable () -> Bool) async -> Bool {
    await withCheckedContinuation { continuation in
      let code = detach(stackByteCount: 256 * 1024) { continuation.resume(returning: body()) }
      if code != 0 { continuation.resume(returning: body()) }
    }
  }
}
