import CCurl
import Glibc
import LinuxSystem
import TransferCore

/// One attempt on the wire: what libcurl's callbacks act on.
final class EasyTransfer {
  /// Why the next body bytes are not taken now.
  struct Holds: OptionSet {
    let rawValue: UInt8
    static let client = Holds(rawValue: 1)
    static let disk = Holds(rawValue: 2)
    static let drain = Holds(rawValue: 4)
    /// The row still vouches for the bytes that this body replaces.
    static let record = Holds(rawValue: 8)
    /// The row does not say yet how this body can be continued.
    static let unrecorded = Holds(rawValue: 16)
  }

  let order: AttemptOrder
  let easy: EasyHandle
  let context: EngineContext
  let sink: PartFileSink?
  let upload: UploadBody?
  /// Nil without TLS, and where the proxy speaks TLS too: of two handshakes nobody could tell which is which.
  let serverCheck: ServerCheck?

  /// What comes on the socket is HTTP itself, without TLS around it.
  private let isPlain: Bool

  private var collector = HeaderCollector()
  /// The verdict wanted no body, and it came to its end all the same.
  private var discardedWhole = false
  /// The header block is of a 401 or 407 that libcurl may answer by itself with the credential: what follows tells
  /// whether it was the answer.
  private(set) var isProvisional = false
  private(set) var head: ResponseHead?
  private(set) var verdict: ResponseVerdict?
  private var framing = BodyFraming(expected: nil, delimiter: .connection, isVerifiable: false)
  private var redirectTarget: String?
  /// Why the engine itself broke the transfer off.
  private(set) var ownFailure: TransferFailure?
  /// Body bytes of this response so far, discarded ones included.
  private(set) var received: Int64 = 0

  private(set) var holds: Holds = []
  /// The row will say how this body can be continued, and does not yet.
  private var awaitsRecord = false
  private(set) var isReceivePaused = false
  private(set) var isSendPaused = false
  /// The transfer is in the multi handle.
  var isOnWire = false
  /// The rest of this body can be spliced, and nobody has looked at it yet.
  private var mayBeSpliced = false
  /// The socket on which libcurl waits for this transfer's answer; nil when it waits for none.
  var socket: Int32?
  /// The same as libcurl stopped reading it.
  private var offeredSocket: Int32?
  /// Set once the rest of the body is spliced from it.
  private(set) var splicedSocket: Int32?
  /// How much of the body libcurl had read by then.
  private var libcurlRead: Int64?
  /// Set when libcurl is done and only a worker's calls are awaited.
  var result: CURLcode?

  var lastProgress: BootInstant
  /// A body that is only drained is given up at this moment.
  private(set) var drainDeadline: BootInstant?
  private(set) var isLookingUp = false
  /// The look-up was refused for now; the engine starts the transfer again.
  private(set) var isLookupDeferred = false
  private(set) var isConnected = false
  private var tlsSession: UInt?

  private(set) var isUntold = false
  private var hasToldResponse = false
  private var clientBytes: [UInt8] = []
  private var times = TransactionTimes()

  init(
    _ order: AttemptOrder, easy: EasyHandle, context: EngineContext, sink: PartFileSink?, upload: UploadBody?
  ) {
    self.order = order
    self.easy = easy
    self.context = context
    self.sink = sink
    self.upload = upload
    lastProgress = context.now
    let origin = Origin(url: order.request.url)
    serverCheck =
      origin?.scheme == "https" && !order.network.hasSecureProxy
      ? origin.map { ServerCheck(order.trust, order.tls, host: CurlURL.name(of: $0.host)) } : nil
    isPlain =
      Origin(url: order.request.url)?.scheme == "http"
      && order.network.httpProxy?.asciiLowercased.hasPrefix("https") != true
  }

  /// Scheme, host and port of the request; empty for a URL that has none.
  var origin: String { Origin(url: order.request.url)?.description ?? "" }

  // MARK: Header lines

