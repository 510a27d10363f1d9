#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import Synchronization
  internal import TransferCore
  internal import WireProtocol

  /// What was asked for by downloads of this process that another task can go on from. The parts themselves are
  /// InProcessTransfers'; the program holds tickets.
  final class ResumableDownloads: Sendable {
    static let shared = ResumableDownloads()

    private struct State {
      var requests: [ResumeToken: URLRequest] = [:]
      /// The oldest first.
      var order: [ResumeToken] = []
    }
    private let state = Mutex(State())

    /// Returns the resume data.
    func keep(_ part: KeptPart, of request: URLRequest?) -> Data {
      state.withLock { state in
        state.requests[part.token] = request
        state.order.append(part.token)
        if state.order.count > Limits.keptParts { state.requests[state.order.removeFirst()] = nil }
      }
      return Data(ResumeTicket(token: part.token, received: part.received).bytes)
    }

    func request(of token: ResumeToken) -> URLRequest? { state.withLock { $0.requests[token] } }

    static func refusal(_ reason: String) -> URLError {
      FailureTranslation.make(
        .cannotWriteToFile, "Invalid resume data for download: \(reason).",
        also: [NSLocalizedFailureReasonErrorKey: reason])
    }
  }
#endif
