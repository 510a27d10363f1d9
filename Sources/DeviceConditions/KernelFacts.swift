import Glibc
package import LinuxSystem

/// A folder of /sys/class/power_supply (Documentation/ABI/testing/sysfs-class-power of the kernel).
package struct PowerSupply: Hashable, Sendable {
  package var name: String
  package var isBattery: Bool
  /// Of what is no battery.
  package var isOnline: Bool
  package var isDischarging: Bool
  package var percent: UInt8?

  package init(name: String, isBattery: Bool, isOnline: Bool, isDischarging: Bool, percent: UInt8?) {
    self.name = name
    self.isBattery = isBattery
    self.isOnline = isOnline
    self.isDischarging = isDischarging
    self.percent = percent
  }

  /// The machine's own supplies under `root`; nil where the folder cannot be read. Batteries of mice and pens (`scope`
  /// Device) are not the machine's.
  package static func all(under root: String) -> [PowerSupply]? {
    let folder = root + "/class/power_supply"
    guard let names = names(in: folder) else { return nil }
    return names.sorted().compactMap { name in
      func read(_ attribute: String) -> String? {
        guard let bytes = try? Files.read("\(folder)/\(name)/\(attribute)", limitBytes: 4096) else { return nil }
        return String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0 }, as: UTF8.self)
      }
      guard let type = read("type"), read("scope") != "Device" else { return nil }
      return PowerSupply(
        name: name, isBattery: type == "Battery", isOnline: read("online").map { $0 != "0" } ?? false,
        isDischarging: read("status") == "Discharging",
        percent: read("capacity").flatMap(Int.init).map { UInt8(min(max($0, 0), 100)) })
    }
  }

  private static func names(in folder: String) -> [String]? {
    guard let directory = unsafe opendir(folder) else { return nil }
    defer { unsafe closedir(directory) }
    var found: [String] = []
    while let entry = unsafe readdir(directory), found.count < 64 {
      // SAFETY: d_name ends with NUL within the entry (readdir(3)).
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if !name.hasPrefix(".") { found.append(name) }
    }
    return found
  }

  static func hasExternalPower(_ supplies: [PowerSupply]) -> Bool {
    let batteries = supplies.filter(\.isBattery)
    if batteries.isEmpty || supplies.contains(where: { !$0.isBattery && $0.isOnline }) { return true }
    return !batteries.contains(where: \.isDischarging)
  }

  /// Of the fullest battery: it is the one that still carries the machine.
  static func percent(_ supplies: [PowerSupply]) -> UInt8? { supplies.filter(\.isBattery).compactMap(\.percent).max() }

  static func words(_ supplies: [PowerSupply]) -> String {
    guard !supplies.isEmpty else { return "no power supply is listed" }
    return supplies.map { supply in
      guard supply.isBattery else { return "\(supply.name) \(supply.isOnline ? "online" : "offline")" }
      let charge = supply.percent.map { "\($0) %" } ?? "of unknown charge"
      return "\(supply.name) \(charge)\(supply.isDischarging ? ", discharging" : "")"
    }.joined(separator: "; ")
  }
}

/// The kernel's tables of routes, as text (proc(5)).
package enum RouteTable {
  /// RTF_UP and RTF_REJECT of linux/route.h.
  private static let up: UInt32 = 1
  private static let reject: UInt32 = 0x200

  /// Names of the interfaces that a default route of /proc/net/route (IPv4) goes through.
  package static func defaultsIPv4(_ text: String) -> [String] {
    text.split(separator: "\n").dropFirst().compactMap { line in
      let fields = line.split { $0 == "\t" || $0 == " " }
      guard fields.count >= 8, fields[1] == "00000000", fields[7] == "00000000",
        let flags = UInt32(fields[3], radix: 16), flags & up != 0, flags & reject == 0
      else { return nil }
      return String(fields[0])
    }
  }

  /// Likewise of /proc/net/ipv6_route.
  package static func defaultsIPv6(_ text: String) -> [String] {
    text.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard fields.count >= 10, fields[1] == "00", fields[0].allSatisfy({ $0 == "0" }),
        let flags = UInt32(fields[8], radix: 16), flags & up != 0, flags & reject == 0
      else { return nil }
      return String(fields[9])
    }
  }
}

extension DeviceFacts.Network {
  /// What the kernel says of this process's network namespace; nil where it does not say.
  static func read() -> DeviceFacts.Network? {
    guard let interfaces = try? NetworkInterface.all() else { return nil }
    func text(_ path: String) -> String {
      String(decoding: (try? Files.read(path, limitBytes: 4 << 20)) ?? [], as: UTF8.self)
    }
    let routes =
      RouteTable.defaultsIPv4(text("/proc/self/net/route")) + RouteTable.defaultsIPv6(text("/proc/self/net/ipv6_route"))
    return make(interfaces, defaultRoutesThrough: routes)
  }

  package static func make(
    _ interfaces: [NetworkInterface], defaultRoutesThrough names: [String]
  ) -> DeviceFacts.Network {
    let usable = interfaces.filter { !$0.isLoopback && $0.isRunning }
    return DeviceFacts.Network(
      hasDefaultRoute: usable.contains { names.contains($0.name) }, hasAddress: usable.contains(where: \.hasAddress))
  }
}