  /// Takes a header line; false breaks the transfer off.
  func takeHeader(_ line: UnsafeRawBufferPointer) -> Bool {
    times.noteAnswer(at: context.now)
    lastProgress = context.now
    if isProvisional, unsafe HeaderCollector.isStatusLine(line) {
      isProvisional = false
      collector = HeaderCollector()
    }
    switch unsafe collector.take(line) {
    case .more: return true
    case .interim:
      if order.tellsInterim { context.queue.append(.informed(order.attempt, collectedHead)) }
      return true
    case .failed(let detail):
      ownFailure = ownFailure ?? TransferFailure(.badServerResponse, .permanent, detail: detail)
      return false
    case .final:
      isProvisional = mayBeAnswered(collector.status)
      return isProvisional || judge()
    }
  }

  private func mayBeAnswered(_ status: Int) -> Bool {
    status == 401 && order.credential != nil || status == 407 && order.proxyCredential != nil
  }

  /// The credential was refused, or libcurl had no use for it: the 401 or 407 is the answer.
  func settleProvisional() -> Bool {
    guard isProvisional else { return true }
    isProvisional = false
    return judge()
  }

  private var collectedHead: ResponseHead {
    ResponseHead(
      status: collector.status, headers: collector.headers, url: order.request.url,
      httpVersion: collector.httpVersion)
  }

  private func judge() -> Bool {
    let head = collectedHead
    switch BodyFraming.read(head, method: order.request.method) {
    case .framing(let framing): self.framing = framing
    case .contradiction(let detail):
      ownFailure = TransferFailure(.badServerResponse, .transient, detail: detail)
      return false
    }
    let verdict = ResponseTable.judge(head, order.judgement)
    if let failure = prepare(for: verdict, head) {
      ownFailure = failure
      return false
    }
    self.head = head
    self.verdict = verdict
    prepareDecoding(head)
    mayBeSpliced = !discards && isSpliceable(head)
    if verdict == .takeWhole, order.judgement.resume != nil { holds.insert(.record) }
    awaitsRecord = order.keepsResumePoint && isContinuable(head, verdict)
    tellResponse()
    guard discards else { return true }
    drainDeadline = context.now + EngineLimits.drainTime
    context.scan(by: context.now + EngineLimits.drainTime)
    return framing.expected.map { $0 <= EngineLimits.drainedBytes } ?? true
  }

  /// Mirrors what makes the core keep a resume point.
  private func isContinuable(_ head: ResponseHead, _ verdict: ResponseVerdict) -> Bool {
    switch verdict {
    case .takeWhole: head.status == 200 && head.validator != nil
    case .continueAt: order.judgement.resume != nil
    case .alreadyComplete, .restart, .redirect, .retryLater, .ask, .reject: false
    }
  }

  private func prepare(for verdict: ResponseVerdict, _ head: ResponseHead) -> TransferFailure? {
    switch verdict {
    case .takeWhole: return sink?.begin(at: 0)
    case .continueAt(let offset): return sink?.begin(at: offset)
    case .redirect:
      redirectTarget = CurlURL.resolve(head.headers["Location"] ?? "", against: order.request.url)
      guard redirectTarget == nil else { return nil }
      return TransferFailure(
        .badServerResponse, .permanent, domain: "http", number: head.status,
        detail: "The redirect's Location is not a URL.")
    case .alreadyComplete, .restart, .retryLater, .ask, .reject: return nil
    }
  }

  /// libcurl undoes what it knows. Then the body is longer or shorter than its announced length, which libcurl checks.
  private func prepareDecoding(_ head: ResponseHead) {
    guard order.decodesContent, framing.expected != 0 else { return }
    let codings = head.headers.values("Content-Encoding").flatMap { $0.split(separator: ",") }
      .map { String($0).trimmingOptionalWhitespace.asciiLowercased }.filter { $0 != "identity" }
    guard !codings.isEmpty else { return }
    if codings.allSatisfy(CurlOptions.decodedCodings.contains) {
      framing.expected = nil
    } else {
      // What nobody here can undo is told as it came.
      easy.set(CURLOPT_HTTP_CONTENT_DECODING, false)
    }
  }

