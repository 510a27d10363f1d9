#if !canImport(Darwin)
  internal import Foundation
  internal import Synchronization

  typealias Callback = @Sendable () -> Void

  /// First in, first out, each in amortised constant time.
  struct FIFO<Element: Sendable>: Sendable {
    private var elements: [Element?] = []
    private var head = 0

    var isEmpty: Bool { head == elements.count }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
      guard head < elements.count else { return nil }
      let element = elements[head]
      elements[head] = nil
      head += 1
      if head == elements.count {
        elements.removeAll(keepingCapacity: head < 1024)
        head = 0
      } else if head > 1024, head * 2 > elements.count {
        elements.removeFirst(head)
        head = 0
      }
      return element
    }
  }

  /// Runs a session's callbacks on its delegate queue, in order and one at a time, also where the program gave the
  /// session a queue that runs several operations at once.
  final class CallbackQueue: Sendable {
    let operations: OperationQueue
    private let waiting = Mutex(Waiting())

    private struct Waiting {
      var callbacks = FIFO<Callback>()
      var isScheduled = false
    }

    init(_ operations: OperationQueue) { self.operations = operations }

    func append(_ callback: @escaping Callback) {
      let mustSchedule = waiting.withLock { state in
        state.callbacks.append(callback)
        guard !state.isScheduled else { return false }
        state.isScheduled = true
        return true
      }
      if mustSchedule { schedule() }
    }

    private func schedule() {
      operations.addOperation { self.runSome() }
    }

    /// Callbacks in one operation: one each would cost more than most of them do; more would keep the program's own
    /// operations waiting.
    private static let batch = 16

    private func runSome() {
      for _ in 0..<Self.batch {
        guard !operations.isSuspended, let callback = waiting.withLock({ $0.callbacks.popFirst() }) else { break }
        callback()
      }
      let isEmpty = waiting.withLock { state in
        state.isScheduled = !state.callbacks.isEmpty
        return !state.isScheduled
      }
      if !isEmpty { schedule() }
    }
  }
#endif
