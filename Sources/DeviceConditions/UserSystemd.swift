import CSystemd
import Glibc
import LinuxSystem
import TransferCore

/// The service manager of this user (`systemd --user`), where there is one. Calls block: for a thread of their own.
package enum UserSystemd {
  /// How long it may take for an answer.
  private static let replyMicroseconds: UInt64 = 5_000_000

  /// Moves a process into a scope of its own in `app.slice`.
  /// - Parameter runtimeFolder: `$XDG_RUNTIME_DIR`, where the manager listens; nil: it is asked over the bus only.
  package static func startScope(
    _ name: String, description: String, processID: Int32, runtimeFolder: String?
  ) throws(ScopeFailure) {
    // Where no bus runs the manager still listens for systemctl(1).
    let own = runtimeFolder.map { "unix:path=\(escapedAddress($0))/systemd/private" }
    var result = ask(nil, name, description, processID)
    if result < 0, let own { result = ask(own, name, description, processID) }
    guard result >= 0 else { throw ScopeFailure(result) }
  }

  private static func ask(_ address: String?, _ name: String, _ description: String, _ processID: Int32) -> Int32 {
    unsafe csystemd_start_scope(
      address, name, "app.slice", description, UInt32(clamping: processID), replyMicroseconds)
  }

  /// `app-ferry-org.example.app-4711.scope`, as the desktop's conventions name it
  /// (https://systemd.io/DESKTOP_ENVIRONMENTS). No two living processes have the same.
  package static func scopeName(app: String, processID: Int32) -> String {
    "app-ferry-\(escaped(app))-\(processID).scope"
  }

  /// As systemd.unit(5) escapes a name; a hyphen would end it.
  static func escaped(_ text: String) -> String {
    var name = ""
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: ".") where name.isEmpty: name += "\\x2e"
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: ":"), UInt8(ascii: "_"), UInt8(ascii: "."):
        name.unicodeScalars.append(Unicode.Scalar(byte))
      default: name += "\\x" + hex(byte)
      }
    }
    // A unit's name has at most 255 characters.
    return String(name.prefix(200))
  }

  /// D-Bus Specification, "Server Addresses".
  private static func escapedAddress(_ path: String) -> String {
    path.utf8.reduce(into: "") { text, byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D...0x2F, UInt8(ascii: "_"):
        text.unicodeScalars.append(Unicode.Scalar(byte))
      default: text += "%" + hex(byte)
      }
    }
  }

  private static func hex(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}

package struct ScopeFailure: Error, Hashable, Sendable {
  package let words: String

  init(_ number: Int32) {
    words =
      switch -number {
      case ENOSYS: "libsystemd is not installed"
      case ENOENT, ENOMEDIUM, ECONNREFUSED: "no service manager of this user runs"
      default: "the service manager of this user refused it (\(SystemError(-number, operation: "StartTransientUnit")))"
      }
  }
}
