import FoundationEssentials
import Glibc
import LinuxSystem
import Testing

/// A FERRY_HOME with a daemon of its own, and a folder to work in; both go at the end, the daemon first.
final class CommandHome: Sendable {
  struct Failed: Error, CustomStringConvertible {
    var description: String
  }

  let root: String
  let work: String
  /// The folder of the built programs: the test bundle stands in it.
  let programs: String
  private let environment: [String: String]

  init() throws {
    let template = (ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp") + "/ferry-command-XXXXXX"
    var bytes = Array(template.utf8CString)
    guard unsafe mkdtemp(&bytes) != nil else { throw SystemError(errno, operation: "mkdtemp") }
    let made = String(decoding: bytes.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    guard let path = unsafe realpath(made, nil) else { throw SystemError(errno, operation: "realpath") }
    root = unsafe String(cString: path)
    unsafe free(path)
    work = root + "/work"
    try FileManager.default.createDirectory(atPath: root + "/home", withIntermediateDirectories: false)
    try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: false)
    guard unsafe chmod(root + "/home", 0o700) == 0 else { throw SystemError(errno, operation: "chmod") }
    programs = Files.parent(of: try ChildProcess.executablePath())
    environment = ["FERRY_HOME": root + "/home", "PATH": "/usr/bin:/bin", "HOME": root, "TERM": "xterm"].merging(
      DaemonHome.quietDevice
    ) { $1 }
  }

  /// Stops the daemon and removes everything. Not in deinit: a failure must be seen.
  func close() throws {
    let stopped = try run("daemon", "stop")
    try FileManager.default.removeItem(atPath: root)
    guard stopped.code == 0 else { throw Failed(description: "daemon stop: \(stopped)") }
  }

  // MARK: Commands

  struct Finished: CustomStringConvertible {
    var code: Int32
    var output: String
    var error: String
    var description: String { "exit code \(code), output \(output.debugDescription), error \(error.debugDescription)" }
  }

  /// A command that was started.
  struct Running: Sendable {
    let processID: Int32
    let outputPath: String
    let errorPath: String

    func interrupt() { kill(processID, SIGINT) }

    /// Waits for the end; after the deadline the command is killed and the test fails.
    func finish(seconds: Int32 = 60) throws -> Finished {
      let watch = try ChildProcess.watch(processID)
      let ready = try Syscall.poll(watch.raw, for: .readable, timeoutMilliseconds: seconds * 1000)
      if !ready.contains(.readable) {
        Issue.record("the command did not end in \(seconds) s")
        kill(processID, SIGKILL)
      }
      let status = try ChildProcess.wait(processID)
      func text(_ path: String) throws -> String {
        String(decoding: try Files.read(path, limitBytes: 64 << 20), as: UTF8.self)
      }
      let code: Int32 =
        switch status {
        case .exited(let code): code
        case .signalled(let number): -number
        }
      return Finished(code: code, output: try text(outputPath), error: try text(errorPath))
    }
  }

  /// - Parameters:
  ///   - extra: variables beside those of the home.
  ///   - terminal: what standard error is, in place of a file.
  func start(_ arguments: [String], _ extra: [String: String] = [:], terminal: Int32? = nil) throws -> Running {
    let name = String(UInt64.random(in: .min ... .max), radix: 36)
    let running = (output: "\(root)/\(name).out", error: "\(root)/\(name).err")
    let output = try Files.createPrivate(running.output)
    let error = try Files.createPrivate(running.error)
    let processID = try ChildProcess.spawn(
      path: programs + "/ferry", arguments: ["ferry"] + arguments, environment: environment.merging(extra) { $1 },
      directory: work,
      standardOutput: .descriptor(output.raw), standardError: .descriptor(terminal ?? error.raw), newSession: false)
    return Running(processID: processID, outputPath: running.output, errorPath: running.error)
  }

  func run(_ arguments: String...) throws -> Finished { try start(arguments).finish() }

  // MARK: What is there

  func file(_ name: String) -> [UInt8]? { try? Files.read("\(work)/\(name)", limitBytes: 256 << 20) }

  func write(_ name: String, _ text: String) throws {
    let file = try Files.createPrivate("\(work)/\(name)")
    try Syscall.writeAll(file.raw, Array(text.utf8))
  }

  /// The task as `show --json` prints it.
  func task(_ id: Int64) throws -> ShownTask {
    let shown = try run("show", "--json", String(id))
    guard shown.code == 0 else { throw Failed(description: "show: \(shown)") }
    return try JSONDecoder().decode(ShownTask.self, from: Data(shown.output.utf8))
  }

  /// Waits until the task looks as it should.
  @discardableResult
  func waitForTask(_ id: Int64, _ what: String, where matches: (ShownTask) -> Bool) throws -> ShownTask {
    let end = ContinuousClock.now + .seconds(60)
    while true {
      let task = try task(id)
      if matches(task) { return task }
      guard ContinuousClock.now < end else { throw Failed(description: "waited for \(what), but: \(task)") }
      poll(nil, 0, 20)
    }
  }
}

/// The documented names of `show --json`, decoded by themselves: a renamed member of the wire must not pass.
struct ShownTask: Decodable {
  struct Failure: Decodable {
    var code: String
    var detail: String
  }
  var id: Int64
  var session: String
  var kind: String
  var state: String
  var reason: String?
  var url: String
  var received: Int64
  var expected: Int64?
  var sent: Int64
  var file: String?
  var error: Failure?
  var attempts: Int64
}

/// Both ends of a terminal of 80 columns (pts(4)).
final class Terminal {
  let master: Int32
  let slave: Int32

  init() throws {
    master = try Syscall.retrying("open", path: "/dev/ptmx") {
      unsafe open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
    }
    // ioctl_tty(2): TIOCSPTLCK unlocks, TIOCGPTN tells the number; Glibc's module shows neither.
    var unlocked: Int32 = 0
    var number: UInt32 = 0
    _ = unsafe ioctl(master, 0x4004_5431, &unlocked)
    _ = unsafe ioctl(master, 0x8004_5430, &number)
    let path = "/dev/pts/\(number)"
    slave = try Syscall.retrying("open", path: path) { unsafe open(path, O_RDWR | O_NOCTTY | O_CLOEXEC) }
    var size = winsize(ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0)
    _ = unsafe ioctl(slave, UInt(TIOCSWINSZ), &size)
  }

  deinit {
    close(slave)
    close(master)
  }

  /// All that was written so far, more if `words` have not come yet.
  func read(until words: String, seconds: Int32 = 60) throws -> String {
    var text: [UInt8] = []
    let end = ContinuousClock.now + .seconds(Int64(seconds))
    while !String(decoding: text, as: UTF8.self).contains(words) {
      guard ContinuousClock.now < end else {
        throw CommandHome.Failed(
          description: "\(words) did not come, but \(String(decoding: text, as: UTF8.self).debugDescription)")
      }
      guard try Syscall.poll(master, for: .readable, timeoutMilliseconds: 200).contains(.readable) else { continue }
      var chunk = [UInt8](repeating: 0, count: 4096)
      guard let count = try Syscall.read(master, into: &chunk) else { continue }
      text += chunk[..<count]
    }
    return String(decoding: text, as: UTF8.self)
  }
}
