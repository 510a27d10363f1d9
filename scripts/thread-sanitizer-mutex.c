// Linked into every program of a ThreadSanitizer build (scripts/sanitize thread): shows ThreadSanitizer the half of
// Synchronization.Mutex that it cannot see.
//
// The uncontended half of Mutex.withLock, one compare-and-exchange, is compiled into our own code, and instrumented.
// The contended half, a futex, is in libswiftSynchronization.so, which is not: one thread's release and the other's
// acquire are missing, and what the lock protects is reported as a "Swift access race". A list of suppressions cannot
// name that report alone: withLock is inlined, so a pattern has to match the closures passed to it, and would hide the
// true races of whatever they call. These functions stand before the library's (the program's symbols come first,
// ld.so(8)), call them, and report release and acquire of the same address. Nothing is hidden.
//
// The names are the mangled _MutexHandle._lockSlow(_: UInt32), ._unlockSlow(), and ._tryLockSlow(): part of the ABI of
// the library, because every program calls them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

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
