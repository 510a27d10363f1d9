import TransferCore

/// The events that the daemon has not taken yet, in order.
struct EventQueue {
  private var events: [EngineEvent] = []
  private var first = 0

  var isEmpty: Bool { first == events.count }
  var count: Int { events.count - first }

  mutating func append(_ event: EngineEvent) { events.append(event) }

  mutating func take(into target: inout [EngineEvent], limit: Int) {
    let count = min(max(limit, 0), events.count - first)
    target.append(contentsOf: events[first..<(first + count)])
    first += count
    if first == events.count {
      events.removeAll(keepingCapacity: true)
      first = 0
    } else if first > 1024 {
      events.removeFirst(first)
      first = 0
    }
  }

  /// Forgets what is queued of one attempt.
  mutating func drop(_ attempt: AttemptID) {
    guard !isEmpty else { return }
    events.removeFirst(first)
    first = 0
    events.removeAll { $0.attempt == attempt }
  }
}
