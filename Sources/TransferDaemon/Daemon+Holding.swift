import LinuxSystem
import TransferCore
import WireProtocol

/// Whatever tells a client of work waits until that is on the disk: a daemon that dies has told nothing that did not
/// happen. It is put into words when it is asked for, and leaves with the newest commit of that moment, so that
/// constant commits keep nobody waiting; where none is pending, at once.
///
/// While the store cannot write, or a commit hangs, clients are told what the daemon knows: they want to see why.
extension Daemon {
  /// A commit that takes longer hangs.
  private static let patience = Duration.seconds(5)
  /// Held for one client; then its next requests wait. (One that is told too much without asking is cut off, like one
  /// that does not read.)
  private static let heldBytes = 1 << 20

  private var isStoreStuck: Bool {
    core.isStuck || isCommitInFlight && submittedAt + Self.patience <= .now()
  }

  /// So much is held for it that it may ask no more for now.
  func isFull(_ peer: Peer) -> Bool { peer.heldBytes > Self.heldBytes }

  /// Says something behind the newest commit, this turn's included, and has that one hurried.
  func hold(_ line: [UInt8], to peer: Peer) {
    guard !isStoreStuck else { return peer.send(line) }
    if peer.heldBytes == 0 { holding.append(peer.id) }
    // The most that it may be; the end of the turn knows.
    peer.send(line, after: nextBatch.number)
    hasNewHolds = true
  }

  /// Behind everything that a turn says: which commit the newest is, is known now.
  func settleHolds() {
    guard hasNewHolds else { return }
    hasNewHolds = false
    commit()
    if newestCommit == nextBatch.number {
      isCommitAwaited = true
      submitNextBatch()
    }
    for id in holding { peers[id]?.lowerHolds(to: newestCommit) }
    releaseHolds()
  }

  /// Lets go what is on the disk.
  func releaseHolds() {
    guard !holding.isEmpty else { return }
    let commit = isStoreStuck ? Int64.max : lastDurable
    holding.removeAll { id in
      guard let peer = peers[id] else { return true }
      let wasFull = isFull(peer)
      peer.release(through: commit)
      flushLater(peer)
      // Its next requests may have arrived long ago.
      if wasFull { hasBacklog = true }
      return peer.heldBytes == 0
    }
  }

  /// When the commit that clients wait for counts as hanging.
  var holdsEnd: BootInstant? { isCommitInFlight && !holding.isEmpty ? submittedAt + Self.patience : nil }

  func endHolds(_ now: ClockReading) {
    guard let end = holdsEnd, end <= now.boot else { return }
    log.write(.warning, "The state is not stored after \(Self.patience); clients are told what may not be stored yet.")
    releaseHolds()
  }

  /// What the last commits did not make durable is not told any more.
  func dropHeld() {
    for id in holding { peers[id]?.dropHeld() }
    holding.removeAll()
  }

  /// Whether a notification tells what is not on the disk yet.
  func isAhead(_ notification: DaemonNotification) -> Bool {
    switch notification {
    case .taskState(let notice): isAhead(notice.task.id)
    case .taskQuestion(let notice): isAhead(notice.task.id)
    case .delivery(let notice): notice.task.map { isAhead($0.id) } ?? false
    // What happens on the wire is no state, and needs only its task.
    case .taskProgress(let notice): isUnrecorded(notice.id)
    case .taskResumed(let notice): isUnrecorded(notice.id)
    case .taskResponse(let notice): isUnrecorded(notice.id)
    case .taskData(let notice): isUnrecorded(notice.id)
    // Effects that have waited for their commit.
    case .taskRemoved, .sessionEnded, .appWake: false
    case .goodbye: false
    }
  }

  private func isUnrecorded(_ id: Int64) -> Bool { unrecorded.contains(TaskID(rawValue: id)) }

  private func isAhead(_ id: Int64) -> Bool {
    isUnrecorded(id) || announcing[TaskID(rawValue: id)].map { $0.commit > lastDurable } ?? false
  }
}
