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
///
/// They stand in pieces, so that no task that comes or goes has all others copied: with a million tasks that is
/// hundreds of megabytes, and a turn of the loop that keeps everybody waiting.
package struct TaskTable: Hashable, Sendable {
  /// Never empty.
  private var pieces: [Piece] = []
  /// The first id of each piece: what is looked through for one.
  private var starts: [TaskID] = []
  package private(set) var count = 0
  package private(set) var census = TaskCensus()

  fileprivate struct Piece: Hashable, Sendable {
    var ids: [TaskID] = []
    var cells: [TaskCell?] = []
    var removed = 0
  }

  /// Cells that a piece has room for: about 110 KiB.
  private static let pieceSize = 512

  private struct Place {
    var piece: Int
    var index: Int
  }

  package init() {}

  /// The cell of a task, to be changed in its place; one that is not there stays so (see ``insert(_:)``,
  /// ``remove(_:)``).
  package subscript(id: TaskID) -> TaskCell? {
    get { place(of: id).flatMap { pieces[$0.piece].cells[$0.index] } }
    _modify {
      guard let place = place(of: id) else {
        var none: TaskCell?
        yield &none
        return
      }
      // Without a look at all that was there: each look is a copy, and there are thirty changes to a task's life.
      let before = pieces[place.piece].cells[place.index]?.entry.state
      yield &pieces[place.piece].cells[place.index]
      census.move(from: before, to: pieces[place.piece].cells[place.index]?.entry.state)
    }
  }

  package mutating func remove(_ id: TaskID) {
    guard let place = place(of: id), let state = pieces[place.piece].cells[place.index]?.entry.state else { return }
    pieces[place.piece].cells[place.index] = nil
    pieces[place.piece].removed += 1
    count -= 1
    census.move(from: state, to: nil)
    tidy(place.piece)
  }

  /// Notes that the row of a task must be written, `progress` also its second half. True when that is news.
  mutating func noteDirt(of id: TaskID, progress: Bool) -> Bool {
    guard let place = place(of: id), let wasDirty = pieces[place.piece].cells[place.index]?.isDirty else {
      return false
    }
    pieces[place.piece].cells[place.index]?.isDirty = true
    if progress { pieces[place.piece].cells[place.index]?.isProgressDirty = true }
    return !wasDirty
  }

  /// Adds a task whose id is new. Ids only grow, so its place is at the end or, where its files took longer to look at
  /// than its successors', close to it.
  package mutating func insert(_ cell: TaskCell) {
    let id = cell.entry.id
    guard let last = pieces.indices.last, let newest = pieces[last].ids.last, newest >= id else {
      if pieces.last.map({ $0.ids.count >= Self.pieceSize }) ?? true {
        var piece = Piece()
        piece.ids.reserveCapacity(Self.pieceSize)
        piece.cells.reserveCapacity(Self.pieceSize)
        pieces.append(piece)
        starts.append(id)
      }
      let last = pieces.count - 1
      pieces[last].ids.append(id)
      pieces[last].cells.append(cell)
      return noteArrival(cell)
    }
    let piece = piece(for: id)
    let index = pieces[piece].ids.lowerBound(id)
    if index < pieces[piece].ids.count, pieces[piece].ids[index] == id { return }
    pieces[piece].ids.insert(id, at: index)
    pieces[piece].cells.insert(cell, at: index)
    starts[piece] = pieces[piece].ids[0]
    noteArrival(cell)
    if pieces[piece].ids.count > 2 * Self.pieceSize { split(piece) }
  }

  /// The first task with a larger id.
  package func next(after id: TaskID) -> TaskCell? {
    guard !pieces.isEmpty else { return nil }
    var piece = piece(for: id)
    var index = pieces[piece].ids.lowerBound(TaskID(rawValue: id.rawValue.addingClamped(1)))
    while piece < pieces.count {
      while index < pieces[piece].cells.count {
        if let cell = pieces[piece].cells[index] { return cell }
        index += 1
      }
      piece += 1
      index = 0
    }
    return nil
  }

  package func forEach(_ body: (TaskCell) -> Void) {
    for piece in pieces {
      for case .some(let cell) in piece.cells { body(cell) }
    }
  }

  /// The lanes of all tasks stand elsewhere now.
  mutating func moveLanes(_ places: [Int32?]) {
    for piece in pieces.indices {
      for index in pieces[piece].cells.indices {
        if let lane = pieces[piece].cells[index]?.lane, let place = places[Int(lane)], place != lane {
          pieces[piece].cells[index]?.lane = place
        }
      }
    }
  }

  private mutating func noteArrival(_ cell: TaskCell) {
    count += 1
    census.move(from: nil, to: cell.entry.state)
  }

  /// Gives back the places of removed tasks when they are the most of a piece.
  private mutating func tidy(_ piece: Int) {
    let (held, removed) = (pieces[piece].ids.count, pieces[piece].removed)
    if removed == held {
      pieces.remove(at: piece)
      starts.remove(at: piece)
    } else if removed > 16, removed * 2 > held {
      pieces[piece] = pieces[piece].part(0..<held)
      starts[piece] = pieces[piece].ids[0]
    }
  }

  private mutating func split(_ piece: Int) {
    let whole = pieces[piece]
    let middle = whole.ids.count / 2
    let parts = [whole.part(0..<middle), whole.part(middle..<whole.ids.count)].filter { !$0.ids.isEmpty }
    pieces.replaceSubrange(piece...piece, with: parts)
    starts.replaceSubrange(piece...piece, with: parts.map { $0.ids[0] })
  }

  private func place(of id: TaskID) -> Place? {
    guard !pieces.isEmpty else { return nil }
    let piece = piece(for: id)
    let index = pieces[piece].ids.lowerBound(id)
    return index < pieces[piece].ids.count && pieces[piece].ids[index] == id ? Place(piece: piece, index: index) : nil
  }

  /// The piece in which the id stands, or would; there must be one.
  private func piece(for id: TaskID) -> Int {
    // Most ids have no gaps before them.
    let guess = Int(clamping: id.rawValue.subtractingClamped(starts[0].rawValue)) / Self.pieceSize
    if guess >= 0, guess < starts.count, starts[guess] <= id, guess + 1 == starts.count || id < starts[guess + 1] {
      return guess
    }
    var low = 0
    var high = starts.count
    while low < high {
      let middle = (low + high) / 2
      if starts[middle] <= id { low = middle + 1 } else { high = middle }
    }
    return max(0, low - 1)
  }
}

