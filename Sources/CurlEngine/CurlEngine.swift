import CCurl
import LinuxSystem
package import TransferCore

/// libcurl cannot be set up.
package struct EngineUnavailable: Error, Hashable {
  /// libcurl's CURLcode; 0 when there was no memory for a multi handle.
  package var curlCode: Int
}

/// ``TransferEngine`` on libcurl's multi interface. Not Sendable: one loop thread calls it.
@safe package final class CurlEngine: TransferEngine {
  private var multi: UnsafeMutableRawPointer
  private let registrar: any LoopRegistrar
  private let context: EngineContext
  /// Looked up only; the order of a dictionary is never used.
  private var transfers: [AttemptID: EasyTransfer] = [:]
  /// Attempts in order of their start: what scans go through.
  private var order: [AttemptID] = []
  /// Transfers whose name look-up waits for a free thread, in order.
  private var deferred: [EasyTransfer] = []
  /// Origins that broke an upload's stream without an answer. RFC 9113 section 8.1 lets a server answer early and reset
  /// the stream; libcurl 7.88 loses that answer, and would lose it again.
  private var earlyAnswerers: Set<String> = []
  /// Transfers whose bodies are spliced, by their sockets.
  private var splicing: [Int32: EasyTransfer] = [:]
  private var timer: BootInstant?
  /// When idle connections are dropped.
  private var idleDrop: BootInstant?
  private var isClosed = false

  /// Whether servers can be asked about: libcurl speaks TLS by OpenSSL.
  package static let seesCertificates = EasyHandle().map { TLSGoodbye.watch($0) } ?? false

  private static let initialization = curl_global_init(Int(CURL_GLOBAL_DEFAULT))

  /// - Parameter wake: called on a worker's thread when it has reported something: it makes the loop call
  ///   `takeReports()` soon (an eventfd, say).
  package init(
    registrar: any LoopRegistrar, wake: @escaping @Sendable () -> Void
  ) throws(EngineUnavailable) {
    let status = Self.initialization
    guard status == CURLE_OK, let multi = unsafe curl_multi_init() else {
      throw EngineUnavailable(curlCode: Int(status.rawValue))
    }
    unsafe self.multi = multi
    self.registrar = registrar
    context = EngineContext(reports: FileReports(wake: wake))
    configureMulti()
  }

  private func configureMulti() {
    unsafe ccurl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, EngineLimits.idleConnections)
    unsafe ccurl_multi_set_long(multi, CURLMOPT_PIPELINING, Int(CURLPIPE_MULTIPLEX))
    unsafe CurlCallbacks.install(self, on: multi)
  }

  deinit { close() }

  /// Stops everything and closes all connections. Further calls do nothing.
  package func close() {
    guard !isClosed else { return }
    for attempt in order { stop(attempt) }
    isClosed = true
    context.untold = []
    context.yieldingSenders = []
    unsafe curl_multi_cleanup(multi)
  }

  // MARK: Orders

  package func start(_ order: AttemptOrder, part: PartFile?, body: BodyFile?) {
    // Adopted first, so that every way out of here closes them.
    let partDescriptor = part.map { PartFileSink($0, attempt: order.attempt, context: context) }
    var upload: UploadBody?
    if let body {
      if case .file(let source) = order.body {
        upload = UploadBody(body, source: source, attempt: order.attempt, context: context)
      } else if case .feed(let length) = order.body, let feed = body.feed {
        upload = UploadBody(feed, length: length, access: body.access, attempt: order.attempt, context: context)
      } else {
        _ = SharedDescriptor(body.descriptor)
      }
    }
    guard !isClosed, transfers[order.attempt] == nil else { return }
    context.now = BootClock.now
    idleDrop = nil
    if let failure = mismatch(order, part: part, body: body) { return refuse(order, failure) }
    // Never a used one: a second answer that begins with a folded line makes libcurl before 8.1 write into a header of
    // the first, which it has freed (curl's pull request 11103). A new handle costs a microsecond.
    guard let easy = EasyHandle() else {
      return refuse(order, TransferFailure(.internalFault, .transient, detail: "Out of memory."))
    }
    let sink: PartFileSink? = if case .partFile = order.sink { partDescriptor } else { nil }
    let transfer = EasyTransfer(order, easy: easy, context: context, sink: sink, upload: upload)
    let bodyBytes = upload?.sizeBytes ?? (CurlOptions.sendsEmptyBody(order.request.method) ? 0 : nil)
    let avoidsHTTP2 = upload != nil && earlyAnswerers.contains(transfer.origin)
    if let failure = CurlOptions.apply(order, to: easy, bodyBytes: bodyBytes, avoidsHTTP2: avoidsHTTP2) {
      return refuse(order, failure)
    }
    CurlCallbacks.install(transfer, on: easy)
    transfers[order.attempt] = transfer
    self.order.append(order.attempt)
    if let upload {
      upload.identify()
      // On a filesystem that can hang the worker's answer puts the transfer on the wire.
      guard let check = upload.check else { return context.scan(by: context.now + EngineLimits.scanInterval) }
      guard check == .unchanged else {
        transfer.fail(SystemFailure.sourceChanged)
        return finish(transfer, CURLE_ABORTED_BY_CALLBACK)
      }
    }
    putOnWire(transfer)
  }

  private func mismatch(_ order: AttemptOrder, part: PartFile?, body: BodyFile?) -> TransferFailure? {
    if case .partFile = order.sink, part == nil {
      return TransferFailure(.internalFault, .permanent, detail: "The order has no opened part file.")
    }
    if order.body != .none, body == nil {
      return TransferFailure(.sourceMissing, .permanent, detail: "The order has no opened source.")
    }
    return nil
  }

  private func refuse(_ order: AttemptOrder, _ failure: TransferFailure) {
    let source: SourceCheck = if case .file = order.body { .unchanged } else { .notApplicable }
    context.queue.append(
      .ended(
        order.attempt, .failed(failure), AttemptFacts(requestWasSent: false, sent: 0, received: 0, source: source)))
  }

  private func putOnWire(_ transfer: EasyTransfer) {
    let result = unsafe curl_multi_add_handle(multi, transfer.easy.raw)
    guard result == CURLM_OK else {
      transfer.fail(
        TransferFailure(
          .internalFault, .transient, domain: "curl", number: Int(result.rawValue),
          detail: "libcurl did not take the transfer."))
      return finish(transfer, CURLE_FAILED_INIT)
    }
    transfer.goesOnWire()
    context.scan(by: context.now + min(EngineLimits.scanInterval, transfer.order.noProgressTimeout))
  }

  package func stop(_ attempt: AttemptID) {
    context.now = BootClock.now
    if let transfer = transfers[attempt] {
      leaveWire(transfer)
      // Its bytes count for the next attempt.
      transfer.sink?.writeGathered()
      transfer.forget()
      context.untold.removeAll { $0 === transfer }
      context.yieldingSenders.removeAll { $0 === transfer }
      deferred.removeAll { $0 === transfer }
      remove(transfer)
    }
    context.queue.drop(attempt)
  }

  package func releaseBody(_ attempt: AttemptID) {
    guard let transfer = transfers[attempt] else { return }
    context.now = BootClock.now
    release(transfer, transfer.noteRecorded())
  }

  package func pause(_ attempt: AttemptID) { transfers[attempt]?.hold(.client) }

  package func unpause(_ attempt: AttemptID) {
    guard let transfer = transfers[attempt] else { return }
    context.now = BootClock.now
    release(transfer, .client)
  }

  private func release(_ transfer: EasyTransfer, _ reason: EasyTransfer.Holds) {
    apply(transfer.release(reason), to: transfer)
    collect()
  }

  /// Deals with what libcurl said when a transfer went on.
  private func apply(_ result: CURLcode, to transfer: EasyTransfer) {
    if result != CURLE_OK, transfer.isOnWire { return finish(transfer, result) }
    if transfer.holds.isEmpty, let socket = transfer.splicedSocket, splicing[socket] === transfer {
      registrar.watch(socket, readable: true, writable: false)
    }
  }

  // MARK: Readiness and time

  /// A watched descriptor is ready. An error or a hang-up counts as both.
  package func ready(_ descriptor: Int32, readable: Bool, writable: Bool) {
    guard !isClosed else { return }
    context.now = BootClock.now
    if let transfer = splicing[descriptor] {
      splice(transfer)
      return collect()
    }
    let mask = (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0)
    var running: Int32 = 0
    unsafe curl_multi_socket_action(multi, descriptor, mask, &running)
    collect()
  }

  package var nextDeadline: BootInstant? {
    [timer, transfers.isEmpty ? nil : context.nextScan, idleDrop].compactMap { $0 }.min()
  }

  package func turn(now: BootInstant) {
    guard !isClosed else { return }
    context.now = now
    if let due = timer, due <= now {
      timer = nil
      var running: Int32 = 0
      unsafe curl_multi_socket_action(multi, -1, 0, &running)
      // libcurl's clock stands still in suspend and ours does not: it may see nothing due yet, and says so only here.
      var milliseconds = 0
      if timer == nil, unsafe curl_multi_timeout(multi, &milliseconds) == CURLM_OK { setTimer(milliseconds) }
      collect()
    }
    if let due = context.nextScan, due <= now { scan() }
    if let due = idleDrop, due <= now { dropIdleConnections() }
  }

  /// libcurl's timer callback: −1 removes the timer.
  func setTimer(_ milliseconds: Int) {
    timer = milliseconds < 0 ? nil : BootClock.now + .milliseconds(milliseconds)
  }

  /// libcurl's socket callback. Of several sockets that connect at once (RFC 8305) none is read before one has won;
  /// CURLINFO_ACTIVESOCKET names none while a transfer runs.
  func watch(_ socket: Int32, _ what: Int32, for transfer: EasyTransfer?) {
    guard splicing[socket] == nil else { return }
    if what != CURL_POLL_REMOVE, what & Int32(CURL_POLL_IN) != 0 {
      transfer?.socket = socket
    } else if transfer?.socket == socket {
      transfer?.socket = nil
    }
    if what == CURL_POLL_REMOVE {
      registrar.unwatch(socket)
    } else {
      registrar.watch(
        socket, readable: what & Int32(CURL_POLL_IN) != 0, writable: what & Int32(CURL_POLL_OUT) != 0)
    }
  }

  // MARK: Splicing

  /// Takes the sockets of those transfers from libcurl whose bodies need it no more.
  private func beginSplicing() {
    let transfers = context.spliceable
    context.spliceable = []
    for transfer in transfers {
      apply(transfer.beginSplicing(), to: transfer)
      guard transfer.isOnWire, let socket = transfer.splicedSocket else { continue }
      splicing[socket] = transfer
      registrar.watch(socket, readable: true, writable: false)
    }
    // libcurl may have handed over what it had kept back.
    writeGathered()
  }

  private func splice(_ transfer: EasyTransfer) {
    guard let pipe = openPipe() else {
      if transfer.isUnspliced { return giveBack(transfer) }
      return breakOff(
        transfer,
        TransferFailure(.internalFault, .transient, detail: "No pipe to receive the body by: too many open files."))
    }
    if let result = transfer.splice(pipe) {
      // What did not reach the file must not reach another one.
      if result == CURLE_WRITE_ERROR { context.pipe = nil }
      return finish(transfer, result)
    }
    if context.mayNotSplice, transfer.isUnspliced { return giveBack(transfer) }
    if !transfer.holds.isEmpty, let socket = transfer.splicedSocket { registrar.unwatch(socket) }
  }

  /// Lets libcurl go on with a body that cannot be spliced.
  private func giveBack(_ transfer: EasyTransfer) {
    endSplicing(transfer)
    apply(transfer.leaveToLibcurl(), to: transfer)
  }

  private func openPipe() -> SplicePipe? {
    if context.pipe == nil { context.pipe = try? SplicePipe() }
    return context.pipe
  }

  /// Lets go of a socket, which is libcurl's then: it closes it, or goes on with it.
  private func endSplicing(_ transfer: EasyTransfer) {
    guard let socket = transfer.splicedSocket, splicing[socket] === transfer else { return }
    splicing[socket] = nil
    registrar.unwatch(socket)
  }

  // MARK: Ends

  /// Takes the transfers that libcurl is done with.
  private func collect() {
    writeGathered()
    var result = CURLE_OK
    while let raw = unsafe ccurl_next_done(multi, &result) {
      guard let transfer = unsafe CurlCallbacks.transfer(of: raw) else { continue }
      finish(transfer, result)
    }
    while !context.yieldingSenders.isEmpty {
      let senders = context.yieldingSenders
      context.yieldingSenders = []
      for transfer in senders where transfer.isOnWire {
        let result = transfer.resumeSending()
        if result != CURLE_OK, transfer.isOnWire { finish(transfer, result) }
      }
    }
    writeGathered()
    if !context.spliceable.isEmpty { beginSplicing() }
  }

  /// What libcurl's call brought goes to the file before anybody hears of it.
  private func writeGathered() {
    context.gathered.owner?.writeGathered()
    while let attempt = context.failedWrites.popLast() {
      guard let transfer = transfers[attempt], let failure = transfer.sink?.failure else { continue }
      breakOff(transfer, failure)
    }
  }

  private func leaveWire(_ transfer: EasyTransfer) {
    if transfer.isLookingUp {
      // QUICK_EXIT leaves the thread to itself; it still counts until it must be gone.
      context.abandonedLookups.append(context.now + EngineLimits.abandonedLookupTime)
    }
    transfer.endLookup()
    guard transfer.isOnWire else { return }
    transfer.isOnWire = false
    endSplicing(transfer)
    unsafe curl_multi_remove_handle(multi, transfer.easy.raw)
  }

  private func finish(_ transfer: EasyTransfer, _ result: CURLcode) {
    if transfer.isLookupDeferred, result != CURLE_OK {
      leaveWire(transfer)
      deferred.append(transfer)
      return
    }
    // A refusal without a body ends here; it is judged as any other answer.
    if result == CURLE_OK { _ = transfer.settleProvisional() }
    transfer.result = result
    leaveWire(transfer)
    transfer.sink?.writeGathered()
    if let failure = transfer.sink?.failure { transfer.fail(failure) }
    transfer.sink?.stopSyncing()
    // The check at the end; a transfer that never began keeps the one that stopped it.
    if let upload = transfer.upload, upload.check == .unchanged { upload.identify() }
    settle(transfer)
  }

  /// Ends a transfer that libcurl is done with, once its workers are too.
  private func settle(_ transfer: EasyTransfer) {
    guard let result = transfer.result, transfers[transfer.order.attempt] === transfer,
      transfer.sink?.isBusy != true, transfer.upload?.isBusy != true
    else { return }
    if result == CURLE_HTTP2_STREAM, transfer.upload != nil, transfer.head == nil {
      if earlyAnswerers.count >= EngineLimits.rememberedOrigins { earlyAnswerers.removeAll() }
      earlyAnswerers.insert(transfer.origin)
    }
    transfer.tell()
    transfer.flush()
    context.queue.append(.ended(transfer.order.attempt, transfer.end(result), transfer.facts()))
    remove(transfer)
  }

  private func remove(_ transfer: EasyTransfer) {
    let attempt = transfer.order.attempt
    guard transfers.removeValue(forKey: attempt) != nil else { return }
    if let index = order.firstIndex(of: attempt) { order.remove(at: index) }
    if transfers.isEmpty { idleDrop = context.now + EngineLimits.idleDropTime }
    startDeferred()
  }

  private func startDeferred() {
    var room = context.roomForLookups
    while room > 0, !deferred.isEmpty {
      room -= 1
      let transfer = deferred.removeFirst()
      transfer.restart()
      putOnWire(transfer)
    }
  }

  private func dropIdleConnections() {
    idleDrop = nil
    guard transfers.isEmpty, let fresh = unsafe curl_multi_init() else { return }
    unsafe curl_multi_cleanup(multi)
    unsafe multi = fresh
    context.pipe = nil
    // A server whose head comes in a hundred pieces can make libcurl read on: once is not for ever.
    context.mayNotSplice = false
    timer = nil
    configureMulti()
  }

  // MARK: The scan

  private func scan() {
    context.nextScan = nil
    for attempt in order {
      guard let transfer = transfers[attempt] else { continue }
      examine(transfer)
    }
    startDeferred()
    if !transfers.isEmpty, context.nextScan == nil { context.nextScan = context.now + EngineLimits.scanInterval }
    collect()
  }

  private func examine(_ transfer: EasyTransfer) {
    let now = context.now
    transfer.sink?.pump()
    transfer.sink?.syncIfDue()
    transfer.upload?.pump()
    guard transfer.isOnWire else { return }
    if let due = transfer.drainDeadline, due <= now { return finish(transfer, CURLE_WRITE_ERROR) }
    // Who waits for us is not stalled.
    let isHeld = !transfer.holds.isEmpty || transfer.isSendPaused
    if isHeld { transfer.lastProgress = now }
    let due = transfer.lastProgress + transfer.order.noProgressTimeout
    if due <= now { return timeOut(transfer) }
    let next = [due, transfer.drainDeadline, transfer.sink?.syncDeadline].compactMap { $0 }.min() ?? due
    context.scan(by: max(next, now + EngineLimits.scanInterval))
  }

  private func timeOut(_ transfer: EasyTransfer) {
    let seconds = transfer.order.noProgressTimeout.components.seconds
    let phase =
      !transfer.isConnected
      ? "while connecting" : transfer.verdict == nil ? "while waiting for the answer" : "of the body"
    transfer.fail(
      TransferFailure(
        .timedOut, .transient, detail: "\(transfer.circumstances.origin): no byte for \(seconds) s \(phase)."))
    finish(transfer, CURLE_OPERATION_TIMEDOUT)
  }

  // MARK: Workers' reports

  /// Takes in what workers have reported; called when `wake` asked for it.
  package func takeReports() {
    context.now = BootClock.now
    for report in context.reports.take() {
      guard let transfer = transfers[report.attempt] else { continue }
      take(report, transfer)
      settle(transfer)
    }
    collect()
  }

  private func take(_ report: FileReport, _ transfer: EasyTransfer) {
    switch report {
    case .began(_, let error):
      if let failure = transfer.sink?.began(error: error) { return breakOff(transfer, failure) }
      transfer.tellResponse()
    case .wrote(_, let bytes, let error):
      if let failure = transfer.sink?.wrote(bytes: bytes, error: error) { return breakOff(transfer, failure) }
      releaseDisk(transfer)
    case .synced(let attempt, let offset, let error):
      if let failure = transfer.sink?.synced(through: offset, error: error) { return breakOff(transfer, failure) }
      context.queue.append(.synced(attempt, offset: offset))
      releaseDisk(transfer)
    case .read(_, let bytes, let error):
      transfer.upload?.didRead(bytes, error: error)
      let result = transfer.resumeSending()
      if result != CURLE_OK, transfer.isOnWire { finish(transfer, result) }
    case .fed:
      let result = transfer.resumeSending()
      if result != CURLE_OK, transfer.isOnWire { finish(transfer, result) }
    case .identified(_, let identity, _):
      transfer.upload?.identified(identity)
      guard transfer.result == nil, !transfer.isOnWire else { return }
      if transfer.upload?.check == .unchanged { return putOnWire(transfer) }
      breakOff(transfer, SystemFailure.sourceChanged)
    }
  }

  private func releaseDisk(_ transfer: EasyTransfer) {
    guard transfer.holds.contains(.disk), transfer.sink?.isFull == false else { return }
    apply(transfer.release(.disk), to: transfer)
  }

  private func breakOff(_ transfer: EasyTransfer, _ failure: TransferFailure) {
    transfer.fail(failure)
    if transfer.result == nil { finish(transfer, CURLE_WRITE_ERROR) }
  }

  // MARK: Events

  /// Body bytes that went from a socket to a file without libcurl. Diagnostic.
  package var splicedBytes: Int64 { context.splicedBytes }

  package var hasEvents: Bool { !context.queue.isEmpty || !context.untold.isEmpty }

  package func drainEvents(into events: inout [EngineEvent], limit: Int) {
    guard context.queue.count < limit else { return context.queue.take(into: &events, limit: limit) }
    context.now = BootClock.now
    let untold = context.untold
    context.untold = []
    for transfer in untold { transfer.flush() }
    context.queue.take(into: &events, limit: limit)
    for transfer in untold where transfer.holds.contains(.drain) { release(transfer, .drain) }
  }
}
