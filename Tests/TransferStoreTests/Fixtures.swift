import Glibc
import Testing
import TransferCore

@testable import TransferStore

/// A folder of its own, removed with its last reference.
final class TemporaryFolder {
  let path: String

  init() throws {
    var template = Array("/tmp/ferry-store-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw FileFailure(number: errno) }
    path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  deinit {
    for name in names { unsafe unlink("\(path)/\(name)") }
    unsafe rmdir(path)
  }

  var database: String { "\(path)/state.sqlite" }

  /// In order.
  var names: [String] {
    guard let folder = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(folder) }
    var names: [String] = []
    while let entry = unsafe readdir(folder) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
        unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names.sorted()
  }

  func read(_ name: String) throws -> [UInt8] {
    guard let file = unsafe fopen("\(path)/\(name)", "rb") else { throw FileFailure(number: errno) }
    defer { unsafe fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65536)
    while case let count = unsafe fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
    return bytes
  }

  func write(_ name: String, _ bytes: [UInt8]) throws {
    guard let file = unsafe fopen("\(path)/\(name)", "wb") else { throw FileFailure(number: errno) }
    defer { unsafe fclose(file) }
    guard unsafe fwrite(bytes, 1, bytes.count, file) == bytes.count else { throw FileFailure(number: errno) }
  }

  func size(_ name: String) -> Int64 {
    var status = stat()
    return unsafe stat("\(path)/\(name)", &status) == 0 ? Int64(status.st_size) : -1
  }

  func mode(_ name: String) -> mode_t? {
    var status = stat()
    return unsafe stat("\(path)/\(name)", &status) == 0 ? status.st_mode & 0o777 : nil
  }

  func rename(_ name: String, _ target: String) throws {
    guard unsafe Glibc.rename("\(path)/\(name)", "\(path)/\(target)") == 0 else { throw FileFailure(number: errno) }
  }

  /// Lets everybody read a file.
  func open(_ name: String) { unsafe chmod("\(path)/\(name)", 0o644) }

  /// Changes the database behind the store's back.
  func tamper(_ statements: String...) throws {
    let connection = try Connection(path: database)
    for statement in statements { try connection.execute(statement) }
  }

  func count(_ table: String) throws -> Int64? {
    try Connection(path: database).integer("SELECT count(*) FROM \(table)")
  }
}

/// Values with something in every field.
enum Sample {
  static func session(_ id: Int64, app: String = "org.example.app") -> SessionRecord {
    SessionRecord(
      id: SessionID(rawValue: id), key: SessionKey(app: app, identifier: "séance \(id)"),
      network: NetworkSettings(
        httpProxy: "http://proxy.example:3128", httpsProxy: "http://user:secret@proxy.example",
        noProxy: "localhost,.lan",
        certificateFile: "/etc/own/ca.pem", maximumConnectionsPerHost: 4),
      collectsResults: false, isInvalidated: false, nextTaskNumber: 1000, nextDelivery: 1000, owesFinishEvents: true,
      unusedSince: WallInstant(milliseconds: 1_790_000_000_000))
  }

  static func entry(_ id: Int64, session: Int64 = 1, kind: TaskKind = .download) -> TaskEntry {
    TaskEntry(
      id: TaskID(rawValue: id), session: SessionID(rawValue: session), number: id, kind: kind, state: .waiting,
      origin: "https://example.org:443", isRepeatable: false, priority: 200, isDiscretionary: true,
      constraints: [.unmetered, .idle], urgentSeconds: .max, received: 11, sent: 12, expected: 13, attempts: 14,
      failures: 15,
      notBefore: WallInstant(milliseconds: -16), deadline: WallInstant(milliseconds: 1_790_000_000_017),
      finishedAt: WallInstant(milliseconds: 18))
  }

  static var plan: TaskPlan {
    TaskPlan(
      kind: .download,
      request: TransferRequest(
        method: "POST", url: "https://example.org/a?b=ü",
        headers: [("Accept", "*/*"), ("X-Empty", ""), ("X-Space", "  two: colons: "), ("accept", "twice")],
        secretHeaderNames: ["X-Token", "X-Other"]),
      source: UploadSource(
        path: "/home/a/b", pinnedPath: "/state/pins/7", pin: .reflink,
        identity: FileIdentity(
          device: .max, inode: 1 << 63, sizeBytes: 5_000_000_000, modifiedNanoseconds: 1_790_000_000_000_000_001)),
      destination: .file(path: "/home/a/Größe\n.iso", collision: .replace), partPath: "/home/a/.x.part",
      expectedSHA256: String(repeating: "ab", count: 32), statusRule: .any, keepsEncoding: true,
      requestTimeout: .milliseconds(1500), resourceTimeout: .seconds(99), key: "klé",
      createdAt: WallInstant(milliseconds: 1_790_000_000_000))
  }

