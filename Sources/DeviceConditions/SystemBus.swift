import CSystemd
import Glibc
import LinuxSystem
import TransferCore

/// The system bus, and the properties that are asked of its services. Every call is asynchronous: a service that hangs
/// leaves its own properties unknown, and nothing else waits for it. Services are never started for us.
@safe final class SystemBus {
  enum Property: Int, CaseIterable {
    case managerState, managerMetered, onBattery, displayPresent, displayPercent, warningLevel, profile, idle

    var place: Place {
      switch self {
      case .managerState: Place.networkManager("State")
      case .managerMetered: Place.networkManager("Metered")
      case .onBattery: Place.upower("OnBattery")
      case .displayPresent: Place.display("IsPresent")
      case .displayPercent: Place.display("Percentage")
      case .warningLevel: Place.display("WarningLevel")
      case .profile:
        Place("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles", "net.hadess.PowerProfiles", "ActiveProfile")
      case .idle:
        Place("org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "IdleHint")
      }
    }
  }

  struct Place {
    var service: String
    var path: String
    var interface: String
    var name: String

    init(_ service: String, _ path: String, _ interface: String, _ name: String) {
      self.service = service
      self.path = path
      self.interface = interface
      self.name = name
    }

    static func networkManager(_ name: String) -> Place {
      Place(
        "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager", name)
    }
    static func upower(_ name: String) -> Place {
      Place("org.freedesktop.UPower", "/org/freedesktop/UPower", "org.freedesktop.UPower", name)
    }
    static func display(_ name: String) -> Place {
      Place(
        "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice", "org.freedesktop.UPower.Device",
        name)
    }
  }

  enum Value: Equatable {
    case integer(Int64)
    case number(Double)
    case text(String)
  }

  /// What a C callback is handed. The bus keeps it alive, and is closed before it goes.
  fileprivate final class Inquiry {
    unowned let bus: SystemBus
    let property: Property
    /// Not answered.
    var isOpen = false
    /// The properties may have changed while it was.
    var isStale = false

    init(_ bus: SystemBus, _ property: Property) {
      self.bus = bus
      self.property = property
    }
  }

  /// A service that does not answer is one that is not there; sd-bus's own 25 s would keep tasks waiting.
  private static let replyMicroseconds: UInt64 = 2_000_000
  /// Pieces of work in one turn: a flood on the bus must not keep the thread from the network.
  private static let budget = 256

  private let bus: OpaquePointer
  private var inquiries: [Inquiry] = []
  private(set) var values: [Property: Value] = [:]
  /// A call has come to its end: somebody is there.
  private(set) var isHeard = false
  /// Something changed: ask again soon.
  fileprivate(set) var isStale = false
  /// The machine woke from its sleep.
  fileprivate(set) var hasResumed = false

  /// - Throws: a sentence, why there is no bus.
  init() throws(BusFailure) {
    var opened: OpaquePointer?
    let result = unsafe csystemd_bus_open(&opened)
    guard result >= 0, let opened = unsafe opened else { throw BusFailure(result) }
    unsafe bus = opened
    inquiries = Property.allCases.map { Inquiry(self, $0) }
    listen()
    ask()
  }

  deinit { unsafe csystemd_bus_close(bus) }

  var descriptor: Int32 { unsafe csystemd_bus_descriptor(bus) }

  var interest: EventLoop.Interest {
    let events = unsafe csystemd_bus_events(bus)
    var interest: EventLoop.Interest = []
    if events < 0 || events & Int32(POLLIN) != 0 { interest.insert(.readable) }
    if events > 0, events & Int32(POLLOUT) != 0 { interest.insert(.writable) }
    return interest
  }

  /// When ``process()`` must be called though nothing arrived.
  func deadline(at now: BootInstant) -> BootInstant? {
    var moment = UInt64.max
    guard unsafe csystemd_bus_timeout(bus, &moment) >= 0, moment != .max else { return nil }
    let present = csystemd_monotonic_microseconds()
    return now + .microseconds(Int64(clamping: moment > present ? moment - present : 0))
  }

  var isWaiting: Bool { inquiries.contains(where: \.isOpen) }

  /// Does what there is to do. False: the connection is gone. True with work left over calls for another turn soon.
  func process() -> (isAlive: Bool, hasMore: Bool) {
    for _ in 0..<Self.budget {
      let result = unsafe csystemd_bus_process(bus)
      if result < 0 { return (false, false) }
      if result == 0 { return (true, false) }
    }
    return (true, true)
  }

