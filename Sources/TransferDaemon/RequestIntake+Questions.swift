package import TransferCore
package import WireProtocol

// Credentials, settings of TLS and answers. What is refused is never repeated in the error: it may be a secret.
extension RequestIntake {
  package static func tls(_ wire: WireTLS?) throws(WireError) -> TLSSettings? {
    guard let wire, !wire.isEmpty else { return nil }
    var settings = TLSSettings()
    settings.minimum = try version(wire.minimum, "minimum")
    settings.maximum = try version(wire.maximum, "maximum")
    if let minimum = settings.minimum, let maximum = settings.maximum, minimum > maximum {
      throw WireError(.invalidParameters, "tls.minimum is above tls.maximum.")
    }
    settings.authorityFile = try path(wire.authorityFile, "tls.authorityFile")
    settings.certificateFile = try path(wire.certificateFile, "tls.certificateFile")
    settings.keyFile = try path(wire.keyFile, "tls.keyFile")
    guard settings.certificateFile != nil || settings.keyFile == nil && wire.keyPassword == nil else {
      throw WireError(.invalidParameters, "tls.keyFile and tls.keyPassword belong to a tls.certificateFile.")
    }
    let keys = wire.pinnedKeys ?? []
    guard keys.count <= 32, keys.allSatisfy(isPin) else {
      throw WireError(
        .invalidParameters,
        "tls.pinnedKeys are at most 32 texts of \"sha256//\" and the base 64 of a public key's SHA-256.")
    }
    settings.pinnedKeys = keys
    settings.keyPassword = try secret(wire.keyPassword, "tls.keyPassword")
    settings.asksAboutServers = wire.asksAboutServers ?? false
    settings.asksForCertificate = wire.asksForCertificate ?? false
    settings.pinnedDomains = try (wire.pinnedDomains ?? []).map(pinnedDomain)
    guard settings.pinnedDomains.count <= 64 else {
      throw WireError(.invalidParameters, "tls.pinnedDomains are at most 64.")
    }
    return settings
  }

  private static func pinnedDomain(_ wire: WirePinnedDomain) throws(WireError) -> PinnedDomain {
    let isName = wire.domain.utf8.allSatisfy { byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F: true
      default: false
      }
    }
    guard isName, !wire.domain.isEmpty, wire.domain.utf8.count <= 253, !wire.domain.hasSuffix("."),
      !wire.domain.hasPrefix("."), wire.keys.count <= 32, wire.keys.allSatisfy(isPin)
    else {
      throw WireError(
        .invalidParameters,
        "tls.pinnedDomains have a domain name without a dot at either end, and at most 32 keys as tls.pinnedKeys has.")
    }
    return PinnedDomain(
      domain: wire.domain, includesSubdomains: wire.includesSubdomains ?? false, keys: wire.keys)
  }

  private static func isPin(_ text: String) -> Bool {
    guard text.hasPrefix("sha256//"), let bytes = WireCoding.bytes(base64: String(text.dropFirst(8))) else {
      return false
    }
    return bytes.count == 32
  }

  private static func version(_ text: String?, _ name: String) throws(WireError) -> TLSSettings.Version? {
    guard let text else { return nil }
    guard let version = TLSSettings.Version(rawValue: text) else {
      throw WireError(.invalidParameters, "tls.\(name) is \"1.0\", \"1.1\", \"1.2\" or \"1.3\".")
    }
    return version
  }

  private static func path(_ text: String?, _ name: String) throws(WireError) -> String? {
    guard let text else { return nil }
    guard text.hasPrefix("/"), text.utf8.count <= 4096, isClean(text) else {
      throw WireError(.invalidParameters, "\(name) must be an absolute path.")
    }
    return text
  }

  private static func isClean(_ text: String) -> Bool { text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

  private static func secret(_ text: String?, _ name: String) throws(WireError) -> Secret? {
    guard let text else { return nil }
    guard text.utf8.count <= 4096, isClean(text) else {
      throw WireError(.invalidParameters, "\(name) is longer than 4096 bytes or has a control character.")
    }
    return Secret(text)
  }

  /// RFC 7617 section 2: no control characters, and no colon in a user's name.
  static func credential(_ wire: WireCredential, _ name: String) throws(WireError) -> (user: String, password: Secret) {
    guard !wire.user.isEmpty, wire.user.utf8.count <= 1024, isClean(wire.user), !wire.user.contains(":"),
      let password = try secret(wire.password, "\(name).password")
    else {
      throw WireError(
        .invalidParameters, "\(name).user has 1 to 1024 bytes, none of them a colon or control character.")
    }
    return (wire.user, password)
  }

  static func apply(access wire: WireTaskSpecification, to draft: inout TaskDraft) throws(WireError) {
    draft.answersChallenges = wire.answersChallenges
    draft.asksBeforeBegin = wire.asksBeforeBegin ?? false
    draft.tls = try tls(wire.tls)
    if let wire = wire.credential {
      let credential = try credential(wire, "credential")
      draft.user = credential.user
      draft.password = credential.password
    }
    if let wire = wire.proxyCredential {
      let credential = try credential(wire, "proxyCredential")
      draft.proxyUser = credential.user
      draft.proxyPassword = credential.password
    }
  }

  package static func answer(_ wire: TaskAnswerParameters) throws(WireError) -> Answer {
    switch wire.answer {
    case "proceed": return .proceed
    case "cancel": return .cancel
    case "credential":
      guard let given = wire.credential else {
        throw WireError(.invalidParameters, "The answer \"credential\" needs \"credential\" with user and password.")
      }
      let credential = try credential(given, "credential")
      return .credential(user: credential.user, password: credential.password)
    case "tls":
      guard let settings = try tls(wire.tls) else {
        throw WireError(.invalidParameters, "The answer \"tls\" needs \"tls\" with at least one member.")
      }
      return .tls(settings)
    case "trust":
      guard let certificate = wire.certificate, isPin(certificate) else {
        throw WireError(.invalidParameters, "The answer \"trust\" needs \"certificate\", as its question tells it.")
      }
      return .trust(certificate: certificate)
    case "request": return .request(try change(of: wire))
    default:
      throw WireError(
        .invalidParameters,
        "answer is \"credential\", \"tls\", \"trust\", \"request\", \"proceed\" or \"cancel\".")
    }
  }

  /// By the rules of a new task's URL and headers.
  private static func change(of wire: TaskAnswerParameters) throws(WireError) -> RequestChange {
    var specification = WireTaskSpecification(kind: "download", url: wire.url ?? "http://unchanged.invalid/")
    specification.headers = wire.headers
    specification.secretHeaders = wire.secretHeaders
    let request = try draft(specification, random: { 0 }).request
    return RequestChange(
      url: wire.url == nil ? nil : request.url, headers: request.headers,
      replacesHeaders: wire.replacesHeaders ?? false, secretHeaderNames: request.secretHeaderNames)
  }
}
