package import TransferCore

/// What the sources said last, each as it said it. Nil: it is not there, or cannot tell.
package struct DeviceFacts: Hashable, Sendable {
  /// The kernel's view (rtnetlink).
  package struct Network: Hashable, Sendable {
    /// Through an interface that is up and has a carrier.
    package var hasDefaultRoute: Bool
    /// Some such interface, not the loopback, has an address that reaches beyond its link.
    package var hasAddress: Bool

    package init(hasDefaultRoute: Bool, hasAddress: Bool) {
      self.hasDefaultRoute = hasDefaultRoute
      self.hasAddress = hasAddress
    }
  }

  package var network: Network?
  /// NMState: 10 asleep, 20 disconnected, 30 disconnecting, 40 connecting, 50 … 70 connected; 0 unknown.
  package var managerState: Int64?
  /// NMMetered: 1 yes, 2 no, 3 yes as it guesses, 4 no as it guesses; 0 unknown.
  package var managerMetered: Int64?
  /// UPower's OnBattery.
  package var isOnBattery: Bool?
  /// UPower's display device, where it is a battery: 0 … 100.
  package var displayPercent: Double?
  /// UPower's WarningLevel: 3 low, 4 critical, 5 action.
  package var warningLevel: Int64?
  /// `power-saver`, `balanced` or `performance`.
  package var powerProfile: String?
  /// logind's IdleHint.
  package var isIdle: Bool?
  /// /sys/class/power_supply; asked where UPower is not there.
  package var supplies: [PowerSupply]?
  /// What was asked for and has not been answered.
  package var pending: Constraints = []
  /// Of the system bus: why it is not there; nil: it is.
  package var busProblem: String?

  package init() {}

  /// One snapshot of all of it:
  ///
  /// | condition | holds |
  /// |---|---|
  /// | a network | there is a default route; or an address beyond the link, unless NetworkManager says that it is not connected; or nobody can tell |
  /// | expensive | NetworkManager says or guesses that it is metered |
  /// | constrained | a person, or their profile, said that it is metered: NetworkManager does not merely guess |
  /// | external power | UPower says so; else sysfs: a charger is online, no battery discharges, or there is none |
  /// | low power | the profile `power-saver`, or UPower's warning level is low or worse |
  /// | idle | logind says so, or nobody can tell: no person is known to be there |
  package var conditions: Conditions {
    let isConnected =
      network.map { $0.hasDefaultRoute || ($0.hasAddress && !(10...40).contains(managerState ?? 0)) } ?? true
    return Conditions(
      network: isConnected
        ? .available(isExpensive: managerMetered == 1 || managerMetered == 3, isConstrained: managerMetered == 1)
        : .none,
      hasExternalPower: isOnBattery.map { !$0 } ?? PowerSupply.hasExternalPower(supplies ?? []),
      batteryPercent: Self.percent(displayPercent) ?? PowerSupply.percent(supplies ?? []),
      isLowPower: powerProfile == "power-saver" || (3...5).contains(warningLevel ?? 0),
      isIdle: isIdle ?? true, pending: pending)
  }

  private static func percent(_ value: Double?) -> UInt8? {
    guard let value, value.isFinite else { return nil }
    return UInt8(min(max(value, 0), 100))
  }

  /// Each source and what it says, for people.
  package var sources: [(name: String, state: String)] {
    let bus = busProblem ?? (pending.isDisjoint(with: Self.askedOverBus) ? "not there" : "asked")
    return [
      ("rtnetlink", network.map(Self.words) ?? (pending.contains(.network) ? "not asked yet" : "cannot tell")),
      ("NetworkManager", managerState.map { Self.words(state: $0, metered: managerMetered ?? 0) } ?? bus),
      ("UPower", isOnBattery.map { $0 ? "on battery" : "external power" } ?? bus),
      ("sysfs", supplies.map(PowerSupply.words) ?? "not asked"),
      ("power-profiles-daemon", powerProfile ?? bus),
      ("logind", isIdle.map { $0 ? "idle" : "in use" } ?? bus),
    ]
  }

  /// All but whether there is a network.
  package static let askedOverBus = Constraints.all.subtracting(.network)

  private static func words(_ network: Network) -> String {
    if network.hasDefaultRoute { return "a default route" }
    return network.hasAddress ? "no default route, but an address" : "no route and no address"
  }

  private static func words(state: Int64, metered: Int64) -> String {
    let connected =
      switch state {
      case 10: "asleep"
      case 20: "disconnected"
      case 30: "disconnecting"
      case 40: "connecting"
      case 50...70: "connected"
      default: "in an unknown state"
      }
    let price =
      switch metered {
      case 1: "metered"
      case 2: "not metered"
      case 3: "metered, as it guesses"
      case 4: "not metered, as it guesses"
      default: "does not know whether it is metered"
      }
    return "\(connected), \(price)"
  }
}