  /// Asks for every property that is not being asked for already.
  func ask() {
    isStale = false
    for inquiry in inquiries {
      guard !inquiry.isOpen else {
        inquiry.isStale = true
        continue
      }
      let place = inquiry.property.place
      // SAFETY: `inquiries` keeps the object until after the bus is closed, which ends all calls.
      let context = unsafe Unmanaged.passUnretained(inquiry).toOpaque()
      let result = unsafe csystemd_bus_get(
        bus, place.service, place.path, place.interface, place.name, takeReply, context, Self.replyMicroseconds)
      inquiry.isOpen = result >= 0
    }
  }

  func takeResumption() -> Bool {
    defer { hasResumed = false }
    return hasResumed
  }

  fileprivate func take(_ value: Value?, of inquiry: Inquiry) {
    values[inquiry.property] = value
    close(inquiry)
  }

  /// No answer, or no answer any more. What the service said last is the best that is known of it: it tells when that
  /// changes, and its end is told too.
  fileprivate func close(_ inquiry: Inquiry) {
    isHeard = true
    inquiry.isOpen = false
    if inquiry.isStale {
      inquiry.isStale = false
      isStale = true
    }
  }

  private func listen() {
    guard let any = inquiries.first else { return }
    // SAFETY: as in `ask`.
    let context = unsafe Unmanaged.passUnretained(any).toOpaque()
    var rules: Set<String> = []
    for property in Property.allCases {
      let place = property.place
      rules.insert(
        "type='signal',sender='\(place.service)',interface='org.freedesktop.DBus.Properties',"
          + "member='PropertiesChanged',path='\(place.path)'")
      rules.insert(
        "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',member='NameOwnerChanged',"
          + "arg0='\(place.service)'")
    }
    for rule in rules.sorted() { _ = unsafe csystemd_bus_match(bus, rule, takeChange, context) }
    let sleep =
      "type='signal',sender='org.freedesktop.login1',interface='org.freedesktop.login1.Manager',"
      + "member='PrepareForSleep'"
    _ = unsafe csystemd_bus_match(bus, sleep, takeSleep, context)
  }

  fileprivate func noteChange(hasResumed: Bool) {
    isStale = true
    if hasResumed { self.hasResumed = true }
  }
}

struct BusFailure: Error {
  let words: String

  init(_ number: Int32) {
    words =
      number == -ENOSYS
      ? "libsystemd is not installed" : "the system bus does not answer (\(SystemError(-number, operation: "connect")))"
  }
}

// C calls these: global functions, which no actor isolates.

private func inquiry(_ context: UnsafeMutableRawPointer?) -> SystemBus.Inquiry? {
  guard let context = unsafe context else { return nil }
  // SAFETY: every context is an Inquiry that its bus keeps.
  return unsafe Unmanaged<SystemBus.Inquiry>.fromOpaque(context).takeUnretainedValue()
}

private func takeReply(
  _ message: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ error: UnsafeMutableRawPointer?
) -> Int32 {
  guard let inquiry = unsafe inquiry(context), let message = unsafe message else { return 0 }
  var value = unsafe csystemd_value()
  let result = unsafe csystemd_message_property(message, &value)
  guard result >= 0 else {
    if result == -ETIMEDOUT { inquiry.bus.close(inquiry) } else { inquiry.bus.take(nil, of: inquiry) }
    return 0
  }
  let type = unsafe UInt8(bitPattern: value.type)
  switch type {
  case UInt8(ascii: "d"): unsafe inquiry.bus.take(.number(value.number), of: inquiry)
  case UInt8(ascii: "s"), UInt8(ascii: "o"), UInt8(ascii: "g"):
    // SAFETY: the text lives as long as the message, which is longer than this call.
    let text = unsafe value.text.map { unsafe String(cString: $0) } ?? ""
    inquiry.bus.take(.text(String(decoding: text.utf8.prefix(64), as: UTF8.self)), of: inquiry)
  default: unsafe inquiry.bus.take(.integer(value.integer), of: inquiry)
  }
  return 0
}

private func takeChange(
  _ message: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ error: UnsafeMutableRawPointer?
) -> Int32 {
  unsafe inquiry(context)?.bus.noteChange(hasResumed: false)
  return 0
}

/// PrepareForSleep says true before the machine sleeps, false when it woke.
private func takeSleep(
  _ message: OpaquePointer?, _ context: UnsafeMutableRawPointer?, _ error: UnsafeMutableRawPointer?
) -> Int32 {
  guard let message = unsafe message else { return 0 }
  var value = unsafe csystemd_value()
  guard unsafe csystemd_message_argument(message, &value) >= 0, unsafe value.type == CChar(UInt8(ascii: "b")) else {
    return 0
  }
  let isGoing = unsafe value.integer != 0
  if !isGoing { unsafe inquiry(context)?.bus.noteChange(hasResumed: true) }
  return 0
}
