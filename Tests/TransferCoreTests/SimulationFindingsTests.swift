import Testing

@testable import TransferCore

/// One test for each fault that the simulation found in the core.
@Suite struct SimulationFindingsTests {
  private let none = TaskID(rawValue: 0)

  private func complete(_ bench: inout Bench, _ id: TaskID?, held: Int64) {
    bench.handle(
      .ended(
        bench.attempt(id), .complete(TransferSummary(held: held, isLengthVerified: true)), requestWasSent: true))
  }

  @Test func aPostWhoseAnswerCannotBePlacedIsNotSentAgain() {
    var bench = Bench()
    let id = bench.add(.download(method: "POST"), to: bench.open())
    bench.openFiles(id)
    bench.respond(id, .ok(length: 3), .takeWhole)
    complete(&bench, id, held: 3)
    bench.handle(.finalized(id ?? none, .failed(TransferFailure(.fileWriteFailed, .transient, detail: "EIO"))))
    #expect(bench.state(id) == .finished(.failed))
  }

  @Test func aBackoffIsNotPutOffByAClockThatIsSetBackAYear() {
    var bench = Bench()
    var store = ModelStore()
    let id = bench.add(.download(), to: bench.open())
    bench.openFiles(id)
    bench.fail(id)
    _ = store.apply(bench.core.takeChanges())
    bench.wall -= 365 * 86_400_000
    bench.core = Core.restoring(store.state, Bench.configuration, at: bench.now).core
    bench.advance(Limits.longestBackoff)
    bench.admit()
    #expect(bench.state(id)?.attempt != nil)
  }

  @Test(arguments: [false, true])
  func aDateFollowsTheWallClock(pausesMeanwhile: Bool) {
    var bench = Bench()
    let later = WallInstant(milliseconds: bench.wall + 365 * 86_400_000)
    let id = bench.add(.download().with { $0.earliestBegin = later }, to: bench.open())
    bench.admit()
    if pausesMeanwhile { bench.command(.suspend([id ?? none])) }
    bench.wall += 365 * 86_400_000 + 2000
    bench.admit()
    if pausesMeanwhile { bench.command(.resume([id ?? none])) }
    bench.admit()
    #expect(bench.state(id)?.attempt != nil)
  }

