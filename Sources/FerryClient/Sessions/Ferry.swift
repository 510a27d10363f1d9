public import FoundationEssentials
import LinuxSystem
import Synchronization
import WireProtocol

/// The way to this user's transfer daemon.
///
/// ```swift
/// let ferry = Ferry()
/// let session = try await ferry.session("updates")
/// let receipt = try await session.download(url, to: LocalPath("model.bin"))
/// for await event in session.events {
///   if case .finished(let result) = event { try await result.acknowledge() }
/// }
/// ```
///
/// The daemon is found, or started, when it is first needed. It carries the tasks on when this program ends.
public final class Ferry: Sendable {
  /// Who owns the sessions.
  public let app: String
  private let hub: Hub

  /// - Parameters:
  ///   - app: names this program to the daemon, the same in each of its runs. Nil: FERRY_APP_ID, else the name of the
  ///     executable.
  ///   - environment: where the daemon is looked for (FERRY_HOME, XDG_*, FERRY_DAEMON, PATH), and the proxy settings
  ///     and certificates of the transfers (http_proxy, https_proxy, all_proxy, no_proxy, SSL_CERT_FILE).
  ///   - startsDaemon: false: throw `daemonUnavailable` where none runs.
  public init(
    app: String? = nil, environment: [String: String] = ProcessInfo.processInfo.environment, startsDaemon: Bool = true
  ) {
    self.app = app ?? AppIdentifier.standard(environment)
    hub = Hub(app: self.app, environment: environment, startsDaemon: startsDaemon)
  }

  /// Opens the session of that name, making it where it is new; results that earlier runs of the program did not
  /// acknowledge are among its events.
  ///
  /// - Throws: `sessionInUse` when another process has it, `daemonUnavailable`.
  public func session(
    _ identifier: String, options: SessionOptions = SessionOptions()
  ) async throws(FerryError) -> Session {
    guard !identifier.isEmpty, identifier.utf8.count <= WireLimits.identifierBytes else {
      throw FerryError(
        .invalidArgument,
        "a session's name has 1 … \(WireLimits.identifierBytes) bytes, not \(identifier.utf8.count)")
    }
    let core = try await hub.open(identifier, options)
    return Session(identifier: identifier, hub: hub, core: core)
  }

  /// Ends the connection and all its sessions' events. Tasks go on.
  public func close() { hub.close() }
}

/// How a session's transfers behave together.
public struct SessionOptions: Hashable, Sendable {
  /// 1 … 64; nil: 6.
  public var maximumConnectionsPerHost: Int?
  /// True: when all tasks of the session have ended and nobody collects their results, the daemon launches the app, if
  /// it is registered (`ferry app register`). The last value that was given counts. True by default.
  public var sendsLaunchEvents = true
  /// The program answers what servers ask (``SessionEvent/asking(_:_:)``): a 401 keeps what was fetched and becomes a
  /// question, for which the app is launched if nobody is attached. The last value that was given counts. Default:
  /// false, and such an answer is judged as any other.
  public var answersChallenges = false
  /// For all tasks of the session; a task's own go before them. Default: libcurl's and OpenSSL's.
  public var tls = TLSOptions()
  /// Every member at its default.
  public init() {}
}

/// The connection of one ``Ferry`` and the sessions that share it.
final class Hub: Sendable {
  private enum Link {
    case none
    case opening([CheckedContinuation<Result<DaemonConnection, FerryError>, Never>])
    case open(DaemonConnection)
    case closed
  }

  private let app: String
  private let environment: [String: String]
  private let startsDaemon: Bool
  private let router = SessionRouter()
  private let link = Mutex(Link.none)

  init(app: String, environment: [String: String], startsDaemon: Bool) {
    self.app = app
    self.environment = environment
    self.startsDaemon = startsDaemon
  }

  deinit { close() }

  func open(_ identifier: String, _ options: SessionOptions) async throws(FerryError) -> SessionCore {
    let connection = try await connection()
    var network = WireNetwork.fromEnvironment(
      environment, maximumConnectionsPerHost: options.maximumConnectionsPerHost)
    if options.tls != TLSOptions() { network.tls = try options.tls.wire() }
    let parameters = SessionOpenParameters(
      app: app, identifier: identifier, attach: true, collectsResults: true, network: network,
      sendsLaunchEvents: options.sendsLaunchEvents, answersChallenges: options.answersChallenges)
    let core = SessionCore(connection: connection, parameters: parameters)
    guard router.add(core) else {
      throw FerryError(.sessionInUse, "this program has the session \(identifier.debugDescription) open already")
    }
    // The session is known before anything that the daemon sends after the reply is looked at.
    let outcome = await withCheckedContinuation { continuation in
      connection.request(.sessionOpen(parameters), returning: SessionOpenResult.self) { outcome in
        if case .success(let result) = outcome { core.opened(result) }
        continuation.resume(returning: outcome)
      }
    }
    do {
      _ = try outcome.get()
      return core
    } catch {
      router.remove(core)
      throw FerryError(error)
    }
  }

  func remove(_ core: SessionCore) {
    router.remove(core)
    core.close(tellingDaemon: true)
  }

