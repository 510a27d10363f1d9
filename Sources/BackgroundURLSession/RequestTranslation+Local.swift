#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking
  internal import TransferCore
  internal import WireProtocol

  /// Between Foundation's requests and responses and the core's, for transfers in this process.
  extension RequestTranslation {
    /// The request with the configuration's headers and cookies, as it goes out.
    static func effective(_ request: URLRequest, _ configuration: URLSessionConfiguration) -> URLRequest {
      guard let url = request.url else { return request }
      var effective = request
      for header in headers(of: request, url: url, configuration: configuration) {
        effective.setValue(header.value, forHTTPHeaderField: header.name)
      }
      return effective
    }

    static func transfer(_ request: URLRequest) -> TransferRequest {
      let fields = (request.allHTTPHeaderFields ?? [:]).filter { $0.key != URLRequest.forbiddenNetworksField }
        .sorted { $0.key < $1.key }
      var headers = HeaderFields(fields.map { HeaderField(name: $0.key, value: $0.value) })
      if !headers.contains("Accept") { headers.set("Accept", to: "*/*") }
      return TransferRequest(
        method: request.httpMethod ?? "GET", url: request.url?.absoluteString ?? "", headers: headers,
        secretHeaderNames: ["Proxy-Authorization"])
    }

    /// As of a background session, except that this machine itself is no network that anybody pays for: a program that
    /// waits would get an error in place of an answer.
    static func constraints(
      of request: URLRequest, under configuration: URLSessionConfiguration, to origin: String
    ) -> Constraints {
      guard !Origin.isLoopback(origin) else { return [] }
      let names = requires(of: request, under: configuration)
      return Constraints(Constraints.each.filter { names.contains($0.name) })
    }

    static func response(_ head: ResponseHead) -> HTTPURLResponse? {
      response(
        WireResponse(
          status: head.status, headers: head.headers.fields.map { WireHeader(name: $0.name, value: $0.value) },
          url: head.url, httpVersion: "HTTP/\(head.httpVersion)"))
    }
  }
#endif
