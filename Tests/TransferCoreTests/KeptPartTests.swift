import Testing

@testable import TransferCore

/// Resume data: parts that outlive their tasks.
@Suite struct KeptPartTests {
  /// A bench with a download that holds 40 of 100 bytes, and its id.
  static func half(
    destination: Destination = .managed, etag: String? = "\"v1\"", collects: Bool = true
  ) -> (bench: Bench, session: SessionID, id: TaskID) {
    var bench = Bench()
    let session = bench.open(collects: collects)
    var id: TaskID?
    if destination == .managed {
      id = bench.add(.download(), to: session)
    } else {
      let token = RequestToken(peer: Bench.peer, sequence: 500)
      bench.handle(.commanded(.enqueue(session, [.download().with { $0.destination = destination }]), token))
      let prepared = PreparedTask(
        task: TaskID(rawValue: 1), outcome: .ready(source: nil, destination: destination))
      id = bench.handle(.prepared(token, [prepared])).reply(token)?.accepted.first
    }
    bench.openFiles(id)
    bench.respond(id, .ok(length: 100_000_000, etag: etag), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
    return (bench, session, id ?? TaskID(rawValue: -1))
  }

  static func kept(_ reply: Reply?) -> [KeptPart] {
    if case .cancelled(_, _, let kept)? = reply { kept } else { [] }
  }

  /// Cancels a task for resume data.
  static func keep(_ id: TaskID, _ bench: inout Bench) throws -> KeptPart {
    let kept = kept(bench.command(.cancel([id], producesResumeData: true)))
    return try #require(kept.first)
  }

  static func resuming(_ part: KeptPart) -> TaskDraft {
    TaskDraft.download("http://elsewhere.test/").with { $0.resumeToken = part.token }
  }

  static func removed(_ effects: [Effect]) -> [String] {
    effects.flatMap { effect -> [String] in if case .removeFiles(let paths) = effect { paths } else { [] } }
  }

  @Test func aCancelledDownloadIsContinuedByAnotherTask() throws {
    var (bench, session, id) = Self.half()
    _ = bench.take()
    let part = try Self.keep(id, &bench)
    #expect(bench.state(id) == .finished(.cancelled))
    #expect(part.received == 40 && part.task == id && part.app == "app")
    #expect(Self.removed(bench.effects).isEmpty)
    #expect(bench.core.keptPart(of: id) == part)
    #expect(bench.core.mustKeepFiles(of: id))
    // The first task's result is collected, and its file stays for the second.
    let numbers = bench.effects.offers.map(\.number)
    bench.command(.acknowledge(session, numbers))
    #expect(bench.core.tasks[id] == nil)
    #expect(Self.removed(bench.effects).isEmpty)

    let next = try must(bench.add(Self.resuming(part), to: session))
    #expect(bench.core.keptPart(part.token) == nil)
    #expect(bench.core.residentDetails(next)?.plan.partPath == part.partPath)
    #expect(bench.core.residentDetails(next)?.plan.request.url == "http://host.test/file")
    #expect(bench.entry(next)?.received == 40)
    #expect(bench.core.mustKeepFiles(of: id))
    let order = try must(bench.openFiles(next, held: 40))
    #expect(order.request.headers["Range"] == "bytes=40-")
    #expect(order.request.headers["If-Range"] == "\"v1\"")
    #expect(bench.core.violations() == [])
    bench.respond(next, .part(40, of: 100_000_000), .continueAt(40))
    #expect(bench.effects.contains(.announce(next, .resumed(offset: 40))))
    bench.handle(
      .ended(
        bench.attempt(next), .complete(TransferSummary(held: 100_000_000, isLengthVerified: true)),
        requestWasSent: true))
    let finalize = try #require(bench.effects.finalizing)
    #expect(finalize.partPath == part.partPath)
    bench.handle(.finalized(next, .placed(path: part.partPath, bytes: 100_000_000, sha256: nil)))
    _ = bench.take()
    bench.command(.acknowledge(session, bench.core.sessions[session]?.deliveries.records.map(\.number) ?? []))
    // Collected: the file goes, under the name that it has.
    #expect(Self.removed(bench.effects).contains(part.partPath))
    #expect(!bench.core.mustKeepFiles(of: id))
    #expect(bench.core.violations() == [])
  }

  @Test func nothingIsKeptWhereNothingCanBeContinued() {
    var (bench, session, id) = Self.half(etag: nil)
    #expect(Self.kept(bench.command(.cancel([id], producesResumeData: true))).isEmpty)
    #expect(bench.state(id) == .finished(.cancelled))
    // Nothing received; a POST; a plain cancellation.
    let fresh = bench.add(.download(), to: session)
    #expect(Self.kept(bench.command(.cancel([fresh].compactMap(\.self), producesResumeData: true))).isEmpty)
    var (other, _, plain) = Self.half()
    other.command(.cancel([plain]))
    #expect(other.core.keptPartCount == 0)
    #expect(!Self.removed(other.effects).isEmpty)
  }

  @Test func aTicketIsGoodOnce() throws {
    var (bench, session, id) = Self.half()
    let part = try Self.keep(id, &bench)
    let outcomes = bench.command(.enqueue(session, [Self.resuming(part), Self.resuming(part)]))
    guard case .enqueued(let answers)? = outcomes, case .refused(let refusal) = answers[1] else {
      Issue.record("\(String(describing: outcomes))")
      return
    }
    #expect(refusal.name == .resumeDataInvalid)
    #expect(bench.add(Self.resuming(part), to: session) == nil)
    // Asked again under the same key because the answer was lost, it gives the same task.
    var (again, home, first) = Self.half()
    let kept = try Self.keep(first, &again)
    let draft = Self.resuming(kept).with { $0.key = "k" }
    let next = again.add(draft, to: home)
    #expect(next != nil && again.add(draft, to: home) == next)
    #expect(again.core.violations() == [])
  }

  @Test func anotherAppsPartIsNotGivenAway() throws {
    var (bench, _, id) = Self.half()
    let part = try Self.keep(id, &bench)
    let reply = bench.command(
      .openSession(
        SessionKey(app: "other", identifier: "s"), attach: false, collectsResults: true, network: NetworkSettings()))
    guard case .sessionOpened(let other, _, _)? = reply else {
      Issue.record("not opened")
      return
    }
    #expect(bench.add(Self.resuming(part), to: other) == nil)
    #expect(bench.core.keptPart(part.token) == part)
  }

  @Test func aFailureOffersWhatItLeftWhereSomebodyHears() throws {
    var (bench, _, id) = Self.half()
    bench.fail(id, .certificateUntrusted, .permanent)
    #expect(bench.core.keptPart(of: id)?.received == 40)
    var (silent, _, other) = Self.half(collects: false)
    silent.fail(other, .certificateUntrusted, .permanent)
    #expect(silent.core.keptPartCount == 0)
    var (wrong, _, third) = Self.half()
    wrong.fail(third, .rangeUnsatisfiable, .permanent)
    #expect(wrong.core.keptPartCount == 0)
    // And a person's folder is not littered with parts that nobody asked for.
    var (beside, _, fourth) = Self.half(destination: .file(path: "/home/u/f", collision: .fail))
    beside.fail(fourth, .certificateUntrusted, .permanent)
    #expect(beside.core.keptPartCount == 0)
  }

  @Test func aPartBesideItsDestinationGoesOnThere() throws {
    var (bench, session, id) = Self.half(destination: .file(path: "/home/u/f", collision: .fail))
    let part = try Self.keep(id, &bench)
    #expect(part.partPath == "/home/u/.ferry-1.part")
    let token = RequestToken(peer: Bench.peer, sequence: 600)
    let effects = bench.handle(.commanded(.enqueue(session, [Self.resuming(part)]), token))
    guard case .prepare(_, let orders)? = effects.first(where: { if case .prepare = $0 { true } else { false } }) else {
      Issue.record("nothing is looked at")
      return
    }
    #expect(orders.first?.destination == part.destination)
    // While it is looked at, nobody else gets it, and time does not take it away.
    #expect(bench.add(Self.resuming(part), to: session) == nil)
    let prepared = PreparedTask(
      task: orders[0].task, outcome: .refused(Refusal(.destinationExists, "It is there.")))
    bench.handle(.prepared(token, [prepared]))
    // Refused, it can be used again.
    #expect(bench.core.keptPart(part.token) == part)
    bench.handle(.commanded(.enqueue(session, [Self.resuming(part)]), token))
    let ready = PreparedTask(
      task: TaskID(rawValue: orders[0].task.rawValue + 1), outcome: .ready(source: nil, destination: part.destination))
    let next = bench.handle(.prepared(token, [ready])).reply(token)?.accepted.first
    #expect(next.flatMap { bench.core.residentDetails($0)?.plan.partPath } == part.partPath)
    #expect(bench.core.violations() == [])
  }

  @Test func aPartThatWentOnCanBeKeptAgain() throws {
    var (bench, session, id) = Self.half()
    let first = try Self.keep(id, &bench)
    let next = try must(bench.add(Self.resuming(first), to: session))
    _ = bench.take()
    let second = try Self.keep(next, &bench)
    #expect(second.owner == id && second.task == next && second.token != first.token)
    #expect(Self.removed(bench.effects).isEmpty)
    let third = try must(bench.add(Self.resuming(second), to: session))
    #expect(bench.core.residentDetails(third)?.plan.partPath == first.partPath)
    // The ends of the others do not touch the file.
    _ = bench.take()
    bench.command(.remove([id, next]))
    #expect(Self.removed(bench.effects).isEmpty)
    #expect(bench.core.violations() == [])
    bench.command(.remove([third]))
    #expect(Self.removed(bench.effects) == [first.partPath])
  }

  @Test func removingATaskRemovesWhatWasKeptOfIt() throws {
    var (bench, _, id) = Self.half()
    let part = try Self.keep(id, &bench)
    _ = bench.take()
    bench.command(.remove([id]))
    #expect(bench.core.keptPartCount == 0)
    #expect(Self.removed(bench.effects).contains(part.partPath))
  }

  @Test func aForegroundClientLetsTheTaskGoAndKeepsThePart() throws {
    var bench = Bench()
    let opened = bench.command(
      .foreground(
        .open(SessionKey(app: "app", identifier: "f"), network: NetworkSettings(), waitsForConnectivity: false)))
    guard case .sessionOpened(let session, _, _)? = opened else {
      Issue.record("no session")
      return
    }
    let id = try must(bench.add(.download(), to: session))
    bench.openFiles(id)
    bench.respond(id, .ok(length: 100_000_000), .takeWhole)
    bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
    bench.fail(id)
    #expect(bench.state(id) == .finished(.failed))
    let part = try #require(bench.core.keptPart(of: id))
    _ = bench.take()
    bench.command(.remove([id]))
    #expect(bench.core.tasks[id] == nil && bench.core.keptPart(part.token) == part)
    #expect(Self.removed(bench.effects).isEmpty && bench.core.violations() == [])
    let next = try must(bench.add(Self.resuming(part), to: session))
    #expect(bench.core.residentDetails(next)?.plan.partPath == part.partPath)
    bench.command(.cancel([next]))
    bench.command(.remove([next]))
    #expect(Self.removed(bench.effects).contains(part.partPath) && bench.core.violations() == [])
  }

  @Test func aPartIsKeptForAWeekAndNoLonger() throws {
    var (bench, session, id) = Self.half()
    var store = ModelStore()
    let part = try Self.keep(id, &bench)
    bench.command(.acknowledge(session, bench.effects.offers.map(\.number)))
    #expect(store.apply(bench.core.takeChanges()) == [])
    #expect(store.keptParts.count == 1)
    bench.advance(Limits.keptPartRetention - .seconds(1))
    bench.admit()
    #expect(bench.core.keptPartCount == 1)
    // A wall clock that was set back keeps it longer, not for ever.
    bench.wall -= 3_600_000
    bench.advance(.seconds(2))
    bench.admit()
    #expect(bench.core.keptPartCount == 1)
    bench.advance(.seconds(3700))
    bench.admit()
    #expect(bench.core.keptPartCount == 0)
    #expect(Self.removed(bench.effects).contains(part.partPath))
    #expect(store.apply(bench.core.takeChanges()) == [])
    #expect(store.keptParts.isEmpty)
  }

  @Test func partsAreBoundedAndTheOldestGoes() throws {
    var bench = Bench()
    let session = bench.open(limit: 64)
    var paths: [String] = []
    for _ in 0...Limits.keptParts {
      let id = bench.add(.download(), to: session)
      bench.openFiles(id)
      bench.respond(id, .ok(length: 100_000_000), .takeWhole)
      bench.handle(.progressed(bench.attempt(id), held: 40, sent: 0))
      let part = try Self.keep(try #require(id), &bench)
      paths.append(part.partPath)
    }
    #expect(bench.core.keptPartCount == Limits.keptParts)
    #expect(Self.removed(bench.effects) == [paths[0]])
  }

  @Test func aRestartKnowsWhoseFileIsWhose() throws {
    var (bench, session, id) = Self.half()
    var store = ModelStore()
    let part = try Self.keep(id, &bench)
    #expect(store.apply(bench.core.takeChanges()) == [])
    // The part is kept, and its task's result is not collected: nothing may be removed.
    func restored() -> (Bench, [Effect]) {
      let (core, effects) = Core.restoring(store.state, Bench.configuration, at: bench.now)
      var next = Bench(core)
      next.boot = bench.boot
      next.wall = bench.wall
      var all = effects
      for case .loadDetails(let task) in effects { all += next.handle(.detailsLoaded(task, store.details[task])) }
      return (next, all)
    }
    var (second, effects) = restored()
    #expect(Self.removed(effects).isEmpty)
    #expect(second.core.keptPart(part.token) == part)
    #expect(second.core.mustKeepFiles(of: id))
    #expect(second.core.violations() == [])
    let next = try must(second.add(Self.resuming(part), to: session))
    #expect(store.apply(second.core.takeChanges()) == [])
    bench = second
    let (third, others) = restored()
    #expect(Self.removed(others).isEmpty)
    #expect(third.core.keptPartCount == 0)
    #expect(third.core.mustKeepFiles(of: id) && third.core.holdsPart(next) && !third.core.holdsPart(id))
    #expect(third.core.violations() == [])
  }

  @Test func afterARebootOnlyWhatWasSyncedCounts() throws {
    var (bench, session, id) = Self.half()
    bench.handle(.synced(bench.attempt(id), offset: 30))
    let part = try Self.keep(id, &bench)
    var store = ModelStore()
    #expect(store.apply(bench.core.takeChanges()) == [])
    let (core, _) = Core.restoring(
      store.state, Core.Configuration(managedFolder: "/state/Downloads", bootID: "boot-2"), at: bench.now)
    var next = Bench(core)
    next.boot = bench.boot
    next.wall = bench.wall
    _ = next.open()
    let resumed = next.add(Self.resuming(part), to: session)
    #expect(next.openFiles(resumed, held: 40)?.request.headers["Range"] == "bytes=30-")
  }

  @Test func aPartWhoseFileIsGoneBeginsAgainAndSaysSo() throws {
    var (bench, session, id) = Self.half()
    let part = try Self.keep(id, &bench)
    let next = bench.add(Self.resuming(part), to: session)
    let order = bench.openFiles(next, held: 0)
    #expect(order?.request.headers.contains("Range") == false)
    #expect(next.map { bench.effects.contains(.announce($0, .resumed(offset: 0))) } == true)
  }
}

/// What a mutating call gave: `#require` takes none.
func must<Value>(_ value: Value?, sourceLocation: SourceLocation = #_sourceLocation) throws -> Value {
  try #require(value, sourceLocation: sourceLocation)
}
