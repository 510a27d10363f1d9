import TransferCore

/// A worker's job that makes results of complete part files: checks all, syncs each, places each, then the folder once.
/// It takes time between its steps, so that the daemon can die at any of them.
final class Finalization {
  private struct Item {
    var order: FinalizeOrder
    var inode: Inode
    var path: String
    var digest: String?
  }

  private let orders: [FinalizeOrder]
  private let folder: String
  private unowned let daemon: SimulatedDaemon
  private var items: [Item] = []
  private var outcomes: [(TaskID, FinalizeOutcome)] = []

  init(_ orders: [FinalizeOrder], _ folder: String, _ daemon: SimulatedDaemon) {
    self.orders = orders
    self.folder = folder
    self.daemon = daemon
  }

  private var world: Simulation { daemon.world }

  func run() {
    daemon.onWorker(0...10) { [self] _ in
      for order in orders { check(order) }
      daemon.onWorker(0...20) { [self] _ in sync() }
    }
  }

  private func fail(_ order: FinalizeOrder, _ code: FailureCode, _ retry: Retryability, _ detail: String) {
    outcomes.append((order.task, .failed(TransferFailure(code, retry, domain: "errno", detail: detail))))
  }

  /// What was decoded is no result.
  private func fail(_ item: Item, _ code: FailureCode, _ retry: Retryability, _ detail: String) {
    if item.path != item.order.partPath { world.disk.setName(item.path, nil, at: world.now) }
    fail(item.order, code, retry, detail)
  }

  private func check(_ order: FinalizeOrder) {
    guard let part = world.disk.names[order.partPath], part.content.length == order.held else {
      return fail(order, .partFileLost, .transient, "The collected bytes are not what they were.")
    }
    var item = Item(order: order, inode: part, path: order.partPath)
    if let path = world.placedPath(order.partPath, order.destination), let inode = world.disk.names[path] {
      // Placed by a predecessor, and so checked and synced: only its folder may not be.
      outcomes.append((order.task, .placed(path: path, bytes: inode.content.length, sha256: order.expectedSHA256)))
      return
    }
    if let coding = order.contentEncoding, order.held > 0 {
      guard ["gzip", "x-gzip", "deflate", "br"].contains(coding), let decoded = decode(part.content) else {
        return fail(order, .contentDecodingFailed, .permanent, "The content cannot be decoded.")
      }
      item.path += ".decoded"
      item.inode = world.disk.makeInode(at: world.now)
      item.inode.content = decoded
      world.disk.setName(item.path, item.inode, at: world.now)
      world.coverage.note(.decoded)
    }
    if let expected = order.expectedSHA256, world.bug != .digestNotChecked {
      guard world.digest(of: item.inode.content) == expected else {
        return fail(item, .digestMismatch, .permanent, "The content has another digest.")
      }
      world.coverage.note(.digestMatched)
      item.digest = expected
    }
    items.append(item)
  }

  /// Nil where the bytes are not one whole coding.
  private func decode(_ content: Content) -> Content? {
    guard content.spans.count == 1, let span = content.spans.first, span.version >= 0, span.offset == 0,
      world.servers.versions[Int(span.version)].isEncoded,
      span.length == world.servers.versions[Int(span.version)].length
    else { return nil }
    var decoded = Content()
    decoded.append(Span(version: span.version, isDecoded: true, offset: 0, length: span.length))
    return decoded
  }

  private func sync() {
    var synced: [Item] = []
    for item in items {
      if world.strikes(.syncError, perMille: 30) {
        fail(item, .fileWriteFailed, .transient, "The disk did not keep the bytes.")
      } else if world.disk.isFull, world.dice.below(2) == 0 {
        fail(item, .noSpace, .transient, "No space left.")
      } else {
        if world.bug != .placedWithoutSync { item.inode.sync(through: item.inode.content.length) }
        synced.append(item)
      }
    }
    items = synced
    daemon.onWorker(0...5) { [self] _ in placeNext(0) }
  }

  private func placeNext(_ index: Int) {
    guard index < items.count else {
      return daemon.onWorker(0...20) { [self] _ in syncFolder() }
    }
    let item = items[index]
    if world.strikes(.placeError, perMille: 30) {
      fail(item, .fileWriteFailed, .transient, "The result could not be placed.")
    } else if let path = place(item) {
      outcomes.append(
        (item.order.task, .placed(path: path, bytes: item.inode.content.length, sha256: item.digest)))
    } else {
      fail(item, .fileExists, .permanent, "The destination was made by somebody else.")
    }
    daemon.onWorker(0...2) { [self] _ in placeNext(index + 1) }
  }

  /// Nil: the name is taken.
  private func place(_ item: Item) -> String? {
    switch item.order.destination {
    case .managed:
      if item.path != item.order.partPath {
        world.disk.setName(item.order.partPath, item.inode, at: world.now)
        world.disk.setName(item.path, nil, at: world.now)
      }
      return item.order.partPath
    case .file(let path, let collision):
      switch collision {
      case .fail: return link(item.inode, path) ? path : nil
      case .replace:
        world.disk.publish(item.inode, as: path, at: world.now)
        return path
      case .rename:
        for number in 0..<50 {
          let candidate = number == 0 ? path : "\(path) (\(number))"
          if link(item.inode, candidate) { return candidate }
        }
        return nil
      }
    }
  }

  private func link(_ inode: Inode, _ path: String) -> Bool {
    if let taken = world.disk.names[path] { return taken === inode }
    world.disk.publish(inode, as: path, at: world.now)
    return true
  }

  private func syncFolder() {
    if world.strikes(.folderSyncError, perMille: 30) {
      outcomes = outcomes.map { task, outcome in
        guard case .placed = outcome else { return (task, outcome) }
        return (task, .failed(TransferFailure(.fileWriteFailed, .transient, detail: "The folder was not kept.")))
      }
    } else {
      world.disk.syncNames()
    }
    daemon.post(.finalized(folder, outcomes))
  }
}
