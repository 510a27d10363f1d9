/// A session in memory.
package struct SessionCell: Hashable, Sendable {
  private var boxedRecord: Boxed<SessionRecord>
  package var attached: PeerID?
  /// When the last client left.
  package var detachedAt: BootInstant?
  package var deliveries = DeliveryQueue()
  /// Tasks that will go on by themselves or by an answer: waiting, running, asking or finalizing.
  package var unfinished = 0
  /// Tasks whose question waits for an answer.
  package var asking: Set<TaskID> = []
  /// All tasks, finished ones included.
  package private(set) var taskCount = 0
  /// Those among them that need their client, in the order of their ids: each of its comings and goings is about them,
  /// and may not cost a look at every task of the daemon.
  package private(set) var dataTasks: [TaskID] = []
  package var isDirty = false

  package init(record: SessionRecord) { boxedRecord = Boxed(record) }

  mutating func add(_ task: TaskEntry) {
    taskCount += 1
    if task.kind == .data { dataTasks.insert(task.id, at: place(of: task.id)) }
  }

  mutating func remove(_ task: TaskEntry) {
    taskCount -= 1
    let place = place(of: task.id)
    if place < dataTasks.count, dataTasks[place] == task.id { dataTasks.remove(at: place) }
  }

  /// Where it stands, or would. Ids grow, so a new one's place is at the end.
  private func place(of task: TaskID) -> Int {
    guard let last = dataTasks.last, last >= task else { return dataTasks.count }
    var (low, high) = (0, dataTasks.count)
    while low < high {
      let middle = (low + high) / 2
      if dataTasks[middle] < task { low = middle + 1 } else { high = middle }
    }
    return low
  }

  package var record: SessionRecord {
    // SAFETY: as of ``Boxed/value``.
    unsafeAddress { unsafe boxedRecord.address }
    unsafeMutableAddress { unsafe boxedRecord.ownAddress }
  }
}

/// All sessions, in the order in which they were made.
package struct SessionTable: Hashable, Sendable {
  private var cells: [SessionID: SessionCell] = [:]
  private var byKey: [SessionKey: SessionID] = [:]
  package private(set) var order: [SessionID] = []
  private var dirty: [SessionID] = []
  package private(set) var unfinishedCount = 0

  package init() {}

  package var count: Int { order.count }

  package subscript(id: SessionID) -> SessionCell? { cells[id] }
  package subscript(key: SessionKey) -> SessionID? { byKey[key] }

  /// Changes a session; the change of its record is written at the end of the tick.
  mutating func update(_ id: SessionID, isStored: Bool = true, _ body: (inout SessionCell) -> Void) {
    guard let index = cells.index(forKey: id) else { return }
    let before = cells.values[index].unfinished
    body(&cells.values[index])
    unfinishedCount += cells.values[index].unfinished - before
    if isStored, !cells.values[index].isDirty {
      cells.values[index].isDirty = true
      dirty.append(id)
    }
  }

  mutating func insert(_ cell: SessionCell, isStored: Bool) {
    let id = cell.record.id
    guard cells[id] == nil else { return }
    order.append(id)
    byKey[cell.record.key] = id
    unfinishedCount += cell.unfinished
    cells[id] = cell
    if isStored { update(id) { _ in } }
  }

  mutating func remove(_ id: SessionID) {
    guard let cell = cells.removeValue(forKey: id) else { return }
    unfinishedCount -= cell.unfinished
    byKey[cell.record.key] = nil
    order.removeAll { $0 == id }
  }

  mutating func takeDirty() -> [SessionRecord] {
    let taken = dirty
    dirty.removeAll(keepingCapacity: true)
    return taken.compactMap { id in
      guard cells[id] != nil else { return nil }
      cells[id]?.isDirty = false
      return cells[id]?.record
    }
  }
}
