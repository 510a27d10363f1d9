import CLinux
import Glibc

/// What a service manager is told (sd_notify(3), done by hand).
package enum ServiceNotice {
  /// The service does its work from now on. Nothing happens where NOTIFY_SOCKET does not ask for it; a program that
  /// takes this one's place in the same process finds the variable, and tells it again.
  package static func ready(in environment: [String: String] = ProcessEnvironment.current()) throws(SystemError) {
    guard let path = environment["NOTIFY_SOCKET"], path.hasPrefix("/") || path.hasPrefix("@") else { return }
    try Syscall.retrying("sendto", path: path) { unsafe clinux_notify(path, "READY=1") }
  }
}

/// Sockets that a service manager opened for us (sd_listen_fds(3), done by hand).
package enum SocketActivation {
  /// The descriptors in order, close-on-exec, and their names (empty where there are none).
  package struct Inherited: ~Copyable {
    package var descriptors: DescriptorBatch
    package let names: [String]
  }

  /// Takes what LISTEN_FDS announces, if LISTEN_PID names this process, and removes the variables, so that children do
  /// not take it for theirs. Call once, at the start of `main`, before any thread.
  package static func takeInherited() throws(SystemError) -> Inherited {
    let environment = ProcessEnvironment.current()
    // SAFETY: no other thread runs yet, by this function's contract.
    for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] { unsafe unsetenv(name) }
    return try inherited(environment, processID: getpid(), first: firstDescriptor)
  }

  /// Makes this process's next program find the socket where a service manager would have put it. Only to be followed
  /// by ``ChildProcess/become(path:arguments:environment:)``: whatever has descriptor 3 is closed.
  package static func passOn(_ socket: Int32, to environment: inout [String: String]) throws(SystemError) {
    if socket == firstDescriptor {
      _ = try Syscall.retrying("fcntl") { fcntl(socket, F_SETFD, 0) }
    } else {
      _ = try Syscall.retrying("dup2") { dup2(socket, firstDescriptor) }
    }
    environment["LISTEN_PID"] = "\(getpid())"
    environment["LISTEN_FDS"] = "1"
    environment["LISTEN_FDNAMES"] = nil
  }

  /// SD_LISTEN_FDS_START.
  private static let firstDescriptor: Int32 = 3
  /// More than a daemon of one socket can be meant to get; guards the loop against a number made up.
  private static let countLimit = 64

  static func inherited(
    _ environment: [String: String], processID: Int32, first: Int32
  ) throws(SystemError) -> Inherited {
    guard environment["LISTEN_PID"].flatMap({ Int32($0) }) == processID, let text = environment["LISTEN_FDS"] else {
      return Inherited(descriptors: DescriptorBatch(), names: [])
    }
    guard let count = Int32(text), count >= 0, count <= countLimit else {
      throw SystemError(
        EINVAL, operation: "socket activation", detail: "LISTEN_FDS is \(text), not a number from 0 to \(countLimit)")
    }
    var raws: [Int32] = []
    for raw in first..<(first + count) {
      try Syscall.setCloseOnExec(raw)
      raws.append(raw)
    }
    let given = environment["LISTEN_FDNAMES"]?.split(separator: ":", omittingEmptySubsequences: false) ?? []
    let names = raws.indices.map { $0 < given.count ? String(given[$0]) : "" }
    return Inherited(descriptors: DescriptorBatch(adopting: raws), names: names)
  }
}
