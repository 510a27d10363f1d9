import Glibc
import LinuxSystem
import Testing
import TransferCore

/// A folder of its own for one test, removed with everything in it.
final class TemporaryDirectory {
  let path: String

  init(under root: String = "/tmp") throws {
    path = "\(root)/ferry-test-\(getpid())-\(Clocks.randomWord())"
    try Files.makePrivateDirectory(path)
  }

  deinit {
    guard
      let child = try? ChildProcess.spawn(
        path: "/bin/rm", arguments: ["rm", "-rf", "--", path], environment: [:], newSession: false)
    else { return }
    _ = try? ChildProcess.wait(child)
  }

  /// A file of this content and mode 0600; its path.
  @discardableResult
  func file(_ name: String, _ content: String = "content") throws -> String {
    let file = try Files.createPrivate(path + "/" + name)
    try Syscall.writeAll(file.raw, Array(content.utf8))
    return path + "/" + name
  }
}

func text(_ path: String) throws -> String {
  String(decoding: try Files.read(path, limitBytes: 1 << 20), as: UTF8.self)
}

func exists(_ path: String) -> Bool {
  (try? Files.identity(path: path, followingSymlinks: false)) != nil
}

func run(_ path: String, _ arguments: [String]) throws -> ChildProcess.ExitStatus {
  let name = path.split(separator: "/").last.map { String($0) } ?? path
  let child = try ChildProcess.spawn(
    path: path, arguments: [name] + arguments, environment: ["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"],
    newSession: false)
  return try ChildProcess.wait(child)
}

/// The number of the SystemError that `body` throws.
func errorNumber(_ body: () throws -> Void) -> Int32? {
  do {
    try body()
    return nil
  } catch {
    return (error as? SystemError)?.number
  }
}

/// A deadline by which anything in these tests has happened.
func soon(milliseconds: Int64 = 20_000) -> BootInstant {
  BootInstant.now().advanced(byNanoseconds: milliseconds * 1_000_000)
}

/// Turns of the loop until `condition`, at most until a generous deadline.
func turn(_ loop: EventLoop, until condition: () -> Bool) throws {
  let deadline = soon()
  while !condition() {
    try #require(BootInstant.now() < deadline, "the event did not come")
    try loop.wait(until: deadline)
  }
}

/// Requires a C call that prepares a test to have worked.
func prepared(_ result: Int32) throws {
  try #require(result == 0, "errno \(errno)")
}
