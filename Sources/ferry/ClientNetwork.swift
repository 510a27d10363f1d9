import WireProtocol

extension WireNetwork {
  /// The proxy settings and the certificate file that curl's conventions find in an environment (curl(1),
  /// ENVIRONMENT): `http_proxy` in lower case only, because a CGI server sets HTTP_PROXY from a request's header.
  static func fromEnvironment(_ environment: [String: String]) -> WireNetwork {
    func value(_ names: String...) -> String? {
      names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    }
    return WireNetwork(
      httpProxy: value("http_proxy", "all_proxy", "ALL_PROXY"),
      httpsProxy: value("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
      noProxy: value("no_proxy", "NO_PROXY"), certificateFile: value("SSL_CERT_FILE"))
  }
}
