/// Every option of every command, by its long name.
enum OptionName: String, CaseIterable, Hashable, Sendable {
  case output, detach, header
  case secretHeader = "secret-header"
  case session, sha256, replace, rename, raw, timeout
  case maxTime = "max-time"
  case request
  case noIdempotencyKey = "no-idempotency-key"
  case unmetered
  case onPower = "on-power"
  case after
  case user
  case proxyUser = "proxy-user"
  case cacert, cert, key
  case pinnedKey = "pinned-key"
  case tlsMin = "tls-min"
  case ask, url, trust, proceed, cancel
  case all, unfinished, json, lines, help
  case exec
  case taskIdentifier = "task-identifier"
  case backgroundMode = "background-mode"
}

/// One row of a command's table: it drives the parsing, the help text and the error messages.
struct OptionRow: Sendable {
  var name: OptionName
  var letter: Character?
  /// What stands for the value in the help ("FILE"); nil for an option without a value.
  var value: String?
  var isRepeatable = false
  /// What follows its value are operands, whatever they look like.
  var endsOptions = false
  var help: String

  var label: String { "--\(name.rawValue)" }

  static let json = OptionRow(
    name: .json, help: "print JSON (docs/Commands.md lists the fields) instead of text for people")
  static let help = OptionRow(name: .help, letter: "h", help: "print this page")
}

/// How many operands a command takes, and what they are called.
struct OperandRow: Sendable {
  /// As the usage line shows them: "URL", "[ID…]"; empty for none.
  var usage: String
  var count: ClosedRange<Int>

  static let none = OperandRow(usage: "", count: 0...0)
}

/// What a person asked of one command.
struct ParsedArguments: Equatable, Sendable {
  var operands: [String] = []
  private var values: [OptionName: [String]] = [:]

  mutating func add(_ value: String, for name: OptionName) { values[name, default: []].append(value) }

  func has(_ name: OptionName) -> Bool { values[name] != nil }
  func value(_ name: OptionName) -> String? { values[name]?.last }
  func all(_ name: OptionName) -> [String] { values[name] ?? [] }
}

/// Splits a command's arguments by its table, in the manner of getopt_long(3): options and operands in any order,
/// `--name VALUE`, `--name=VALUE`, `-x VALUE`, `-xVALUE`; after `--` everything is an operand.
struct ArgumentParser: Sendable {
  /// Words of the command, for messages: "get", "daemon log".
  var command: String
  var options: [OptionRow]
  var operands: OperandRow

  func parse(_ arguments: [String]) throws(CommandFailure) -> ParsedArguments {
    var parsed = ParsedArguments()
    var rest = arguments[...]
    while let argument = rest.popFirst() {
      if argument == "--" {
        parsed.operands += rest
        break
      }
      guard argument.hasPrefix("-"), argument != "-" else {
        parsed.operands.append(argument)
        continue
      }
      let (row, attached) = try option(argument)
      if parsed.has(row.name), !row.isRepeatable, row.value != nil {
        throw .usage("\(row.label) is given twice.")
      }
      parsed.add(try value(of: row, attached: attached, rest: &rest), for: row.name)
      if row.endsOptions {
        parsed.operands += rest
        break
      }
    }
    if !parsed.has(.help) { try checkCount(parsed.operands) }
    return parsed
  }

  /// The row that an argument means, and the value that stands in the same argument.
  private func option(_ argument: String) throws(CommandFailure) -> (OptionRow, attached: String?) {
    if argument.hasPrefix("--") {
      let body = argument.dropFirst(2)
      let equals = body.firstIndex(of: "=")
      let name = String(equals.map { body[..<$0] } ?? body)
      guard let row = options.first(where: { $0.name.rawValue == name }) else { throw unknown(name) }
      return (row, equals.map { String(body[body.index(after: $0)...]) })
    }
    let letters = argument.dropFirst()
    guard let row = options.first(where: { $0.letter == letters.first }) else {
      throw .usage("\(command) has no option \(argument.prefix(2)).")
    }
    let tail = letters.dropFirst()
    return (row, tail.isEmpty ? nil : String(tail))
  }

  private func unknown(_ name: String) -> CommandFailure {
    let near = Spelling.nearest(to: name, among: options.map(\.name.rawValue))
    let hint = near.map { " Did you mean --\($0)?" } ?? ""
    return .usage("\(command) has no option --\(name).\(hint)")
  }

  private func value(
    of row: OptionRow, attached: String?, rest: inout ArraySlice<String>
  ) throws(CommandFailure) -> String {
    guard let placeholder = row.value else {
      if attached != nil { throw .usage("\(row.label) takes no value.") }
      return ""
    }
    if let attached { return attached }
    guard let next = rest.popFirst() else {
      throw .usage("\(row.label) needs a value: \(row.label) \(placeholder).")
    }
    return next
  }

  private func checkCount(_ given: [String]) throws(CommandFailure) {
    if given.count < operands.count.lowerBound {
      throw .usage("\(command) needs \(operands.usage).")
    }
    if given.count > operands.count.upperBound {
      let extra = given[operands.count.upperBound]
      throw .usage(
        operands.usage.isEmpty
          ? "\(command) takes no operands, but was given \"\(extra)\"."
          : "\(command) takes \(operands.usage) only; \"\(extra)\" is too much.")
    }
  }
}
