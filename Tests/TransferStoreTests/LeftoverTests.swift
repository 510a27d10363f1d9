import Testing
import TransferCore

@testable import TransferStore

/// Part files in users' folders outlive their tasks on record.
@Suite struct LeftoverTests {
  let folder: TemporaryFolder
  let store: TransferStore
  private let one = TaskID(rawValue: 1)

  init() throws {
    folder = try TemporaryFolder()
    store = try TransferStore(path: folder.database)
    var managed = Sample.details(key: "two")
    managed.plan.destination = .managed
    try store.apply([
      .putSession(Sample.session(1)), .addTask(Sample.entry(1), Sample.details(key: "one")),
      .addTask(Sample.entry(2), managed), .addTask(Sample.entry(3), Sample.details(key: "three")),
    ])
  }

  @Test func aRemovedTaskLeavesItsPartFileUntilItIsSettled() throws {
    try store.apply([.removeTask(one), .removeTask(TaskID(rawValue: 2))])
    #expect(try store.leftovers() == [Leftover(task: one, path: "/home/a/.x.part")], "none of the daemon's own folder")
    store.close()
    let next = try TransferStore(path: folder.database)
    #expect(try next.load().tasks.map(\.id.rawValue) == [3])
    #expect(try next.leftovers().map(\.task) == [one])
    var parts = RemovedParts()
    parts.settled = [one, TaskID(rawValue: 77)]
    try next.apply([], parts: parts)
    #expect(try next.leftovers().isEmpty)
  }

  @Test func aPartFileThatIsKnownToBeGoneLeavesNothing() throws {
    var parts = RemovedParts()
    parts.known = [one]
    try store.apply([.removeTask(one), .removeTask(TaskID(rawValue: 3))], parts: parts)
    #expect(try store.leftovers().map(\.task.rawValue) == [3])
  }

  @Test func aRowThatNamesNoFileIsPassedOver() throws {
    try store.apply([.removeTask(one)])
    store.close()
    try folder.tamper(
      "INSERT INTO leftover VALUES (8, 'relative')", "INSERT INTO leftover VALUES (9, x'ff')",
      "INSERT INTO leftover VALUES (10, 7)")
    #expect(try TransferStore(path: folder.database).leftovers().map(\.task) == [one])
  }
}
