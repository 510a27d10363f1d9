import FerryClient
import Glibc
import LinuxSystem
import WireProtocol

/// `app register|list|show|remove|front|force-quit`: programs that the daemon starts when results wait for them.
enum AppCommands {
  static let all = [register, list, show, remove, front, forceQuit]

  static let register = Command(
    name: "app register", summary: "register a program, to be started when its transfers ended",
    operands: OperandRow(usage: "ID", count: 1...65),
    options: [
      OptionRow(
        name: .taskIdentifier, value: "NAME", isRepeatable: true, help: "a background task that it may ask for"),
      OptionRow(name: .backgroundMode, value: "MODE", isRepeatable: true, help: "a background mode, as fetch"),
      .json,
      OptionRow(
        name: .exec, value: "/ABS/PATH [ARG…]", endsOptions: true,
        help: "the program and its arguments; must come last, for all that follows is the program's"),
    ],
    notes: [
      "ID is the app of its sessions: FERRY_APP_ID, or the name of the executable. Registering again changes the "
        + "registration. The daemon starts the program with a clean environment (docs/Protocol.md), once all tasks of "
        + "a session have ended and nobody collects their results.",
      "With --json the registered app is printed.",
    ],
    run: runRegister)

  static let list = Command(
    name: "app list", summary: "list registered apps and their last launch", options: [.json],
    notes: [
      "With --json: {\"apps\": […], \"refused\": files that register nothing, each with its reason}."
    ],
    run: { (arguments) throws(CommandFailure) in
      let result = try DaemonLink.open().call(.appList(EmptyParameters()), returning: AppListResult.self)
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(result))
        return .success
      }
      var table = TextTable(columns: [
        .init(heading: "ID"), .init(heading: "STATE"), .init(heading: "LAST LAUNCH"), .init(heading: "COMMAND"),
      ])
      for app in result.apps {
        table.rows.append([
          TerminalText.escaped(app.app), app.state, app.launches.last.map { "\($0.launch) \($0.outcome)" } ?? "-",
          TerminalText.escaped(app.command.joined(separator: " ")),
        ])
      }
      if !table.rows.isEmpty { try StandardStream.output.writeLine(table.lines().joined(separator: "\n")) }
      if table.rows.isEmpty, StandardStream.output.isTerminal { Notice.say("No apps.") }
      for refused in result.refused {
        Notice.say("\(TerminalText.escaped(refused.file)) registers no app: \(TerminalText.escaped(refused.reason))")
      }
      return .success
    })

  static let show = Command(
    name: "app show", summary: "show an app, its launches, and why it is launched or not",
    operands: OperandRow(usage: "ID", count: 1...1), options: [.json],
    run: { (arguments) throws(CommandFailure) in
      let app = try DaemonLink.open().call(
        .appShow(AppParameters(app: arguments.operands[0])), returning: AppShowResult.self
      ).app
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(app))
      } else {
        for line in AppText.page(app, wallMilliseconds: Clocks.wallMilliseconds()) {
          try StandardStream.output.writeLine(line)
        }
      }
      return .success
    })

  static let remove = make(
    "remove", "forget an app; its sessions and their results stay", done: "Removed",
    notes: ["An app that a file registers goes with its file."]
  ) { .appRemove($0) }

  static let front = make(
    "front", "tell that an app was opened: its launches are free again", done: "Noted",
    notes: ["The delay between its launches begins anew, and a force-quit is lifted. It starts nothing by itself."]
  ) { .appFront($0) }

  static let forceQuit = make(
    "force-quit", "cancel an app's tasks; it is not launched until it is opened",
    done: "Force-quit",
    notes: ["A process that the daemon started is ended; one that a person started is the person's to end."]
  ) { .appForceQuit($0) }

  private static func make(
    _ name: String, _ summary: String, done: String, notes: [String],
    _ request: @escaping @Sendable (AppParameters) -> ClientRequest
  ) -> Command {
    Command(
      name: "app \(name)", summary: summary, operands: OperandRow(usage: "ID", count: 1...1), options: [.json],
      notes: notes + ["With --json: {\"app\": ID}."],
      run: { (arguments) throws(CommandFailure) in
        let parameters = AppParameters(app: arguments.operands[0])
        _ = try DaemonLink.open().call(request(parameters), returning: EmptyResult.self)
        if arguments.has(.json) {
          try StandardStream.output.writeLine(try JSONText.of(parameters))
        } else if StandardStream.error.isTerminal {
          Notice.say("\(done): \(TerminalText.escaped(parameters.app)).")
        }
        return .success
      })
  }

  /// What would keep the daemon from starting this program today; nil where nothing can be seen.
  private static func doubt(about path: String) -> String? {
    guard let status = FilePath.status(path) else { return "does not exist yet" }
    if status.st_mode & S_IFMT == S_IFDIR { return "is a folder, and no program" }
    return status.st_mode & 0o111 == 0 ? "is not executable yet; chmod +x it" : nil
  }

  private static func runRegister(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    guard let path = arguments.value(.exec) else { throw .usage("app register needs --exec /ABS/PATH [ARG…].") }
    guard path.hasPrefix("/") else {
      throw .usage("--exec needs an absolute path, not \"\(path)\": the daemon has another working directory.")
    }
    // The daemon says so at the launch; here it can still be put right.
    if let doubt = doubt(about: path) { Notice.say("\(TerminalText.escaped(path)) \(doubt).") }
    let id = arguments.operands[0]
    let link = try DaemonLink.open()
    _ = try link.call(
      .appRegister(
        AppRegisterParameters(
          app: id, command: [path] + arguments.operands.dropFirst(), taskIdentifiers: arguments.all(.taskIdentifier),
          backgroundModes: arguments.all(.backgroundMode))), returning: EmptyResult.self)
    let app = try link.call(.appShow(AppParameters(app: id)), returning: AppShowResult.self).app
    if let file = app.file {
      Notice.say("The file \(TerminalText.escaped(file)) registers \(TerminalText.escaped(id)); that stays as it is.")
    }
    if arguments.has(.json) {
      try StandardStream.output.writeLine(try JSONText.of(app))
    } else if StandardStream.error.isTerminal {
      Notice.say("Registered \(TerminalText.escaped(id)).")
    }
    return .success
  }
}

