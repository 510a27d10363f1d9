import Glibc
import Testing
import TransferCore

@testable import TransferStore

/// The end of the process or of power at any moment leaves whole transactions.
@Suite struct CrashTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  /// The n-th transaction: a task, its delivery, and the session's counters. Whole or not can be seen in each part.
  static func transaction(_ number: Int64) -> [StoreChange] {
    var session = Sample.session(1)
    session.nextTaskNumber = number + 1
    session.nextDelivery = number + 1
    return [
      .putSession(session), .addTask(Sample.entry(number), Sample.details(key: "key \(number)")),
      .addDelivery(Sample.delivery(number, .completion, task: number)),
    ]
  }

  /// How many transactions the database holds; reports one that is not whole.
  static func wholeTransactions(in store: TransferStore) throws -> Int64 {
    let state = try store.load()
    let count = Int64(state.tasks.count)
    #expect(store.recovered == nil)
    #expect(state.quarantined.isEmpty)
    #expect(state.tasks.map(\.id.rawValue) == (0..<count).map { $0 + 1 })
    #expect(state.deliveries.map(\.number.rawValue) == (0..<count).map { $0 + 1 })
    #expect(state.keys.count == state.tasks.count)
    #expect(state.lastTaskID.rawValue == count)
    #expect(state.sessions.map(\.nextTaskNumber) == (count == 0 ? [] : [count + 1]))
    for (id, reading) in zip(state.tasks.map(\.id), try store.details(state.tasks.map(\.id))) {
      #expect(reading == .details(Sample.details(key: "key \(id)")))
    }
    return count
  }

  /// Power fails while the log is written: it ends at any byte, or its last page is torn.
  @Test func logCutOrTornAnywhere() throws {
    let store = try TransferStore(path: folder.database)
    // The log begins with the transactions of this test alone.
    try store.checkpoint()
    let commits: Int64 = 8
    for number in 1...commits { try store.apply(Self.transaction(number)) }
    let database = try folder.read("state.sqlite")
    let log = try folder.read("state.sqlite-wal")
    // Format of the log: 32 bytes, then frames of 24 bytes and a page (sqlite.org/fileformat2.html, section 4).
    let frames = (log.count - 32) / 4120
    var hits = [Int](repeating: 0, count: Int(commits) + 1)
    for frame in 0...frames {
      for (offset, isTorn) in [(0, false), (13, false), (2000, false), (4119, false), (2000, true)] {
        let end = 32 + frame * 4120 + offset
        guard end <= log.count else { continue }
        var part = Array(log[..<end])
        // The rest of the page is what was on the disk before.
        if isTorn { part += [UInt8](repeating: 0xEE, count: 4120 - offset) }
        let place = try TemporaryFolder()
        try place.write("state.sqlite", database)
        try place.write("state.sqlite-wal", part)
        hits[Int(try Self.wholeTransactions(in: TransferStore(path: place.database)))] += 1
      }
    }
    print("log cut or torn: \(frames) frames; openings by transactions found: \(hits)")
    #expect(hits.allSatisfy { $0 > 0 })
  }

  /// kill -9 at random moments while transactions are committed one after another, checkpoints included.
  @Test func killedWhileCommitting() async throws {
    let path = folder.database
    var survived: [Int64] = []
    for _ in 0..<6 {
      await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
        let store = try TransferStore(path: path)
        try store.database?.connection.execute("PRAGMA wal_autocheckpoint = 20")
        var next = try store.load().lastTaskID.rawValue + 1
        let first = next
        var thread = pthread_t()
        guard unsafe pthread_create(&thread, nil, killSoon, nil) == 0 else { exit(2) }
        while next < first + 100_000 {
          try store.apply(CrashTests.transaction(next))
          next += 1
        }
      }
      let store = try TransferStore(path: path)
      survived.append(try Self.wholeTransactions(in: store))
      store.close()
    }
    print("killed while committing: transactions after each kill: \(survived)")
    #expect(survived == survived.sorted())
    #expect((survived.last ?? 0) > 0)
  }

  /// A process that ends between the last statement and the commit leaves nothing of the transaction.
  @Test func killedBeforeTheCommit() async throws {
    let path = folder.database
    await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
      let store = try TransferStore(path: path)
      for number in Int64(1)...3 { try store.apply(CrashTests.transaction(number)) }
      store.beforeCommit = { kill(getpid(), SIGKILL) }
      try store.apply(CrashTests.transaction(4))
    }
    #expect(try Self.wholeTransactions(in: TransferStore(path: path)) == 3)
  }
}

/// Entry of a thread: ends its own process within a few dozen milliseconds.
private nonisolated func killSoon(_: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  usleep(UInt32.random(in: 2_000...60_000))  // sleep: a random moment
  kill(getpid(), SIGKILL)
  return nil
}
