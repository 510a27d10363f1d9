// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if !canImport(Darwin)
  internal import Certificates
  internal import FerryClient
  public import Foundation
  internal import Synchronization
  internal import WireProtocol

  // The names are Apple's (Security framework); OpenSSL judges.

  /// A server's certificates, and the question whether they can be trusted.
  ///
  /// What is set here changes the object's own answers. A connection goes on only when the delegate says so, with
  /// `URLCredential(trust:)`, and then with the certificate that was shown and no other.
  public final class SecTrust: Hashable, Sendable {
    struct State: Sendable {
      /// Whom the certificate must be for; nil: whomever.
      var host: String?
      /// Nil: those that the session trusts.
      var anchors: [Certificate]?
      /// The session's count too.
      var isAlsoSession = false
    }

    /// The server's own first.
    let chain: [Certificate]
    private let sessionAnchors: String
    private let state: Mutex<State>

    init(chain: [Certificate], host: String?, sessionAnchors: String) {
      self.chain = chain
      self.sessionAnchors = sessionAnchors
      state = Mutex(State(host: host))
    }

    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    /// Why it is not trusted; nil when it is.
    func refusal() -> String? {
      let state = state.withLock { $0 }
      let usesSession = state.anchors == nil || state.isAlsoSession
      return TrustEvaluation(
        chain: chain, host: state.host, anchors: state.anchors ?? [], anchorFile: usesSession ? sessionAnchors : nil
      ).refusal()
    }

    /// Whether both are one object.
    public static func == (left: SecTrust, right: SecTrust) -> Bool { left === right }
    /// Hashes the identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
  }

  /// What a certificate is asked for.
  public final class SecPolicy: Sendable {
    /// Nil: whomever the certificate is for.
    let host: String?

    init(host: String?) { self.host = host }
  }

  /// The certificate of a TLS server.
  ///
  /// - Parameters:
  ///   - server: false, the certificate of a client, is judged as true.
  ///   - hostname: whom it must be for; nil: whomever.
  public func SecPolicyCreateSSL(_ server: Bool, _ hostname: CFString?) -> SecPolicy { SecPolicy(host: hostname) }

  /// A certificate of whatever name. (It must be fit for a TLS server all the same.)
  public func SecPolicyCreateBasicX509() -> SecPolicy { SecPolicy(host: nil) }

  /// What the certificate is asked for from now on: one ``SecPolicy``, or several, of which each one's host must fit
  /// (two different ones never do). A challenge's trust begins with the host that the task connects to.
  public func SecTrustSetPolicies(_ trust: SecTrust, _ policies: CFTypeRef) -> OSStatus {
    guard let list = (policies as? SecPolicy).map({ [$0] }) ?? policies as? [SecPolicy], !list.isEmpty else {
      return errSecParam
    }
    let hosts = Set(list.compactMap(\.host))
    guard hosts.count <= 1 else { return errSecParam }
    trust.change { $0.host = hosts.first }
    return errSecSuccess
  }

  /// Whom the trust is judged by from now on, in place of the session's authorities: other authorities, or the server's
  /// own certificate. Nil: the session's again.
  public func SecTrustSetAnchorCertificates(_ trust: SecTrust, _ anchors: CFArray?) -> OSStatus {
    let certificates = anchors.map { $0.compactMap { $0 as? SecCertificate } }
    guard certificates?.count == anchors?.count else { return errSecParam }
    trust.change {
      $0.anchors = certificates?.map(\.content)
      $0.isAlsoSession = false
    }
    return errSecSuccess
  }

  /// False: the session's authorities count beside those that were set. They do not unless this is called.
  public func SecTrustSetAnchorCertificatesOnly(_ trust: SecTrust, _ only: Bool) -> OSStatus {
    trust.change { $0.isAlsoSession = !only }
    return errSecSuccess
  }

  /// Whether the server's certificate can be trusted now: its dates, its purpose, the host, and who vouches for it.
  /// Revocation is not looked at. Reads the session's file of authorities, where those count.
  ///
  /// - Parameter error: what it is that speaks against it, in OpenSSL's words; its code is ``errSecNotTrusted``.
  public func SecTrustEvaluateWithError(_ trust: SecTrust, _ error: UnsafeMutablePointer<CFError?>?) -> Bool {
    guard let refusal = trust.refusal() else { return true }
    // SAFETY: the caller's variable, for the time of this call.
    unsafe error?.pointee = NSError(
      domain: "NSOSStatusErrorDomain", code: Int(errSecNotTrusted),
      userInfo: [NSLocalizedDescriptionKey: "The certificate is not trusted: \(refusal)."])
    return false
  }

  /// The server's certificates as it sent them, its own first. Not the chain that an evaluation found.
  public func SecTrustCopyCertificateChain(_ trust: SecTrust) -> CFArray? {
    trust.chain.map { SecCertificate($0) as Any }
  }

  /// How many certificates the server sent.
  public func SecTrustGetCertificateCount(_ trust: SecTrust) -> CFIndex { trust.chain.count }

  /// One of the certificates that the server sent, its own at 0; nil beyond them.
  public func SecTrustGetCertificateAtIndex(_ trust: SecTrust, _ index: CFIndex) -> SecCertificate? {
    trust.chain.indices.contains(index) ? SecCertificate(trust.chain[index]) : nil
  }

  /// The public key of the server's own certificate.
  public func SecTrustCopyKey(_ trust: SecTrust) -> SecKey? {
    trust.chain.first?.publicKey.map(SecKey.init)
  }
#endif
