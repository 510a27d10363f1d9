import CCrypto

/// One X.509 certificate, as OpenSSL reads it.
package struct Certificate: Hashable, Sendable {
  /// The certificate itself (X.690, distinguished encoding).
  package let der: [UInt8]
  /// The subject on one line, for people to read.
  package let subject: String
  /// Its public key as others write it: PKCS#1 of an RSA key, the uncompressed point of an elliptic curve (X9.63). Nil
  /// for keys of other kinds.
  package let publicKey: [UInt8]?
  /// `sha256//` and the base 64 of the SHA-256 of the whole certificate.
  package let fingerprint: String
  /// `sha256//` and the base 64 of the SHA-256 of its SubjectPublicKeyInfo, as CURLOPT_PINNEDPUBLICKEY takes it.
  package let keyPin: String

  /// Nil for bytes that are no certificate, or more than one.
  package init?(der: [UInt8]) {
    guard let read = unsafe Self.withObject(der, { unsafe Certificate($0) }), let read else { return nil }
    self = read
  }

  /// Lends OpenSSL's own object (`X509 *`) of such bytes; nil for bytes that are no certificate, or more than one.
  static func withObject<Result>(_ der: [UInt8], _ body: (OpaquePointer) -> Result) -> Result? {
    let parsed = unsafe der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
      var position = buffer.baseAddress
      guard let parsed = unsafe d2i_X509(nil, &position, buffer.count) else { return nil }
      // SAFETY: d2i_X509 moves the position within the buffer.
      guard unsafe position == buffer.baseAddress.map({ unsafe $0 + buffer.count }) else {
        unsafe X509_free(parsed)
        return nil
      }
      return unsafe parsed
    }
    guard let parsed = unsafe parsed else {
      ERR_clear_error()
      return nil
    }
    defer { unsafe X509_free(parsed) }
    return unsafe body(parsed)
  }

  /// Reads OpenSSL's own object (`X509 *`), which stays the caller's.
  package init?(_ raw: OpaquePointer) {
    guard let der = unsafe OpenSSLBytes.of({ unsafe i2d_X509(raw, $0) }), let hash = Digest.pin(of: der),
      let key = unsafe OpenSSLBytes.of({ unsafe i2d_X509_PUBKEY(X509_get_X509_PUBKEY(raw), $0) }),
      let keyPin = Digest.pin(of: key)
    else {
      ERR_clear_error()
      return nil
    }
    self.der = der
    fingerprint = hash
    self.keyPin = keyPin
    subject = unsafe Self.subject(of: raw)
    publicKey = unsafe Self.publicKey(of: raw)
  }

  /// XN_FLAG_ONELINE of x509.h, whose macro Swift does not import.
  private static let oneLine =
    UInt(ASN1_STRFLGS_ESC_2253 | ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_ESC_MSB | ASN1_STRFLGS_UTF8_CONVERT)
    | UInt(ASN1_STRFLGS_DUMP_UNKNOWN | ASN1_STRFLGS_DUMP_DER | ASN1_STRFLGS_ESC_QUOTE)
    | UInt(XN_FLAG_SEP_CPLUS_SPC | XN_FLAG_SPC_EQ)

  private static func subject(of raw: OpaquePointer) -> String {
    guard let output = unsafe BIO_new(BIO_s_mem()) else { return "" }
    defer { unsafe BIO_free(output) }
    guard unsafe X509_NAME_print_ex(output, X509_get_subject_name(raw), 0, oneLine) >= 0 else {
      return ""
    }
    return String(decoding: unsafe OpenSSLBytes.all(in: output), as: UTF8.self)
  }

  private static func publicKey(of raw: OpaquePointer) -> [UInt8]? {
    guard let key = unsafe X509_get0_pubkey(raw) else { return nil }
    let kind = unsafe EVP_PKEY_get_base_id(key)
    guard kind == EVP_PKEY_RSA || kind == EVP_PKEY_EC else { return nil }
    return unsafe OpenSSLBytes.of { unsafe i2d_PublicKey(key, $0) }
  }

  /// The certificates of a PEM text, in order; what is nothing of that kind is passed over.
  package static func all(inPEM text: [UInt8]) -> [Certificate] {
    var found: [Certificate] = []
    guard let input = unsafe OpenSSLBytes.input(text) else { return [] }
    defer { unsafe BIO_free(input) }
    while let raw = unsafe PEM_read_bio_X509(input, nil, nil, nil) {
      if let certificate = unsafe Certificate(raw) { found.append(certificate) }
      unsafe X509_free(raw)
    }
    ERR_clear_error()
    return found
  }

  /// Whether the certificate (`X509 *`) is for this host: a name (RFC 6125), or an address in digits, with or without
  /// the brackets of a URL.
  package static func isFor(_ host: String, _ raw: OpaquePointer) -> Bool {
    let host = HostName(host)
    if host.isAddress { return unsafe X509_check_ip_asc(raw, host.text, 0) == 1 }
    return unsafe X509_check_host(raw, host.text, 0, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS), nil) == 1
  }
}

/// A host of a URL, as certificates name it.
struct HostName {
  let text: String
  let isAddress: Bool

  init(_ host: String) {
    var text = host[...]
    if text.hasPrefix("["), text.hasSuffix("]") { text = text.dropFirst().dropLast() }
    // A name that is written from the root on is the same name.
    if text.hasSuffix(".") { text = text.dropLast() }
    self.text = String(text)
    let address = unsafe a2i_IPADDRESS(self.text)
    isAddress = unsafe address != nil
    unsafe ASN1_OCTET_STRING_free(address)
    ERR_clear_error()
  }
}