/// An app as a page for people.
enum AppText {
  static func page(_ app: AppSnapshot, wallMilliseconds: Int64) -> [String] {
    func ago(_ milliseconds: Int64) -> String {
      "\(Quantity.time(seconds: Double(max(0, wallMilliseconds - milliseconds)) / 1000)) ago"
    }
    let processes = app.processIDs.map(String.init).joined(separator: ", ")
    let rows: [(String, String?)] = [
      ("app", app.app),
      ("command", app.command.joined(separator: " ")),
      ("file", app.file),
      ("state", processes.isEmpty ? app.state : "\(app.state), process \(processes)"),
      ("tasks", app.taskIdentifiers.isEmpty ? nil : app.taskIdentifiers.joined(separator: ", ")),
      ("modes", app.backgroundModes.isEmpty ? nil : app.backgroundModes.joined(separator: ", ")),
      ("why", app.reason),
      ("delay", app.delaySeconds > 0 ? "\(Quantity.time(seconds: app.delaySeconds)) after its last launch" : nil),
    ]
    var lines = rows.compactMap { name, value in
      value.map { "\(TerminalText.padded("\(name):", columns: 14))\(TerminalText.escaped($0))" }
    }
    for launch in app.launches.reversed() {
      let what = launch.isWake ? "wake" : "launch"
      let process = launch.processID.map { ", process \($0)" } ?? ""
      lines.append("")
      lines.append(
        TerminalText.escaped(
          "\(what) \(launch.launch), \(ago(launch.decidedMilliseconds)), for session \"\(launch.session)\" "
            + "(\(launch.reason))\(process): \(launch.outcome)"))
      if !launch.detail.isEmpty { lines.append("  \(TerminalText.escaped(launch.detail))") }
      for line in (launch.output ?? "").split(separator: "\n") {
        lines.append("  | \(TerminalText.escaped(String(line)))")
      }
    }
    return lines
  }
}
