package struct AppListResult: Codable, Hashable, Sendable {
  /// In the order of their ids; of the launches only the last.
  package var apps: [AppSnapshot]
  /// Files of the registration folder that register nothing.
  package var refused: [RefusedRegistration]
  package init(apps: [AppSnapshot], refused: [RefusedRegistration]) {
    self.apps = apps
    self.refused = refused
  }
}

package struct RefusedRegistration: Codable, Hashable, Sendable {
  package var file: String
  /// What is wrong with it, and what to do.
  package var reason: String
  package init(file: String, reason: String) {
    self.file = file
    self.reason = reason
  }
}

package struct AppShowResult: Codable, Hashable, Sendable {
  package var app: AppSnapshot
  package init(app: AppSnapshot) { self.app = app }
}

/// An app as a client sees it; `ferry app show --json` prints just this.
package struct AppSnapshot: Codable, Hashable, Sendable {
  package var app: String
  package var command: [String]
  package var taskIdentifiers: [String]
  package var backgroundModes: [String]
  /// The file that registers it; absent where a request did.
  package var file: String?
  package var registeredMilliseconds: Int64
  /// "notRunning", "starting", "background" or "foreground".
  package var state: String
  package var processIDs: [Int32]
  package var isForceQuit: Bool
  /// What must pass between the last launch and the next.
  package var delaySeconds: Double
  /// No launch before this moment; absent where the next may come at once.
  package var nextLaunchMilliseconds: Int64?
  /// Why it is, or is not, launched now, in words.
  package var reason: String
  /// Oldest first.
  package var launches: [LaunchSnapshot]

  package init(
    app: String, command: [String], taskIdentifiers: [String], backgroundModes: [String], file: String?,
    registeredMilliseconds: Int64, state: String, processIDs: [Int32], isForceQuit: Bool, delaySeconds: Double,
    nextLaunchMilliseconds: Int64?, reason: String, launches: [LaunchSnapshot]
  ) {
    self.app = app
    self.command = command
    self.taskIdentifiers = taskIdentifiers
    self.backgroundModes = backgroundModes
    self.file = file
    self.registeredMilliseconds = registeredMilliseconds
    self.state = state
    self.processIDs = processIDs
    self.isForceQuit = isForceQuit
    self.delaySeconds = delaySeconds
    self.nextLaunchMilliseconds = nextLaunchMilliseconds
    self.reason = reason
    self.launches = launches
  }
}

/// One launch of an app, or one wake of its process.
package struct LaunchSnapshot: Codable, Hashable, Sendable {
  package var launch: Int64
  /// The identifier of the session that it was for.
  package var session: String
  /// "sessionEvents" or "challenge".
  package var reason: String
  /// True: a process that ran was notified, and none started.
  package var isWake: Bool
  /// "running", or a name of `LaunchOutcome`.
  package var outcome: String
  /// What happened, in words.
  package var detail: String
  package var processID: Int32?
  package var decidedMilliseconds: Int64
  package var startedMilliseconds: Int64?
  package var attachedMilliseconds: Int64?
  package var handledMilliseconds: Int64?
  package var endedMilliseconds: Int64?
  /// The end of what it wrote on standard output and standard error.
  package var output: String?

  package init(
    launch: Int64, session: String, reason: String, isWake: Bool, outcome: String, detail: String, processID: Int32?,
    decidedMilliseconds: Int64, startedMilliseconds: Int64?, attachedMilliseconds: Int64?,
    handledMilliseconds: Int64?, endedMilliseconds: Int64?, output: String?
  ) {
    self.launch = launch
    self.session = session
    self.reason = reason
    self.isWake = isWake
    self.outcome = outcome
    self.detail = detail
    self.processID = processID
    self.decidedMilliseconds = decidedMilliseconds
    self.startedMilliseconds = startedMilliseconds
    self.attachedMilliseconds = attachedMilliseconds
    self.handledMilliseconds = handledMilliseconds
    self.endedMilliseconds = endedMilliseconds
    self.output = output
  }
}

/// A session of the app has something to collect, and the process that this connection speaks for runs already.
package struct AppWakeNotice: Codable, Hashable, Sendable {
  package var app: String
  /// The session's identifier.
  package var session: String
  package var launch: Int64
  /// "sessionEvents" or "challenge".
  package var reason: String
  package init(app: String, session: String, launch: Int64, reason: String) {
    self.app = app
    self.session = session
    self.launch = launch
    self.reason = reason
  }
}
