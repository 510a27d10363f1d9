import Synchronization

/// What happens in a session.
public enum SessionEvent: Sendable {
  /// More bytes came or went, or the state changed. While the consumer is busy only the latest of a task is kept.
  case progressed(TaskStatus)
  /// The task cannot run now; ``TaskStatus/reason`` says why. Of these too only the latest is kept.
  case waiting(TaskStatus)
  /// The task asks what only the program can say; offered in this and every later run of the program until
  /// ``Session/answer(_:with:)``.
  case asking(TaskStatus, TaskQuestion)
  /// An attempt continues with byte `offset`; 0: it had to begin again.
  case resumed(TaskStatus, offset: Int64)
  /// Offered in this and every later run of the program until it is acknowledged.
  case finished(TaskResult)
  /// No unfinished task is left, and all results have been offered.
  case allFinished
  /// The session was invalidated and has nothing left. The last event.
  case ended
  /// No daemon can be reached, or another process took the session; tasks go on without us. Events continue when it is
  /// mended.
  case unavailable(FerryError)
}

/// The events of a session, for one consumer: a second iteration at the same time takes events away from the first.
///
/// Bounded: progress is coalesced, and the daemon keeps at most 256 results unacknowledged in flight.
public struct SessionEvents: AsyncSequence, Sendable {
  /// What happened in the session.
  public typealias Element = SessionEvent
  /// Nothing is thrown: trouble with the daemon is ``SessionEvent/unavailable(_:)``.
  public typealias Failure = Never

  let queue: EventQueue

  /// Takes from the same events as every other iterator of the session; nothing is told twice.
  public func makeAsyncIterator() -> Iterator { Iterator(queue: queue) }

  /// Hands out the events one by one. Asking for the next one says that the program is done with the last.
  public struct Iterator: AsyncIteratorProtocol {
    let queue: EventQueue

    /// Nil after ``SessionEvent/ended``, when the session was closed, or when the waiting Swift task is cancelled.
    public mutating func next() async -> SessionEvent? { await queue.next(isolation: nil) }

    /// As ``next()``, called from that actor; nil: from none.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> SessionEvent? {
      await queue.next(isolation: actor)
    }
  }
}

/// Events on their way to the consumer.
final class EventQueue: Sendable {
  fileprivate enum Slot: Hashable {
    case status(Int64)
    case resumption(Int64)
  }

  fileprivate struct State {
    /// The element at index i has the serial number `first` + i; nil where it was taken, or a later event took its
    /// place.
    var order: [(slot: Slot?, event: SessionEvent)?] = []
    var first = 0
    /// Nothing before this index.
    var head = 0
    /// The serial number of a slot's event.
    var slots: [Slot: Int] = [:]
    var waiting: (ticket: Int, CheckedContinuation<SessionEvent?, Never>)?
    var nextTicket = 0
    var isFinished = false
    /// The finish-events delivery that the consumer has in hand.
    var unacknowledged: Int64?
    var finishNumbers: [Int64] = []
  }

  private let state = Mutex(State())
  /// Called when the consumer is done with a finish-events delivery.
  private let acknowledge: @Sendable (Int64) -> Void

  init(acknowledge: @escaping @Sendable (Int64) -> Void) { self.acknowledge = acknowledge }

  /// An event that ``wake()`` may hand out a little later, with others: a consumer that is woken for each of ten
  /// thousand results costs more than they do.
  func add(_ event: SessionEvent) {
    let slot: Slot? =
      switch event {
      case .progressed(let task), .waiting(let task), .asking(let task, _): .status(task.id)
      case .resumed(let task, _): .resumption(task.id)
      case .finished, .allFinished, .ended, .unavailable: nil
      }
    state.withLock { state in
      if !state.isFinished { state.append(event, slot) }
    }
  }

  func addAllFinished(_ number: Int64) {
    state.withLock { $0.finishNumbers.append(number) }
    add(.allFinished)
  }

