/// Decides which waiting task runs next. Tasks queue in lanes, one for each session and origin; a lane admits as many
/// at once as the session allows for a host, and lanes take turns.
///
/// A lane that could not reach its host is *suspect*: only one task probes it, and after each failure the whole lane
/// waits, so that a server that returns is not met by a herd.
package struct Admission: Hashable, Sendable {
  private(set) var lanes: [Lane] = []
  private var laneIndex: [LaneKey: Int32] = [:]
  /// Lanes that may have an admissible task, in the order of their turns.
  private(set) var turns: [Int32] = []
  private(set) var firstTurn = 0
  private(set) var delayed = BinaryHeap<Delayed>()
  package private(set) var running = 0
  /// Transfers at once over all lanes.
  var runningLimit = Limits.running
  /// Origins that asked to be left alone, for lanes that are made meanwhile.
  private var rests: [String: BootInstant] = [:]

  package init() {}

  private struct LaneKey: Hashable, Sendable {
    var session: SessionID
    var origin: String
  }

  struct Lane: Hashable, Sendable {
    var origin: String
    var limit: Int
    var running = 0
    var ready = BinaryHeap<Ready>()
    var notBefore: BootInstant?
    var failures: Int64 = 0
    var hasTurn = false
    /// Places that were given up for others since the line was last tidied.
    var moved = 0

    var isSuspect: Bool { failures > 0 }
    var allowed: Int { isSuspect ? min(limit, 1) : limit }
  }

  package struct Ready: Hashable, Comparable, Sendable {
    var rank: UInt8
    var task: TaskID

    package static func < (left: Self, right: Self) -> Bool {
      left.rank != right.rank ? left.rank < right.rank : left.task < right.task
    }
  }

  enum Sleeper: Hashable, Sendable {
    case task(TaskID)
    case lane(Int32)
  }

  struct Delayed: Hashable, Comparable, Sendable {
    var at: BootInstant
    var sleeper: Sleeper

    static func < (left: Self, right: Self) -> Bool { left.at < right.at }
  }

  package var nextDeadline: BootInstant? { delayed.top?.at }

  /// The lane of a session and origin, made where it is new.
  package mutating func lane(session: SessionID, origin: String, limit: Int) -> Int32 {
    let key = LaneKey(session: session, origin: origin)
    let limit = max(1, limit)
    if let index = laneIndex[key] {
      lanes[Int(index)].limit = limit
      giveTurn(index)
      return index
    }
    let index = Int32(lanes.count)
    lanes.append(Lane(origin: origin, limit: limit))
    laneIndex[key] = index
    if let rest = rests[origin] { hold(index, until: rest) }
    return index
  }

  /// Puts a waiting task in line. `cell` is its cell in the table.
  package mutating func enqueue(_ cell: inout TaskCell, at now: BootInstant) {
    guard !cell.isQueued else { return }
    if let wakeAt = cell.wakeAt, wakeAt > now {
      delayed.push(Delayed(at: wakeAt, sleeper: .task(cell.entry.id)))
      return
    }
    cell.isQueued = true
    lanes[Int(cell.lane)].ready.push(Ready(rank: Self.rank(cell), task: cell.entry.id))
    giveTurn(cell.lane)
  }

  /// The lower, the sooner.
  static func rank(_ cell: TaskCell) -> UInt8 { ~cell.entry.priority }

  /// The priority of a task in line changed: it gets a new place, and the old one is skipped when its turn comes.
  /// `isCurrent` tells whether a place is its task's present one.
  mutating func move(_ cell: TaskCell, isCurrent: (Ready) -> Bool) {
    let lane = Int(cell.lane)
    lanes[lane].ready.push(Ready(rank: Self.rank(cell), task: cell.entry.id))
    lanes[lane].moved += 1
    giveTurn(cell.lane)
    guard lanes[lane].moved > 64, lanes[lane].moved * 2 > lanes[lane].ready.count else { return }
    var seen: Set<TaskID> = []
    let current = lanes[lane].ready.elements.filter { isCurrent($0) && seen.insert($0.task).inserted }
    lanes[lane].ready = BinaryHeap(current)
    lanes[lane].moved = 0
  }

  /// Wakes what has slept long enough; the tasks among it are given back, to be put in line if they still wait.
  package mutating func wake(at now: BootInstant) -> [TaskID] {
    var woken: [TaskID] = []
    while let top = delayed.top, top.at <= now {
      _ = delayed.pop()
      switch top.sleeper {
      case .task(let id): woken.append(id)
      case .lane(let index): giveTurn(index)
      }
    }
    return woken
  }

  /// Takes the next candidate that a slot is free for out of its line; the caller either occupies the slot with it
  /// (``occupy(_:)``) or, where it waits no more, asks again.
  package mutating func popCandidate(at now: BootInstant) -> Ready? {
    while running < runningLimit, let index = popTurn() {
      let lane = Int(index)
      // Without a slot the lane gets its next turn from `release`, while it is held from `wake`.
      if lanes[lane].running >= lanes[lane].allowed { continue }
      if let notBefore = lanes[lane].notBefore, notBefore > now { continue }
      guard let ready = lanes[lane].ready.pop() else { continue }
      giveTurn(index)
      return ready
    }
    return nil
  }

  /// Some of the tasks that are next in a lane's line, in no strict order.
  func upcoming(_ lane: Int32, _ count: Int) -> [TaskID] {
    lanes[Int(lane)].ready.elements.prefix(count).map(\.task)
  }

  package mutating func occupy(_ lane: Int32) {
    lanes[Int(lane)].running += 1
    running += 1
  }

  /// A running task gave its slot back.
  package mutating func release(_ lane: Int32) {
    lanes[Int(lane)].running -= 1
    running -= 1
    giveTurn(lane)
  }

  /// The host answered: the lane is trusted again.
  package mutating func noteAnswer(_ lane: Int32) {
    guard lanes[Int(lane)].isSuspect else { return }
    lanes[Int(lane)].failures = 0
    giveTurn(lane)
  }

  /// The host could not be reached. The lane waits, and then sends one probe.
  package mutating func noteUnreachable(_ lane: Int32, at now: BootInstant, random: UInt64) {
    // What was on its way when the first of them failed says nothing new: six at once are one failure, not six.
    if let notBefore = lanes[Int(lane)].notBefore, notBefore > now { return }
    lanes[Int(lane)].failures += 1
    let delay = RetryPolicy.delay(failures: lanes[Int(lane)].failures, isDiscretionary: false, random: random)
    hold(lane, until: now + delay)
  }

  /// The host asked to be left alone until then (Retry-After): every task of every session that would go there waits.
  package mutating func rest(hostOf lane: Int32, until moment: BootInstant, at now: BootInstant) {
    let origin = lanes[Int(lane)].origin
    rests = rests.filter { $0.value > now }
    rests[origin] = max(rests[origin] ?? moment, moment)
    for index in lanes.indices where lanes[index].origin == origin { hold(Int32(index), until: moment) }
  }

  /// Nothing of the lane starts before then.
  package mutating func hold(_ lane: Int32, until moment: BootInstant) {
    if let notBefore = lanes[Int(lane)].notBefore, notBefore >= moment { return }
    lanes[Int(lane)].notBefore = moment
    delayed.push(Delayed(at: moment, sleeper: .lane(lane)))
  }

  package func heldUntil(_ lane: Int32) -> BootInstant? { lanes[Int(lane)].notBefore }
  package func isFull(_ lane: Int32) -> Bool { lanes[Int(lane)].running >= lanes[Int(lane)].allowed }
  package func runningInLane(_ lane: Int32) -> Int { lanes[Int(lane)].running }
  package func limit(_ lane: Int32) -> Int { lanes[Int(lane)].allowed }

  private mutating func giveTurn(_ lane: Int32) {
    guard !lanes[Int(lane)].hasTurn, !lanes[Int(lane)].ready.isEmpty else { return }
    lanes[Int(lane)].hasTurn = true
    turns.append(lane)
  }

  private mutating func popTurn() -> Int32? {
    guard firstTurn < turns.count else {
      turns.removeAll(keepingCapacity: true)
      firstTurn = 0
      return nil
    }
    let lane = turns[firstTurn]
    firstTurn += 1
    if firstTurn > 1024, firstTurn * 2 > turns.count {
      turns.removeFirst(firstTurn)
      firstTurn = 0
    }
    lanes[Int(lane)].hasTurn = false
    return lane
  }
}
