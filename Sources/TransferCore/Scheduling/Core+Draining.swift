/// Before another daemon takes over (an upgrade): nothing new begins, and what would lose by being stopped may end.
extension Core {
  /// Tasks on the wire that cannot be continued where they stand: stopping one means to fetch or send again what was
  /// moved, or never to know what the server did.
  package var drainees: [TaskID] {
    active.keys.sorted().filter { id in
      guard let work = active[id], work.phase == .onTheWire, let entry = tasks[id]?.entry else { return false }
      switch entry.kind {
      case .data, .upload: return true
      case .download: return !entry.isRepeatable || entry.received > 0 && !isWorthStopping(id, entry)
      }
    }
  }

  /// Its row will say how it goes on. What is nearly here is not asked for again.
  private func isWorthStopping(_ id: TaskID, _ entry: TaskEntry) -> Bool {
    guard details[id]?.progress.resumePoint != nil else { return false }
    guard let expected = entry.expected else { return true }
    return expected - entry.received > Limits.unrecordedBytes
  }

  mutating func beginDraining() { isDraining = true }

  /// The daemon goes now. What can start again is waiting, in its row; for what cannot the row says that it runs, and
  /// the next daemon draws the consequence, see `Reconciliation`.
  mutating func handOver(_ now: ClockReading) {
    isDraining = true
    for id in active.keys.sorted() {
      guard let entry = tasks[id]?.entry, !mayHaveActed(id), entry.kind != .data || entry.received == 0 else {
        continue
      }
      leaveWire(id)
      setState(.waiting, of: id)
      touch(id, progress: true)
      line(up: id, now)
    }
    // What is all here is checked and placed by the next daemon, and not fetched again.
    var whole: [TaskID] = []
    tasks.forEach { if $0.entry.state == .finalizing { whole.append($0.entry.id) } }
    for id in whole { touch(id, progress: true) }
  }
}
