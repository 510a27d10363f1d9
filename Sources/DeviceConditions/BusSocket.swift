import LinuxSystem

/// Where the system bus listens, as its address says it (D-Bus Specification, "Server Addresses").
enum BusSocket {
  /// What sd-bus takes where no address is set.
  private static let usual = "unix:path=/run/dbus/system_bus_socket"

  /// Of the bus that DBUS_SYSTEM_BUS_ADDRESS names, or of the usual one; nil where it is no file.
  static var path: String? { path(of: ProcessEnvironment.value(of: "DBUS_SYSTEM_BUS_ADDRESS") ?? usual) }

  /// Of the first address that has one: `unix:path=/run/bus,guid=…;tcp:…`.
  static func path(of addresses: String) -> String? {
    for address in addresses.split(separator: ";") where address.hasPrefix("unix:") {
      for pair in address.dropFirst("unix:".count).split(separator: ",") where pair.hasPrefix("path=/") {
        return String(pair.dropFirst("path=".count))
      }
    }
    return nil
  }

  /// Hears when a name appears where the socket would stand: in its folder, or in the nearest one above that exists.
  static func arrivals() throws(SystemError) -> FolderWatch? {
    guard let path else { return nil }
    var folder = Files.parent(of: path)
    while folder != "/", !Files.isDirectory(folder) { folder = Files.parent(of: folder) }
    let watch = try FolderWatch()
    try watch.add(folder, hearing: .names)
    return watch
  }
}
