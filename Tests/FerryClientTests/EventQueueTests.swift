import Testing

@testable import FerryClient

/// What is added is handed out in its order, to whoever waits with the next wake, and to whoever asks at once.
@Suite(.timeLimit(.minutes(1))) struct EventQueueTests {
  private static let unavailable = SessionEvent.unavailable(FerryError(.daemonUnavailable, "away"))

  private static func isUnavailable(_ event: SessionEvent?) -> Bool {
    if case .unavailable? = event { true } else { false }
  }

  private static func isAllFinished(_ event: SessionEvent?) -> Bool {
    if case .allFinished? = event { true } else { false }
  }

  /// A consumer that waits when this returns.
  private static func waiting(on queue: EventQueue) async -> Task<SessionEvent?, Never> {
    let consumer = Task { await queue.next(isolation: nil) }
    while !queue.isAwaited { await Task.yield() }
    return consumer
  }

  /// A queue of which two events that were added together were handed out in their order, the first by `handOut`.
  private static func handsOutTwo(by handOut: (EventQueue) -> Void) async -> EventQueue {
    let queue = EventQueue { _ in }
    let first = await waiting(on: queue)
    queue.add(unavailable)
    queue.addAllFinished(1)
    handOut(queue)
    #expect(isUnavailable(await first.value))
    #expect(isAllFinished(await queue.next(isolation: nil)))
    return queue
  }

  @Test func whatWasAddedTogetherIsHandedOutInItsOrder() async {
    let queue = await Self.handsOutTwo { $0.wake() }
    let second = await Self.waiting(on: queue)
    queue.wake()
    queue.push(Self.unavailable)
    #expect(Self.isUnavailable(await second.value))
  }

  @Test func whatWasAddedIsHandedOutBeforeTheEnd() async {
    let queue = await Self.handsOutTwo { $0.finish() }
    #expect(await queue.next(isolation: nil) == nil)
  }

  @Test func aFinishIsAcknowledgedWhenItsConsumerAsksAgain() async {
    let (numbers, acknowledge) = AsyncStream<Int64>.makeStream()
    let queue = EventQueue { acknowledge.yield($0) }
    let first = await Self.waiting(on: queue)
    queue.addAllFinished(7)
    queue.addAllFinished(8)
    queue.wake()
    #expect(Self.isAllFinished(await first.value))
    #expect(Self.isAllFinished(await queue.next(isolation: nil)))
    let last = await Self.waiting(on: queue)
    acknowledge.finish()
    var acknowledged: [Int64] = []
    for await number in numbers { acknowledged.append(number) }
    #expect(acknowledged == [7, 8])
    last.cancel()
    #expect(await last.value == nil)
  }
}
