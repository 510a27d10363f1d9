import CLinux
import Glibc

/// The network interfaces of this machine, as the process sees them (getifaddrs(3)).
package enum NetworkInterfaces {
  /// Whether any but the loopback one is up and has an address; true where that cannot be told.
  package static var isAnyUp: Bool {
    var first: UnsafeMutablePointer<ifaddrs>?
    guard unsafe getifaddrs(&first) == 0 else { return true }
    defer { unsafe freeifaddrs(first) }
    var next = unsafe first
    // SAFETY: the list lives until it is freed; an interface without an address has none of these two families.
    while let entry = unsafe next?.pointee {
      let family = unsafe entry.ifa_addr?.pointee.sa_family
      let flags = unsafe entry.ifa_flags
      let hasAddress = family == sa_family_t(AF_INET) || family == sa_family_t(AF_INET6)
      if hasAddress, flags & UInt32(IFF_UP) != 0, flags & UInt32(IFF_LOOPBACK) == 0 { return true }
      unsafe next = entry.ifa_next
    }
    return false
  }
}
