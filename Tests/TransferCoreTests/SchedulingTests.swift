import Testing

@testable import TransferCore

@Suite struct SchedulingTests {
  static let start = BootInstant(nanoseconds: 1_000_000_000)

  static func cell(_ id: Int64, lane: Int32, priority: UInt8 = 128, wakeAt: BootInstant? = nil) -> TaskCell {
    var cell = TaskCell(
      entry: TaskEntry(
        id: TaskID(rawValue: id), session: SessionID(rawValue: 1), number: id, kind: .download, state: .waiting,
        origin: "", priority: priority), lane: lane)
    cell.wakeAt = wakeAt
    return cell
  }

  /// Admits all that may run, and tells in which order.
  static func admitAll(_ admission: inout Admission, lane: (TaskID) -> Int32, at now: BootInstant) -> [Int64] {
    var order: [Int64] = []
    while let place = admission.popCandidate(at: now) {
      admission.occupy(lane(place.task))
      order.append(place.task.rawValue)
    }
    return order
  }

  @Test func lanesTakeTurnsAndKeepToTheirLimits() {
    var admission = Admission()
    let session = SessionID(rawValue: 1)
    let lanes = ["a", "b", "c"].map { admission.lane(session: session, origin: $0, limit: 2) }
    for id in Int64(0)..<12 {
      var cell = Self.cell(id, lane: lanes[Int(id) / 4])
      admission.enqueue(&cell, at: Self.start)
    }
    let order = Self.admitAll(&admission, lane: { lanes[Int($0.rawValue) / 4] }, at: Self.start)
    #expect(order == [0, 4, 8, 1, 5, 9])
    #expect(lanes.allSatisfy { admission.runningInLane($0) == 2 && admission.isFull($0) })
    #expect(admission.violations() == [])
    admission.release(lanes[1])
    #expect(Self.admitAll(&admission, lane: { _ in lanes[1] }, at: Self.start) == [6])
  }

  @Test func allHostsTogetherKeepToTheTotal() {
    var admission = Admission()
    for id in Int64(0)..<100 {
      let lane = admission.lane(session: SessionID(rawValue: 1), origin: "\(id)", limit: 6)
      var cell = Self.cell(id, lane: lane)
      admission.enqueue(&cell, at: Self.start)
    }
    #expect(Self.admitAll(&admission, lane: { Int32($0.rawValue) }, at: Self.start).count == Limits.running)
    #expect(admission.violations() == [])
    admission.release(3)
    #expect(Self.admitAll(&admission, lane: { Int32($0.rawValue) }, at: Self.start) == [64])
  }

