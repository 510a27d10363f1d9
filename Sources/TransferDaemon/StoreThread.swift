import Glibc
import LinuxSystem
import Synchronization
import TransferCore
import TransferStore

/// The thread that owns SQLite. The loop hands it one batch at a time and goes on meanwhile; batches that gather while
/// one is on its way become the next (group commit).
final class StoreThread {
  /// What a tick wants of the store.
  struct Batch: Sendable {
    var number: Int64
    var changes: [StoreChange] = []
    /// Details to read when the changes are in.
    var loads: [TaskID] = []
    /// What was seen of part files in users' folders.
    var parts = RemovedParts()

    var isEmpty: Bool { changes.isEmpty && loads.isEmpty && parts.settled.isEmpty }
  }

  /// Details of each task that was asked for, or why none can be read now.
  enum Reading: Sendable {
    case details([(TaskID, DetailsReading)])
    case failed(StoreError)
  }

  struct Outcome: Sendable {
    var number: Int64
    /// Nil when the changes are durable.
    var failure: StoreError?
    /// Changes that contradicted the stored state and were left out, each with its reason.
    var rejected: [String] = []
    var loaded = Reading.details([])
    var commits: Int64 = 0
    /// Whether what the disk keeps for the records is there.
    var hasReserve = true
  }

  /// SAFETY: store and reserve are used only in jobs of `worker`, which run one after another on one thread.
  private final class Owner: @unchecked Sendable {
    let store: TransferStore
    var reserve: StateReserve
    /// Batches that were submitted and have not begun.
    let waiting = Atomic(0)
    private var postponements = 0

    init(_ store: TransferStore, _ reserve: StateReserve) {
      self.store = store
      self.reserve = reserve
    }

    /// A full disk gets its reserve back for what must be stored.
    func apply(_ changes: [StoreChange], parts: RemovedParts) throws(StoreError) {
      do throws(StoreError) {
        try store.apply(changes, parts: parts)
      } catch {
        guard error.kind == .full, reserve.release() else { throw error }
        try store.apply(changes, parts: parts)
        // It was full for that moment only.
        reserve.hold()
      }
    }

    /// Takes forgotten secrets out of the log when nobody waits for the store, or else after many batches. An error
    /// leaves it to the next time.
    func eraseWhenIdle() {
      guard store.owesErasure else { return }
      guard waiting.load(ordering: .relaxed) == 0 || postponements >= Self.mostPostponements else {
        postponements += 1
        return
      }
      postponements = 0
      try? store.erase()
    }

    /// Keeps the writing back rare in a busy time, and what was forgotten from staying for ever in one without an end.
    private static let mostPostponements = 64
  }

  private let owner: Owner
  private let worker: Worker

  /// Opens the database and reads what was stored. Blocks; called once before the loop turns.
  static func open(
    path: String, _ reserve: inout StateReserve
  ) throws(StoreError) -> (store: TransferStore, state: StoredState, leftovers: [Leftover]) {
    do throws(StoreError) {
      return try open(path: path)
    } catch {
      guard error.kind == .full, reserve.release() else { throw error }
      return try open(path: path)
    }
  }

  private static func open(
    path: String
  ) throws(StoreError) -> (store: TransferStore, state: StoredState, leftovers: [Leftover]) {
    try reach("store.open")
    let store = try TransferStore(path: path)
    store.beforeCommit = { () throws(StoreError) in try reach("store.commit") }
    let state = try store.load()
    return (store, state, try store.leftovers())
  }

  private static func reach(_ point: StaticString) throws(StoreError) {
    do throws(SystemError) {
      try FaultPoint.reach(point)
    } catch {
      throw StoreError(error.number == ENOSPC ? .full : .ioError, message: "injected: \(error)")
    }
  }

  init(_ store: TransferStore, _ reserve: StateReserve) throws(SystemError) {
    let owner = Owner(store, reserve)
    self.owner = owner
    worker = try Worker(name: "store", limit: 100_000)
    // What the daemon before forgot just before it died.
    worker.submit { owner.eraseWhenIdle() }
  }

  /// Writes a batch and then reads what it asks for.
  func submit(_ batch: Batch, then report: @escaping @Sendable (Outcome) -> Void) {
    let owner = owner
    owner.waiting.add(1, ordering: .relaxed)
    worker.submit {
      owner.waiting.subtract(1, ordering: .relaxed)
      var outcome = Outcome(number: batch.number)
      do throws(StoreError) {
        try owner.apply(batch.changes, parts: batch.parts)
      } catch {
        if error.isFaultOfTheChanges {
          outcome.rejected = Self.applySingly(batch, owner, &outcome.failure)
        } else {
          outcome.failure = error
        }
      }
      outcome.loaded = Self.read(batch.loads, owner.store)
      outcome.commits = owner.store.statistics.commits
      outcome.hasReserve = owner.reserve.isHeld
      report(outcome)
      owner.eraseWhenIdle()
    }
  }

  /// Takes the reserve, where there is room for it.
  func holdReserve(then report: @escaping @Sendable (_ isHeld: Bool) -> Void) {
    let owner = owner
    worker.submit {
      owner.reserve.hold()
      report(owner.reserve.isHeld)
    }
  }

  /// Reads details for a client's question; behind all batches that were submitted before.
  func read(_ ids: [TaskID], then report: @escaping @Sendable (Reading) -> Void) {
    let owner = owner
    worker.submit { report(Self.read(ids, owner.store)) }
  }

  /// Nothing is asked of it for now: it keeps no pages.
  func rest() {
    let owner = owner
    worker.submit {
      owner.eraseWhenIdle()
      owner.store.shrinkMemory()
    }
  }

  /// Moves a row that cannot be read out of the way; what fails here is tried again at the next start.
  func quarantine(_ row: QuarantinedRow) {
    let owner = owner
    worker.submit { try? owner.store.quarantine(row) }
  }

  /// Closes the database when all batches are in.
  func close() -> Bool {
    let owner = owner
    worker.submit { owner.store.close() }
    return worker.stop(waitingAtMostNanoseconds: 700_000_000)
  }

  private static func read(_ ids: [TaskID], _ store: TransferStore) -> Reading {
    guard !ids.isEmpty else { return .details([]) }
    do throws(StoreError) {
      try reach("store.read")
      return .details(Array(zip(ids, try store.details(ids))))
    } catch {
      return .failed(error)
    }
  }

  /// One change of a batch contradicts the stored state: the others must not be lost for it.
  private static func applySingly(
    _ batch: Batch, _ owner: Owner, _ failure: inout StoreError?
  ) -> [String] {
    var rejected: [String] = []
    for change in batch.changes {
      do throws(StoreError) {
        try owner.apply([change], parts: batch.parts)
      } catch {
        if error.isFaultOfTheChanges { rejected.append(error.description) } else { failure = error }
      }
    }
    return rejected
  }
}

extension StoreError {
  /// Trying again cannot help: the change itself is wrong.
  var isFaultOfTheChanges: Bool {
    switch kind {
    case .constraint, .invalidValue, .missingRow: true
    case .full, .ioError, .corrupt, .busy, .readOnly, .cannotOpen, .outOfMemory, .unreadableRow, .foreignDatabase,
      .newerDatabase, .misuse:
      false
    }
  }
}

extension DetailsReading {
  var details: TaskDetails? {
    switch self {
    case .details(let details): details
    case .missing, .unreadable: nil
    }
  }
}
