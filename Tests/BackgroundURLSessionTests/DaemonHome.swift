import FerryClient
import Foundation
import Glibc
import WireProtocol

@testable import BackgroundURLSession

/// A real daemon of one test, under a folder of its own, started as every client starts one. ``stop()`` ends both.
struct DaemonHome: Sendable {
  let folder: URL
  let environment: [String: String]

  /// Socket paths are short, so the folder is too.
  ///
  /// - Parameter authority: the file of certificates that sessions trust; nil: the system's.
  init(trusting authority: String? = nil) throws {
    folder = URL(fileURLWithPath: "/tmp/ferry-f\(UInt32.random(in: 0 ... .max))", isDirectory: true)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    var environment = ProcessInfo.processInfo.environment
    for name in ["http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "HTTPS_PROXY"] { environment[name] = nil }
    environment["FERRY_HOME"] = folder.path
    environment["FERRY_APP_ID"] = "facade.tests"
    environment["FERRY_DAEMON"] = Self.daemonExecutable.path
    environment["DBUS_SYSTEM_BUS_ADDRESS"] = "unix:path=/nonexistent/bus"
    environment["FERRY_SYSFS"] = "/nonexistent"
    environment["SSL_CERT_FILE"] = authority
    self.environment = environment
  }

  /// Where the build puts executables: beside the one that runs the tests.
  static var daemonExecutable: URL {
    URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
      .appendingPathComponent("ferryd")
  }

  /// The daemon that lives here; nil when none does.
  var daemon: pid_t? {
    guard let lock = try? String(contentsOf: folder.appendingPathComponent("ferryd.lock"), encoding: .utf8),
      let pid = lock.split(separator: "\n").first.flatMap({ pid_t($0) }), pid > 1, Glibc.kill(pid, 0) == 0
    else { return nil }
    return pid
  }

  private static func parent(of pid: pid_t) -> pid_t? {
    let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
    let line = status?.split(separator: "\n").first { $0.hasPrefix("PPid:") }
    return line.flatMap { pid_t($0.dropFirst("PPid:".count).trimmingCharacters(in: .whitespaces)) }
  }

  /// kill -9; its supervisor starts it again.
  func killDaemon() {
    if let daemon { Glibc.kill(daemon, SIGKILL) }
  }

  /// Asks the daemon to stop, which ends its supervisor too, and waits until it is gone.
  func stop() {
    let pid = daemon
    let supervisor = pid.flatMap(Self.parent(of:))
    if let connection = try? DaemonConnection.open(
      client: "tests", environment: environment, startsDaemon: false, onNotification: { _ in })
    {
      _ = try? connection.call(.daemonStop(EmptyParameters()), returning: EmptyResult.self)
      connection.close()
    }
    if let pid {
      for _ in 0..<1000 where Glibc.kill(pid, 0) == 0 { usleep(10_000) }  // sleep: looks again
      Glibc.kill(pid, SIGKILL)
    }
    // An exit test waits for whatever child ends, and would meet this one for ever.
    if let supervisor {
      for _ in 0..<1000 where waitpid(supervisor, nil, WNOHANG) == 0 { usleep(10_000) }  // sleep: looks again
    }
    try? FileManager.default.removeItem(at: folder)
  }

  /// What a new process of the program would have.
  func newProcess() -> SessionRegistry { .connected(in: environment) }
}

extension SessionRegistry {
  /// What the daemon sees when the process ends.
  func endProcess() { (line as? DaemonConnection)?.close() }

  func session(_ delegate: any URLSessionDelegate) -> URLSession {
    URLSession(
      configuration: .background(withIdentifier: "tests.session"), delegate: delegate, delegateQueue: nil,
      registry: self)
  }
}