  /// The verdict wants no body.
  private var discards: Bool {
    switch verdict {
    case nil, .takeWhole, .continueAt: false
    case .alreadyComplete, .restart, .redirect, .retryLater, .ask, .reject: true
    }
  }

  // MARK: Body bytes

  /// Takes body bytes. Returns how many, `CURL_WRITEFUNC_PAUSE`, or 0 to break the transfer off.
  func takeBody(_ bytes: UnsafeRawBufferPointer) -> Int {
    lastProgress = context.now
    guard settleProvisional() else { return 0 }
    guard verdict != nil else {
      ownFailure = TransferFailure(
        .badServerResponse, .transient, detail: "The server sent a body without a final header block.")
      return 0
    }
    if discards {
      received += Int64(bytes.count)
      if order.keepsAskedBody, verdict?.isForClient == true {
        unsafe clientBytes.append(contentsOf: bytes)
        tell()
      }
      return received <= EngineLimits.drainedBytes ? bytes.count : 0
    }
    guard holds.isEmpty else {
      isReceivePaused = true
      return Int(CURL_WRITEFUNC_PAUSE)
    }
    if let expected = framing.expected, received + Int64(bytes.count) > expected {
      // RFC 9110 section 15.3.7: the part is as long as its Content-Range; what follows belongs to nothing.
      ownFailure = TransferFailure(
        .lengthMismatch, .transient, detail: "The server sent more than the \(expected) bytes it announced.")
      return 0
    }
    if let sink {
      if let failure = unsafe sink.write(bytes) {
        ownFailure = failure
        tell()
        return 0
      }
      if sink.isFull { holds.insert(.disk) }
    } else {
      unsafe clientBytes.append(contentsOf: bytes)
      if clientBytes.count > EngineLimits.undrainedBytes { holds.insert(.drain) }
    }
    received += Int64(bytes.count)
    if awaitsRecord, received >= Limits.unrecordedBytes { holds.insert(.unrecorded) }
    tell()
    if mayBeSpliced { offerSplicing() }
    return bytes.count
  }

  // MARK: Splicing

  /// What follows the head on the socket is the body and nothing else, and goes to a file.
  private func isSpliceable(_ head: ResponseHead) -> Bool {
    isPlain && head.httpVersion.hasPrefix("1.") && framing.delimiter == .length && upload == nil
      && framing.expected ?? 0 >= EngineLimits.splicedFloorBytes && sink?.takesSplices == true
  }

  /// Makes libcurl stop reading for the rest of a long body. Called in its callback, as curl_easy_pause(3) allows: it
  /// hands over what it has read and returns. Both directions are paused, for of one alone it tries to read once more
  /// (7.88).
  private func offerSplicing() {
    guard holds.isEmpty, !awaitsRecord, let socket, let expected = framing.expected else { return }
    // Less is to come each time: what is too little now stays so.
    mayBeSpliced = false
    // A connection that ends anyway costs nothing to give up; what the way behind a proxy costs is not known.
    let roundTrip = head?.endsConnection == true ? 0 : order.network.httpProxy == nil ? ccurl_round_trip(socket) : -1
    let floor = EngineLimits.splicedBytes(roundTrip: roundTrip < 0 ? nil : roundTrip)
    // libcurl may have changed the connection since it told of a socket: after a challenge it takes any idle one, and
    // reads what has come there in the same call.
    guard !context.mayNotSplice, expected - received >= floor, unsafe ccurl_uses(easy.raw, socket) != 0,
      unsafe curl_easy_pause(easy.raw, CURLPAUSE_ALL) == CURLE_OK
    else { return }
    isReceivePaused = true
    // Now libcurl waits for none.
    offeredSocket = socket
    context.spliceable.append(self)
  }

