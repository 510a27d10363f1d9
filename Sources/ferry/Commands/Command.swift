/// One row of the table of commands.
struct Command: Sendable {
  /// "get", "daemon start".
  var name: String
  var summary: String
  var operands = OperandRow.none
  var options: [OptionRow] = []
  /// Paragraphs of the help page, after the options.
  var notes: [String] = []
  var run: @Sendable (ParsedArguments) throws(CommandFailure) -> ExitCode

  var parser: ArgumentParser {
    ArgumentParser(command: name, options: options + [.help], operands: operands)
  }

  /// "ferry get URL [-o FILE|DIR] …"
  var usage: String {
    let words = options.map { row in
      let name = row.letter.map { "-\($0)" } ?? row.label
      let body = row.value.map { "\(name) \($0)" } ?? name
      return row.isRepeatable ? "[\(body)]…" : "[\(body)]"
    }
    return (["ferry \(name)", operands.usage].filter { !$0.isEmpty } + words).joined(separator: " ")
  }
}

/// All commands, in the order of the help. Parsing, help and spelling hints read this table and nothing else.
enum CommandTable {
  static let all: [Command] =
    [
      GetCommand.command, PutCommand.command,
      ReadingCommands.list, ReadingCommands.show, ReadingCommands.why,
      WaitCommand.command, ConditionsCommand.command, AnswerCommand.command,
      ControlCommands.cancel, ControlCommands.pause, ControlCommands.resume, ControlCommands.remove,
      DaemonCommands.status, DaemonCommands.start, DaemonCommands.stop, DaemonRestartCommand.command,
      DaemonCommands.log,
    ] + AppCommands.all + [HelpCommand.command]

  static let groups = ["app", "daemon"]

  /// The first words that a person may type.
  static var firstWords: [String] {
    var words: [String] = []
    for command in all {
      let word = String(command.name.prefix { $0 != " " })
      if !words.contains(word) { words.append(word) }
    }
    return words
  }

  /// The command that the arguments begin with, and the arguments that are left for it.
  static func find(_ arguments: [String]) throws(CommandFailure) -> (Command, [String]) {
    let first = arguments.first ?? ""
    if let command = all.first(where: { $0.name == first }) { return (command, Array(arguments.dropFirst())) }
    guard groups.contains(first) else { throw unknown(first, among: firstWords, prefix: "") }
    let members = all.filter { $0.name.hasPrefix("\(first) ") }
    let words = members.map { String($0.name.dropFirst(first.count + 1)) }
    guard let second = arguments.dropFirst().first else {
      throw .usage("\(first) needs one of: \(words.joined(separator: ", ")).")
    }
    if let command = members.first(where: { $0.name == "\(first) \(second)" }) {
      return (command, Array(arguments.dropFirst(2)))
    }
    throw unknown(second, among: words, prefix: "\(first) ")
  }

  private static func unknown(_ word: String, among words: [String], prefix: String) -> CommandFailure {
    let near = Spelling.nearest(to: word, among: words)
    let hint = near.map { " Did you mean `ferry \(prefix)\($0)`?" } ?? ""
    if prefix.isEmpty, word.hasPrefix("-") { return .usage("ferry has no option \(word) before a command.\(hint)") }
    if prefix.isEmpty, word.range(ofText: "://") != nil {
      return .usage("\"\(word)\" is no command. To fetch it: `ferry get \(word)`.")
    }
    return .usage("\"\(prefix)\(word)\" is no command.\(hint)")
  }
}

/// The whole program: from arguments to exit code.
enum FerryProgram {
  static let version = "0.1.0"
  /// How the program names itself to the daemon.
  static let client = "ferry/\(version)"

  static func run(_ arguments: [String]) -> ExitCode {
    var page = "ferry help"
    do {
      if let code = try runWithoutCommand(arguments) { return code }
      if let group = arguments.first, CommandTable.groups.contains(group) { page = "ferry help \(group)" }
      let (command, rest) = try CommandTable.find(arguments)
      page = "ferry help \(command.name)"
      let parsed = try command.parser.parse(rest)
      if parsed.has(.help) { return try HelpCommand.print(HelpText.page(command)) }
      return try command.run(parsed)
    } catch {
      Notice.failure(error)
      if error.isUsage { Notice.say("`\(page)` shows the usage.") }
      return error.code
    }
  }

  /// Nil where a command is named.
  private static func runWithoutCommand(_ arguments: [String]) throws(CommandFailure) -> ExitCode? {
    guard let first = arguments.first else {
      Notice.say(HelpText.overview().joined(separator: "\n"))
      return .usage
    }
    if ["--version", "-V"].contains(first) {
      try StandardStream.output.writeLine("ferry \(version)")
      return .success
    }
    if ["--help", "-h"].contains(first) { return try HelpCommand.print(HelpText.overview()) }
    guard arguments.count == 2, CommandTable.groups.contains(first), ["--help", "-h"].contains(arguments[1]) else {
      return nil
    }
    return try HelpCommand.print(HelpText.group(first))
  }
}
