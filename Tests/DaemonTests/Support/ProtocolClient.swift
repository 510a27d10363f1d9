import FoundationEssentials
import Glibc
import LinuxSystem
import WireProtocol

/// A plain client of the protocol: one socket, blocking, no thread, no reconnect. What it is told while it waits for a
/// reply is kept in order.
final class ProtocolClient {
  enum Failure: Error {
    /// The connection is over; what the daemon said last, if it said goodbye.
    case ended(String?)
    case refused(WireError)
  }

  private let socket: OwnedDescriptor
  private var input: [UInt8] = []
  private var start = 0
  private var scanned = 0
  private var chunk = [UInt8](repeating: 0, count: 1 << 16)
  private var lastID: Int64 = 0
  private var replies: [Int64: Result<Data, WireError>] = [:]
  /// Notifications that nobody took yet.
  private(set) var notifications: [DaemonNotification] = []
  private var firstNotification = 0
  private(set) var goodbye: String?
  /// What hello said.
  private(set) var daemon: HelloResult?
  var daemonProcessID: Int32 { daemon?.pid ?? -1 }

  /// Connects to the daemon of a home, once.
  init(_ home: DaemonHome, saysHello: Bool = true) throws {
    let path = (try? InstanceLock.read(home.lockPath))?.socketPath ?? home.socketPath
    socket = try UnixSocket.connect(path, nonblocking: true)
    if saysHello { daemon = try call(.hello(HelloParameters(client: "daemon-tests/1")), HelloResult.self) }
  }

  func close() { _ = shutdown(socket.raw, Int32(SHUT_RDWR)) }

  // MARK: Bytes

  /// Sends bytes as they are; false when the daemon has ended the connection before all were sent.
  @discardableResult
  func send(raw bytes: [UInt8], seconds: Double = generousSeconds) throws -> Bool {
    let deadline = Deadline(seconds: seconds)
    var done = 0
    while done < bytes.count {
      do throws(SystemError) {
        if let count = try UnixSocket.send(socket.raw, bytes.span.extracting(droppingFirst: done)) {
          done += count
          continue
        }
      } catch {
        return false
      }
      if deadline.isOver { throw Late("the daemon reads \(bytes.count) bytes") }
      _ = try Syscall.poll(socket.raw, for: .writable, timeoutMilliseconds: min(deadline.milliseconds, 1000))
    }
    return true
  }

  /// The next line without its end; nil at the end of the connection.
  func line(_ deadline: Deadline, waitingFor what: @autoclosure () -> String) throws -> Data? {
    while true {
      if let end = input[scanned...].firstIndex(of: 0x0A) {
        let line = Data(input[start..<end])
        start = end + 1
        scanned = start
        if start == input.count || start > 1 << 20 {
          input.removeFirst(start)
          start = 0
          scanned = 0
        }
        return line
      }
      scanned = input.count
      let received: Int?
      do throws(SystemError) {
        received = try UnixSocket.receive(socket.raw, into: &chunk)?.count
      } catch {
        return nil
      }
      if let received {
        if received == 0 { return nil }
        input.append(contentsOf: chunk[..<received])
        continue
      }
      if deadline.isOver { throw Late(what()) }
      _ = try Syscall.poll(socket.raw, for: .readable, timeoutMilliseconds: min(deadline.milliseconds, 1000))
    }
  }

  // MARK: Messages

  private func take(_ deadline: Deadline, waitingFor what: @autoclosure () -> String) throws {
    guard let line = try line(deadline, waitingFor: what()) else { throw Failure.ended(goodbye) }
    switch try WireCoding.decodeMessage(line) {
    case .result(let id, let line): replies[id] = .success(line)
    case .failure(let id?, let error): replies[id] = .failure(error)
    case .failure(nil, let error): throw Failure.refused(error)
    case .notification(.goodbye(let notice)): goodbye = notice.reason
    case .notification(let notification): notifications.append(notification)
    case .unknownNotification: break
    }
  }

  /// Sends a request without waiting for its reply; its id.
  @discardableResult
  func send(_ request: ClientRequest) throws -> Int64 {
    lastID += 1
    guard try send(raw: [UInt8](WireCoding.encodeRequest(id: lastID, request))) else { throw Failure.ended(goodbye) }
    return lastID
  }

  func reply<R: Decodable>(to id: Int64, _ type: R.Type, seconds: Double = generousSeconds) throws -> R {
    let deadline = Deadline(seconds: seconds)
    while true {
      if let reply = replies.removeValue(forKey: id) {
        switch reply {
        case .success(let line): return try WireCoding.decodeResult(R.self, line)
        case .failure(let error): throw Failure.refused(error)
        }
      }
      try take(deadline, waitingFor: "the reply to request \(id)")
    }
  }

  func call<R: Decodable>(_ request: ClientRequest, _ type: R.Type, seconds: Double = generousSeconds) throws -> R {
    try reply(to: send(request), type, seconds: seconds)
  }

  /// The next notification.
  func next(seconds: Double = generousSeconds) throws -> DaemonNotification {
    try wait(for: "a notification", seconds: seconds) { $0 }
  }

  /// The first notification of which `body` makes something, taken out; those before it stay.
  func wait<T>(
    for what: @autoclosure () -> String, seconds: Double = generousSeconds, _ body: (DaemonNotification) throws -> T?
  ) throws -> T {
    let deadline = Deadline(seconds: seconds)
    var index = firstNotification
    while true {
      while index < notifications.count {
        if let found = try body(notifications[index]) {
          if index == firstNotification { firstNotification += 1 } else { notifications.remove(at: index) }
          if firstNotification == notifications.count {
            notifications.removeAll(keepingCapacity: true)
            firstNotification = 0
          }
          return found
        }
        index += 1
      }
      try take(deadline, waitingFor: what())
    }
  }

