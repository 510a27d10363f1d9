import LinuxSystem

/// Who owns this process's sessions when it does not say so itself.
package enum AppIdentifier {
  /// `FERRY_APP_ID`, else the name of the executable, else "app".
  package static func standard(_ environment: [String: String]) -> String {
    if let given = environment["FERRY_APP_ID"], !given.isEmpty { return given }
    guard let path = try? ChildProcess.executablePath() else { return "app" }
    let name = Files.lastComponent(of: path)
    return name.isEmpty ? "app" : name
  }
}
