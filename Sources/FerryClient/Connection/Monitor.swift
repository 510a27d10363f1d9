import Glibc

/// State behind one lock, and waiting for it to change: what `Mutex` has no condition variable for.
@safe final class Monitor<State>: @unchecked Sendable {
  // SAFETY: `state` is touched only while `lock` is held; both pointers are made in init and freed in deinit, and their
  // targets never move.
  private var state: State
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let changed: UnsafeMutablePointer<pthread_cond_t>

  init(_ state: State) {
    self.state = state
    unsafe lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    unsafe changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    unsafe lock.initialize(to: pthread_mutex_t())
    unsafe changed.initialize(to: pthread_cond_t())
    unsafe pthread_mutex_init(lock, nil)
    // Waiting is measured on a clock that nobody sets.
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(changed, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_cond_destroy(changed)
    unsafe pthread_mutex_destroy(lock)
    unsafe changed.deallocate()
    unsafe lock.deallocate()
  }

  func withLock<Result>(_ body: (inout State) -> Result) -> Result {
    unsafe pthread_mutex_lock(lock)
    defer { unsafe pthread_mutex_unlock(lock) }
    return body(&state)
  }

  /// As `withLock`, and wakes all that wait.
  func change<Result>(_ body: (inout State) -> Result) -> Result {
    unsafe pthread_mutex_lock(lock)
    defer {
      unsafe pthread_cond_broadcast(changed)
      unsafe pthread_mutex_unlock(lock)
    }
    return body(&state)
  }

  /// Calls `body` now and after each change until it gives a value; nil when `limit` has passed.
  func wait<Result>(atMost limit: Duration, _ body: (inout State) -> Result?) -> Result? {
    var end = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &end)
    let (seconds, attoseconds) = limit.components
    // A year is for ever, and cannot overflow.
    end.tv_sec += Int(min(max(seconds, 0), 31_536_000))
    end.tv_nsec += Int(max(attoseconds, 0) / 1_000_000_000)
    if end.tv_nsec >= 1_000_000_000 {
      end.tv_nsec -= 1_000_000_000
      end.tv_sec += 1
    }
    unsafe pthread_mutex_lock(lock)
    defer { unsafe pthread_mutex_unlock(lock) }
    while true {
      if let result = body(&state) { return result }
      if unsafe pthread_cond_timedwait(changed, lock, &end) == ETIMEDOUT { return body(&state) }
    }
  }
}
