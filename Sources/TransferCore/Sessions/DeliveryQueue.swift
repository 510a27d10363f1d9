/// A session's results in the order of their numbers, and how far they were offered to the attached client.
package struct DeliveryQueue: Hashable, Sendable {
  /// Acknowledged ones become nil and leave when they reach the front.
  private var items: [DeliveryRecord?] = []
  private var front = 0
  /// Index of the first one that was not offered to the present client.
  private var firstUnoffered = 0
  package private(set) var count = 0

  package init() {}

  package init(_ records: [DeliveryRecord]) {
    items = records
    count = records.count
  }

  package var isEmpty: Bool { count == 0 }
  package var outstanding: Int { items[front..<firstUnoffered].reduce(0) { $0 + ($1 == nil ? 0 : 1) } }

  package mutating func append(_ record: DeliveryRecord) {
    items.append(record)
    count += 1
  }

  /// A new client is offered everything again, with the same numbers.
  package mutating func rewind() { firstUnoffered = front }

  package mutating func nextOffer() -> DeliveryRecord? {
    while firstUnoffered < items.count {
      let item = items[firstUnoffered]
      firstUnoffered += 1
      if let item { return item }
    }
    return nil
  }

  /// Nil when there is none of that number: it was acknowledged before.
  package mutating func acknowledge(_ number: DeliveryNumber) -> DeliveryRecord? {
    guard let index = index(of: number), let record = items[index] else { return nil }
    items[index] = nil
    count -= 1
    trim()
    return record
  }

  /// Takes the results of one task out.
  package mutating func removeAll(of task: TaskID) -> [DeliveryRecord] {
    var removed: [DeliveryRecord] = []
    for index in front..<items.count {
      guard let record = items[index], record.task == task else { continue }
      items[index] = nil
      removed.append(record)
    }
    count -= removed.count
    trim()
    return removed
  }

  /// The result was not acknowledged yet.
  package func holds(_ number: DeliveryNumber) -> Bool { index(of: number) != nil }

  package func contains(_ task: TaskID) -> Bool {
    items[front...].contains { $0?.task == task }
  }

  package var records: [DeliveryRecord] { items[front...].compactMap { $0 } }

  private mutating func trim() {
    while front < items.count, items[front] == nil { front += 1 }
    firstUnoffered = max(firstUnoffered, front)
    guard front > 64, front * 2 > items.count else { return }
    items.removeFirst(front)
    firstUnoffered -= front
    front = 0
  }

  private func index(of number: DeliveryNumber) -> Int? {
    // Numbers are dense but for what left the middle before a restart, so search among those that still have one.
    var low = front
    var high = items.count
    while low < high {
      let middle = (low + high) / 2
      var probe = middle
      while probe < high, items[probe] == nil { probe += 1 }
      guard probe < high, let found = items[probe] else {
        high = middle
        continue
      }
      if found.number == number { return probe }
      if found.number < number { low = probe + 1 } else { high = middle }
    }
    return nil
  }
}