  /// Forgets notifications that came and were not taken.
  func drop(where isUnwanted: (DaemonNotification) -> Bool) {
    notifications.removeFirst(firstNotification)
    firstNotification = 0
    notifications.removeAll(where: isUnwanted)
  }

  /// Waits until the daemon ends the connection; what it said.
  func waitForGoodbye(seconds: Double = generousSeconds) throws -> String? {
    let deadline = Deadline(seconds: seconds)
    do {
      while true { try take(deadline, waitingFor: "the end of the connection") }
    } catch Failure.ended(let reason) {
      return reason
    } catch Failure.refused {
      return try waitForGoodbye(seconds: Double(deadline.milliseconds) / 1000)
    }
  }

  // MARK: Conveniences

  /// Opens a session of the app "tests"; attached unless said otherwise.
  func open(
    _ identifier: String, app: String = "tests", attach: Bool = true, collects: Bool = true,
    network: WireNetwork = WireNetwork()
  ) throws -> Int64 {
    try call(
      .sessionOpen(
        SessionOpenParameters(
          app: app, identifier: identifier, attach: attach, collectsResults: collects, network: network)),
      SessionOpenResult.self
    ).session
  }

  func enqueue(_ specifications: [WireTaskSpecification], in session: Int64) throws -> [EnqueuedTask] {
    try call(
      .taskEnqueue(TaskEnqueueParameters(session: session, tasks: specifications)), TaskEnqueueResult.self
    ).tasks
  }

  /// Enqueues one task; throws the error that kept it out.
  @discardableResult
  func enqueue(_ specification: WireTaskSpecification, in session: Int64) throws -> Int64 {
    let receipt = try enqueue([specification], in: session)[0]
    if let error = receipt.error { throw Failure.refused(error) }
    return receipt.id ?? -1
  }

  @discardableResult
  func download(_ url: String, to path: String? = nil, in session: Int64) throws -> Int64 {
    try enqueue(.download(url, to: path), in: session)
  }

  func show(_ id: Int64) throws -> TaskSnapshot {
    try call(.taskShow(TaskShowParameters(id: id)), TaskShowResult.self).task
  }

  /// All tasks, page by page.
  func list(session: Int64? = nil) throws -> [TaskSnapshot] {
    var tasks: [TaskSnapshot] = []
    var after: Int64?
    repeat {
      let page = try call(.taskList(TaskListParameters(after: after, session: session)), TaskListResult.self)
      tasks += page.tasks
      after = page.next
    } while after != nil
    return tasks
  }

  func status() throws -> DaemonStatusResult { try call(.daemonStatus(EmptyParameters()), DaemonStatusResult.self) }

  func acknowledge(_ numbers: [Int64], in session: Int64) throws {
    _ = try call(
      .deliveryAcknowledge(DeliveryAcknowledgeParameters(session: session, numbers: numbers)), EmptyResult.self)
  }

  func watch(_ id: Int64) throws {
    _ = try call(.taskWatch(TaskWatchParameters(ids: [id])), TaskIdentifiersResult.self)
  }

  /// Watches a task until `condition` holds of it.
  @discardableResult
  func waitForTask(
    _ id: Int64, _ what: String, seconds: Double = 60, until condition: (TaskSnapshot) -> Bool
  ) throws -> TaskSnapshot {
    try watch(id)
    return try wait(for: "task \(id) \(what)", seconds: seconds) { notification in
      guard case .taskState(let notice) = notification, notice.task.id == id, condition(notice.task) else {
        return nil
      }
      return notice.task
    }
  }

  /// Watches a task until it has ended.
  func waitForEnd(of id: Int64, seconds: Double = 60) throws -> TaskSnapshot {
    try waitForTask(id, "ends", seconds: seconds) { $0.hasEnded }
  }

  /// Watches a task until so many bytes are in.
  func waitForBytes(of id: Int64, atLeast count: Int64, seconds: Double = 60) throws {
    try watch(id)
    try wait(for: "\(count) bytes of task \(id)", seconds: seconds) { notification in
      switch notification {
      case .taskProgress(let notice) where notice.id == id: notice.received >= count ? () : nil
      case .taskState(let notice) where notice.task.id == id: notice.task.received >= count ? () : nil
      default: nil
      }
    }
  }

  /// The next delivery.
  func delivery(seconds: Double = 60) throws -> DeliveryNotice {
    try wait(for: "a delivery", seconds: seconds) { notification in
      if case .delivery(let notice) = notification { notice } else { nil }
    }
  }
}

extension TaskSnapshot {
  var hasEnded: Bool { ["succeeded", "failed", "cancelled"].contains(state) }
}

extension WireTaskSpecification {
  static func download(_ url: String, to path: String? = nil, key: String? = nil) -> WireTaskSpecification {
    var specification = WireTaskSpecification(kind: "download", url: url)
    specification.destination = path
    specification.key = key
    return specification
  }

  static func upload(_ source: String, to url: String, method: String = "PUT") -> WireTaskSpecification {
    var specification = WireTaskSpecification(kind: "upload", url: url)
    specification.source = source
    specification.method = method
    return specification
  }
}
