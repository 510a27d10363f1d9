import Glibc
import LinuxSystem
import TransferCore

/// The minimal parent of a daemon that a client started: it starts the daemon, and again when it crashed. With the
/// package's units systemd does this.
enum Supervisor {
  /// So many crashes are answered at once; each such span of life gives one of them back. Those beyond wait, twice as
  /// long each time: a daemon that cannot live must not take the machine with it.
  private static let crashesAtOnce = 10
  private static let spanOfLife = Duration.seconds(10)
  private static let longestPause = Duration.seconds(10)

  /// Starts a supervisor that belongs to nobody, and returns when its daemon has the lock, or the status with which it
  /// ended before: so a client that starts a daemon learns why it could not start, and keeps no child.
  static func detach(_ directories: FerryDirectories) -> Int32 {
    do throws(SystemError) {
      let supervisor = try ChildProcess.spawn(
        path: try ChildProcess.executablePath(), arguments: ["ferryd", "--supervise"],
        environment: ProcessEnvironment.current(), directory: "/", newSession: true)
      let loop = try EventLoop()
      let end = BootInstant.now() + longestPause
      while BootInstant.now() < end {
        if let status = try ChildProcess.reap(supervisor) {
          if case .exited(let code) = status { return code }
          return ExitStatus.failure
        }
        if try InstanceLock.isHeld(directories.lockPath) { return 0 }
        try loop.wait(until: .now() + .milliseconds(2))
      }
      return 0
    } catch {
      try? Syscall.writeAll(STDERR_FILENO, Array("ferryd: \(error)\n".utf8))
      return ExitStatus.failure
    }
  }

  /// Returns the exit status of the program.
  static func run(_ directories: FerryDirectories) -> Int32 {
    do throws(SystemError) {
      try directories.prepare()
      guard let lock = try InstanceLock.acquire(directories.state + "/supervisor.lock") else { return 0 }
      defer { _ = lock }
      return try superviseDaemon()
    } catch {
      try? Syscall.writeAll(STDERR_FILENO, Array("ferryd: \(error)\n".utf8))
      return ExitStatus.failure
    }
  }

  private static func superviseDaemon() throws(SystemError) -> Int32 {
    let path = try ChildProcess.executablePath()
    let signals = try SignalSource([SIGTERM, SIGINT, SIGHUP])
    let loop = try EventLoop()
    var isStopping = false
    var child: Int32 = 0
    _ = try loop.register(descriptor: signals.descriptor, interest: .readable) { _ in
      while (try? signals.next()) != nil { isStopping = true }
      if child > 0 { kill(child, SIGTERM) }
    }
    var crashes = 0
    while !isStopping {
      let started = BootInstant.now()
      child = try ChildProcess.spawn(
        path: path, arguments: ["ferryd", "--supervised"], environment: ProcessEnvironment.current(), newSession: false)
      let status = try waitForEnd(of: child, loop)
      child = 0
      // Exit codes are decisions (told to stop, idle, another daemon runs, cannot start); only a crash is answered.
      if case .exited(let code) = status { return code == ExitStatus.anotherRuns ? 0 : code }
      let life = BootInstant.now() - started
      crashes = max(0, crashes - Int(clamping: life.components.seconds / spanOfLife.components.seconds)) + 1
      let excess = crashes - crashesAtOnce
      let pause = excess <= 0 ? .zero : min(.milliseconds(100 << min(excess, 12)), longestPause)
      let until = BootInstant.now() + pause
      while BootInstant.now() < until, !isStopping { try loop.wait(until: until) }
    }
    return 0
  }

  private static func waitForEnd(of child: Int32, _ loop: EventLoop) throws(SystemError) -> ChildProcess.ExitStatus {
    let watch = try ChildProcess.watch(child)
    var hasEnded = false
    let registration = try loop.register(descriptor: watch.raw, interest: .readable) { _ in hasEnded = true }
    defer { loop.remove(registration) }
    while !hasEnded { try loop.wait(until: nil) }
    return try ChildProcess.wait(child)
  }
}
