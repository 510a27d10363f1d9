import Glibc
import LinuxSystem
import TransferCore
import WireProtocol

/// Another daemon takes over: this process becomes it, so that neither a supervisor nor systemd has anything to do, and
/// the new executable is the one that stands where this one stood.
extension Daemon {
  /// Lets transfers end that would lose by being stopped, at most ``Limits/drain``, and then goes. Meanwhile everything
  /// is answered as ever, and nothing new begins.
  func restart(_ token: RequestToken, _ peer: Peer, _ now: ClockReading, _ effects: inout [Effect]) throws(WireError) {
    let path: String
    do throws(SystemError) {
      path = try ChildProcess.executablePath()
    } catch {
      throw WireError(.internalError, "The daemon cannot tell where its executable stands: \(error)")
    }
    guard unsafe access(path, X_OK) == 0 else {
      throw WireError(
        .internalError, "There is no executable at \(path); install one there, or stop the daemon and start another.")
    }
    respond(to: token, result: EmptyResult(), isHeld: false)
    guard restartDue == nil else { return }
    restartDue = now.boot + Limits.drain
    effects += core.handle(.drainRequested, at: now)
    let count = core.drainees.count
    log.write(
      .notice,
      "Restarting as \(path), as \(peer.client) (process \(peer.processID)) asked"
        + (count > 0 ? "; \(count) transfers that cannot be continued may end before." : "."))
  }

  /// Nothing more would be lost, or the time is over.
  func gatherRestart(_ now: ClockReading, _ effects: inout [Effect]) {
    guard let due = restartDue, !isStopping else { return }
    let left = core.drainees
    guard left.isEmpty || due <= now.boot else { return }
    if !left.isEmpty {
      let list = left.prefix(10).map { "\($0)" }.joined(separator: ", ")
      log.write(
        .warning, "Not waiting any longer for \(left.count) transfers (tasks \(list)); they begin again, or fail.")
    }
    effects += core.handle(.handedOver, at: now)
    isRestarting = true
    isStopping = true
  }

  /// One line for all results that go soon and that nobody collected.
  func logExpiring() {
    guard !expiring.isEmpty else { return }
    let list = expiring.prefix(10).map { "\($0)" }.joined(separator: ", ")
    let more = expiring.count > 10 ? " and \(expiring.count - 10) more" : ""
    let words = expiring.count == 1 ? "The result of task" : "The results of tasks"
    log.write(
      .warning, "\(words) \(list)\(more) will be removed soon, as nobody collects them; `ferry list` tells when.")
    expiring.removeAll()
  }
}
