import Testing

@testable import TransferCore

/// Ends of sessions, of results that nobody collects, and of a daemon that is replaced.
@Suite struct EndingTests {
  // MARK: Sessions

  @Test func aSessionThatNobodyUsesIsReclaimed() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    bench.handle(.peerLeft(Bench.peer))
    #expect(bench.core.sessions[session]?.record.unusedSince?.milliseconds == bench.wall)
    #expect(store.apply(bench.core.takeChanges()) == [])
    bench.advance(Limits.sessionRetention - .seconds(1))
    bench.admit()
    #expect(bench.core.sessions[session] != nil)
    bench.advance(.seconds(2))
    bench.admit()
    #expect(bench.core.sessions[session] == nil)
    #expect(store.apply(bench.core.takeChanges()) == [])
    #expect(store.sessions.isEmpty)
  }

  @Test func attachingOrATaskKeepsASession() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.peerLeft(Bench.peer))
    bench.advance(.seconds(20 * 86_400))
    _ = bench.open(peer: PeerID(rawValue: 2))
    #expect(bench.core.sessions[session]?.record.unusedSince == nil)
    bench.advance(.seconds(20 * 86_400))
    bench.admit()
    #expect(bench.core.sessions[session] != nil)
    let id = bench.add(.download().with { $0.isSuspended = true }, to: session)
    bench.handle(.peerLeft(PeerID(rawValue: 2)))
    bench.advance(.seconds(40 * 86_400))
    bench.admit()
    #expect(bench.core.sessions[session] != nil)
    bench.command(.remove([id].compactMap(\.self)))
    #expect(bench.core.sessions[session]?.record.unusedSince != nil)
  }

  @Test func theDaysBeforeARestartCount() {
    var bench = Bench()
    var store = ModelStore()
    let session = bench.open()
    bench.handle(.peerLeft(Bench.peer))
    _ = store.apply(bench.core.takeChanges())
    bench.advance(.seconds(25 * 86_400))
    let (core, _) = Core.restoring(store.state, Bench.configuration, at: bench.now)
    var next = Bench(core)
    next.boot = bench.boot
    next.wall = bench.wall
    next.advance(.seconds(6 * 86_400))
    next.admit()
    #expect(next.core.sessions[session] == nil)
  }

  @Test func theNextProcessMakesAnInvalidatedSessionAnew() {
    var bench = Bench()
    let session = bench.open()
    let id = bench.add(.download(), to: session)
    bench.command(.invalidateSession(session, cancel: false))
    bench.handle(.peerLeft(Bench.peer))
    let key = SessionKey(app: "app", identifier: "s")
    func open(revives: Bool) -> Reply? {
      bench.command(
        .openSession(
          key, attach: true, collectsResults: true, network: NetworkSettings(), revives: revives))
    }
    // A connection that is made again takes nothing back.
    _ = open(revives: false)
    #expect(bench.core.sessions[session]?.record.isInvalidated == true)
    guard case .sessionOpened(session, 2, false)? = open(revives: true) else {
      Issue.record("another session")
      return
    }
    #expect(bench.core.sessions[session]?.record.isInvalidated == false)
    #expect(bench.state(id) != nil)
    #expect(bench.add(.download(), to: session) != nil)
  }

  // MARK: Results

  @Test func aResultSaysADayAheadThatItGoes() throws {
    var bench = Bench()
    let session = bench.open()
    let id = try must(bench.add(.download(), to: session))
    bench.fail(id, .certificateUntrusted, .permanent)
    let entry = try #require(bench.entry(id))
    let expiry = try #require(bench.core.expiry(of: entry))
    #expect(expiry.milliseconds == bench.wall + 7 * 86_400_000)
    _ = bench.take()
    bench.advance(.seconds(6 * 86_400 - 1))
    bench.admit()
    #expect(!bench.effects.contains(.announce(id, .expiring(at: expiry))))
    bench.advance(.seconds(2))
    bench.admit()
    #expect(bench.effects.filter { $0 == .announce(id, .expiring(at: expiry)) }.count == 1)
    #expect(bench.core.violations() == [])
    bench.advance(.milliseconds(86_399_001))
    bench.admit()
    #expect(bench.state(id) == nil)
    #expect(bench.effects.filter { $0 == .announce(id, .expiring(at: expiry)) }.count == 1)
  }

  /// The calendar is read in whole milliseconds, and may be found one behind the clock that the timer runs on.
  @Test func aCalendarThatIsBehindDelaysNeitherTheNoticeNorTheEnd() throws {
    var configuration = Bench.configuration
    configuration.retention = .seconds(14)
    var bench = Bench(Core(configuration))
    let session = bench.open()
    let id = try must(bench.add(.download(), to: session))
    bench.fail(id, .certificateUntrusted, .permanent)
    let expiry = try #require(bench.entry(id).flatMap { bench.core.expiry(of: $0) })
    bench.advance(.milliseconds(12_000))
    bench.wall -= 1
    bench.admit()
    #expect(!bench.effects.contains(.announce(id, .expiring(at: expiry))))
    for _ in 0..<2 {
      bench.advance(.milliseconds(1))
      bench.admit()
    }
    #expect(bench.effects.filter { $0 == .announce(id, .expiring(at: expiry)) }.count == 1)
    bench.advance(.milliseconds(2_000))
    bench.admit()
    #expect(bench.state(id) == nil)
    #expect(bench.effects.filter { $0 == .announce(id, .expiring(at: expiry)) }.count == 1)
  }

  @Test func resultsThatWaitForNobodyGoSilently() throws {
    var bench = Bench()
    let session = bench.open(collects: false)
    let id = try must(bench.add(.download(), to: session))
    bench.fail(id, .certificateUntrusted, .permanent)
    #expect(bench.entry(id).flatMap { bench.core.expiry(of: $0) } == nil)
    bench.advance(.seconds(7 * 86_400 - 10))
    bench.admit()
    bench.advance(.milliseconds(10_001))
    bench.admit()
    #expect(bench.state(id) == nil)
    #expect(!bench.effects.contains { if case .announce(_, .expiring) = $0 { true } else { false } })
  }

  // MARK: Restart

  @Test func nothingBeginsWhileADaemonIsAboutToBeReplaced() {
    var bench = Bench()
    let session = bench.open()
    bench.handle(.drainRequested)
    let id = bench.add(.download(), to: session)
    #expect(bench.state(id) == .waiting)
    #expect(bench.core.drainees.isEmpty)
    #expect(bench.core.violations() == [])
  }

  @Test func onlyWhatWouldLoseIsWaitedFor() throws {
    var bench = Bench()
    let session = bench.open()
    let resumable = try must(bench.add(.download(), to: session))
    let plain = try must(bench.add(.download("http://a.test/1"), to: session))
    let upload = try must(bench.addUpload(.upload(), to: session))
    let data = try must(bench.add(.data(), to: session))
    let opening = try must(bench.add(.download("http://a.test/2"), to: session))
    for id in [resumable, plain, upload, data] { bench.openFiles(id) }
    bench.respond(resumable, .ok(length: 100_000_000), .takeWhole)
    bench.handle(.progressed(bench.attempt(resumable), held: 40, sent: 0))
    bench.respond(plain, .ok(length: 100_000_000, etag: nil), .takeWhole)
    bench.handle(.progressed(bench.attempt(plain), held: 40, sent: 0))
    bench.handle(.drainRequested)
    #expect(bench.core.drainees == [plain, upload, data])
    bench.handle(.handedOver)
    for id in [resumable, plain, upload, data, opening] { #expect(bench.state(id) == .waiting) }
    #expect(bench.core.violations() == [])
    #expect(bench.core.runningCount == 0)
  }

  /// The row of a download that can be repeated says nothing of this until it is over.
  @Test func whatIsCheckedAndPlacedIsHandedOverAsSuch() throws {
    var bench = Bench()
    let session = bench.open()
    let id = try must(bench.add(.download(), to: session))
    bench.openFiles(id)
    bench.respond(id, .ok(length: 100, etag: nil), .takeWhole)
    bench.handle(
      .ended(bench.attempt(id), .complete(TransferSummary(held: 100, isLengthVerified: true)), requestWasSent: true))
    _ = bench.core.takeChanges()
    bench.handle(.drainRequested)
    #expect(bench.core.drainees.isEmpty)
    bench.handle(.handedOver)
    let rows = bench.core.takeChanges().compactMap { change -> TaskEntry? in
      if case .updateTask(let entry, progress: .some) = change { entry } else { nil }
    }
    #expect(rows.map(\.state) == [.finalizing])
    #expect(rows.map(\.received) == [100])
  }

  @Test func whatMayHaveBeenActedOnIsNotCalledWaiting() throws {
    var bench = Bench()
    let session = bench.open()
    let post = try must(bench.add(.download(method: "POST"), to: session))
    bench.openFiles(post)
    bench.handle(.drainRequested)
    #expect(bench.core.drainees == [post])
    bench.handle(.handedOver)
    #expect(bench.state(post)?.attempt != nil)
  }

  // MARK: Metrics

  @Test func metricsKeepTheFirstAndTheLast() {
    var log = MetricsLog()
    for number in 0..<100 { log.append(TransactionMetrics(url: "", method: "GET", fetchStart: Int64(number))) }
    #expect(log.transactions.count == Limits.transactions)
    #expect(log.omitted == 100 - Int64(Limits.transactions))
    #expect(log.transactions.prefix(8).map(\.fetchStart) == Array(0..<8))
    #expect(log.transactions.last?.fetchStart == 99)
    #expect(log.transactions.map(\.fetchStart) == log.transactions.map(\.fetchStart).sorted())
  }
}
