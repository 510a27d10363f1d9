import CLinux
import Glibc
import Synchronization

/// Named places in the code where a test makes something go wrong. Nothing at all in release builds.
///
/// `FERRY_FAULT="point:n:action"` (comma between several) makes the n-th passage (from 1) through `point` do `action`:
/// `kill` (SIGKILL to itself), `stop` (SIGSTOP), a time such as `500ms` (its thread waits so long), or an errno name
/// such as `EIO`, thrown as a `SystemError`. An empty point list with the variable set still counts passages. Each
/// fault that fires says so on standard error, so a harness knows the last n that does anything.
package enum FaultPoint {
  /// Marks a passage.
  @inline(__always)
  package static func reach(_ name: StaticString) throws(SystemError) {
    #if DEBUG
      guard let injector = FaultInjector.ofProcess else { return }
      try injector.reach(name.description)
    #endif
  }

  /// As `reach`, where nothing can fail: only `kill`, `stop` and times do anything.
  @inline(__always)
  package static func pass(_ name: StaticString) {
    #if DEBUG
      try? reach(name)
    #endif
  }

  /// Passages so far by name; empty in release builds and where `FERRY_FAULT` is not set.
  package static var passages: [String: Int] {
    #if DEBUG
      return FaultInjector.ofProcess?.passages ?? [:]
    #else
      return [:]
    #endif
  }
}

/// The faults of one process.
final class FaultInjector: Sendable {
  enum Action: Hashable, Sendable, CustomStringConvertible {
    case kill
    case stop
    case wait(milliseconds: Int32)
    case fail(Int32)

    var description: String {
      switch self {
      case .kill: "kill"
      case .stop: "stop"
      case .wait(let milliseconds): "\(milliseconds)ms"
      case .fail(let number): SystemError.name(of: number)
      }
    }
  }

  struct Fault: Hashable, Sendable {
    let point: String
    let passage: Int
    let action: Action

    /// `point:n:action`; nil when it is not one.
    init?(parsing text: String) {
      let parts = text.split(separator: ":", omittingEmptySubsequences: false)
      guard parts.count == 3, !parts[0].isEmpty, let passage = Int(parts[1]), passage > 0 else { return nil }
      self.point = String(parts[0])
      self.passage = passage
      switch parts[2] {
      case "kill": action = .kill
      case "stop": action = .stop
      case let time where time.hasSuffix("ms"):
        guard let milliseconds = Int32(time.dropLast(2)), milliseconds > 0 else { return nil }
        action = .wait(milliseconds: milliseconds)
      case let name:
        guard let number = SystemError.number(named: String(name)) else { return nil }
        action = .fail(number)
      }
    }
  }

  let faults: [Fault]
  private let counts = Mutex<[String: Int]>([:])

  /// A fault that cannot be read ends the process with a message: a test that injects nothing would pass for nothing.
  static let ofProcess: FaultInjector? = {
    guard let text = ProcessEnvironment.value(of: "FERRY_FAULT") else { return nil }
    do {
      return try FaultInjector(parsing: text)
    } catch {
      say("\(error)")
      exit(64)
    }
  }()

  init(parsing text: String) throws(SystemError) {
    var faults: [Fault] = []
    for entry in text.split(separator: ",") where !entry.isEmpty {
      guard let fault = Fault(parsing: String(entry)) else {
        throw SystemError(
          EINVAL, operation: "FERRY_FAULT",
          detail: "\"\(entry)\" is not point:n:action (kill, stop, 500ms or an errno name)")
      }
      faults.append(fault)
    }
    self.faults = faults
  }

  var passages: [String: Int] { counts.withLock { $0 } }

  func reach(_ name: String) throws(SystemError) {
    let passage = counts.withLock { counts in
      counts[name, default: 0] += 1
      return counts[name, default: 0]
    }
    guard let fault = faults.first(where: { $0.point == name && $0.passage == passage }) else { return }
    Self.say("fault point \(name) passage \(passage): \(fault.action)")
    switch fault.action {
    case .kill: kill(getpid(), SIGKILL)
    case .stop: kill(getpid(), SIGSTOP)
    case .wait(let milliseconds): _ = poll(nil, 0, milliseconds)
    case .fail(let number):
      throw SystemError(number, operation: name, detail: "injected at passage \(passage)")
    }
  }

  private static func say(_ text: String) {
    // A closed standard error must not change what the test sees.
    try? Syscall.writeAll(STDERR_FILENO, Array("ferry: \(text)\n".utf8))
  }
}
