import LinuxSystem
import TransferCore

/// Writes a response's body to its part file and keeps it durable, not too often and not too rarely.
///
/// On a local filesystem the loop thread writes, what one call of libcurl brought in as few calls as can be; on one
/// that can hang, and for every sync, a worker does. What is on its way there is counted, so that the transfer can be
/// paused.
final class PartFileSink {
  let attempt: AttemptID
  private let file: SharedDescriptor
  private let access: FileAccess
  private let context: EngineContext
  /// Where the next byte goes: the file's length in bytes, gathered bytes and queued writes included.
  private var offset: Int64
  /// The file's length in bytes as far as it is known: without gathered bytes and writes that no worker has answered.
  private(set) var held: Int64
  /// The loop thread could not write.
  private(set) var failure: TransferFailure?
  /// The part file was cut to the accepted offset; before that no byte is taken.
  private var hasBegun = false
  /// Durable up to here; never more than a sync has proven.
  private var syncedOffset: Int64
  /// When the first byte came that no sync covers, not even one on its way.
  private var oldestUnsynced: BootInstant?
  /// The same of the bytes that the sync on its way covers.
  private var oldestSyncing: BootInstant?
  private var lastSync: BootInstant?
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
    self.file = SharedDescriptor(part.descriptor, leaving: part.access.keptRoom)
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
    if Int64(waiting.count + bytesInFlight) > EngineLimits.outstandingBytes { return true }
    let unsynced = offset - syncedOffset
    if !access.isDurable || unsynced <= EngineLimits.unsyncedFloorBytes { return false }
    if unsynced > EngineLimits.unsyncedBytes { return true }
    return (oldestSyncing ?? oldestUnsynced).map { $0 + EngineLimits.unsyncedTime < context.now } ?? false
  }

  /// Enough is new for a sync, and the last one is long enough ago.
  private var isSyncDue: Bool {
    let unsynced = offset - syncedOffset
    if unsynced < EngineLimits.syncBytes { return false }
    return unsynced >= EngineLimits.syncAtOnceBytes
      || lastSync.map { $0 + EngineLimits.syncPause <= context.now } ?? true
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
      unsafe gather(bytes)
      if let failure { return failure }
    } else {
      unsafe waiting.append(contentsOf: bytes)
      offset += Int64(bytes.count)
      pump()
    }
    noteNewBytes()
    return failure
  }

  private func noteNewBytes() {
    if oldestUnsynced == nil, access.isDurable {
      oldestUnsynced = context.now
      context.scan(by: context.now + EngineLimits.syncTime)
    }
    if isSyncDue { sync() }
  }

  /// Bytes can be spliced to this file: the loop thread writes it.
  var takesSplices: Bool { access.isLocal }

  /// Takes the `count` bytes that a pipe holds, or says why not; then the pipe may hold some still.
  func write(_ pipe: SplicePipe, _ count: Int) -> TransferFailure? {
    writeGathered()
    if let failure { return failure }
    let (written, error) = file.write(pipe, count, at: held)
    held += Int64(written)
    offset = held
    guard error == 0 else { return SystemFailure.writing(error) }
    noteNewBytes()
    return nil
  }

  /// libcurl hands over at most 16 KiB at a time: copying them is cheaper than a call for each.
  private func gather(_ bytes: UnsafeRawBufferPointer) {
    let gathered = context.gathered
    if gathered.owner !== self {
      gathered.owner?.writeGathered()
      gathered.owner = self
    }
    if bytes.count > gathered.room { writeGathered() }
    guard failure == nil else { return }
    offset += Int64(bytes.count)
    if bytes.count > gathered.capacity { return unsafe writeNow(bytes) }
    gathered.owner = self
    unsafe gathered.append(bytes)
    if gathered.room == 0 { writeGathered() }
  }

  /// Writes what this file's share of the gathered bytes is; ``failure`` says when that failed.
  func writeGathered() {
    guard context.gathered.owner === self else { return }
    context.gathered.owner = nil
    if failure == nil { unsafe context.gathered.bytes.map { unsafe writeNow($0) } }
    context.gathered.clear()
  }

  private func writeNow(_ bytes: UnsafeRawBufferPointer) {
    let (written, error) = unsafe file.write(bytes, at: held)
    held += Int64(written)
    guard error != 0 else { return }
    offset = held
    failure = SystemFailure.writing(error)
    context.failedWrites.append(attempt)
  }

  /// Syncs when the oldest unsynced byte is old enough.
  func syncIfDue() {
    if let due = syncDeadline, due <= context.now { sync() }
  }

  private func sync() {
    guard !isSyncing, !isClosing, access.isDurable else { return }
    writeGathered()
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
    lastSync = context.now
    oldestSyncing = oldestUnsynced ?? context.now
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
    if isSyncDue { sync() }
    return nil
  }

  /// Takes in a worker's report on a sync. Nil unless it failed.
  func synced(through offset: Int64, error: Int32) -> TransferFailure? {
    outstandingCalls -= 1
    isSyncing = false
    oldestSyncing = nil
    guard error == 0 else { return SystemFailure.syncing(error) }
    syncedOffset = max(syncedOffset, offset)
    if self.offset > offset, oldestUnsynced == nil { oldestUnsynced = context.now }
    if isSyncDue { sync() }
    return nil
  }
}
