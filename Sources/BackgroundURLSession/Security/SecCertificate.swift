// swift-format-ignore-file: AlwaysUseLowerCamelCase

#if !canImport(Darwin)
  internal import Certificates
  public import Foundation

  // The names are Apple's (Security framework); X.509 is read by OpenSSL.

  /// The result of a function of the Security framework.
  public typealias OSStatus = Int32

  /// No error.
  public let errSecSuccess: OSStatus = 0
  /// A parameter is not what the function takes.
  public let errSecParam: OSStatus = -50
  /// The certificate is not trusted. The code of every error that ``SecTrustEvaluateWithError(_:_:)`` makes.
  public let errSecNotTrusted: OSStatus = -67843

  /// An X.509 certificate. Two of the same bytes are equal.
  public final class SecCertificate: Hashable, Sendable {
    let content: Certificate

    init(_ content: Certificate) { self.content = content }

    /// Whether both are the same bytes.
    public static func == (left: SecCertificate, right: SecCertificate) -> Bool { left.content == right.content }
    /// Hashes the bytes.
    public func hash(into hasher: inout Hasher) { hasher.combine(content.der) }
  }

  /// The public key of a certificate.
  public final class SecKey: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Whether both are the same key.
    public static func == (left: SecKey, right: SecKey) -> Bool { left.bytes == right.bytes }
    /// Hashes the key.
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
  }

  /// Reads a certificate; nil for bytes that are none.
  ///
  /// - Parameters:
  ///   - allocator: not used.
  ///   - data: one certificate in DER. (PEM is DER in base 64: take its lines of dashes away and decode the rest.)
  public func SecCertificateCreateWithData(_ allocator: CFAllocator?, _ data: CFData) -> SecCertificate? {
    Certificate(der: [UInt8](data)).map(SecCertificate.init)
  }

  /// The certificate in DER.
  public func SecCertificateCopyData(_ certificate: SecCertificate) -> CFData { Data(certificate.content.der) }

  /// The subject, for people to read: all of it on one line, where Apple's systems choose a part.
  public func SecCertificateCopySubjectSummary(_ certificate: SecCertificate) -> CFString? {
    certificate.content.subject
  }

  /// The certificate's public key; nil for keys that are neither RSA's nor an elliptic curve's.
  public func SecCertificateCopyKey(_ certificate: SecCertificate) -> SecKey? {
    certificate.content.publicKey.map(SecKey.init)
  }

  /// The key's bytes: PKCS#1 of an RSA key, the uncompressed point of an elliptic curve (ANSI X9.63). Never fails.
  public func SecKeyCopyExternalRepresentation(
    _ key: SecKey, _ error: UnsafeMutablePointer<Unmanaged<CFError>?>?
  ) -> CFData? {
    Data(key.bytes)
  }
#endif
