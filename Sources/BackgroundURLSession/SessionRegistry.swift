#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import Synchronization
  internal import WireProtocol

  /// The road to the daemon: ``DaemonConnection``, or a script in tests.
  protocol DaemonLine: AnyObject, Sendable {
    /// Blocks until the daemon answered.
    func call<R: Decodable & Sendable>(_ request: ClientRequest, returning: R.Type) throws(ConnectionFailure) -> R
    /// Sends in order with the calls; the reply is not awaited, and the request outlives a broken connection.
    @discardableResult func send(_ request: ClientRequest) -> Bool
    /// Sends in order with the calls; `completion` is called on any thread, and must not wait.
    func ask<R: Decodable & Sendable>(
      _ request: ClientRequest, returning: R.Type,
      completion: @escaping @Sendable (Result<R, ConnectionFailure>) -> Void)
  }

  /// The background sessions of this process and the one connection that they share.
  ///
  /// Locks are taken in this order: `openings`, `gate`, `state`, then a session's, then a task's. No callback of the
  /// program runs under any of them.
  final class SessionRegistry: Sendable {
    typealias Connect = @Sendable (SessionRegistry) throws(ConnectionFailure) -> any DaemonLine

    let app: String
    let network: WireNetwork
    private let connect: Connect
    /// Held over the making of a session, which is two steps: its object refers to it, and it to its object.
    let openings = NSLock()
    private let gate = NotificationGate()
    private let state = Mutex(State())

    private struct State {
      var line: (any DaemonLine)?
      var sessions: [String: AttachedSession] = [:]
    }

    init(app: String, network: WireNetwork, connect: @escaping Connect) {
      self.app = app
      self.network = network
      self.connect = connect
    }

    var line: (any DaemonLine)? { state.withLock { $0.line } }

    // MARK: Sessions

    /// The session of that identifier in this process, and whether it is new. Called with ``openings`` held.
    func session(
      _ identifier: String, orMade make: (SessionRegistry) -> AttachedSession
    ) -> (AttachedSession, isNew: Bool) {
      if let existing = state.withLock({ $0.sessions[identifier] }) { return (existing, false) }
      let session = make(self)
      state.withLock { $0.sessions[identifier] = session }
      return (session, true)
    }

    /// For a session that could not reach the daemon when it was made.
    func attachAgain(_ session: AttachedSession) {
      openings.withLock {
        if !session.isAttached { attach(session) }
      }
    }

    /// Blocks until the daemon answered. Called with ``openings`` held.
    func attach(_ session: AttachedSession) {
      do {
        let line = try connectedLine()
        holding { session.attach(through: line) }
      } catch {
        session.couldNotAttach(error)
      }
    }

    private func connectedLine() throws(ConnectionFailure) -> any DaemonLine {
      if let line { return line }
      let line = try connect(self)
      state.withLock { $0.line = line }
      return line
    }

    func remove(_ session: AttachedSession) {
      state.withLock {
        if $0.sessions[session.identifier] === session { $0.sessions[session.identifier] = nil }
      }
    }

    // MARK: What comes from the daemon

    /// Called in order by the connection's thread.
    func receive(_ notification: DaemonNotification) {
      gate.pass(notification, to: route)
    }

    /// Runs `body` while notifications wait; they follow, in order.
    func holding<Result>(_ body: () -> Result) -> Result {
      gate.close()
      defer { gate.open(to: route) }
      return body()
    }

    /// The connection was made again, to this daemon or a new one.
    func reconnected() {
      guard let line else { return }
      for session in sessionsInOrder { session.attachAfterReconnect(through: line) }
    }

    private var sessionsInOrder: [AttachedSession] {
      state.withLock { $0.sessions.sorted { $0.key < $1.key }.map(\.value) }
    }

    private func route(_ notification: DaemonNotification) {
      let sessions = sessionsInOrder
      func ofSession(_ id: Int64, _ body: (AttachedSession) -> Void) {
        if let session = sessions.first(where: { $0.id == id }) { body(session) }
      }
      func ofTask(_ id: Int64, _ body: (AttachedSession, URLSessionTask) -> Void) {
        for session in sessions {
          if let task = session.task(id) { return body(session, task) }
        }
      }
      switch notification {
      case .taskProgress(let notice): ofTask(notice.id) { $0.progressed($1, notice) }
      case .taskState(let notice): ofSession(notice.task.sessionID) { $0.changed(notice.task) }
      case .taskResumed(let notice): ofTask(notice.id) { $0.resumed($1, notice) }
      case .taskResponse(let notice): ofTask(notice.id) { $0.responded($1, notice.response) }
      case .taskData(let notice): ofTask(notice.id) { $0.received($1, notice.bytes) }
      case .delivery(let notice): ofSession(notice.session) { $0.offered(notice) }
      case .sessionEnded(let notice): ofSession(notice.session) { $0.ended() }
      // A task of a session goes with the acknowledgement of its last result, which is ours.
      case .taskRemoved: break
      // For whoever speaks for the app, on a connection of its own.
      case .appWake: break
      case .taskQuestion(let notice): ofSession(notice.task.sessionID) { $0.asked(notice.task) }
      // A restart is nothing that anybody need notice.
      case .goodbye(let notice) where notice.isRestart == true: break
      case .goodbye(let notice): Diagnostics.log("ferryd ended the connection: \(notice.reason)")
      }
    }
  }

  /// Notifications wait here while a session or a task is being made known, so that none about it is lost or early.
  private final class NotificationGate: Sendable {
    private let condition = NSCondition()
    // SAFETY: both are touched with `condition` locked.
    nonisolated(unsafe) private var holds = 0
    nonisolated(unsafe) private var parked: [DaemonNotification] = []

    func pass(_ notification: DaemonNotification, to route: (DaemonNotification) -> Void) {
      condition.withLock {
        if unsafe holds > 0 {
          unsafe parked.append(notification)
        } else {
          route(notification)
        }
      }
    }

    /// Waits where others hold the gate and somebody waits at it: threads that make tasks without end must not keep
    /// results back without end.
    func close() {
      condition.withLock {
        while unsafe holds > 0 && !parked.isEmpty { condition.wait() }
        unsafe holds += 1
      }
    }

    func open(to route: (DaemonNotification) -> Void) {
      condition.withLock {
        unsafe holds -= 1
        guard unsafe holds == 0 else { return }
        for notification in unsafe parked { route(notification) }
        unsafe parked = []
        condition.broadcast()
      }
    }
  }

  enum Diagnostics {
    /// One line to standard error.
    static func log(_ line: String) {
      FileHandle.standardError.write(Data("BackgroundURLSession: \(line)\n".utf8))
    }
  }
#endif
