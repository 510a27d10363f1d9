/// A process of an app, as its connections show it.
package struct AppProcess: Hashable, Sendable {
  package var processID: Int32
  package var presence: AppPresence
  /// The launch that started it; nil: a person did.
  package var launch: Int64?
  package var peers: [PeerID] = []

  package init(processID: Int32, presence: AppPresence, launch: Int64? = nil) {
    self.processID = processID
    self.presence = presence
    self.launch = launch
  }
}

/// A launch that is not over.
package struct ActiveLaunch: Hashable, Sendable {
  package struct Part: Hashable, Sendable {
    package var session: SessionID
    package var isHandled = false
  }

  package enum Phase: Hashable, Sendable {
    /// The daemon that began it is gone; its process is being looked for.
    case searching
    case starting
    case running
    /// Its process is being ended.
    case ending
    /// Its process has ended, and what it said last may still be on its way.
    case exited
  }

  package var number: Int64
  package var phase: Phase
  /// The launch that started the process which serves this one: itself, or an earlier one whose process was woken. Nil:
  /// a process that the daemon did not start.
  package var server: Int64?
  /// What it is for, in the order in which it came.
  package var parts: [Part]
  /// When the phase is over.
  package var deadline: BootInstant?
  /// Its process was looked for a second time.
  var wasSoughtAgain = false
  package var ending: ProcessEnding?
  package var output = ""
}

/// An app in memory.
package struct AppCell: Hashable, Sendable {
  package var id: String
  /// Nil: it is not registered, and only its connections are known.
  package var record: AppRecord?
  package var processes: [AppProcess] = []
  package var current: ActiveLaunch?
  /// No launch before this moment; nil: the next may come at once.
  package var opensAt: BootInstant?
  /// Sessions that may want a launch.
  var candidates: [SessionID] = []
  /// The last ones, oldest first.
  package var launches: [LaunchRecord] = []
  var isDirty = false
  var dirtyLaunches: [Int64] = []

  package init(id: String) { self.id = id }

  package var isForeground: Bool { processes.contains { $0.presence == .foreground } }
  /// Nothing is known of it any more.
  var isIdle: Bool { record == nil && processes.isEmpty }

  /// When the budget opens; the delay of a process that is being started has not begun.
  var budgetOpensAt: BootInstant? { current?.phase == .starting ? nil : opensAt }

  /// The delay runs from the deed, however long its decision took to become durable.
  mutating func beginDelay(_ now: ClockReading) {
    guard let delay = record?.delay, delay > .zero else { return }
    record?.lastLaunchAt = now.wall
    opensAt = now.boot + delay
  }

  func process(of peer: PeerID) -> Int? { processes.firstIndex { $0.peers.contains(peer) } }

  mutating func updateLaunch(_ number: Int64, _ body: (inout LaunchRecord) -> Void) {
    guard let index = launches.lastIndex(where: { $0.number == number }) else { return }
    body(&launches[index])
    if !dirtyLaunches.contains(number) { dirtyLaunches.append(number) }
  }
}

/// All apps, in the order of their ids.
package struct AppTable: Hashable, Sendable {
  package private(set) var cells: [AppCell] = []
  private var dirty: [String] = []
  /// Something may have changed what is to be launched.
  var isTurnDue = false
  /// No launch before this moment; see ``LaunchPolicy/restartGrace``.
  var opensAt: BootInstant?
  private(set) var nextDeadline: BootInstant?

  package init() {}

  package var isEmpty: Bool { cells.isEmpty }

  package subscript(id: String) -> AppCell? { place(of: id).found.map { cells[$0] } }

  private func place(of id: String) -> (found: Int?, slot: Int) {
    var low = 0
    var high = cells.count
    while low < high {
      let middle = (low + high) / 2
      if cells[middle].id < id { low = middle + 1 } else { high = middle }
    }
    return (low < cells.count && cells[low].id == id ? low : nil, low)
  }

  /// Changes an app, which is made where it is new and `makes` it, and goes when nothing is known of it any more.
  mutating func update(_ id: String, makes: Bool = false, isStored: Bool = false, _ body: (inout AppCell) -> Void) {
    let (found, slot) = place(of: id)
    guard found != nil || makes else { return }
    if found == nil { cells.insert(AppCell(id: id), at: slot) }
    body(&cells[slot])
    let isChanged = isStored || !cells[slot].dirtyLaunches.isEmpty
    if isChanged, !cells[slot].isDirty {
      cells[slot].isDirty = true
      dirty.append(id)
    }
    if cells[slot].isIdle { cells.remove(at: slot) }
    noteTurn()
  }

  mutating func setGrace(until moment: BootInstant?) {
    opensAt = moment
    noteTurn()
  }

  private mutating func noteTurn() {
    isTurnDue = true
    // Before the table opens no app's budget does: a moment that has passed would be due without end.
    let budgets = cells.compactMap { cell in cell.budgetOpensAt.map { max($0, opensAt ?? $0) } }
    let deadlines = cells.compactMap { $0.current?.deadline }
    nextDeadline = (budgets + deadlines + [opensAt].compactMap(\.self)).min()
  }

  mutating func takeDirty() -> [AppChange] {
    guard !dirty.isEmpty else { return [] }
    var changes: [AppChange] = []
    for id in dirty {
      guard let index = place(of: id).found else { continue }
      cells[index].isDirty = false
      guard let record = cells[index].record else { continue }
      changes.append(.put(record))
      for number in cells[index].dirtyLaunches {
        if let launch = cells[index].launches.last(where: { $0.number == number }) {
          changes.append(.putLaunch(launch))
        }
      }
      while cells[index].launches.count > Limits.launchHistory {
        changes.append(.removeLaunch(app: id, number: cells[index].launches.removeFirst().number))
      }
      cells[index].dirtyLaunches.removeAll()
    }
    dirty.removeAll()
    return changes
  }
}