  @Test func theHigherPriorityGoesFirstAndEqualsInOrder() {
    var admission = Admission()
    let lane = admission.lane(session: SessionID(rawValue: 1), origin: "a", limit: 9)
    for (id, priority) in [(Int64(1), UInt8(128)), (2, 0), (3, 255), (4, 128), (5, 255)] {
      var cell = Self.cell(id, lane: lane, priority: priority)
      admission.enqueue(&cell, at: Self.start)
    }
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: Self.start) == [3, 5, 1, 4, 2])
  }

  /// Failure case 38: a server that returns meets one probe, then its tasks.
  @Test func aLaneThatWasNotReachedSendsOneProbe() throws {
    var admission = Admission()
    let lane = admission.lane(session: SessionID(rawValue: 1), origin: "a", limit: 6)
    for id in Int64(1)...8 {
      var cell = Self.cell(id, lane: lane)
      admission.enqueue(&cell, at: Self.start)
    }
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: Self.start).count == 6)
    for _ in 1...6 {
      admission.release(lane)
      admission.noteUnreachable(lane, at: Self.start, random: 9)
    }
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: Self.start) == [])
    let due = try #require(admission.nextDeadline)
    var now = due
    while let next = admission.nextDeadline {
      now = next
      #expect(admission.wake(at: now) == [])
    }
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: now) == [7])
    #expect(admission.limit(lane) == 1)
    admission.noteAnswer(lane)
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: now) == [8])
    #expect(admission.violations() == [])
  }

  /// Failure case 37: Retry-After holds every task of the host, and is never shortened.
  @Test func aHeldLaneWaitsForItsMoment() {
    var admission = Admission()
    let lane = admission.lane(session: SessionID(rawValue: 1), origin: "a", limit: 6)
    admission.rest(hostOf: lane, until: Self.start + .seconds(10), at: Self.start)
    admission.rest(hostOf: lane, until: Self.start + .seconds(3), at: Self.start)
    var cell = Self.cell(1, lane: lane)
    admission.enqueue(&cell, at: Self.start)
    #expect(admission.heldUntil(lane) == Self.start + .seconds(10))
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: Self.start) == [])
    #expect(admission.violations() == [])
    _ = admission.wake(at: Self.start + .seconds(9))
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: Self.start + .seconds(9)) == [])
    _ = admission.wake(at: Self.start + .seconds(10))
    #expect(Self.admitAll(&admission, lane: { _ in lane }, at: Self.start + .seconds(10)) == [1])
  }

  @Test func aSleepingTaskIsGivenBackAtItsMoment() {
    var admission = Admission()
    let lane = admission.lane(session: SessionID(rawValue: 1), origin: "a", limit: 6)
    var cell = Self.cell(1, lane: lane, wakeAt: Self.start + .seconds(5))
    admission.enqueue(&cell, at: Self.start)
    #expect(!cell.isQueued && admission.nextDeadline == Self.start + .seconds(5))
    #expect(admission.wake(at: Self.start + .seconds(4)) == [])
    #expect(admission.wake(at: Self.start + .seconds(5)) == [TaskID(rawValue: 1)])
  }

  /// A date that many share keeps a turn no longer than ``Limits/dueInTick`` of them do.
  @Test func tasksThatAreDueTogetherWakeByAndBy() {
    var admission = Admission()
    let lane = admission.lane(session: SessionID(rawValue: 1), origin: "a", limit: 6)
    let due = Self.start + .seconds(5)
    let count = Int64(2 * Limits.dueInTick + 1)
    for id in 1...count {
      var cell = Self.cell(id, lane: lane, wakeAt: due)
      admission.enqueue(&cell, at: Self.start)
    }
    var woken: [[TaskID]] = []
    while let next = admission.nextDeadline, next <= due { woken.append(admission.wake(at: due)) }
    #expect(woken.map(\.count) == [Limits.dueInTick, Limits.dueInTick, 1])
    #expect(woken.joined().map(\.rawValue).sorted() == Array(1...count))
  }

  @Test func deadlinesThatPassTogetherEndTheirTasksByAndBy() {
    var bench = Bench()
    let session = bench.open(limit: 1)
    let count = Limits.dueInTick + 10
    var draft = TaskDraft.download()
    draft.resourceTimeout = .seconds(100)
    var tasks: [TaskID] = []
    for _ in 0..<count { if let id = bench.add(draft, to: session) { tasks.append(id) } }
    bench.advance(.seconds(101))
    bench.admit()
    func ended() -> Int { tasks.count { bench.core.tasks[$0]?.entry.state == .finished(.failed) } }
    #expect(ended() == Limits.dueInTick)
    #expect(bench.core.nextDeadline.map { $0 <= bench.now.boot } == true)
    bench.admit()
    #expect(ended() == count)
    #expect(bench.core.violations() == [])
  }

  @Test func manyChangesOfPriorityStayBounded() {
    var bench = Bench()
    let session = bench.open(limit: 1)
    _ = bench.add(.download(), to: session)
    let waiting = bench.add(.download(), to: session) ?? TaskID(rawValue: 0)
    for change in 0..<1000 { bench.command(.update(waiting, TaskChange(priority: UInt8(change % 256)))) }
    #expect(bench.core.admission.lanes[0].lines[0].ready.count < 200)
    #expect(bench.core.violations() == [])
  }

  @Test(arguments: [(Int64(1), Int64(1000)), (2, 2000), (5, 16_000), (10, 512_000), (11, 600_000), (.max, 600_000)])
  func retriesWaitWithinTheirWindow(failures: Int64, window: Int64) {
    var words = RandomWords(seed: 3)
    for _ in 0..<200 {
      let delay = RetryPolicy.delay(failures: failures, isDiscretionary: false, random: words.next())
      #expect(delay >= .milliseconds(window / 4) && delay <= .milliseconds(window))
    }
  }

  @Test func discretionaryRetriesAndOddCountsStayInBounds() {
    for failures in [Int64.min, -1, 0, 1, 2, 20, 63, 64, .max] {
      for random in [UInt64.min, .max, 1 << 63] {
        let delay = RetryPolicy.delay(failures: failures, isDiscretionary: true, random: random)
        #expect(delay >= .milliseconds(7500) && delay <= .seconds(5 * 3600))
      }
    }
  }

  @Test func aHeapGivesItsElementsInOrder() {
    var words = RandomWords(seed: 5)
    for count in 0..<60 {
      let numbers = (0..<count).map { _ in Int(words.next() % 20) }
      var pushed = BinaryHeap<Int>()
      for number in numbers { pushed.push(number) }
      var built = BinaryHeap(numbers)
      #expect(pushed.count == count && pushed.top == numbers.min())
      for number in numbers.sorted() {
        #expect(pushed.pop() == number)
        #expect(built.pop() == number)
      }
      #expect(pushed.pop() == nil && built.isEmpty)
    }
  }
}

