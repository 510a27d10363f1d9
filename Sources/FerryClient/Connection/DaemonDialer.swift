import FoundationEssentials
import Glibc
import LinuxSystem
import WireProtocol

/// Finds the daemon of an environment, or starts it, and says hello.
struct DaemonDialer: Sendable {
  /// Name and version of the program, for the daemon's log.
  let client: String
  let environment: [String: String]

  /// One try: connect and say hello.
  func dial(
    deadline: SuspendingClock.Instant, wake: Int32, onWake: () -> Bool
  ) throws(ConnectionFailure) -> (WireStream, HelloResult) {
    let stream = WireStream(try connect())
    let line: Data
    do {
      line = try stream.exchange(
        id: 0, .hello(HelloParameters(client: client)), deadline: deadline, wake: wake, onWake: onWake)
    } catch {
      if error.wireError?.name == .versionUnsupported {
        throw .versionMismatch(
          "the ferryd that runs does not speak version \(WireVersion.current) of the protocol (\(error.message)); "
            + "restart it, so that its program and this one are of the same release")
      }
      throw error
    }
    do {
      let hello = try WireCoding.decodeResult(HelloResult.self, line)
      guard hello.version == WireVersion.current else {
        throw ConnectionFailure.versionMismatch(
          "\(hello.daemon) speaks version \(hello.version) of the protocol, this program version "
            + "\(WireVersion.current); install the same release of both")
      }
      return (stream, hello)
    } catch let error as ConnectionFailure {
      throw error
    } catch {
      throw .lost("what answers at the daemon's socket is no ferryd: \(error)")
    }
  }

  /// The first socket that takes the connection: the one that the living daemon wrote down, then the usual one.
  private func connect() throws(ConnectionFailure) -> OwnedDescriptor {
    var failures: [String] = []
    for path in try socketPaths() {
      do {
        let socket = try UnixSocket.connect(path, nonblocking: true)
        // Under /tmp anybody could have made a socket of that name.
        let peer = try UnixSocket.peerCredentials(socket.raw)
        guard peer.userID == geteuid() || peer.userID == 0 else {
          throw SystemError(
            EACCES, operation: "connect", path: path,
            detail: "the process that listens there (\(peer.processID)) belongs to user \(peer.userID)")
        }
        return socket
      } catch {
        failures.append("\(error)")
      }
    }
    throw .daemonUnavailable("no ferryd answers (\(failures.joined(separator: "; ")))")
  }

  private func socketPaths() throws(ConnectionFailure) -> [String] {
    do {
      let directories = try FerryDirectories.resolve(environment)
      var paths = [directories.socketPath]
      if let record = try? InstanceLock.read(directories.lockPath), record.socketPath != paths[0] {
        paths.insert(record.socketPath, at: 0)
      }
      return paths
    } catch {
      throw .daemonUnavailable("the daemon's folders cannot be found: \(error)")
    }
  }

  /// For messages about a daemon that does not come up.
  var whereToLook: String {
    let log = (try? FerryDirectories.resolve(environment)).map { "\($0.state)/ferryd.log" }
    guard let log, Files.exists(log) else { return "`ferryd --foreground` says why" }
    return "see \(log), or run `ferryd --foreground`"
  }

  // MARK: Starting

  static let executableName = "ferryd"

  /// Starts `ferryd --detach`, which ends when a daemon runs that is nobody's child; returns its process id.
  func start() throws(ConnectionFailure) -> Int32 {
    // What we cannot find it cannot either, and nobody would read what it says of that.
    _ = try socketPaths()
    let candidates = executableCandidates()
    guard let path = candidates.first(where: { unsafe access($0, X_OK) == 0 }) else {
      throw .daemonUnavailable(
        "no ferryd runs and none was found to start (looked at \(candidates.joined(separator: ", "))); "
          + "install it, or set FERRY_DAEMON to its path")
    }
    do {
      return try ChildProcess.spawn(
        path: path, arguments: [Self.executableName, "--detach"], environment: daemonEnvironment(), directory: "/",
        newSession: true)
    } catch {
      throw .daemonUnavailable("ferryd could not be started: \(error)")
    }
  }

  private func executableCandidates() -> [String] {
    if let given = environment["FERRY_DAEMON"], !given.isEmpty { return [given] }
    var candidates: [String] = []
    if let own = try? ChildProcess.executablePath() { candidates.append(Files.parent(of: own) + "/ferryd") }
    for folder in (environment["PATH"] ?? "/usr/local/bin:/usr/bin").split(separator: ":") where folder.hasPrefix("/") {
      candidates.append("\(folder)/ferryd")
    }
    return candidates + ["/usr/local/libexec/ferryd", "/usr/libexec/ferryd"]
  }

  /// What the daemon needs of this program's environment, and no more: it outlives us, and what is in our environment
  /// may be secret. Proxy settings travel with each session.
  private func daemonEnvironment() -> [String: String] {
    let names: Set<String> = [
      "HOME", "USER", "LOGNAME", "PATH", "SHELL", "LANG", "TZ", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS",
      "LD_LIBRARY_PATH",
    ]
    return environment.filter { name, _ in
      names.contains(name) || name.hasPrefix("FERRY_") || name.hasPrefix("XDG_") || name.hasPrefix("LC_")
    }
  }
}
