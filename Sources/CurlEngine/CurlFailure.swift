import CCrypto
import CCurl
import TransferCore

/// libcurl's results as failures. Details name host and port, never a path, a query, user information or a header.
enum CurlFailure {
  /// What is known of the attempt when it failed.
  struct Circumstances {
    var origin: String
    /// A byte of the request left this machine.
    var requestWasSent: Bool
    /// A connection was made, TLS included.
    var isConnected: Bool
    /// OpenSSL's verification result of the server's certificate (X509_V_*).
    var verifyResult: Int
    var systemError: Int
    /// The proxy's last answer to CONNECT; 0 when there was none.
    var connectStatus: Int
    /// libcurl's error text. Only known phrases of it are told on.
    var errorText: String
  }

  static func failure(_ result: CURLcode, _ facts: Circumstances) -> TransferFailure {
    let (code, retryability, text) = row(result, facts)
    return TransferFailure(
      code, retryability, domain: "curl", number: Int(result.rawValue), detail: "\(facts.origin): \(text)")
  }

  /// The handshake was broken off by us, for the app to be asked.
  static func certificateWished(_ facts: Circumstances) -> TransferFailure {
    TransferFailure(
      .clientCertificateRequired, .permanent, detail: "\(facts.origin): the server asks for a client certificate.")
  }

  private typealias Row = (FailureCode, Retryability, String)

  private static func row(_ result: CURLcode, _ facts: Circumstances) -> Row {
    switch result {
    case CURLE_COULDNT_RESOLVE_HOST:
      (.hostNotFound, .transient, "the host name was not found.")
    case CURLE_COULDNT_RESOLVE_PROXY:
      (.proxyFailed, .transient, "the proxy's host name was not found; check the proxy settings.")
    case CURLE_COULDNT_CONNECT:
      connectRow(facts)
    case CURLE_OPERATION_TIMEDOUT:
      (.timedOut, .transient, "no connection within \(EngineLimits.connectMilliseconds / 1000) s.")
    case CURLE_PROXY:
      (.proxyFailed, .transient, "the proxy refused or broke the connection; check the proxy settings.")
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      (.pinnedKeyMismatch, .permanent, "the server's public key is none of those that are expected.")
    case CURLE_SSL_CERTPROBLEM:
      (
        .clientCertificateUnusable, .permanent,
        "the client certificate or its key cannot be used; check the files and the key's password."
      )
    case CURLE_SSL_CLIENTCERT: certificateRequired
    case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS:
      (.certificateUntrusted, .permanent, verificationText(facts))
    case CURLE_SSL_CONNECT_ERROR:
      handshakeRow(facts)
    case CURLE_SSL_CIPHER, CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED,
      CURLE_SSL_SHUTDOWN_FAILED, CURLE_USE_SSL_FAILED:
      (.secureConnectionFailed, .permanent, "TLS could not be set up.")
    case CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CRL_BADFILE:
      (.certificateUntrusted, .permanent, "the file of trusted certificates cannot be read; check SSL_CERT_FILE.")
    default: exchangeRow(result, facts)
    }
  }

  /// Results that come once a connection is there.
  private static func exchangeRow(_ result: CURLcode, _ facts: Circumstances) -> Row {
    // libcurl says "receive error" for a proxy that refuses CONNECT.
    if !facts.isConnected, facts.connectStatus != 0, !(200...299).contains(facts.connectStatus) {
      return (
        facts.connectStatus == 407 ? .proxyCredentialsRequired : .proxyFailed,
        facts.connectStatus == 407 ? .permanent : .transient,
        "the proxy answered CONNECT with status \(facts.connectStatus)."
      )
    }
    if let row = alertRow(facts) { return row }
    return switch result {
    case CURLE_SEND_ERROR, CURLE_RECV_ERROR, CURLE_GOT_NOTHING, CURLE_PARTIAL_FILE, CURLE_HTTP2, CURLE_HTTP2_STREAM,
      CURLE_HTTP3, CURLE_QUIC_CONNECT_ERROR, CURLE_SEND_FAIL_REWIND, CURLE_NO_CONNECTION_AVAILABLE, CURLE_AGAIN,
      CURLE_UNRECOVERABLE_POLL, CURLE_UPLOAD_FAILED:
      (.connectionLost, .transient, lossText(result))
    case CURLE_WEIRD_SERVER_REPLY, CURLE_HTTP_RETURNED_ERROR, CURLE_RANGE_ERROR, CURLE_CHUNK_FAILED:
      (.badServerResponse, .transient, "the server's answer is not HTTP.")
    case CURLE_UNSUPPORTED_PROTOCOL:
      // libcurl's result for an answer without a status line (HTTP/0.9), too.
      facts.requestWasSent
        ? (.badServerResponse, .transient, "the server's answer is not HTTP.")
        : (.unsupportedURL, .permanent, "only http and https URLs are supported.")
    case CURLE_URL_MALFORMAT:
      (.unsupportedURL, .permanent, "the URL cannot be parsed.")
    case CURLE_BAD_CONTENT_ENCODING:
      (.contentDecodingFailed, .transient, "the transfer coding of the answer is broken.")
    case CURLE_TOO_MANY_REDIRECTS:
      (.tooManyRedirects, .permanent, "too many redirects.")
    case CURLE_LOGIN_DENIED, CURLE_AUTH_ERROR, CURLE_REMOTE_ACCESS_DENIED:
      (.credentialsRequired, .permanent, "the server wants credentials.")
    case CURLE_INTERFACE_FAILED:
      (.networkUnavailable, .transient, "the network interface is not there.")
    case CURLE_FILESIZE_EXCEEDED:
      (.bodyTooLarge, .permanent, "the body is larger than allowed.")
    case CURLE_OUT_OF_MEMORY:
      (.internalFault, .transient, "out of memory.")
    default:
      (.internalFault, .transient, "libcurl: \(text(result)).")
    }
  }

