import CCurl
import Synchronization

/// Whether TLS connections ended with close_notify.
///
/// Without it anybody on the way could shorten a body that only the end of the connection delimits (RFC 9112 section
/// 9.8). libcurl 7.88 takes both ends for the same: its own layer between OpenSSL and the socket does not report the
/// end of the input as such, so that OpenSSL has no error to tell. So OpenSSL's alerts are watched here.
enum TLSGoodbye {
  /// Addresses of the sessions (`SSL *`) that the peer has closed. An address may come again, so a request takes its
  /// own out when it begins; a session that has seen close_notify never carries another request.
  private static let closed = Mutex<Set<UInt>>([])
  /// Sessions of idle connections that were closed are never asked for; beyond this they are forgotten.
  private static let limit = 4096

  /// False: another TLS library than OpenSSL has no such option. (GnuTLS reports a cut by itself.)
  @discardableResult static func watch(_ easy: EasyHandle) -> Bool {
    unsafe ccurl_set_tls_context_function(easy.raw, watchContext) == CURLE_OK
  }

  /// The session of the transfer's connection, as a request begins on it; nil without TLS.
  static func session(of easy: EasyHandle) -> UInt? {
    guard let session = unsafe ccurl_get_tls_session(easy.raw) else { return nil }
    let address = UInt(bitPattern: session)
    _ = closed.withLock { $0.remove(address) }
    return address
  }

  static func wasClosed(_ session: UInt) -> Bool { closed.withLock { $0.contains(session) } }

  static func note(_ session: UInt) {
    closed.withLock { closed in
      if closed.count >= limit { closed.removeAll() }
      closed.insert(session)
    }
  }
}

private func watchContext(
  _ easy: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?, _ user: UnsafeMutableRawPointer?
) -> CURLcode {
  // SAFETY: libcurl's OpenSSL backend hands over the SSL_CTX of the new connection.
  unsafe ccurl_set_tls_note_function(context, noteAlert)
  guard let context = unsafe context, let user = unsafe user else { return CURLE_OK }
  // SAFETY: the transfer's, which lives as long as its handle.
  let check = unsafe Unmanaged<ServerCheck>.fromOpaque(user).takeUnretainedValue()
  return unsafe check.install(in: context) ? CURLE_OK : CURLE_OUT_OF_MEMORY
}

/// SSL_CTX_set_info_callback(3): for a received alert `value` is its level and, in the low byte, its description.
private func noteAlert(_ session: OpaquePointer?, _ what: Int32, _ value: Int32) {
  guard what & SSL_CB_READ_ALERT == SSL_CB_READ_ALERT, value & 0xFF == SSL_AD_CLOSE_NOTIFY else { return }
  TLSGoodbye.note(UInt(bitPattern: session))
}
