/// A moment on the clock that also counts suspended time (CLOCK_BOOTTIME); comparable only within one boot.
package struct BootInstant: Hashable, Comparable, Sendable {
  package var nanoseconds: Int64
  package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  package static func < (left: Self, right: Self) -> Bool { left.nanoseconds < right.nanoseconds }
  package static func + (left: Self, right: Duration) -> Self {
    Self(nanoseconds: left.nanoseconds.addingClamped(right.nanosecondsClamped))
  }
  package static func - (left: Self, right: Self) -> Duration {
    .nanoseconds(left.nanoseconds.subtractingClamped(right.nanoseconds))
  }
}

/// A moment on the calendar, in milliseconds since 1970-01-01 UTC. It may jump either way.
package struct WallInstant: Hashable, Comparable, Sendable {
  package var milliseconds: Int64
  package init(milliseconds: Int64) { self.milliseconds = milliseconds }

  package static func < (left: Self, right: Self) -> Bool { left.milliseconds < right.milliseconds }
  package static func + (left: Self, right: Duration) -> Self {
    Self(milliseconds: left.milliseconds.addingClamped(right.millisecondsClamped))
  }
  package static func - (left: Self, right: Self) -> Duration {
    .milliseconds(left.milliseconds.subtractingClamped(right.milliseconds))
  }
}

/// What the shell read from the outside world, once a tick: the core sees time and randomness only through it.
package struct ClockReading: Hashable, Sendable {
  package var boot: BootInstant
  package var wall: WallInstant
  /// One random word a reading; the core derives as many as it needs from it.
  package var randomWord: UInt64

  package init(boot: BootInstant, wall: WallInstant, randomWord: UInt64) {
    self.boot = boot
    self.wall = wall
    self.randomWord = randomWord
  }
}

extension Duration {
  /// Whole nanoseconds, clamped to what 64 bits hold (292 years).
  package var nanosecondsClamped: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    if overflow { return seconds < 0 ? .min : .max }
    return product.addingClamped(attoseconds / 1_000_000_000)
  }

  /// Whole milliseconds, clamped to what 64 bits hold.
  package var millisecondsClamped: Int64 {
    let (seconds, attoseconds) = components
    let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
    if overflow { return seconds < 0 ? .min : .max }
    return product.addingClamped(attoseconds / 1_000_000_000_000_000)
  }
}

extension Int64 {
  package func addingClamped(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other < 0 ? .min : .max) : sum
  }

  package func subtractingClamped(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other < 0 ? .max : .min) : difference
  }
}
