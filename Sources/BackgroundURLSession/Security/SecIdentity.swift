#if !canImport(Darwin)
  public import Foundation
  public import FoundationNetworking
  internal import TransferCore
  internal import WireProtocol

  /// A certificate of the program's own and its private key: who the program is, for servers that ask.
  ///
  /// It stands in files that the program's user can read, and is read by who makes the connection: this process, or for
  /// background sessions the daemon, also after a restart. The key's bytes are in neither's memory before, and never in
  /// a record or a log; of a background task the daemon keeps the files' paths and the password until the task has
  /// ended.
  public final class SecIdentity: Hashable, Sendable {
    let content: ClientIdentity

    /// Names an identity's files. Only here: Apple's systems take identities from a keychain or by `SecPKCS12Import`.
    ///
    /// Nothing is read yet: a file that cannot be used fails the task.
    ///
    /// - Parameters:
    ///   - file: the certificate in PEM, with the certificates that lead to an authority behind it; or PKCS#12, by its
    ///     suffix `.p12` or `.pfx`.
    ///   - key: the private key in PEM; nil: it stands in the same file.
    ///   - password: of the key, or of the PKCS#12 file; nil: there is none.
    public init(contentsOf file: URL, key: URL? = nil, password: String? = nil) {
      content = ClientIdentity(
        certificateFile: file.absoluteURL.path, keyFile: key?.absoluteURL.path, keyPassword: password.map { Secret($0) }
      )
    }

    /// Whether both name the same files and password.
    public static func == (left: SecIdentity, right: SecIdentity) -> Bool { left.content == right.content }
    /// Hashes what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) { hasher.combine(content) }
  }

  extension CredentialOfTLS where Self: URLCredential {
    /// Shows an identity to the server that asks: the answer to a challenge of
    /// ``NSURLAuthenticationMethodClientCertificate``.
    ///
    /// It is for the host and port that asked, and for the one task. The server must be trusted first, name and all.
    ///
    /// - Parameters:
    ///   - identity: whose files are read when the connection is made.
    ///   - certificates: not used: certificates between the identity's and an authority belong into its file.
    ///   - persistence: counts as `.none`.
    public init(identity: SecIdentity, certificates: [Any]?, persistence: URLCredential.Persistence) {
      guard let made = IdentityCredential(identity) as? Self else {
        fatalError("URLCredential(identity:certificates:persistence:) makes a URLCredential and not a subclass of it.")
      }
      self = made
    }
  }

  extension URLCredential {
    /// The identity that the credential was made with; nil for another credential.
    public var identity: SecIdentity? { (self as? IdentityCredential)?.secret }
  }

  /// Shows who the program is.
  final class IdentityCredential: URLCredential, @unchecked Sendable {
    fileprivate let secret: SecIdentity

    init(_ identity: SecIdentity) {
      secret = identity
      super.init(user: "", password: "", persistence: .none)
    }

    // A key has no place in an archive.
    required init?(coder: NSCoder) { nil }

    override var user: String? { nil }
    override var password: String? { nil }
    override var hasPassword: Bool { false }
    override func isEqual(_ object: Any?) -> Bool { (object as? IdentityCredential)?.secret == secret }
    override var hash: Int { secret.hashValue }
  }

  extension WireTLS {
    init(_ identity: ClientIdentity) {
      self.init(
        certificateFile: identity.certificateFile, keyFile: identity.keyFile, keyPassword: identity.keyPassword?.text)
    }
  }
#endif
