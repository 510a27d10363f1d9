import Glibc
import LinuxSystem
import TransferCore

/// Exit statuses of `ferryd`, beside 0.
enum ExitStatus {
  static let failure: Int32 = 1
  /// sysexits(3) EX_USAGE.
  static let usage: Int32 = 64
  /// sysexits(3) EX_TEMPFAIL: the state directory already has its daemon.
  static let anotherRuns: Int32 = 75
}

/// The program `ferryd`: reads its arguments, and becomes the supervisor or the daemon.
package enum DaemonProgram {
  private static let help = """
    ferryd \(Daemon.version) - carries transfers past the life of the program that asked for them

    Usage: ferryd [--foreground]     run here, log to standard error, end with Ctrl-C
           ferryd --supervise        start the daemon, and again when it crashes
           ferryd --detach           the same in a session of its own; returns when the daemon runs
           ferryd --version | --help

    With sockets from systemd (LISTEN_FDS) the daemon takes the first and ends when it has nothing to do.
    FERRY_HOME=DIR keeps state and socket under DIR; else $XDG_STATE_HOME/ferry and $XDG_RUNTIME_DIR/ferry are used.

    """

  /// Runs the program; returns its exit status.
  package static func run(_ arguments: [String]) -> Int32 {
    switch arguments.dropFirst() {
    case ["--version"]: return write("ferryd \(Daemon.version)\n", to: STDOUT_FILENO, 0)
    case ["--help"]: return write(help, to: STDOUT_FILENO, 0)
    case ["--supervise"]: return resolve { Supervisor.run($0) }
    case ["--detach"]: return resolve { Supervisor.detach($0) }
    case ["--supervised"]: return resolve { runDaemon($0, isForeground: false) }
    case ["--foreground"], []: return resolve { runDaemon($0, isForeground: true) }
    default:
      return write(
        "ferryd: unknown arguments \(arguments.dropFirst().joined(separator: " ")); see ferryd --help\n",
        to: STDERR_FILENO, ExitStatus.usage)
    }
  }

  private static func resolve(_ body: (FerryDirectories) -> Int32) -> Int32 {
    do throws(SystemError) {
      return body(try FerryDirectories.resolve(ProcessEnvironment.current()))
    } catch {
      return write("ferryd: \(error)\n", to: STDERR_FILENO, ExitStatus.failure)
    }
  }

  private static func runDaemon(_ directories: FerryDirectories, isForeground: Bool) -> Int32 {
    // umask(2) is read by setting it, and before there are threads.
    let mask = umask(0o077)
    unsafe Finalizing.currentMask = mask
    raiseDescriptorLimit()
    do {
      var inherited = try SocketActivation.takeInherited()
      let signals = try SignalSource([SIGTERM, SIGINT, SIGHUP])
      try directories.prepare()
      guard let lock = try acquire(directories.lockPath) else {
        return write(
          "ferryd: another daemon has the state in \(directories.state)\n", to: STDERR_FILENO, ExitStatus.anotherRuns)
      }
      let log = Log(
        path: directories.state + "/ferryd.log", isForeground: isForeground,
        environment: ProcessEnvironment.current())
      let isActivated = !inherited.descriptors.isEmpty
      let socket: OwnedDescriptor
      if let given = inherited.descriptors.takeFirst() {
        socket = given
        try Syscall.setNonblocking(socket.raw)
      } else {
        socket = try UnixSocket.listen(directories.socketPath)
      }
      try lock.write(InstanceLock.Record(processID: getpid(), socketPath: directories.socketPath))
      let idle: Duration? = isForeground && !isActivated ? nil : isActivated ? .seconds(10) : .seconds(300)
      var options = DaemonOptions(directories: directories, exitsWhenIdle: idle)
      if let retention = try retention(ProcessEnvironment.current()) { options.retention = retention }
      let daemon = try Daemon(
        options,
        listener: Listener(socket: socket, signals: signals), log: log)
      do throws(SystemError) {
        try ServiceNotice.ready()
      } catch {
        log.write(.warning, "The service manager could not be told that the daemon is ready: \(error)")
      }
      daemon.run()
      if daemon.isRestarting { return becomeNext(isActivated ? daemon.listener.descriptor : nil) }
      if !isActivated { try? Files.remove(directories.socketPath) }
      _ = lock
      return 0
    } catch {
      return write("ferryd: cannot start: \(error)\n", to: STDERR_FILENO, ExitStatus.failure)
    }
  }

  /// `FERRY_RETENTION_SECONDS`: how long a result that nobody collects is kept, in place of a week.
  private static func retention(_ environment: [String: String]) throws(DaemonFailure) -> Duration? {
    guard let text = environment["FERRY_RETENTION_SECONDS"] else { return nil }
    guard let seconds = Int64(text), (1...315_360_000).contains(seconds) else {
      throw DaemonFailure("FERRY_RETENTION_SECONDS must be a number of seconds from 1 to 315360000, not \"\(text)\".")
    }
    return .seconds(seconds)
  }

  /// Becomes the program that stands where this one stood: the same process, with the same arguments, so that whoever
  /// looks after it goes on doing so. Returns only when that fails.
  /// - Parameter socket: systemd's, which the next daemon needs too; our own is made anew.
  private static func becomeNext(_ socket: Int32?) -> Int32 {
    // The next daemon takes this for the person's own.
    umask(unsafe Finalizing.currentMask)
    var environment = ProcessEnvironment.current()
    do throws(SystemError) {
      if let socket { try SocketActivation.passOn(socket, to: &environment) }
      try ChildProcess.become(
        path: try ChildProcess.executablePath(), arguments: CommandLine.arguments, environment: environment)
    } catch {
      return write("ferryd: cannot start again: \(error)\n", to: STDERR_FILENO, ExitStatus.failure)
    }
  }

  /// The lock may be held for a moment longer by a child of a killed daemon that was between fork and exec.
  private static func acquire(_ path: String) throws(SystemError) -> InstanceLock? {
    if let lock = try InstanceLock.acquire(path) { return lock }
    let loop = try EventLoop()
    try loop.wait(until: .now() + .milliseconds(20))
    return try InstanceLock.acquire(path)
  }

  /// Each transfer needs a socket and up to two files: take all descriptors that the system allows.
  private static func raiseDescriptorLimit() {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = min(limit.rlim_max, 1 << 20)
    _ = unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }

  private static func write(_ text: String, to descriptor: Int32, _ status: Int32) -> Int32 {
    try? Syscall.writeAll(descriptor, Array(text.utf8))
    return status
  }
}
