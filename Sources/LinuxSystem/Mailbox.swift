import CLinux
import Glibc
import Synchronization

/// Messages from any thread to the loop's thread, in the order of posting.
///
/// The wake-up (one eventfd write) is paid only when the box goes from empty to non-empty. The box itself has no
/// bound: what feeds it is bounded (a worker's queue, the tasks in flight), and a completion must never be lost.
package final class Mailbox<Message: Sendable>: Sendable {
  private let messages = Mutex<[Message]>([])
  private let counter: OwnedDescriptor

  package init() throws(SystemError) {
    counter = try OwnedDescriptor.eventCounter(nonblocking: true)
  }

  /// Readable while messages wait: register it with the loop, call `drain` in the handler.
  package var descriptor: Int32 { counter.raw }

  /// Any thread.
  package func post(_ message: sending Message) {
    let wasEmpty = messages.withLock { messages in
      messages.append(message)
      return messages.count == 1
    }
    guard wasEmpty else { return }
    var one: UInt64 = 1
    // Cannot fail: the counter is far from its end (the one refusal eventfd(2) knows).
    _ = unsafe write(counter.raw, &one, MemoryLayout<UInt64>.size)
  }

  /// Takes all messages. The loop's thread only.
  package func drain() -> [Message] {
    var taken: [Message] = []
    drain(into: &taken)
    return taken
  }

  /// Takes all messages; the storage of `buffer`, whose old content is dropped, becomes the box's, so that a steady
  /// flow allocates nothing.
  package func drain(into buffer: inout [Message]) {
    var count: UInt64 = 0
    // First the counter, then the messages: a message posted in between costs one empty turn, never a lost wake-up.
    _ = unsafe read(counter.raw, &count, MemoryLayout<UInt64>.size)
    buffer.removeAll(keepingCapacity: true)
    messages.withLock { messages in swap(&messages, &buffer) }
  }
}
