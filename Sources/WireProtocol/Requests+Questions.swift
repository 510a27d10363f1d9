/// What a task in `asking` wants to know.
package struct WireQuestion: Codable, Hashable, Sendable {
  /// Tells this question from earlier ones of the task; `task.answer` names it.
  package var number: Int64
  /// "challenge", "freshRequest" or "delayedRequest".
  package var kind: String
  /// Of a challenge: "basic", "digest", "bearer", "negotiate", "ntlm", "clientCertificate", "serverTrust" or "unknown".
  package var method: String?
  package var isProxy: Bool?
  /// Of a challenge: scheme, host and port that ask.
  package var origin: String?
  package var realm: String?
  /// Answers in a row that were refused.
  package var previousFailures: Int?
  /// Of a fresh request: the status that the server gave.
  package var status: Int?
  /// Of "serverTrust": base 64 of the server's certificates in DER, its own first.
  package var certificates: [String]?
  /// "sha256//" and the base 64 of the SHA-256 of the first of them; what an answer "trust" names.
  package var certificate: String?
  /// The same of its public key, as `WireTLS.pinnedKeys` take it.
  package var key: String?
  /// The authorities vouch for it.
  package var isVouched: Bool?

  package init(number: Int64, kind: String) {
    self.number = number
    self.kind = kind
  }
}

extension WireQuestion: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("number", number)
      line.member("kind", kind)
      line.member("method", method)
      line.member("isProxy", isProxy)
      line.member("origin", origin)
      line.member("realm", realm)
      line.member("previousFailures", previousFailures.map(Int64.init))
      line.member("status", status.map(Int64.init))
      if let certificates {
        line.name("certificates")
        line.list(certificates) { $0.value($1) }
      }
      line.member("certificate", certificate)
      line.member("key", key)
      line.member("isVouched", isVouched)
    }
  }
}

/// The task whose question it is; the question is in it.
package struct TaskQuestionNotice: Codable, Hashable, Sendable {
  package var task: TaskSnapshot
  package init(task: TaskSnapshot) { self.task = task }
}

package struct WireCredential: Codable, Hashable, Sendable, CustomStringConvertible, CustomReflectable {
  package var user: String
  package var password: String
  package init(user: String, password: String) {
    self.user = user
    self.password = password
  }

  package var description: String { "<redacted>" }
  package var customMirror: Mirror { Mirror(self, children: []) }
}

package struct WireTLS: Codable, Hashable, Sendable {
  /// "1.0", "1.1", "1.2" or "1.3".
  package var minimum: String?
  package var maximum: String?
  /// Absolute path of PEM certificates that are trusted in place of the system's.
  package var authorityFile: String?
  /// "sha256//" and base 64, as CURLOPT_PINNEDPUBLICKEY takes them; one must be the server's.
  package var pinnedKeys: [String]?
  /// Absolute path of a certificate of ours: PEM, or PKCS#12 with the suffix .p12 or .pfx.
  package var certificateFile: String?
  package var keyFile: String?
  package var keyPassword: String?
  /// True: the client is asked about each server before anything is sent to it.
  package var asksAboutServers: Bool?
  /// True: the client is asked where a server only wishes for a certificate, too.
  package var asksForCertificate: Bool?
  package var pinnedDomains: [WirePinnedDomain]?

  package init(
    minimum: String? = nil, maximum: String? = nil, authorityFile: String? = nil, pinnedKeys: [String]? = nil,
    certificateFile: String? = nil, keyFile: String? = nil, keyPassword: String? = nil, asksAboutServers: Bool? = nil,
    asksForCertificate: Bool? = nil, pinnedDomains: [WirePinnedDomain]? = nil
  ) {
    self.minimum = minimum
    self.maximum = maximum
    self.authorityFile = authorityFile
    self.pinnedKeys = pinnedKeys
    self.certificateFile = certificateFile
    self.keyFile = keyFile
    self.keyPassword = keyPassword
    self.asksAboutServers = asksAboutServers
    self.asksForCertificate = asksForCertificate
    self.pinnedDomains = pinnedDomains
  }

  package var isEmpty: Bool { self == WireTLS() }
}

/// Whose servers have known keys, whatever vouches for them.
package struct WirePinnedDomain: Codable, Hashable, Sendable {
  package var domain: String
  package var includesSubdomains: Bool?
  /// As `WireTLS.pinnedKeys`; none: no server is the right one.
  package var keys: [String]

  package init(domain: String, includesSubdomains: Bool? = nil, keys: [String]) {
    self.domain = domain
    self.includesSubdomains = includesSubdomains
    self.keys = keys
  }
}

/// Answers a task's question. The task goes on, or ends.
package struct TaskAnswerParameters: Codable, Hashable, Sendable {
  package var id: Int64
  /// The number of the question that is meant; absent: whichever is asked now.
  package var question: Int64?
  /// "credential", "tls", "trust", "request", "proceed" or "cancel".
  package var answer: String
  package var credential: WireCredential?
  package var tls: WireTLS?
  /// Of "trust": the question's.
  package var certificate: String?
  /// Of "request": the URL in place of the task's; absent: as it was.
  package var url: String?
  /// Of "request": set over the task's headers.
  package var headers: [WireHeader]?
  /// Of "request": `headers` are all that the request has.
  package var replacesHeaders: Bool?
  package var secretHeaders: [String]?

  package init(id: Int64, question: Int64? = nil, answer: String) {
    self.id = id
    self.question = question
    self.answer = answer
  }
}
