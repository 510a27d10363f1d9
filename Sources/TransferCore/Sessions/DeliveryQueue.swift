/// A session's results in the order of their numbers, and how far they were offered to the attached client.
package struct DeliveryQueue: Hashable, Sendable {
  /// Acknowledged ones become nil and leave when they reach the front.
  private var items: [DeliveryRecord?] = []
  private var front = 0
  /// Index of the first one that was not offered to the present client.
  private var firstUnoffered = 0
  package private(set) var count = 0
  /// How many were offered to the present client and not acknowledged.
  package private(set) var outstanding = 0
  /// Results of each task that are here: most tasks that are looked for have none.
  private var perTask: [TaskID: Int] = [:]

  package init() {}

  package init(_ records: [DeliveryRecord]) {
    items = records
    count = records.count
    for record in records { note(record) }
  }

  package var isEmpty: Bool { count == 0 }

  package mutating func append(_ record: DeliveryRecord) {
    items.append(record)
    count += 1
    note(record)
  }

  private mutating func note(_ record: DeliveryRecord) {
    if let task = record.task { perTask[task, default: 0] += 1 }
  }

  private mutating func take(at index: Int) {
    guard let record = items[index] else { return }
    items[index] = nil
    count -= 1
    if index < firstUnoffered { outstanding -= 1 }
    guard let task = record.task, let left = perTask[task] else { return }
    perTask[task] = left > 1 ? left - 1 : nil
  }

  /// A new client is offered everything again, with the same numbers.
  package mutating func rewind() {
    firstUnoffered = front
    outstanding = 0
  }

  package mutating func nextOffer() -> DeliveryRecord? {
    while firstUnoffered < items.count {
      let item = items[firstUnoffered]
      firstUnoffered += 1
      if let item {
        outstanding += 1
        return item
      }
    }
    return nil
  }

  /// Nil when there is none of that number: it was acknowledged before. With a completion goes what stands before it of
  /// its task; nothing of that task is left then.
  package mutating func acknowledge(_ number: DeliveryNumber) -> DeliveryRecord? {
    guard let index = index(of: number), let record = items[index] else { return nil }
    take(at: index)
    if record.kind == .completion, index > front, items[index - 1]?.task == record.task { take(at: index - 1) }
    trim()
    return record
  }

  /// Takes the results of one task out.
  package mutating func removeAll(of task: TaskID) -> [DeliveryRecord] {
    guard perTask[task] != nil else { return [] }
    var removed: [DeliveryRecord] = []
    for index in front..<items.count {
      guard let record = items[index], record.task == task else { continue }
      take(at: index)
      removed.append(record)
      if perTask[task] == nil { break }
    }
    trim()
    return removed
  }

  package subscript(number: DeliveryNumber) -> DeliveryRecord? { index(of: number).flatMap { items[$0] } }

  package func contains(_ number: DeliveryNumber) -> Bool { index(of: number) != nil }

  package func contains(_ task: TaskID) -> Bool { perTask[task] != nil }

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
