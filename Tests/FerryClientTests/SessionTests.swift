import FerryClient
import FoundationEssentials
import Synchronization
import Testing
import WireProtocol

/// The native interface against a small daemon that keeps tasks and deliveries as the real one does.
@Suite(.timeLimit(.minutes(2))) struct SessionTests {
  /// Finishes each download at once; keeps deliveries until they are acknowledged, over all connections.
  final class Book: Sendable {
    struct State {
      var tasks: [Int64: TaskSnapshot] = [:]
      var keys: [String: Int64] = [:]
      var deliveries: [DeliveryNotice] = []
      var nextDelivery: Int64 = 1
      var acknowledged: [[Int64]] = []
      var dropsBeforeAcknowledging = false
      var holdsResults = false
      var network: WireNetwork?
      var session: Int64 = 5
      var isKnown = false
      var specifications: [WireTaskSpecification] = []
    }
    let state = Mutex(State())

    func handle(_ client: FakeDaemon.Client, _ id: Int64?, _ request: ClientRequest) {
      switch request {
      case .sessionOpen(let parameters):
        let (offers, session, isNew) = state.withLock { state in
          state.network = parameters.network
          defer { state.isKnown = true }
          return (state.deliveries, state.session, !state.isKnown)
        }
        client.result(id, SessionOpenResult(session: session, nextTaskNumber: 1, isNew: isNew))
        for offer in offers { client.notify(.delivery(offer)) }
      case .taskEnqueue(let parameters):
        let (results, offers) = state.withLock { state in Self.enqueue(parameters, &state) }
        client.result(id, TaskEnqueueResult(tasks: results))
        for offer in offers { client.notify(.delivery(offer)) }
      case .deliveryAcknowledge(let parameters):
        let drops = state.withLock { state in
          if state.dropsBeforeAcknowledging {
            state.dropsBeforeAcknowledging = false
            return true
          }
          state.acknowledged.append(parameters.numbers)
          state.deliveries.removeAll { parameters.numbers.contains($0.number) }
          return false
        }
        if drops { client.drop() } else { client.result(id, EmptyResult()) }
      case .taskShow(let parameters):
        if let task = state.withLock({ $0.tasks[parameters.id] }) {
          client.result(id, TaskShowResult(task: task))
        } else {
          client.error(id, WireError(.taskUnknown, "there is no task \(parameters.id)"))
        }
      case .taskList(let parameters):
        let page = state.withLock { state in
          state.tasks.values.filter { $0.id > parameters.after ?? 0 }.sorted { $0.id < $1.id }.prefix(2)
        }
        client.result(id, TaskListResult(tasks: Array(page), next: page.count == 2 ? page.last?.id : nil))
      case .taskCancel(let parameters), .taskSuspend(let parameters), .taskResume(let parameters),
        .taskRemove(let parameters):
        let known = state.withLock { state in parameters.ids.filter { state.tasks[$0] != nil } }
        client.result(
          id, TaskIdentifiersResult(ids: known, unknown: parameters.ids.filter { !known.contains($0) }))
      case .hello, .sessionClose, .sessionInvalidate, .taskUpdate, .taskAnswer, .taskWatch, .daemonStatus, .daemonStop,
        .daemonRestart, .appRegister, .appList, .appShow, .appRemove, .appFront, .appForceQuit, .appAttach, .appState,
        .appHandled, .conditionsShow, .conditionsSet, .conditionsClear:
        client.result(id, EmptyResult())
      }
    }

    private static func enqueue(
      _ parameters: TaskEnqueueParameters, _ state: inout State
    ) -> ([EnqueuedTask], [DeliveryNotice]) {
      var results: [EnqueuedTask] = []
      var offers: [DeliveryNotice] = []
      for specification in parameters.tasks {
        state.specifications.append(specification)
        if let key = specification.key, let id = state.keys[key] {
          results.append(EnqueuedTask(id: id, number: id, existed: true))
          continue
        }
        if specification.url.hasSuffix("/claimed") {
          results.append(EnqueuedTask(error: WireError(.destinationClaimed, "task 1 writes there")))
          continue
        }
        let id = Int64(state.tasks.count + 1)
        if let key = specification.key { state.keys[key] = id }
        var task = TaskSnapshot(
          id: id, session: "s", app: "a", sessionID: parameters.session, number: id, kind: specification.kind,
          state: state.holdsResults ? "running" : "succeeded", method: specification.method ?? "GET",
          url: specification.url, received: 10, sent: 0, attempts: 1, priority: 0.5, createdMilliseconds: 1000)
        task.file = "/tmp/file-\(id)"
        state.tasks[id] = task
        results.append(EnqueuedTask(id: id, number: id, existed: false))
        guard !state.holdsResults else { continue }
        for kind in ["file", "completion"] {
          let offer = DeliveryNotice(session: parameters.session, number: state.nextDelivery, kind: kind, task: task)
          state.nextDelivery += 1
          offers.append(offer)
        }
      }
      state.deliveries += offers
      return (results, offers)
    }
  }

  private let folder: TemporaryFolder
  private let book = Book()
  private let daemon: FakeDaemon
  private let ferry: Ferry

  init() throws {
    folder = try TemporaryFolder()
    let book = book
    daemon = try FakeDaemon(home: folder.path) { book.handle($0, $1, $2) }
    var environment = folder.environment
    environment["https_proxy"] = "http://proxy:1"
    ferry = Ferry(app: "a", environment: environment, startsDaemon: false)
  }

  private let address = URL(string: "http://localhost/file")!

  @Test func aResultIsOfferedAndAcknowledgedWithItsFile() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    let receipt = try await session.download(address)
    var events = session.events.makeAsyncIterator()
    guard case .finished(let result) = await events.next() else { throw TimedOut() }
    #expect(result.receipt == receipt)
    guard case .succeeded(let transfer) = result.outcome else { throw TimedOut() }
    #expect(transfer.file?.path == "/tmp/file-1")
    #expect(transfer.sizeBytes == 10)
    try await result.acknowledge()
    #expect(book.state.withLock { $0.acknowledged } == [[1, 2]])
    #expect(book.state.withLock { $0.network?.httpsProxy } == "http://proxy:1")
  }

  @Test func anUnacknowledgedResultComesAgainToTheNextRun() async throws {
    defer { daemon.stop() }
    do {
      let session = try await ferry.session("s")
      _ = try await session.download(address)
      var events = session.events.makeAsyncIterator()
      guard case .finished = await events.next() else { throw TimedOut() }
      session.close()
      #expect(await events.next() == nil)
    }
    let next = Ferry(app: "a", environment: folder.environment, startsDaemon: false)
    let session = try await next.session("s")
    var events = session.events.makeAsyncIterator()
    guard case .finished(let result) = await events.next() else { throw TimedOut() }
    #expect(result.receipt.id == 1)
    try await result.acknowledge()
    #expect(book.state.withLock { $0.deliveries.isEmpty })
  }

  @Test func aResultInHandSurvivesAReconnectAndIsShownOnce() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    _ = try await session.download(address)
    var events = session.events.makeAsyncIterator()
    guard case .finished(let result) = await events.next() else { throw TimedOut() }
    // The daemon goes down with the acknowledgement; it is sent again, and the repeated offer is not shown.
    book.state.withLock { $0.dropsBeforeAcknowledging = true }
    try await result.acknowledge()
    #expect(book.state.withLock { $0.deliveries.isEmpty })
    _ = try await session.download(address)
    guard case .finished(let second) = await events.next() else { throw TimedOut() }
    #expect(second.receipt.id == 2)
    #expect(daemon.connections.count == 2)
  }

  /// The new session counts its deliveries from 1 too: an acknowledgement of the old one would be of other results.
  @Test(arguments: [5, 6] as [Int64])
  func aResultOfALostSessionAcknowledgesNothingOfTheNextOne(next: Int64) async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    _ = try await session.download(address)
    var events = session.events.makeAsyncIterator()
    guard case .finished(let result) = await events.next() else { throw TimedOut() }
    book.state.withLock { state in
      state = Book.State()
      state.session = next
    }
    daemon.connections.last?.drop()
    guard case .unavailable = await events.next() else { throw TimedOut() }
    _ = try await session.download(address)
    guard case .finished(let second) = await events.next() else { throw TimedOut() }
    await #expect(throws: FerryError.self) { try await result.acknowledge() }
    #expect(book.state.withLock { $0.deliveries.count } == 2)
    try await second.acknowledge()
    #expect(book.state.withLock { $0.deliveries.isEmpty })
  }

  @Test func oneRefusedTaskDoesNotKeepTheOthersOut() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    let claimed = try #require(URL(string: "http://localhost/claimed"))
    let ftp = try #require(URL(string: "ftp://localhost/x"))
    let outcomes = try await session.enqueue([
      .download(address), .download(ftp), .download(claimed), .download(address),
    ])
    #expect(outcomes.map { (try? $0.get())?.id } == [1, nil, nil, 2])
    if case .failure(let error) = outcomes[1] { #expect(error.code == .invalidURL) }
    if case .failure(let error) = outcomes[2] { #expect(error.code == .destinationClaimed) }
  }

  @Test func enqueueingTwiceUnderOneKeyGivesOneTask() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    var options = TaskOptions()
    options.key = "update-1"
    let first = try await session.download(address, options: options)
    let second = try await session.download(address, options: options)
    #expect(first.id == second.id)
  }

  @Test func uploadsThatMayNotBeRepeatedGetAKey() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    let file = LocalPath(folder.path + "/body")
    try Data("x".utf8).write(to: file.url)
    _ = try await session.upload(file, to: address)
    _ = try await session.upload(file, to: address, method: .post)
    var options = TaskOptions()
    options.addsIdempotencyKey = false
    options.headers = [Header("X-Token", "t", isSecret: true)]
    _ = try await session.upload(file, to: address, method: .patch, options: options)
    let sent = book.state.withLock { $0.specifications }
    #expect(sent.map(\.method) == ["PUT", "POST", "PATCH"])
    #expect(sent.map(\.addsIdempotencyKey) == [nil, true, nil])
    #expect(sent[2].secretHeaders == ["X-Token"])
    #expect(sent.allSatisfy { $0.source?.hasSuffix("/body") == true && $0.key != nil })
  }

  @Test func aTaskCanBeAwaited() async throws {
    defer { daemon.stop() }
    book.state.withLock { $0.holdsResults = true }
    let session = try await ferry.session("s")
    let receipt = try await session.download(address)
    async let waiting = session.outcome(of: receipt)
    try await eventually { daemon.requests.contains { $0.request == .taskShow(TaskShowParameters(id: receipt.id)) } }
    let task = book.state.withLock { state in
      state.tasks[receipt.id]?.state = "failed"
      state.tasks[receipt.id]?.error = WireFailure(
        code: "hostNotFound", isTransient: true, domain: "curl", number: 6, detail: "no such host")
      return state.tasks[receipt.id]
    }
    daemon.connections[0].notify(.taskState(TaskStateNotice(task: try #require(task))))
    guard case .failed(let failure) = try await waiting else { throw TimedOut() }
    #expect(failure.code == "hostNotFound")
    // One that is over, and one that is not known.
    guard case .failed = try await session.outcome(of: receipt) else { throw TimedOut() }
    let cancelled = Task { try await session.outcome(of: receipt) }
    _ = await cancelled.result
    let error = await #expect(throws: FerryError.self) {
      try await session.cancel(
        try JSONDecoder().decode(Receipt.self, from: Data(#"{"id":99,"number":1,"session":"s","app":"a"}"#.utf8)))
    }
    #expect(error?.code == .taskUnknown)
  }

  @Test func waitingCanBeCancelled() async throws {
    defer { daemon.stop() }
    book.state.withLock { $0.holdsResults = true }
    let session = try await ferry.session("s")
    let receipt = try await session.download(address)
    let waiting = Task { () async -> FerryError.Code? in
      do {
        _ = try await session.outcome(of: receipt)
        return nil
      } catch let error as FerryError {
        return error.code
      } catch {
        return nil
      }
    }
    try await eventually { daemon.requests.count >= 4 }
    waiting.cancel()
    #expect(await waiting.value == .cancelled)
    let consumer = Task { () async -> Bool in
      for await event in session.events { _ = event }
      return true
    }
    consumer.cancel()
    #expect(await consumer.value)
  }

  @Test func tasksArePagedToTheEnd() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    _ = try await session.enqueue(Array(repeating: .download(address), count: 5))
    #expect(try await session.tasks().map(\.id) == [1, 2, 3, 4, 5])
  }

  @Test func oneProcessHasASessionOnce() async throws {
    defer { daemon.stop() }
    let session = try await ferry.session("s")
    let error = await #expect(throws: FerryError.self) { _ = try await ferry.session("s") }
    #expect(error?.code == .sessionInUse)
    session.close()
    _ = try await ferry.session("s")
  }

  @Test func progressOfATaskOfAnEarlierRunIsUnderstood() async throws {
    defer { daemon.stop() }
    book.state.withLock { state in
      state.tasks[7] = TaskSnapshot(
        id: 7, session: "s", app: "a", sessionID: 5, number: 1, kind: "download", state: "running", method: "GET",
        url: "http://localhost/", received: 1, sent: 0, attempts: 1, priority: 0.5, createdMilliseconds: 0)
    }
    let session = try await ferry.session("s")
    daemon.connections[0].notify(.taskProgress(TaskProgressNotice(id: 7, received: 5, expected: 9, sent: 0)))
    var events = session.events.makeAsyncIterator()
    guard case .progressed(let task) = await events.next() else { throw TimedOut() }
    #expect(task.id == 7)
  }

  @Test func aSlowConsumerSeesTheLatestProgressOnly() async throws {
    defer { daemon.stop() }
    book.state.withLock { $0.holdsResults = true }
    let session = try await ferry.session("s")
    let receipt = try await session.download(address)
    let task = try #require(book.state.withLock { $0.tasks[receipt.id] })
    daemon.connections[0].notify(.taskState(TaskStateNotice(task: task)))
    for received in 11...5000 {
      daemon.connections[0].notify(
        .taskProgress(TaskProgressNotice(id: receipt.id, received: Int64(received), expected: nil, sent: 0)))
    }
    daemon.connections[0].notify(
      .delivery(DeliveryNotice(session: 5, number: 1, kind: "finishEvents", task: nil)))
    // The reply comes after all of them.
    _ = try await session.status(of: receipt)
    var events = session.events.makeAsyncIterator()
    guard case .progressed(let last) = await events.next() else { throw TimedOut() }
    #expect(last.receivedBytes == 5000)
    guard case .allFinished = await events.next() else { throw TimedOut() }
    #expect(book.state.withLock { $0.acknowledged } == [])
    daemon.connections[0].notify(
      .taskProgress(TaskProgressNotice(id: receipt.id, received: 6000, expected: nil, sent: 0)))
    guard case .progressed = await events.next() else { throw TimedOut() }
    try await eventually { book.state.withLock { $0.acknowledged } == [[1]] }
    daemon.connections[0].notify(.sessionEnded(SessionEndedNotice(session: 5)))
    guard case .ended = await events.next() else { throw TimedOut() }
    #expect(await events.next() == nil)
  }

  @Test func noDaemonIsAnErrorWithItsCode() async throws {
    daemon.stop()
    let error = await #expect(throws: FerryError.self) { _ = try await ferry.session("s") }
    #expect(error?.code == .daemonUnavailable)
  }
}
