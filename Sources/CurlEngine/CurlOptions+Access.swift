import CCurl
import TransferCore

// Credentials and settings of TLS as libcurl's options.
extension CurlOptions {
  /// Nil when the order asks for nothing that cannot be done.
  static func setAccess(_ order: AttemptOrder, _ easy: EasyHandle, hasBody: Bool) -> TransferFailure? {
    if let credential = order.credential {
      easy.set(CURLOPT_USERNAME, credential.user)
      easy.set(CURLOPT_PASSWORD, credential.password.text)
      easy.set(CURLOPT_HTTPAUTH, mask(credential.method, hasBody: hasBody))
    }
    if let credential = order.proxyCredential {
      easy.set(CURLOPT_PROXYUSERNAME, credential.user)
      easy.set(CURLOPT_PROXYPASSWORD, credential.password.text)
      easy.set(CURLOPT_PROXYAUTH, mask(credential.method, hasBody: hasBody))
    }
    return setTLS(order.tls, easy) ?? setTrust(order, easy)
  }

  /// A connection for which the app's own word counts is told apart from all others by its options, because libcurl
  /// looks for one to use again by them: which keys the server may have, and whether its name counts.
  private static func setTrust(_ order: AttemptOrder, _ easy: EasyHandle) -> TransferFailure? {
    if order.trust == .vouched { return nil }
    guard !order.network.hasSecureProxy, TLSGoodbye.watch(easy) else {
      return TransferFailure(
        .secureConnectionFailed, .permanent,
        detail: "Servers cannot be asked about through a proxy that speaks TLS, nor without OpenSSL.")
    }
    // A session that is taken up again shows no certificate: nobody would be asked. (libcurl from 8.12 on keeps
    // sessions for all its transfers.)
    easy.set(CURLOPT_SSL_SESSIONID_CACHE, false)
    switch order.trust {
    case .vouched: break
    case .unseen:
      // A connection that is there already was asked about by nobody.
      easy.set(CURLOPT_FRESH_CONNECT, true)
    case .accepted(let accepted):
      let expected = order.tls.pinnedKeys
      let keys = Set(accepted.map(\.key)).filter { expected.isEmpty || expected.contains($0) }
      guard !keys.isEmpty else {
        return TransferFailure(
          .pinnedKeyMismatch, .permanent, detail: "The accepted certificate has none of the keys that are expected.")
      }
      easy.set(CURLOPT_PINNEDPUBLICKEY, keys.sorted().joined(separator: ";"))
      // Its name was accepted with it: ``ServerCheck`` lets no other certificate through.
      if accepted.allSatisfy({ !$0.mustBeVouched }) { easy.set(CURLOPT_SSL_VERIFYHOST, 0) }
    }
    return nil
  }

  /// A place that has not asked yet is shown nothing until it does: with more than one scheme libcurl waits for that.
  ///
  /// Digest alone makes libcurl send a body's request first without the body, to fetch a nonce; a server that needs no
  /// credentials any more would take the empty body for the upload. `only` makes it send the whole request first, and
  /// answer with this scheme and no weaker one (CURLOPT_HTTPAUTH, CURLAUTH_ONLY).
  private static func mask(_ method: Challenge.Method?, hasBody: Bool) -> Int {
    switch method {
    case .basic: Scheme.basic
    case .digest: Scheme.digest | (hasBody ? Scheme.only : 0)
    case .bearer, .negotiate, .ntlm, .clientCertificate, .serverTrust, .unknown, nil: Scheme.basic | Scheme.digest
    }
  }

  /// CURLAUTH_* of curl.h, whose casts Swift does not import.
  private enum Scheme {
    static let basic = 1 << 0
    static let digest = 1 << 1
    static let only = 1 << 31
  }

  private static func setTLS(_ tls: TLSSettings, _ easy: EasyHandle) -> TransferFailure? {
    if tls.minimum != nil || tls.maximum != nil {
      easy.set(CURLOPT_SSLVERSION, minimum(tls.minimum) | maximum(tls.maximum))
    }
    if !tls.pinnedKeys.isEmpty { easy.set(CURLOPT_PINNEDPUBLICKEY, tls.pinnedKeys.joined(separator: ";")) }
    if let file = tls.authorityFile {
      guard FileFacts.isReadable(file) else { return unusable("The file of trusted certificates", file) }
      easy.set(CURLOPT_CAINFO, file)
      easy.setNull(CURLOPT_CAPATH)
    }
    guard let file = tls.certificateFile else { return nil }
    for path in [file, tls.keyFile ?? file] where !FileFacts.isReadable(path) {
      return unusable(path == file ? "The client certificate" : "The client certificate's key", path)
    }
    let isBundle = [".p12", ".pfx"].contains { file.asciiLowercased.hasSuffix($0) }
    easy.set(CURLOPT_SSLCERTTYPE, isBundle ? "P12" : "PEM")
    easy.set(CURLOPT_SSLCERT, file)
    if !isBundle {
      easy.set(CURLOPT_SSLKEYTYPE, "PEM")
      easy.set(CURLOPT_SSLKEY, tls.keyFile ?? file)
    }
    // Without one OpenSSL asks at the terminal, which a daemon has not.
    easy.set(CURLOPT_KEYPASSWD, tls.keyPassword?.text ?? "")
    return nil
  }

  private static func unusable(_ what: String, _ path: String) -> TransferFailure {
    TransferFailure(.clientCertificateUnusable, .permanent, detail: "\(what) cannot be read: \(path).")
  }

  private static func minimum(_ version: TLSSettings.Version?) -> Int {
    switch version {
    case nil: Int(CURL_SSLVERSION_DEFAULT)
    case .tls10: Int(CURL_SSLVERSION_TLSv1_0)
    case .tls11: Int(CURL_SSLVERSION_TLSv1_1)
    case .tls12: Int(CURL_SSLVERSION_TLSv1_2)
    case .tls13: Int(CURL_SSLVERSION_TLSv1_3)
    }
  }

  private static func maximum(_ version: TLSSettings.Version?) -> Int {
    switch version {
    case nil: 0
    case .tls10: Int(CURL_SSLVERSION_MAX_TLSv1_0)
    case .tls11: Int(CURL_SSLVERSION_MAX_TLSv1_1)
    case .tls12: Int(CURL_SSLVERSION_MAX_TLSv1_2)
    case .tls13: Int(CURL_SSLVERSION_MAX_TLSv1_3)
    }
  }
}

extension NetworkSettings {
  /// The proxy of https URLs, if there is one that counts, speaks TLS itself.
  var hasSecureProxy: Bool { httpsProxy?.asciiLowercased.hasPrefix("https://") == true }
}
