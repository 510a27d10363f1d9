import CLinux
import Glibc

/// Where Ferry keeps its things, resolved from an environment. The daemon and every client resolve alike; the lock file
/// then tells a client where the daemon that runs really listens.
package struct FerryDirectories: Hashable, Sendable {
  /// Everything durable.
  package let state: String
  /// The folder of the socket: `state` itself under FERRY_HOME.
  package let socketDirectory: String
  package var socketPath: String { socketDirectory + "/ferryd.sock" }
  package var lockPath: String { state + "/ferryd.lock" }

  /// - `FERRY_HOME` (absolute) puts everything under itself.
  /// - State: `$XDG_STATE_HOME/ferry`, else `$HOME/.local/state/ferry`, the home of the user database when HOME is
  ///   not set.
  /// - Socket: `$XDG_RUNTIME_DIR/ferry`, else `/run/user/UID/ferry`, each only if that folder is ours alone, else
  ///   `/tmp/ferry-UID`.
  ///
  /// Relative XDG values are ignored (XDG Base Directory Specification 0.8). Creates nothing.
  package static func resolve(_ environment: [String: String]) throws(SystemError) -> FerryDirectories {
    try resolve(environment, userID: geteuid(), runtimeRoot: "/run/user", temporaryRoot: "/tmp")
  }

  static func resolve(
    _ environment: [String: String], userID: uid_t, runtimeRoot: String, temporaryRoot: String
  ) throws(SystemError) -> FerryDirectories {
    if let home = environment["FERRY_HOME"], !home.isEmpty {
      guard let home = absolute(home) else {
        throw SystemError(
          EINVAL, operation: "FERRY_HOME", path: home,
          detail: "it must be an absolute path: programs with another working directory use it too")
      }
      return FerryDirectories(state: home, socketDirectory: home)
    }
    let state: String
    if let given = absolute(environment["XDG_STATE_HOME"]) {
      state = given + "/ferry"
    } else {
      state = try home(environment, userID: userID) + "/.local/state/ferry"
    }
    let candidates = [absolute(environment["XDG_RUNTIME_DIR"]), "\(runtimeRoot)/\(userID)"]
    for case let candidate? in candidates where isPrivate(candidate, userID: userID) {
      return FerryDirectories(state: state, socketDirectory: candidate + "/ferry")
    }
    return FerryDirectories(state: state, socketDirectory: "\(temporaryRoot)/ferry-\(userID)")
  }

  /// Creates both folders, each checked to be this user's alone (`Files.makePrivateDirectory`).
  package func prepare() throws(SystemError) {
    try Files.makePrivateDirectory(state)
    if socketDirectory != state { try Files.makePrivateDirectory(socketDirectory) }
  }

  private static func home(_ environment: [String: String], userID: uid_t) throws(SystemError) -> String {
    if let home = absolute(environment["HOME"]) { return home }
    guard let text = homeOfRecord(userID), let home = absolute(text) else {
      throw SystemError(
        ENOENT, operation: "home directory",
        detail: "HOME is not set and user \(userID) has no home in the user database; set HOME or FERRY_HOME")
    }
    return home
  }

  /// The home in the user database (getpwuid_r(3)).
  private static func homeOfRecord(_ userID: uid_t) -> String? {
    var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
    guard unsafe clinux_home_directory(userID, &bytes, bytes.count) == 0 else { return nil }
    return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// `path` without slashes at its end; nil when it is missing, relative or has a NUL byte.
  private static func absolute(_ path: String?) -> String? {
    guard var path, path.hasPrefix("/"), !path.utf8.contains(0) else { return nil }
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    return path
  }

  private static func isPrivate(_ path: String, userID: uid_t) -> Bool {
    guard let found = try? Files.status(path: path, followingSymlinks: true) else { return false }
    return found.st_mode & S_IFMT == S_IFDIR && found.st_uid == userID && found.st_mode & 0o077 == 0
  }
}
