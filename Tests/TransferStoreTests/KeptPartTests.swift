import Testing
import TransferCore

@testable import TransferStore

@Suite struct KeptPartTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  @Test func aKeptPartComesBackAndGoes() throws {
    let store = try TransferStore(path: folder.database)
    try store.apply([.addKeptPart(Sample.keptPart)])
    var bare = Sample.keptPart
    bare.token = ResumeToken(high: 1, low: 2)
    bare.destination = .managed
    bare.response = nil
    bare.expectedSHA256 = nil
    bare.point = ResumePoint(validator: .lastModified("Sun, 06 Nov 1994 08:49:37 GMT"), offset: 0, total: nil)
    try store.apply([.addKeptPart(bare)])
    #expect(try store.load().keptParts == [Sample.keptPart, bare])
    try store.apply([.removeKeptPart(Sample.keptPart.token)])
    #expect(try store.load().keptParts == [bare])
    // Removing what is not there does no harm; a token is of one part.
    try store.apply([.removeKeptPart(Sample.keptPart.token)])
    #expect(throws: StoreError.self) { try store.apply([.addKeptPart(bare)]) }
  }

  @Test func whoGoesOnInWhosePartIsKnownAtTheStart() throws {
    let store = try TransferStore(path: folder.database)
    var details = Sample.details()
    details.plan.partOwner = TaskID(rawValue: 2)
    var finished = Sample.entry(8)
    finished.state = .finished(.succeeded)
    try store.apply([
      .putSession(Sample.session(1)), .addTask(Sample.entry(7), details), .addTask(finished, details),
      .addTask(Sample.entry(9), Sample.details()),
    ])
    let state = try store.load()
    #expect(
      state.adoptions == [
        PartAdoption(task: TaskID(rawValue: 7), owner: TaskID(rawValue: 2)),
        PartAdoption(task: finished.id, owner: TaskID(rawValue: 2)),
      ])
    #expect(try store.details(TaskID(rawValue: 7)) == details)
  }

  @Test func aKeptPartThatCannotBeReadIsSetAside() throws {
    let store = try TransferStore(path: folder.database)
    try store.apply([.addKeptPart(Sample.keptPart)])
    store.close()
    try folder.tamper("UPDATE kept_part SET token = 'x'")
    let next = try TransferStore(path: folder.database)
    let state = try next.load()
    #expect(state.keptParts.isEmpty)
    #expect(state.quarantined.map(\.table) == ["kept_part"])
    #expect(try folder.count("kept_part") == 0)
  }

  /// A measurement is worth less than its task.
  @Test func metricsThatCannotBeReadKeepNobodyFromTheirTask() throws {
    let store = try TransferStore(path: folder.database)
    try store.apply([.putSession(Sample.session(1)), .addTask(Sample.entry(1), Sample.details())])
    for text in ["", "x", "omitted=-1 redirects=0\n", "omitted=0 redirects=0\nstart=x url=a method=b\n"] {
      try folder.tamper("UPDATE task_progress SET metrics = '\(text)'")
      #expect(try store.details(TaskID(rawValue: 1))?.progress.metrics == MetricsLog())
    }
  }
}
