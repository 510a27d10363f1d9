import FoundationEssentials
import LinuxSystem
import Testing
import TransferCore
import WireProtocol

@testable import ferry

/// The parts of the command that need no daemon.
@Suite struct CommandPartsTests {
  static func task(_ id: Int64 = 7, kind: String = "download", state: String) -> TaskSnapshot {
    TaskSnapshot(
      id: id, session: "default", app: "ferry", sessionID: 1, number: id, kind: kind, state: state, method: "GET",
      url: "https://example.org/a", received: 0, sent: 0, attempts: 1, priority: 0.5, createdMilliseconds: 0)
  }

  // MARK: Arguments

  static let parser = ArgumentParser(
    command: "get",
    options: [
      OptionRow(name: .output, letter: "o", value: "FILE", help: ""), OptionRow(name: .replace, help: ""),
      OptionRow(name: .header, letter: "H", value: "H", isRepeatable: true, help: ""), .json, .help,
    ],
    operands: OperandRow(usage: "URL", count: 1...1))

  @Test(arguments: [
    ["--output", "a", "u"], ["u", "--output=a"], ["-o", "a", "u"], ["-oa", "u"], ["-oa", "--", "u"],
  ])
  func optionsInEveryForm(_ arguments: [String]) throws {
    let parsed = try Self.parser.parse(arguments)
    #expect(parsed.value(.output) == "a")
    #expect(parsed.operands == ["u"])
    #expect(!parsed.has(.replace))
  }

  @Test func repeatedOptionsAndLiteralOperands() throws {
    let parsed = try Self.parser.parse(["-H", "A: 1", "--header=B: 2", "--replace", "--", "--replace"])
    #expect(parsed.all(.header) == ["A: 1", "B: 2"])
    #expect(parsed.operands == ["--replace"])
    #expect(try Self.parser.parse(["--output=", "u"]).value(.output)?.isEmpty == true)
    #expect(try Self.parser.parse(["-"]).operands == ["-"])
    #expect(try Self.parser.parse(["--help"]).has(.help))
  }

  @Test(arguments: [
    (["u", "--outptu", "a"], "Did you mean --output?"), (["u", "-o"], "needs a value"), (["u", "-x"], "no option -x"),
    (["u", "--replace=yes"], "takes no value"), (["u", "v"], "\"v\" is too much"), ([], "needs URL"),
    (["u", "-o", "a", "-o", "b"], "given twice"), (["u", "--zebra"], "no option --zebra."),
  ])
  func mistakesAreNamed(_ arguments: [String], _ words: String) {
    let failure = #expect(throws: CommandFailure.self) { try Self.parser.parse(arguments) }
    #expect(failure?.code == .usage)
    #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
  }

  @Test(arguments: [
    ("gte", "Did you mean `ferry get`?"), ("lst", "Did you mean `ferry list`?"), ("stat", "is no command."),
    ("https://example.org", "`ferry get https://example.org`"), ("--json", "before a command"),
  ])
  func unknownCommands(_ word: String, _ words: String) {
    let failure = #expect(throws: CommandFailure.self) { _ = try CommandTable.find([word]) }
    #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
  }

  @Test func commandsOfAGroup() throws {
    #expect(try CommandTable.find(["daemon", "stop", "x"]).0.name == "daemon stop")
    let failure = #expect(throws: CommandFailure.self) { _ = try CommandTable.find(["daemon", "statsu"]) }
    #expect(failure?.message.contains("Did you mean `ferry daemon status`?") == true)
  }

