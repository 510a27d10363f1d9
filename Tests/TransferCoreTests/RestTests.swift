import Testing

@testable import TransferCore

/// At rest details leave memory: whatever comes afterwards has to read them before it changes or ends their task.
@Suite struct RestTests {
  private let none = TaskID(rawValue: 0)

  /// Everything is in the store, and the daemon rests.
  private func rest(_ bench: inout Bench, _ store: inout ModelStore) {
    #expect(store.apply(bench.core.takeChanges()) == [])
    bench.core.rest()
  }

  /// Answers each wish for details until there is none.
  private func load(_ bench: inout Bench, _ store: ModelStore, _ effects: [Effect]) -> [Effect] {
    var all = effects
    var next = effects
    while !next.isEmpty {
      let wished = next
      next = []
      for case .loadDetails(let id) in wished { next += bench.handle(.detailsLoaded(id, store.details[id])) }
      all += next
    }
    return all
  }

  @Test func whatIsOnTheWireStaysAndWhatWaitsIsReadAgain() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open(limit: 1)
    let first = bench.add(.download(), to: session) ?? none
    let second = bench.add(.download(), to: session) ?? none
    bench.openFiles(first)
    rest(&bench, &store)
    #expect(bench.core.residentDetails(first) != nil)
    #expect(bench.core.residentDetails(second) == nil)
    bench.fail(first, .badServerResponse, .permanent)
    #expect(bench.take().contains(.loadDetails(second)))
    bench.handle(.detailsLoaded(second, store.details[second]))
    #expect(bench.openFiles(second)?.task == second)
    #expect(bench.core.violations() == [])
  }

  /// A daemon that has met a thousand hosts keeps the lanes of those that it still has tasks for, and of those that are
  /// given a rest.
  @Test func lanesOfHostsThatNobodyAsksForGo() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open(limit: 1)
    let kept = bench.add(.download("http://kept.test/1"), to: session) ?? none
    let waiting = bench.add(.download("http://kept.test/2"), to: session) ?? none
    for number in 0..<1000 {
      let id = bench.add(.download("http://host\(number).test/"), to: session)
      if number == 500 {
        bench.openFiles(id)
        bench.fail(id, .connectionRefused)
      }
      bench.command(.remove(id.map { [$0] } ?? []))
      if number % 100 == 99 {
        rest(&bench, &store)
        #expect(bench.core.violations() == [])
        #expect(bench.core.admission.lanes.count <= 9)
      }
    }
    rest(&bench, &store)
    #expect(bench.core.admission.lanes.map(\.origin).contains("http://host500.test:80"))
    // Those that are left go on in their lanes.
    #expect(bench.state(kept)?.attempt != nil)
    #expect(bench.state(waiting) == .waiting)
    bench.openFiles(kept)
    bench.fail(kept, .badServerResponse, .permanent)
    _ = load(&bench, store, bench.take())
    #expect(bench.openFiles(waiting)?.task == waiting)
    let late = bench.add(.download("http://host500.test/"), to: session)
    #expect(bench.state(late) == .waiting, "its host still has its rest")
    #expect(bench.core.violations() == [])
  }

  /// Else a daemon that has done much reads the details of each task from the disk when its turn comes.
  @Test func tasksThatAreGoneTakeNoPlaceInMemory() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let count = Limits.residentDetails / 8
    let drafts = Array(repeating: TaskDraft.download().with { $0.isSuspended = true }, count: count)
    var last: [TaskID] = []
    for _ in 0..<18 {
      bench.command(.remove(last))
      last = bench.command(.enqueue(session, drafts))?.accepted ?? []
      #expect(store.apply(bench.core.takeChanges()) == [])
    }
    #expect(last.count == count)
    #expect(last.allSatisfy { bench.core.residentDetails($0) != nil })
  }

  @Test func aFailedTasksPartGoesWithItsResult() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let destination = Destination.file(path: "/home/file", collision: .fail)
    let token = RequestToken(peer: Bench.peer, sequence: 90)
    let draft = TaskDraft.download().with { $0.destination = destination }
    var id = none
    for case .prepare(_, let orders) in bench.handle(.commanded(.enqueue(session, [draft]), token)) {
      let ready = orders.map {
        PreparedTask(task: $0.task, outcome: .ready(source: nil, destination: destination))
      }
      id = bench.handle(.prepared(token, ready)).reply(token)?.accepted.first ?? none
    }
    bench.openFiles(id)
    bench.respond(id, .ok(length: 3), .takeWhole)
    let summary = TransferSummary(held: 3, isLengthVerified: true)
    bench.handle(.ended(bench.attempt(id), .complete(summary), requestWasSent: true))
    bench.handle(.finalized(id, .failed(TransferFailure(.fileExists, .permanent, detail: "Taken."))))
    #expect(bench.state(id) == .finished(.failed))
    guard let path = bench.core.residentDetails(id)?.plan.partPath, let offer = bench.take().offers.first else {
      Issue.record("No result was offered.")
      return
    }
    rest(&bench, &store)
    let acknowledgement = Command.acknowledge(session, [offer.number])
    let answer = bench.handle(.commanded(acknowledgement, RequestToken(peer: Bench.peer, sequence: 91)))
    let effects = load(&bench, store, answer)
    #expect(effects.contains(.removeFiles([path])))
    #expect(bench.state(id) == nil)
    #expect(bench.core.violations() == [])
  }

  @Test func dataTasksOfALostClientEndWithTheReason() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open(limit: 1)
    _ = bench.add(.data(), to: session)
    let waiting = bench.add(.data(), to: session) ?? none
    bench.handle(.peerLeft(Bench.peer))
    rest(&bench, &store)
    bench.advance(Limits.dataTaskGrace)
    _ = load(&bench, store, bench.admit())
    #expect(bench.state(waiting) == .finished(.failed))
    #expect(bench.core.residentDetails(waiting)?.progress.failure?.code == .sessionDisconnected)
    #expect(bench.core.violations() == [])
  }

  @Test func aReceiptThatIsAskedForAgainTellsOfThePin() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let draft = TaskDraft.upload().with {
      $0.key = "once"
      $0.isSuspended = true
    }
    let id = bench.addUpload(draft, to: session)
    rest(&bench, &store)
    let token = RequestToken(peer: Bench.peer, sequence: 92)
    let effects = load(&bench, store, bench.handle(.commanded(.enqueue(session, [draft]), token)))
    guard case .enqueued(let outcomes)? = effects.reply(token),
      case .accepted(id, _, existed: true, let pin)? = outcomes.first
    else {
      Issue.record("The receipt is another.")
      return
    }
    #expect(pin == UploadSource.pinned().pin)
  }
}