extension TaskTable.Piece {
  /// What is left in the range, and no room for more.
  fileprivate func part(_ range: Range<Int>) -> Self {
    let left = range.filter { cells[$0] != nil }
    return Self(ids: left.map { ids[$0] }, cells: left.map { cells[$0] })
  }
}

extension [TaskID] {
  /// Where the id stands in ids that grow, or would.
  fileprivate func lowerBound(_ id: TaskID) -> Int {
    // Try the place that ids without gaps would give.
    if let first {
      let guess = Int(clamping: id.rawValue.subtractingClamped(first.rawValue))
      if guess >= 0, guess < count, self[guess] == id { return guess }
    }
    var low = 0
    var high = count
    while low < high {
      let middle = (low + high) / 2
      if self[middle] < id { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

/// How many tasks are in each state, kept up to date: a question about it costs no look at all of them.
package struct TaskCensus: Hashable, Sendable {
  private var suspended = 0
  private var waiting = 0
  private var running = 0
  private var asking = 0
  private var finalizing = 0
  private var succeeded = 0
  private var failed = 0
  private var cancelled = 0

  package init() {}

  /// Of each state that some task is in.
  package func forEach(_ body: (TaskState, Int) -> Void) {
    let counts: [(TaskState, Int)] = [
      (.suspended, suspended), (.waiting, waiting), (.running(AttemptID(rawValue: 0)), running), (.asking, asking),
      (.finalizing, finalizing), (.finished(.succeeded), succeeded), (.finished(.failed), failed),
      (.finished(.cancelled), cancelled),
    ]
    for (state, count) in counts where count > 0 { body(state, count) }
  }

  fileprivate mutating func move(from old: TaskState?, to new: TaskState?) {
    if let old { add(-1, to: old) }
    if let new { add(1, to: new) }
  }

  private mutating func add(_ difference: Int, to state: TaskState) {
    switch state {
    case .suspended: suspended += difference
    case .waiting: waiting += difference
    case .running: running += difference
    case .asking: asking += difference
    case .finalizing: finalizing += difference
    case .finished(.succeeded): succeeded += difference
    case .finished(.failed): failed += difference
    case .finished(.cancelled): cancelled += difference
    }
  }
}
