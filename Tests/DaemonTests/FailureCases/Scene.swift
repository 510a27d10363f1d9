import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import TransferCore
import WireProtocol

@testable import FerryClient

/// What a test of one failure needs: a folder of its own, a real daemon, one attached session, and all that it told.
///
/// Every wait is for an event, with a deadline; a wait that fails says what was waited for and how the task stood.
final class Scene: Sendable {
  struct Trouble: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
  }

  private struct State {
    var daemon: Int32?
    var starts = 0
    var connection: DaemonConnection?
    /// Which connection is the present one: what an earlier one had read already counts no more.
    var clients = 0
    var session: Int64 = 0
    var latest: [Int64: TaskSnapshot] = [:]
    var states: [Int64: [String]] = [:]
    var progress: [TaskProgressNotice] = []
    var resumptions: [TaskResumedNotice] = []
    var deliveries: [DeliveryNotice] = []
    var questions: [TaskSnapshot] = []
    var log = ""
    var isSilent = true

    mutating func note(_ task: TaskSnapshot) {
      latest[task.id] = task
      states[task.id, default: []].append(task.state)
    }
  }

  let folder: String
  let network: WireNetwork
  let answersChallenges: Bool
  private let environment: [String: String]
  /// Stands before the daemon's program on its command line.
  private let wrapper: [String]
  nonisolated(unsafe) private var state = State()
  private let condition = NSCondition()

  var home: String { "\(folder)/home" }
  /// What the daemons of this scene have said.
  var log: String { locked { $0.log } }

  init(
    network: WireNetwork = WireNetwork(), environment: [String: String] = [:], wrapper: [String] = [],
    isAttached: Bool = true, answersChallenges: Bool = false
  ) throws {
    folder = "/tmp/ferry-case-\(Clocks.randomWord())"
    self.network = network
    self.answersChallenges = answersChallenges
    self.environment = environment
    self.wrapper = wrapper
    try Files.makePrivateDirectory(folder)
    try start(attaching: isAttached)
  }

  deinit {
    // Signals and names below are by id: only what this scene started.
    close()
    try? end(SIGKILL)
    try? FileManager.default.removeItem(atPath: folder)
  }

  // MARK: The daemon

  static let programFolder: String = {
    // Of the test bundle, not of the program that runs it.
    var path = Bundle.main.bundlePath
    for candidate in Bundle.allBundles.map(\.bundlePath) + [path, (try? ChildProcess.executablePath()) ?? ""] {
      for folder in [candidate, Files.parent(of: candidate)] where isExecutable("\(folder)/ferryd") { return folder }
    }
    path = FileManager.default.currentDirectoryPath + "/.build/debug"
    return path
  }()

  static func isExecutable(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }

  /// Starts the daemon, with what is given beside the scene's environment, and opens the session.
  func start(_ extra: [String: String] = [:], attaching: Bool = true) throws {
    var variables = ["FERRY_HOME": home, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]
    variables.merge(DaemonHome.quietDevice) { $1 }
    variables.merge(environment) { $1 }
    variables.merge(extra) { $1 }
    let output = Pipe()
    let command = wrapper + ["\(Self.programFolder)/ferryd", "--foreground"]
    locked { $0.isSilent = true }
    let child = try ChildProcess.spawn(
      path: command[0], arguments: command, environment: variables,
      standardError: .descriptor(output.fileHandleForWriting.fileDescriptor), newSession: true)
    try output.fileHandleForWriting.close()
    locked { $0.daemon = child }
    let reader = output.fileHandleForReading
    Thread.detachNewThread { [weak self] in
      while case let bytes = reader.availableData, !bytes.isEmpty {
        self?.heard(String(decoding: bytes, as: UTF8.self))
      }
    }
    try waitForStart()
    try connect(attaching: attaching)
  }

  private func heard(_ words: String) {
    locked { state in
      state.log += words
      if words.contains(" started with ") { state.isSilent = false }
    }
    condition.broadcast()
  }

  private func waitForStart() throws {
    let deadline = Date(timeIntervalSinceNow: 30)
    condition.lock()
    defer { condition.unlock() }
    while unsafe state.isSilent {
      guard condition.wait(until: deadline) else {
        throw Trouble("the daemon did not start; log:\n\(unsafe state.log.suffix(2000))")
      }
    }
  }

  var processID: Int32 { locked { $0.daemon ?? -1 } }

  /// Ends the daemon and waits until it is gone.
  func end(_ signal: Int32) throws {
    guard
      let child = locked({ state in
        defer { state.daemon = nil }; return state.daemon
      })
    else { return }
    kill(child, signal)
    _ = try ChildProcess.wait(child)
  }

  /// Leaves the daemon, ends it, starts it again and comes back.
  func restart(_ signal: Int32 = SIGKILL, _ extra: [String: String] = [:], meanwhile: () throws -> Void = {}) throws {
    close()
    try end(signal)
    try meanwhile()
    try start(extra)
  }

  // MARK: The session

  func close() {
    locked { state in
      state.clients += 1
      defer { state.connection = nil }; return state.connection
    }?.close()
  }

  func connect(attaching: Bool = true) throws {
    let client = locked { state in
      state.clients += 1
      return state.clients
    }
    let connection = try DaemonConnection.open(
      client: "failure-cases/1", environment: ["FERRY_HOME": home], startsDaemon: false, deadline: .seconds(20)
    ) { [weak self] in self?.note($0, from: client) }
    locked { state in
      state.connection = connection
      state.latest = [:]
    }
    let opened = try connection.call(
      .sessionOpen(
        SessionOpenParameters(
          app: "tests", identifier: "cases", attach: attaching, collectsResults: true, network: network,
          answersChallenges: answersChallenges)),
      returning: SessionOpenResult.self)
    locked { $0.session = opened.session }
  }

  func call<R: Decodable & Sendable>(_ request: ClientRequest, _ type: R.Type) throws -> R {
    guard let connection = locked({ $0.connection }) else { throw Trouble("there is no connection") }
    return try connection.call(request, returning: type)
  }

  var session: Int64 { locked { $0.session } }

  /// Enqueues under the session (or another one), and gives the outcomes in order.
  func enqueue(_ tasks: [WireTaskSpecification], in session: Int64? = nil) throws -> [EnqueuedTask] {
    try call(
      .taskEnqueue(TaskEnqueueParameters(session: session ?? self.session, tasks: tasks)), TaskEnqueueResult.self
    ).tasks
  }

  func enqueue(_ task: WireTaskSpecification, in session: Int64? = nil) throws -> Int64 {
    let outcome = try enqueue([task], in: session)[0]
    if let error = outcome.error { throw error }
    guard let id = outcome.id else { throw Trouble("the receipt has no id") }
    return id
  }

  /// Enqueues a download to `name` in the scene's folder.
  func get(
    _ url: String, to name: String = "result", _ change: (inout WireTaskSpecification) -> Void = { _ in }
  ) throws -> Int64 {
    var task = WireTaskSpecification(kind: "download", url: url)
    task.destination = "\(folder)/\(name)"
    change(&task)
    return try enqueue(task)
  }

  /// Enqueues downloads to names in the scene's folder, all in one request.
  func getAtOnce(_ files: [(url: String, name: String)]) throws -> [Int64] {
    try enqueue(
      files.map { file in
        var task = WireTaskSpecification(kind: "download", url: file.url)
        task.destination = path(file.name)
        return task
      }
    ).map { outcome in
      if let error = outcome.error { throw error }
      return outcome.id ?? 0
    }
  }

  /// Enqueues an upload of `source`.
  func put(
    _ source: String, to url: String, _ change: (inout WireTaskSpecification) -> Void = { _ in }
  ) throws -> Int64 {
    var task = WireTaskSpecification(kind: "upload", url: url)
    task.source = source
    change(&task)
    return try enqueue(task)
  }

  func show(_ id: Int64) throws -> TaskSnapshot {
    try call(.taskShow(TaskShowParameters(id: id)), TaskShowResult.self).task
  }

  func acknowledge(_ numbers: [Int64]) throws {
    _ = try call(
      .deliveryAcknowledge(DeliveryAcknowledgeParameters(session: session, numbers: numbers)), EmptyResult.self)
  }

  func suspend(_ id: Int64) throws {
    _ = try call(.taskSuspend(TaskIdentifiersParameters(ids: [id])), TaskIdentifiersResult.self)
  }

  func resume(_ id: Int64) throws {
    _ = try call(.taskResume(TaskIdentifiersParameters(ids: [id])), TaskIdentifiersResult.self)
  }

  // MARK: What was told

  private func locked<R>(_ body: (inout State) -> R) -> R {
    condition.lock()
    defer { condition.unlock() }
    return unsafe body(&state)
  }

  private func note(_ notification: DaemonNotification, from client: Int) {
    locked { state in
      guard client == state.clients else { return }
      switch notification {
      case .taskState(let notice): state.note(notice.task)
      case .taskProgress(let notice):
        state.latest[notice.id]?.received = notice.received
        state.latest[notice.id]?.expected = notice.expected
        state.latest[notice.id]?.sent = notice.sent
        state.progress.append(notice)
      case .taskResumed(let notice): state.resumptions.append(notice)
      case .delivery(let notice):
        state.deliveries.append(notice)
        // A result tells the end of its task, and nothing else does.
        if let task = notice.task, state.latest[task.id]?.state != task.state { state.note(task) }
      case .taskQuestion(let notice):
        state.latest[notice.task.id] = notice.task
        state.questions.append(notice.task)
      case .taskResponse, .taskData, .taskRemoved, .sessionEnded, .goodbye, .appWake: break
      }
    }
    condition.broadcast()
  }

  func resumptions(_ id: Int64) -> [Int64] { locked { $0.resumptions.filter { $0.id == id }.map(\.offset) } }
  func progress(_ id: Int64) -> [TaskProgressNotice] { locked { $0.progress.filter { $0.id == id } } }
  func states(_ id: Int64) -> [String] { locked { $0.states[id] ?? [] } }
  var deliveries: [DeliveryNotice] { locked { $0.deliveries } }
  /// Tasks whose question was put before this client, in order.
  var questions: [TaskSnapshot] { locked { $0.questions } }
  func forgetDeliveries() { locked { $0.deliveries = [] } }

  /// Waits until the task satisfies `condition`.
  @discardableResult
  func wait(
    _ id: Int64, seconds: Double = 30, for what: String, until holds: (TaskSnapshot) -> Bool
  ) throws -> TaskSnapshot {
    let first = try show(id)
    if holds(first) { return first }
    let deadline = Date(timeIntervalSinceNow: seconds)
    condition.lock()
    defer { condition.unlock() }
    while true {
      if let found = unsafe state.latest[id], holds(found) { return found }
      guard condition.wait(until: deadline) else {
        let last = unsafe state.latest[id] ?? first
        throw Trouble(
          "waited \(seconds) s for \(what); the task is \(Self.text(last)); log:\n\(unsafe state.log.suffix(2000))")
      }
    }
  }

  /// Waits until the task has ended, however.
  func ended(_ id: Int64, seconds: Double = 30) throws -> TaskSnapshot {
    try wait(id, seconds: seconds, for: "the end") { ["succeeded", "failed", "cancelled"].contains($0.state) }
  }

  func waitForDeliveries(_ what: String, seconds: Double = 30, until holds: ([DeliveryNotice]) -> Bool) throws {
    let deadline = Date(timeIntervalSinceNow: seconds)
    condition.lock()
    defer { condition.unlock() }
    while unsafe !holds(state.deliveries) {
      guard condition.wait(until: deadline) else {
        throw Trouble("waited \(seconds) s for \(what); deliveries: \(unsafe state.deliveries.map(\.kind))")
      }
    }
  }

  static func text(_ task: TaskSnapshot) -> String {
    "\(task.state) \(task.received)/\(task.expected ?? -1), \(task.attempts) attempts, reason \(task.reason ?? "none"),"
      + " error \(task.error.map { "\($0.code): \($0.detail)" } ?? "none")"
  }

  // MARK: Files

  func path(_ name: String) -> String { "\(folder)/\(name)" }

  func bytes(_ name: String) throws -> [UInt8] { try Files.read(path(name), limitBytes: 1 << 30) }

  /// Makes a file in the scene's folder; its path.
  func write(_ name: String, _ bytes: [UInt8]) throws -> String {
    let file = try Files.createPrivate(path(name))
    try Syscall.writeAll(file.raw, bytes)
    return path(name)
  }

  /// Names in the scene's folder but the daemon's own.
  func names(_ folder: String? = nil) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder ?? self.folder)
      .filter { $0 != "home" }.sorted()
  }
}

