import LinuxSystem
import WireProtocol

/// What `get` and `put` share: hand one task to the daemon, and follow it unless `--detach`.
struct TransferRun {
  var specification: WireTaskSpecification
  var session: String
  /// For the progress line.
  var name: String
  var isDetached: Bool
  var isJSON: Bool

  static let options: [OptionRow] =
    [
      OptionRow(name: .detach, letter: "d", help: "hand the transfer over, print the task's id and end at once"),
      OptionRow(
        name: .header, letter: "H", value: "\"NAME: VALUE\"", isRepeatable: true, help: "a header of the request"),
      OptionRow(
        name: .secretHeader, value: "\"NAME: VALUE\"", isRepeatable: true,
        help:
          "a header that is never shown, and is dropped when a redirect leaves the origin (Authorization and Cookie "
          + "are always treated so)"),
      OptionRow(name: .session, value: "ID", help: "the session's name (\"default\")"),
      OptionRow(
        name: .timeout, value: "SECONDS", help: "start the attempt anew after so long without progress (60)"),
      OptionRow(
        name: .maxTime, value: "SECONDS", help: "give the task up after so long, all attempts together (604800)"),
      OptionRow(name: .unmetered, help: "wait while the network is metered"),
      OptionRow(name: .onPower, help: "wait while the device runs on its battery"),
      OptionRow(name: .after, value: "TIME", help: "begin no earlier: \(StartTime.forms)"),
      OptionRow(
        name: .ask,
        help: "when the server wants credentials, keep what is there and wait for `ferry answer`, in place of failing"),
    ] + AccessValues.options

  /// The options that both commands understand alike.
  static func make(
    kind: String, url: String, name: String, _ arguments: ParsedArguments
  ) throws(CommandFailure) -> TransferRun {
    var specification = WireTaskSpecification(kind: kind, url: url)
    let headers = try ArgumentValue.headers(arguments)
    specification.headers = headers.all.isEmpty ? nil : headers.all
    specification.secretHeaders = headers.secret.isEmpty ? nil : headers.secret
    specification.statusRule = "successOnly"
    if let text = arguments.value(.timeout) {
      specification.requestTimeoutSeconds = try ArgumentValue.seconds(text, option: "--timeout")
    }
    if let text = arguments.value(.maxTime) {
      specification.resourceTimeoutSeconds = try ArgumentValue.seconds(text, option: "--max-time")
    }
    let requires = [(OptionName.unmetered, "unmetered"), (.onPower, "externalPower")].filter { arguments.has($0.0) }
    if !requires.isEmpty { specification.requires = requires.map(\.1) }
    if let text = arguments.value(.after) {
      specification.earliestBeginMilliseconds = try StartTime.milliseconds(
        text, wallMilliseconds: Clocks.wallMilliseconds())
    }
    try AccessValues.apply(arguments, to: &specification)
    // Sent again after a lost connection, the same key makes no second task.
    specification.key = randomKey()
    return TransferRun(
      specification: specification, session: try ArgumentValue.session(arguments.value(.session) ?? "default"),
      name: name, isDetached: arguments.has(.detach), isJSON: arguments.has(.json))
  }

  /// Runs to the end; `onSuccess` prints the result of a task that succeeded.
  func run(onEnd: (TaskSnapshot) throws(CommandFailure) -> Void) throws(CommandFailure) -> ExitCode {
    let follower = isDetached ? nil : try TaskFollower()
    let ignore: @Sendable (DaemonNotification) -> Void = { _ in }
    let link = try DaemonLink.open(onNotification: follower?.receiver ?? ignore)
    let id = try enqueue(on: link, follower)
    guard let follower else { return try detach(id, link) }
    let outcome = try follower.follow([id], name: name, on: link) { (_) throws(CommandFailure) in }
    switch outcome {
    case .interrupted:
      Notice.say("Detached; the transfer goes on. `ferry wait \(id)` waits for it, `ferry cancel \(id)` ends it.")
      return .detached
    case .ended(let tasks):
      guard let task = tasks.first, let code = ExitCode.of(task) else { return .failure }
      if code != .success { Notice.failure(CommandFailure(code, TaskText.ending(task))) }
      if isJSON {
        try StandardStream.output.writeLine(try JSONText.of(task))
      } else {
        try onEnd(task)
      }
      return code
    }
  }

  private func enqueue(on link: DaemonLink, _ follower: TaskFollower?) throws(CommandFailure) -> Int64 {
    let session = try link.openSession(self.session)
    if follower?.wasInterrupted() == true { throw CommandFailure(.detached, "Interrupted; nothing was handed over.") }
    let result = try link.call(
      .taskEnqueue(TaskEnqueueParameters(session: session, tasks: [specification])), returning: TaskEnqueueResult.self)
    guard let task = result.tasks.first else { throw CommandFailure(.failure, "ferryd gave no receipt.") }
    if let error = task.error { throw CommandFailure(error) }
    guard let id = task.id else { throw CommandFailure(.failure, "ferryd gave a receipt without an id.") }
    return id
  }

  private func detach(_ id: Int64, _ link: DaemonLink) throws(CommandFailure) -> ExitCode {
    if isJSON {
      try StandardStream.output.writeLine(try JSONText.of(try link.task(id)))
    } else {
      try StandardStream.output.writeLine(String(id))
    }
    if StandardStream.error.isTerminal {
      Notice.say("Task \(id) goes on by itself; `ferry wait \(id)` waits for it, `ferry show \(id)` shows it.")
    }
    return .success
  }

  /// 128 random bits.
  private static func randomKey() -> String {
    "ferry-" + [Clocks.randomWord(), Clocks.randomWord()].map { String($0, radix: 36) }.joined(separator: "-")
  }

  /// "12.3 MB in 4 s, 3.20 MB/s", for a terminal.
  static func summary(_ task: TaskSnapshot) -> String? {
    guard let end = task.finishedMilliseconds, end >= task.createdMilliseconds else { return nil }
    let seconds = Double(end - task.createdMilliseconds) / 1000
    let (done, _) = TaskText.counts(task)
    let speed = seconds >= 0.1 ? ", \(Quantity.rate(Double(done) / seconds))" : ""
    return "\(Quantity.bytes(done)) in \(Quantity.time(seconds: seconds))\(speed)"
  }
}
