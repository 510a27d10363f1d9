import CurlEngine
import LinuxSystem
import TransferCore

extension TransferLoop {
  /// Nothing is pinned: a file is read, and its identity taken, when an attempt begins.
  func prepared(_ order: PrepareOrder) -> PreparedTask {
    let none = FileIdentity(device: 0, inode: 0, sizeBytes: 0, modifiedNanoseconds: 0)
    let path = order.sourcePath ?? ""
    let source = UploadSource(path: path, pinnedPath: path, pin: .none, identity: none)
    return PreparedTask(task: order.task, outcome: .ready(source: source, destination: order.destination))
  }

  // MARK: Opening

  func openFiles(_ attempt: AttemptID, _ order: OpenOrder) {
    opening[attempt] = order
    let path: String? =
      if case .file(let path)? = works[order.task]?.transfer.body, order.source != nil { path } else { nil }
    guard order.partPath != nil || path != nil else { return openedFiles(attempt, .success(LocalFiles())) }
    let part = order.partPath
    if part.map(files.isLocal) ?? true, path.map(files.isLocal) ?? true {
      return openedFiles(attempt, LocalFileCalls.open(part: part, source: path))
    }
    let isTaken = files.worker(for: path ?? part ?? "/", .names)?.submit { [mailbox] in
      mailbox.post(.opened(attempt, LocalFileCalls.open(part: part, source: path)))
    }
    guard isTaken != true else { return }
    let failure = TransferFailure(.fileReadFailed, .transient, detail: "The filesystem of the file does not answer.")
    openedFiles(attempt, .failure(LocalFileFailure(failure: failure)))
  }

  func openedFiles(_ attempt: AttemptID, _ result: Swift.Result<LocalFiles, LocalFileFailure>) {
    guard let order = opening[attempt] else {
      // The attempt was stopped meanwhile.
      if case .success(let files) = result { files.closeAll() }
      return
    }
    switch result {
    case .failure(let failure):
      opening[attempt] = nil
      handle(.filesFailed(attempt, failure.failure))
    case .success(let files):
      if let path = order.partPath { made.insert(path) }
      opened[attempt] = files
      if order.source != nil, needsBody(order.task) {
        works[order.task]?.awaitsBody = attempt
        works[order.task]?.transfer.listener.transferNeedsBody()
      } else {
        handOver(attempt)
      }
    }
  }

  private func handOver(_ attempt: AttemptID) {
    opening[attempt] = nil
    handle(.filesOpened(attempt, OpenedFiles(partBytes: opened[attempt]?.partBytes, freeBytes: nil)))
  }

  // MARK: Bodies

  /// The feed was read by an attempt, and cannot begin again.
  private func needsBody(_ task: TaskID) -> Bool {
    guard let work = works[task], case .feed(_, _, let isRepeatable) = work.transfer.body else { return false }
    return !isRepeatable && work.freshFeed == nil && work.feed?.feed.wasRead == true
  }

  func provide(_ feed: BodyFeed?, _ length: Int64?, _ transfer: LocalTransfer) {
    guard let id = transfer.id, let attempt = works[id]?.awaitsBody else { return }
    works[id]?.awaitsBody = nil
    guard opening[attempt] != nil else { return }
    guard let feed else {
      opening[attempt] = nil
      opened.removeValue(forKey: attempt)?.closeAll()
      let failure = TransferFailure(
        .sourceUnreadable, .permanent, detail: "The body must be sent again, and there is no new stream for it.")
      return handle(.filesFailed(attempt, failure))
    }
    works[id]?.freshFeed = (feed, length)
    handOver(attempt)
  }

  // MARK: Attempts

  func begin(_ order: AttemptOrder) {
    guard let held = opened.removeValue(forKey: order.attempt), let work = works[order.task] else { return }
    var order = order
    var part: PartFile?
    if let descriptor = held.part, case .partFile(let path) = order.sink {
      part = PartFile(descriptor: descriptor, size: held.partBytes ?? 0, access: access(path))
    }
    var body: BodyFile?
    switch (order.body, work.transfer.body) {
    case (.none, _), (_, .none): order.body = .none
    case (_, .file(let path)):
      if let descriptor = held.source, let identity = held.identity {
        body = BodyFile(descriptor: descriptor, access: access(path))
        order.body = .file(UploadSource(path: path, pinnedPath: path, pin: .none, identity: identity))
      }
    case (_, .feed(let feed, let length, let isRepeatable)):
      let fresh = work.freshFeed ?? work.feed ?? (feed, length)
      if isRepeatable { _ = fresh.feed.rewind() }
      works[order.task]?.feed = fresh
      works[order.task]?.freshFeed = nil
      body = BodyFile(feed: fresh.feed, access: access("/"))
      order.body = .feed(length: fresh.length)
    }
    if body == nil, let descriptor = held.source { _ = OwnedDescriptor(adopting: descriptor) }
    works[order.task]?.attempt = order.attempt
    works[order.task]?.isInQuestion = false
    engine.start(order, part: part, body: body)
    if !work.holds.isEmpty { engine.pause(order.attempt) }
  }

  private func access(_ path: String) -> FileAccess {
    let isLocal = files.isLocal(path)
    let worker: (any FileWorker)? = isLocal ? nil : files.worker(for: path, .transfer)
    var access = FileAccess(isLocal: isLocal, worker: worker ?? NoWorker.shared)
    access.isDurable = false
    return access
  }

  // MARK: Results

  func finalize(_ order: FinalizeOrder) {
    let task = order.task
    guard order.contentEncoding != nil else {
      return handle(.finalized(task, .placed(path: order.partPath, bytes: order.held, sha256: nil)))
    }
    let isTaken = files.worker(for: order.partPath, .content)?.submit { [mailbox] in
      mailbox.post(.finalized(task, LocalFileCalls.finalize(order)))
    }
    guard isTaken != true else { return }
    let failure = TransferFailure(.internalFault, .transient, detail: "There is no thread to decode the content on.")
    handle(.finalized(task, .failed(failure)))
  }

  func remove(_ paths: [String]) {
    let gone = paths.filter { made.remove($0) != nil }
    guard let first = gone.first else { return }
    if files.isLocal(first) { return LocalFileCalls.remove(gone, folder: folder) }
    files.worker(for: first, .names)?.submit { [folder] in LocalFileCalls.remove(gone, folder: folder) }
  }
}

/// For files whose every call is made on the loop's thread.
private final class NoWorker: FileWorker {
  static let shared = NoWorker()

  func submit(_ call: @escaping @Sendable () -> Void) -> Bool {
    call()
    return true
  }
}
