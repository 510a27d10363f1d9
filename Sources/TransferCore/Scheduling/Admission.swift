/// Decides which waiting task runs next. Tasks queue in lanes, one for each session and origin; a lane admits as many
/// at once as the session allows for a host, and lanes take turns.
///
/// A lane that could not reach its host is *suspect*: only one task probes it, and after each failure the whole lane
/// waits, so that a server that returns is not met by a herd.
///
/// A lane has a line for each set of constraints. While the device does not meet them nothing is taken out of a line,
/// and a lane that has no other gets no turn until conditions change: a million tasks that wait for a condition cost
/// nothing.
package struct Admission: Hashable, Sendable {
  private(set) var lanes: [Lane] = []
  private var laneIndex: [LaneKey: Int32] = [:]
  /// Lanes that may have an admissible task, in the order of their turns.
  private(set) var turns: [Int32] = []
  private(set) var firstTurn = 0
  private(set) var delayed = BinaryHeap<Delayed>()
  package private(set) var running = 0
  /// When the last slot of all was taken.
  package private(set) var fullSince: WallInstant?
  /// Transfers at once over all lanes.
  var runningLimit = Limits.running
  /// Origins that asked to be left alone, for lanes that are made meanwhile.
  private var rests: [String: BootInstant] = [:]
  /// What the device's conditions meet now.
  package private(set) var satisfied = Constraints.all
  /// Lanes all of whose lines wait for conditions.
  private(set) var parked: [Int32] = []
  /// Lanes that were left when they were last tidied.
  private var tidied = 4

  package init() {}

  private struct LaneKey: Hashable, Sendable {
    var session: SessionID
    var origin: String
  }

  struct Lane: Hashable, Sendable {
    var session: SessionID
    var origin: String
    var limit: Int
    var running = 0
    /// One for each set of constraints that tasks of the lane have had; few.
    var lines: [Line] = []
    /// This machine itself: no network is needed to reach it.
    var isLoopback: Bool
    var notBefore: BootInstant?
    var failures: Int64 = 0
    var hasTurn = false
    var isParked = false
    /// Places that were given up for others since the lines were last tidied.
    var moved = 0
    /// When the last free slot was taken.
    var fullSince: WallInstant?

    var isEmpty: Bool { lines.allSatisfy { $0.ready.isEmpty } }

    /// The line whose first task is next, of those that may send one.
    func next(_ satisfied: Constraints) -> Int? {
      var best: Int?
      for (index, line) in lines.enumerated() where line.required.isSubset(of: satisfied) {
        guard let top = line.ready.top else { continue }
        if let known = best, let other = lines[known].ready.top, other < top { continue }
        best = index
      }
      return best
    }

    var isSuspect: Bool { failures > 0 }
    var allowed: Int { isSuspect ? min(limit, 1) : limit }
  }

  /// Tasks with one set of constraints.
  struct Line: Hashable, Sendable {
    var required: Constraints
    var ready = BinaryHeap<Ready>()
  }

  package struct Ready: Hashable, Comparable, Sendable {
    var rank: UInt8
    /// Of the line that the place is in.
    var required: Constraints
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
    lanes.append(Lane(session: session, origin: origin, limit: limit, isLoopback: Origin.isLoopback(origin)))
    laneIndex[key] = index
    if let rest = rests[origin] { hold(index, until: rest) }
    return index
  }

  /// So many lanes are new that a look at all tasks is worth it: hosts come and go, and a daemon stays.
  var isUntidy: Bool { lanes.count > 2 * tidied }

  /// Forgets lanes that no task is in, unless their host has a rest.
  /// - Parameter isUsed: of each lane, whether a task is in it.
  /// - Returns: where each lane that is left stands now.
  mutating func tidy(_ isUsed: [Bool]) -> [Int32?] {
    var isKept = isUsed
    for case .lane(let lane) in delayed.elements.map(\.sleeper) { isKept[Int(lane)] = true }
    var places: [Int32?] = []
    var left: [Lane] = []
    for (lane, isKept) in zip(lanes, isKept) {
      places.append(isKept ? Int32(left.count) : nil)
      if isKept { left.append(lane) }
    }
    lanes = left
    tidied = max(4, left.count)
    laneIndex = [:]
    for (place, lane) in left.enumerated() {
      laneIndex[LaneKey(session: lane.session, origin: lane.origin)] = Int32(place)
    }
    turns = turns[firstTurn...].compactMap { places[Int($0)] }
    firstTurn = 0
    parked = parked.compactMap { places[Int($0)] }
    delayed = BinaryHeap(
      delayed.elements.compactMap { delayed in
        guard case .lane(let lane) = delayed.sleeper else { return delayed }
        return places[Int(lane)].map { Delayed(at: delayed.at, sleeper: .lane($0)) }
      })
    return places
  }

  /// Puts a waiting task in line. `cell` is its cell in the table.
  package mutating func enqueue(_ cell: inout TaskCell, at now: BootInstant) {
    guard !cell.isQueued else { return }
    if let wakeAt = cell.wakeAt, wakeAt > now {
      delayed.push(Delayed(at: wakeAt, sleeper: .task(cell.entry.id)))
      return
    }
    cell.isQueued = true
    push(cell)
  }

  private mutating func push(_ cell: TaskCell) {
    let required = required(cell)
    let place = Ready(rank: Self.rank(cell), required: required, task: cell.entry.id)
    let lane = Int(cell.lane)
    if let line = lanes[lane].lines.firstIndex(where: { $0.required == required }) {
      lanes[lane].lines[line].ready.push(place)
    } else {
      lanes[lane].lines.append(Line(required: required, ready: BinaryHeap([place])))
    }
    giveTurn(cell.lane)
  }

  /// All that a task requires now.
  package func required(_ cell: TaskCell) -> Constraints {
    var required = cell.entry.constraints
    if !lanes[Int(cell.lane)].isLoopback { required.insert(.network) }
    if cell.entry.isDiscretionary, !cell.isUrgent { required.formUnion(.discretionary) }
    return required
  }

  /// Whether a place is its task's present one.
  package func isCurrent(_ place: Ready, _ cell: TaskCell) -> Bool {
    place.rank == Self.rank(cell) && place.required == required(cell)
  }

  /// The lower, the sooner.
  static func rank(_ cell: TaskCell) -> UInt8 { ~cell.entry.priority }

  /// The priority or the constraints of a task in line changed: it gets a new place, and the old one is skipped when
  /// its turn comes. `cells` are those of all tasks.
  mutating func move(_ cell: TaskCell, _ cells: (TaskID) -> TaskCell?) {
    push(cell)
    let lane = Int(cell.lane)
    lanes[lane].moved += 1
    guard lanes[lane].moved > 64, lanes[lane].moved * 2 > lanes[lane].lines.reduce(0, { $0 + $1.ready.count }) else {
      return
    }
    var seen: Set<TaskID> = []
    for line in lanes[lane].lines.indices {
      let current = lanes[lane].lines[line].ready.elements.filter { place in
        cells(place.task).map { isCurrent(place, $0) } ?? false && seen.insert(place.task).inserted
      }
      lanes[lane].lines[line].ready = BinaryHeap(current)
    }
    lanes[lane].moved = 0
  }

  /// The device meets other constraints than before. Gives back the lanes that have a line to send from again.
  mutating func take(_ new: Constraints) -> [Int32] {
    guard new != satisfied else { return [] }
    satisfied = new
    let waiting = parked
    parked.removeAll(keepingCapacity: true)
    for lane in waiting {
      lanes[Int(lane)].isParked = false
      giveTurn(lane)
    }
    return waiting.filter { lanes[Int($0)].hasTurn }
  }

  /// Nothing of the lane starts before then, and one task goes ahead of the others.
  mutating func probe(_ lane: Int32, at moment: BootInstant) {
    lanes[Int(lane)].failures = max(lanes[Int(lane)].failures, 1)
    hold(lane, until: moment)
  }

  /// Wakes what has slept long enough, ``Limits/dueInTick`` at most; the tasks among it are given back, to be put in
  /// line if they still wait.
  package mutating func wake(at now: BootInstant) -> [TaskID] {
    var woken: [TaskID] = []
    var left = Limits.dueInTick
    while left > 0, let top = delayed.top, top.at <= now {
      left -= 1
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
      guard let line = lanes[lane].next(satisfied), let ready = lanes[lane].lines[line].ready.pop() else {
        park(index)
        continue
      }
      giveTurn(index)
      return ready
    }
    return nil
  }

  /// Some of the tasks that are next in a lane's line, in no strict order.
  func upcoming(_ lane: Int32, _ count: Int) -> [TaskID] {
    guard let line = lanes[Int(lane)].next(satisfied) else { return [] }
    return lanes[Int(lane)].lines[line].ready.elements.prefix(count).map(\.task)
  }

  package mutating func occupy(_ lane: Int32, at now: WallInstant? = nil) {
    lanes[Int(lane)].running += 1
    if lanes[Int(lane)].running >= lanes[Int(lane)].allowed { lanes[Int(lane)].fullSince = now }
    running += 1
    if running >= runningLimit { fullSince = now }
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

  /// One text for all tasks of the lane: a copy for each would be an allocation of 64 bytes.
  func origin(_ lane: Int32) -> String { lanes[Int(lane)].origin }
  package func heldUntil(_ lane: Int32) -> BootInstant? { lanes[Int(lane)].notBefore }
  package func isFull(_ lane: Int32) -> Bool { lanes[Int(lane)].running >= lanes[Int(lane)].allowed }
  package func fullSince(_ lane: Int32) -> WallInstant? { lanes[Int(lane)].fullSince }
  package func runningInLane(_ lane: Int32) -> Int { lanes[Int(lane)].running }
  package func limit(_ lane: Int32) -> Int { lanes[Int(lane)].allowed }

  private mutating func giveTurn(_ lane: Int32) {
    guard !lanes[Int(lane)].hasTurn else { return }
    guard lanes[Int(lane)].next(satisfied) != nil else { return park(lane) }
    lanes[Int(lane)].hasTurn = true
    turns.append(lane)
  }

  /// A lane that can send nothing until conditions change; none where it has no line at all.
  private mutating func park(_ lane: Int32) {
    guard !lanes[Int(lane)].isParked, !lanes[Int(lane)].isEmpty else { return }
    lanes[Int(lane)].isParked = true
    parked.append(lane)
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
