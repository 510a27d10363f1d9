import Foundation
import Glibc
import LoopbackServer

/// A person's machine for one test: a home folder, a daemon in it, and programs that are started there.
final class Desk: @unchecked Sendable {
  let home: URL
  private let environment: [String: String]

  /// Socket paths are short, so the folder is too.
  init() throws {
    home = URL(fileURLWithPath: "/tmp/ferry-c\(UInt32.random(in: 0 ... .max))", isDirectory: true)
    try FileManager.default.createDirectory(
      at: home.appendingPathComponent(".cache"), withIntermediateDirectories: true)
    var environment = ProcessInfo.processInfo.environment
    for name in ["http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "XDG_CACHE_HOME"] {
      environment[name] = nil
    }
    environment["HOME"] = home.path
    environment["FERRY_HOME"] = home.appendingPathComponent("f").path
    environment["FERRY_DAEMON"] = Self.daemon
    self.environment = environment
  }

  /// `FERRY_DAEMON`, else the one that the package beside this one has built.
  private static var daemon: String {
    ProcessInfo.processInfo.environment["FERRY_DAEMON"]
      ?? URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
        "../../../.build/debug/ferryd"
      )
      .standardizedFileURL.path
  }

  /// Where the build puts programs: beside the one that runs the tests.
  static var programs: URL {
    URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
  }

  var caches: URL { home.appendingPathComponent(".cache") }

  func text(_ file: String) -> String {
    (try? String(contentsOf: home.appendingPathComponent(file), encoding: .utf8)) ?? ""
  }

  func content(_ file: String) -> [UInt8] {
    (try? Data(contentsOf: home.appendingPathComponent(file))).map(Array.init) ?? []
  }

  func lines(_ file: String) -> [String] { text(file).split(separator: "\n").map(String.init) }

  // MARK: Programs

  func start(_ program: String, _ arguments: String...) throws -> Running { try start(program, arguments) }

  /// Runs a program to its end; the test's time limit is the deadline.
  func run(_ program: String, _ arguments: String...) async throws -> [String] {
    try await start(program, arguments).lines()
  }

  private func start(_ program: String, _ arguments: [String]) throws -> Running {
    let process = Process()
    process.executableURL = Self.programs.appendingPathComponent(program)
    process.arguments = arguments
    process.environment = environment
    process.currentDirectoryURL = home
    let output = home.appendingPathComponent("\(program)-\(UInt32.random(in: 0 ... .max)).out")
    _ = FileManager.default.createFile(atPath: output.path, contents: nil)
    let handle = try FileHandle(forWritingTo: output)
    process.standardOutput = handle
    process.standardError = handle
    process.standardInput = FileHandle.nullDevice
    let ended = AsyncStream<Void>.makeStream()
    process.terminationHandler = { _ in ended.continuation.finish() }
    try process.run()
    return Running(process: process, output: output, ended: ended.stream)
  }

  struct Running {
    let process: Process
    let output: URL
    let ended: AsyncStream<Void>

    /// What it wrote, when it has ended.
    func lines() async -> [String] {
      for await _ in ended {}
      let text = (try? String(contentsOf: output, encoding: .utf8)) ?? ""
      return text.split(separator: "\n").map(String.init)
    }

    func kill() async {
      Glibc.kill(process.processIdentifier, SIGKILL)
      for await _ in ended {}
    }
  }

  // MARK: The daemon

  /// The daemon that lives here; nil when none does.
  var daemon: pid_t? {
    guard let pid = lines("f/ferryd.lock").first.flatMap({ pid_t($0) }), pid > 1, Glibc.kill(pid, 0) == 0 else {
      return nil
    }
    return pid
  }

  private static func parent(of pid: pid_t) -> pid_t? {
    let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = status?.split(separator: "\n").first { $0.hasPrefix("PPid:") }
    return line.flatMap { pid_t($0.dropFirst("PPid:".count).trimmingCharacters(in: .whitespaces)) }
  }

  /// Waits until a file of the home says something; looks again until the test's time limit.
  func wait(until holds: () -> Bool) async throws {
    while !holds() {
      try await Task.sleep(for: .milliseconds(20))  // sleep: looks again
    }
  }

  /// Ends the daemon, its supervisor, and programs that it launched from here.
  func clear() {
    if let daemon {
      if let supervisor = Self.parent(of: daemon), supervisor > 1,
        (try? String(contentsOfFile: "/proc/\(supervisor)/comm", encoding: .utf8)) == "ferryd\n"
      {
        Glibc.kill(supervisor, SIGTERM)
      }
      Glibc.kill(daemon, SIGTERM)
      for _ in 0..<500 where Glibc.kill(daemon, 0) == 0 { usleep(10_000) }  // sleep: looks again
      Glibc.kill(daemon, SIGKILL)
    }
    for pid in launched { Glibc.kill(pid, SIGKILL) }
    try? FileManager.default.removeItem(at: home)
  }

  /// Processes of this home's programs that still live, whoever started them.
  var launched: [pid_t] {
    let own = "HOME=\(home.path)"
    return ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).compactMap { pid_t($0) }
      .filter { pid in
        guard let environment = FileManager.default.contents(atPath: "/proc/\(pid)/environ"),
          let program = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/exe")
        else { return false }
        return program.hasPrefix(Self.programs.path + "/")
          && environment.split(separator: 0).contains { $0.elementsEqual(own.utf8) }
      }
  }
}
