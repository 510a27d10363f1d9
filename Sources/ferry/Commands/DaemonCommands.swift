import LinuxSystem
import TransferCore
import WireProtocol

/// `daemon status|start|stop|log`.
enum DaemonCommands {
  static let status = Command(
    name: "daemon status", summary: "tell whether the daemon runs, and how it does", options: [.json],
    notes: [
      "It never starts the daemon; when none runs the exit code is 3. With --json the member `isRunning` is always "
        + "there, the others only when the daemon runs."
    ],
    run: { (arguments) throws(CommandFailure) in
      guard try isRunning() else {
        if arguments.has(.json) {
          try StandardStream.output.writeLine(try JSONText.of(Report(status: nil)))
        } else {
          try StandardStream.output.writeLine(
            "ferryd does not run. It starts by itself with the next command, or with `ferry daemon start`.")
        }
        return .daemonUnavailable
      }
      let link = try DaemonLink.open(startsDaemon: false)
      let status = try link.call(.daemonStatus(EmptyParameters()), returning: DaemonStatusResult.self)
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(Report(status: status)))
      } else {
        for line in page(status) { try StandardStream.output.writeLine(line) }
      }
      return .success
    })

  static let start = Command(
    name: "daemon start", summary: "start the daemon, unless it runs", options: [.json],
    notes: ["It returns when the daemon answers."],
    run: { (arguments) throws(CommandFailure) in
      let link = try DaemonLink.open()
      let status = try link.call(.daemonStatus(EmptyParameters()), returning: DaemonStatusResult.self)
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(Report(status: status)))
      } else {
        try StandardStream.output.writeLine(
          "ferryd \(TerminalText.escaped(status.version)) runs as process \(status.pid).")
      }
      return .success
    })

  static let stop = Command(
    name: "daemon stop", summary: "stop the daemon; its tasks go on with the next start",
    notes: ["It returns when the daemon has let go of its state directory. When none runs, there is nothing to do."],
    run: { (_) throws(CommandFailure) in
      guard try isRunning() else {
        if StandardStream.error.isTerminal { Notice.say("ferryd does not run.") }
        return .success
      }
      let link = try DaemonLink.open(startsDaemon: false)
      _ = try link.call(.daemonStop(EmptyParameters()), returning: EmptyResult.self)
      link.close()
      try waitUntilStopped()
      if StandardStream.error.isTerminal { Notice.say("ferryd has stopped.") }
      return .success
    })

  static let log = Command(
    name: "daemon log", summary: "print the last lines of the daemon's log",
    options: [OptionRow(name: .lines, letter: "n", value: "COUNT", help: "how many lines (100)")],
    notes: [
      "It works without a running daemon. Under systemd the daemon writes to the journal: "
        + "`journalctl --user -u ferryd`."
    ],
    run: { (arguments) throws(CommandFailure) in
      let count = try ArgumentValue.count(arguments.value(.lines) ?? "100", option: "-n", in: 1...1_000_000)
      let path = try logPath()
      let tail = try LogTail.read(path, lineCount: count)
      for line in tail { try StandardStream.output.writeLine(TerminalText.escaped(line)) }
      return .success
    })

  /// A daemon's status with one member that says whether there is a daemon.
  private struct Report: Encodable {
    var status: DaemonStatusResult?

    private enum Key: String, CodingKey { case isRunning }

    func encode(to encoder: any Encoder) throws {
      try status?.encode(to: encoder)
      var container = encoder.container(keyedBy: Key.self)
      try container.encode(status != nil, forKey: .isRunning)
    }
  }

  private static func directories() throws(CommandFailure) -> FerryDirectories {
    do {
      return try FerryDirectories.resolve(ProcessEnvironment.current())
    } catch {
      throw CommandFailure(.daemonUnavailable, "\(error)")
    }
  }

  /// A living daemon holds the lock in the state directory; looking at it takes nothing.
  private static func isRunning() throws(CommandFailure) -> Bool {
    let path = try directories().lockPath
    do {
      return try InstanceLock.isHeld(path)
    } catch {
      throw CommandFailure(.daemonUnavailable, "\(error)")
    }
  }

  /// The kernel tells nobody when a lock is free, so it is looked at again and again. The daemon promises to stop
  /// within a second; ten leave room for a slow disk.
  private static func waitUntilStopped() throws(CommandFailure) {
    let deadline = BootInstant.now().advanced(byNanoseconds: 10_000_000_000)
    while try isRunning() {
      guard BootInstant.now() < deadline else {
        throw CommandFailure(
          .failure, "ferryd took the request to stop, and still runs after 10 s; `ferry daemon log` may say why.")
      }
      Pause.milliseconds(10)
    }
  }

  private static func logPath() throws(CommandFailure) -> String {
    if try isRunning(), let link = try? DaemonLink.open(startsDaemon: false),
      let status = try? link.call(.daemonStatus(EmptyParameters()), returning: DaemonStatusResult.self)
    {
      return status.log
    }
    return try directories().state + "/ferryd.log"
  }

  private static func page(_ status: DaemonStatusResult) -> [String] {
    let tasks = status.tasks.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
    let rows: [(String, String?)] = [
      ("ferryd", "\(status.version), process \(status.pid)"),
      ("running for", Quantity.time(seconds: Double(status.uptimeSeconds))),
      ("degraded", status.degraded),
      ("tasks", tasks.isEmpty ? "none" : tasks),
      ("sessions", String(status.sessions)),
      ("clients", String(status.peers)),
      ("commits", String(status.commits)),
      ("kept parts", status.keptParts.flatMap { $0 > 0 ? "\($0), \(Quantity.bytes(status.keptBytes ?? 0))" : nil }),
      ("restarting", status.isRestarting == true ? "waits for transfers that cannot be continued" : nil),
      ("state", status.stateDirectory),
      ("socket", status.socket),
      ("log", status.log),
      ("set aside", status.quarantined.isEmpty ? nil : status.quarantined.joined(separator: "; ")),
    ]
    return rows.compactMap { name, value in
      value.map { "\(TerminalText.padded("\(name):", columns: 14))\(TerminalText.escaped($0))" }
    }
  }
}
