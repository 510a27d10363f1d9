import FoundationEssentials
import Glibc
import LinuxSystem
import Synchronization
import WireProtocol

/// A daemon in this process that answers as its script says: one thread accepts, one serves each client.
final class FakeDaemon: Sendable {
  /// What the script may do with one connection.
  final class Client: Sendable {
    let socket: Int32
    let number: Int
    init(socket: Int32, number: Int) {
      self.socket = socket
      self.number = number
    }

    func write(_ line: Data) {
      var offset = 0
      while offset < line.count {
        let count = unsafe line.withUnsafeBytes { bytes in
          unsafe Glibc.send(socket, bytes.baseAddress! + offset, bytes.count - offset, Int32(MSG_NOSIGNAL))
        }
        if count <= 0 { return }
        offset += count
      }
    }
    func result(_ id: Int64?, _ value: some Encodable & Sendable) {
      write(WireCoding.encodeResult(id: id ?? -1, value))
    }
    func error(_ id: Int64?, _ error: WireError) { write(WireCoding.encodeError(id: id, error)) }
    func notify(_ notification: DaemonNotification) { write(WireCoding.encodeNotification(notification)) }
    /// Ends the connection, as a killed daemon does.
    func drop() { _ = shutdown(socket, Int32(SHUT_RDWR)) }
  }

  struct Seen: Sendable {
    var connection: Int
    var id: Int64?
    var request: ClientRequest
  }
  typealias Script = @Sendable (Client, Int64?, ClientRequest) -> Void

  let home: String
  let socketPath: String
  private let script: Script
  private let seen = Mutex<[Seen]>([])
  private let clients = Mutex<[Client]>([])
  private let listener = Mutex<Int32>(-1)
  private let answersHello: Bool

  init(home: String, answersHello: Bool = true, script: @escaping Script) throws {
    self.home = home
    socketPath = home + "/ferryd.sock"
    self.answersHello = answersHello
    self.script = script
    try start()
  }

  var requests: [Seen] { seen.withLock { $0 } }
  var connections: [Client] { clients.withLock { $0 } }

  func start() throws {
    let raw = try UnixSocket.listen(socketPath).take()
    try Syscall.setNonblocking(raw, false)
    listener.withLock { $0 = raw }
    onThread { [self] in
      while true {
        let client = accept(raw, nil, nil)
        if client < 0 { break }
        let connection = clients.withLock { all in
          let connection = Client(socket: client, number: all.count)
          all.append(connection)
          return connection
        }
        onThread { [self] in serve(connection) }
      }
      close(raw)
    }
  }

  /// No new connections, and the present ones end.
  func stop() {
    _ = unsafe unlink(socketPath)
    let raw = listener.withLock { raw in
      let old = raw
      raw = -1
      return old
    }
    if raw >= 0 { _ = shutdown(raw, Int32(SHUT_RDWR)) }
    for client in connections { client.drop() }
  }

  private func serve(_ client: Client) {
    var buffer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = unsafe recv(client.socket, &chunk, chunk.count, 0)
      if count <= 0 { break }
      buffer += chunk[..<count]
      while let newline = buffer.firstIndex(of: 0x0A) {
        let line = Data(buffer[..<newline])
        buffer.removeFirst(newline + 1)
        guard let incoming = try? WireCoding.decodeRequest(line) else { continue }
        seen.withLock { $0.append(Seen(connection: client.number, id: incoming.id, request: incoming.request)) }
        if answersHello, case .hello = incoming.request {
          client.result(
            incoming.id,
            HelloResult(version: WireVersion.current, daemon: "fake/1", pid: getpid(), capabilities: []))
        } else {
          script(client, incoming.id, incoming.request)
        }
      }
    }
  }
}

private final class Job: Sendable {
  let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

func onThread(_ body: @escaping @Sendable () -> Void) {
  var thread = pthread_t()
  unsafe pthread_create(&thread, nil, runJob, Unmanaged.passRetained(Job(body)).toOpaque())
  pthread_detach(thread)
}

private func runJob(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  unsafe Unmanaged<Job>.fromOpaque(context!).takeRetainedValue().body()
  return nil
}

/// A folder that goes at the end of the test.
final class TemporaryFolder: Sendable {
  let path: String
  init() throws {
    let template = (ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp") + "/ferry-client-XXXXXX"
    var bytes = Array(template.utf8CString)
    guard unsafe mkdtemp(&bytes) != nil else { throw SystemError(errno, operation: "mkdtemp") }
    path = String(decoding: bytes.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
  deinit { try? FileManager.default.removeItem(atPath: path) }
  var environment: [String: String] { ["FERRY_HOME": path] }
}

/// Collects values from other threads and lets a test wait for a number of them.
final class Collector<Value: Sendable>: Sendable {
  private let values = Mutex<[Value]>([])
  func append(_ value: Value) { values.withLock { $0.append(value) } }
  var all: [Value] { values.withLock { $0 } }
  func wait(for count: Int, seconds: Int = 20) async throws -> [Value] {
    try await eventually(seconds: seconds) { self.all.count >= count }
    return all
  }
}

struct TimedOut: Error {}

/// Waits until the condition holds; throws after the deadline.
func eventually(seconds: Int = 20, _ condition: @Sendable () -> Bool) async throws {
  let end = ContinuousClock.now + .seconds(seconds)
  while !condition() {
    guard ContinuousClock.now < end else { throw TimedOut() }
    try await Task.sleep(for: .milliseconds(2))  // sleep: looks again
  }
}
