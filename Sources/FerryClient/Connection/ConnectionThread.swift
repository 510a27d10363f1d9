import FoundationEssentials
import Glibc
import LinuxSystem
import WireProtocol

/// What only the connection's thread does (and `firstDial`, before there is one).
extension ConnectionCore {
  /// Tries until the deadline, starting a daemon once where none answers.
  func firstDial(deadline: Duration) throws(ConnectionFailure) -> WireStream {
    let end = SuspendingClock.now + deadline
    var pause = Duration.milliseconds(5)
    while true {
      do {
        return try dialOnce(deadline: end)
      } catch {
        switch error.kind {
        case .daemonUnavailable where startsDaemon: try startDaemonOnce()
        case .daemonUnavailable: throw explain(error, isStarted: false)
        case .lost: break
        case .refused where error.wireError?.name == .stopping: break
        case .refused, .versionMismatch, .timedOut, .closed: throw error
        }
        guard SuspendingClock.now + pause < end else { throw explain(error, isStarted: startsDaemon) }
      }
      _ = rest(pause)
      pause = min(pause * 2, .milliseconds(100))
    }
  }

  private func dialOnce(deadline: SuspendingClock.Instant) throws(ConnectionFailure) -> WireStream {
    let (stream, hello) = try dialer.dial(deadline: deadline, wake: signal.descriptor, onWake: takeWake)
    shared.withLock { $0.hello = hello }
    return stream
  }

  /// Whether to go on.
  private func takeWake() -> Bool {
    signal.take()
    return !isClosed
  }

  private func explain(_ failure: ConnectionFailure, isStarted: Bool) -> ConnectionFailure {
    guard failure.kind == .daemonUnavailable || failure.kind == .lost else { return failure }
    return .daemonUnavailable(
      isStarted
        ? "ferryd was started and did not answer in time: \(failure.message); \(dialer.whereToLook)"
        : "\(failure.message); start it with `ferryd --supervise`, or with systemctl --user start ferryd")
  }

  /// Starts a daemon unless the one that we started still runs; also reaps it.
  private func startDaemonOnce() throws(ConnectionFailure) {
    let (child, startedAt) = shared.withLock { ($0.child, $0.startedAt) }
    if let child {
      guard let status = try? ChildProcess.reap(child) else { return }
      shared.withLock { $0.child = nil }
      // Status 0 is a start that found another daemon to be first.
      guard status == .exited(code: 0) else {
        throw .daemonUnavailable("ferryd ended at once with \(status); \(dialer.whereToLook)")
      }
    }
    // The other one may need a moment.
    if let startedAt, SuspendingClock.now - startedAt < .seconds(1) { return }
    let started = try dialer.start()
    shared.withLock { state in
      state.child = started
      state.startedAt = SuspendingClock.now
    }
  }

  /// Sleeps; false when woken to close.
  private func rest(_ pause: Duration) -> Bool {
    let end = SuspendingClock.now + pause
    while !isClosed {
      let left = SuspendingClock.now.duration(to: end)
      guard left > .zero else { return true }
      var entry = pollfd(fd: signal.descriptor, events: Int16(POLLIN), revents: 0)
      if unsafe poll(&entry, 1, left.pollMilliseconds) > 0 { signal.take() }
    }
    return false
  }

  func startThread(with first: WireStream) throws(ConnectionFailure) {
    unsafe stream = first
    let context = unsafe Unmanaged.passRetained(self)
    var thread = pthread_t()
    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    let result = unsafe pthread_create(&thread, &attributes, runConnection, context.toOpaque())
    unsafe pthread_attr_destroy(&attributes)
    guard result == 0 else {
      unsafe context.release()
      throw .daemonUnavailable("this process cannot start a thread (errno \(result))")
    }
  }