  /// Hands out what was added, where somebody waits for it.
  func wake() {
    let next = state.withLock { state -> (CheckedContinuation<SessionEvent?, Never>, SessionEvent)? in
      guard let (_, waiting) = state.waiting, let event = state.removeFirst() else { return nil }
      state.waiting = nil
      return (waiting, event)
    }
    if let (waiting, event) = next { waiting.resume(returning: event) }
  }

  /// A consumer waits.
  var isAwaited: Bool { state.withLock { $0.waiting != nil } }

  func push(_ event: SessionEvent) {
    add(event)
    wake()
  }

  /// The session that counted them is gone.
  func forgetFinishNumbers() {
    state.withLock { state in
      state.finishNumbers = []
      state.unacknowledged = nil
    }
  }

  /// What is there is still handed out; then nothing.
  func finish() {
    let next = state.withLock { state -> (CheckedContinuation<SessionEvent?, Never>, SessionEvent?)? in
      state.isFinished = true
      guard let (_, waiting) = state.waiting else { return nil }
      state.waiting = nil
      return (waiting, state.removeFirst())
    }
    if let (waiting, event) = next { waiting.resume(returning: event) }
  }

  /// On the caller's actor: a change of threads there and back would be most of what an event costs.
  func next(isolation: isolated (any Actor)?) async -> SessionEvent? {
    let (handled, ticket, ready) = state.withLock { state in
      state.nextTicket += 1
      let handled = state.unacknowledged
      state.unacknowledged = nil
      return (handled, state.nextTicket, Task.isCancelled ? nil : state.removeFirst())
    }
    if let handled { acknowledge(handled) }
    if let ready { return ready }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let outcome = state.withLock { state -> (SessionEvent?, CheckedContinuation<SessionEvent?, Never>?)? in
          if Task.isCancelled { return (nil, continuation) }
          if let event = state.removeFirst() { return (event, continuation) }
          if state.isFinished { return (nil, continuation) }
          // Of two consumers the earlier one gives way, rather than both waiting for ever.
          let earlier = state.waiting?.1
          state.waiting = (ticket, continuation)
          return earlier.map { (nil, $0) }
        }
        if let (event, continuation) = outcome { continuation?.resume(returning: event) }
      }
    } onCancel: {
      let waiting = state.withLock { state -> CheckedContinuation<SessionEvent?, Never>? in
        guard let (held, waiting) = state.waiting, held == ticket else { return nil }
        state.waiting = nil
        return waiting
      }
      waiting?.resume(returning: nil)
    }
  }
}

extension EventQueue.State {
  fileprivate mutating func append(_ event: SessionEvent, _ slot: EventQueue.Slot?) {
    if let slot {
      // The later one takes the place at the end, so that it does not overtake what lies between.
      if let index = slots[slot] { order[index - first] = nil }
      slots[slot] = first + order.count
    }
    order.append((slot, event))
    if order.count - head > 4 * (slots.count + 256) { compact() }
  }

  fileprivate mutating func removeFirst() -> SessionEvent? {
    while head < order.count {
      let entry = order[head]
      order[head] = nil
      head += 1
      if head >= 512, head * 2 >= order.count { compact() }
      guard let entry else { continue }
      if let slot = entry.slot { slots[slot] = nil }
      if case .allFinished = entry.event { takeFinishNumber() }
      return entry.event
    }
    return nil
  }

  fileprivate mutating func takeFinishNumber() {
    unacknowledged = finishNumbers.isEmpty ? nil : finishNumbers.removeFirst()
  }

  /// Drops what was taken, at the front and in the middle.
  private mutating func compact() {
    first += order.count
    order.removeAll { $0 == nil }
    head = 0
    slots = [:]
    for (index, entry) in order.enumerated() {
      if let slot = entry?.slot { slots[slot] = first + index }
    }
  }
}
