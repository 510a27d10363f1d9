import CLinux
import Glibc

/// Starting programs and hearing how they ended.
package enum ChildProcess {
  /// A standard stream of the child.
  package enum Stream: Sendable {
    case null
    /// Stays the caller's; need not be inheritable.
    case descriptor(Int32)

    var raw: Int32 {
      switch self {
      case .null: -1
      case .descriptor(let raw): raw
      }
    }
  }

  package enum ExitStatus: Hashable, Sendable, CustomStringConvertible {
    case exited(code: Int32)
    case signalled(number: Int32)

    init(waitStatus status: Int32) {
      self =
        clinux_wait_exited(status) != 0
        ? .exited(code: clinux_wait_exit_code(status)) : .signalled(number: clinux_wait_signal(status))
    }

    package var description: String {
      switch self {
      case .exited(let code): "exit status \(code)"
      case .signalled(let number): "signal \(number)"
      }
    }
  }

  /// Starts the program at `path` and returns its process id. `arguments` begins with the name the program sees as its
  /// own; `environment` is all it gets.
  ///
  /// The child has no blocked signal, the default action for each signal, its three streams and no other descriptor;
  /// with `newSession` it leads a session of its own, so that it outlives the terminal. A program that cannot be
  /// executed is reported here (ENOENT, EACCES, ENOEXEC), not by an exit status (posix_spawn(3)).
  package static func spawn(
    path: String, arguments: [String], environment: [String: String], directory: String? = nil,
    standardInput: Stream = .null, standardOutput: Stream = .null, standardError: Stream = .null,
    newSession: Bool
  ) throws(SystemError) -> Int32 {
    let entries = environment.map { "\($0.key)=\($0.value)" }
    for text in [path] + arguments + entries + (directory.map { [$0] } ?? []) where text.utf8.contains(0) {
      throw SystemError(EINVAL, operation: "posix_spawn", path: path, detail: "a text with a NUL byte")
    }
    for name in environment.keys where name.isEmpty || name.contains("=") {
      throw SystemError(EINVAL, operation: "posix_spawn", path: path, detail: "an environment name that is not one")
    }
    let argumentList = CStringList(arguments)
    let environmentList = CStringList(entries)
    var processID: pid_t = 0
    let result = unsafe argumentList.withPointers { argumentPointers in
      unsafe environmentList.withPointers { environmentPointers in
        unsafe clinux_spawn(
          &processID, path, argumentPointers, environmentPointers, directory, standardInput.raw, standardOutput.raw,
          standardError.raw, newSession ? 1 : 0)
      }
    }
    guard result == 0 else { throw SystemError(result, operation: "posix_spawn", path: path) }
    return processID
  }

  /// A descriptor that becomes readable when the process ends (pidfd_open(2)); ESRCH when there is none.
  package static func watch(_ processID: Int32) throws(SystemError) -> OwnedDescriptor {
    try OwnedDescriptor(adopting: Syscall.retrying("pidfd_open") { clinux_pidfd_open(processID) })
  }

  /// Sends a signal to the process a pidfd stands for: never to another that got its number.
  package static func signal(_ watch: Int32, _ number: Int32) throws(SystemError) {
    try Syscall.retrying("pidfd_send_signal") { clinux_pidfd_send_signal(watch, number) }
  }

  /// Waits for a child to end and reaps it. ECHILD when it is no child of ours, or reaped already.
  package static func wait(_ processID: Int32) throws(SystemError) -> ExitStatus {
    var status: Int32 = 0
    try Syscall.retrying("waitpid") { unsafe waitpid(processID, &status, 0) }
    return ExitStatus(waitStatus: status)
  }

  /// Reaps a child if it has ended; nil while it runs.
  package static func reap(_ processID: Int32) throws(SystemError) -> ExitStatus? {
    var status: Int32 = 0
    let reaped = try Syscall.retrying("waitpid") { unsafe waitpid(processID, &status, WNOHANG) }
    return reaped == 0 ? nil : ExitStatus(waitStatus: status)
  }

  /// Replaces the running program by the one at `path` (execve(2)); the process and its descriptors that are not
  /// close-on-exec stay. Returns only by throwing.
  package static func become(
    path: String, arguments: [String], environment: [String: String]
  ) throws(SystemError) -> Never {
    let argumentList = CStringList(arguments)
    let environmentList = CStringList(environment.map { "\($0.key)=\($0.value)" })
    // SAFETY: both arrays end with NULL and live until the call returns, if it does.
    _ = unsafe argumentList.withPointers { argumentPointers in
      unsafe environmentList.withPointers { environmentPointers in
        unsafe execve(path, argumentPointers, environmentPointers)
      }
    }
    throw SystemError(errno, operation: "execve", path: path)
  }

  /// The path of the running program. After the file was replaced (an upgrade), the path where the new one stands.
  package static func executablePath() throws(SystemError) -> String {
    let link = "/proc/self/exe"
    var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = try Syscall.retrying("readlink", path: link) { unsafe readlink(link, &bytes, bytes.count) }
    let path = String(decoding: bytes.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let mark = " (deleted)"
    return path.hasSuffix(mark) ? String(path.dropLast(mark.count)) : path
  }
}

/// A NULL-terminated array of C strings, as execve takes it.
@safe private final class CStringList {
  private var pointers: [UnsafeMutablePointer<CChar>?]

  init(_ texts: [String]) {
    unsafe pointers = texts.map { unsafe strdup($0) } + [nil]
  }

  deinit {
    for index in unsafe pointers.indices { unsafe free(pointers[index]) }
  }

  func withPointers<Result>(_ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result) -> Result {
    unsafe pointers.withUnsafeBufferPointer { buffer in
      // SAFETY: never empty, the NULL is always there.
      guard let base = buffer.baseAddress else { preconditionFailure("an array with an element has a base address") }
      return unsafe body(base)
    }
  }
}
