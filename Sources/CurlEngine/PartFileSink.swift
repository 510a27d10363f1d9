import TransferCore

/// Writes a response's body to its part file and keeps it durable, not too often and not too rarely.
///
/// On a local filesystem the loop thread writes; on one that can hang, and for every sync, a worker does. What is on
/// its way there is counted, so that the transfer can be paused.
final class PartFileSink {
  private let attempt: AttemptID
  private let file: SharedDescriptor
  private let access: FileAccess
  private let context: EngineContext
  /// Where the next byte goes: the file's length in bytes, queued writes included.
  private var offset: Int64
  /// The file's length in bytes as far as it is known: without writes that a worker has not answered.
  private(set) var held: Int64
  /// The part file was cut to the accepted offset; before that no byte is taken.
  private var hasBegun = false
  /// Durable up to here; never more than a sync has proven.
  private var syncedOffset: Int64
  private var oldestUnsynced: BootInstant?
  private var isSyncing = false
  private var isClosing = false
  private var outstandingCalls = 0
  /// On a filesystem that can hang: bytes that no call carries yet. One write is in flight at a time, and takes all
  /// that came meanwhile, so that a transfer holds few places in its worker's queue.
  private var waiting: [UInt8] = []
  private var bytesInFlight = 0
  private var isWriting = false
  /// The cut that `begin` asked for and no call carries yet.
  private var waitingCut: Int64?

  init(_ part: PartFile, attempt: AttemptID, context: EngineContext) {
    self.attempt = attempt
    self.file = SharedDescriptor(part.descriptor)
    self.access = part.access
    self.context = context
    offset = part.size
    held = part.size
    syncedOffset = part.size
  }

  deinit {
    // A close can hang where a write can: let the last reference go on the worker.
    if !access.isLocal { _ = access.worker.submit { [file] in _ = file.number } }
  }

  /// Calls of this file that a worker has not answered.
  var isBusy: Bool { outstandingCalls > 0 || !waiting.isEmpty || waitingCut != nil }

  /// The next bytes should wait: the disk, or its worker, is behind.
  var isFull: Bool {
    Int64(waiting.count + bytesInFlight) > EngineLimits.outstandingBytes
      || access.isDurable && offset - syncedOffset > EngineLimits.unsyncedBytes
  }

  /// When a sync falls due by time alone.
  var syncDeadline: BootInstant? {
    isSyncing || isClosing || !access.isDurable ? nil : oldestUnsynced.map { $0 + EngineLimits.syncTime }
  }

  /// The transfer is over: what is not synced by now is the finalizing step's to sync.
  func stopSyncing() { isClosing = true }

  /// No queued call of this sink touches the file any more.
  func abandon() { file.fail(ErrorNumber.cancelled) }

  /// A worker still cuts the file.
  private(set) var isBeginning = false

  /// Takes in a worker's report on the cut. Nil unless it failed.
  func began(error: Int32) -> TransferFailure? {
    outstandingCalls -= 1
    isBeginning = false
    guard error == 0 else {
      waiting = []
      return SystemFailure.writing(error)
    }
    pump()
    return nil
  }

  /// Cuts the file to the offset at which the body goes on; `isBeginning` tells whether a worker is still at it. Nil on
  /// success.
  func begin(at start: Int64) -> TransferFailure? {
    guard start <= offset else {
      return TransferFailure(
        .partFileLost, .transient,
        detail: "The part file holds \(offset) bytes, fewer than the \(start) that the answer continues.")
    }
    if start < offset {
      if access.isLocal {
        let error = file.truncate(to: start)
        if error != 0 { return SystemFailure.writing(error) }
      } else {
        isBeginning = true
        waitingCut = start
      }
    }
    offset = start
    held = start
    syncedOffset = start
    hasBegun = true
    pump()
    return nil
  }

  /// Takes all the bytes, or says why not.
  func write(_ bytes: UnsafeRawBufferPointer) -> TransferFailure? {
    guard hasBegun else {
      return TransferFailure(.internalFault, .permanent, detail: "Body bytes came before the response was judged.")
    }
    if access.isLocal {
      let (written, error) = unsafe file.write(bytes, at: offset)
      offset += Int64(written)
      held = offset
      if error != 0 { return SystemFailure.writing(error) }
    } else {
      unsafe waiting.append(contentsOf: bytes)
      offset += Int64(bytes.count)
      pump()
    }
    if oldestUnsynced == nil, access.isDurable {
      oldestUnsynced = context.now
      context.scan(by: context.now + EngineLimits.syncTime)
    }
    if offset - syncedOffset >= EngineLimits.syncBytes { sync() }
    return nil
  }

  /// Syncs when the oldest unsynced byte is old enough.
  func syncIfDue() {
    if let due = syncDeadline, due <= context.now { sync() }
  }

  private func sync() {
    guard !isSyncing, !isClosing, access.isDurable else { return }
    // Calls run in order: a sync covers the writes that were handed over before it.
    let offset = offset - Int64(waiting.count)
    guard offset > syncedOffset else { return }
    let isTaken = access.worker.submit { [attempt, file, reports = context.reports] in
      let error = file.error != 0 ? file.error : file.sync()
      reports.post(.synced(attempt, offset: offset, error: error))
    }
    guard isTaken else { return retryLater() }
    isSyncing = true
    outstandingCalls += 1
    oldestUnsynced = nil
  }

  /// Hands the next calls to the worker; a full queue is tried again later.
  func pump() {
    if let start = waitingCut {
      let isTaken = access.worker.submit { [attempt, file, reports = context.reports] in
        let error = file.error != 0 ? file.error : file.truncate(to: start)
        if error != 0 { file.fail(error) }
        reports.post(.began(attempt, error: error))
      }
      guard isTaken else { return retryLater() }
      waitingCut = nil
      outstandingCalls += 1
    }
    guard !isWriting, !waiting.isEmpty else { return }
    let bytes = waiting
    let start = offset - Int64(bytes.count)
    let isTaken = access.worker.submit { [attempt, file, reports = context.reports] in
      var error = file.error
      if error == 0 {
        error = unsafe bytes.withUnsafeBytes { unsafe file.write($0, at: start).error }
        if error != 0 { file.fail(error) }
      }
      reports.post(.wrote(attempt, bytes: bytes.count, error: error))
    }
    guard isTaken else { return retryLater() }
    waiting = []
    bytesInFlight = bytes.count
    isWriting = true
    outstandingCalls += 1
  }

  private func retryLater() { context.scan(by: context.now + EngineLimits.scanInterval) }

  /// Takes in a worker's report on a write. Nil unless it failed.
  func wrote(bytes: Int, error: Int32) -> TransferFailure? {
    outstandingCalls -= 1
    isWriting = false
    bytesInFlight = 0
    guard error == 0 else {
      waiting = []
      return SystemFailure.writing(error)
    }
    held += Int64(bytes)
    pump()
    if offset - syncedOffset >= EngineLimits.syncBytes { sync() }
    return nil
  }

  /// Takes in a worker's report on a sync. Nil unless it failed.
  func synced(through offset: Int64, error: Int32) -> TransferFailure? {
    outstandingCalls -= 1
    isSyncing = false
    guard error == 0 else { return SystemFailure.syncing(error) }
    syncedOffset = max(syncedOffset, offset)
    if self.offset > offset, oldestUnsynced == nil { oldestUnsynced = context.now }
    if self.offset - syncedOffset >= EngineLimits.syncBytes { sync() }
    return nil
  }
}
