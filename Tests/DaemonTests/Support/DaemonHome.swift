import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

// How to use this harness
//
//   let home = try DaemonHome()                     // a FERRY_HOME of its own; everything in it ends with it
//   let daemon = try home.startForeground()         // or startSupervised(); returns when the daemon answers
//   let client = try home.connect()                 // hello is said; see ProtocolClient
//   let session = try client.open("s")              // attached
//   let id = try client.download(server.url("/a"), in: session)           // or to: home.path + "/out/a"
//   let task = try client.waitForEnd(of: id)        // task.watch, until it is succeeded, failed or cancelled
//   expectContent(task.file, GeneratedContent(length: 1000, seed: 1))
//
// Environment for the daemon: DaemonHome(["FERRY_FAULT": "file.place:1:kill", "FERRY_TEST_BOOT_ID": "b"]), and
// startForeground(["…": "…"]) for one start. A Program is a child; its end is waited for with `wait(seconds:)`, its
// standard error is `errorText`. `home.run("ferry", ["list"])` runs a program that the build made and gives its output.
// Every wait has a deadline and throws `Late` when it passes. Whatever was started here is killed at the end, whatever
// happens: children by their id, their children (the daemon of a supervisor) by the FERRY_HOME in their environment.

/// Something did not happen in its time.
struct Late: Error, CustomStringConvertible {
  let what: String
  var description: String { "not in time: \(what)" }
  init(_ what: String) { self.what = what }
}

/// A moment by which something must have happened.
struct Deadline: Sendable {
  private let end: ContinuousClock.Instant
  init(seconds: Double) { end = .now + .milliseconds(Int64(seconds * 1000)) }
  var isOver: Bool { ContinuousClock.now >= end }
  var milliseconds: Int32 {
    let (seconds, attoseconds) = (end - .now).components
    return Int32(clamping: max(0, seconds * 1000 + attoseconds / 1_000_000_000_000_000))
  }
}

/// How long anything may take that takes milliseconds on an idle machine: tests share it with others, and may run under
/// a sanitizer.
let generousSeconds = 30.0

/// Asks again and again until there is an answer. For facts that no event tells (a file, a process of somebody else).
func eventually<T>(
  _ what: @autoclosure () -> String, seconds: Double = generousSeconds, _ body: () throws -> T?
) throws -> T {
  let deadline = Deadline(seconds: seconds)
  while true {
    if let found = try body() { return found }
    if deadline.isOver { throw Late(what()) }
    _ = poll(nil, 0, 5)
  }
}

/// As `eventually` for a condition.
func eventually(
  _ what: @autoclosure () -> String, seconds: Double = generousSeconds, is condition: () throws -> Bool
) throws {
  try eventually(what(), seconds: seconds) { try condition() ? () : nil }
}

/// A folder that is a FERRY_HOME, and the processes that live on it.
final class DaemonHome: Sendable {
  let path: String
  /// What its programs are started with.
  let environment: [String: String]
  /// No source of this machine speaks in: neither its system bus nor its batteries.
  static let quietDevice = ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus", "FERRY_SYSFS": "/nonexistent"]
  private let programs = Mutex<[Program]>([])
  private let removesFolder: Bool

