import DeviceConditions
import InProcessTransfers
import LoopbackServer
import Synchronization
import Testing
import TransferCore

/// Sources that say what a test wants.
private final class FakeDevice: Sendable {
  /// What was asked for.
  let needs: AsyncStream<Constraints>
  private let asked: AsyncStream<Constraints>.Continuation
  private let report = Mutex<(@Sendable (DeviceFacts) -> Void)?>(nil)
  private let beginnings = Atomic(0)

  init() { (needs, asked) = AsyncStream.makeStream() }

  var timesBegun: Int { beginnings.load(ordering: .relaxed) }

  func home() -> TransferHome {
    TransferHome(
      temporaryFolder: "/tmp", threadName: "test",
      watch: { report in
        self.beginnings.add(1, ordering: .relaxed)
        self.report.withLock { $0 = report }
        return { self.asked.yield($0) }
      })
  }

  /// NetworkManager's word: 1 yes, 2 no, 3 yes as it guesses.
  func say(metered: Int64, pending: Constraints = []) {
    var facts = DeviceFacts()
    facts.managerMetered = metered
    // Nobody has asked for the network.
    facts.pending = pending.union(.network)
    report.withLock { $0 }?(facts)
  }

  func nextNeed() async -> Constraints? {
    for await need in needs { return need }
    return nil
  }
}

/// Transfers that must not use some networks.
@Suite(.timeLimit(.minutes(1))) struct ForbiddenNetworkTests {
  private let device = FakeDevice()

  private func start(
    _ home: TransferHome, _ url: String, _ constraints: Constraints, waits: Bool = false,
    kind: TaskKind = .data
  ) throws -> Listener {
    let session = LocalSession(network: NetworkSettings(), waitsForConnectivity: waits)
    let listener = Listener()
    home.open(session)
    var draft = TaskDraft(
      kind: kind, request: TransferRequest(url: url), origin: try #require(Origin(url: url)).description)
    draft.statusRule = .any
    draft.constraints = constraints
    home.start(LocalTransfer(session: session, draft: draft, body: .none, listener: listener))
    return listener
  }

  private func failure(_ ending: LocalEnding?) -> TransferFailure? {
    if case .failed(let failure, _)? = ending { failure } else { nil }
  }

  private func isSuccess(_ ending: LocalEnding?) -> Bool {
    if case .succeeded? = ending { true } else { false }
  }

  @Test(arguments: [(Constraints.unmetered, Int64(3)), (.unconstrained, 1)])
  func aForbiddenNetworkFailsTheTransferWithItsName(_ constraint: Constraints, _ metered: Int64) async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let listener = try start(device.home(), server.url("/"), constraint)
    #expect(await device.nextNeed() == constraint)
    device.say(metered: metered)
    let failure = failure(await listener.ending())
    #expect(failure?.code == .networkUnavailable && failure?.domain == "condition")
    #expect(failure?.number == Int(constraint.rawValue))
    #expect(server.requestCount == 0)
  }

  @Test func whileTheSourcesAreAskedNothingBeginsAndNothingFails() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let home = device.home()
    let cautious = try start(home, server.url("/"), .unmetered)
    #expect(await device.nextNeed() == .unmetered)
    // Metered, as one source says, and the others have not been heard.
    device.say(metered: 1, pending: .all)
    // What has no such wish goes on meanwhile.
    #expect(isSuccess(try await start(home, server.url("/other"), []).ending()))
    #expect(server.requests.map(\.path) == ["/other"])
    device.say(metered: 2)
    #expect(isSuccess(await cautious.ending()))
    #expect(await cautious.timesWaited() == 0)
  }

  @Test func aSessionThatWaitsIsToldOnceAndBeginsWhenItMay() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let listener = try start(device.home(), server.url("/"), .unmetered, waits: true)
    #expect(await device.nextNeed() == .unmetered)
    device.say(metered: 3)
    device.say(metered: 1)
    for await _ in listener.waited { break }
    #expect(server.requestCount == 0)
    device.say(metered: 4)
    #expect(isSuccess(await listener.ending()))
    #expect(await listener.timesWaited() == 0)
  }

  @Test func oneThatRunsFailsWhenItsNetworkBecomesExpensiveAndLeavesItsPart() async throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in
      .generated(length: 200_000).etag("\"a\"").stall(afterBytes: 100_000, until: gate)
    }
    defer { server.stop() }
    defer { gate.open() }
    let listener = try start(device.home(), server.url("/"), .unmetered, kind: .download)
    #expect(await device.nextNeed() == .unmetered)
    device.say(metered: 2)
    for await count in listener.received where count >= 100_000 { break }
    device.say(metered: 3)
    let ending = await listener.ending()
    #expect(failure(ending)?.domain == "condition" && ending?.keptPart?.received == 100_000)
  }

  @Test func nobodyLooksBeforeATransferForbidsItselfSomething() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let home = device.home()
    #expect(isSuccess(try await start(home, server.url("/"), []).ending()))
    // No loopback by its name, so that it takes a network.
    let url = server.url("/").replacing("127.0.0.1", with: "127.1")
    #expect(isSuccess(try await start(home, url, []).ending()))
    #expect(device.timesBegun == 0)
    let first = try start(home, url, .unmetered)
    #expect(await device.nextNeed() == .unmetered)
    let second = try start(home, url, .unconstrained)
    #expect(await device.nextNeed() == [.unmetered, .unconstrained])
    #expect(device.timesBegun == 1)
    device.say(metered: 0)
    #expect(isSuccess(await first.ending()))
    #expect(isSuccess(await second.ending()))
  }

  @Test func whatCannotBeWatchedStandsInNobodysWay() async throws {
    let server = try LocalServer.start { _ in .text("hello") }
    defer { server.stop() }
    let home = TransferHome(temporaryFolder: "/tmp", threadName: "test", watch: { _ in nil })
    #expect(isSuccess(try await start(home, server.url("/"), .unmetered).ending()))
  }
}
