package import TransferCore

/// A part file in a user's folder that its task has left behind: nobody sweeps such a folder, so it is on record until
/// its removal was seen.
package struct Leftover: Hashable, Sendable {
  package var task: TaskID
  package var path: String

  package init(task: TaskID, path: String) {
    self.task = task
    self.path = path
  }
}

/// What the caller has seen of part files in users' folders.
package struct RemovedParts: Hashable, Sendable {
  /// Gone before their tasks are: these leave nothing behind.
  package var known: Set<TaskID> = []
  /// Left behind earlier, and gone now.
  package var settled: [TaskID] = []

  package init() {}

  package var isEmpty: Bool { known.isEmpty && settled.isEmpty }

  func keepLeftover(of change: StoreChange, in database: OpenDatabase) throws(StoreError) {
    guard case .removeTask(let id) = change, !known.contains(id) else { return }
    try database.keepLeftover.bind(id.rawValue)
    try database.keepLeftover.run()
  }

  func settle(in database: OpenDatabase) throws(StoreError) {
    for id in settled {
      try database.settleLeftover.bind(id.rawValue)
      try database.settleLeftover.run()
    }
  }
}

extension TransferStore {
  /// What removed tasks have left behind, as far as is known.
  package func leftovers() throws(StoreError) -> [Leftover] {
    let rows = try Statement(try opened().connection, "SELECT task, path FROM leftover ORDER BY task")
    var leftovers: [Leftover] = []
    while try rows.step() {
      do throws(RowFault) {
        guard let id = try rows.nextInteger(), let path = try rows.nextText(), path.hasPrefix("/") else { continue }
        leftovers.append(Leftover(task: TaskID(rawValue: id), path: path))
      } catch {
        // It names no file that could be removed.
      }
    }
    return leftovers
  }
}
