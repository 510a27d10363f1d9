import Testing

@testable import TransferCore

/// Every event in every stored state: nothing traps, what is finished stays so, and what is stale changes nothing.
@Suite struct EventTableTests {
  static let task = TaskID(rawValue: 1)
  static let session = SessionID(rawValue: 1)
  static let hugeNumbers = [Int64.min, -1, 0, 999, .max]

  /// A bench whose task 1 is in the state.
  static func bench(in place: LifeExploration.Place, kind: TaskKind = .download) -> Bench {
    var bench = Bench()
    let session = bench.open()
    let draft =
      switch kind {
      case .download: TaskDraft.download()
      case .upload: TaskDraft.upload()
      case .data: TaskDraft.data()
      }
    let id =
      kind == .upload
      ? bench.addUpload(draft, to: session)
      : bench.add(draft.with { $0.isSuspended = place == .suspended }, to: session)
    switch place {
    case .new, .gone, .suspended, .running: break
    case .waiting: bench.fail(id, sent: false)
    case .cancelled: bench.command(.cancel([task]))
    case .failed: bench.fail(id, .certificateUntrusted, .permanent)
    case .asking:
      bench.openFiles(id)
      bench.respond(id, .ok(), .takeWhole)
      bench.respond(
        id, .ok(status: 401), .ask(TransferFailure(.credentialsRequired, .permanent, detail: "401.")))
      bench.handle(.ended(bench.attempt(id), .discarded, requestWasSent: true))
    case .finalizing, .succeeded:
      bench.openFiles(id)
      bench.respond(id, .ok(), .takeWhole)
      bench.handle(
        .ended(
          bench.attempt(id), .complete(TransferSummary(held: 100, isLengthVerified: true)), requestWasSent: true))
      if place == .succeeded { bench.handle(.finalized(task, .placed(path: "/p", bytes: 100, sha256: nil))) }
    }
    return bench
  }

  static let states: [LifeExploration.Place] = [
    .suspended, .waiting, .running, .asking, .finalizing, .succeeded, .failed, .cancelled,
  ]

  /// All that can be said of an attempt.
  static func attemptEvents(_ attempt: AttemptID) -> [Event] {
    let failure = TransferFailure(.connectionLost, .transient, detail: "Lost.")
    var events: [Event] = [
      .filesOpened(attempt, OpenedFiles(partBytes: nil, freeBytes: nil)),
      .filesOpened(attempt, OpenedFiles(partBytes: .max, freeBytes: .min)), .filesFailed(attempt, failure),
    ]
    for verdict in [
      ResponseVerdict.takeWhole, .continueAt(.max), .continueAt(-1), .alreadyComplete, .restart(reason: ""), .redirect,
      .retryLater(failure), .ask(failure), .reject(failure),
    ] { events.append(.responded(attempt, .part(5), verdict)) }
    for number in hugeNumbers {
      events.append(.progressed(attempt, held: number, sent: number))
      events.append(.synced(attempt, offset: number))
      events.append(
        .ended(attempt, .complete(TransferSummary(held: number, isLengthVerified: false)), requestWasSent: true))
    }
    events += [
      .ended(attempt, .redirected(location: ""), requestWasSent: false),
      .ended(attempt, .discarded, requestWasSent: true),
      .ended(attempt, .failed(failure), requestWasSent: true),
      .measured(attempt, TransactionMetrics(url: "", method: "", fetchStart: .min)),
    ]
    return events
  }

  static func commands(_ task: TaskID, _ session: SessionID) -> [Command] {
    let extreme = hugeNumbers.map { WallInstant(milliseconds: $0) }
    return [
      .closeSession(session), .invalidateSession(session, cancel: false), .invalidateSession(session, cancel: true),
      .enqueue(session, []), .enqueue(session, [.download(), .upload(), .data()]), .resume([task]), .suspend([task]),
      .resume([task, task]), .suspend([task, task]), .cancel([task, task]), .remove([task, task]),
      .cancel([task, task], producesResumeData: true),
      .enqueue(session, [TaskDraft.download().with { $0.resumeToken = ResumeToken(high: 1, low: 2) }]),
      .resume([]), .acknowledge(session, hugeNumbers.map(DeliveryNumber.init(rawValue:))),
      .acknowledge(session, [DeliveryNumber(rawValue: 1), DeliveryNumber(rawValue: 1)]),
      .openSession(
        SessionKey(app: "", identifier: ""), attach: true, collectsResults: true,
        network: NetworkSettings(maximumConnectionsPerHost: 0)),
      .app(.register(AppRegistration(id: "app", command: ["/bin/app"]))), .app(.remove("app")), .app(.front("app")),
      .app(.forceQuit("app")), .app(.attach("app", .background, processID: 1, launch: .min)),
      .app(.attach("", .foreground, processID: .min, launch: nil)), .app(.changeState("app", .foreground)),
      .app(.handled("app", session: "s", launch: .max)),
      .answer(task, question: nil, .cancel), .answer(task, question: nil, .proceed),
      .answer(task, question: 999, .proceed),
      .answer(task, question: nil, .credential(user: "", password: Secret(""))),
      .answer(task, question: nil, .tls(TLSSettings(minimum: .tls13))),
      .answer(task, question: nil, .request(RequestChange(url: "http://other.test/"))),
      .answer(task, question: nil, .request(RequestChange(url: "no URL"))),
    ] + extreme.map { .update(task, TaskChange(taskDescription: "", priority: 0, earliestBegin: $0)) }
  }

