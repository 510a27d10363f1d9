package import TransferCore
package import WireProtocol

extension RequestIntake {
  /// An app's command as execve(2) takes it, bounded: 64 arguments of 4 KiB each.
  package static func registration(
    _ wire: AppRegisterParameters, file: String? = nil
  ) throws(WireError) -> AppRegistration {
    guard let path = wire.command.first, path.hasPrefix("/"), !path.hasSuffix("/") else {
      throw WireError(.invalidParameters, "\"command\" begins with the absolute path of the program.")
    }
    guard wire.command.count <= 65 else {
      throw WireError(.invalidParameters, "\"command\" has at most 64 arguments.")
    }
    for word in wire.command { try check(word, "a word of \"command\"", bytes: 4096) }
    let tasks = wire.taskIdentifiers ?? []
    let modes = wire.backgroundModes ?? []
    guard tasks.count <= 100, modes.count <= 20 else {
      throw WireError(.invalidParameters, "At most 100 taskIdentifiers and 20 backgroundModes.")
    }
    for text in tasks + modes {
      if text.isEmpty { throw WireError(.invalidParameters, "A task identifier or background mode is empty.") }
      try check(text, "a task identifier or background mode", bytes: WireLimits.identifierBytes)
    }
    return AppRegistration(
      id: try appID(wire.app), command: wire.command, taskIdentifiers: tasks, backgroundModes: modes, file: file)
  }

  package static func appID(_ text: String) throws(WireError) -> String {
    try check(text, "app", bytes: WireLimits.identifierBytes)
    if text.isEmpty { throw WireError(.invalidParameters, "app must not be empty.") }
    return text
  }

  package static func presence(_ text: String) throws(WireError) -> AppPresence {
    guard let presence = AppPresence(rawValue: text) else {
      throw WireError(.invalidParameters, "state is \"foreground\" or \"background\".")
    }
    return presence
  }
}