  @Test func everyCommandHasAPageThatFitsATerminal() {
    for command in CommandTable.all {
      let lines = HelpText.page(command)
      #expect(lines.allSatisfy { TerminalText.columns($0) <= 80 }, "\(command.name)")
      for row in command.options { #expect(lines.contains { $0.contains(row.label) }) }
      let letters = command.options.compactMap(\.letter)
      #expect(Set(letters).count == letters.count, "\(command.name) has a letter twice")
    }
    #expect(HelpText.overview().allSatisfy { TerminalText.columns($0) <= 80 })
  }

  // MARK: Values

  @Test func headers() throws {
    #expect(try ArgumentValue.header("A:b", option: "-H") == WireHeader(name: "A", value: "b"))
    #expect(try ArgumentValue.header("X-Y:  b: c \t", option: "-H") == WireHeader(name: "X-Y", value: "b: c"))
    #expect(try ArgumentValue.header("Empty:", option: "-H").value.isEmpty)
    #expect(try ArgumentValue.header("A: ü", option: "-H").value == "ü")
  }

  @Test(arguments: ["none", ": v", "A B: v", "A: v\r\nX: y", "A: v\ny", "A: \u{0}", "Ä: v", "A : secret"])
  func badHeadersAreRefusedWithoutTheirValue(_ text: String) {
    let failure = #expect(throws: CommandFailure.self) { try ArgumentValue.header(text, option: "--header") }
    #expect(failure?.code == .usage)
    #expect(failure?.message.contains("secret") == false)
  }

  @Test(arguments: [
    "", "example.org/a", "/a", "ftp://h/a", "http://", "http:///a", "https://h:0/", "https://h:70000/", "http://h/a b",
    "http://h/\u{7}",
  ])
  func badURLs(_ text: String) {
    #expect(throws: CommandFailure.self) { try ArgumentValue.url(text) }
  }

  @Test func goodURLs() throws {
    for text in ["http://h", "HTTPS://h:8443/a?b#c", "http://[::1]:80/", "https://example.org/ü"] {
      #expect(try ArgumentValue.url(text) == text)
    }
    let failure = #expect(throws: CommandFailure.self) { try ArgumentValue.url("example.org") }
    #expect(failure?.message.contains("https://example.org") == true)
  }

  @Test func numbers() throws {
    #expect(try ArgumentValue.taskIDs(["7", "8", "7"]) == [7, 8])
    for text in ["", "0", "-1", "+1", "1x", "99999999999999999999", "٣"] {
      #expect(throws: CommandFailure.self) { try ArgumentValue.taskID(text) }
    }
    #expect(try ArgumentValue.seconds("1.5", option: "--timeout") == 1.5)
    for text in ["", "0", "-1", "nan", "inf", "1e3", "1..2", "999999999999"] {
      #expect(throws: CommandFailure.self) { try ArgumentValue.seconds(text, option: "--timeout") }
    }
    let digest = String(repeating: "Ab", count: 32)
    #expect(try ArgumentValue.sha256(digest) == String(repeating: "ab", count: 32))
    for text in ["", "ab", String(repeating: "g", count: 64)] {
      #expect(throws: CommandFailure.self) { try ArgumentValue.sha256(text) }
    }
  }

  // MARK: File names

  @Test(arguments: [
    ("https://h/a/b.bin", "b.bin"), ("https://h/a/b.bin?x=/y#/z", "b.bin"), ("https://h/a%20b", "a b"),
    ("https://h", "download"), ("https://h/", "download"), ("https://h?x=1", "download"), ("https://h/..", "download"),
    ("https://h/%2e%2e%2fetc%2fpasswd", "passwd"), ("https://h/..%5C..%5Cx", "x"), ("https://h/.bashrc", "bashrc"),
    ("https://h/a%00b", "a_b"), ("https://h/a%0Ab", "a_b"), ("https://h/a%1B%5B31mb", "a_[31mb"),
    ("https://h/%E2%80%AEgpj.exe", "_gpj.exe"), ("https://h/100%", "100%"), ("https://h/%zz", "%zz"),
    ("https://h/%", "%"), ("https://h/%F0", "\u{FFFD}"), ("https://h/%20%20", "download"),
    ("https://h/%2F", "download"),
    ("https://h/caf%C3%A9.txt", "café.txt"),
  ])
  func fileNames(_ url: String, _ name: String) {
    #expect(FileName.fromURL(url) == name)
  }

  @Test func longFileNamesKeepTheirExtension() {
    let name = FileName.fromURL("https://h/" + String(repeating: "é", count: 400) + ".tar")
    #expect(name.utf8.count <= 223)
    #expect(name.hasSuffix("é.tar"))
    #expect(FileName.fromURL("https://h/" + String(repeating: "a", count: 400)).utf8.count == 223)
  }

  // MARK: Amounts

  @Test(
    arguments: [
      (0, "0 B"), (-5, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (999_999, "999 kB"),
      (1_000_000, "1.00 MB"), (5_368_709_120, "5.36 GB"), (Int64.max, "9.22 EB"),
    ] as [(Int64, String)])
  func sizes(_ count: Int64, _ text: String) {
    #expect(Quantity.bytes(count) == text)
  }

  @Test(
    arguments: [
      (0, "0 s"), (59.4, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (273_600, "3 d 4 h"),
      (-1, "0 s"), (.nan, "0 s"),
    ] as [(Double, String)])
  func times(_ seconds: Double, _ text: String) {
    #expect(Quantity.time(seconds: seconds) == text)
  }

  @Test func endlessNumbersDoNotTrap() {
    #expect(Quantity.rate(.infinity) == "9.22 EB/s")
    #expect(Quantity.time(seconds: .infinity).hasSuffix("h"))
  }

  @Test func percents() {
    #expect(Quantity.percent(999, of: 1000) == 99)
    #expect(Quantity.percent(0, of: 0) == 100)
    #expect(Quantity.percent(5, of: nil) == nil)
    #expect(Quantity.percent(5, of: 4) == nil)
    #expect(Quantity.percent(.max, of: .max) == 100)
  }

  @Test func rates() {
    var meter = RateMeter()
    #expect(meter.bytesPerSecond == nil)
    for tenth in 0...200 { meter.record(bytes: Int64(tenth) * 100, atSeconds: Double(tenth) / 10) }
    #expect(meter.bytesPerSecond.map { abs($0 - 1000) < 1 } == true)
    // A stall shows within the window.
    meter.record(bytes: 20_000, atSeconds: 30)
    #expect((meter.bytesPerSecond ?? 1000) < 100)
    // A restart begins afresh.
    meter.record(bytes: 0, atSeconds: 31)
    #expect(meter.bytesPerSecond == nil)
  }

  // MARK: Terminals

  @Test func harmfulTextIsEscaped() {
    #expect(TerminalText.escaped("plain ü 漢 👍") == "plain ü 漢 👍")
    #expect(TerminalText.escaped("a\u{1B}[2J\r\nb\u{9B}c\u{7F}") == "a\\u{1B}[2J\\u{D}\\u{A}b\\u{9B}c\\u{7F}")
    #expect(TerminalText.escaped("\u{202E}gpj") == "\\u{202E}gpj")
  }

  @Test func jsonCannotSteerATerminal() throws {
    var task = Self.task(state: "running")
    task.url = "https://h/\u{1B}[2J\u{9B}\u{7F}\u{E0041}"
    let text = try JSONText.of(task)
    #expect(!text.unicodeScalars.contains { TerminalText.isHarmful($0) && $0 != "\n" })
    #expect(text.contains("\\u009b\\u007f\\udb40\\udc41"))
  }

  @Test func columnsOfText() {
    #expect(TerminalText.columns("abc") == 3)
    #expect(TerminalText.columns("漢字") == 4)
    #expect(TerminalText.columns("e\u{301}") == 1)
    #expect(TerminalText.fitted("abcdef", columns: 4) == "abc…")
    #expect(TerminalText.fitted("漢字漢字", columns: 4) == "漢…")
    #expect(TerminalText.fitted("abc", columns: 3) == "abc")
    #expect(TerminalText.fitted("abc", columns: 0).isEmpty)
  }

  @Test func tablesAlign() {
    var table = TextTable(columns: [
      .init(heading: "ID", isAlignedRight: true), .init(heading: "S"), .init(heading: "URL"),
    ])
    table.rows = [["1", "漢字", "a"], ["100", "x", "b"]]
    #expect(table.lines() == [" ID  S     URL", "  1  漢字  a", "100  x     b"])
  }

  @Test func progressFitsEveryWidth() {
    var task = Self.task(state: "running")
    task.received = 45_000_000
    task.expected = 100_000_000
    func line(_ columns: Int) -> String {
      TaskText.progress(task, name: "some.bin", bytesPerSecond: 5e6, wallMilliseconds: 0, columns: columns)
    }
    #expect(line(80) == "some.bin  45 %  45.0 MB of 100 MB  5.00 MB/s  11 s left")
    #expect(line(30) == "45 %  45.0 MB of 100 MB")
    #expect(line(20) == "45 %")
    for columns in 0...120 { #expect(TerminalText.columns(line(columns)) <= columns) }
  }

  @Test func waitingShowsWhyAndWhen() {
    var task = Self.task(state: "waiting")
    task.reason = "about to start"
    #expect(TaskText.waiting(task, wallMilliseconds: 0) == "waiting: about to start")
    task.reason = "server said 503. (next try in 8 s)"
    task.error = WireFailure(code: "httpStatus", isTransient: true, domain: "", number: 503, detail: "server said 503.")
    task.nextAttemptMilliseconds = 10_000
    func line(_ now: Int64) -> String {
      TaskText.progress(task, name: "x", bytesPerSecond: nil, wallMilliseconds: now, columns: 80)
    }
    #expect(line(2_100).contains("waiting: server said 503, next try in 8 s"))
    #expect(line(10_001).contains("next try now"))
    #expect(line(.min).contains("next try now"))
    #expect(TaskText.explanation(task, wallMilliseconds: 2_100).hasPrefix("Task 7 is waiting: server said 503"))
  }

  // MARK: Exit codes

  @Test func everyCauseHasACode() {
    for code in FailureCode.allCases {
      var task = Self.task(state: "failed")
      task.error = WireFailure(code: code.rawValue, isTransient: false, domain: "", number: 0, detail: "")
      let exit = ExitCode.of(task)
      #expect(exit != nil && exit != .success)
    }
    for name in WireError.Name.allCases { #expect(ExitCode.of(name) != .success) }
    #expect(ExitCode.of(Self.task(state: "succeeded")) == .success)
    #expect(ExitCode.of(Self.task(state: "running")) == nil)
    #expect(ExitCode.of(Self.task(state: "failed")) == .failure)
    #expect(Set(ExitCode.allCases.map(\.meaning)).count == ExitCode.allCases.count)
  }

  @Test func lastLinesOfALog() {
    let bytes = Array("a\nb\n\nc\n".utf8)
    #expect(LogTail.lastLines(bytes, lineCount: 2) == ["", "c"])
    #expect(LogTail.lastLines(bytes, lineCount: 9) == ["a", "b", "", "c"])
    #expect(LogTail.lastLines([], lineCount: 9).isEmpty)
  }
}

/// docs/Commands.md is part of the interface: what the tables of the program say must stand there.
@Suite struct CommandDocumentTests {
  private static func document() throws -> String {
    let folder = #filePath.split(separator: "/").dropLast(3).map { "/\($0)" }.joined()
    return String(decoding: try Files.read(folder + "/docs/Commands.md", limitBytes: 1 << 20), as: UTF8.self)
  }

  @Test func listsEveryExitCode() throws {
    let text = try Self.document()
    for code in ExitCode.allCases { #expect(text.contains("\n| \(code.rawValue) | \(code.meaning) |\n")) }
  }

  @Test func namesEveryCommandAndOption() throws {
    let text = try Self.document()
    for command in CommandTable.all where command.name != "help" {
      #expect(text.contains(command.name), "\(command.name)")
      for row in command.options {
        #expect(
          text.contains(row.label) || row.letter.map { text.contains("-\($0) ") } == true,
          "\(command.name) \(row.label)")
      }
    }
  }

  @Test func namesEveryMemberOfATask() throws {
    var task = CommandPartsTests.task(state: "failed")
    (task.reason, task.currentURL, task.headers, task.file, task.body) = ("", "", [], "", "")
    (task.expected, task.expectedToSend, task.finishedMilliseconds, task.nextAttemptMilliseconds) = (0, 0, 0, 0)
    (task.description, task.sha256, task.isLengthVerified, task.validator) = ("", "", false, "")
    (task.wasted, task.pin, task.cancelCause) = (0, "", "")
    (task.expiresMilliseconds, task.resumeToken, task.metrics) = (0, "", WireMetrics(MetricsLog()))
    (task.isDiscretionary, task.requires, task.blockers, task.earliestBeginMilliseconds) = (true, [], [], 0)
    (task.clientExpectsToSend, task.clientExpectsToReceive) = (0, 0)
    task.question = WireQuestion(number: 0, kind: "")
    task.response = WireResponse(status: 200, headers: [], url: "", httpVersion: "1.1")
    task.error = WireFailure(code: "", isTransient: false, domain: "", number: 0, detail: "")
    let members = try JSONDecoder().decode([String: Anything].self, from: Data(JSONText.of(task).utf8)).keys
    #expect(members.count == Mirror(reflecting: task).children.count, "a new member is not set above")
    let text = try Self.document()
    for member in members { #expect(text.contains("`\(member)`"), "\(member)") }
  }

  private struct Anything: Decodable {
    init(from decoder: any Decoder) throws {}
  }
}
