import InProcessTransfers
import Synchronization
import Testing
import TransferCore

@Suite(.timeLimit(.minutes(1))) struct ConnectivityTests {
  /// A name that no resolver knows (RFC 6761).
  private func start(_ home: TransferHome, waits: Bool) -> Listener {
    let session = LocalSession(network: NetworkSettings(), waitsForConnectivity: waits)
    let listener = Listener()
    home.open(session)
    var draft = TaskDraft(
      kind: .data, request: TransferRequest(url: "http://ferry.invalid/"), origin: "http://ferry.invalid:80")
    draft.statusRule = .any
    home.start(LocalTransfer(session: session, draft: draft, body: .none, listener: listener))
    return listener
  }

  private func failure(_ listener: Listener) async -> FailureCode? {
    if case .failed(let failure, _)? = await listener.ending() { failure.code } else { nil }
  }

  @Test func aNameIsNotFoundWhereThereIsANetwork() async {
    let home = TransferHome(temporaryFolder: "/tmp", threadName: "test", isOnline: { true })
    #expect(await failure(start(home, waits: false)) == .hostNotFound)
    #expect(await failure(start(home, waits: true)) == .hostNotFound)
  }

  @Test func withoutANetworkThatIsSaid() async {
    let home = TransferHome(temporaryFolder: "/tmp", threadName: "test", isOnline: { false })
    #expect(await failure(start(home, waits: false)) == .networkUnavailable)
  }

  @Test func aSessionThatWaitsTriesAgainWhenTheNetworkIsBack() async {
    let isOnline = Atomic(false)
    let home = TransferHome(
      temporaryFolder: "/tmp", threadName: "test", isOnline: { isOnline.load(ordering: .relaxed) })
    let listener = start(home, waits: true)
    for await _ in listener.waited { break }
    isOnline.store(true, ordering: .relaxed)
    #expect(await failure(listener) == .hostNotFound)
  }
}