  private static func connectRow(_ facts: Circumstances) -> Row {
    switch Int32(truncatingIfNeeded: facts.systemError) {
    case ErrorNumber.networkUnreachable, ErrorNumber.networkDown:
      (.networkUnavailable, .transient, "the network cannot be reached.")
    case ErrorNumber.timedOut: (.timedOut, .transient, "no answer to the connection attempt.")
    default: (.connectionRefused, .transient, "the connection was refused or the host cannot be reached.")
    }
  }

  private static let certificateRequired: Row = (
    .clientCertificateRequired, .permanent, "the server wants a client certificate, and none was given."
  )

  /// TLS 1.3 judges a client's certificate after the handshake (RFC 8446 section 6.2), so that its alert looks like a
  /// broken connection.
  private static func alertRow(_ facts: Circumstances) -> Row? {
    let text = facts.errorText.asciiLowercased
    if text.contains("alert certificate required") { return certificateRequired }
    let rejections = [
      "alert bad certificate", "alert unsupported certificate", "alert certificate revoked",
      "alert certificate expired", "alert certificate unknown", "alert unknown ca", "alert access denied",
    ]
    guard rejections.contains(where: text.contains) else { return nil }
    return (.clientCertificateRejected, .permanent, "the server does not accept the client certificate.")
  }

  /// A handshake that was cut is the network's fault; one that the two sides cannot agree on stays so.
  private static func handshakeRow(_ facts: Circumstances) -> Row {
    let reasons = [
      "wrong version number", "unsupported protocol", "no protocols available", "protocol version", "no shared cipher",
      "no ciphers available", "handshake failure", "dh key too small", "unsafe legacy renegotiation disabled",
      "packet length too long", "http request",
    ]
    if let row = alertRow(facts) { return row }
    let text = facts.errorText.asciiLowercased
    guard let reason = reasons.first(where: { text.contains($0) }) else {
      return (.secureConnectionFailed, .transient, "the TLS handshake broke off.")
    }
    return (.secureConnectionFailed, .permanent, "the TLS handshake failed: \(reason).")
  }

  private static func lossText(_ result: CURLcode) -> String {
    switch result {
    case CURLE_GOT_NOTHING: "the server closed the connection without an answer."
    case CURLE_HTTP2, CURLE_HTTP2_STREAM: "the server reset the stream."
    case CURLE_SEND_ERROR, CURLE_UPLOAD_FAILED: "the connection broke while the request was sent."
    default: "the connection broke before the answer was whole."
    }
  }

  private static func verificationText(_ facts: Circumstances) -> String {
    if facts.verifyResult == Int(X509_V_ERR_APPLICATION_VERIFICATION) {
      return "the server's certificate is to be accepted first."
    }
    // libcurl compares names before it asks OpenSSL for the result, which stands at "unspecified" (1) then.
    let isMisnamed = facts.verifyResult == 0 || facts.errorText.contains("subject name")
    guard !isMisnamed, let reason = unsafe X509_verify_cert_error_string(facts.verifyResult) else {
      return "the server's certificate is not for this host."
    }
    return "the server's certificate is not trusted: \(unsafe String(cString: reason))."
  }

  private static func text(_ result: CURLcode) -> String {
    guard let text = unsafe curl_easy_strerror(result) else { return "error \(result.rawValue)" }
    return unsafe String(cString: text)
  }
}