  /// The life of the thread.
  fileprivate func run() {
    // The program's signal handlers belong on its own threads.
    var all = sigset_t()
    unsafe sigfillset(&all)
    unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
    shared.withLock { $0.thread = pthread_self() }
    // A daemon that breaks every connection at once must not be hammered.
    var quickEnds = 0
    while let current = unsafe stream {
      attach(current)
      let connectedAt = SuspendingClock.now
      let reason = serve(current)
      detach(reason)
      if isClosed { break }
      quickEnds = SuspendingClock.now - connectedAt < .seconds(1) ? quickEnds + 1 : 0
      let pause = min(policy.firstPause * (1 << min(quickEnds, 20)), policy.longestPause)
      unsafe stream = reconnect(reason, firstPause: pause)
    }
    unsafe stream = nil
    close()
    shared.withLock { $0.thread = nil }
    reapChild()
  }

  private func attach(_ current: WireStream) {
    shared.change { state in
      if case .closed = state.phase { return }
      state.phase = .connected
      state.socket = current.socket
      state.nextToWrite = state.pending.keys.min() ?? state.nextID
      state.writtenOffset = 0
      state.flush()
    }
  }

  private func detach(_ reason: String) {
    let lost = shared.change { state in
      state.socket = -1
      if case .connected = state.phase { state.phase = .reconnecting }
      return state.removeLost()
    }
    for pending in lost {
      pending.completion?(
        .failure(
          .lost(
            "\(Self.lossesLimit) connections to ferryd ended while \(pending.request.rawValue) waited for its answer; "
              + "the last: \(reason)")))
    }
  }

  /// Whoever waits for what comes is not kept waiting for more of it than this.
  private static let messagesBetweenWakes = 64

  /// Until the stream or the connection ends; says why.
  private func serve(_ current: WireStream) -> String {
    var child = watchChild()
    while true {
      var count = 0
      while let message = current.takeMessage() {
        handle(message)
        count += 1
        if count % Self.messagesBetweenWakes == 0 { onCaughtUp() }
        if isClosed { break }
      }
      onCaughtUp()
      if isClosed { return "" }
      if let ending = current.ending { return ending }
      let (next, hasUnwritten) = expire()
      let ready = current.wait(
        forRoom: hasUnwritten, wake: signal.descriptor, child: child?.raw ?? -1,
        atMost: next.map { SuspendingClock.now.duration(to: $0) })
      if ready.hasChildEnded {
        reapChild()
        child = nil
      }
      if ready.isWoken { signal.take() }
      if isClosed { return "" }
      if ready.isReadable { current.receive() }
      if ready.isWritable || ready.isWoken { shared.withLock { $0.flush() } }
    }
  }

  /// A daemon that this process started and that found another to be first must not stay a zombie.
  private func watchChild() -> OwnedDescriptor? {
    guard let child = shared.withLock({ $0.child }) else { return nil }
    return try? ChildProcess.watch(child)
  }

  private func reapChild() {
    guard let child = shared.withLock({ $0.child }), (try? ChildProcess.reap(child)) != nil else { return }
    shared.withLock { $0.child = nil }
  }

  private func handle(_ message: WireCoding.IncomingMessage) {
    switch message {
    case .notification(let notification): onNotification(notification)
    case .result(let id, _), .failure(let id?, _): complete(id, WireStream.outcome(of: message))
    case .failure(nil, _), .unknownNotification: break
    }
  }

  private func complete(_ id: Int64, _ outcome: Outcome) {
    let pending = shared.change { $0.removePending(id) }
    pending?.completion?(outcome)
  }

  /// Fails what is late; says when the next will be, and whether there is something to write.
  private func expire() -> (SuspendingClock.Instant?, Bool) {
    let now = SuspendingClock.now
    let (late, next, hasUnwritten) = shared.change { state in
      guard let armed = state.armedUntil, armed <= now else {
        return ([Pending](), state.armedUntil, state.hasUnwritten)
      }
      var lateIDs: [Int64] = []
      state.armedUntil = nil
      for (id, pending) in state.pending {
        guard let deadline = pending.deadline else { continue }
        if deadline > now { _ = state.arm(deadline) } else { lateIDs.append(id) }
      }
      let late = lateIDs.sorted().compactMap { state.abandon($0) }
      return (late, state.armedUntil, state.hasUnwritten)
    }
    for pending in late {
      pending.completion?(.failure(.timedOut("ferryd did not answer \(pending.request.rawValue) in time")))
    }
    return (next, hasUnwritten)
  }

