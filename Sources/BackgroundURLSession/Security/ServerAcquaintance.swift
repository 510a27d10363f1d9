#if !canImport(Darwin)
  internal import Synchronization
  internal import TransferCore

  /// Which servers a session in this process asks its delegate about, though the authorities vouch for them.
  ///
  /// On Apple's systems a delegate that has the session's method is asked on each new connection, and programs pin
  /// certificates that way. Here it is asked once about each certificate of a place. Whether a class has the method
  /// shows only when it is asked; one that takes the protocol's default is not asked again, in any session.
  final class ServerAcquaintance: Sendable {
    private let accepted = Mutex<[AcceptedCertificate]>([])
    private static let silent = Mutex<Set<ObjectIdentifier>>([])

    /// Certificates that are remembered; the oldest goes, and is asked about again.
    private static let limit = 64

    /// Whether this delegate wants to see servers for which the authorities vouch.
    static func isAsked(_ delegate: (any URLSessionDelegate)?) -> Bool {
      guard let delegate else { return false }
      return !silent.withLock { $0.contains(ObjectIdentifier(type(of: delegate))) }
    }

    /// It took the protocol's default, so that its class has no method of its own.
    static func noteSilence(of delegate: any URLSessionDelegate) {
      silent.withLock { _ = $0.insert(ObjectIdentifier(type(of: delegate))) }
    }

    /// What is known of the place; the authorities must still vouch for it.
    func known(_ origin: String) -> [AcceptedCertificate] {
      accepted.withLock { $0.filter { $0.origin == origin } }
    }

    /// The delegate has not objected. A server for which nobody vouches is not remembered: each task asks.
    func remember(_ challenge: Challenge) {
      guard let server = challenge.server, server.isVouched else { return }
      let new = AcceptedCertificate(
        origin: challenge.origin, certificate: server.certificate, key: server.key, mustBeVouched: true)
      accepted.withLock { accepted in
        accepted.take(new)
        if accepted.count > Self.limit { accepted.removeFirst() }
      }
    }
  }
#endif