  /// - Parameters:
  ///   - overrides: more environment for its programs.
  ///   - path: an existing empty folder (a small filesystem, say) in place of one under /tmp.
  init(_ overrides: [String: String] = [:], at path: String? = nil) throws {
    self.path = path ?? "/tmp/ferry-daemon-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    removesFolder = path == nil
    try Files.makePrivateDirectory(self.path)
    try Files.makePrivateDirectory(self.path + "/out")
    var values = ["FERRY_HOME": self.path, "HOME": self.path, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"]
    for name in ["LD_LIBRARY_PATH", "TSAN_OPTIONS", "ASAN_OPTIONS"] {
      values[name] = ProcessEnvironment.value(of: name)
    }
    values["FERRY_DAEMON"] = Self.executable("ferryd")
    environment = values.merging(Self.quietDevice) { $1 }.merging(overrides) { $1 }
  }

  deinit { end() }

  /// Ends every process and removes the folder.
  func end() {
    // Supervisors are children and go first, else they start their daemons again.
    programs.withLock { programs in
      for program in programs { program.kill() }
      programs.removeAll()
    }
    for process in strangers() { kill(process, SIGKILL) }
    _ = try? eventually("the processes of \(path) end", is: { strangers().isEmpty })
    if removesFolder { Shell.remove(path) }
  }

  /// Processes on this home that are not children of the tests: daemons of supervisors, supervisors of commands.
  func strangers() -> [Int32] {
    ProcessFacts.all().filter { ProcessFacts.environment($0).contains("FERRY_HOME=\(path)") }
  }

  /// A program that the build put beside the tests.
  static func executable(_ name: String) -> String {
    ((try? ChildProcess.executablePath()).map { Files.parent(of: $0) } ?? "") + "/" + name
  }

  var socketPath: String { path + "/ferryd.sock" }
  var lockPath: String { path + "/ferryd.lock" }
  var logText: String { (try? readText(path + "/ferryd.log")) ?? "" }
  /// Folder for the files of tasks with a destination.
  var out: String { path + "/out" }

  // MARK: Daemons

  /// A daemon as a person starts it; returns when it answers.
  @discardableResult
  func startForeground(_ extra: [String: String] = [:]) throws -> Program {
    let program = try start("ferryd", ["--foreground"], extra)
    try waitUntilAnswering(program)
    return program
  }

  /// A supervisor and its daemon as a client starts them; returns the supervisor when the daemon answers.
  @discardableResult
  func startSupervised(_ extra: [String: String] = [:]) throws -> Program {
    let program = try start("ferryd", ["--supervise"], extra)
    try waitUntilAnswering(program)
    return program
  }

  /// Starts a program of the build on this home, without waiting for anything.
  func start(_ name: String, _ arguments: [String], _ extra: [String: String] = [:]) throws -> Program {
    let program = try Program(
      Self.executable(name), arguments, environment: environment.merging(extra) { $1 }, folder: path)
    programs.withLock { $0.append(program) }
    return program
  }

  /// Runs a program of the build to its end.
  func run(
    _ name: String, _ arguments: [String], _ extra: [String: String] = [:], seconds: Double = 60
  ) throws -> (status: ChildProcess.ExitStatus, output: String, errors: String) {
    let program = try start(name, arguments, extra)
    let status = try program.wait(seconds: seconds)
    return (status, program.outputText, program.errorText)
  }

  private func waitUntilAnswering(_ program: Program) throws {
    try eventually("the daemon of \(path) answers (\(program.errorText))") {
      if let client = try? ProtocolClient(self) { return client.close() }
      if let status = program.status { throw Late("ferryd ended at once: \(status) \(program.errorText)") }
      return nil
    }
  }

  /// The process that holds the state directory; nil while none does.
  var daemonProcessID: Int32? {
    guard (try? InstanceLock.isHeld(lockPath)) == true else { return nil }
    return (try? InstanceLock.read(lockPath))?.processID
  }

  /// A client that has said hello; waits while no daemon answers.
  func connect(seconds: Double = generousSeconds) throws -> ProtocolClient {
    try eventually("a daemon answers at \(path): \(logText.suffix(500))", seconds: seconds) {
      try? ProtocolClient(self)
    }
  }

  /// kill -9 of the daemon that answers now; returns when it is dead.
  @discardableResult
  func killDaemon() throws -> Int32 {
    let process = try #require(daemonProcessID, "no daemon to kill at \(path)")
    let watch = try ChildProcess.watch(process)
    try ChildProcess.signal(watch.raw, SIGKILL)
    guard try !Syscall.poll(watch.raw, for: .readable, timeoutMilliseconds: 30_000).isEmpty else {
      throw Late("process \(process) dies")
    }
    return process
  }

  /// Follows a task over the deaths of its daemon until it has ended.
  func waitForEnd(of id: Int64, seconds: Double = 60) throws -> TaskSnapshot {
    let deadline = Deadline(seconds: seconds)
    while true {
      do {
        let client = try connect(seconds: Double(deadline.milliseconds) / 1000)
        defer { client.close() }
        return try client.waitForEnd(of: id, seconds: Double(deadline.milliseconds) / 1000)
      } catch ProtocolClient.Failure.ended {
        if deadline.isOver { throw Late("the end of task \(id)") }
      }
    }
  }

  /// Names in a folder, "." and ".." left out, sorted; empty where there is none.
  static func names(in folder: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted()
  }

  /// Every file below the daemon's own folders: part files, finished files, pinned sources.
  func ownFiles() -> [String] {
    let roots = [path + "/com.apple.nsurlsessiond", path + "/sources"]
    return roots.flatMap { root in
      ((try? FileManager.default.subpathsOfDirectory(atPath: root)) ?? []).map { root + "/" + $0 }
    }.filter { path in
      var status = stat()
      return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
    }.sorted()
  }
}

func readText(_ path: String) throws -> String {
  String(decoding: try Files.read(path, limitBytes: 64 << 20), as: UTF8.self)
}

/// Fails the test unless the file is the whole content, byte for byte.
func expectContent(
  _ path: String?, _ content: GeneratedContent, _ comment: String = "",
  sourceLocation: SourceLocation = #_sourceLocation
) {
  guard let path, let bytes = try? Files.read(path, limitBytes: content.length + 1) else {
    Issue.record("\(comment) no file at \(path ?? "no path")", sourceLocation: sourceLocation)
    return
  }
  #expect(bytes.count == content.length, "\(comment) \(path)", sourceLocation: sourceLocation)
  let mismatch = content.verify(bytes)
  #expect(mismatch == nil, "\(comment) \(path): \(mismatch.map { "\($0)" } ?? "")", sourceLocation: sourceLocation)
}
