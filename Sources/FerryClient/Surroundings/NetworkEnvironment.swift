package import WireProtocol

extension WireNetwork {
  /// What curl's conventions find in an environment (curl(1), ENVIRONMENT); an empty value counts as none.
  ///
  /// `http_proxy` counts in lower case only: a CGI server sets HTTP_PROXY from a header that anybody may send
  /// (CVE-2016-5385, "httpoxy"). `SSL_CERT_FILE` is OpenSSL's; libcurl does not read it.
  package static func fromEnvironment(
    _ environment: [String: String], maximumConnectionsPerHost: Int? = nil
  ) -> WireNetwork {
    func first(_ names: String...) -> String? {
      names.lazy.compactMap { environment[$0] }.first { !$0.isEmpty }
    }
    return WireNetwork(
      httpProxy: first("http_proxy", "all_proxy", "ALL_PROXY"),
      httpsProxy: first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
      noProxy: first("no_proxy", "NO_PROXY"), certificateFile: first("SSL_CERT_FILE"),
      maximumConnectionsPerHost: maximumConnectionsPerHost)
  }
}
