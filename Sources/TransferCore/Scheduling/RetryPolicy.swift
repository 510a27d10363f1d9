/// When the next attempt is made after a failed one: exponential with full jitter (design 10).
///
/// | failures in a row | user-initiated, at most | discretionary, at most |
/// |---|---|---|
/// | 1 | 1 s | 30 s |
/// | 2 | 2 s | 60 s |
/// | 5 | 16 s | 8 min |
/// | 10 and more | 10 min | 4 h 16 min … 5 h |
package enum RetryPolicy {
  /// - Parameters:
  ///   - failures: failures in a row, this one included; at least 1.
  ///   - random: any 64-bit word; full jitter draws the delay from the upper three quarters of the window, so that a
  ///     retry neither hammers at once nor meets all others.
  package static func delay(failures: Int64, isDiscretionary: Bool, random: UInt64) -> Duration {
    let base: Int64 = isDiscretionary ? 30_000 : 1000
    let cap: Int64 = isDiscretionary ? 5 * 3_600_000 : 600_000
    let exponent = min(max(failures, 1) - 1, 20)
    let window = min(base << exponent, cap)
    let floor = window / 4
    return .milliseconds(floor + Int64(random % UInt64(window - floor + 1)))
  }
}

/// Derives any number of words from one (splitmix64, Steele et al. 2014): the core's only randomness.
package struct RandomWords: Hashable, Sendable {
  private var state: UInt64

  package init(seed: UInt64) { state = seed }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}
