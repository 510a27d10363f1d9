public import FoundationEssentials
import TransferCore
import WireProtocol

/// What a task in ``TaskStatus/State/asking`` wants to know. Its bytes are kept until ``Session/answer(_:with:)``.
public struct TaskQuestion: Hashable, Sendable {
  /// Whose question it is.
  public let receipt: Receipt
  /// What is asked.
  public let kind: Kind
  /// Answers in a row that were refused.
  public let previousFailures: Int
  /// Tells it from earlier questions of the task.
  let number: Int64

  /// What a task can ask.
  public enum Kind: Hashable, Sendable {
    /// A server or proxy wants credentials, or TLS cannot go on.
    case challenge(Challenge)
    /// The server refused to continue what it had begun: a fresh URL or fresh headers may help.
    case freshRequest(status: Int)
    /// The date of a task that was to begin later has come, and its request may be out of date.
    case delayedRequest
    /// Of a later release of the daemon.
    case other(String)
  }

  /// What a server or proxy wants to be shown.
  public struct Challenge: Hashable, Sendable {
    /// How: "basic", "digest", "bearer", "negotiate", "ntlm", "clientCertificate", "serverTrust" or "unknown".
    public let method: String
    /// The proxy asks, not the server.
    public let isProxy: Bool
    /// Scheme, host and port of who asks.
    public let origin: String
    /// RFC 9110 section 11.5.
    public let realm: String?
    /// Of "serverTrust": `sha256//` and the base 64 of the SHA-256 of the certificate that the server showed, which
    /// ``TaskAnswer/trust(certificate:)`` accepts. Nil where it is not known.
    public let certificate: String?
  }

  init?(_ wire: WireQuestion?, _ receipt: Receipt) {
    guard let wire else { return nil }
    self.receipt = receipt
    number = wire.number
    previousFailures = wire.previousFailures ?? 0
    switch wire.kind {
    case "challenge":
      kind = .challenge(
        Challenge(
          method: wire.method ?? "unknown", isProxy: wire.isProxy ?? false, origin: wire.origin ?? "",
          realm: wire.realm, certificate: wire.certificate))
    case "freshRequest": kind = .freshRequest(status: wire.status ?? 0)
    case "delayedRequest": kind = .delayedRequest
    default: kind = .other(wire.kind)
    }
  }
}

/// A user and a password. Whatever prints it prints neither.
public struct Credential: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
  /// Without a colon (RFC 7617 section 2).
  public var user: String
  /// Kept by the daemon no longer than its task lives.
  public var password: String

  /// A credential for one place, which the daemon shows to nobody else.
  public init(user: String, password: String) {
    self.user = user
    self.password = password
  }

  /// `<redacted>`.
  public var description: String { "<redacted>" }
  /// Of nothing.
  public var customMirror: Mirror { Mirror(self, children: []) }

  var wire: WireCredential { WireCredential(user: user, password: password) }
}

/// How TLS is spoken; what is nil stays the default.
public struct TLSOptions: Hashable, Sendable {
  /// A version of TLS.
  public enum Version: String, Hashable, Sendable, CaseIterable {
    /// RFC 2246.
    case tls10 = "1.0"
    /// RFC 4346.
    case tls11 = "1.1"
    /// RFC 5246.
    case tls12 = "1.2"
    /// RFC 8446.
    case tls13 = "1.3"
  }

  /// The lowest version that is spoken.
  public var minimum: Version?
  /// The highest.
  public var maximum: Version?
  /// PEM certificates that are trusted in place of the system's.
  public var authorities: LocalPath?
  /// "sha256//" and the base 64 of the SHA-256 of a public key; the server's must be one of them.
  public var pinnedKeys: [String] = []
  /// A certificate of ours: PEM, or PKCS#12 by its suffix .p12 or .pfx. Shown to the task's own origin only.
  public var certificate: LocalPath?
  /// Its key in PEM; nil: it stands in the certificate's file.
  public var key: LocalPath?
  /// The key's password; nil: it has none.
  public var keyPassword: String?

  /// Every member at its default.
  public init() {}

  func wire() throws(FerryError) -> WireTLS {
    WireTLS(
      minimum: minimum?.rawValue, maximum: maximum?.rawValue, authorityFile: try authorities?.canonical,
      pinnedKeys: pinnedKeys.isEmpty ? nil : pinnedKeys, certificateFile: try certificate?.canonical,
      keyFile: try key?.canonical, keyPassword: keyPassword)
  }
}

/// What a program says to a ``TaskQuestion``.
public enum TaskAnswer: Hashable, Sendable {
  /// To a challenge that a user and a password answer.
  case credential(Credential)
  /// To a challenge of TLS: an authority to trust, a certificate of ours.
  case tls(TLSOptions)
  /// To a challenge by "serverTrust": the server is the right one if it shows this certificate, whoever signed it. For
  /// the place that asks and the task alone; another certificate is asked about anew.
  case trust(certificate: String)
  /// Go on with this URL (nil: the same) and these headers, set over those that the request has. To another origin
  /// none of the secret headers go along that the request had.
  case request(URL? = nil, headers: [Header] = [])
  /// As if nobody could be asked; a delayed request goes out as it is.
  case proceed
  /// Give the task up.
  case cancel

  func parameters(_ question: TaskQuestion) throws(FerryError) -> TaskAnswerParameters {
    func make(_ word: String) -> TaskAnswerParameters {
      TaskAnswerParameters(id: question.receipt.id, question: question.number, answer: word)
    }
    switch self {
    case .proceed: return make("proceed")
    case .cancel: return make("cancel")
    case .credential(let credential):
      var parameters = make("credential")
      parameters.credential = credential.wire
      return parameters
    case .tls(let options):
      var parameters = make("tls")
      parameters.tls = try options.wire()
      return parameters
    case .trust(let certificate):
      var parameters = make("trust")
      parameters.certificate = certificate
      return parameters
    case .request(let url, let headers):
      var parameters = make("request")
      parameters.url = url?.absoluteString
      parameters.headers = headers.map { WireHeader(name: $0.name, value: $0.value) }
      parameters.secretHeaders = headers.filter(\.isSecret).map(\.name)
      return parameters
    }
  }
}
