import WireProtocol

/// `cancel`, `pause`, `resume` and `remove`: one request for all ids.
enum ControlCommands {
  static let cancel = make(
    "cancel", "end tasks; what they have fetched so far is dropped", done: "Cancelled",
    notes: ["A cancelled task stays in the list until `ferry remove`."]
  ) { .taskCancel($0) }

  static let pause = make("pause", "stop tasks for now; what they have is kept", done: "Paused") { .taskSuspend($0) }

  static let resume = make("resume", "let paused tasks go on", done: "Resumed") { .taskResume($0) }

  static let remove = make(
    "remove", "forget tasks; one that has not ended is cancelled first", done: "Removed",
    notes: ["A finished download's file stays where it was put."]
  ) { .taskRemove($0) }

  private static func make(
    _ name: String, _ summary: String, done: String, notes: [String] = [],
    _ request: @escaping @Sendable (TaskIdentifiersParameters) -> ClientRequest
  ) -> Command {
    Command(
      name: name, summary: summary, operands: OperandRow(usage: "ID…", count: 1...WireLimits.tasksInBatch),
      options: [.json],
      notes: notes + ["With --json: {\"ids\": those that were reached, \"unknown\": the others}."],
      run: { (arguments) throws(CommandFailure) in
        let ids = try ArgumentValue.taskIDs(arguments.operands)
        let parameters = TaskIdentifiersParameters(ids: ids)
        let link = try DaemonLink.open()
        try link.sayIfNothingCanBeStored()
        let result = try link.call(request(parameters), returning: TaskIdentifiersResult.self)
        if arguments.has(.json) {
          try StandardStream.output.writeLine(try JSONText.of(result))
        } else if !result.ids.isEmpty, StandardStream.error.isTerminal {
          Notice.say("\(done) \(result.ids.map(String.init).joined(separator: ", ")).")
        }
        guard result.unknown.isEmpty else {
          throw DaemonLink.unknownTask(result.unknown)
        }
        return .success
      })
  }
}
