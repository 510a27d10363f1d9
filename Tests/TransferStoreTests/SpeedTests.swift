import Testing
import TransferCore

@testable import TransferStore

/// Times are printed, not asserted: the machine is not ours alone.
@Suite(.serialized) struct SpeedTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  @Test func manyTasks() throws {
    let clock = ContinuousClock()
    let count: Int64 = 100_000
    let batch: Int64 = 1000
    var plan = TaskPlan(
      kind: .download,
      request: TransferRequest(url: "https://example.org/files/archive", headers: [("Accept", "*/*")]),
      partPath: "/home/a/.local/state/ferry/parts/1", createdAt: WallInstant(milliseconds: 0))
    let store = try TransferStore(path: folder.database)
    try store.apply([.putSession(Sample.session(1))])
    let writing = try clock.measure {
      for first in stride(from: 1, through: count, by: Int64.Stride(batch)) {
        var changes: [StoreChange] = []
        for id in first..<(first + batch) {
          plan.key = id % 4 == 0 ? "key \(id)" : nil
          changes.append(.addTask(Sample.entry(id), TaskDetails(plan: plan, progress: TaskProgress(bootID: "b"))))
        }
        try store.apply(changes)
      }
    }
    store.close()
    let size = folder.size("state.sqlite")
    var state = StoredState()
    let loading = try clock.measure {
      state = try TransferStore(path: folder.database).load()
    }
    #expect(state.tasks.count == Int(count))
    #expect(state.keys.count == Int(count / 4))

    let next = try TransferStore(path: folder.database)
    let reading = try clock.measure {
      for id in state.tasks.prefix(10_000).map(\.id) { _ = try next.details(id) }
    }
    let single = try clock.measure {
      for entry in state.tasks.prefix(500) { try next.apply([.updateTask(entry, progress: TaskProgress())]) }
    }
    let removing = try clock.measure {
      for first in stride(from: 0, to: state.tasks.count, by: 1000) {
        try next.apply(state.tasks[first..<(first + 1000)].map { .removeTask($0.id) })
      }
    }
    print(
      """
      \(count) tasks: added in \(writing) in batches of \(batch) (\(size / count) bytes each), loaded in \(loading); \
      10,000 details in \(reading); 500 single commits in \(single); removed in \(removing)
      """)
  }
}