@Suite struct TableTests {
  @Test func aTaskTableIsADictionaryInOrder() {
    var words = RandomWords(seed: 8)
    var table = TaskTable()
    var model: [TaskID: Int64] = [:]
    for _ in 0..<6000 {
      let id = TaskID(rawValue: Int64(words.next() % 400))
      if words.next() % 3 == 0 {
        table.remove(id)
        model[id] = nil
      } else if model[id] == nil, table[id] == nil {
        // An id is used once; a removed one may still have its place.
        let before = table.count
        table.insert(SchedulingTests.cell(id.rawValue, lane: 0))
        if table.count > before { model[id] = 0 }
      } else {
        table[id]?.entry.attempts += 1
        model[id]? += 1
      }
      #expect(table.count == model.count)
      #expect(table[id]?.entry.attempts == model[id])
    }
    var order: [TaskID] = []
    table.forEach { order.append($0.entry.id) }
    #expect(order == model.keys.sorted())
    var walked: [TaskID] = []
    var last = TaskID(rawValue: .min)
    while let next = table.next(after: last) {
      walked.append(next.entry.id)
      last = next.entry.id
    }
    #expect(walked == order)
    for id in [Int64.min, -1, .max] { #expect(table[TaskID(rawValue: id)] == nil) }
  }

  /// Over many pieces, whose tasks come a little out of order, go in any order, and are counted by their states.
  @Test func aLargeTaskTableStaysInOrder() {
    var words = RandomWords(seed: 11)
    var table = TaskTable()
    var model: [TaskID: TaskState] = [:]
    // Every third comes last of all: pieces in the middle grow, and are parted.
    let ids = Array(Int64(1)...6000)
    for id in ids.filter({ $0 % 3 != 0 }) + ids.filter({ $0 % 3 == 0 }) {
      table.insert(SchedulingTests.cell(id, lane: 0))
      model[TaskID(rawValue: id)] = .waiting
    }
    let states: [TaskState] = [
      .suspended, .waiting, .running(AttemptID(rawValue: 1)), .asking, .finalizing, .finished(.succeeded),
      .finished(.failed), .finished(.cancelled),
    ]
    for round in 0..<20_000 {
      let id = TaskID(rawValue: Int64(words.next() % 6001) + 1)
      if words.next() % 4 == 0 {
        table.remove(id)
        model[id] = nil
      } else if model[id] != nil {
        let state = states[Int(words.next() % 8)]
        table[id]?.entry.state = state
        model[id] = state
      }
      #expect(table[id]?.entry.state == model[id])
      guard round % 1000 == 0 else { continue }
      var counted: [TaskState: Int] = [:]
      table.census.forEach { counted[$0] = $1 }
      let expected = Dictionary(grouping: model.values) {
        if case .running = $0 { TaskState.running(AttemptID(rawValue: 0)) } else { $0 }
      }
      #expect(counted == expected.mapValues(\.count))
    }
    var order: [TaskID] = []
    table.forEach { order.append($0.entry.id) }
    #expect(order == model.keys.sorted() && table.count == order.count)
    var walked: [TaskID] = []
    while let next = table.next(after: walked.last ?? TaskID(rawValue: 0)) { walked.append(next.entry.id) }
    #expect(walked == order)
    for id in order { table.remove(id) }
    #expect(table.count == 0 && table.next(after: TaskID(rawValue: 0)) == nil)
  }

  @Test func aDeliveryQueueOffersInOrderUntilAcknowledged() {
    var words = RandomWords(seed: 6)
    var queue = DeliveryQueue()
    var model: [(record: DeliveryRecord, isOffered: Bool)] = []
    var next = Int64(1)
    for _ in 0..<8000 {
      switch words.next() % 8 {
      case 0...2:
        let record = DeliveryRecord(
          session: SessionID(rawValue: 1), number: DeliveryNumber(rawValue: next),
          kind: next % 2 == 0 ? .file : .completion, task: TaskID(rawValue: next / 2),
          queuedAt: WallInstant(milliseconds: 0))
        next += Int64(1 + words.next() % 3)
        queue.append(record)
        model.append((record, false))
      case 3, 4:
        let expected = model.firstIndex { !$0.isOffered }
        #expect(queue.nextOffer() == expected.map { model[$0].record })
        if let expected { model[expected].isOffered = true }
      case 5:
        let number = DeliveryNumber(rawValue: Int64(words.next() % UInt64(next + 2)))
        let place = model.firstIndex { $0.record.number == number }
        #expect(queue.contains(number) == (place != nil))
        #expect(queue.acknowledge(number) == place.map { model[$0].record })
        if let place {
          let record = model.remove(at: place).record
          // With a task's last word goes what was queued of it before.
          if record.kind == .completion { model.removeAll { $0.record.task == record.task } }
        }
      case 6:
        let task = TaskID(rawValue: Int64(words.next() % UInt64(next)) / 2)
        #expect(queue.removeAll(of: task) == model.filter { $0.record.task == task }.map(\.record))
        model.removeAll { $0.record.task == task }
      default:
        if words.next() % 20 == 0 {
          queue.rewind()
          for index in model.indices { model[index].isOffered = false }
        }
      }
      #expect(queue.count == model.count && queue.isEmpty == model.isEmpty)
      #expect(queue.outstanding == model.filter(\.isOffered).count)
    }
    #expect(queue.records == model.map(\.record))
  }
}
