import TransferCore
import WireProtocol

extension Snapshot {
  /// Nil for an app that is not registered.
  /// - Parameter output: what the process of a launch has written so far.
  static func make(
    _ cell: AppCell, in core: Core, at now: ClockReading, launches: ArraySlice<LaunchRecord>,
    output: (launch: Int64, text: String)?
  ) -> AppSnapshot? {
    guard let record = cell.record else { return nil }
    let state: String =
      if cell.isForeground {
        "foreground"
      } else if !cell.processes.isEmpty {
        "background"
      } else {
        cell.current?.phase == .starting ? "starting" : "notRunning"
      }
    let opensIn = cell.opensAt.map { $0 - now.boot }.flatMap { $0 > .zero ? $0 : nil }
    return AppSnapshot(
      app: cell.id, command: record.registration.command, taskIdentifiers: record.registration.taskIdentifiers,
      backgroundModes: record.registration.backgroundModes, file: record.registration.file,
      registeredMilliseconds: record.registeredAt.milliseconds, state: state,
      processIDs: cell.processes.map(\.processID), isForceQuit: record.isForceQuit,
      delaySeconds: Double(record.delay.millisecondsClamped) / 1000,
      nextLaunchMilliseconds: opensIn.map { (now.wall + $0).milliseconds },
      reason: core.launchReason(cell, at: now),
      launches: launches.map { launch in
        wire(launch, output: output.flatMap { $0.launch == launch.number ? $0.text : nil })
      })
  }

  private static func wire(_ launch: LaunchRecord, output: String?) -> LaunchSnapshot {
    let text = output ?? launch.output
    return LaunchSnapshot(
      launch: launch.number, session: launch.session, reason: launch.reason.rawValue, isWake: launch.isWake,
      outcome: launch.outcome?.rawValue ?? "running", detail: launch.detail, processID: launch.processID,
      decidedMilliseconds: launch.decidedAt.milliseconds, startedMilliseconds: launch.startedAt?.milliseconds,
      attachedMilliseconds: launch.attachedAt?.milliseconds, handledMilliseconds: launch.handledAt?.milliseconds,
      endedMilliseconds: launch.endedAt?.milliseconds, output: text.isEmpty ? nil : text)
  }
}
