import CCrypto
import CCurl
import Certificates
import TransferCore

/// Whom a connection takes for its server: looked at once in each TLS handshake, before a byte of a request is sent.
///
/// OpenSSL asks by SSL_CTX_set_cert_verify_callback(3), and the rules of libcurl stay in force beside this one: nothing
/// here can make a connection that OpenSSL or libcurl refuse, but for the certificates that the app has accepted.
/// Such a connection has other options than any that was made under ordinary rules (``CurlOptions``), so that libcurl
/// never gives one for the other.
final class ServerCheck {
  private let trust: ServerTrust
  private let host: String
  /// A server of another name is not shown a certificate of ours: libcurl looks at the name after the handshake.
  private let showsIdentity: Bool
  /// A server that wishes for a certificate of ours is not gone on with.
  private let asksForCertificate: Bool
  /// The request is on its way, and is not to be sent twice: a server that wishes for a certificate only then is gone
  /// on with.
  var isCommitted = false
  /// It did.
  fileprivate(set) var wasAskedForCertificate = false
  /// What the server showed, if it was turned away or is going to be.
  private(set) var shown: ShownServer?

  init(_ trust: ServerTrust, _ tls: TLSSettings, host: String) {
    self.trust = trust
    self.host = host
    showsIdentity = tls.certificateFile != nil
    asksForCertificate = tls.asksForCertificate
  }

  /// Makes the context of a new connection (`SSL_CTX *`) ask. The context keeps this object alive, because a server may
  /// begin another handshake on a connection that other transfers use by then.
  func install(in context: UnsafeMutableRawPointer) -> Bool {
    let context = OpaquePointer(context)
    let kept = unsafe Unmanaged.passRetained(self)
    guard Self.place >= 0, unsafe SSL_CTX_set_ex_data(context, Self.place, kept.toOpaque()) == 1 else {
      unsafe kept.release()
      return false
    }
    unsafe SSL_CTX_set_cert_verify_callback(context, judgeServer, kept.toOpaque())
    if asksForCertificate { unsafe SSL_CTX_set_client_cert_cb(context, noteWish) }
    return true
  }

  /// Where a context keeps its check: SSL_CTX_get_ex_new_index(3), a macro.
  fileprivate static let place = unsafe CRYPTO_get_ex_new_index(CRYPTO_EX_INDEX_SSL_CTX, 0, nil, nil, nil, releaseCheck)

  /// `context`: X509_STORE_CTX. Its error becomes the connection's verification result.
  fileprivate func judge(_ context: OpaquePointer) -> Bool {
    // libcurl takes the oldest error for the reason, and what is only looked at here is none.
    defer { ERR_clear_error() }
    let isSigned = unsafe X509_verify_cert(context) == 1
    guard let raw = unsafe X509_STORE_CTX_get0_cert(context) else { return false }
    let isVouched = unsafe isSigned && Certificate.isFor(host, raw)
    switch trust {
    case .vouched:
      // A wrong name is libcurl's to refuse.
      if !isVouched { unsafe show(context, isVouched: false) }
      guard isSigned, !isVouched, showsIdentity else { return isSigned }
      unsafe X509_STORE_CTX_set_error(context, X509_V_ERR_HOSTNAME_MISMATCH)
      return false
    case .accepted(let accepted):
      guard let shown = unsafe Certificate(raw)?.fingerprint,
        accepted.contains(where: { $0.certificate == shown && (isVouched || !$0.mustBeVouched) })
      else { break }
      unsafe X509_STORE_CTX_set_error(context, X509_V_OK)
      return true
    case .unseen: break
    }
    unsafe show(context, isVouched: isVouched)
    if isSigned { unsafe X509_STORE_CTX_set_error(context, X509_V_ERR_APPLICATION_VERIFICATION) }
    return false
  }

  private func show(_ context: OpaquePointer, isVouched: Bool) {
    guard let raw = unsafe X509_STORE_CTX_get0_cert(context), let own = unsafe Certificate(raw) else { return }
    var chain = [own]
    var room = EngineLimits.shownCertificateBytes - own.der.count
    guard room >= 0 else { return }
    let sent = unsafe X509_STORE_CTX_get0_untrusted(context)
    for index in 0..<max(0, unsafe OPENSSL_sk_num(sent)) where chain.count < EngineLimits.shownCertificates {
      let raw = unsafe OPENSSL_sk_value(sent, index)
      guard let raw = unsafe raw, let other = unsafe Certificate(OpaquePointer(raw)) else { continue }
      room -= other.der.count
      guard room >= 0 else { break }
      if other != own { chain.append(other) }
    }
    shown = ShownServer(
      chain: chain.map { Digest.base64($0.der) }, certificate: own.fingerprint, key: own.keyPin, isVouched: isVouched)
  }
}

// SAFETY, for both: the pointer is the retained ServerCheck that `install` put into the context, which OpenSSL lets go
// of exactly once, after its last connection.

private func judgeServer(_ context: OpaquePointer?, _ check: UnsafeMutableRawPointer?) -> Int32 {
  guard let context = unsafe context, let check = unsafe check else { return 0 }
  return unsafe Unmanaged<ServerCheck>.fromOpaque(check).takeUnretainedValue().judge(context) ? 1 : 0
}

/// SSL_CTX_set_client_cert_cb(3): called only where no certificate was set. A negative result breaks the handshake off.
private func noteWish(
  _ session: OpaquePointer?, _ certificate: UnsafeMutablePointer<OpaquePointer?>?,
  _ key: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
  guard let session = unsafe session, let context = unsafe SSL_get_SSL_CTX(session),
    let check = unsafe SSL_CTX_get_ex_data(context, ServerCheck.place)
  else { return 0 }
  let known = unsafe Unmanaged<ServerCheck>.fromOpaque(check).takeUnretainedValue()
  if known.isCommitted { return 0 }
  known.wasAskedForCertificate = true
  return -1
}

private func releaseCheck(
  _ parent: UnsafeMutableRawPointer?, _ check: UnsafeMutableRawPointer?, _ data: UnsafeMutablePointer<CRYPTO_EX_DATA>?,
  _ place: Int32, _ number: Int, _ user: UnsafeMutableRawPointer?
) {
  guard let check = unsafe check else { return }
  unsafe Unmanaged<ServerCheck>.fromOpaque(check).release()
}
