import CLinux
import Glibc

/// A refusal by the kernel: which call, on what, and the errno.
///
/// Where our own check refuses (a directory owned by somebody else), `number` is the nearest errno and `detail` says
/// what was found and what to do.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The errno value.
  package let number: Int32
  /// The call or our function, as `open`.
  package let operation: String
  package let path: String?
  package let detail: String?

  package init(_ number: Int32, operation: String, path: String? = nil, detail: String? = nil) {
    self.number = number
    self.operation = operation
    self.path = path
    self.detail = detail
  }

  /// The error of the call that has just failed on this thread.
  static func current(_ operation: String, path: String? = nil) -> SystemError {
    SystemError(errno, operation: operation, path: path)
  }

  /// `ENOENT`; `errno 4711` for a number this system has no name for.
  package var name: String { Self.name(of: number) }

  package static func name(of number: Int32) -> String {
    guard let name = unsafe clinux_errno_name(number) else { return "errno \(number)" }
    return unsafe String(cString: name)
  }

  /// The number of an errno name, as `EIO`; nil when this system has none of that name.
  package static func number(named name: String) -> Int32? {
    // The largest errno of Linux is 133 (EHWPOISON); errno(3).
    (1...200 as ClosedRange<Int32>).first { Self.name(of: $0) == name }
  }

  package var description: String {
    var text = operation
    if let path { text += " \(path)" }
    text += ": "
    if let detail { return text + "\(detail) (\(name))" }
    guard let explanation = unsafe clinux_errno_text(number) else { return text + name }
    return unsafe text + String(cString: explanation) + " (\(name))"
  }
}
