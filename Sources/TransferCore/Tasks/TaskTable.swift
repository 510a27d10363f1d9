/// A task in memory: its stored entry and what only this life of the daemon knows. Laid out like ``TaskEntry``.
package struct TaskCell: Hashable, Sendable {
  package var entry: TaskEntry
  /// An item for it is in the lane's heap.
  package var isQueued = false
  /// The row must be written at the end of the tick.
  package var isDirty = false
  package var isProgressDirty = false
  /// The row is not there yet.
  package var isNew = false
  /// Questions since the last progress.
  package var questionsInRow: UInt8 = 0
  /// Discretionary, and so near its deadline that it waits for nothing any more.
  package var isUrgent = false
  /// Not before this moment; from `notBefore` by the clock reading at which it was set.
  package var wakeAt: BootInstant?
  /// The task's lane in ``Admission``.
  package var lane: Int32
  /// When the task's deadline falls due, by this boot's clock.
  package var deadlineAt: BootInstant?
  /// Digest of the destination that the task claims; 0: none.
  package var claim: UInt64 = 0
  package var keyDigest: KeyDigest?

  package init(entry: TaskEntry, lane: Int32) {
    self.entry = entry
    self.lane = lane
  }

  mutating func clearDirt() {
    isDirty = false
    isProgressDirty = false
    isNew = false
  }
}

/// All tasks in the order of their ids, found by binary search: no hashing, no order that differs between runs.
package struct TaskTable: Hashable, Sendable {
  private var ids: [TaskID] = []
  private var cells: [TaskCell?] = []
  private var removed = 0

  package init() {}

  package var count: Int { ids.count - removed }

  /// The cell of a task, to be changed in its place; one that is not there stays so (see ``insert(_:)``,
  /// ``remove(_:)``).
  package subscript(id: TaskID) -> TaskCell? {
    get { index(of: id).flatMap { cells[$0] } }
    _modify {
      guard let index = index(of: id) else {
        var none: TaskCell?
        yield &none
        return
      }
      // Without a look at what was there: each look is a copy, and there are thirty changes to a task's life.
      yield &cells[index]
    }
  }

  package mutating func remove(_ id: TaskID) {
    guard let index = index(of: id), cells[index] != nil else { return }
    cells[index] = nil
    noteRemoval()
  }

  /// Notes that the row of a task must be written, `progress` also its second half. True when that is news.
  mutating func noteDirt(of id: TaskID, progress: Bool) -> Bool {
    guard let index = index(of: id), let wasDirty = cells[index]?.isDirty else { return false }
    cells[index]?.isDirty = true
    if progress { cells[index]?.isProgressDirty = true }
    return !wasDirty
  }

  /// Adds a task whose id is new. Ids only grow, so its place is at the end or, where its files took longer to look at
  /// than its successors', close to it.
  package mutating func insert(_ cell: TaskCell) {
    let id = cell.entry.id
    guard let last = ids.last, last >= id else {
      ids.append(id)
      cells.append(cell)
      return
    }
    let position = lowerBound(id)
    guard ids[position] != id else { return }
    ids.insert(id, at: position)
    cells.insert(cell, at: position)
  }

  package mutating func reserve(_ count: Int) {
    ids.reserveCapacity(count)
    cells.reserveCapacity(count)
  }

  /// The first task with a larger id.
  package func next(after id: TaskID) -> TaskCell? {
    var position = lowerBound(TaskID(rawValue: id.rawValue.addingClamped(1)))
    while position < cells.count {
      if let cell = cells[position] { return cell }
      position += 1
    }
    return nil
  }

  package func forEach(_ body: (TaskCell) -> Void) {
    for case .some(let cell) in cells { body(cell) }
  }

  /// The lanes of all tasks stand elsewhere now.
  mutating func moveLanes(_ places: [Int32?]) {
    for index in cells.indices {
      if let lane = cells[index]?.lane, let place = places[Int(lane)] { cells[index]?.lane = place }
    }
  }

  private mutating func noteRemoval() {
    removed += 1
    guard removed > 64, removed * 2 > ids.count else { return }
    var keptIDs: [TaskID] = []
    var keptCells: [TaskCell?] = []
    keptIDs.reserveCapacity(ids.count - removed)
    keptCells.reserveCapacity(ids.count - removed)
    for (index, cell) in cells.enumerated() where cell != nil {
      keptIDs.append(ids[index])
      keptCells.append(cell)
    }
    ids = keptIDs
    cells = keptCells
    removed = 0
  }

  private func index(of id: TaskID) -> Int? {
    let position = lowerBound(id)
    return position < ids.count && ids[position] == id ? position : nil
  }

  private func lowerBound(_ id: TaskID) -> Int {
    // Most look-ups are of recent tasks; try the place that ids without gaps would give.
    if let first = ids.first {
      let guess = Int(clamping: id.rawValue.subtractingClamped(first.rawValue))
      if guess >= 0, guess < ids.count, ids[guess] == id { return guess }
    }
    var low = 0
    var high = ids.count
    while low < high {
      let middle = (low + high) / 2
      if ids[middle] < id { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
