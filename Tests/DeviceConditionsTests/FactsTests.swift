import LinuxSystem
import Testing
import TransferCore

@testable import DeviceConditions

/// What the sources say, as one snapshot.
@Suite struct FactsTests {
  static func facts(_ change: (inout DeviceFacts) -> Void) -> DeviceFacts {
    var facts = DeviceFacts()
    change(&facts)
    return facts
  }

  @Test func nobodyWhoCanTellAnythingIsNoObstacle() {
    #expect(DeviceFacts().conditions == .unrestricted)
  }

  /// Default route, address, NMState → a network.
  @Test(
    arguments: [
      (true, true, nil, true), (true, false, nil, true), (false, true, nil, true), (false, false, nil, false),
      (true, true, 20, true), (false, true, 20, false), (false, true, 10, false), (false, true, 40, false),
      (false, true, 0, true), (false, true, 70, true), (false, false, 70, false),
    ] as [(Bool, Bool, Int64?, Bool)])
  func aNetworkIsThere(_ hasRoute: Bool, _ hasAddress: Bool, _ state: Int64?, _ isThere: Bool) {
    let facts = Self.facts {
      $0.network = DeviceFacts.Network(hasDefaultRoute: hasRoute, hasAddress: hasAddress)
      $0.managerState = state
    }
    #expect(facts.conditions.isOnline == isThere)
  }

  /// NMMetered → expensive, constrained.
  @Test(arguments: [(0, false, false), (1, true, true), (2, false, false), (3, true, false), (4, false, false)])
  func aMeteredNetwork(_ metered: Int64, _ isExpensive: Bool, _ isConstrained: Bool) {
    let facts = Self.facts { $0.managerMetered = metered }
    #expect(facts.conditions.network == .available(isExpensive: isExpensive, isConstrained: isConstrained))
  }

  static let mains = PowerSupply(name: "AC", isBattery: false, isOnline: true, isDischarging: false, percent: nil)
  static let unplugged = PowerSupply(name: "AC", isBattery: false, isOnline: false, isDischarging: false, percent: nil)
  static let draining = PowerSupply(name: "BAT0", isBattery: true, isOnline: false, isDischarging: true, percent: 40)
  static let full = PowerSupply(name: "BAT1", isBattery: true, isOnline: false, isDischarging: false, percent: 99)

  @Test(
    arguments: [
      ([], true, nil), ([mains], true, nil), ([unplugged], true, nil), ([mains, draining], true, 40),
      ([unplugged, draining], false, 40), ([unplugged, full], true, 99), ([draining], false, 40),
      ([unplugged, draining, full], false, 99),
    ] as [([PowerSupply], Bool, UInt8?)])
  func powerBySysfs(_ supplies: [PowerSupply], _ isExternal: Bool, _ percent: UInt8?) {
    let conditions = Self.facts { $0.supplies = supplies }.conditions
    #expect(conditions.hasExternalPower == isExternal && conditions.batteryPercent == percent)
  }

  @Test func upowerIsBelievedBeforeSysfs() {
    let facts = Self.facts {
      $0.supplies = [Self.mains]
      $0.isOnBattery = true
      $0.displayPercent = 12.9
      $0.warningLevel = 3
    }
    #expect(
      facts.conditions
        == Conditions(hasExternalPower: false, batteryPercent: 12, isLowPower: true))
  }

  @Test(arguments: [(Double.nan, nil), (.infinity, nil), (-5, 0), (1e9, 100), (55.5, 55)] as [(Double, UInt8?)])
  func oddChargesAreBounded(_ charge: Double, _ percent: UInt8?) {
    #expect(Self.facts { $0.displayPercent = charge }.conditions.batteryPercent == percent)
  }

  @Test(arguments: [("power-saver", true), ("balanced", false), ("performance", false), ("", false)])
  func powerProfiles(_ profile: String, _ isLow: Bool) {
    #expect(Self.facts { $0.powerProfile = profile }.conditions.isLowPower == isLow)
  }

  @Test func routesOfTheKernel() {
    let ipv4 = """
      Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
      eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
      eth1\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0
      eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
      tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0
      garbage
      """
    #expect(RouteTable.defaultsIPv4(ipv4) == ["eth0"])
    let zero = String(repeating: "0", count: 32)
    let ipv6 = """
      \(zero) 00 \(zero) 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 wlan0
      \(zero) 00 \(zero) 00 \(zero) ffffffff 00000001 00000000 00200200       lo
      fe80\(zero.dropFirst(4)) 40 \(zero) 00 \(zero) 00000100 00000001 00000000 00000001 wlan0
      short
      """
    #expect(RouteTable.defaultsIPv6(ipv6) == ["wlan0"])
    #expect(RouteTable.defaultsIPv4("") == [] && RouteTable.defaultsIPv6("") == [])
  }

  @Test func anInterfaceCountsWhenItRuns() {
    let lo = NetworkInterface(name: "lo", isLoopback: true, isRunning: true, hasAddress: true)
    let eth = NetworkInterface(name: "eth0", isLoopback: false, isRunning: true, hasAddress: true)
    let down = NetworkInterface(name: "eth1", isLoopback: false, isRunning: false, hasAddress: true)
    typealias Network = DeviceFacts.Network
    #expect(Network.make([lo], defaultRoutesThrough: ["lo"]) == Network(hasDefaultRoute: false, hasAddress: false))
    #expect(Network.make([lo, eth], defaultRoutesThrough: []) == Network(hasDefaultRoute: false, hasAddress: true))
    #expect(Network.make([lo, eth], defaultRoutesThrough: ["eth0"]).hasDefaultRoute)
    #expect(
      Network.make([lo, down], defaultRoutesThrough: ["eth1"]) == Network(hasDefaultRoute: false, hasAddress: false))
  }
}
