import Glibc

/// A value behind a mutex, with a condition variable to wait for its changes.
///
/// The Synchronization module's `Mutex` has no condition to wait on; polling would make tests slow or flaky.
@safe
final class Monitor<Value>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>
  private var value: Value

  init(_ value: Value) {
    // SAFETY: both live on the heap at a fixed address from here to deinit, as pthreads requires.
    unsafe mutex = .allocate(capacity: 1)
    unsafe condition = .allocate(capacity: 1)
    self.value = value
    unsafe pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    // Deadlines must not move when somebody sets the wall clock.
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// Runs `body` alone and wakes every waiter afterwards.
  func withLock<Result, Failure: Error>(_ body: (inout Value) throws(Failure) -> Result) throws(Failure) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer {
      unsafe pthread_cond_broadcast(condition)
      unsafe pthread_mutex_unlock(mutex)
    }
    return try body(&value)
  }

  /// Runs `body` alone; it must not change what others wait for.
  func read<Result>(_ body: (Value) -> Result) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return body(value)
  }

  /// Blocks this thread until `holds` or until `seconds` have passed; says whether it holds.
  func wait(seconds: Double, until holds: (Value) -> Bool) -> Bool {
    var deadline = timespec.monotonic(after: seconds)
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while !holds(value) {
      if unsafe pthread_cond_timedwait(condition, mutex, &deadline) == ETIMEDOUT { return holds(value) }
    }
    return true
  }
}

extension timespec {
  static func monotonic(after seconds: Double) -> timespec {
    var now = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &now)
    // A year is "for ever" here, and keeps the sum within time_t; NaN counts as no time at all.
    let bounded = seconds > 0 ? min(seconds, 31_536_000) : 0
    let nanoseconds = now.tv_nsec + Int((bounded - bounded.rounded(.down)) * 1e9)
    return timespec(
      tv_sec: now.tv_sec + Int(bounded) + nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000)
  }
}
