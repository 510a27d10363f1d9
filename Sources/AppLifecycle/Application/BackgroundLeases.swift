#if !canImport(Darwin)
  internal import Dispatch
  public import Foundation
  internal import Glibc
  internal import Synchronization

  /// Names what ``UIApplication/beginBackgroundTask(withName:expirationHandler:)`` began.
  public struct UIBackgroundTaskIdentifier: RawRepresentable, Hashable, Sendable {
    /// Counted from 1 within the process.
    public let rawValue: Int
    /// An identifier with that number.
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Names nothing.
    public static let invalid = Self(rawValue: 0)
  }

  extension ProcessInfo {
    /// Does something that should not be cut short when the app goes to the background.
    ///
    /// `block` runs on a concurrent queue of the system, with false; the activity lasts until it returns. When the
    /// app's time in the background is over before, `block` runs a second time, at the same time, with true, and the
    /// first must come to its end within 5 s. When the time is over already, it runs once, with true.
    ///
    /// - Parameters:
    ///   - reason: for the line that names who did not end.
    ///   - block: gets whether the time is over.
    public func performExpiringActivity(withReason reason: String, using block: @escaping @Sendable (Bool) -> Void) {
      BackgroundLeases.process.perform(reason, on: .global(), block)
    }
  }

  /// How long an app may work in the background.
  struct BackgroundAllowance: Sendable {
    /// The daemon's grant, which it counts itself from the launch.
    var lasts: Duration = .seconds(30)
    /// The handlers need a moment before the daemon ends the process.
    var warnsAfter: Duration = .seconds(25)
    /// From the handlers' call to the end of a process that did not heed them.
    var grace: Duration = .seconds(5)
    /// Ends a process that did not.
    var kill: @Sendable (_ reason: String) -> Void = { reason in
      Diagnostics.log(reason)
      Glibc.kill(getpid(), SIGKILL)
    }
  }

  /// What an app has begun and wants to finish in the background.
  final class BackgroundLeases: Sendable {
    private struct Lease {
      var name: String?
      var expiration: (@MainActor @Sendable () -> Void)?
    }

    private struct State {
      var leases: [Int: Lease] = [:]
      var nextNumber = 1
      /// When the app went to the background; nil in the foreground.
      var since: ContinuousClock.Instant?
      /// Tells the timers of one stay in the background from those of another.
      var stay = 0
      var isOver = false
    }

    let allowance: BackgroundAllowance
    private let state = Mutex(State())

    /// The ones of this process's app.
    static let process = BackgroundLeases(BackgroundAllowance())

    init(_ allowance: BackgroundAllowance) { self.allowance = allowance }

    var timeRemaining: TimeInterval {
      guard let since = state.withLock({ $0.since }) else { return .greatestFiniteMagnitude }
      let left = allowance.lasts - since.duration(to: .now)
      return max(0, left / .seconds(1))
    }

    func begin(name: String?, _ expiration: (@MainActor @Sendable () -> Void)?) -> UIBackgroundTaskIdentifier {
      state.withLock { state in
        guard !state.isOver else { return .invalid }
        defer { state.nextNumber += 1 }
        state.leases[state.nextNumber] = Lease(name: name, expiration: expiration)
        return UIBackgroundTaskIdentifier(rawValue: state.nextNumber)
      }
    }

    func end(_ identifier: UIBackgroundTaskIdentifier) {
      state.withLock { _ = $0.leases.removeValue(forKey: identifier.rawValue) }
    }

    /// Runs `block` on `queue` with false, and once more with true when the time is over before it has returned.
    func perform(_ reason: String, on queue: DispatchQueue, _ block: @escaping @Sendable (Bool) -> Void) {
      let lease = begin(name: reason) { queue.async { block(true) } }
      queue.async {
        block(lease == .invalid)
        self.end(lease)
      }
    }

    /// Begins a stay in the background, or gives a present one its whole time again.
    func enterBackground() {
      let stay = state.withLock { state in
        state.since = .now
        state.isOver = false
        state.stay += 1
        return state.stay
      }
      after(allowance.warnsAfter) { self.expire(stay) }
    }

    func enterForeground() {
      state.withLock { state in
        state.since = nil
        state.isOver = false
        state.stay += 1
      }
    }

    private func after(_ pause: Duration, _ body: @escaping @MainActor @Sendable () -> Void) {
      DispatchQueue.main.asyncAfter(deadline: .now() + pause / .seconds(1)) { MainActor.assumeIsolated { body() } }
    }

    @MainActor private func expire(_ stay: Int) {
      let numbers = state.withLock { state -> [Int] in
        guard state.stay == stay else { return [] }
        state.isOver = true
        return state.leases.keys.sorted()
      }
      guard !numbers.isEmpty else { return }
      for number in numbers {
        // Once: an earlier handler may have ended others' leases too.
        let expiration = state.withLock { state -> (@MainActor @Sendable () -> Void)? in
          defer { state.leases[number]?.expiration = nil }
          return state.leases[number]?.expiration
        }
        expiration?()
      }
      after(allowance.grace) { self.endUnheeding(stay, numbers) }
    }

    @MainActor private func endUnheeding(_ stay: Int, _ numbers: [Int]) {
      let names = state.withLock { state -> [String] in
        guard state.stay == stay else { return [] }
        return numbers.compactMap { number in state.leases[number].map { $0.name ?? "task \(number)" } }
      }
      guard !names.isEmpty else { return }
      allowance.kill(
        "the time in the background is over and endBackgroundTask was not called for: "
          + names.joined(separator: ", "))
    }
  }
#endif
