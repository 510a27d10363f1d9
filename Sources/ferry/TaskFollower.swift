import Glibc
import LinuxSystem
import TransferCore
import WireProtocol

/// Follows tasks to their ends: shows progress on a terminal, and lets go at Ctrl-C.
///
/// Make it before the connection is opened: it blocks SIGINT, and the connection's thread must inherit that.
final class TaskFollower {
  enum Outcome {
    /// Every task has ended; they are in the order asked for.
    case ended([TaskSnapshot])
    /// Ctrl-C.
    case interrupted
  }

  private let signals: SignalSource
  private let inbox: Mailbox<DaemonNotification>
  private let loop: EventLoop
  private var progress = ProgressLine()
  private var meter = RateMeter()
  private var tasks: [Int64: TaskSnapshot] = [:]
  private var order: [Int64] = []
  private var isInterrupted = false
  /// Questions that a person was told of, by their task.
  private var told: [Int64: Int64] = [:]
  /// What holds a task back, and since when nothing else does.
  private struct Wait {
    var cause: String
    var since: BootInstant
    var isTold = false
  }
  private var waits: [Int64: Wait] = [:]
  /// A wait that is shorter is no news.
  private static let newsworthyNanoseconds: Int64 = 1_000_000_000
  private var heardAt = BootInstant.now()
  /// After so long without news the daemon is asked: a task may have been removed, and no notification says so.
  private static let silenceNanoseconds: Int64 = 10_000_000_000

  init() throws(CommandFailure) {
    do {
      signals = try SignalSource([SIGINT])
      inbox = try Mailbox()
      loop = try EventLoop()
    } catch {
      throw CommandFailure(.failure, "\(error)")
    }
  }

  /// What the connection is opened with.
  var receiver: @Sendable (DaemonNotification) -> Void {
    let inbox = inbox
    return { inbox.post($0) }
  }

  /// True once Ctrl-C was pressed.
  func wasInterrupted() -> Bool {
    if !isInterrupted, (try? signals.next()) != nil { isInterrupted = true }
    return isInterrupted
  }

  /// Follows until all have ended. `onEnd` is called for each as it ends, with the progress line erased.
  func follow(
    _ ids: [Int64], name: String, on link: DaemonLink, onEnd: (TaskSnapshot) throws(CommandFailure) -> Void
  ) throws(CommandFailure) -> Outcome {
    order = ids
    defer { progress.erase() }
    do {
      let registrations = [
        try loop.register(descriptor: inbox.descriptor, interest: .readable) { _ in },
        try loop.register(descriptor: signals.descriptor, interest: .readable) { _ in },
      ]
      defer { for registration in registrations { loop.remove(registration) } }
      try link.watch(ids)
      var ended: Set<Int64> = []
      while !wasInterrupted() {
        try take(inbox.drain())
        for id in ids where !ended.contains(id) {
          guard let task = tasks[id], TaskText.isFinished(task.state) else { continue }
          ended.insert(id)
          progress.erase()
          try onEnd(task)
        }
        tellQuestions(ids)
        tellWaits(ids)
        if ended.count == ids.count { return .ended(ids.compactMap { tasks[$0] }) }
        draw(name: name, endedCount: ended.count)
        try loop.wait(until: nextTurn())
        try askAfterSilence(link, ids.filter { !ended.contains($0) })
      }
      return .interrupted
    } catch let error as CommandFailure {
      throw error
    } catch {
      throw CommandFailure(.failure, "\(error)")
    }
  }

  private func take(_ notifications: [DaemonNotification]) throws(CommandFailure) {
    if !notifications.isEmpty { heardAt = .now() }
    for notification in notifications {
      switch notification {
      case .taskState(let notice):
        tasks[notice.task.id] = notice.task
      case .taskProgress(let notice):
        guard var task = tasks[notice.id], !TaskText.isFinished(task.state) else { continue }
        task.received = notice.received
        task.expected = notice.expected ?? task.expected
        task.sent = notice.sent
        tasks[notice.id] = task
      case .taskRemoved(let notice):
        // One that has ended is in `tasks` with its end, and removing it then changes nothing.
        guard let task = tasks[notice.id], !TaskText.isFinished(task.state) else { continue }
        throw CommandFailure(.unknownTask, "Task \(notice.id) was removed.")
      case .taskResumed, .taskResponse, .taskData, .taskQuestion, .delivery, .sessionEnded, .goodbye, .appWake:
        continue
      }
    }
  }

  /// Without a word somebody in a script or a pipe would wait for ever.
  private func tellQuestions(_ ids: [Int64]) {
    for task in ids.compactMap({ tasks[$0] }) {
      guard let question = task.question, told.updateValue(question.number, forKey: task.id) != question.number
      else { continue }
      progress.erase()
      Notice.say(TaskText.asking(task))
    }
  }

  /// A terminal shows it in the progress line.
  private func tellWaits(_ ids: [Int64]) {
    guard !progress.isShown else { return }
    for task in ids.compactMap({ tasks[$0] }) where task.state == "waiting" {
      guard let cause = task.error?.detail ?? task.reason else { continue }
      var wait = waits[task.id] ?? Wait(cause: cause, since: .now())
      if wait.cause != cause { wait = Wait(cause: cause, since: .now()) }
      if !wait.isTold, BootInstant.now() >= wait.since.advanced(byNanoseconds: Self.newsworthyNanoseconds) {
        wait.isTold = true
        Notice.say(TaskText.waitNotice(task.id, cause))
      }
      waits[task.id] = wait
    }
  }

  private func nextTurn() -> BootInstant {
    // Once a second the seconds that are shown change.
    let second = BootInstant.now().advanced(byNanoseconds: 1_000_000_000)
    return min(progress.nextDrawing ?? second, second)
  }

  private func askAfterSilence(_ link: DaemonLink, _ ids: [Int64]) throws(CommandFailure) {
    guard BootInstant.now() > heardAt.advanced(byNanoseconds: Self.silenceNanoseconds) else { return }
    // A few at a time; a removed one is met in its turn.
    for id in ids.prefix(16) { tasks[id] = try link.task(id) }
    heardAt = .now()
  }

  private func draw(name: String, endedCount: Int) {
    let known = order.compactMap { tasks[$0] }
    let done = known.reduce(Int64(0)) { $0.addingSaturating(TaskText.counts($1).done) }
    // Time spent waiting is no part of the speed.
    if known.contains(where: { $0.state == "running" }) {
      meter.record(bytes: done, atSeconds: Double(BootInstant.now().nanoseconds) / 1e9)
    } else {
      meter = RateMeter()
    }
    let now = Clocks.wallMilliseconds()
    let rate = meter.bytesPerSecond
    if let task = known.first, order.count == 1 {
      progress.draw {
        TaskText.progress(task, name: name, bytesPerSecond: rate, wallMilliseconds: now, columns: $0)
      }
    } else if order.count > 1 {
      let count = order.count
      let speed = rate.map { "  \(Quantity.rate($0))" } ?? ""
      progress.draw {
        TerminalText.fitted(
          "\(endedCount) of \(count) tasks ended  \(Quantity.bytes(done))\(speed)", columns: $0)
      }
    }
  }
}

extension Int64 {
  func addingSaturating(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other < 0 ? .min : .max) : sum
  }
}