/// Answers one request after another, by its place in the order of arrival.
final class Script: Sendable {
  private let count = Counter()
  private let answers: [@Sendable (Request) -> Response]

  /// The last answer is given to all requests that follow.
  init(_ answers: [@Sendable (Request) -> Response]) { self.answers = answers }

  func answer(_ request: Request) -> Response { answers[min(count.next() - 1, answers.count - 1)](request) }

  static func start(_ answers: (@Sendable (Request) -> Response)...) throws -> LocalServer {
    let script = Script(answers)
    return try LocalServer.start { script.answer($0) }
  }
}

/// Counts from 1.
final class Counter: Sendable {
  private let lock = NSLock()
  nonisolated(unsafe) private var value = 0

  func next() -> Int {
    lock.lock()
    defer { lock.unlock() }
    unsafe value += 1
    return unsafe value
  }
}

/// Counts the requests of each path from 1.
final class PathCounter: Sendable {
  private let lock = NSLock()
  nonisolated(unsafe) private var values: [String: Int] = [:]

  func next(_ path: String) -> Int {
    lock.lock()
    defer { lock.unlock() }
    unsafe values[path, default: 0] += 1
    return unsafe values[path, default: 0]
  }
}

extension Scene {
  /// Waits until the daemon has died by itself.
  func waitForDeath() throws {
    close()
    let child = processID
    let watch = try ChildProcess.watch(child)
    var entry = pollfd(fd: watch.raw, events: Int16(POLLIN), revents: 0)
    guard unsafe poll(&entry, 1, 30_000) == 1 else {
      throw Trouble("the daemon did not die; log:\n\(log.suffix(2000))")
    }
    try end(SIGKILL)
  }
}

