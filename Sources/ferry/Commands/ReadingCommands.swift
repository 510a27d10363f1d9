import LinuxSystem
import TransferCore
import WireProtocol

/// `list`, `show` and `why`: what the daemon knows. They start the daemon where none runs: it alone owns the state.
enum ReadingCommands {
  static let list = Command(
    name: "list", summary: "list tasks, their state and progress",
    options: [
      OptionRow(name: .all, help: "every task, those that have ended too (this is the default)"),
      OptionRow(name: .unfinished, help: "only tasks that have not ended"),
      OptionRow(name: .session, value: "ID", help: "only tasks of the session with this name"),
      .json,
    ],
    notes: [
      "Tasks of all programs of this user are listed, in the order of their ids. With --json an array is printed."
    ],
    run: runList)

  static let show = Command(
    name: "show", summary: "show all that is known about one task",
    operands: OperandRow(usage: "ID", count: 1...1), options: [.json],
    notes: ["Secret headers are shown as <redacted>."],
    run: { (arguments) throws(CommandFailure) in
      let id = try ArgumentValue.taskID(arguments.operands[0])
      let task = try DaemonLink.open().task(id)
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(task))
      } else {
        for line in TaskText.page(task, wallMilliseconds: Clocks.wallMilliseconds()) {
          try StandardStream.output.writeLine(line)
        }
      }
      return .success
    })

  static let why = Command(
    name: "why", summary: "tell what keeps a task from running, and what will lift it",
    operands: OperandRow(usage: "ID", count: 1...1), options: [.json],
    run: { (arguments) throws(CommandFailure) in
      let id = try ArgumentValue.taskID(arguments.operands[0])
      let task = try DaemonLink.open().task(id)
      if arguments.has(.json) {
        try StandardStream.output.writeLine(try JSONText.of(Explanation(task)))
      } else {
        try StandardStream.output.writeLine(
          TaskText.explanation(task, wallMilliseconds: Clocks.wallMilliseconds()))
        for line in TaskText.blockers(task, wallMilliseconds: Clocks.wallMilliseconds()) {
          try StandardStream.output.writeLine(line)
        }
      }
      return .success
    })

  /// The members of a task's snapshot that say why.
  private struct Explanation: Encodable {
    var id: Int64
    var state: String
    var reason: String?
    var attempts: Int64
    var nextAttemptMilliseconds: Int64?
    var error: WireFailure?
    var blockers: [WireBlocker]?

    init(_ task: TaskSnapshot) {
      id = task.id
      state = task.state
      reason = task.reason
      attempts = task.attempts
      nextAttemptMilliseconds = task.nextAttemptMilliseconds
      error = task.error
      blockers = task.blockers
    }
  }

  private static func runList(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    if arguments.has(.all), arguments.has(.unfinished) {
      throw .usage("--all and --unfinished exclude each other.")
    }
    var session: String?
    if let name = arguments.value(.session) { session = try ArgumentValue.session(name) }
    let link = try DaemonLink.open()
    var table = TextTable(columns: [
      .init(heading: "ID", isAlignedRight: true), .init(heading: "STATE"),
      .init(heading: "PROGRESS", isAlignedRight: true), .init(heading: "SIZE", isAlignedRight: true),
      .init(heading: "URL"),
    ])
    let isJSON = arguments.has(.json)
    var separator = "["
    try link.eachPage(isUnfinishedOnly: arguments.has(.unfinished)) { (tasks) throws(CommandFailure) in
      for task in tasks where session == nil || task.session == session {
        if isJSON {
          try StandardStream.output.write("\(separator)\n\(try JSONText.of(task, isCompact: true))")
          separator = ","
        } else {
          table.rows.append(row(task))
        }
      }
    }
    if isJSON {
      try StandardStream.output.write(separator == "[" ? "[]\n" : "\n]\n")
    } else if !table.rows.isEmpty {
      try StandardStream.output.writeLine(table.lines().joined(separator: "\n"))
    } else if StandardStream.output.isTerminal {
      Notice.say("No tasks.")
    }
    return .success
  }

  private static func row(_ task: TaskSnapshot) -> [String] {
    let (done, whole) = TaskText.counts(task)
    let progress = Quantity.percent(done, of: whole).map { "\($0) %" } ?? Quantity.bytes(done)
    let mark = TaskText.expiryMark(task, wallMilliseconds: Clocks.wallMilliseconds()).map { ", \($0)" } ?? ""
    return [
      String(task.id), TerminalText.escaped(task.state) + mark, progress, whole.map(Quantity.bytes) ?? "-",
      TerminalText.escaped(task.url),
    ]
  }
}

extension TaskText {
  /// "goes in 20 h": in the last day that a result is kept which nobody collected.
  static func expiryMark(_ task: TaskSnapshot, wallMilliseconds: Int64) -> String? {
    guard let expiry = task.expiresMilliseconds, let finished = task.finishedMilliseconds else { return nil }
    let left = expiry.subtractingClamped(wallMilliseconds)
    guard left <= expiry.subtractingClamped(finished) / Int64(Limits.retentionParts) else { return nil }
    return "goes in \(Quantity.time(seconds: Double(max(0, left)) / 1000))"
  }

  /// Why a task does not run, in a line: "Task 7 is waiting: server said 503, next try in 8 s (attempt 3)."
  static func explanation(_ task: TaskSnapshot, wallMilliseconds: Int64) -> String {
    let attempts = task.attempts == 1 ? "1 attempt" : "\(task.attempts) attempts"
    switch task.state {
    case "running":
      let (done, whole) = counts(task)
      let progress = Quantity.percent(done, of: whole).map { "\($0) % done" } ?? "\(Quantity.bytes(done)) done"
      return "Task \(task.id) is running: \(progress), \(attempts)."
    case "suspended": return "Task \(task.id) is paused; `ferry resume \(task.id)` lets it go on."
    case "finalizing": return "Task \(task.id) has all its bytes; they are being checked and put in place."
    case "waiting": return "Task \(task.id) is \(waiting(task, wallMilliseconds: wallMilliseconds)), after \(attempts)."
    case "asking": return asking(task)
    case "succeeded", "cancelled": return ending(task)
    default: return TerminalText.escaped(ending(task))
    }
  }
}
