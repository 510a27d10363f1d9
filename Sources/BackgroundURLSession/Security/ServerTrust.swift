#if !canImport(Darwin)
  internal import Certificates
  internal import FerryClient
  internal import Foundation
  public import FoundationNetworking
  internal import TransferCore
  internal import WireProtocol

  // FoundationNetworking withholds the next two names and `serverTrust`; whoever imports this module and not that one
  // finds these.

  // swift-format-ignore: AlwaysUseLowerCamelCase
  /// A server whose certificate is to be judged: `protectionSpace.serverTrust` has it. Asked of the session's delegate.
  public let NSURLAuthenticationMethodServerTrust = "NSURLAuthenticationMethodServerTrust"
  // swift-format-ignore: AlwaysUseLowerCamelCase
  /// A server wants a certificate of the client. Asked of the session's delegate.
  public let NSURLAuthenticationMethodClientCertificate = "NSURLAuthenticationMethodClientCertificate"

  extension URLProtectionSpace {
    /// The certificates of the server that asks; nil for other challenges than
    /// ``NSURLAuthenticationMethodServerTrust``, and where they are not known: behind a proxy that speaks TLS itself.
    public var serverTrust: SecTrust? { (self as? ServerTrustSpace)?.trust }
  }

  /// What ``FoundationNetworking/URLCredential`` gains here.
  public protocol CredentialOfTLS {}

  extension URLCredential: CredentialOfTLS {}

  extension CredentialOfTLS where Self: URLCredential {
    /// Says that the server is the right one: the answer to a challenge whose `serverTrust` this is.
    ///
    /// The task goes on with the certificate that the challenge showed, whoever signed it and for whatever name, at
    /// the host and port that asked, and with no other: one that comes later in its place is a new question. It is for
    /// the one task (in an ordinary session, of a server that the authorities vouch for, for the session). Nothing of
    /// the kind is kept in a credential storage.
    public init(trust: SecTrust) {
      guard let made = ServerTrustCredential(trust) as? Self else {
        fatalError("URLCredential(trust:) makes a URLCredential and not a subclass of it.")
      }
      self = made
    }
  }

  /// A server that is to be judged.
  final class ServerTrustSpace: URLProtectionSpace, @unchecked Sendable {
    let trust: SecTrust

    init(_ trust: SecTrust, host: String, port: Int, protocol name: String?) {
      self.trust = trust
      super.init(
        host: host, port: port, protocol: name, realm: nil, authenticationMethod: NSURLAuthenticationMethodServerTrust)
    }
  }

  /// A server that was judged to be the right one.
  final class ServerTrustCredential: URLCredential, @unchecked Sendable {
    let trust: SecTrust

    init(_ trust: SecTrust) {
      self.trust = trust
      super.init(user: "", password: "", persistence: .none)
    }

    // It is not for an archive: it is about a connection that is being made.
    required init?(coder: NSCoder) { nil }

    override var user: String? { nil }
    override var password: String? { nil }
    override var hasPassword: Bool { false }
    override func isEqual(_ object: Any?) -> Bool { (object as? ServerTrustCredential)?.trust === trust }
    override var hash: Int { ObjectIdentifier(trust).hashValue }
  }

  extension SecTrust {
    /// Of what a server showed; nil when that cannot be read.
    convenience init?(_ server: ShownServer, host: String, _ authorities: URL?) {
      let chain = server.chain.compactMap { Data(base64Encoded: $0).flatMap { Certificate(der: [UInt8]($0)) } }
      guard chain.count == server.chain.count, chain.first?.fingerprint == server.certificate else { return nil }
      self.init(chain: chain, host: host, sessionAnchors: authorities?.absoluteURL.path ?? Self.sessionAnchors)
    }

    /// Where the session has none of its own: what the environment names as sessions take it, else the system's.
    private static var sessionAnchors: String {
      WireNetwork.fromEnvironment(ProcessInfo.processInfo.environment).certificateFile
        ?? TrustEvaluation.systemAnchorFile
    }
  }
#endif
