enum HelpCommand {
  static let command = Command(
    name: "help", summary: "print the help page of a command",
    operands: OperandRow(usage: "[COMMAND]", count: 0...2),
    notes: ["`ferry help exit-codes` lists what the exit codes mean."],
    run: { (arguments) throws(CommandFailure) in
      guard let first = arguments.operands.first else { return try print(HelpText.overview()) }
      if first == "exit-codes" { return try print(HelpText.exitCodes()) }
      if arguments.operands.count == 1, CommandTable.groups.contains(first) {
        return try print(HelpText.group(first))
      }
      return try print(HelpText.page(CommandTable.find(arguments.operands).0))
    })

  static func print(_ lines: [String]) throws(CommandFailure) -> ExitCode {
    try StandardStream.output.writeLine(lines.joined(separator: "\n"))
    return .success
  }
}

/// Help pages, made from the table of commands.
enum HelpText {
  private static let width = 80

  static func overview() -> [String] {
    var lines = [
      "ferry carries downloads and uploads past the life of the program that asked",
      "for them.",
      "",
      "usage: ferry COMMAND …",
      "",
    ]
    lines += summaries(CommandTable.all)
    lines += [
      "",
      "ferry --version prints the version. `ferry help COMMAND` tells more,",
      "`ferry help exit-codes` what the exit codes mean.",
    ]
    return lines
  }

  static func group(_ name: String) -> [String] {
    ["usage: ferry \(name) COMMAND", ""] + summaries(CommandTable.all.filter { $0.name.hasPrefix("\(name) ") })
  }

  static func page(_ command: Command) -> [String] {
    var lines = wrapped("usage: \(command.usage)", indent: 0, hanging: 7)
    lines += ["", capitalized(command.summary) + "."]
    let labels = (command.options + [.help]).map(label)
    let column = (labels.map { TerminalText.columns($0) }.max() ?? 0) + 2
    lines.append("")
    for (row, label) in zip(command.options + [.help], labels) {
      let text = wrapped(row.help, indent: column + 2, hanging: 0)
      lines.append("  " + TerminalText.padded(label, columns: column) + text[0].drop { $0 == " " })
      lines += text.dropFirst()
    }
    for note in command.notes { lines += [""] + wrapped(note, indent: 0, hanging: 0) }
    return lines
  }

  static func exitCodes() -> [String] {
    ["Exit codes of ferry:", ""]
      + ExitCode.allCases.map { code in
        "  \(TerminalText.padded(String(code.rawValue), columns: 3, alignedRight: true))  \(code.meaning)"
      }
      + ["", "With several tasks the code is that of the first one, in the order given, that did not succeed."]
  }

  private static func summaries(_ commands: [Command]) -> [String] {
    let column = commands.map(\.name.count).max() ?? 0
    return commands.map { "  \(TerminalText.padded($0.name, columns: column))  \($0.summary)" }
  }

  private static func label(_ row: OptionRow) -> String {
    let names = (row.letter.map { "-\($0), " } ?? "") + row.label
    return row.value.map { "\(names) \($0)" } ?? names
  }

  private static func capitalized(_ text: String) -> String {
    text.prefix(1).uppercased() + text.dropFirst()
  }

  private static func wrapped(_ text: String, indent: Int, hanging: Int) -> [String] {
    var lines: [String] = []
    var line = String(repeating: " ", count: indent)
    var isEmpty = true
    for word in text.split(separator: " ") {
      if !isEmpty, TerminalText.columns(line) + 1 + TerminalText.columns(word) > width {
        lines.append(line)
        line = String(repeating: " ", count: indent + hanging)
        isEmpty = true
      }
      line += isEmpty ? String(word) : " \(word)"
      isEmpty = false
    }
    return lines + [line]
  }
}