  func connection() async throws(FerryError) -> DaemonConnection {
    let outcome = await withCheckedContinuation { continuation in
      let (ready, starts) = link.withLock { link -> (Result<DaemonConnection, FerryError>?, Bool) in
        switch link {
        case .open(let connection): return (.success(connection), false)
        case .closed: return (.failure(FerryError(.closed, "this Ferry was closed")), false)
        case .opening(let waiting):
          link = .opening(waiting + [continuation])
          return (nil, false)
        case .none:
          link = .opening([continuation])
          return (nil, true)
        }
      }
      if let ready { continuation.resume(returning: ready) }
      if starts { openOnThread() }
    }
    return try outcome.get()
  }

  /// Connecting blocks, and must not take a thread of Swift's pool.
  private func openOnThread() {
    do throws(SystemError) {
      let worker = try Worker(name: "ferry-open", limit: 1)
      worker.submit { self.finishOpening(self.openConnection()) }
      worker.stop(andWait: false)
    } catch {
      finishOpening(.failure(FerryError(.daemonUnavailable, "this process cannot start a thread: \(error)")))
    }
  }

  private func openConnection() -> Result<DaemonConnection, FerryError> {
    do throws(ConnectionFailure) {
      let connection = try DaemonConnection.open(
        client: "\(app)/FerryClient 0.1", environment: environment, startsDaemon: startsDaemon,
        onCaughtUp: { [router] in router.wake() }, onNotification: { [router] in router.route($0) })
      router.connected(connection)
      return .success(connection)
    } catch {
      return .failure(FerryError(error))
    }
  }

  private func finishOpening(_ outcome: Result<DaemonConnection, FerryError>) {
    let (waiting, isClosed) = link.withLock { link in
      guard case .opening(let waiting) = link else {
        return ([CheckedContinuation<Result<DaemonConnection, FerryError>, Never>](), true)
      }
      if case .success(let connection) = outcome { link = .open(connection) } else { link = .none }
      return (waiting, false)
    }
    if isClosed, case .success(let connection) = outcome { connection.close() }
    for continuation in waiting { continuation.resume(returning: outcome) }
  }

  func close() {
    let (connection, waiting) = link.withLock { link in
      defer { link = .closed }
      switch link {
      case .open(let connection):
        return (connection as DaemonConnection?, [CheckedContinuation<Result<DaemonConnection, FerryError>, Never>]())
      case .opening(let waiting): return (nil, waiting)
      case .none, .closed: return (nil, [])
      }
    }
    for continuation in waiting {
      continuation.resume(returning: .failure(FerryError(.closed, "this Ferry was closed")))
    }
    router.closeAll()
    connection?.close()
  }
}

/// Brings notices to their sessions. The connection holds it; it holds nothing that holds the connection but open
/// sessions.
final class SessionRouter: Sendable {
  private struct State {
    var sessions: [SessionCore] = []
    /// Tasks that a notice named and no session knows; the daemon is asked for each once.
    var asked: Set<Int64> = []
  }

  private let state = Mutex(State())

  var sessions: [SessionCore] { state.withLock { $0.sessions } }

  /// False when a session of that name is there already.
  func add(_ core: SessionCore) -> Bool {
    state.withLock { state in
      guard !state.sessions.contains(where: { $0.parameters.identifier == core.parameters.identifier }) else {
        return false
      }
      state.sessions.append(core)
      return true
    }
  }

  func remove(_ core: SessionCore) {
    state.withLock { $0.sessions.removeAll { $0 === core } }
  }

  func closeAll() {
    let all = state.withLock { state in
      defer { state.sessions = [] }
      return state.sessions
    }
    for core in all { core.close(tellingDaemon: false) }
  }

  func connected(_ connection: DaemonConnection) {
    _ = connection.onReconnect { [weak self] in
      for core in self?.sessions ?? [] where core.id != nil { core.openAgain() }
    }
    _ = connection.onUnavailable { [weak self] failure in
      for core in self?.sessions ?? [] { core.unavailable(failure) }
    }
  }

  /// All that has arrived was routed.
  func wake() {
    for core in sessions { core.events.wake() }
  }

  func route(_ notification: DaemonNotification) {
    let sessions = sessions
    switch notification {
    case .taskProgress(let notice):
      guard !sessions.contains(where: { $0.knows(notice.id) }) else { break }
      ask(for: notice.id, sessions)
      return
    case .taskState, .taskResumed, .taskResponse, .taskData, .taskRemoved, .taskQuestion, .delivery, .sessionEnded,
      .goodbye, .appWake:
      break
    }
    for core in sessions { core.handle(notification) }
    if case .sessionEnded(let notice) = notification {
      for core in sessions where core.id == notice.session { remove(core) }
    }
  }

  /// A task of an earlier run of this program: its first notice need not tell all of it.
  private func ask(for task: Int64, _ sessions: [SessionCore]) {
    guard let connection = sessions.first?.connection, state.withLock({ $0.asked.insert(task).inserted }) else {
      return
    }
    connection.request(.taskShow(TaskShowParameters(id: task)), returning: TaskShowResult.self) { [weak self] outcome in
      _ = self?.state.withLock { $0.asked.remove(task) }
      guard case .success(let shown) = outcome else { return }
      for core in sessions { core.handle(.taskState(TaskStateNotice(task: shown.task))) }
    }
  }
}
