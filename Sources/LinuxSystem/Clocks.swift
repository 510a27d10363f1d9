import CLinux
import Glibc
package import TransferCore

extension BootInstant {
  /// A reading of CLOCK_BOOTTIME: it counts while the machine is suspended and starts again at zero with each boot.
  package static func now() -> BootInstant {
    BootInstant(nanoseconds: clinux_boot_nanoseconds())
  }

  /// Saturates at the ends instead of trapping.
  package func advanced(byNanoseconds distance: Int64) -> BootInstant {
    self + .nanoseconds(distance)
  }
}

/// Time, boot and chance, as the shells read them; decisions get them as values.
package enum Clocks {
  /// CLOCK_REALTIME in nanoseconds since 1970.
  package static func wallNanoseconds() -> Int64 { clinux_wall_nanoseconds() }
  /// CLOCK_REALTIME in whole milliseconds since 1970.
  package static func wallMilliseconds() -> Int64 { clinux_wall_nanoseconds() / 1_000_000 }
  /// CLOCK_REALTIME in whole seconds since 1970.
  package static func wallSeconds() -> Int64 { clinux_wall_nanoseconds() / 1_000_000_000 }

  /// The kernel's name for this boot, a UUID (random(4)). In debug builds `FERRY_TEST_BOOT_ID` replaces it, so that a
  /// test can simulate a reboot.
  package static func bootID() throws(SystemError) -> String {
    #if DEBUG
      if let value = ProcessEnvironment.value(of: "FERRY_TEST_BOOT_ID"), !value.isEmpty { return value }
    #endif
    let path = "/proc/sys/kernel/random/boot_id"
    let bytes = try Files.read(path, limitBytes: 128)
    let text = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    guard !text.isEmpty else {
      throw SystemError(ENODATA, operation: "read", path: path, detail: "the kernel gave an empty boot id")
    }
    return text
  }

  /// 64 random bits from the kernel (the generator of the standard library reads getrandom(2)).
  package static func randomWord() -> UInt64 {
    UInt64.random(in: .min ... .max)
  }
}

/// The environment of this process.
package enum ProcessEnvironment {
  /// A copy; of a name that stands twice the first counts, as with getenv(3). Entries without `=` are dropped.
  package static func current() -> [String: String] {
    var values: [String: String] = [:]
    guard var entry = unsafe clinux_environ() else { return values }
    // SAFETY: environ is an array of C strings that ends with NULL; nobody changes it while threads run (setenv only
    // in `SocketActivation`, before any thread starts).
    while let text = unsafe entry.pointee {
      let line = unsafe String(cString: text)
      if let equals = line.firstIndex(of: "=") {
        let name = String(line[..<equals])
        if values[name] == nil { values[name] = String(line[line.index(after: equals)...]) }
      }
      unsafe entry += 1
    }
    return values
  }

  package static func value(of name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    return unsafe String(cString: value)
  }
}
