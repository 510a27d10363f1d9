import CCrypto

/// Whether a server's certificate can be trusted, by OpenSSL's rules of RFC 5280.
package struct TrustEvaluation: Sendable {
  /// The server's own certificate first, then what it sent along.
  package var chain: [Certificate]
  /// Whom the certificate must be for; nil: whomever.
  package var host: String?
  /// Who may vouch: authorities, or the server's certificate itself.
  package var anchors: [Certificate]
  /// A PEM file with more of them; nil: none.
  package var anchorFile: String?

  /// What Debian and its relatives keep; elsewhere OpenSSL's own default.
  package static let systemAnchorFile: String = {
    let known = "/etc/ssl/certs/ca-certificates.crt"
    let file = unsafe BIO_new_file(known, "r")
    defer { unsafe BIO_free(file) }
    ERR_clear_error()
    return unsafe file == nil ? String(cString: X509_get_default_cert_file()) : known
  }()

  package init(chain: [Certificate], host: String?, anchors: [Certificate] = [], anchorFile: String? = nil) {
    self.chain = chain
    self.host = host
    self.anchors = anchors
    self.anchorFile = anchorFile
  }

  /// Why it is not trusted now, in OpenSSL's words; nil when it is. May read a file.
  package func refusal() -> String? {
    defer { ERR_clear_error() }
    guard let store = unsafe X509_STORE_new() else { return "out of memory" }
    defer { unsafe X509_STORE_free(store) }
    for anchor in anchors { unsafe Certificate.withObject(anchor.der) { _ = unsafe X509_STORE_add_cert(store, $0) } }
    if let anchorFile, unsafe X509_STORE_load_file(store, anchorFile) != 1, anchors.isEmpty {
      return "the file of trusted certificates cannot be read"
    }
    guard let leaf = chain.first, let others = unsafe OPENSSL_sk_new_null() else { return "there is no certificate" }
    defer {
      while let other = unsafe OPENSSL_sk_pop(others) { unsafe X509_free(OpaquePointer(other)) }
      unsafe OPENSSL_sk_free(others)
    }
    for other in chain.dropFirst() {
      unsafe Certificate.withObject(other.der) { raw in
        // SAFETY: the stack holds a reference of its own, which is given back above.
        if unsafe X509_up_ref(raw) == 1 { unsafe OPENSSL_sk_push(others, UnsafeRawPointer(raw)) }
      }
    }
    switch unsafe Certificate.withObject(leaf.der, { unsafe verify($0, others, store) }) {
    case .trusted: return nil
    case .refused(let reason): return reason
    case nil: return "the certificate cannot be read"
    }
  }

  private enum Verdict {
    case trusted
    case refused(String)
  }

  private func verify(_ leaf: OpaquePointer, _ others: OpaquePointer, _ store: OpaquePointer) -> Verdict {
    guard let context = unsafe X509_STORE_CTX_new() else { return .refused("out of memory") }
    defer { unsafe X509_STORE_CTX_free(context) }
    guard unsafe X509_STORE_CTX_init(context, store, leaf, others) == 1,
      unsafe X509_STORE_CTX_set_default(context, "ssl_server") == 1,
      let parameters = unsafe X509_STORE_CTX_get0_param(context)
    else { return .refused("out of memory") }
    // As libcurl does: an anchor need not be the root of its chain.
    _ = unsafe X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST))
    if let host, unsafe Self.expect(host, parameters) != 1 { return .refused("the host cannot be looked for") }
    if unsafe X509_verify_cert(context) == 1 { return .trusted }
    let reason = unsafe String(cString: X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(context))))
    return .refused(reason)
  }

  /// 1 for success, as OpenSSL says it. (It takes an empty name for none.)
  private static func expect(_ host: String, _ parameters: OpaquePointer) -> Int32 {
    let host = HostName(host)
    guard !host.text.isEmpty else { return 0 }
    if host.isAddress { return unsafe X509_VERIFY_PARAM_set1_ip_asc(parameters, host.text) }
    unsafe X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
    return unsafe X509_VERIFY_PARAM_set1_host(parameters, host.text, 0)
  }
}
