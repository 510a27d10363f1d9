import FoundationEssentials
import Glibc
import LinuxSystem
import WireProtocol

/// What the connection's thread and the threads that use the connection share.
///
/// The thread owns the stream (reads, reconnects, runs callbacks); everybody writes, under the lock. Requests are kept
/// as encoded lines until they are answered, so that nothing is encoded twice and no second queue of bytes exists.
final class ConnectionCore: Sendable {
  typealias Outcome = Result<Data, ConnectionFailure>

  struct Pending {
    var line: Data
    var request: ClientRequest.Name
    /// Nil: nobody waits for the reply.
    var completion: (@Sendable (Outcome) -> Void)?
    /// When the connection's thread gives up on it.
    var deadline: SuspendingClock.Instant?
    /// Connections that ended while this waited for its reply.
    var losses = 0
    /// Made by the connection's thread, which waits for it: not sent again.
    var isNested = false
  }

  enum Observed {
    case reconnected(@Sendable () -> Void)
    case unavailable(@Sendable (ConnectionFailure) -> Void)
  }

  enum Phase {
    case connected, reconnecting
    /// Trying goes on, requests fail with this.
    case unavailable(ConnectionFailure)
    case closed
  }

  struct Shared {
    var phase = Phase.reconnecting
    var hello: HelloResult?
    /// -1 unless connected.
    var socket: Int32 = -1
    var pending: [Int64: Pending] = [:]
    var pendingBytes = 0
    var nextID: Int64 = 1
    /// Requests from this id on were not written (wholly) on the present connection.
    var nextToWrite: Int64 = 1
    /// Bytes of `nextToWrite` that were.
    var writtenOffset = 0
    /// The thread looks for late requests then; nil: there is none to wait for.
    var armedUntil: SuspendingClock.Instant?
    var observers: [(number: Int, body: Observed)] = []
    var nextObserver = 1
    var thread: pthread_t?
    /// The daemon that this process started, until it is reaped.
    var child: Int32?
    var startedAt: SuspendingClock.Instant?
  }

  /// Requests without a reply that `send` lets wait, and their bytes: more than a reconnect needs, less than hurts.
  static let pendingLimit = 4096
  static let pendingBytesLimit = 16 << 20

  /// A request that outlives so many connections is taken to be what ends them.
  static let lossesLimit = 16

  let dialer: DaemonDialer
  let startsDaemon: Bool
  let policy: ReconnectPolicy
  let onNotification: @Sendable (DaemonNotification) -> Void
  let onCaughtUp: @Sendable () -> Void
  let shared = Monitor(Shared())
  let signal: WakeSignal
  /// The thread's stream, for nested calls. SAFETY: touched only by the connection's thread.
  nonisolated(unsafe) var stream: WireStream?

  init(
    dialer: DaemonDialer, startsDaemon: Bool, policy: ReconnectPolicy,
    onNotification: @escaping @Sendable (DaemonNotification) -> Void, onCaughtUp: @escaping @Sendable () -> Void
  ) throws(SystemError) {
    self.dialer = dialer
    self.startsDaemon = startsDaemon
    self.policy = policy
    self.onNotification = onNotification
    self.onCaughtUp = onCaughtUp
    signal = try WakeSignal()
  }