  @Test func bytesThatWereNotSyncedAreNotTrustedAfterAReboot() {
    var bench = Bench()
    var store = ModelStore()
    let id = bench.add(.download(), to: bench.open()) ?? none
    bench.openFiles(id)
    bench.respond(id, .ok(), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 100, sent: 0))
    bench.handle(.synced(bench.attempt(id), offset: 40))
    complete(&bench, id, held: 100)
    _ = store.apply(bench.core.takeChanges())
    #expect(store.entries[id]?.state == .finalizing)
    let rebooted = Core.Configuration(managedFolder: "/state/Downloads", bootID: "boot-2")
    bench.core = Core.restoring(store.state, rebooted, at: bench.now).core
    _ = bench.take()
    #expect(bench.handle(.detailsLoaded(id, store.details[id])).finalizing == nil)
    bench.admit()
    #expect(bench.openFiles(id, held: 100)?.judgement.resume?.offset == 40)
  }

  /// Else the one that waits for fewer details overtakes, and a pause is undone by an earlier wish to go on.
  @Test func aClientsCommandsTakeEffectInTheOrderInWhichItSentThem() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    let first = bench.add(.download().with { $0.isSuspended = true }, to: session) ?? none
    let second = bench.add(.download().with { $0.isSuspended = true }, to: session) ?? none
    _ = store.apply(bench.core.takeChanges())
    bench.core = Core.restoring(store.state, Bench.configuration, at: bench.now).core
    bench.command(.resume([first, second]))
    bench.command(.suspend([first]))
    bench.handle(.detailsLoaded(first, store.details[first]))
    bench.handle(.detailsLoaded(second, store.details[second]))
    #expect(bench.state(first) == .suspended)
    #expect(bench.state(second) != .suspended)
    #expect(bench.core.heldCommands.isEmpty)
  }

  @Test func aFileThatStandsInItsPlaceIsNotWrittenToAgain() {
    var bench = Bench()
    let draft = TaskDraft.download().with { $0.destination = .file(path: "/home/u/f", collision: .fail) }
    let token = RequestToken(peer: Bench.peer, sequence: 800)
    bench.handle(.commanded(.enqueue(bench.open(), [draft]), token))
    let id = TaskID(rawValue: 1)
    bench.handle(
      .prepared(token, [PreparedTask(task: id, outcome: .ready(source: nil, destination: draft.destination))]))
    bench.admit()
    let effects = bench.handle(
      .filesOpened(bench.attempt(id), OpenedFiles(partBytes: 7, freeBytes: nil, isPlaced: true)))
    #expect(effects.finalizing?.held == 7)
    // Seed 30000663: the daemon that placed it may have been told no length.
    #expect(bench.core.residentDetails(id)?.progress.isLengthVerified == false)
    #expect(bench.core.violations() == [])
  }

  @Test func filesThatWereOpenedForNobodyAreClosed() {
    var bench = Bench()
    let id = bench.add(.download(), to: bench.open()) ?? none
    let attempt = bench.attempt(id)
    bench.command(.cancel([id]))
    let effects = bench.handle(.filesOpened(attempt, OpenedFiles(partBytes: 0, freeBytes: nil)))
    #expect(effects.contains(.stop(attempt)))
  }

  @Test func aPausedPostThatIsWhollySentIsNotSentTwice() {
    var bench = Bench()
    let id = bench.addUpload(.upload(method: "POST"), to: bench.open()) ?? none
    bench.openFiles(id)
    bench.handle(.progressed(bench.attempt(id), held: 0, sent: 20))
    bench.command(.suspend([id]))
    #expect(bench.state(id) == .suspended)
    bench.command(.resume([id]))
    bench.admit()
    bench.openFiles(id)
    bench.handle(.progressed(bench.attempt(id), held: 0, sent: 50))
    bench.command(.suspend([id]))
    #expect(bench.state(id)?.attempt != nil)
  }

  @Test func aPartLeavesOutTheCodingAndTheWholeIsDecodedAllTheSame() {
    var bench = Bench()
    let id = bench.add(.download(), to: bench.open()) ?? none
    bench.openFiles(id)
    var head = ResponseHead.ok()
    head.headers.set("Content-Encoding", to: "x-gzip")
    bench.respond(id, head, .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 60, sent: 0))
    bench.fail(id)
    bench.advance(.seconds(700))
    bench.admit()
    bench.openFiles(id, held: 60)
    bench.respond(id, .part(60), .continueAt(60))
    bench.handle(.progressed(bench.attempt(id), held: 100, sent: 0))
    let effects = bench.handle(
      .ended(
        bench.attempt(id), .complete(TransferSummary(held: 100, isLengthVerified: true)), requestWasSent: true))
    #expect(effects.finalizing?.contentEncoding == "gzip")
  }

  @Test func aDeadlineThatFallsDueWhileAResultIsPlacedIsNotLost() {
    var bench = Bench()
    let id = bench.add(.download().with { $0.resourceTimeout = .seconds(100) }, to: bench.open()) ?? none
    bench.openFiles(id)
    bench.respond(id, .ok(length: 3), .takeWhole)
    complete(&bench, id, held: 3)
    bench.advance(.seconds(101))
    bench.admit()
    bench.handle(.finalized(id, .failed(TransferFailure(.fileWriteFailed, .transient, detail: "EIO"))))
    bench.advance(.seconds(10))
    bench.admit()
    #expect(bench.state(id) == .finished(.failed))
    #expect(bench.core.violations() == [])
  }

  @Test func aPartWithoutTheTagThatItMustCarryIsNotTrusted() {
    let resume = ResumePoint(validator: .entityTag("\"v1\""), offset: 60, total: 100)
    let context = JudgementContext(
      kind: .download, statusRule: .successOnly, resume: resume, now: WallInstant(milliseconds: 0))
    guard case .restart = ResponseTable.judge(.part(60, etag: nil), context) else {
      Issue.record("The part was taken.")
      return
    }
  }

  /// Seed 120000571. A task that had failed took a new date for the time of its next try.
  @Test func aDateAfterFailuresIsADateAndNoRetry() {
    var bench = Bench()
    let id = bench.add(.download(), to: bench.open()) ?? none
    bench.openFiles(id)
    bench.fail(id)
    let date = bench.now.wall + .seconds(3 * 86_400)
    bench.command(.update(id, TaskChange(earliestBegin: date)))
    bench.command(.resume([id]))
    bench.admit()
    #expect(bench.state(id) == .waiting)
    #expect(bench.core.tasks[id]?.entry.notBefore == date)
    // The clock is set two days ahead.
    bench.wall += 2 * 86_400_000
    bench.advance(.seconds(86_400 - 60))
    bench.admit()
    #expect(bench.state(id) == .waiting)
    bench.advance(.seconds(61))
    bench.admit()
    #expect(bench.state(id)?.attempt != nil)
  }

  @Test(arguments: [Destination.managed, .file(path: "/home/u/f", collision: .fail)])
  func nothingIsMadeForATaskBeforeItsRow(destination: Destination) {
    let order = OpenOrder(task: none, partPath: "/home/u/.ferry-1.part", source: nil, destination: destination)
    #expect(Effect.openFiles(AttemptID(rawValue: 1), order).needsCommit)
    let finalize = FinalizeOrder(
      task: none, partPath: "/p", destination: destination, held: 1, contentEncoding: nil, expectedSHA256: nil)
    #expect(Effect.finalize(finalize).needsCommit)
  }
}
