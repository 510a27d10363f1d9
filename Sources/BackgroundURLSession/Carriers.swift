#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking

  enum Carriers {
    /// A `URLProtocol` of the session where one wants the request, else by the URL's scheme.
    static func carrier(of request: URLRequest, for run: TaskRun) -> any Carrier {
      if let made = ProtocolCarrier.wanting(request, for: run) { return made }
      switch request.url?.scheme?.lowercased() {
      case "file", "data": return LocalURLCarrier(run, request)
      default: return NetworkCarrier(run, request)
      }
    }
  }
#endif