  static var progress: TaskProgress {
    TaskProgress(
      taskDescription: "Ein 'Wort' \"x\"\u{0}y",
      resumePoint: ResumePoint(
        validator: .entityTag("\"abc\""), offset: 4_194_304, total: 5_000_000_000),
      bootID: "0f0e",
      response: ResponseHead(
        status: 206, headers: [("Content-Type", "text/html"), ("Set-Cookie", "a=b; c")], url: "https://cdn.example/z",
        httpVersion: "2"),
      failure: TransferFailure(
        .connectionLost, .transient, domain: "curl", number: -56, detail: "The server closed.", retryAfterSeconds: 7),
      cancelCause: .forceQuit, contentEncoding: "gzip", filePath: "/f", bodyPath: "/b", sha256: "00ff",
      isLengthVerified: false, wasted: 21,
      restarts: 1, metrics: metrics, heldSince: WallInstant(milliseconds: 22),
      earliestBegin: WallInstant(milliseconds: -23), hintToSend: 24, hintToReceive: .max)
  }

  static var metrics: MetricsLog {
    var full = TransactionMetrics(url: "https://example.org/a?b=c", method: "GET", fetchStart: 1_790_000_000_000_001)
    full.status = 206
    full.domainLookupStart = 0
    full.domainLookupEnd = 1
    full.connectStart = 1
    full.secureConnectionStart = 2
    full.secureConnectionEnd = 3
    full.connectEnd = 3
    full.requestStart = 4
    full.requestEnd = 5
    full.responseStart = 6
    full.responseEnd = 7
    full.networkProtocol = "h2"
    full.isProxied = true
    full.isReused = true
    full.requestHeaderBytes = 8
    full.requestBodyBytes = 9
    full.responseHeaderBytes = 10
    full.responseBodyBytes = 11
    full.localAddress = "127.0.0.1"
    full.localPort = 12
    full.remoteAddress = "fe80::1%eth0"
    full.remotePort = 13
    full.tlsVersion = 0x0304
    full.tlsCipherSuite = 0x1301
    return MetricsLog(
      transactions: [full, TransactionMetrics(url: "http://h/", method: "POST", fetchStart: -1)], omitted: 14,
      redirects: 15)
  }

  static var keptPart: KeptPart {
    KeptPart(
      token: ResumeToken(high: .max, low: 7), task: TaskID(rawValue: 5), owner: TaskID(rawValue: 4),
      app: "org.example.app", partPath: "/home/a/.ferry-4.part", request: plan.request,
      destination: .file(path: "/home/a/x", collision: .rename), expectedSHA256: "ab", statusRule: .any,
      keepsEncoding: true, point: ResumePoint(validator: .entityTag("\"x\""), offset: 3, total: 9), received: 4,
      response: ResponseHead(status: 200, headers: [("A", "b")], url: "http://h/", httpVersion: "2"), bootID: "boot",
      keptAt: WallInstant(milliseconds: 99))
  }

  static func details(key: String? = nil, kind: TaskKind = .download) -> TaskDetails {
    var plan = plan
    plan.key = key
    plan.kind = kind
    return TaskDetails(plan: plan, progress: progress)
  }

  static func delivery(_ number: Int64, _ kind: DeliveryKind, task: Int64?, session: Int64 = 1) -> DeliveryRecord {
    DeliveryRecord(
      session: SessionID(rawValue: session), number: DeliveryNumber(rawValue: number), kind: kind,
      task: task.map(TaskID.init(rawValue:)), queuedAt: WallInstant(milliseconds: 1_790_000_000_000))
  }
}

/// The error of an operation that must fail.
func storeError(_ body: () throws(StoreError) -> Void) throws -> StoreError {
  do throws(StoreError) {
    try body()
  } catch {
    return error
  }
  throw NothingThrown()
}

struct NothingThrown: Error {}

struct FileFailure: Error {
  var number: Int32
}