  /// Takes the socket from libcurl, which has returned; or goes on with libcurl, whose result is returned.
  func beginSplicing() -> CURLcode {
    guard isOnWire else { return CURLE_OK }
    guard holds.isEmpty else {
      mayBeSpliced = true
      return CURLE_OK
    }
    isReceivePaused = false
    guard hasAllThatWasRead else { return applyPause() }
    libcurlRead = received
    splicedSocket = offeredSocket
    return CURLE_OK
  }

  /// What libcurl has read of the body came here: the next byte on the socket is the body's next.
  private var hasAllThatWasRead: Bool { easy.bytes(CURLINFO_SIZE_DOWNLOAD_T) == libcurlRead ?? received }

  /// The socket was taken, and nothing from it yet.
  var isUnspliced: Bool { splicedSocket != nil && received == libcurlRead }

  /// Leaves the body to libcurl, for which it was only paused.
  /// - Precondition: ``isUnspliced``, and the engine has let go of the socket.
  func leaveToLibcurl() -> CURLcode {
    splicedSocket = nil
    libcurlRead = nil
    return applyPause()
  }

  /// Moves what waits in the socket, one pipe's fill at most. Returns how the transfer ended, as libcurl would say it;
  /// nil while it goes on, also where the kernel does not splice from this socket (`mayNotSplice`).
  func splice(_ pipe: SplicePipe) -> CURLcode? {
    guard let splicedSocket, let sink, let expected = framing.expected, holds.isEmpty else { return nil }
    let (count, error) = pipe.fill(from: splicedSocket, atMost: expected - received)
    if error == EAGAIN { return nil }
    if [EINVAL, ENOSYS, EPERM, EOPNOTSUPP].contains(error), isUnspliced {
      context.mayNotSplice = true
      return nil
    }
    if error != 0 { return CURLE_RECV_ERROR }
    if count == 0 { return CURLE_PARTIAL_FILE }
    guard hasAllThatWasRead else {
      context.mayNotSplice = true
      ownFailure = TransferFailure(.internalFault, .transient, detail: "libcurl read on while it was paused.")
      return CURLE_WRITE_ERROR
    }
    lastProgress = context.now
    tell()
    if let failure = sink.write(pipe, count) {
      ownFailure = failure
      return CURLE_WRITE_ERROR
    }
    if sink.isFull { holds.insert(.disk) }
    received += Int64(count)
    context.splicedBytes += Int64(count)
    return received == expected ? CURLE_OK : nil
  }

  // MARK: Request bytes

