import Glibc

/// A child process whose standard output is read.
final class Spawned {
  let pid: pid_t
  private let output: Int32
  private var buffered: [UInt8] = []
  private var exitStatus: Int32?

  /// Nil when the program cannot be started.
  init?(_ path: String, _ arguments: [String]) {
    var ends: [Int32] = [-1, -1]
    guard unsafe pipe(&ends) == 0 else { return nil }
    _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
    _ = fcntl(ends[1], F_SETFD, FD_CLOEXEC)
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
    unsafe posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    var words: [UnsafeMutablePointer<CChar>?] = unsafe ([path] + arguments).map { unsafe strdup($0) } + [nil]
    defer { unsafe words.forEach { unsafe free($0) } }
    var child = pid_t()
    let code = unsafe posix_spawn(&child, path, &actions, nil, &words, environ)
    close(ends[1])
    guard code == 0 else {
      close(ends[0])
      return nil
    }
    pid = child
    output = ends[0]
  }

  deinit {
    if exitStatus == nil {
      kill(pid, SIGKILL)
      _ = wait()
    }
    close(output)
  }

  private func readSome() -> Bool {
    // A deadline, so that a broken program fails the test instead of hanging it.
    var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
    guard unsafe poll(&entry, 1, 20_000) == 1 else { return false }
    var part = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe read(output, &part, part.count)
    guard count > 0 else { return false }
    buffered += part[..<count]
    return true
  }

  /// The next line; nil at the end of the output.
  func line() -> String? {
    while true {
      if let end = buffered.firstIndex(of: 0x0A) {
        defer { buffered.removeFirst(end + 1) }
        return String(decoding: buffered[..<end], as: UTF8.self)
      }
      if !readSome() { return nil }
    }
  }

  /// Everything up to the end of the output.
  func rest() -> [UInt8] {
    while readSome() {}
    defer { buffered = [] }
    return buffered
  }

  /// The exit status; 128 + the signal's number when a signal ended it.
  func wait() -> Int32 {
    if let exitStatus { return exitStatus }
    var status: Int32 = 0
    unsafe waitpid(pid, &status, 0)
    let code = status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    exitStatus = code
    return code
  }

  /// loopback-server, which the build puts beside the test bundle.
  static let program: String = {
    var name = [CChar](repeating: 0, count: 4096)
    let count = unsafe readlink("/proc/self/exe", &name, name.count)
    let own = String(decoding: name.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return own.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
      + "/loopback-server"
  }()

  static func isExecutable(_ path: String) -> Bool { unsafe access(path, X_OK) == 0 }
}
