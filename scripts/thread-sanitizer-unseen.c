// Linked into every program of a ThreadSanitizer build (scripts/sanitize thread): shows ThreadSanitizer what it cannot
// see by itself. Each function stands before a library's (the program's symbols come first, ld.so(8)) and calls it.
//
// Synchronization.Mutex
//
// The uncontended half of Mutex.withLock, one compare-and-exchange, is compiled into our own code, and instrumented.
// The contended half, a futex, is in libswiftSynchronization.so, which is not: one thread's release and the other's
// acquire are missing, and what the lock protects is reported as a "Swift access race". A list of suppressions cannot
// name that report alone: withLock is inlined, so a pattern has to match the closures passed to it, and would hide the
// true races of whatever they call. Here release and acquire of the lock's address are reported. Nothing is hidden.
// The names are the mangled _MutexHandle._lockSlow(_: UInt32), ._unlockSlow(), and ._tryLockSlow(): part of the ABI of
// the library, because every program calls them.
//
// pthread_clockjoin_np
//
// ThreadSanitizer has interceptors for pthread_join and pthread_timedjoin_np, and none for this one: a thread that was
// joined with it is reported as a "thread leak" at the end. It is done here with pthread_timedjoin_np, whose deadline
// is of CLOCK_REALTIME.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context)) void *self
#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define TRY_LOCK "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"

extern void __tsan_acquire(void *address);
extern void __tsan_release(void *address);

SWIFT void lock_slow(uint32_t thread, SELF) __asm__(LOCK);
SWIFT void unlock_slow(SELF) __asm__(UNLOCK);
SWIFT bool try_lock_slow(SELF) __asm__(TRY_LOCK);

SWIFT void lock_slow(uint32_t thread, SELF) {
  SWIFT void (*next)(uint32_t, SELF) = (SWIFT void (*)(uint32_t, SELF))dlsym(RTLD_NEXT, LOCK);
  next(thread, self);
  __tsan_acquire(self);
}

SWIFT void unlock_slow(SELF) {
  SWIFT void (*next)(SELF) = (SWIFT void (*)(SELF))dlsym(RTLD_NEXT, UNLOCK);
  __tsan_release(self);
  next(self);
}

SWIFT bool try_lock_slow(SELF) {
  SWIFT bool (*next)(SELF) = (SWIFT bool (*)(SELF))dlsym(RTLD_NEXT, TRY_LOCK);
  bool taken = next(self);
  if (taken) __tsan_acquire(self);
  return taken;
}

int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *until) {
  struct timespec now, deadline;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &deadline);
  int64_t nanoseconds = (int64_t)deadline.tv_nsec + until->tv_nsec - now.tv_nsec;
  deadline.tv_sec += until->tv_sec - now.tv_sec + nanoseconds / 1000000000;
  deadline.tv_nsec = nanoseconds % 1000000000;
  if (deadline.tv_nsec < 0) {
    deadline.tv_nsec += 1000000000;
    deadline.tv_sec -= 1;
  }
  return pthread_timedjoin_np(thread, result, &deadline);
}