  /// Fills libcurl's buffer. Returns the count, 0 at the end, `CURL_READFUNC_PAUSE` or `CURL_READFUNC_ABORT`.
  func provideBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
    guard let upload else { return 0 }
    if hasEarlyAnswer(upload) {
      // Let libcurl read first: a server that refuses and closes would turn the next send into an error that
      // hides its answer.
      isSendPaused = true
      context.yieldingSenders.append(self)
      return Int(CURL_READFUNC_PAUSE)
    }
    switch unsafe upload.read(into: buffer) {
    case .bytes(let count):
      if count == 0 || upload.offset >= upload.sizeBytes { times.noteBodySent(at: context.now) }
      lastProgress = context.now
      tell()
      return count
    case .wait:
      isSendPaused = true
      return Int(CURL_READFUNC_PAUSE)
    case .failed(let failure):
      ownFailure = failure
      return Int(CURL_READFUNC_ABORT)
    }
  }

  /// Plain HTTP/1 only: under TLS and HTTP/2 a readable socket says nothing about an answer.
  private func hasEarlyAnswer(_ upload: UploadBody) -> Bool {
    guard isPlain, verdict == nil, upload.offset > 0, let socket else { return false }
    var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
    return unsafe poll(&entry, 1, 0) == 1 && entry.revents & Int16(POLLIN) != 0
  }

  /// Begins the body again for libcurl (a reused connection that was dead). Never for a request that must not be
  /// sent twice.
  func rewindBody(to offset: Int64) -> Bool {
    // A request that was answered by a challenge was not carried out.
    guard let upload, order.request.isIdempotent || isProvisional else { return false }
    return upload.rewind(to: offset)
  }

  // MARK: Connection

  /// False defers the look-up.
  func beginLookup() -> Bool {
    // libcurl asks for an address in digits too, which costs no thread: it must not wait behind a resolver that hangs.
    if isLookingUp || connectsToDigits { return true }
    guard context.roomForLookups > 0 else {
      isLookupDeferred = true
      return false
    }
    isLookingUp = true
    context.lookups += 1
    return true
  }

  private var connectsToDigits: Bool {
    guard order.network.httpProxy == nil, order.network.httpsProxy == nil,
      let host = Origin(url: order.request.url)?.host
    else { return false }
    var address = in6_addr()
    if host.hasPrefix("[") { return true }
    return unsafe inet_pton(AF_INET, host, &address) == 1
  }

  func endLookup() {
    guard isLookingUp else { return }
    isLookingUp = false
    context.lookups -= 1
  }

  func didConnect() {
    endLookup()
    isConnected = true
    if !order.request.isIdempotent { serverCheck?.isCommitted = true }
    tlsSession = TLSGoodbye.session(of: easy)
    if let tlsSession { times.noteTLS(tlsSession) }
    lastProgress = context.now
  }

  /// Forgets what a deferred start left behind.
  func restart() {
    isLookupDeferred = false
    lastProgress = context.now
  }

  // MARK: Pausing

  func hold(_ reason: Holds) { holds.insert(reason) }

  /// The row has caught up with this body; what it waited for, that is.
  func noteRecorded() -> Holds {
    guard received > 0 else { return .record }
    awaitsRecord = false
    return .unrecorded
  }

  /// Returns libcurl's result when a callback that ran at once broke the transfer off.
  func release(_ reason: Holds) -> CURLcode {
    guard holds.contains(reason) else { return CURLE_OK }
    holds.remove(reason)
    lastProgress = context.now
    guard holds.isEmpty, isReceivePaused else { return CURLE_OK }
    isReceivePaused = false
    return applyPause()
  }

  func resumeSending() -> CURLcode {
    guard isSendPaused else { return CURLE_OK }
    isSendPaused = false
    lastProgress = context.now
    return applyPause()
  }

  private func applyPause() -> CURLcode {
    guard isOnWire else { return CURLE_OK }
    let mask = (isReceivePaused ? CURLPAUSE_RECV : 0) | (isSendPaused ? CURLPAUSE_SEND : 0)
    return unsafe curl_easy_pause(easy.raw, mask)
  }

  // MARK: Telling

  /// Tells the verdict once the part file is cut: a row that names the new validator must not meet the old bytes.
  func tellResponse() {
    guard !hasToldResponse, let head, let verdict, sink?.isBeginning != true else { return }
    hasToldResponse = true
    context.queue.append(.responded(order.attempt, head, verdict))
    tell()
  }

  /// Counters changed: the next drain tells them.
  func tell() {
    guard !isUntold else { return }
    isUntold = true
    context.untold.append(self)
  }

  var sent: Int64 { upload == nil ? 0 : max(0, easy.bytes(CURLINFO_SIZE_UPLOAD_T)) }
  var held: Int64 { sink?.held ?? (discards ? 0 : received) }

  /// Queues what was not told yet.
  func flush() {
    guard isUntold else { return }
    isUntold = false
    // The verdict comes first, and brings the counters with it.
    if verdict != nil, !hasToldResponse { return }
    if !clientBytes.isEmpty {
      context.queue.append(.received(order.attempt, clientBytes))
      clientBytes = []
    }
    context.queue.append(.progressed(order.attempt, held: held, sent: sent))
  }

  /// The attempt was stopped: nothing of it is told any more.
  func forget() {
    isUntold = false
    clientBytes = []
    sink?.abandon()
  }

  func fail(_ failure: TransferFailure) { ownFailure = ownFailure ?? failure }

  // MARK: The end

  func end(_ result: CURLcode) -> AttemptEnd {
    discardedWhole = discards && (result == CURLE_OK || framing.expected == received)
    if let ownFailure { return .failed(ownFailure) }
    switch verdict {
    case .redirect:
      if let redirectTarget { return .redirected(location: redirectTarget) }
      return .failed(CurlFailure.failure(result, circumstances))
    case .alreadyComplete, .restart, .retryLater, .ask, .reject: return .discarded
    case .takeWhole, .continueAt: return endOfBody(result)
    case nil:
      guard result == CURLE_OK else {
        let failure = CurlFailure.failure(result, circumstances)
        if serverCheck?.wasAskedForCertificate == true { return .failed(CurlFailure.certificateWished(circumstances)) }
        guard failure.code == .certificateUntrusted, let shown = serverCheck?.shown else { return .failed(failure) }
        return .untrusted(failure, shown)
      }
      return .failed(
        TransferFailure(.connectionLost, .transient, detail: "The answer ended before its header block did."))
    }
  }

  private func endOfBody(_ result: CURLcode) -> AttemptEnd {
    let isWhole = framing.expected == received
    // An answer that is all here counts, even where the server closed before it had read all of an upload.
    if result != CURLE_OK, !(upload != nil && isWhole) {
      guard result == CURLE_PARTIAL_FILE, let expected = framing.expected else {
        return .failed(CurlFailure.failure(result, circumstances))
      }
      var failure = CurlFailure.failure(result, circumstances)
      failure.detail += " \(received) of \(expected) bytes came."
      return .failed(failure)
    }
    if let expected = framing.expected, !isWhole {
      return .failed(
        TransferFailure(
          .lengthMismatch, .transient, domain: "curl", number: Int(result.rawValue),
          detail: "The server announced \(expected) bytes and sent \(received)."))
    }
    if framing.delimiter == .connection, framing.expected == nil, let tlsSession, !TLSGoodbye.wasClosed(tlsSession) {
      return .failed(
        TransferFailure(
          .connectionLost, .transient,
          detail: "\(circumstances.origin): the TLS connection was cut, not closed, and nothing else told the length."))
    }
    if upload?.check == .changed { return .failed(SystemFailure.sourceChanged) }
    return .complete(
      TransferSummary(
        held: held, isLengthVerified: framing.isVerifiable, contentEncoding: contentEncoding))
  }

  private var contentEncoding: String? {
    guard !order.decodesContent, received > 0,
      let text = head?.headers["Content-Encoding"]?.trimmingOptionalWhitespace.asciiLowercased
    else {
      return nil
    }
    // RFC 9110 section 8.4.1.3: "x-gzip" is the same.
    let coding = text == "x-gzip" ? "gzip" : text
    return ["gzip", "deflate", "br"].contains(coding) ? coding : nil
  }

  var circumstances: CurlFailure.Circumstances {
    CurlFailure.Circumstances(
      origin: Origin(url: order.request.url).map { "\($0.host):\($0.port)" } ?? "the server",
      requestWasSent: requestWasSent, isConnected: isConnected,
      verifyResult: easy.long(CURLINFO_SSL_VERIFYRESULT), systemError: easy.long(CURLINFO_OS_ERRNO),
      connectStatus: easy.long(CURLINFO_HTTP_CONNECTCODE), errorText: easy.errorText)
  }

  /// A CONNECT to a proxy is no request of ours, so the connection must have been there first.
  var requestWasSent: Bool { isConnected && easy.long(CURLINFO_REQUEST_SIZE) > 0 }

  func goesOnWire() {
    isOnWire = true
    lastProgress = context.now
    times.begin(at: context.now)
  }

  func facts() -> AttemptFacts {
    AttemptFacts(
      requestWasSent: requestWasSent, sent: sent, received: received,
      source: upload.map { $0.check ?? .changed } ?? .notApplicable,
      metrics: times.measure(easy, order, head: head, sent: sent, received: received),
      discardedWhole: discardedWhole)
  }
}
