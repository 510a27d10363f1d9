package import CurlEngine
import Synchronization
package import TransferCore

/// A session that lives with its process: how its transfers reach the network.
package final class LocalSession: Sendable {
  package let network: NetworkSettings
  package let waitsForConnectivity: Bool
  private let number = Atomic<Int64>(0)
  /// The core's; nil before the session was opened.
  var id: SessionID? {
    get { number.load(ordering: .relaxed) == 0 ? nil : SessionID(rawValue: number.load(ordering: .relaxed)) }
    set { number.store(newValue?.rawValue ?? 0, ordering: .relaxed) }
  }

  package init(network: NetworkSettings, waitsForConnectivity: Bool) {
    self.network = network
    self.waitsForConnectivity = waitsForConnectivity
  }
}

/// Where a request's body comes from.
package enum LocalBody: Sendable {
  case none
  /// An absolute path, read when the transfer starts.
  case file(String)
  /// `length` in bytes; nil: as many as come. A feed that cannot begin again is asked for anew for each further hop
  /// (``TransferListener/transferNeedsBody()``).
  case feed(BodyFeed, length: Int64?, isRepeatable: Bool)
}

/// One transfer of a session in this process, from its start to its end.
package final class LocalTransfer: Sendable {
  package let session: LocalSession
  package let draft: TaskDraft
  package let body: LocalBody
  package let listener: any TransferListener
  private let number = Atomic<Int64>(0)
  /// The core's; nil before the transfer was taken, and after it was let go.
  var id: TaskID? {
    get { number.load(ordering: .relaxed) == 0 ? nil : TaskID(rawValue: number.load(ordering: .relaxed)) }
    set { number.store(newValue?.rawValue ?? 0, ordering: .relaxed) }
  }

  package init(session: LocalSession, draft: TaskDraft, body: LocalBody, listener: any TransferListener) {
    self.session = session
    self.draft = draft
    self.body = body
    self.listener = listener
  }
}

/// Hears of one transfer, in order, on the loop's thread: nothing here may block or wait for another thread.
package protocol TransferListener: AnyObject, Sendable {
  /// The head of a response that only informs (1xx); the final one follows.
  func transferInformed(_ head: ResponseHead)
  /// The head of a response whose body is wanted; before its first byte.
  func transferResponded(_ head: ResponseHead)
  /// Body bytes of a data task. False: that is enough until ``TransferHome/takeMore(_:)``.
  func transferReceived(_ bytes: [UInt8]) -> Bool
  /// Body bytes received so far (in the file of a download), and body bytes sent.
  func transferProgressed(received: Int64, sent: Int64)
  /// A download goes on from a kept part, at this offset of so many bytes; 0: what was kept is of no use.
  func transferResumed(at offset: Int64, of total: Int64?)
  /// To be answered by ``TransferHome/follow(_:_:)`` or ``TransferHome/keepResponse(_:)``.
  func transferAsksRedirect(_ head: ResponseHead, _ proposed: TransferRequest)
  /// To be answered by ``TransferHome/authorize(_:_:)``, ``TransferHome/keepResponse(_:)`` or a
  /// cancellation. `head`: of the response that asks; nil where there is no connection yet.
  func transferAsksCredential(_ challenge: Challenge, _ head: ResponseHead?)
  /// The body must be sent from its start, and its feed is used up: to be answered by ``TransferHome/provide(_:to:)``.
  func transferNeedsBody()
  /// No network is there, or none that the transfer may use, and the session waits for one. Once at most.
  func transferAwaitsConnectivity()
  /// The last call.
  func transferEnded(_ ending: LocalEnding, _ metrics: MetricsLog)
}

package enum LocalEnding: Sendable {
  /// `file`: what a download brought; it is removed by ``TransferHome/release(_:)``.
  case succeeded(file: String?)
  case failed(TransferFailure, KeptPart?)
  case cancelled(KeptPart?)

  /// What another transfer of this process can go on from, by its token.
  package var keptPart: KeptPart? {
    switch self {
    case .succeeded: nil
    case .failed(_, let part), .cancelled(let part): part
    }
  }
}
