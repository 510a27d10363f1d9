import TransferCore
import WireProtocol

/// `ferry answer`: what a task in `asking` wants to know.
enum AnswerCommand {
  static let command = Command(
    name: "answer", summary: "answer what a task asks (credentials, a fresh URL)",
    operands: OperandRow(usage: "ID", count: 1...1),
    options: [
      OptionRow(
        name: .user, value: "NAME",
        help: "user and password; the password is asked for on the terminal, or read from the file that "
          + "FERRY_PASSWORD_FILE names"),
      OptionRow(name: .url, value: "URL", help: "go on with this URL; what is held stays if it is of the same content"),
      OptionRow(
        name: .header, letter: "H", value: "\"NAME: VALUE\"", isRepeatable: true,
        help: "go on with this header in place of the request's own of that name"),
      OptionRow(
        name: .secretHeader, value: "\"NAME: VALUE\"", isRepeatable: true, help: "the same, and never show it"),
      OptionRow(
        name: .trust, value: "sha256//BASE64",
        help: "the server is the right one if it shows this certificate, whoever signed it; for this task and server "
          + "alone"),
    ] + AccessValues.tlsOptions + [
      OptionRow(name: .proceed, help: "go on without an answer, as if nobody could be asked"),
      OptionRow(name: .cancel, help: "give the task up"),
      .json,
    ],
    notes: [
      "`ferry why ID` tells what is asked. One kind of answer at a time: a user, a request (--url, --header), "
        + "--trust, TLS settings, --proceed or --cancel. Nothing that was fetched is lost meanwhile.",
      "With --json: {\"ids\": [ID], \"unknown\": []}.",
    ],
    run: run)

  private static func run(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    let id = try ArgumentValue.taskID(arguments.operands[0])
    let parameters = try answer(id, arguments)
    let result = try DaemonLink.open().call(.taskAnswer(parameters), returning: TaskIdentifiersResult.self)
    if arguments.has(.json) {
      try StandardStream.output.writeLine(try JSONText.of(result))
    } else if StandardStream.error.isTerminal {
      Notice.say(parameters.answer == "cancel" ? "Gave up \(id)." : "Task \(id) goes on.")
    }
    return .success
  }

  private static func answer(_ id: Int64, _ arguments: ParsedArguments) throws(CommandFailure) -> TaskAnswerParameters {
    let headers = try ArgumentValue.headers(arguments)
    let tls = try AccessValues.tls(arguments)
    let kinds: [(isGiven: Bool, word: String)] = [
      (arguments.has(.user), "credential"), (arguments.has(.url) || !headers.all.isEmpty, "request"),
      (arguments.has(.trust), "trust"), (tls != nil, "tls"),
      (arguments.has(.proceed), "proceed"), (arguments.has(.cancel), "cancel"),
    ]
    let given = kinds.filter(\.isGiven)
    guard let word = given.first?.word, given.count == 1 else {
      throw .usage(
        given.isEmpty
          ? "answer needs an answer: --user, --url or --header, --trust, TLS settings, --proceed or --cancel."
          : "answer takes one kind of answer at a time, not \(given.map(\.word).joined(separator: " and ")).")
    }
    var parameters = TaskAnswerParameters(id: id, answer: word)
    parameters.credential = try AccessValues.credential(arguments.value(.user), .user, file: "FERRY_PASSWORD_FILE")
    parameters.certificate = arguments.value(.trust)
    parameters.tls = tls
    if let text = arguments.value(.url) { parameters.url = try ArgumentValue.url(text) }
    parameters.headers = headers.all.isEmpty ? nil : headers.all
    parameters.secretHeaders = headers.secret.isEmpty ? nil : headers.secret
    return parameters
  }
}
