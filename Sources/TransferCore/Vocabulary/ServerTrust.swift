/// Whom an attempt takes for its server, beside what ``TLSSettings`` say.
package enum ServerTrust: Hashable, Sendable {
  /// Whom the authorities vouch for.
  case vouched
  /// Nobody: the app wants to see the certificate first, whoever vouches for it.
  case unseen
  /// Who shows one of these certificates, and nobody else. All are of the one place, and the authorities must vouch for
  /// all of them or for none.
  case accepted([AcceptedCertificate])
}

/// A certificate that the app has accepted, of one place.
package struct AcceptedCertificate: Hashable, Sendable {
  /// Scheme, host and port, as ``Origin`` writes them: of another place it says nothing.
  package var origin: String
  /// `sha256//` and the base 64 of the SHA-256 of the whole certificate.
  package var certificate: String
  /// The same of its public key. What a connection is told apart by: one that was made under other rules is not used.
  package var key: String
  /// The authorities vouched for it when it was accepted, and must still. False: it is accepted whoever signed it, and
  /// for whatever name.
  package var mustBeVouched: Bool

  package init(origin: String, certificate: String, key: String, mustBeVouched: Bool) {
    self.origin = origin
    self.certificate = certificate
    self.key = key
    self.mustBeVouched = mustBeVouched
  }
}

/// What a server showed of itself before it was turned away. No byte of a request was sent to it.
package struct ShownServer: Hashable, Sendable {
  /// Base 64 of its certificates in DER: its own first, then what it sent along.
  package var chain: [String]
  /// `sha256//` and the base 64 of the SHA-256 of its own certificate.
  package var certificate: String
  /// The same of its public key.
  package var key: String
  /// The authorities vouch for it, and for this host: it was turned away because the app wants to be asked, or has
  /// accepted another certificate.
  package var isVouched: Bool

  package init(chain: [String], certificate: String, key: String, isVouched: Bool) {
    self.chain = chain
    self.certificate = certificate
    self.key = key
    self.isVouched = isVouched
  }
}