extension Scene {
  static func temporaryFolder() throws -> String {
    let path = "/tmp/ferry-case-\(Clocks.randomWord())"
    try Files.makePrivateDirectory(path)
    return path
  }

  /// Waits until just these names are in the scene's folder: files go a moment after the state is told.
  func waitForNames(_ expected: [String], in folder: String? = nil) throws {
    let deadline = BootInstant.now() + .seconds(10)
    while try names(folder) != expected {
      guard BootInstant.now() < deadline else { throw Trouble("files are left: \(try names(folder))") }
      _ = try call(.daemonStatus(EmptyParameters()), DaemonStatusResult.self)
    }
  }
}

/// Another program, run to its end.
enum Tool {
  struct Outcome {
    var status: Int32
    var output: String
  }

  static func run(
    _ path: String, _ arguments: [String], environment: [String: String] = [:]
  ) throws -> Outcome {
    let process = Process()
    process.executableURL = URL(filePath: path)
    process.arguments = arguments
    process.environment = ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"].merging(environment) { $1 }
    let output = Pipe()
    process.standardOutput = output
    process.standardError = output
    process.standardInput = FileHandle.nullDevice
    try process.run()
    let bytes = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return Outcome(status: process.terminationStatus, output: String(decoding: bytes, as: UTF8.self))
  }
}
