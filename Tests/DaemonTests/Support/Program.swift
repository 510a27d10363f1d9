import FoundationEssentials
import Glibc
import LinuxSystem
import Synchronization

/// A child process. It is killed when the value goes.
final class Program: Sendable {
  let processID: Int32
  private let name: String
  private let outputPath: String
  private let errorPath: String
  private let ending = Mutex<ChildProcess.ExitStatus?>(nil)

  /// - Parameter folder: where its output is kept, in files of their own.
  init(_ path: String, _ arguments: [String], environment: [String: String], folder: String) throws {
    name = Files.lastComponent(of: path)
    let stem = "\(folder)/\(name)-\(String(Clocks.randomWord(), radix: 36))"
    outputPath = stem + ".out"
    errorPath = stem + ".err"
    let output = try Files.createPrivate(outputPath)
    let errors = try Files.createPrivate(errorPath)
    processID = try ChildProcess.spawn(
      path: path, arguments: [name] + arguments, environment: environment, directory: "/",
      standardOutput: .descriptor(output.raw), standardError: .descriptor(errors.raw), newSession: false)
  }

  deinit { kill() }

  var outputText: String { (try? readText(outputPath)) ?? "" }
  var errorText: String { (try? readText(errorPath)) ?? "" }

  /// How it ended; nil while it runs.
  var status: ChildProcess.ExitStatus? {
    ending.withLock { ending in
      if ending == nil { ending = try? ChildProcess.reap(processID) }
      return ending
    }
  }

  func signal(_ number: Int32) {
    // Under the lock of the reaping: an id that was reaped may be somebody else's by now.
    ending.withLock { ending in
      if ending == nil { _ = Glibc.kill(processID, number) }
    }
  }

  /// Ends it (SIGKILL) and waits until it is gone.
  func kill() {
    ending.withLock { ending in
      guard ending == nil else { return }
      _ = Glibc.kill(processID, SIGKILL)
      ending = try? ChildProcess.wait(processID)
    }
  }

  @discardableResult
  func wait(seconds: Double = generousSeconds) throws -> ChildProcess.ExitStatus {
    if let status { return status }
    let watch = try ChildProcess.watch(processID)
    let milliseconds = Int32(clamping: Int64(seconds * 1000))
    guard try !Syscall.poll(watch.raw, for: .readable, timeoutMilliseconds: milliseconds).isEmpty else {
      throw Late("the end of \(name)")
    }
    guard let status else { throw Late("the end of \(name)") }
    return status
  }
}

/// Small programs of the system.
enum Shell {
  static func remove(_ path: String) { _ = try? run("/bin/rm", ["-rf", "--", path]) }

  /// Runs to its end.
  @discardableResult
  static func run(
    _ path: String, _ arguments: [String], environment: [String: String] = [:]
  ) throws -> ChildProcess.ExitStatus {
    var values = ["PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"]
    values.merge(environment) { $1 }
    let child = try ChildProcess.spawn(
      path: path, arguments: [Files.lastComponent(of: path)] + arguments, environment: values, newSession: false)
    return try ChildProcess.wait(child)
  }

  /// Runs and gives what it printed on both streams.
  static func output(
    _ path: String, _ arguments: [String], environment: [String: String] = [:], seconds: Double = 60
  ) throws -> (status: ChildProcess.ExitStatus, output: String, errors: String) {
    let folder = "/tmp/ferry-shell-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    defer { remove(folder) }
    var values = ["PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"]
    values.merge(environment) { $1 }
    let program = try Program(path, arguments, environment: values, folder: folder)
    let status = try program.wait(seconds: seconds)
    return (status, program.outputText, program.errorText)
  }

  static func isExecutable(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
  static func isWritable(_ path: String) -> Bool { unsafe access(path, W_OK) == 0 }
}

/// What /proc says of processes.
enum ProcessFacts {
  static func all() -> [Int32] {
    ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).compactMap { Int32($0) }
  }

  /// "NAME=VALUE" each, as at its start; empty for a process that is gone or a zombie.
  static func environment(_ process: Int32) -> [String] {
    guard let bytes = try? Files.read("/proc/\(process)/environ", limitBytes: 1 << 20) else { return [] }
    return bytes.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
  }

  static func descriptors(_ process: Int32) -> Int { DaemonHome.names(in: "/proc/\(process)/fd").count }

  /// Memory that is its own (Private_Clean and Private_Dirty), in KiB.
  static func privateKibibytes(_ process: Int32) -> Int {
    let text = (try? readText("/proc/\(process)/smaps_rollup")) ?? ""
    return text.split(separator: "\n").filter { $0.hasPrefix("Private_") }.reduce(0) { sum, line in
      sum + (line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0)
    }
  }

  /// The most memory that it ever had (VmHWM), in KiB: nothing between two looks is missed.
  static func peakKibibytes(_ process: Int32) -> Int {
    let text = (try? readText("/proc/\(process)/status")) ?? ""
    let line = text.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    return line?.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0
  }

  static func parent(_ process: Int32) -> Int32? {
    guard let text = try? readText("/proc/\(process)/stat"), let end = text.lastIndex(of: ")") else { return nil }
    let fields = text[text.index(after: end)...].split(separator: " ")
    return fields.count > 1 ? Int32(fields[1]) : nil
  }
}

/// Knobs of the environment: how much a run does.
enum Knob {
  static func number(_ name: String, _ standard: Int) -> Int {
    ProcessEnvironment.value(of: name).flatMap { Int($0) } ?? standard
  }
}

/// The same numbers in each run with the same seed (SplitMix64); FERRY_SEED sets another.
struct SeededRandom: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}
