import FerryClient
import LinuxSystem
import TransferCore
import WireProtocol

/// This program's connection to the daemon, with failures as the exit codes that they mean.
final class DaemonLink: Sendable {
  private let connection: DaemonConnection

  private init(_ connection: DaemonConnection) { self.connection = connection }

  /// Connects, and starts the daemon where none runs and `startsDaemon` allows.
  ///
  /// - Parameter onNotification: called on the connection's own thread.
  static func open(
    startsDaemon: Bool = true, onNotification: @escaping @Sendable (DaemonNotification) -> Void = { _ in }
  ) throws(CommandFailure) -> DaemonLink {
    do {
      let connection = try DaemonConnection.open(
        client: FerryProgram.client, environment: ProcessEnvironment.current(), startsDaemon: startsDaemon,
        deadline: .seconds(10), onNotification: onNotification)
      return DaemonLink(connection)
    } catch {
      throw failure(error)
    }
  }

  func call<R: Decodable & Sendable>(_ request: ClientRequest, returning: R.Type) throws(CommandFailure) -> R {
    do {
      return try connection.call(request, returning: R.self)
    } catch {
      throw Self.failure(error)
    }
  }

  /// Says so where the daemon cannot store its state: what changes something is answered only when it can again.
  func sayIfNothingCanBeStored() throws(CommandFailure) {
    let status = try call(.daemonStatus(EmptyParameters()), returning: DaemonStatusResult.self)
    guard status.isStuck == true, let cause = status.degraded else { return }
    Notice.say("ferryd cannot store its state (\(TerminalText.escaped(cause))), and answers when it can again.")
  }

  /// Asks for the state and progress of these tasks, again after each reconnect.
  func watch(_ ids: [Int64]) throws(CommandFailure) {
    let request = ClientRequest.taskWatch(TaskWatchParameters(ids: ids))
    _ = connection.onReconnect { [weak connection] in
      // When it is lost, the next reconnect asks again.
      _ = try? connection?.call(request, returning: EmptyResult.self)
    }
    _ = try call(request, returning: EmptyResult.self)
  }

  func task(_ id: Int64) throws(CommandFailure) -> TaskSnapshot {
    do {
      return try connection.call(.taskShow(TaskShowParameters(id: id)), returning: TaskShowResult.self).task
    } catch {
      if error.wireError?.name == .taskUnknown { throw Self.unknownTask([id]) }
      throw Self.failure(error)
    }
  }

  /// All tasks in the order of their ids, a page at a time.
  func eachPage(
    isUnfinishedOnly: Bool, _ body: ([TaskSnapshot]) throws(CommandFailure) -> Void
  ) throws(CommandFailure) {
    var after: Int64?
    repeat {
      let page = try call(
        .taskList(TaskListParameters(after: after, isUnfinishedOnly: isUnfinishedOnly ? true : nil)),
        returning: TaskListResult.self)
      try body(page.tasks)
      // A page that does not go on would be asked for without end.
      guard let next = page.next, next > after ?? 0 else { return }
      after = next
    } while true
  }

  /// Opens the command's session of this name, which keeps its results until they are removed.
  func openSession(_ identifier: String) throws(CommandFailure) -> Int64 {
    let parameters = SessionOpenParameters(
      app: "ferry", identifier: identifier, attach: false, collectsResults: false,
      network: WireNetwork.fromEnvironment(ProcessEnvironment.current()))
    return try call(.sessionOpen(parameters), returning: SessionOpenResult.self).session
  }

  /// Asks the daemon to let its successor take over, and returns when that one has answered.
  func restartDaemon() throws(CommandFailure) {
    let inbox: Mailbox<Bool>
    let loop: EventLoop
    do {
      inbox = try Mailbox()
      loop = try EventLoop()
    } catch {
      throw CommandFailure(.failure, "\(error)")
    }
    let observer = connection.onReconnect { inbox.post(true) }
    defer { connection.remove(observer) }
    _ = try call(.daemonRestart(EmptyParameters()), returning: EmptyResult.self)
    let deadline = BootInstant.now() + Limits.drain + .seconds(30)
    do {
      let registration = try loop.register(descriptor: inbox.descriptor, interest: .readable) { _ in }
      defer { loop.remove(registration) }
      while inbox.drain().isEmpty {
        guard BootInstant.now() < deadline else {
          throw CommandFailure(
            .failure, "ferryd took the request, and its successor does not answer; `ferry daemon log` may say why.")
        }
        try loop.wait(until: deadline)
      }
    } catch let failure as CommandFailure {
      throw failure
    } catch {
      throw CommandFailure(.failure, "\(error)")
    }
  }

  func close() { connection.close() }

  static func unknownTask(_ ids: [Int64]) -> CommandFailure {
    let list = ids.map(String.init).joined(separator: ", ")
    return CommandFailure(
      .unknownTask, "There is no task \(list); `ferry list` shows those there are.")
  }

  private static func failure(_ failure: ConnectionFailure) -> CommandFailure {
    if let error = failure.wireError { return CommandFailure(error) }
    switch failure.kind {
    case .daemonUnavailable, .lost, .versionMismatch, .timedOut:
      return CommandFailure(.daemonUnavailable, failure.message)
    case .refused, .closed:
      return CommandFailure(.failure, failure.message)
    }
  }
}
