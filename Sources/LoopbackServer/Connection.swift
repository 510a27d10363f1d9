import Glibc

/// What becomes of a connection after an exchange.
enum Afterwards: Equatable {
  case nextRequest
  /// FIN, then what the client still sends is thrown away for a moment: a plain close with unread bytes would send
  /// RST, and that can destroy what the client has not read yet (RFC 9112, 9.6).
  case close
  case closeAtOnce
  case reset
}

// POLLRDHUP of <bits/poll.h>, which the Glibc module lacks; the same number on every architecture Swift runs on.
private let peerEndedItsSide: Int16 = 0x2000

/// Leaves an exchange from anywhere within.
struct Interruption: Error {
  let end: Exchange.End
  let afterwards: Afterwards
}

/// One accepted connection, served by one thread that blocks.
final class Connection: Sendable {
  private struct State {
    var isStopped = false
    var wakeup: Wakeup?
  }

  let number: Int
  let socket: StreamSocket
  private let server: LocalServer
  private let state = Monitor(State())

  init(number: Int, socket: StreamSocket, server: LocalServer) {
    self.number = number
    self.socket = socket
    self.server = server
  }

  /// Wakes the thread wherever it blocks. Only while the server still lists this connection: its descriptor is
  /// closed right after it left the list.
  func stop() {
    let wakeup = state.withLock { state in
      state.isStopped = true
      return state.wakeup
    }
    wakeup?.signal()
    socket.shutDown()
  }

  /// The thread's life.
  func serve() {
    var reader = RequestReader(socket)
    var requestNumber = 0
    var afterwards = Afterwards.nextRequest
    while afterwards == .nextRequest {
      requestNumber += 1
      afterwards = exchange(requestNumber, &reader)
    }
    switch afterwards {
    case .reset: socket.reset()
    case .closeAtOnce: socket.finishSending()
    case .close, .nextRequest:
      socket.finishSending()
      drain()
    }
    server.forget(self)
    socket.close()
    server.noteClosed()
  }

  private func drain() {
    var scrap = [UInt8](repeating: 0, count: 16 * 1024)
    let deadline = ContinuousClock.now.advanced(by: .seconds(2))
    while true {
      let left = ContinuousClock.now.duration(to: deadline)
      var entry = pollfd(fd: socket.descriptor, events: Int16(POLLIN), revents: 0)
      guard left > .zero, unsafe poll(&entry, 1, left.pollMilliseconds) > 0 else { return }
      guard unsafe recv(socket.descriptor, &scrap, scrap.count, 0) > 0 else { return }
    }
  }

  private func exchange(_ requestNumber: Int, _ reader: inout RequestReader) -> Afterwards {
    let head: RequestHead
    let body: RequestBody
    do throws(ReadFailure) {
      guard
        let read = try reader.head(
          limit: server.configuration.headByteLimit, connectionNumber: number, requestNumber: requestNumber)
      else { return .close }
      head = read
      body = try RequestBody(read.headers)
    } catch {
      refuse(error)
      return .close
    }
    let ticket = server.begin(head)
    var progress = Progress()
    var end = Exchange.End.complete
    var afterwards: Afterwards
    do throws(Interruption) {
      afterwards = try answer(head, body, ticket, &reader, &progress)
    } catch {
      end = error.end
      afterwards = error.afterwards
    }
    server.finish(
      Exchange(request: head, statusCode: progress.statusCode, bodyBytesSent: progress.bodyByteCount, end: end))
    return afterwards
  }

  private func refuse(_ failure: ReadFailure) {
    guard case .malformed(let status, let reason) = failure else { return }
    var progress = Progress()
    do throws(Interruption) {
      _ = try perform(.text(reason + "\n").status(status), for: nil, &progress)
    } catch {
      // The client left before it could be told; the exchange is recorded all the same.
    }
    server.finish(
      Exchange(
        request: nil, statusCode: progress.statusCode, bodyBytesSent: progress.bodyByteCount, end: .badRequest))
  }

  private func answer(
    _ head: RequestHead, _ body: RequestBody, _ ticket: Int, _ reader: inout RequestReader,
    _ progress: inout Progress
  ) throws(Interruption) -> Afterwards {
    let plan = server.bodyPlan(head)
    if !body.isComplete && plan.readsAnything && head.asksForContinue {
      try send(ResolvedResponse.headBytes(statusCode: 100, reason: "Continue", headers: [:]))
    }
    var request = Request(head: head)
    try receive(body, plan, ticket, &request, &reader, &progress)
    if case .respondEarly(let response, _) = plan {
      return try perform(response.keepAlive(false), for: head, &progress)
    }
    return try perform(server.handler(request), for: head, &progress)
  }

  /// How an exchange ends when its socket failed: the server was stopped, or the client left.
  var departure: Interruption {
    Interruption(end: state.read { $0.isStopped } ? .stopped : .clientLeft, afterwards: .closeAtOnce)
  }

  // MARK: The request's body

