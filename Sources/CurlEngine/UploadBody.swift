import TransferCore

/// Reads an upload's source for libcurl, and watches that it stays the file that was meant.
final class UploadBody {
  enum Step {
    case bytes(Int)
    /// Nothing is there yet: a worker reads it.
    case wait
    case failed(TransferFailure)
  }

  private let attempt: AttemptID
  private let file: SharedDescriptor
  private let access: FileAccess
  /// In place of the file.
  private let feed: BodyFeed?
  private let identity: FileIdentity
  private let context: EngineContext
  /// Where libcurl's next byte comes from.
  private(set) var offset: Int64 = 0
  private var ahead: [UInt8] = []
  private var aheadTaken = 0
  private var failure: TransferFailure?
  private var outstandingCalls = 0
  /// Reports of reads that were asked for before a rewind.
  private var staleReads = 0
  private var isReading = false
  /// Calls that the worker's full queue refused: tried again later.
  private var wantsIdentity = false
  private var wantsRead = false
  private(set) var check: SourceCheck?

  init(_ body: BodyFile, source: UploadSource, attempt: AttemptID, context: EngineContext) {
    self.attempt = attempt
    file = SharedDescriptor(body.descriptor)
    access = body.access
    feed = nil
    identity = source.identity
    self.context = context
  }

  /// - Parameter length: bytes that will come; nil: as many as come.
  init(_ feed: BodyFeed, length: Int64?, access: FileAccess, attempt: AttemptID, context: EngineContext) {
    self.attempt = attempt
    file = SharedDescriptor(-1)
    self.access = access
    self.feed = feed
    identity = FileIdentity(device: 0, inode: 0, sizeBytes: length ?? -1, modifiedNanoseconds: 0)
    self.context = context
  }

  deinit {
    if !access.isLocal, feed == nil { _ = access.worker.submit { [file] in _ = file.number } }
  }

  /// -1 where the length is not known.
  var sizeBytes: Int64 { identity.sizeBytes }
  var isBusy: Bool { outstandingCalls > 0 || wantsIdentity }

  /// Tries again what the worker's queue refused.
  func pump() {
    if wantsIdentity { identify() }
    if wantsRead { readAhead() }
  }

  private func retryLater() { context.scan(by: context.now + EngineLimits.scanInterval) }

  /// Compares the file with what was recorded; on a filesystem that can hang, `check` is set when the worker answers.
  func identify() {
    check = nil
    if feed != nil {
      check = .unchanged
    } else if access.isLocal {
      take(FileFacts.identity(of: file.number))
    } else {
      let isTaken = access.worker.submit { [attempt, file, reports = context.reports] in
        reports.post(.identified(attempt, FileFacts.identity(of: file.number), error: 0))
      }
      wantsIdentity = !isTaken
      if isTaken { outstandingCalls += 1 } else { retryLater() }
    }
  }

  func identified(_ found: FileIdentity?) {
    outstandingCalls -= 1
    take(found)
  }

  private func take(_ found: FileIdentity?) { check = found == identity ? .unchanged : .changed }

  func read(into buffer: UnsafeMutableRawBufferPointer) -> Step {
    if let failure { return .failed(failure) }
    if let feed { return unsafe read(feed, into: buffer) }
    let left = identity.sizeBytes - offset
    guard left > 0, buffer.count > 0 else { return .bytes(0) }
    let wanted = min(Int64(buffer.count), left)
    let count: Int
    if access.isLocal {
      // SAFETY: `wanted` is at most the buffer's count.
      let (found, error) = unsafe file.read(
        into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<Int(wanted)]), at: offset)
      if error != 0 { return .failed(SystemFailure.readingSource(error)) }
      // Shorter than it was: what follows would be missing under a Content-Length that promised it.
      if found == 0 { return .failed(SystemFailure.sourceChanged) }
      count = found
    } else {
      count = min(ahead.count - aheadTaken, Int(wanted))
      guard count > 0 else {
        readAhead()
        return .wait
      }
      unsafe ahead.withUnsafeBytes {
        unsafe buffer.copyMemory(from: .init(rebasing: $0[aheadTaken..<(aheadTaken + count)]))
      }
      aheadTaken += count
    }
    offset += Int64(count)
    return .bytes(count)
  }

  private func read(_ feed: BodyFeed, into buffer: UnsafeMutableRawBufferPointer) -> Step {
    let portion = unsafe feed.read(into: buffer) { [attempt, reports = context.reports] in
      reports.post(.fed(attempt))
    }
    switch portion {
    case .nothingYet: return .wait
    case .failed: return .failed(SystemFailure.streamBroken)
    case .bytes(let count):
      offset += Int64(count)
      // Less than was promised, or more.
      if sizeBytes >= 0, count == 0 ? offset < sizeBytes : offset > sizeBytes {
        return .failed(SystemFailure.streamBroken)
      }
      return .bytes(count)
    }
  }

  /// Where libcurl begins the body again by itself.
  func rewind(to start: Int64) -> Bool {
    if let feed {
      guard start == 0, feed.rewind() else { return false }
      offset = 0
      return true
    }
    guard start >= 0, start <= identity.sizeBytes else { return false }
    offset = start
    ahead = []
    aheadTaken = 0
    if isReading {
      staleReads += 1
      isReading = false
    }
    return true
  }

  private func readAhead() {
    guard !isReading else { return }
    let start = offset
    let count = Int(min(Int64(EngineLimits.readAheadBytes), identity.sizeBytes - start))
    let isTaken = access.worker.submit { [attempt, file, reports = context.reports] in
      var bytes = [UInt8](repeating: 0, count: count)
      let (found, error) = unsafe bytes.withUnsafeMutableBytes { unsafe file.read(into: $0, at: start) }
      bytes.removeLast(count - found)
      reports.post(.read(attempt, bytes: bytes, error: error))
    }
    if isTaken {
      isReading = true
      outstandingCalls += 1
    } else {
      retryLater()
    }
    wantsRead = !isTaken
  }

  func didRead(_ bytes: [UInt8], error: Int32) {
    outstandingCalls -= 1
    if staleReads > 0 {
      staleReads -= 1
      return
    }
    isReading = false
    ahead = bytes
    aheadTaken = 0
    if error != 0 {
      failure = SystemFailure.readingSource(error)
    } else if bytes.isEmpty {
      failure = SystemFailure.sourceChanged
    }
  }
}
