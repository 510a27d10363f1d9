import CLinux
import Glibc

/// A network interface, as far as it tells whether anything can be reached through it.
package struct NetworkInterface: Hashable, Sendable {
  package var name: String
  package var isLoopback: Bool
  /// Up, and with a carrier (IFF_UP and IFF_RUNNING, netdevice(7)).
  package var isRunning: Bool
  /// Has an address that reaches beyond its own link: not 169.254/16, not fe80::/10.
  package var hasAddress: Bool

  package init(name: String, isLoopback: Bool, isRunning: Bool, hasAddress: Bool) {
    self.name = name
    self.isLoopback = isLoopback
    self.isRunning = isRunning
    self.hasAddress = hasAddress
  }

  /// Those of this network namespace, each once.
  package static func all() throws(SystemError) -> [NetworkInterface] {
    var found: [NetworkInterface] = []
    try unsafe forEachEntry { entry in
      let name = unsafe String(cString: entry.ifa_name)
      let flags = unsafe Int32(bitPattern: entry.ifa_flags)
      let reaches = unsafe entry.ifa_addr.map { unsafe reachesFar($0) } ?? false
      if let index = found.firstIndex(where: { $0.name == name }) {
        if reaches { found[index].hasAddress = true }
      } else {
        let isRunning = flags & Int32(IFF_UP) != 0 && flags & Int32(IFF_RUNNING) != 0
        found.append(
          NetworkInterface(
            name: name, isLoopback: flags & Int32(IFF_LOOPBACK) != 0, isRunning: isRunning,
            hasAddress: reaches))
      }
    }
    return found
  }

  /// Whether any but the loopback one is up and has an address, be it one of its own link; true where that cannot be
  /// told.
  package static var isAnyUp: Bool {
    var isAnyUp = false
    do throws(SystemError) {
      try unsafe forEachEntry { entry in
        // An interface without an address has none of these two families.
        let family = unsafe entry.ifa_addr?.pointee.sa_family
        let flags = unsafe entry.ifa_flags
        let hasAddress = family == sa_family_t(AF_INET) || family == sa_family_t(AF_INET6)
        if hasAddress, flags & UInt32(IFF_UP) != 0, flags & UInt32(IFF_LOOPBACK) == 0 { isAnyUp = true }
      }
    } catch {
      return true
    }
    return isAnyUp
  }

  /// One for each address of an interface, and one for an interface without any (getifaddrs(3)).
  private static func forEachEntry(_ body: (ifaddrs) -> Void) throws(SystemError) {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard unsafe getifaddrs(&first) == 0 else { throw .current("getifaddrs") }
    defer { unsafe freeifaddrs(first) }
    var next = unsafe first
    // SAFETY: the list and all it points to live until freeifaddrs.
    while let entry = unsafe next?.pointee {
      unsafe body(entry)
      unsafe next = entry.ifa_next
    }
  }

  private static func reachesFar(_ address: UnsafeMutablePointer<sockaddr>) -> Bool {
    // SAFETY: the family says which structure getifaddrs allocated.
    switch unsafe Int32(address.pointee.sa_family) {
    case AF_INET:
      return unsafe address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
        let number = unsafe UInt32(bigEndian: $0.pointee.sin_addr.s_addr)
        return number >> 16 != 0xA9FE && number >> 24 != 127
      }
    case AF_INET6:
      return unsafe address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
        let bytes = unsafe withUnsafeBytes(of: $0.pointee.sin6_addr) { unsafe Array($0) }
        let isLinkLocal = bytes[0] == 0xFE && bytes[1] & 0xC0 == 0x80
        let isLoopback = bytes.dropLast().allSatisfy { $0 == 0 }
        return !isLinkLocal && !isLoopback
      }
    default: return false
    }
  }
}

/// Sockets on which the kernel tells that something changed; what, is looked up afterwards.
package enum KernelNotices {
  /// Links, addresses and routes of this network namespace.
  package static func network() throws(SystemError) -> OwnedDescriptor {
    try OwnedDescriptor(adopting: Syscall.retrying("netlink") { clinux_netlink_network_changes() })
  }

  /// Devices, batteries among them. Nothing arrives in a network namespace that is not the machine's own.
  package static func devices() throws(SystemError) -> OwnedDescriptor {
    try OwnedDescriptor(adopting: Syscall.retrying("netlink") { clinux_netlink_device_changes() })
  }

  /// Throws away what has arrived, at most so many messages; gives those texts that have `needle` in them a true.
  package static func drain(_ descriptor: Int32, lookingFor needle: String? = nil) -> Bool {
    var buffer = [UInt8](repeating: 0, count: 16 << 10)
    var isFound = needle == nil
    for _ in 0..<1024 {
      do throws(SystemError) {
        guard let count = try Syscall.read(descriptor, into: &buffer), count > 0 else { return isFound }
        if let needle, !isFound { isFound = buffer[..<count].contains(Array(needle.utf8)) }
      } catch {
        // ENOBUFS: the kernel had more to say than the socket holds (netlink(7)); something changed.
        guard error.number == ENOBUFS else { return true }
        isFound = true
      }
    }
    return isFound
  }
}
