import LinuxSystem
import Synchronization
import TransferCore

/// What the engine and its transfers share on the loop thread.
final class EngineContext {
  /// Read when the engine is entered: all that happens in one entry has one time.
  var now = BootClock.now
  var queue = EventQueue()
  /// Transfers with counters, or bytes for a client, that no event has told yet.
  var untold: [EasyTransfer] = []
  /// Transfers that stopped sending to let libcurl read first; they go on when libcurl has returned.
  var yieldingSenders: [EasyTransfer] = []
  /// Threads that look a name up for a running transfer.
  var lookups = 0
  /// Until when threads of abandoned look-ups are thought to live, earliest first.
  var abandonedLookups: [BootInstant] = []
  /// The watchdog looks no later than this.
  var nextScan: BootInstant?
  let reports: FileReports
  /// Body bytes of one part file that no call has written yet.
  let gathered = GatherBuffer(capacity: EngineLimits.gatheredBytes)
  /// Attempts whose gathered bytes could not be written.
  var failedWrites: [AttemptID] = []
  /// Transfers whose bodies can be spliced from here on, once libcurl has returned.
  var spliceable: [EasyTransfer] = []
  /// Empty whenever the engine is left. Nil until a body is spliced, and after one that got stuck in it.
  var pipe: SplicePipe?
  /// This libcurl does not keep to its pauses, or this kernel does not splice from sockets.
  var mayNotSplice = false
  /// Body bytes that were spliced since this engine began. Diagnostic.
  var splicedBytes: Int64 = 0

  init(reports: FileReports) { self.reports = reports }

  /// How many more threads may look names up.
  var roomForLookups: Int {
    while let first = abandonedLookups.first, first <= now { abandonedLookups.removeFirst() }
    return EngineLimits.nameLookups - lookups - abandonedLookups.count
  }

  func scan(by moment: BootInstant) {
    nextScan = nextScan.map { min($0, moment) } ?? moment
  }
}

/// Where the pieces that libcurl hands over are gathered before they are written. One for all transfers: it is empty
/// whenever the engine is left.
@safe final class GatherBuffer {
  let capacity: Int
  /// Whose bytes they are.
  var owner: PartFileSink?
  private let base: UnsafeMutableRawPointer
  private var count = 0

  init(capacity: Int) {
    self.capacity = capacity
    unsafe base = .allocate(byteCount: capacity, alignment: 4096)
  }

  deinit { unsafe base.deallocate() }

  var room: Int { capacity - count }
  /// Nil when there are none.
  var bytes: UnsafeRawBufferPointer? {
    count == 0 ? nil : unsafe UnsafeRawBufferPointer(start: base, count: count)
  }

  /// - Precondition: there is room for all of them.
  func append(_ bytes: UnsafeRawBufferPointer) {
    precondition(bytes.count <= room)
    guard let source = bytes.baseAddress else { return }
    // SAFETY: [count, count + bytes.count) lies within the buffer, which nobody else has.
    unsafe (base + count).copyMemory(from: source, byteCount: bytes.count)
    count += bytes.count
  }

  func clear() { count = 0 }
}

/// What a worker's thread has to say of an attempt's files.
enum FileReport: Sendable {
  /// The part file was cut to the accepted offset.
  case began(AttemptID, error: Int32)
  /// One queued write is done; `bytes` are no longer outstanding.
  case wrote(AttemptID, bytes: Int, error: Int32)
  case synced(AttemptID, offset: Int64, error: Int32)
  case read(AttemptID, bytes: [UInt8], error: Int32)
  case identified(AttemptID, FileIdentity?, error: Int32)
  /// The program handed over more of the body.
  case fed(AttemptID)

  var attempt: AttemptID {
    switch self {
    case .began(let attempt, _), .wrote(let attempt, _, _), .synced(let attempt, _, _), .read(let attempt, _, _),
      .identified(let attempt, _, _), .fed(let attempt):
      attempt
    }
  }
}

/// Reports on their way from the workers to the loop.
final class FileReports: Sendable {
  private let waiting = Mutex<[FileReport]>([])
  private let wake: @Sendable () -> Void

  init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

  func post(_ report: FileReport) {
    let wasEmpty = waiting.withLock { waiting in
      waiting.append(report)
      return waiting.count == 1
    }
    if wasEmpty { wake() }
  }

  func take() -> [FileReport] {
    waiting.withLock { waiting in
      let taken = waiting
      waiting.removeAll()
      return taken
    }
  }
}
