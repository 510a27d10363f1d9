/// What a task asks of a server. The URL is absolute `http` or `https`, and is kept for ever: every attempt starts from
/// it.
package struct TransferRequest: Hashable, Sendable {
  package var method: String
  package var url: String
  package var headers: HeaderFields
  /// Names, beside those that are always secret, that the caller marked as secret.
  package var secretHeaderNames: [String]

  package init(
    method: String = "GET", url: String, headers: HeaderFields = [], secretHeaderNames: [String] = []
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.secretHeaderNames = secretHeaderNames
  }

  package var hasSecrets: Bool {
    headers.fields.contains { SecretHeaders.isSecret($0.name, marked: secretHeaderNames) }
  }

  /// With `<redacted>` in place of what is secret.
  package var withoutSecrets: TransferRequest {
    var shown = self
    shown.headers = headers.redacted(secretNames: secretHeaderNames)
    return shown
  }

  /// RFC 9110 section 9.2.2: repeating the request has the effect of sending it once.
  package var isIdempotent: Bool {
    switch method {
    case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE": true
    default: false
    }
  }
}

/// What the server answered: the final header block of one response.
package struct ResponseHead: Hashable, Sendable {
  /// 100 … 599.
  package var status: Int
  package var headers: HeaderFields
  /// The URL that was asked, after redirects.
  package var url: String
  /// "1.0", "1.1", "2" or "3".
  package var httpVersion: String

  package init(status: Int, headers: HeaderFields, url: String, httpVersion: String = "1.1") {
    self.status = status
    self.headers = headers
    self.url = url
    self.httpVersion = httpVersion
  }
}

/// What lets a later request prove that it continues the same representation (RFC 9110 section 8.8).
package enum Validator: Hashable, Sendable {
  /// A strong entity tag with its quotes.
  case entityTag(String)
  /// A Last-Modified value, as it came, at least 60 s older than the Date of its response (RFC 9110 section 8.8.2.2).
  case lastModified(String)

  /// What `If-Range` carries.
  package var fieldValue: String {
    switch self {
    case .entityTag(let tag): tag
    case .lastModified(let date): date
    }
  }
}

/// Where a download can be continued: the validator of the bytes held, and how many are known to be on disk.
package struct ResumePoint: Hashable, Sendable {
  package var validator: Validator
  /// Bytes from the start of the representation that were synced to the part file.
  package var offset: Int64
  /// The whole length of the representation in bytes, where the server told it.
  package var total: Int64?

  package init(validator: Validator, offset: Int64, total: Int64?) {
    self.validator = validator
    self.offset = offset
    self.total = total
  }
}
