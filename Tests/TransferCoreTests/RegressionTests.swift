import Testing

@testable import TransferCore

/// One test for each fault that the core has had.
@Suite struct RegressionTests {
  @Test func aTaskWhoseFilesTookLongerThanItsSuccessorsIsNotLost() {
    var bench = Bench()
    let session = bench.open()
    let slow = RequestToken(peer: Bench.peer, sequence: 900)
    bench.handle(.commanded(.enqueue(session, [.upload()]), slow))
    let quick = bench.add(.download(), to: session)
    let effects = bench.handle(
      .prepared(
        slow, [PreparedTask(task: TaskID(rawValue: 1), outcome: .ready(source: .pinned(), destination: .managed))]))
    #expect(quick == TaskID(rawValue: 2))
    let id = effects.reply(slow)?.accepted.first
    #expect(id == TaskID(rawValue: 1))
    #expect(bench.state(id) != nil)
    #expect(bench.core.violations() == [])
  }

  @Test func aTaskThatIsAddedEndedAndRemovedInOneTickLeavesNoOrphanedResult() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let id = bench.add(.download(), to: session)
    bench.command(.cancel([id].compactMap(\.self)))
    bench.command(.remove([id].compactMap(\.self)))
    #expect(store.apply(bench.core.takeChanges()) == [])
    #expect(store.entries.isEmpty)
  }

  @Test func aKeyIsFreeAgainInTheTickInWhichItsTaskIsRemoved() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let first = bench.add(.download().with { $0.key = "k" }, to: session)
    #expect(store.apply(bench.core.takeChanges()) == [])
    bench.command(.remove([first].compactMap(\.self)))
    let second = bench.add(.download().with { $0.key = "k" }, to: session)
    #expect(second != nil && second != first)
    #expect(store.apply(bench.core.takeChanges()) == [])
    #expect(store.entries.count == 1)
  }

  @Test func aSessionThatEndsAndIsOpenedAgainInOneTickHasOneRow() {
    var bench = Bench()
    var store = ModelStore()
    let first = bench.open()
    #expect(store.apply(bench.core.takeChanges()) == [])
    bench.command(.invalidateSession(first, cancel: true))
    let second = bench.open()
    #expect(second != first)
    #expect(store.apply(bench.core.takeChanges()) == [])
    #expect(store.sessions.count == 1)
  }

  @Test func aDateForATaskInLineDoesNotLoseIt() {
    var bench = Bench()
    let session = bench.open(limit: 1)
    let running = bench.add(.download(), to: session)
    let waiting = bench.add(.download(), to: session)
    let later = WallInstant(milliseconds: bench.wall + 10_000)
    bench.command(.update(waiting ?? TaskID(rawValue: 0), TaskChange(earliestBegin: later)))
    bench.openFiles(running)
    bench.fail(running, .httpStatus, .permanent)
    #expect(bench.state(waiting) == .waiting)
    #expect(bench.core.violations() == [])
    bench.advance(.seconds(11))
    bench.admit()
    #expect(bench.state(waiting)?.attempt != nil)
  }

  @Test func aHigherPriorityCountsForATaskThatIsInLineAlready() {
    var bench = Bench()
    let session = bench.open(limit: 1)
    let running = bench.add(.download(), to: session)
    let second = bench.add(.download(), to: session)
    let third = bench.add(.download(), to: session)
    bench.command(.update(third ?? TaskID(rawValue: 0), TaskChange(priority: 200)))
    bench.fail(running, .httpStatus, .permanent)
    #expect(bench.state(third)?.attempt != nil)
    #expect(bench.state(second) == .waiting)
    #expect(bench.core.violations() == [])
  }

  @Test func aTaskWhoseRecordIsDamagedIsReportedToItsApp() {
    let entry = TaskEntry(
      id: TaskID(rawValue: 1), session: SessionID(rawValue: 1), number: 1, kind: .download, state: .waiting,
      origin: "http://host.test:80", deadline: WallInstant(milliseconds: 1_800_000_000_000))
    let stored = StoredState(
      sessions: [
        SessionRecord(id: entry.session, key: SessionKey(app: "app", identifier: "s"), nextTaskNumber: 2)
      ], tasks: [entry], lastTaskID: entry.id, lastSessionID: entry.session)
    var bench = Bench()
    bench.core = Core.restoring(stored, Bench.configuration, at: bench.now).core
    #expect(bench.admit().contains(.loadDetails(entry.id)))
    bench.handle(.detailsLoaded(entry.id, nil))
    #expect(bench.state(entry.id) == .finished(.failed))
    _ = bench.open()
    #expect(bench.take().offers.map(\.kind) == [.completion, .finishEvents])
    #expect(bench.core.violations() == [])
  }

  /// Failure case 23 where the row is behind the part file, as it is after a kill.
  @Test func aPartThatTheServerCallsWholeHasTheLengthThatWasAskedFor() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.download(), to: session)
    bench.openFiles(id)
    bench.respond(id, .ok(length: nil), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
    bench.fail(id)
    bench.advance(.seconds(700))
    bench.admit()
    // Bytes that no progress event told of before the attempt broke off.
    let order = bench.openFiles(id, held: 100)
    #expect(order?.judgement.resume?.offset == 100)
    bench.respond(id, .ok(length: 0, status: 416), .alreadyComplete)
    let effects = bench.handle(.ended(bench.attempt(id), .discarded, requestWasSent: true))
    #expect(effects.finalizing?.held == 100)
  }

  /// A kill between a commit and the truncation of the part file must not leave old bytes under a new validator.
  @Test func theRowVouchesForNothingUntilABodyByteArrived() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let id = bench.add(.download(), to: session)
    bench.openFiles(id)
    bench.respond(id, .ok(etag: "\"v1\""), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
    bench.fail(id)
    bench.advance(.seconds(700))
    bench.admit()
    bench.openFiles(id, held: 40)
    bench.respond(id, .ok(etag: "\"v2\""), .takeWhole)
    #expect(bench.take().contains(.releaseBody(bench.attempt(id))))
    _ = store.apply(bench.core.takeChanges())
    #expect(id.flatMap { store.details[$0]?.progress.resumePoint } == nil)

    bench.handle(.progressed(bench.attempt(id), held: 1, sent: 0))
    _ = store.apply(bench.core.takeChanges())
    #expect(id.flatMap { store.details[$0]?.progress.resumePoint?.validator } == .entityTag("\"v2\""))
  }

  /// After a reboot only the synced bytes count, until the part file was cut to them.
  @Test func aPartFileOfAnotherBootCountsByItsSyncedLengthUntilItWasContinued() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let id = bench.add(.download(), to: session)
    bench.openFiles(id)
    bench.respond(id, .ok(), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 60, sent: 0))
    bench.handle(.synced(bench.attempt(id), offset: 50))
    _ = store.apply(bench.core.takeChanges())
    let configuration = Core.Configuration(managedFolder: "/state/Downloads", bootID: "boot-2")
    bench.core = Core.restoring(store.state, configuration, at: bench.now).core
    bench.admit()
    bench.handle(.detailsLoaded(TaskID(rawValue: 1), store.details[TaskID(rawValue: 1)]))
    #expect(bench.openFiles(id, held: 60)?.judgement.resume?.offset == 50)
    bench.respond(id, .part(50), .continueAt(50))
    _ = store.apply(bench.core.takeChanges())
    #expect(store.details[TaskID(rawValue: 1)]?.progress.bootID == "boot-1")
    bench.handle(.progressed(bench.attempt(id), held: 61, sent: 0))
    _ = store.apply(bench.core.takeChanges())
    #expect(store.details[TaskID(rawValue: 1)]?.progress.bootID == "boot-2")
  }

  /// The server acted on the POST and said where its answer stands; only that answer was lost.
  @Test(arguments: [301, 302, 303])
  func aPostThatWasAnsweredByARedirectIsNotSentAgain(status: Int) {
    var bench = Bench()
    let session = bench.open()
    let id = bench.addUpload(.upload(method: "POST"), to: session)
    bench.openFiles(id, held: 0)
    bench.handle(.progressed(bench.attempt(id), held: 0, sent: 50))
    bench.respond(id, .ok(status: status), .redirect)
    bench.handle(
      .ended(bench.attempt(id), .redirected(location: "http://host.test/answer"), requestWasSent: true))
    #expect(bench.openFiles(id)?.request.method == "GET")
    bench.fail(id)
    #expect(bench.state(id) == .finished(.failed))
    #expect(bench.core.residentDetails(id ?? TaskID(rawValue: 0))?.progress.failure?.code == .outcomeUnknown)
  }

  @Test(arguments: [500, 502, 504])
  func aPostThatAServerMayHaveActedOnIsNotSentAgain(status: Int) {
    var bench = Bench()
    let session = bench.open()
    let id = bench.addUpload(.upload(method: "POST"), to: session)
    let order = bench.openFiles(id)
    let head = ResponseHead.ok(status: status)
    let verdict = order.map { ResponseTable.judge(head, $0.judgement) }
    bench.respond(id, head, verdict ?? .takeWhole)
    bench.handle(.ended(bench.attempt(id), .discarded, requestWasSent: true))
    #expect(bench.state(id) == .finished(.failed))
  }

  @Test func anEndThatContradictsTheVerdictDeliversNothing() {
    for end in [
      AttemptEnd.complete(TransferSummary(held: 3, isLengthVerified: true)), .redirected(location: "http://a.test/"),
    ] {
      for verdict in [ResponseVerdict?.none, .restart(reason: "x"), .alreadyComplete] {
        var bench = Bench()
        let session = bench.open()
        let id = bench.add(.download(), to: session)
        bench.openFiles(id)
        if let verdict { bench.respond(id, .ok(), verdict) }
        bench.handle(.ended(bench.attempt(id), end, requestWasSent: true))
        #expect(bench.state(id) == .waiting)
        #expect(bench.core.violations() == [])
      }
    }
  }

  @Test func anAppThatAsksForARangeGetsItsPart() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(
      .download().with { $0.request.headers.set("range", to: "bytes=10-19") }, to: session)
    let order = bench.openFiles(id)
    let head = ResponseHead(
      status: 206, headers: [("Content-Range", "bytes 10-19/100"), ("Content-Length", "10")],
      url: "http://host.test/file")
    let verdict = order.map { ResponseTable.judge(head, $0.judgement) }
    #expect(verdict == .takeWhole)
    bench.respond(id, head, .takeWhole)
    #expect(bench.entry(id)?.expected == 10)
  }

  @Test func aPauseThatArrivesBeforeTheRestartIsUnderstoodDoesNotSendAPostTwice() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let id = bench.addUpload(.upload(method: "POST"), to: session) ?? TaskID(rawValue: 0)
    bench.openFiles(id)
    #expect(store.apply(bench.core.takeChanges()) == [])
    bench.core = Core.restoring(store.state, Bench.configuration, at: bench.now).core
    bench.command(.suspend([id]))
    bench.handle(.detailsLoaded(id, store.details[id]))
    #expect(bench.state(id) == .finished(.failed))
    #expect(bench.core.violations() == [])
  }

  @Test func aCommandOnMoreTasksThanStayInMemoryIsCarriedOut() {
    let count = Int64(2 * Limits.residentDetails + 100)
    var bench = Bench()
    let session = SessionRecord(
      id: SessionID(rawValue: 1), key: SessionKey(app: "app", identifier: "s"), nextTaskNumber: count + 1)
    let tasks = (1...count).map { number in
      TaskEntry(
        id: TaskID(rawValue: number), session: session.id, number: number, kind: .download, state: .suspended,
        origin: "http://host.test:80")
    }
    let stored = StoredState(
      sessions: [session], tasks: tasks, lastTaskID: TaskID(rawValue: count), lastSessionID: session.id)
    bench.core = Core.restoring(stored, Bench.configuration, at: bench.now).core
    let details = TaskDetails(
      plan: TaskPlan(
        kind: .download, request: TransferRequest(url: "http://host.test/file"), partPath: "/p",
        createdAt: WallInstant(milliseconds: 0)), progress: TaskProgress())
    let token = RequestToken(peer: Bench.peer, sequence: 7)
    var pending = bench.handle(.commanded(.cancel(tasks.map(\.id)), token))
    var rounds = 0
    var isAnswered = false
    while !pending.isEmpty, rounds < 3, !isAnswered {
      rounds += 1
      var next: [Effect] = []
      for case .loadDetails(let id) in pending {
        next += bench.handle(.detailsLoaded(id, details))
        _ = bench.core.takeChanges()
      }
      isAnswered = next.reply(token) != nil
      pending = next
    }
    #expect(isAnswered)
    #expect(bench.state(TaskID(rawValue: count)) == .finished(.cancelled))
  }

  @Test func aCommandWhoseTaskWentAwayWhileItWaitedIsAnswered() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let id = bench.add(.download(), to: session) ?? TaskID(rawValue: 0)
    bench.command(.cancel([id]))
    #expect(store.apply(bench.core.takeChanges()) == [])
    bench.core = Core.restoring(store.state, Bench.configuration, at: bench.now).core
    _ = bench.open()
    let token = RequestToken(peer: Bench.peer, sequence: 70)
    let held = bench.handle(.commanded(.update(id, TaskChange(priority: 1)), token))
    #expect(held.reply(token) == nil)
    bench.command(.acknowledge(session, [DeliveryNumber(rawValue: 1)]), peer: PeerID(rawValue: 2))
    #expect(bench.state(id) == nil)
    #expect(bench.handle(.detailsLoaded(id, nil)).reply(token) != nil)
    #expect(bench.core.violations() == [])
  }

  @Test func aResultIsForgottenAlsoWhenTheWallClockWasSetBack() {
    var bench = Bench()
    let session = bench.open(attach: false, collects: false)
    let id = bench.add(.download(), to: session)
    bench.command(.cancel([id].compactMap(\.self)))
    bench.wall -= 86_400_000
    bench.advance(Limits.retention)
    bench.admit()
    #expect(bench.core.violations() == [])
    bench.advance(.seconds(86_401))
    bench.admit()
    #expect(bench.state(id) == nil)
  }

  @Test func aClientThatCameBackGetsItsWholeGraceAgain() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.data(), to: session)
    bench.handle(.peerLeft(Bench.peer))
    bench.advance(Limits.dataTaskGrace - .seconds(1))
    _ = bench.open()
    bench.handle(.peerLeft(Bench.peer))
    bench.advance(.seconds(2))
    bench.admit()
    #expect(bench.state(id) == .waiting)
    bench.advance(Limits.dataTaskGrace)
    bench.admit()
    #expect(bench.state(id) == .finished(.failed))
  }

  @Test func rowsWhoseMomentsContradictTheirStateNeitherRunNorStayForEver() {
    var bench = Bench()
    let session = SessionRecord(
      id: SessionID(rawValue: 1), key: SessionKey(app: "app", identifier: "s"), nextTaskNumber: 9)
    let moment = WallInstant(milliseconds: 5)
    let states: [TaskState] = [.waiting, .suspended, .asking, .finalizing, .finished(.succeeded)]
    let tasks = states.enumerated().map { index, state in
      TaskEntry(
        id: TaskID(rawValue: Int64(index + 1)), session: session.id, number: Int64(index + 1), kind: .download,
        state: state, origin: "http://host.test:80", deadline: state == .suspended ? moment : nil,
        finishedAt: state.isFinished ? nil : moment)
    }
    let stored = StoredState(
      sessions: [session], tasks: tasks, lastTaskID: TaskID(rawValue: 9), lastSessionID: session.id)
    bench.core = Core.restoring(stored, Bench.configuration, at: bench.now).core
    #expect(bench.core.violations() == [])
    #expect(!bench.core.takeChanges().isEmpty)
  }

  /// A full disk has no room for an answer either: the server is not asked in vain, and an upload's answer not lost.
  @Test(arguments: [TaskDraft.download(), .upload(method: "POST")])
  func nothingIsAskedForWhereTheDiskHasNoRoom(_ draft: TaskDraft) {
    var bench = Bench()
    let session = bench.open()
    let id = draft.kind == .upload ? bench.addUpload(draft, to: session) : bench.add(draft, to: session)
    #expect(bench.openFiles(id, free: 0) == nil)
    #expect(bench.state(id) == .waiting)
    let cell = id.flatMap { bench.core.tasks[$0] }
    #expect(
      cell.map { bench.core.blockers($0, bench.core.details[$0.entry.id], at: bench.now).map(\.name) } == [.space])
    bench.advance(Limits.spaceCheckInterval)
    bench.admit()
    #expect(bench.openFiles(id, free: 1 << 20)?.task == id)
  }
}
