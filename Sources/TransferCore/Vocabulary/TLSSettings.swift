/// How TLS is spoken, beyond the default of libcurl and OpenSSL. What is absent is the default.
package struct TLSSettings: Hashable, Sendable {
  package enum Version: String, CaseIterable, Hashable, Comparable, Sendable {
    case tls10 = "1.0"
    case tls11 = "1.1"
    case tls12 = "1.2"
    case tls13 = "1.3"

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
  }

  package var minimum: Version?
  package var maximum: Version?
  /// Absolute path of a PEM file with the certificates that are trusted, in place of the system's.
  package var authorityFile: String?
  /// `sha256//` and the base 64 of the SHA-256 of a public key (CURLOPT_PINNEDPUBLICKEY): the server's must be one of
  /// them.
  package var pinnedKeys: [String]
  /// Absolute path of a certificate of ours: PEM, or PKCS#12 by its suffix `.p12` or `.pfx`. Shown to the task's own
  /// origin only.
  package var certificateFile: String?
  /// Absolute path of its key in PEM; nil: it stands in the certificate's file.
  package var keyFile: String?
  package var keyPassword: Secret?
  /// The app is asked about each server before anything is sent to it, also where the authorities vouch for it.
  package var asksAboutServers: Bool
  /// The app is asked where a server only wishes for a certificate of ours, too: many go on without one, and answer
  /// with a refusal.
  package var asksForCertificate: Bool
  /// Whatever vouches for it, a server of these domains has one of their keys.
  package var pinnedDomains: [PinnedDomain]

  package init(
    minimum: Version? = nil, maximum: Version? = nil, authorityFile: String? = nil, pinnedKeys: [String] = [],
    certificateFile: String? = nil, keyFile: String? = nil, keyPassword: Secret? = nil, asksAboutServers: Bool = false,
    asksForCertificate: Bool = false, pinnedDomains: [PinnedDomain] = []
  ) {
    self.minimum = minimum
    self.maximum = maximum
    self.authorityFile = authorityFile
    self.pinnedKeys = pinnedKeys
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    self.keyPassword = keyPassword
    self.asksAboutServers = asksAboutServers
    self.asksForCertificate = asksForCertificate
    self.pinnedDomains = pinnedDomains
  }

  package var isEmpty: Bool { self == TLSSettings() }

  /// These, with what `other` says in their place.
  package func overridden(by other: TLSSettings?) -> TLSSettings {
    guard let other else { return self }
    var merged = self
    merged.minimum = other.minimum ?? minimum
    merged.maximum = other.maximum ?? maximum
    merged.asksAboutServers = other.asksAboutServers || asksAboutServers
    merged.asksForCertificate = other.asksForCertificate || asksForCertificate
    // Added: nobody can take a pin away by naming another domain.
    merged.pinnedDomains += other.pinnedDomains.filter { !pinnedDomains.contains($0) }
    merged.authorityFile = other.authorityFile ?? authorityFile
    if !other.pinnedKeys.isEmpty { merged.pinnedKeys = other.pinnedKeys }
    if other.certificateFile != nil {
      merged.certificateFile = other.certificateFile
      merged.keyFile = other.keyFile
      merged.keyPassword = other.keyPassword
    }
    return merged
  }

  /// What proves who we are.
  package var identity: ClientIdentity? {
    certificateFile.map { ClientIdentity(certificateFile: $0, keyFile: keyFile, keyPassword: keyPassword) }
  }

  package func with(_ identity: ClientIdentity?) -> TLSSettings {
    var known = self
    known.certificateFile = identity?.certificateFile
    known.keyFile = identity?.keyFile
    known.keyPassword = identity?.keyPassword
    return known
  }

  /// For one host: the keys of its domain, of which those stay that were expected anyway. Where none is left, no key is
  /// the right one.
  func pinned(to host: String) -> TLSSettings {
    var settings = self
    settings.pinnedDomains = []
    for domain in pinnedDomains where domain.covers(host) {
      let expected = settings.pinnedKeys
      settings.pinnedKeys = expected.isEmpty ? domain.keys : domain.keys.filter(expected.contains)
      if settings.pinnedKeys.isEmpty { settings.pinnedKeys = [PinnedDomain.noKey] }
    }
    return settings
  }

  /// Without what proves who we are, which another origin is not shown.
  package var withoutIdentity: TLSSettings { with(nil) }
}

/// A certificate of ours, and its key.
package struct ClientIdentity: Hashable, Sendable {
  /// As ``TLSSettings/certificateFile``.
  package var certificateFile: String
  package var keyFile: String?
  package var keyPassword: Secret?

  package init(certificateFile: String, keyFile: String? = nil, keyPassword: Secret? = nil) {
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    self.keyPassword = keyPassword
  }
}

/// Whose servers have known keys.
package struct PinnedDomain: Hashable, Sendable {
  /// A name, without a dot at its end.
  package var domain: String
  package var includesSubdomains: Bool
  /// As ``TLSSettings/pinnedKeys``; none: no server is the right one.
  package var keys: [String]

  package init(domain: String, includesSubdomains: Bool, keys: [String]) {
    self.domain = domain
    self.includesSubdomains = includesSubdomains
    self.keys = keys
  }

  /// The SHA-256 of nothing that can be found.
  static let noKey = "sha256//" + String(repeating: "A", count: 43) + "="

  /// A host that is written in another way than names and addresses are may be this one: whoever connects reads it anew
  /// (IDNA, `127.1`). Then it must have the keys, too.
  package func covers(_ host: String) -> Bool {
    var name = host.asciiLowercased[...]
    while name.utf8.last == UInt8(ascii: ".") { name.removeLast() }
    guard name.utf8.allSatisfy({ $0 < 0x80 }) else { return true }
    let domain = domain.asciiLowercased[...]
    if Self.isNumeric(domain), Self.isNumeric(name), !Self.isAddress(name) { return true }
    return name == domain || includesSubdomains && name.hasSuffix(".\(domain)")
  }

  /// It ends in a number, so that it is an IPv4 address for some readers.
  private static func isNumeric(_ name: Substring) -> Bool {
    let last = name.split(separator: ".", omittingEmptySubsequences: false).last
    return last?.utf8.first.map { (0x30...0x39).contains($0) } ?? false
  }

  /// Four numbers in their only form (RFC 3986 section 3.2.2).
  private static func isAddress(_ name: Substring) -> Bool {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts.allSatisfy { part in UInt8(part).map { "\($0)" == part } ?? false }
  }
}
