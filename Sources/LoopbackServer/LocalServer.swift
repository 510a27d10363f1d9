import Glibc

/// An HTTP/1.1 server on the loopback address that answers by script and records what it was asked.
///
/// ```swift
/// let server = try LocalServer.start { request in .text("hello") }
/// defer { server.stop() }
/// ```
/// One thread accepts, and one thread serves each connection; handlers run on that thread and may block. A server
/// lives until ``stop()``, also when nobody holds it any more.
public final class LocalServer: Sendable {
  /// Answers a request whose body was read as the plan said.
  public typealias Handler = @Sendable (Request) -> Response
  /// Decides what becomes of a request's body when its head has arrived.
  public typealias HeadHandler = @Sendable (RequestHead) -> BodyPlan

  private struct State {
    var requests: [Request] = []
    var requestCount = 0
    var exchanges: [Exchange] = []
    var exchangeCount = 0
    var connections: [Int: Connection] = [:]
    var openConnections = 0
    var peakConnections = 0
    var acceptedConnections = 0
    var turnedAwayConnections = 0
    var currentRequests = 0
    var peakConcurrentRequests = 0
    var isStopped = false
    var isListenerClosed = false
  }

  /// What the server was started with.
  public let configuration: Configuration
  /// The port it listens on, the same for its whole life.
  public let port: UInt16
  let handler: Handler
  let bodyPlan: HeadHandler
  private let listener: Listener
  private let state = Monitor(State())

  private init(
    configuration: Configuration, listener: Listener, bodyPlan: @escaping HeadHandler, handler: @escaping Handler
  ) {
    self.configuration = configuration
    self.listener = listener
    self.bodyPlan = bodyPlan
    self.handler = handler
    port = listener.port
  }

  /// Listens and answers with what `handler` returns.
  /// - Throws: ``StartFailure``, when the port is taken or the process has no descriptor or thread left.
  public static func start(
    configuration: Configuration = Configuration(), handler: @escaping Handler
  ) throws(StartFailure) -> LocalServer {
    try start(configuration: configuration, head: { _ in .read }, handler: handler)
  }

  /// Listens, reads each request's body as `head` says, and answers with what `handler` returns.
  /// - Throws: ``StartFailure``, when the port is taken or the process has no descriptor or thread left.
  public static func start(
    configuration: Configuration = Configuration(), head: @escaping HeadHandler, handler: @escaping Handler
  ) throws(StartFailure) -> LocalServer {
    let listener = try Listener(configuration)
    let server = LocalServer(configuration: configuration, listener: listener, bodyPlan: head, handler: handler)
    let code = PosixThread.detach(stackByteCount: 256 * 1024) { server.acceptConnectionsUntilStopped() }
    guard code == 0 else {
      listener.close()
      throw StartFailure(
        port: configuration.port, reason: SocketFailure(operation: "pthread_create", code: code).reason)
    }
    return server
  }

  /// Ends the server: the listener closes, every connection is shut down, whatever waits is woken. Returns when all
  /// connections are gone, at the latest after five seconds (a handler that blocks cannot be woken).
  public func stop() {
    // Under the lock, so that no connection closes its descriptor while it is being shut down.
    state.withLock { state in
      state.isStopped = true
      for connection in state.connections.values { connection.stop() }
    }
    listener.wake()
    _ = state.wait(seconds: 5) { $0.isListenerClosed && $0.openConnections == 0 }
  }

  // MARK: Addresses

  /// `http://127.0.0.1:PORT`.
  public var baseURL: String { "http://127.0.0.1:\(port)" }
  /// `http://localhost:PORT`: the same server under another host name.
  public var localhostURL: String { "http://localhost:\(port)" }
  /// `http://[::1]:PORT`; it answers if ``Configuration/listensOnIPv6`` was set.
  public var ipv6URL: String { "http://[::1]:\(port)" }

  /// `path`, which begins with a slash, on this server.
  public func url(_ path: String) -> String { baseURL + path }

  // MARK: What was seen

  /// The requests in the order their heads arrived. One whose body is still coming is there already, with what has
  /// arrived when the reader last paused or ended.
  public var requests: [Request] { state.read { $0.requests } }
  /// How many requests have arrived, those beyond ``Configuration/recordedRequestLimit`` included.
  public var requestCount: Int { state.read { $0.requestCount } }
  /// The exchanges in the order they ended.
  public var exchanges: [Exchange] { state.read { $0.exchanges } }
  /// Connections that are open now, as far as the server has noticed.
  public var currentConnections: Int { state.read { $0.openConnections } }
  /// The most connections that were ever open at the same time.
  public var peakConnections: Int { state.read { $0.peakConnections } }
  /// Connections served since the start.
  public var acceptedConnections: Int { state.read { $0.acceptedConnections } }
  /// Connections that got a 503 because ``Configuration/connectionLimit`` was reached.
  public var turnedAwayConnections: Int { state.read { $0.turnedAwayConnections } }
  /// Requests that are being answered now.
  public var currentRequests: Int { state.read { $0.currentRequests } }
  /// The most requests that were ever being answered at the same time.
  public var peakConcurrentRequests: Int { state.read { $0.peakConcurrentRequests } }

