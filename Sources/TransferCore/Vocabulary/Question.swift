/// What only the app can say, while its task stands in `asking`. Stored, so that it is asked again after any crash.
package indirect enum Question: Hashable, Sendable {
  /// A server or proxy wants credentials (RFC 9110 section 11), or TLS cannot go on without the app.
  case challenge(Challenge)
  /// The server refused to continue what it had begun (403 on a resumption): a fresh URL, or fresh headers, may help.
  case freshRequest(status: Int, previousFailures: Int)
  /// The date of a task that was to begin later has come, and its request may be out of date.
  case delayedRequest
}

/// What a server or proxy wants to be shown.
package struct Challenge: Hashable, Sendable {
  package enum Method: String, CaseIterable, Hashable, Sendable {
    case basic, digest, bearer, negotiate, ntlm
    /// The server wants a certificate of ours, and none was given.
    case clientCertificate
    /// The server's own certificate is not trusted.
    case serverTrust
    /// A scheme that has no name here, or none was told.
    case unknown
  }

  package var method: Method
  package var isProxy: Bool
  /// Scheme, host and port, as ``Origin`` writes them, that the credentials belong to.
  package var origin: String
  /// RFC 9110 section 11.5; nil where the challenge has none.
  package var realm: String?
  /// Answers in a row that were refused.
  package var previousFailures: Int
  /// Of ``Method/serverTrust``: what the server showed; nil where that is not known (a proxy that speaks TLS itself).
  package var server: ShownServer?

  package init(
    method: Method, isProxy: Bool = false, origin: String, realm: String? = nil, previousFailures: Int = 0,
    server: ShownServer? = nil
  ) {
    self.method = method
    self.isProxy = isProxy
    self.origin = origin
    self.realm = realm
    self.previousFailures = previousFailures
    self.server = server
  }

  /// A user and a password answer it.
  package var takesPassword: Bool {
    switch method {
    case .basic, .digest: true
    // A proxy that refuses a CONNECT does not always say how it wants to be answered.
    case .unknown: isProxy
    case .bearer, .negotiate, .ntlm, .clientCertificate, .serverTrust: false
    }
  }
}

/// What an app says to a ``Question``.
package enum Answer: Hashable, Sendable {
  case credential(user: String, password: Secret)
  /// Other settings of TLS for this task: a certificate of ours, an authority to trust, a key to expect.
  case tls(TLSSettings)
  /// The certificate that the server showed (``ShownServer/certificate``) is the right one for the place that asks.
  case trust(certificate: String)
  /// Another URL or other headers for the same thing.
  case request(RequestChange)
  /// As if nobody could be asked; a delayed request goes out as it is.
  case proceed
  case cancel
}

/// Changes a request; its method and body stay.
package struct RequestChange: Hashable, Sendable {
  /// Absolute `http` or `https`; nil: as it was.
  package var url: String?
  package var headers: HeaderFields
  /// False: `headers` are set over those that the request has. True: they are all that it has.
  package var replacesHeaders: Bool
  package var secretHeaderNames: [String]

  package init(
    url: String? = nil, headers: HeaderFields = [], replacesHeaders: Bool = false, secretHeaderNames: [String] = []
  ) {
    self.url = url
    self.headers = headers
    self.replacesHeaders = replacesHeaders
    self.secretHeaderNames = secretHeaderNames
  }

  /// What is secret stays with the place that it was meant for, unless it is given anew.
  func applied(to request: TransferRequest) -> TransferRequest {
    var changed = request
    if let url {
      changed.url = url
      if Origin(url: url) != Origin(url: request.url) { changed.headers.removeBoundToOrigin(request.secretHeaderNames) }
    }
    if replacesHeaders {
      changed.headers = headers
      // The server knows the request by it, whichever of its forms is sent.
      if let key = request.headers["Idempotency-Key"], !headers.contains("Idempotency-Key") {
        changed.headers.set("Idempotency-Key", to: key)
      }
    } else {
      for field in headers.fields { changed.headers.remove(field.name) }
      changed.headers.fields += headers.fields
    }
    for name in secretHeaderNames where !changed.secretHeaderNames.contains(name) {
      changed.secretHeaderNames.append(name)
    }
    return changed
  }
}

/// A text that is never shown: whatever prints it prints `<redacted>`.
package struct Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package var text: String

  package init(_ text: String) { self.text = text }

  package var description: String { "<redacted>" }
  package var debugDescription: String { "<redacted>" }
  package var customMirror: Mirror { Mirror(self, children: []) }
}

/// User and password for one place; sent nowhere else.
package struct TransferCredential: Hashable, Sendable {
  package var user: String
  package var password: Secret
  /// How the place asked for it; nil: it has not asked yet.
  package var method: Challenge.Method?
  /// Scheme, host and port, as ``Origin`` writes them.
  package var origin: String

  package init(user: String, password: Secret, method: Challenge.Method? = nil, origin: String) {
    self.user = user
    self.password = password
    self.method = method
    self.origin = origin
  }
}

/// What the app gave a task on its way, by answers or when it was made. Kept only as long as the task lives.
package struct TaskAccess: Hashable, Sendable {
  package var credential: TransferCredential?
  package var proxyCredential: TransferCredential?
  /// The app left the challenge to the default: what the server says to that is an answer like any other.
  package var declines: Bool
  /// The request in place of the plan's, from which every attempt starts.
  package var replacement: TransferRequest?
  package var tls: TLSSettings?
  /// Answers in a row that were refused.
  package var failures: Int
  /// A few of a place, the newest last.
  package var accepted: [AcceptedCertificate]
  /// What a place that asked is shown; one a place at most, the newest last.
  package var identities: [PlacedIdentity]

  package init(
    credential: TransferCredential? = nil, proxyCredential: TransferCredential? = nil, declines: Bool = false,
    replacement: TransferRequest? = nil, tls: TLSSettings? = nil, failures: Int = 0,
    accepted: [AcceptedCertificate] = [], identities: [PlacedIdentity] = []
  ) {
    self.credential = credential
    self.proxyCredential = proxyCredential
    self.declines = declines
    self.replacement = replacement
    self.tls = tls
    self.failures = failures
    self.accepted = accepted
    self.identities = identities
  }

  package var isEmpty: Bool { self == TaskAccess() }
}

/// A certificate of ours for one place.
package struct PlacedIdentity: Hashable, Sendable {
  /// Scheme, host and port, as ``Origin`` writes them.
  package var origin: String
  /// Nil: the place was refused one, and is not asked about again.
  package var identity: ClientIdentity?

  package init(origin: String, identity: ClientIdentity?) {
    self.origin = origin
    self.identity = identity
  }
}
