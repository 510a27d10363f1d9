import TransferCore

/// One rule about the daemon as the world sees it, apart from all others. It keeps its own books of what was
/// promised, and never asks the core.
protocol Checker: AnyObject {
  var name: String { get }
  /// Takes one fact in; a sentence when the rule does not hold.
  func take(_ fact: Fact, in world: Simulation) -> String?
}

/// What a client is shown of a task.
struct TaskView {
  var entry: TaskEntry
  var progress: TaskProgress?
  var plan: TaskPlan?
}

/// What happened in the world, in the order in which somebody could see it.
enum Fact {
  /// An app sent a command. (It may never arrive.)
  case asked(app: Int, Command)
  /// An app has a reply in hand.
  case replied(app: Int, Command, Reply)
  /// An app has an offered result in hand.
  case offered(app: Int, process: Int, DeliveryRecord, TaskView?)
  /// A client was told a task's state.
  case announced(app: Int, TaskView)
  /// A client was told a task's counters.
  case progressTold(TaskEntry)
  /// An app looks at what it was given: nil, there is no such file.
  case collected(TaskView, path: String, Content?)
  /// A data task's client has all its bytes.
  case received(TaskView, Content)
  case began(AttemptOrder, TaskEntry?)
  /// An attempt is off the wire: it ended (how, and by which verdict), or was stopped.
  case left(AttemptID, task: TaskID, AttemptEnd?, ResponseVerdict?)
  /// The daemon stops an attempt. It may have ended already: then it does not look at how.
  case stopped(AttemptID)
  /// A server did what a request asks for.
  case acted(TaskID)
  /// Bytes were cut from, or written to, a file with a published name.
  case touchedPublished(TaskID, path: String)
  /// Bytes go into the part file of a task.
  case wrote(TaskID, Span)
  case committed([StoreChange])
  /// The store refused a change of the core's.
  case rejected(String)
  case daemonDied(isReboot: Bool)
  /// The daemon's shell begins to start an app.
  case launchOrdered(LaunchOrder)
  /// A person's process of the app came, or came to the front.
  case appOpened(String)
  case daemonStarted
  case ticked
  /// Faults have stopped, and everything had time to end.
  case settled(inTime: Bool)
}

struct Violation: Sendable {
  var checker: String
  var text: String
}