  /// Blocks the calling thread until `count` requests have arrived; false when `seconds` passed first.
  public func waitForRequests(_ count: Int, seconds: Double = 10) -> Bool {
    state.wait(seconds: seconds) { $0.requestCount >= count }
  }

  /// Blocks the calling thread until `count` exchanges have ended; false when `seconds` passed first.
  public func waitForExchanges(_ count: Int, seconds: Double = 10) -> Bool {
    state.wait(seconds: seconds) { $0.exchangeCount >= count }
  }

  /// Blocks the calling thread until exactly `count` connections are open; false when `seconds` passed first.
  public func waitForConnections(_ count: Int, seconds: Double = 10) -> Bool {
    state.wait(seconds: seconds) { $0.openConnections == count }
  }

  /// Blocks the calling thread until the recorded requests satisfy `condition`, asked again after each change; false
  /// when `seconds` passed first.
  public func waitUntil(seconds: Double = 10, _ condition: ([Request]) -> Bool) -> Bool {
    state.wait(seconds: seconds) { condition($0.requests) }
  }

  // MARK: Being down

  /// From its return on, new connections are refused (ECONNREFUSED), as if no server ran. The port stays reserved.
  /// - Parameter endingCurrent: whether connections that exist are shut down too.
  public func refuseConnections(endingCurrent: Bool = false) {
    listener.pause()
    guard endingCurrent else { return }
    state.withLock { state in
      for connection in state.connections.values { connection.stop() }
    }
  }

  /// Undoes ``refuseConnections(endingCurrent:)``, on the same port.
  /// - Throws: ``StartFailure``, when the kernel refuses to listen again.
  public func acceptConnections() throws(StartFailure) { try listener.resume() }

  /// A server could not listen.
  public struct StartFailure: Error, CustomStringConvertible {
    /// The port that was asked for.
    public let port: UInt16
    /// The system call and the system's reason.
    public let reason: String

    /// One sentence with the remedy.
    public var description: String {
      "cannot listen on the loopback address, port \(port): \(reason); "
        + (port == 0 ? "close what holds too many descriptors or threads" : "choose another port, or 0 for a free one")
    }
  }
}

// MARK: - For the connections

extension LocalServer {
  private func acceptConnectionsUntilStopped() {
    while !state.read({ $0.isStopped }) {
      for socket in listener.next() { admit(socket) }
    }
    listener.close()
    state.withLock { $0.isListenerClosed = true }
  }

  private func admit(_ socket: StreamSocket) {
    let limit = configuration.connectionLimit
    let connection = state.withLock { state -> Connection? in
      guard !state.isStopped, state.openConnections < limit else {
        state.turnedAwayConnections += 1
        return nil
      }
      state.acceptedConnections += 1
      state.openConnections += 1
      state.peakConnections = max(state.peakConnections, state.openConnections)
      let connection = Connection(number: state.acceptedConnections, socket: socket, server: self)
      state.connections[connection.number] = connection
      return connection
    }
    guard let connection else { return turnAway(socket) }
    let code = PosixThread.detach(stackByteCount: 1024 * 1024) { connection.serve() }
    guard code != 0 else { return }
    forget(connection)
    noteClosed()
    turnAway(socket)
  }

  private func turnAway(_ socket: StreamSocket) {
    let answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    let bytes = Array(answer.utf8)
    unsafe bytes.withUnsafeBytes { bytes in
      do throws(SocketFailure) {
        unsafe try socket.send(bytes)
      } catch {
        // The client left before it could be told.
      }
    }
    socket.finishSending()
    socket.close()
  }

  /// After this, ``stop()`` no longer touches the connection's descriptor.
  func forget(_ connection: Connection) {
    state.withLock { $0.connections[connection.number] = nil }
  }

  func noteClosed() { state.withLock { $0.openConnections -= 1 } }

  /// Records a request; the answer is its index for ``update(_:_:)``.
  func begin(_ head: RequestHead) -> Int {
    let limit = configuration.recordedRequestLimit
    return state.withLock { state in
      state.currentRequests += 1
      state.peakConcurrentRequests = max(state.peakConcurrentRequests, state.currentRequests)
      state.requestCount += 1
      if state.requests.count < limit { state.requests.append(Request(head: head)) }
      return state.requestCount - 1
    }
  }

  func update(_ ticket: Int, _ request: Request) {
    state.withLock { state in
      if ticket < state.requests.count { state.requests[ticket] = request }
    }
  }

  func finish(_ exchange: Exchange) {
    let limit = configuration.recordedRequestLimit
    state.withLock { state in
      if exchange.request != nil { state.currentRequests -= 1 }
      state.exchangeCount += 1
      if state.exchanges.count < limit { state.exchanges.append(exchange) }
    }
    configuration.onExchange?(exchange)
  }
}