  private func receive(
    _ body: RequestBody, _ plan: BodyPlan, _ ticket: Int, _ request: inout Request, _ reader: inout RequestReader,
    _ progress: inout Progress
  ) throws(Interruption) {
    var body = body
    var stop = plan.stop
    let step = plan.step
    var window = step?.byteCount ?? .max
    defer { server.update(ticket, request) }
    while true {
      if let position = stop?.position, request.bodyByteCount >= position {
        switch stop?.action {
        case .interrupt(let interruption): throw interruption
        case .respond: return
        case .stall(let gate):
          server.update(ticket, request)
          try pause(for: nil, gate: gate, whileClientStays: true)
        case nil: break
        }
        stop = nil
      }
      let limit = min(window, (stop?.position ?? .max) - request.bodyByteCount)
      let count = try part(&body, limit, &request, &reader, &progress)
      if body.isComplete {
        request.isBodyComplete = true
        if stop.map({ request.bodyByteCount < $0.position }) ?? true { return }
      }
      window -= count
      if let step, window == 0 {
        server.update(ticket, request)
        if !body.isComplete { try pause(for: step.interval, gate: nil) }
        window = step.byteCount
      }
    }
  }

  // Read failures become the end of the exchange here, so that callers see one kind of error.
  private func part(
    _ body: inout RequestBody, _ limit: Int, _ request: inout Request, _ reader: inout RequestReader,
    _ progress: inout Progress
  ) throws(Interruption) -> Int {
    let recorded = server.configuration.recordedBodyByteLimit
    do throws(ReadFailure) {
      return unsafe try reader.bodyPart(&body, limit: limit) { unsafe request.receive($0, limit: recorded) }
    } catch {
      guard case .malformed(let status, let reason) = error else { throw departure }
      _ = try perform(.text(reason + "\n").status(status), for: nil, &progress)
      throw Interruption(end: .badRequest, afterwards: .close)
    }
  }

  // MARK: Waiting

  /// Blocks until `duration` has passed or the gate opens; without both until the client leaves or the server stops.
  /// With `whileClientStays`, a client that ended its side of the connection ends the wait and the exchange.
  func pause(for duration: Duration?, gate: Gate?, whileClientStays: Bool = false) throws(Interruption) {
    let deadline = duration.map { ContinuousClock.now.advanced(by: $0) }
    let wakeup = state.withLock { state in
      if state.wakeup == nil { state.wakeup = Wakeup() }
      return state.wakeup
    }
    // No descriptor is left for the pipe: to end the connection is better than to wait deaf to stop().
    guard let wakeup else { throw Interruption(end: .stopped, afterwards: .closeAtOnce) }
    gate?.attach(wakeup)
    defer { gate?.detach(wakeup) }
    while true {
      if state.read({ $0.isStopped }) { throw departure }
      if let gate, gate.isOpen { return }
      let left = deadline.map { ContinuousClock.now.duration(to: $0) }
      if let left, left <= .zero { return }
      var entries = [
        pollfd(fd: wakeup.readEnd, events: Int16(POLLIN), revents: 0),
        // Error and hang-up are reported whatever is asked for.
        pollfd(fd: socket.descriptor, events: whileClientStays ? peerEndedItsSide : 0, revents: 0),
      ]
      _ = unsafe poll(&entries, 2, left?.pollMilliseconds ?? -1)
      if entries[0].revents != 0 { wakeup.drain() }
      if entries[1].revents != 0 { throw departure }
    }
  }
}

extension Duration {
  /// Rounded up, so that a wait never ends early and spins.
  var pollMilliseconds: Int32 {
    let (seconds, attoseconds) = components
    guard seconds < 1_000_000 else { return 1_000_000_000 }
    return Int32(clamping: seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
  }
}

extension RequestHead {
  // RFC 9110, 10.1.1.
  var asksForContinue: Bool {
    minorVersion > 0 && headers.values("Expect").contains { $0.equalsIgnoringASCIICase("100-continue") }
  }
}

extension BodyPlan {
  enum StopAction {
    case interrupt(Interruption)
    case stall(Gate?)
    case respond
  }

  /// Where reading stops, and what happens there.
  var stop: (position: Int, action: StopAction)? {
    switch self {
    case .read, .throttled: nil
    case .cut(let count): (max(0, count), .interrupt(Interruption(end: .cut, afterwards: .closeAtOnce)))
    case .reset(let count): (max(0, count), .interrupt(Interruption(end: .reset, afterwards: .reset)))
    case .stall(let count, let gate): (max(0, count), .stall(gate))
    case .respondEarly(_, let count): (max(0, count), .respond)
    }
  }

  var step: (byteCount: Int, interval: Duration)? {
    guard case .throttled(let count, let interval) = self else { return nil }
    return (max(1, count), interval)
  }

  /// Whether the client should be told to send its body.
  var readsAnything: Bool {
    guard case .respondEarly(_, let count) = self else { return true }
    return count > 0
  }
}
