import CLinux
import Glibc
package import TransferCore

/// One epoll instance, driven by one thread: the daemon's loop.
///
/// Level-triggered. Every registration has a number that travels with the event beside the descriptor, so an event
/// for a descriptor that was removed, or closed and given out again, in the same turn is dropped (as NIO does).
/// Nothing is allocated per event. A handler lives until its registration is removed; one that holds the loop strongly
/// keeps it alive till then. Not Sendable: everything but `Mailbox` is called from the loop's thread.
package final class EventLoop {
  /// What a registration wants to hear of. Errors and hang-ups are always reported.
  package struct Interest: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let readable = Interest(rawValue: 1)
    package static let writable = Interest(rawValue: 2)
    /// The peer closed its sending half.
    package static let readHangUp = Interest(rawValue: 4)
    /// Exceptional: a change of /proc/self/mountinfo is one.
    package static let priority = Interest(rawValue: 8)

    var epollBits: UInt32 {
      (contains(.readable) ? EPOLLIN.rawValue : 0) | (contains(.writable) ? EPOLLOUT.rawValue : 0)
        | (contains(.readHangUp) ? EPOLLRDHUP.rawValue : 0) | (contains(.priority) ? EPOLLPRI.rawValue : 0)
    }
  }

  /// What happened.
  package struct Readiness: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let readable = Readiness(rawValue: 1)
    package static let writable = Readiness(rawValue: 2)
    package static let readHangUp = Readiness(rawValue: 4)
    package static let priority = Readiness(rawValue: 8)
    package static let hangUp = Readiness(rawValue: 16)
    package static let error = Readiness(rawValue: 32)

    init(epollBits bits: UInt32) {
      var value: UInt8 = 0
      if bits & EPOLLIN.rawValue != 0 { value |= 1 }
      if bits & EPOLLOUT.rawValue != 0 { value |= 2 }
      if bits & EPOLLRDHUP.rawValue != 0 { value |= 4 }
      if bits & EPOLLPRI.rawValue != 0 { value |= 8 }
      if bits & EPOLLHUP.rawValue != 0 { value |= 16 }
      if bits & EPOLLERR.rawValue != 0 { value |= 32 }
      rawValue = value
    }
  }

  /// Names one registration; a token of a registration that ended is harmless.
  package struct Registration: Hashable, Sendable {
    package let descriptor: Int32
    let number: UInt32
  }

  package typealias Handler = (Readiness) -> Void

  private struct Slot {
    var number: UInt32
    var handler: Handler
  }

  /// Events taken from the kernel in one turn: enough to amortise the call, few enough that timers and mailboxes get
  /// their turn under load.
  package static let eventsPerTurn = 256

  private let poller: OwnedDescriptor
  private let timer: OwnedDescriptor
  private var armed: BootInstant?
  /// Indexed by descriptor: the kernel gives out the lowest free number, so the array stays as short as it can be.
  private var slots: [Slot?] = []
  private var lastNumber: UInt32 = 0
  private var isTurning = false
  private var events = [clinux_event](repeating: clinux_event(), count: eventsPerTurn)

  /// Events dropped because their registration had ended. Diagnostic.
  package private(set) var staleEvents = 0
  /// Registrations alive.
  package private(set) var registrationCount = 0

  package init() throws(SystemError) {
    poller = try OwnedDescriptor(
      adopting: Syscall.retrying("epoll_create1") { clinux_epoll_create() })
    timer = try OwnedDescriptor(adopting: Syscall.retrying("timerfd_create") { clinux_boot_timer() })
    try control(EPOLL_CTL_ADD, timer.raw, number: Self.timerNumber, interest: .readable)
  }

  /// The timer's own number; registrations never get it.
  private static let timerNumber: UInt32 = 0

  /// Calls `handler` in each turn in which `descriptor` is ready, until the registration is removed. The descriptor
  /// stays the caller's: remove first, then close.
  package func register(
    descriptor: Int32, interest: Interest, handler: @escaping Handler
  ) throws(SystemError) -> Registration {
    guard descriptor >= 0 else { throw SystemError(EBADF, operation: "epoll_ctl") }
    let number = nextNumber()
    try control(EPOLL_CTL_ADD, descriptor, number: number, interest: interest)
    let index = Int(descriptor)
    while slots.count <= index { slots.append(nil) }
    // A slot still taken here belongs to a descriptor that was closed without `remove`; epoll forgot it with the close.
    if slots[index] == nil { registrationCount += 1 }
    slots[index] = Slot(number: number, handler: handler)
    return Registration(descriptor: descriptor, number: number)
  }

  /// Changes what a registration wants to hear of. ENOENT when it has ended.
  package func modify(_ registration: Registration, interest: Interest) throws(SystemError) {
    guard isCurrent(registration) else { throw SystemError(ENOENT, operation: "epoll_ctl EPOLL_CTL_MOD") }
    try control(EPOLL_CTL_MOD, registration.descriptor, number: registration.number, interest: interest)
  }

  /// Ends a registration. Its handler is not called again, not even for an event of this turn. Harmless when it has
  /// ended already.
  package func remove(_ registration: Registration) {
    guard isCurrent(registration) else { return }
    slots[Int(registration.descriptor)] = nil
    registrationCount -= 1
    // EBADF or ENOENT: closed before it was removed; epoll forgot it with the close.
    _ = clinux_epoll_control(poller.raw, EPOLL_CTL_DEL, registration.descriptor, 0, 0)
  }

  /// One turn: waits for an event or the deadline, calls the handlers, returns how many were called. nil waits without
  /// a deadline. An interrupted wait is an empty turn.
  @discardableResult
  package func wait(until deadline: BootInstant?) throws(SystemError) -> Int {
    try arm(deadline)
    return try turn(timeoutMilliseconds: -1)
  }

  /// One turn that does not wait.
  @discardableResult
  package func poll() throws(SystemError) -> Int {
    try turn(timeoutMilliseconds: 0)
  }

  private func turn(timeoutMilliseconds: Int32) throws(SystemError) -> Int {
    // A turn inside a handler would overwrite the events of the turn that called the handler.
    precondition(!isTurning, "EventLoop: a handler must not wait on its own loop")
    isTurning = true
    defer { isTurning = false }
    let count = unsafe events.withUnsafeMutableBufferPointer { events in
      guard let base = events.baseAddress else { return Int32(0) }
      return unsafe clinux_epoll_wait(poller.raw, base, Int32(events.count), timeoutMilliseconds)
    }
    if count < 0 {
      if errno == EINTR { return 0 }
      throw .current("epoll_wait")
    }
    var called = 0
    for index in 0..<Int(count) {
      let event = events[index]
      let word = event.word
      let number = UInt32(truncatingIfNeeded: word >> 32)
      if number == Self.timerNumber {
        disarmExpired()
        continue
      }
      let descriptor = Int(UInt32(truncatingIfNeeded: word))
      guard descriptor < slots.count, let slot = slots[descriptor], slot.number == number else {
        staleEvents += 1
        continue
      }
      called += 1
      slot.handler(Readiness(epollBits: event.bits))
    }
    return called
  }

  private func arm(_ deadline: BootInstant?) throws(SystemError) {
    guard deadline != armed else { return }
    // A time of zero would disarm (timerfd_settime(2)); anything past expires at once.
    let nanoseconds = deadline.map { max(1, $0.nanoseconds) } ?? 0
    try Syscall.retrying("timerfd_settime") { clinux_boot_timer_arm(timer.raw, nanoseconds) }
    armed = deadline
  }

  private func disarmExpired() {
    var expirations: UInt64 = 0
    _ = unsafe read(timer.raw, &expirations, MemoryLayout<UInt64>.size)
    armed = nil
  }

  private func isCurrent(_ registration: Registration) -> Bool {
    let index = Int(registration.descriptor)
    return index >= 0 && index < slots.count && slots[index]?.number == registration.number
  }

  private func nextNumber() -> UInt32 {
    lastNumber &+= 1
    if lastNumber == Self.timerNumber { lastNumber = 1 }
    return lastNumber
  }

  private func control(
    _ operation: Int32, _ descriptor: Int32, number: UInt32, interest: Interest
  ) throws(SystemError) {
    let word = UInt64(number) << 32 | UInt64(UInt32(bitPattern: descriptor))
    guard clinux_epoll_control(poller.raw, operation, descriptor, interest.epollBits, word) == 0 else {
      throw .current(operation == EPOLL_CTL_ADD ? "epoll_ctl EPOLL_CTL_ADD" : "epoll_ctl EPOLL_CTL_MOD")
    }
  }
}
