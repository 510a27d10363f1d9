#if !canImport(Darwin)
  internal import Foundation
  internal import FoundationNetworking

  /// Cookies of a session. Called on the delegate queue: the shared storage is a file.
  enum Cookies {
    /// Keeps what a response sets (RFC 6265 section 5.3), where the session accepts it.
    static func store(of response: URLResponse, for task: URLSessionTask, in configuration: URLSessionConfiguration) {
      guard let response = response as? HTTPURLResponse, let url = response.url,
        let storage = configuration.httpCookieStorage, configuration.httpCookieAcceptPolicy != .never,
        storage.cookieAcceptPolicy != .never, task.originalRequest?.httpShouldHandleCookies ?? true,
        let line = response.value(forHTTPHeaderField: "Set-Cookie")
      else { return }
      let cookies = HTTPCookie.cookies(withResponseHeaderFields: ["Set-Cookie": line], for: url)
      let isStrict = configuration.httpCookieAcceptPolicy == .onlyFromMainDocumentDomain
      storage.setCookies(cookies, for: url, mainDocumentURL: isStrict ? task.originalRequest?.mainDocumentURL : nil)
    }

    /// Without the cookies that the storage gave for an earlier URL; those that the program named itself stay.
    static func removed(from request: URLRequest, of original: URLRequest?) -> URLRequest {
      guard original?.value(forHTTPHeaderField: "Cookie") == nil else { return request }
      var next = request
      next.setValue(nil, forHTTPHeaderField: "Cookie")
      return next
    }

    /// With the storage's cookies for the request's URL, unless the program named some.
    static func added(
      to request: URLRequest, of original: URLRequest?, _ configuration: URLSessionConfiguration
    ) -> URLRequest {
      guard configuration.httpShouldSetCookies, original?.httpShouldHandleCookies ?? true,
        request.value(forHTTPHeaderField: "Cookie") == nil, let url = request.url,
        let cookies = configuration.httpCookieStorage?.cookies(for: url), !cookies.isEmpty
      else { return request }
      var next = request
      for (name, value) in HTTPCookie.requestHeaderFields(with: cookies) {
        next.setValue(value, forHTTPHeaderField: name)
      }
      return next
    }
  }
#endif
