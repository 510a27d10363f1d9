import Glibc
import LinuxSystem
import TransferCore

/// What workers do for apps: each function may block.
enum AppJobs {
  /// So much of the end of an app's output is kept (`ferry app show`).
  static let outputBytes = 4 << 10
  /// A file of output that has grown so far is cut down to that end.
  static let outputBoundBytes: Int64 = 64 << 10
  /// A registration is a few hundred bytes.
  static let registrationBytes = 64 << 10

  struct Spawned: Sendable {
    var processID: Int32
    /// A pidfd, to be adopted.
    var watch: Int32
  }

  enum SpawnOutcome: Sendable {
    case spawned(Spawned)
    case failed(String)
  }

  // MARK: Starting

  static func spawn(_ order: LaunchOrder, environment: [String: String], outputPath: String) -> SpawnOutcome {
    guard let path = order.command.first else { return .failed("The app has no command.") }
    do throws(SystemError) {
      try FaultPoint.reach("launch.spawn")
      try Files.makePrivateDirectory(Files.parent(of: outputPath))
      try Files.remove(outputPath)
      let output = try Files.createPrivate(outputPath)
      try Files.setAppending(output.raw)
      let home = environment["HOME"] ?? "/"
      let processID = try ChildProcess.spawn(
        path: path, arguments: order.command, environment: environment,
        directory: Files.isDirectory(home) ? home : "/", standardOutput: .descriptor(output.raw),
        standardError: .descriptor(output.raw), newSession: true)
      try FaultPoint.reach("launch.spawned")
      let watch = try ChildProcess.watch(processID)
      return .spawned(Spawned(processID: processID, watch: watch.take()))
    } catch {
      try? Files.remove(outputPath)
      return .failed(explain(error, path))
    }
  }

  /// What to do about a program that cannot be started (failure case 53).
  private static func explain(_ error: SystemError, _ path: String) -> String {
    let cause: String? =
      switch error.number {
      case ENOENT where !Files.exists(path): "there is no such file; install it, or register the app anew"
      case ENOENT: "the interpreter that its first line names does not exist"
      case EACCES where Files.isDirectory(path): "it is a folder; register the app anew with the program's own path"
      case EACCES: "it is not executable, or a folder on the way to it is closed; chmod +x it"
      case ENOEXEC: "it is no program, and its first line names no interpreter (#!)"
      case ENOTDIR: "a part of its path is no folder"
      default: nil
      }
    return "\(path) could not be started: \(cause ?? "\(error)")."
  }

  // MARK: Ending

  /// Reaps a child, or notes that it was none of ours, and takes the end of its output.
  static func end(_ processID: Int32, isChild: Bool, outputPath: String) -> (ProcessEnding, String) {
    var ending = ProcessEnding.unknown
    if isChild, let status = try? ChildProcess.wait(processID) {
      ending =
        switch status {
        case .exited(let code): .exited(code: code)
        case .signalled(let number): .signalled(number: number)
        }
    }
    let text = output(outputPath)
    try? Files.remove(outputPath)
    return (ending, text)
  }

  /// The end of an app's output as text that a database and a terminal can hold.
  static func output(_ path: String) -> String {
    guard let file = try? OwnedDescriptor.open(path, .read, followingSymlinks: false),
      let bytes = try? Files.tail(file.raw, bytes: outputBytes)
    else { return "" }
    return String(decoding: bytes.map { $0 == 0 ? UInt8(ascii: "?") : $0 }, as: UTF8.self)
  }

  /// Cuts a file of output that has grown too large; what its writers add goes to the new end.
  static func trim(_ path: String) {
    guard let file = try? OwnedDescriptor.open(path, .readWrite, followingSymlinks: false),
      let identity = try? Files.identity(descriptor: file.raw), identity.sizeBytes > outputBoundBytes,
      let bytes = try? Files.tail(file.raw, bytes: outputBytes)
    else { return }
    try? Files.truncate(file.raw, toBytes: 0)
    try? Files.setAppending(file.raw)
    try? Syscall.writeAll(file.raw, bytes)
  }

  // MARK: Finding

  /// The launch that a process, or one that it descends from, was started by.
  static func launch(of processID: Int32, app: String) -> Int64? {
    guard let environment = ProcessTable.environment(of: processID), environment["FERRY_APP_ID"] == app else {
      return nil
    }
    return environment["FERRY_LAUNCH"].flatMap { Int64($0) }
  }

  /// The process of a launch that an earlier daemon began: the one that it noted, if that is still the same, else the
  /// first whose environment says so. Before and in the midst of execve(2) it has no environment of its own; then its
  /// output, which goes to the launch's file by that time, says it.
  static func find(app: String, launch: Int64, processID: Int32?, outputPath: String) -> Spawned? {
    func matches(_ candidate: Int32) -> Spawned? {
      // The descriptor first: what it stands for is what is looked at then.
      guard let watch = try? ChildProcess.watch(candidate) else { return nil }
      let known = Self.launch(of: candidate, app: app)
      guard known == launch || known == nil && ProcessTable.writes(candidate, to: outputPath) else { return nil }
      return Spawned(processID: candidate, watch: watch.take())
    }
    if let processID { return matches(processID) }
    for candidate in ProcessTable.all() {
      if let found = matches(candidate) { return found }
    }
    return nil
  }
}
