import Glibc
import LinuxSystem

/// Paths as a person types them, made absolute in this process: the daemon's working folder is another one.
enum FilePath {
  /// Nil when there is nothing, or it cannot be looked at.
  static func status(_ path: String, followingSymlinks: Bool = true) -> stat? {
    var status = stat()
    let result = unsafe followingSymlinks ? stat(path, &status) : lstat(path, &status)
    return result == 0 ? status : nil
  }

  static func isFolder(_ path: String) -> Bool {
    status(path).map { $0.st_mode & S_IFMT == S_IFDIR } ?? false
  }

  /// Absolute, without symbolic links, `.` or `..` (realpath(3)); nil with errno set where it does not lead anywhere.
  static func canonical(_ path: String) -> String? {
    guard let resolved = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(resolved) }
    return unsafe String(validatingCString: resolved)
  }

  /// The folder that `path` stands in, canonical.
  static func canonicalFolder(of path: String) throws(CommandFailure) -> String {
    let parent = Files.parent(of: path)
    guard let folder = canonical(parent) else {
      let error = SystemError(errno, operation: "folder", path: parent)
      throw CommandFailure(
        .destination,
        error.number == ENOENT ? "There is no folder \(parent); make it with `mkdir -p`." : "\(error)")
    }
    guard isFolder(folder) else { throw CommandFailure(.destination, "\(parent) is no folder.") }
    return folder
  }

  /// `path` with its folder canonical; the last component is kept as it is.
  static func absolute(_ path: String) throws(CommandFailure) -> String {
    let folder = try canonicalFolder(of: path)
    return (folder == "/" ? "" : folder) + "/" + Files.lastComponent(of: path)
  }
}
