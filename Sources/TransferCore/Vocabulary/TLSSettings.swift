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

  package init(
    minimum: Version? = nil, maximum: Version? = nil, authorityFile: String? = nil, pinnedKeys: [String] = [],
    certificateFile: String? = nil, keyFile: String? = nil, keyPassword: Secret? = nil, asksAboutServers: Bool = false
  ) {
    self.minimum = minimum
    self.maximum = maximum
    self.authorityFile = authorityFile
    self.pinnedKeys = pinnedKeys
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    self.keyPassword = keyPassword
    self.asksAboutServers = asksAboutServers
  }

  package var isEmpty: Bool { self == TLSSettings() }

  /// These, with what `other` says in their place.
  package func overridden(by other: TLSSettings?) -> TLSSettings {
    guard let other else { return self }
    var merged = self
    merged.minimum = other.minimum ?? minimum
    merged.maximum = other.maximum ?? maximum
    merged.asksAboutServers = other.asksAboutServers || asksAboutServers
    merged.authorityFile = other.authorityFile ?? authorityFile
    if !other.pinnedKeys.isEmpty { merged.pinnedKeys = other.pinnedKeys }
    if other.certificateFile != nil {
      merged.certificateFile = other.certificateFile
      merged.keyFile = other.keyFile
      merged.keyPassword = other.keyPassword
    }
    return merged
  }

  /// Without what proves who we are, which another origin is not shown.
  package var withoutIdentity: TLSSettings {
    var stranger = self
    stranger.certificateFile = nil
    stranger.keyFile = nil
    stranger.keyPassword = nil
    return stranger
  }
}
