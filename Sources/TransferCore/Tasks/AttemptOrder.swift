/// What the engine is told to put on the wire, and by which facts the answer is judged. Every request header that goes
/// out is in `request`, Range and If-Range included; the engine adds only Host, and Content-Length for a body.
package struct AttemptOrder: Hashable, Sendable {
  package var attempt: AttemptID
  package var task: TaskID
  /// The request of this hop: after redirects its URL, method and headers differ from the plan's.
  package var request: TransferRequest
  package var network: NetworkSettings
  package var body: RequestBody
  package var sink: ResponseSink
  package var judgement: JudgementContext
  /// No byte in either direction for so long ends the attempt with `timedOut`.
  package var noProgressTimeout: Duration
  /// A request that is not idempotent must not meet a connection that may be closing: libcurl would send it twice.
  package var needsFreshConnection: Bool
  /// The row will say how what arrives can be continued, if the answer has a validator. Until it says so
  /// (`releaseBody`) only a little of the body is taken: a daemon that was killed before would fetch all of that again.
  package var keepsResumePoint: Bool
  /// The body's Content-Encoding is undone on its way to the client.
  package var decodesContent: Bool
  /// The client may want the response of a redirect, or one that asks for credentials: a little of its body is told too
  /// (`ResponseSink.client`).
  package var keepsAskedBody: Bool
  /// The client hears of responses that only inform (1xx).
  package var tellsInterim: Bool
  /// For this hop's origin only.
  package var credential: TransferCredential?
  package var proxyCredential: TransferCredential?
  package var tls: TLSSettings
  package var trust: ServerTrust

  package init(
    attempt: AttemptID, task: TaskID, request: TransferRequest, network: NetworkSettings, body: RequestBody,
    sink: ResponseSink, judgement: JudgementContext, noProgressTimeout: Duration, needsFreshConnection: Bool,
    keepsResumePoint: Bool = false, decodesContent: Bool = false, keepsAskedBody: Bool = false,
    tellsInterim: Bool = false, credential: TransferCredential? = nil, proxyCredential: TransferCredential? = nil,
    tls: TLSSettings = TLSSettings(), trust: ServerTrust = .vouched
  ) {
    self.attempt = attempt
    self.task = task
    self.request = request
    self.network = network
    self.body = body
    self.sink = sink
    self.judgement = judgement
    self.noProgressTimeout = noProgressTimeout
    self.needsFreshConnection = needsFreshConnection
    self.keepsResumePoint = keepsResumePoint
    self.decodesContent = decodesContent
    self.keepsAskedBody = keepsAskedBody
    self.tellsInterim = tellsInterim
    self.credential = credential
    self.proxyCredential = proxyCredential
    self.tls = tls
    self.trust = trust
  }

  /// What is offered, and undone, where ``decodesContent`` is set and the request names no encodings itself.
  package static let decodedEncodings = "gzip, deflate, br"
}

package enum RequestBody: Hashable, Sendable {
  case none
  /// The pinned source; its identity is checked when it is opened and again at the end of the attempt.
  case file(UploadSource)
  /// Bytes that the program hands over; nil: as many as come. The shell's own choice, in place of ``file(_:)``.
  case feed(length: Int64?)
}

package enum ResponseSink: Hashable, Sendable {
  /// Body bytes go to this part file. It is opened (and truncated to the accepted offset) by the shell.
  case partFile(path: String)
  /// Body bytes go to the attached client (data tasks).
  case client
}

/// What the response table needs to know beside the response.
package struct JudgementContext: Hashable, Sendable {
  package var kind: TaskKind
  package var statusRule: StatusRule
  /// What this request asked to continue; nil when it asked for the whole.
  package var resume: ResumePoint?
  /// The wall clock when the request went out: Retry-After's date form and Last-Modified are read against it.
  package var now: WallInstant

  /// The caller's own request names a Range: a 206 is what was asked for.
  package var asksForPart: Bool
  package var asking: AskRule

  package init(
    kind: TaskKind, statusRule: StatusRule, resume: ResumePoint?, now: WallInstant, asksForPart: Bool = false,
    asking: AskRule = .whenResuming
  ) {
    self.kind = kind
    self.statusRule = statusRule
    self.resume = resume
    self.now = now
    self.asksForPart = asksForPart
    self.asking = asking
  }
}

/// When a server that wants credentials makes a question of its answer.
package enum AskRule: Hashable, Sendable {
  /// The app left it to the default.
  case never
  /// Nobody said that the app can be asked, and what is held is worth a question.
  case whenResuming
  /// A program waits for the answer: it is asked what URLSession makes a challenge of, and hears of all else.
  case knownSchemes
  case always
}

/// What is to be done with a response, decided by ``ResponseTable`` when its final header block is in, before any body
/// byte reaches a file.
package enum ResponseVerdict: Hashable, Sendable {
  /// Take the body from byte 0: what is held is thrown away.
  case takeWhole
  /// The body continues what is held: write it from this offset. It may lie below the bytes held, never above.
  case continueAt(Int64)
  /// What is held is already the whole representation; the body is discarded.
  case alreadyComplete
  /// The answer to a resumption is of no use: discard it, throw away what is held, ask for the whole.
  case restart(reason: String)
  /// 301, 302, 303, 307 or 308 with a Location; the body is discarded and the core decides on the target.
  case redirect
  /// Keep what is held, discard this body, try again later.
  case retryLater(TransferFailure)
  /// Only the app can help (401 or 403 in the middle of a resumption, 401 where it can be asked): keep what is held.
  case ask(TransferFailure)
  /// The task failed with this answer; the body is discarded.
  case reject(TransferFailure)

  /// Body bytes of this response are collected.
  package var takesBody: Bool {
    switch self {
    case .takeWhole, .continueAt: true
    case .alreadyComplete, .restart, .redirect, .retryLater, .ask, .reject: false
    }
  }

  /// The client decides about this response, and may want it; where it can be asked.
  package var isForClient: Bool {
    switch self {
    case .redirect, .ask: true
    case .takeWhole, .continueAt, .alreadyComplete, .restart, .retryLater, .reject: false
    }
  }
}

/// How an attempt ended, as the engine saw it.
package enum AttemptEnd: Hashable, Sendable {
  /// The response ended as its framing says it should.
  case complete(TransferSummary)
  /// The redirect's target, resolved to an absolute URL against the URL of this hop.
  case redirected(location: String)
  /// The verdict was one that discards the body (`alreadyComplete`, `restart`, `retryLater`, `ask`, `reject`).
  case discarded
  case failed(TransferFailure)
  /// The server was turned away in the TLS handshake, by its certificates.
  indirect case untrusted(TransferFailure, ShownServer)
}

package struct TransferSummary: Hashable, Sendable {
  /// Length of the part file when the attempt ended: all bytes held of the representation.
  package var held: Int64
  /// False when only the end of the connection delimited the body (RFC 9112 section 6.3, rule 8).
  package var isLengthVerified: Bool
  /// The body's Content-Encoding when it is one that must be undone (`gzip`, `deflate`, `br`), else nil.
  package var contentEncoding: String?

  package init(held: Int64, isLengthVerified: Bool, contentEncoding: String? = nil) {
    self.held = held
    self.isLengthVerified = isLengthVerified
    self.contentEncoding = contentEncoding
  }
}
