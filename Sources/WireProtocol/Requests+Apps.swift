/// Registers a program with the daemon, or changes its registration.
package struct AppRegisterParameters: Codable, Hashable, Sendable {
  package var app: String
  /// The absolute path of the program, then its arguments.
  package var command: [String]
  /// Identifiers of background tasks that it may ask for.
  package var taskIdentifiers: [String]?
  package var backgroundModes: [String]?
  package init(
    app: String, command: [String], taskIdentifiers: [String]? = nil, backgroundModes: [String]? = nil
  ) {
    self.app = app
    self.command = command
    self.taskIdentifiers = taskIdentifiers
    self.backgroundModes = backgroundModes
  }
}

package struct AppParameters: Codable, Hashable, Sendable {
  package var app: String
  package init(app: String) { self.app = app }
}

/// This connection speaks for a process of the app.
package struct AppAttachParameters: Codable, Hashable, Sendable {
  package var app: String
  /// "foreground" or "background".
  package var state: String
  /// The number in `FERRY_LAUNCH`, where the daemon started the process.
  package var launch: Int64?
  package init(app: String, state: String, launch: Int64? = nil) {
    self.app = app
    self.state = state
    self.launch = launch
  }
}

/// The process that this connection speaks for went to the front or to the background.
package struct AppStateParameters: Codable, Hashable, Sendable {
  package var app: String
  /// "foreground" or "background".
  package var state: String
  package init(app: String, state: String) {
    self.app = app
    self.state = state
  }
}

/// The app called the completion handler of a session's events.
package struct AppHandledParameters: Codable, Hashable, Sendable {
  package var app: String
  /// The session's identifier.
  package var session: String
  package var launch: Int64?
  package init(app: String, session: String, launch: Int64? = nil) {
    self.app = app
    self.session = session
    self.launch = launch
  }
}
