import InProcessTransfers
import TransferCore

/// Hears of one transfer.
final class Listener: TransferListener {
  let waited: AsyncStream<Void>
  /// Bytes received so far.
  let received: AsyncStream<Int64>
  let ended: AsyncStream<LocalEnding>
  private let waits: AsyncStream<Void>.Continuation
  private let bytes: AsyncStream<Int64>.Continuation
  private let ends: AsyncStream<LocalEnding>.Continuation

  init() {
    (waited, waits) = AsyncStream.makeStream()
    (received, bytes) = AsyncStream.makeStream()
    (ended, ends) = AsyncStream.makeStream()
  }

  func transferInformed(_ head: ResponseHead) {}
  func transferResponded(_ head: ResponseHead) {}
  func transferReceived(_ bytes: [UInt8]) -> Bool { true }
  func transferProgressed(received: Int64, sent: Int64) { bytes.yield(received) }
  func transferResumed(at offset: Int64, of total: Int64?) {}
  func transferAsksRedirect(_ head: ResponseHead, _ proposed: TransferRequest) {}
  func transferAsksCredential(_ challenge: Challenge, _ head: ResponseHead?) {}
  func transferNeedsBody() {}
  func transferAwaitsConnectivity() { waits.yield() }
  func transferEnded(_ ending: LocalEnding, _ metrics: MetricsLog) {
    ends.yield(ending)
    waits.finish()
  }

  /// How the transfer ends.
  func ending() async -> LocalEnding? {
    for await ending in ended { return ending }
    return nil
  }

  /// How often it was told that it waits, when it has ended.
  func timesWaited() async -> Int { await waited.reduce(0) { count, _ in count + 1 } }
}
