import LinuxSystem
import WireProtocol

enum WaitCommand {
  static let command = Command(
    name: "wait", summary: "wait until tasks have ended",
    operands: OperandRow(usage: "[ID…]", count: 0...WireLimits.tasksInBatch), options: [.json],
    notes: [
      "Without an id it waits for all tasks that have not ended when it is called. The path of each finished download "
        + "is printed, why a task failed goes to standard error. With --json an array of all tasks waited for is "
        + "printed at the end.",
      "Ctrl-C stops the waiting (exit code 130); the transfers go on.",
    ],
    run: run)

  private static func run(_ arguments: ParsedArguments) throws(CommandFailure) -> ExitCode {
    var ids = try ArgumentValue.taskIDs(arguments.operands)
    let follower = try TaskFollower()
    let link = try DaemonLink.open(onNotification: follower.receiver)
    var name = ""
    if ids.isEmpty {
      try link.eachPage(isUnfinishedOnly: true) { (tasks) throws(CommandFailure) in ids += tasks.map(\.id) }
    } else {
      // An unknown id ends the command before it waits for the others.
      for id in ids { name = label(try link.task(id)) }
    }
    if ids.isEmpty {
      if arguments.has(.json) { try StandardStream.output.writeLine("[]") }
      return .success
    }
    let isJSON = arguments.has(.json)
    let outcome = try follower.follow(ids, name: name, on: link) { (task) throws(CommandFailure) in
      if task.state != "succeeded" {
        Notice.say(TaskText.ending(task))
      } else if let file = task.file, !isJSON {
        try StandardStream.output.writePath(file)
      }
    }
    switch outcome {
    case .interrupted:
      Notice.say("Stopped waiting; the transfers go on. `ferry wait` waits for them again.")
      return .detached
    case .ended(let tasks):
      if isJSON { try printArray(tasks) }
      for task in tasks {
        if let code = ExitCode.of(task), code != .success { return code }
      }
      return .success
    }
  }

  private static func label(_ task: TaskSnapshot) -> String {
    task.file.map { Files.lastComponent(of: $0) } ?? FileName.fromURL(task.url)
  }

  private static func printArray(_ tasks: [TaskSnapshot]) throws(CommandFailure) {
    var separator = "["
    for task in tasks {
      try StandardStream.output.write("\(separator)\n\(try JSONText.of(task, isCompact: true))")
      separator = ","
    }
    try StandardStream.output.write("\n]\n")
  }
}
