public import FoundationEssentials
import Glibc
import LinuxSystem

/// A file or folder of this machine: what an upload is read from and a download is written to.
///
/// A type of its own, so that neither an address of the network nor a body in memory can stand where only a file can:
/// the daemon reads and writes it after this program has ended.
public struct LocalPath: Hashable, Sendable, CustomStringConvertible {
  /// Absolute; empty where nothing was given, which no task takes.
  public let path: String

  /// A relative path counts from the present working directory of this process.
  public init(_ path: String) {
    if path.hasPrefix("/") || path.isEmpty {
      self.path = path
    } else {
      let folder = FileManager.default.currentDirectoryPath
      self.path = (folder == "/" ? "" : folder) + "/" + path
    }
  }

  /// Nil unless it is a `file:` URL of this machine.
  public init?(_ url: URL) {
    guard url.isFileURL, url.host() == nil || url.host() == "" || url.host() == "localhost" else { return nil }
    self.init(url.path(percentEncoded: false))
  }

  /// The path as a `file:` URL.
  public var url: URL { URL(filePath: path) }
  /// The path.
  public var description: String { path }

  /// The path with its folder's symbolic links, `.` and `..` resolved in this process (realpath(3)); the last component
  /// is kept, and need not exist. The daemon claims a destination under this name.
  package var canonical: String {
    get throws(FerryError) {
      var trimmed = path
      while trimmed.count > 1, trimmed.hasSuffix("/") { trimmed.removeLast() }
      let name = Files.lastComponent(of: trimmed)
      guard !trimmed.utf8.contains(0), !name.isEmpty, name != ".", name != "..", name != "/" else {
        throw FerryError(.invalidArgument, "\(path.debugDescription) names no file")
      }
      let parent = Files.parent(of: trimmed)
      guard let resolved = unsafe realpath(parent, nil) else {
        let error = SystemError(errno, operation: "folder", path: parent)
        throw FerryError(
          .destinationUnusable,
          error.number == ENOENT ? "there is no folder \(parent); create it first" : error.description)
      }
      defer { unsafe free(resolved) }
      let folder = unsafe String(cString: resolved)
      return (folder == "/" ? "" : folder) + "/" + name
    }
  }
}
