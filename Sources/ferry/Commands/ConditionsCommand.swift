import WireProtocol

/// `conditions`: what the device's conditions are, and what a person says they are.
enum ConditionsCommand {
  static let command = Command(
    name: "conditions", summary: "show the device's conditions, or set some by hand",
    operands: OperandRow(usage: "[set NAME=VALUE… | clear [NAME…]]", count: 0...32),
    options: [.json],
    notes: ConditionName.allCases.map { "\($0.rawValue): \($0.values)" } + [
      "What was set by hand holds, over restarts too, until `ferry conditions clear`. Transfers whose conditions are "
        + "not met wait, and go on by themselves; `ferry why ID` tells for what."
    ],
    run: run)

  private static func run(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    let request = try request(arguments.operands)
    let result = try DaemonLink.open().call(request, returning: ConditionsResult.self)
    if arguments.has(.json) {
      try StandardStream.output.writeLine(try JSONText.of(result))
    } else {
      for line in lines(result) { try StandardStream.output.writeLine(line) }
    }
    return .success
  }

  static func request(_ operands: [String]) throws(CommandFailure) -> ClientRequest {
    guard let verb = operands.first else { return .conditionsShow(EmptyParameters()) }
    let rest = operands.dropFirst()
    switch verb {
    case "set":
      guard !rest.isEmpty else { throw .usage("set needs NAME=VALUE, for example `ferry conditions set metered=yes`.") }
      return .conditionsSet(ConditionsSetParameters(values: try rest.map(value)))
    case "clear":
      for name in rest { try checkName(name) }
      return .conditionsClear(ConditionsClearParameters(names: rest.isEmpty ? nil : Array(rest)))
    default: throw .usage("conditions takes `set NAME=VALUE…` or `clear [NAME…]`, not \"\(verb)\".")
    }
  }

  private static func value(_ text: String) throws(CommandFailure) -> ConditionValue {
    guard let equals = text.firstIndex(of: "=") else {
      throw .usage("\"\(text)\" is not NAME=VALUE, for example metered=yes.")
    }
    let name = String(text[..<equals])
    try checkName(name)
    return ConditionValue(name: name, value: String(text[text.index(after: equals)...]))
  }

  private static func checkName(_ name: String) throws(CommandFailure) {
    let names = ConditionName.allCases.map(\.rawValue)
    guard !names.contains(name) else { return }
    let hint = Spelling.nearest(to: name, among: names).map { " Did you mean \($0)?" } ?? ""
    throw .usage("There is no condition \"\(name)\"; there are \(names.joined(separator: ", ")).\(hint)")
  }

  /// The page for people.
  static func lines(_ result: ConditionsResult) -> [String] {
    func row(_ name: String, _ text: String) -> String {
      "\(TerminalText.padded("\(TerminalText.escaped(name)):", columns: 24))\(TerminalText.escaped(text))"
    }
    var lines = result.conditions.map { shown in
      guard shown.isSet else { return row(shown.name, shown.value) }
      return row(shown.name, "\(shown.value) (set by hand; the device says \(shown.observed ?? "nothing"))")
    }
    lines.append("")
    for source in result.sources { lines.append(row(source.name, source.state)) }
    return lines
  }
}

extension TaskText {
  /// One paragraph for each thing that keeps a task from running.
  static func blockers(_ task: TaskSnapshot, wallMilliseconds: Int64) -> [String] {
    var lines: [String] = []
    for blocker in task.blockers ?? [] {
      lines.append("  \(TerminalText.escaped(blocker.name)): \(TerminalText.escaped(blocker.cause))")
      if let since = blocker.sinceMilliseconds {
        let (age, overflow) = wallMilliseconds.subtractingReportingOverflow(since)
        let words = overflow || age < 0 ? "" : " (\(Quantity.time(seconds: Double(age) / 1000)))"
        lines.append("    since \(LocalTime.text(milliseconds: since))\(words)")
      }
      lines.append("    lifted by \(TerminalText.escaped(blocker.lifts))")
      if let until = blocker.untilMilliseconds {
        lines.append("    at the latest \(LocalTime.text(milliseconds: until))")
      }
    }
    return lines
  }
}
