/// How a program is known to the daemon.
package struct AppRegistration: Hashable, Sendable {
  /// The app that its sessions name.
  package var id: String
  /// The absolute path of the program, then its arguments.
  package var command: [String]
  /// Identifiers of background tasks that it may ask for.
  package var taskIdentifiers: [String]
  package var backgroundModes: [String]
  /// The file that registers it; nil: a request did.
  package var file: String?

  package init(
    id: String, command: [String], taskIdentifiers: [String] = [], backgroundModes: [String] = [], file: String? = nil
  ) {
    self.id = id
    self.command = command
    self.taskIdentifiers = taskIdentifiers
    self.backgroundModes = backgroundModes
    self.file = file
  }
}

/// A registered app, and what its launches have cost it.
package struct AppRecord: Hashable, Sendable {
  package var registration: AppRegistration
  package var registeredAt: WallInstant
  /// A person ended it: no launch until a person opens it again.
  package var isForceQuit: Bool
  /// The number of the last launch; numbers are never used twice.
  package var lastLaunch: Int64
  /// What must pass between the last launch and the next; see ``LaunchPolicy/delay(after:)``.
  package var delay: Duration
  package var lastLaunchAt: WallInstant?

  package init(
    registration: AppRegistration, registeredAt: WallInstant, isForceQuit: Bool = false, lastLaunch: Int64 = 0,
    delay: Duration = .zero, lastLaunchAt: WallInstant? = nil
  ) {
    self.registration = registration
    self.registeredAt = registeredAt
    self.isForceQuit = isForceQuit
    self.lastLaunch = lastLaunch
    self.delay = delay
    self.lastLaunchAt = lastLaunchAt
  }
}

package enum LaunchReason: String, CaseIterable, Hashable, Sendable {
  /// All tasks of the session have ended, and results wait.
  case sessionEvents
  /// A task needs an answer that only the app can give.
  case challenge
}

package enum LaunchOutcome: String, CaseIterable, Hashable, Sendable {
  /// The app reported that it has handled the events.
  case handled
  /// It took all that there was and ended by itself, without a report.
  case collected
  /// A person opened the app, ended it or removed it before the launch was over.
  case superseded
  /// The program could not be started.
  case startFailed
  /// It ended before it had collected everything.
  case exitedEarly
  /// Its grant ran out, and it was ended.
  case ended
  /// Its grant ran out; it is a process that the daemon did not start, and was left alone.
  case notHandled
  /// It ended while no daemon ran.
  case lost
}

/// One launch of an app: a process that was started, or one that ran and was woken.
package struct LaunchRecord: Hashable, Sendable {
  package var app: String
  /// Counted from 1 for each app.
  package var number: Int64
  /// The identifier of the session that it is for.
  package var session: String
  package var reason: LaunchReason
  /// A process that ran was notified; none was started.
  package var isWake: Bool
  package var decidedAt: WallInstant
  package var startedAt: WallInstant?
  package var attachedAt: WallInstant?
  package var handledAt: WallInstant?
  package var endedAt: WallInstant?
  package var processID: Int32?
  /// Nil while it goes on.
  package var outcome: LaunchOutcome?
  /// What happened, in words.
  package var detail: String
  /// The end of what the process wrote on its standard streams.
  package var output: String

  package init(
    app: String, number: Int64, session: String, reason: LaunchReason, isWake: Bool = false, decidedAt: WallInstant,
    startedAt: WallInstant? = nil, attachedAt: WallInstant? = nil, handledAt: WallInstant? = nil,
    endedAt: WallInstant? = nil, processID: Int32? = nil, outcome: LaunchOutcome? = nil, detail: String = "",
    output: String = ""
  ) {
    self.app = app
    self.number = number
    self.session = session
    self.reason = reason
    self.isWake = isWake
    self.decidedAt = decidedAt
    self.startedAt = startedAt
    self.attachedAt = attachedAt
    self.handledAt = handledAt
    self.endedAt = endedAt
    self.processID = processID
    self.outcome = outcome
    self.detail = detail
    self.output = output
  }
}

/// One change of the stored apps.
package enum AppChange: Hashable, Sendable {
  case put(AppRecord)
  /// Its launches go with it.
  case remove(String)
  case putLaunch(LaunchRecord)
  case removeLaunch(app: String, number: Int64)
}
