/// What a client asks about an app, checked by the shell.
package enum AppCommand: Hashable, Sendable {
  case register(AppRegistration)
  case remove(String)
  /// A person opened the app.
  case front(String)
  /// A person ended the app.
  case forceQuit(String)
  /// The connection speaks for this process of the app.
  case attach(String, AppPresence, processID: Int32, launch: Int64?)
  case changeState(String, AppPresence)
  /// The app called the completion handler of this session's events.
  case handled(String, session: String, launch: Int64?)
}

package enum AppPresence: String, CaseIterable, Hashable, Sendable {
  case foreground, background
}

/// A fact about processes of apps.
package enum AppEvent: Hashable, Sendable {
  /// A connection is about to attach to a session of the app. `launch`: the launch that its process, or one that it
  /// descends from, was started by.
  case connected(app: String, peer: PeerID, processID: Int32, launch: Int64?)
  case launched(app: String, launch: Int64, processID: Int32)
  case launchFailed(app: String, launch: Int64, detail: String)
  case exited(app: String, launch: Int64, ProcessEnding, output: String)
  /// The answer to ``AppEffect/find(app:launch:processID:)``; nil: there is no such process.
  case found(app: String, launch: Int64, processID: Int32?)
  /// What the files of the registration folder say, all of it.
  case registeredByFiles([AppRegistration])
}

package enum ProcessEnding: Hashable, Sendable {
  case exited(code: Int32)
  case signalled(number: Int32)
  /// It was no child of this daemon.
  case unknown

  package var words: String {
    switch self {
    case .exited(let code): "exit status \(code)"
    case .signalled(let number): "signal \(number)"
    case .unknown: "an unknown status"
    }
  }
}

package enum AppEffect: Hashable, Sendable {
  /// Start the program. Answered by `launched` or `launchFailed`.
  case launch(LaunchOrder)
  /// End the process of a launch: by request (SIGTERM), or with all its children by force (SIGKILL).
  case end(app: String, launch: Int64, isForced: Bool)
  /// Tell a process that runs.
  case wake(PeerID, app: String, session: String, launch: Int64, LaunchReason)
  /// Look whether the process of a launch that an earlier daemon began is still there. Answered by `found`.
  case find(app: String, launch: Int64, processID: Int32?)

  package var needsCommit: Bool {
    switch self {
    case .launch, .wake: true
    case .end, .find: false
    }
  }
}

package struct LaunchOrder: Hashable, Sendable {
  package var app: String
  package var number: Int64
  package var command: [String]
  /// The session's identifier.
  package var session: String
  package var reason: LaunchReason

  package init(app: String, number: Int64, command: [String], session: String, reason: LaunchReason) {
    self.app = app
    self.number = number
    self.command = command
    self.session = session
    self.reason = reason
  }
}