  static var otherEvents: [Event] {
    let token = RequestToken(peer: PeerID(rawValue: .min), sequence: .max)
    return [
      .peerLeft(PeerID(rawValue: .max)), .peerLeft(Bench.peer), .prepared(token, []),
      .prepared(token, [PreparedTask(task: task, outcome: .ready(source: nil, destination: .managed))]),
      .detailsLoaded(task, nil), .detailsLoaded(TaskID(rawValue: .max), nil), .storeChanged(degraded: "x"),
      .conditionsChanged(Conditions(network: .none)), .conditionsChanged(.unknown), .conditionsChanged(.unrestricted),
      .storeChanged(degraded: nil), .drainRequested, .handedOver,
      .finalized(task, .placed(path: "", bytes: .max, sha256: nil)),
      .finalized(TaskID(rawValue: .min), .failed(TransferFailure(.noSpace, .transient, detail: ""))),
      .app(.connected(app: "app", peer: Bench.peer, processID: 7, launch: .max)),
      .app(.launched(app: "app", launch: 1, processID: 7)), .app(.launchFailed(app: "x", launch: .min, detail: "")),
      .app(.exited(app: "app", launch: 1, .unknown, output: "")), .app(.found(app: "app", launch: 1, processID: nil)),
      .app(.registeredByFiles([])),
      .app(.registeredByFiles([AppRegistration(id: "app", command: ["/bin/app"], file: "/f.json")])),
    ]
  }

  @Test(arguments: states, [TaskKind.download, .upload, .data])
  func everyEventIsTakenInEveryState(state: LifeExploration.Place, kind: TaskKind) {
    if state == .asking && kind != .download || state == .suspended && kind == .upload { return }
    if kind == .data && (state == .finalizing || state == .succeeded) { return }
    let fresh = Self.bench(in: state, kind: kind)
    #expect(LifeExploration.Place(fresh.state(Self.task), isComing: false) == state)
    var events = Self.otherEvents + Self.attemptEvents(fresh.attempt(Self.task))
    for task in [Self.task, TaskID(rawValue: .min), TaskID(rawValue: .max)] {
      for session in [Self.session, SessionID(rawValue: .max)] {
        events += Self.commands(task, session).map { .commanded($0, RequestToken(peer: Bench.peer, sequence: 77)) }
      }
    }
    for event in events {
      var bench = fresh
      bench.handle(event)
      #expect(bench.core.violations() == [], "\(state), then \(event)")
      let after = LifeExploration.Place(bench.state(Self.task), isComing: false)
      if [.succeeded, .failed, .cancelled].contains(state) {
        #expect(after == state || after == .gone, "\(state), then \(event)")
      }
      // And once more, for what it left behind.
      bench.handle(event)
      bench.advance(.seconds(1_000_000))
      bench.admit()
      #expect(bench.core.violations() == [], "\(state), then twice \(event)")
      if case .commanded(_, let token) = event {
        var again = fresh
        let effects = again.handle(event)
        let isPrepared = effects.contains { if case .prepare(token, _) = $0 { true } else { false } }
        #expect(effects.reply(token) != nil || isPrepared, "\(event) is not answered")
      }
    }
  }

  @Test(arguments: states)
  func anotherAttemptsEventsAreDroppedAndCounted(state: LifeExploration.Place) {
    let fresh = Self.bench(in: state)
    for event in Self.attemptEvents(AttemptID(rawValue: 999)) {
      var bench = fresh
      let effects = bench.core.handle(event, at: bench.now)
      // Files that were opened for nobody are closed again.
      let closes: [Effect] = if case .filesOpened(let attempt, _) = event { [.stop(attempt)] } else { [] }
      #expect(effects == closes)
      #expect(bench.core.staleEvents == fresh.core.staleEvents + 1)
      #expect(bench.core.tasks == fresh.core.tasks && bench.core.sessions == fresh.core.sessions)
    }
  }
}