  var isOnThread: Bool {
    shared.withLock { $0.thread.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
  }

  var isClosed: Bool {
    shared.withLock { if case .closed = $0.phase { true } else { false } }
  }

  // MARK: Requests

  func call(_ request: ClientRequest, timeout: Duration) throws(ConnectionFailure) -> Data {
    if isOnThread { return try nestedCall(request, timeout: timeout) }
    let answer = Monitor<Outcome?>(nil)
    let id = submit(request, timeout: nil) { outcome in answer.change { $0 = outcome } }
    if let outcome = answer.wait(atMost: timeout, { $0 }) { return try outcome.get() }
    if let id { forget(id) }
    throw .timedOut(Self.lateMessage(request.name, timeout))
  }

  /// Registers and, if it can, writes. `completion` is called once, on the connection's thread or, when there is no
  /// hope, at once on this one.
  @discardableResult
  func submit(
    _ request: ClientRequest, timeout: Duration?, completion: (@Sendable (Outcome) -> Void)?
  ) -> Int64? {
    var pending = Pending(line: Data(), request: request.name, completion: completion)
    pending.deadline = timeout.map { SuspendingClock.now + $0 }
    // Encoded under the lock: the order on the wire is the order of the ids.
    let result = shared.withLock { state -> Result<(Int64, Bool), ConnectionFailure> in
      switch state.phase {
      case .closed: return .failure(.closed)
      case .unavailable(let failure) where completion != nil: return .failure(failure)
      case .unavailable, .connected, .reconnecting: break
      }
      let id = state.nextID
      state.nextID += 1
      pending.line = WireCoding.encodeRequest(id: id, request)
      if let failure = Self.tooLong(pending.line, request) { return .failure(failure) }
      state.pendingBytes += pending.line.count
      state.pending[id] = pending
      state.flush()
      return .success((id, state.arm(pending.deadline) || state.hasUnwritten))
    }
    switch result {
    case .success(let (id, wakes)):
      if wakes { signal.wake() }
      return id
    case .failure(let failure):
      completion?(.failure(failure))
      return nil
    }
  }

  func send(_ request: ClientRequest) -> Bool {
    guard !isOnThread else { return submit(request, timeout: nil, completion: nil) != nil }
    let hasRoom = shared.wait(atMost: .seconds(31_536_000)) { state -> Bool? in
      let isFull = state.pending.count >= Self.pendingLimit || state.pendingBytes >= Self.pendingBytesLimit
      switch state.phase {
      case .closed: return false
      case .unavailable: return !isFull
      case .connected, .reconnecting: return isFull ? nil : true
      }
    }
    guard hasRoom == true else { return false }
    return submit(request, timeout: nil, completion: nil) != nil
  }

  /// The daemon ends the connection for such a message, and it would be sent again for ever.
  static func tooLong(_ line: Data, _ request: ClientRequest) -> ConnectionFailure? {
    guard line.count > WireLimits.messageBytes else { return nil }
    return .refused(
      WireError(
        .invalidParameters,
        "\(request.name.rawValue): the message has \(line.count) bytes, \(WireLimits.messageBytes) are allowed; "
          + "split it"))
  }

  private func forget(_ id: Int64) {
    shared.change { _ = $0.abandon(id) }
  }

  static func lateMessage(_ name: ClientRequest.Name, _ timeout: Duration) -> String {
    "ferryd did not answer \(name.rawValue) within \(timeout.components.seconds) s; "
      + "`ferry daemon status` tells its state"
  }

  // MARK: Observers and the end

  func observe(_ body: Observed) -> ConnectionObserver {
    shared.withLock { state in
      let number = state.nextObserver
      state.nextObserver += 1
      state.observers.append((number, body))
      return ConnectionObserver(number: number)
    }
  }

  func remove(_ observer: ConnectionObserver) {
    shared.withLock { $0.observers.removeAll { $0.number == observer.number } }
  }

  func close() {
    let abandoned = shared.change { state -> [Pending] in
      if case .closed = state.phase { return [] }
      state.phase = .closed
      state.observers = []
      return state.removeAllPending()
    }
    signal.wake()
    for pending in abandoned { pending.completion?(.failure(.closed)) }
  }
}

extension ConnectionCore.Shared {
  var hasUnwritten: Bool { socket >= 0 && nextToWrite < nextID }

  /// True when the thread must be told to look earlier than it would.
  mutating func arm(_ deadline: SuspendingClock.Instant?) -> Bool {
    guard let deadline, armedUntil.map({ deadline < $0 }) ?? true else { return false }
    armedUntil = deadline
    return true
  }

  /// Writes what can be written without waiting.
  mutating func flush() {
    guard socket >= 0 else { return }
    while nextToWrite < nextID {
      if let line = pending[nextToWrite]?.line {
        writtenOffset = WireStream.send(line, from: writtenOffset, to: socket)
        if writtenOffset < line.count { return }
      }
      nextToWrite += 1
      writtenOffset = 0
    }
  }

  /// Stops waiting for the reply.
  mutating func abandon(_ id: Int64) -> ConnectionCore.Pending? {
    // A line that is being written must be written to its end; its answer is then ignored.
    guard id == nextToWrite, writtenOffset > 0, let abandoned = pending[id] else { return removePending(id) }
    pending[id]?.completion = nil
    pending[id]?.deadline = nil
    return abandoned
  }

  @discardableResult
  mutating func removePending(_ id: Int64) -> ConnectionCore.Pending? {
    guard let removed = pending.removeValue(forKey: id) else { return nil }
    pendingBytes -= removed.line.count
    return removed
  }

  /// After the connection ended: what is not to be sent again.
  mutating func removeLost() -> [ConnectionCore.Pending] {
    let written = pending.keys.filter { $0 < nextToWrite || ($0 == nextToWrite && writtenOffset > 0) }.sorted()
    var lost: [ConnectionCore.Pending] = []
    for id in written {
      pending[id]?.losses += 1
      guard let losses = pending[id]?.losses, losses >= ConnectionCore.lossesLimit else { continue }
      if let removed = removePending(id) { lost.append(removed) }
    }
    return lost
  }

  /// In the order of their ids.
  mutating func removeAllPending() -> [ConnectionCore.Pending] {
    pending.keys.sorted().compactMap { removePending($0) }
  }
}