  // MARK: Reconnecting

  /// Nil when the connection was closed meanwhile.
  private func reconnect(_ reason: String, firstPause: Duration) -> WireStream? {
    let began = SuspendingClock.now
    var pause = firstPause
    var failure = ConnectionFailure.lost(reason)
    while true {
      guard rest(pause) else { return nil }
      pause = min(pause * 2, policy.longestPause)
      let elapsed = SuspendingClock.now - began
      do {
        let next = try dialOnce(deadline: SuspendingClock.now + .seconds(5))
        unsafe stream = next
        openSessionsAgain()
        if isClosed { return nil }
        if let ending = next.ending { throw ConnectionFailure.lost(ending) }
        return next
      } catch {
        failure = .daemonUnavailable("the connection to ferryd broke (\(reason)) and could not be made again: \(error)")
      }
      if startsDaemon, elapsed >= policy.startsDaemonAfter {
        do { try startDaemonOnce() } catch { failure = error }
      }
      if elapsed >= policy.patience { giveUp(failure) } else { _ = expire() }
    }
  }

  private func openSessionsAgain() {
    let bodies = shared.withLock { $0.observers }
    for observer in bodies {
      if case .reconnected(let body) = observer.body { body() }
    }
  }

  private func giveUp(_ failure: ConnectionFailure) {
    let (abandoned, observers) = shared.change { state -> ([Pending], [Observed]) in
      guard case .reconnecting = state.phase else { return ([], []) }
      state.phase = .unavailable(failure)
      let ids = state.pending.filter { $0.value.completion != nil }.keys.sorted()
      return (ids.compactMap { state.removePending($0) }, state.observers.map(\.body))
    }
    for pending in abandoned { pending.completion?(.failure(failure)) }
    for case .unavailable(let body) in observers { body(failure) }
  }

  // MARK: Calls made by the thread itself

  /// Waits for one reply while everything else that comes waits its turn.
  func nestedCall(_ request: ClientRequest, timeout: Duration) throws(ConnectionFailure) -> Data {
    guard let current = unsafe stream else { throw .lost("the connection to ferryd is being made again") }
    let deadline = SuspendingClock.now + timeout
    var tooLong: ConnectionFailure?
    let (id, isConnected, isClosed) = shared.withLock { state -> (Int64, Bool, Bool) in
      let id = state.nextID
      state.nextID += 1
      if case .closed = state.phase { return (id, false, true) }
      guard state.socket >= 0 else { return (id, false, false) }
      let line = WireCoding.encodeRequest(id: id, request)
      tooLong = Self.tooLong(line, request)
      if tooLong != nil { return (id, true, false) }
      state.pending[id] = Pending(line: line, request: request.name, isNested: true)
      state.pendingBytes += line.count
      state.flush()
      return (id, true, false)
    }
    if isClosed { throw .closed }
    if let tooLong { throw tooLong }
    // Before the connection is handed out again nobody else writes.
    guard isConnected else {
      return try current.exchange(
        id: id, request, deadline: deadline, wake: signal.descriptor, onWake: takeWake)
    }
    defer { shared.change { _ = $0.removePending(id) } }
    while true {
      if let reply = current.takeReply(id) { return try WireStream.outcome(of: reply).get() }
      if let ending = current.ending { throw .lost(ending) }
      let left = SuspendingClock.now.duration(to: deadline)
      guard left > .zero else { throw .timedOut(Self.lateMessage(request.name, timeout)) }
      let hasUnwritten = shared.withLock { $0.hasUnwritten }
      let ready = current.wait(forRoom: hasUnwritten, wake: signal.descriptor, atMost: left)
      if ready.isWoken { signal.take() }
      if self.isClosed { throw .closed }
      if ready.isReadable { current.receive() }
      shared.withLock { $0.flush() }
    }
  }
}

/// The entry of the thread. A global function: a closure could be isolated to another thread.
private func runConnection(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context = unsafe context else { return nil }
  // SAFETY: `context` is the retained core that startThread passed; this takes over that reference.
  unsafe Unmanaged<ConnectionCore>.fromOpaque(context).takeRetainedValue().run()
  return nil
}
