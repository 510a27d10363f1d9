/// What is known of the device, in one snapshot: merged from all sources, settled, and with what a person set over it.
package struct Conditions: Hashable, Sendable {
  package enum Network: Hashable, Sendable {
    case none
    /// `isExpensive`: somebody pays for each byte (metered). `isConstrained`: a person asked for as few as possible.
    case available(isExpensive: Bool, isConstrained: Bool)
  }

  package var network: Network
  package var hasExternalPower: Bool
  /// 0 … 100; nil: there is no battery, or nobody can tell.
  package var batteryPercent: UInt8?
  /// The device saves power: a person or its own rules said so.
  package var isLowPower: Bool
  /// No person uses the device.
  package var isIdle: Bool
  /// What is still being looked at: it counts as not met until then.
  package var pending: Constraints

  package init(
    network: Network = .available(isExpensive: false, isConstrained: false), hasExternalPower: Bool = true,
    batteryPercent: UInt8? = nil, isLowPower: Bool = false, isIdle: Bool = true, pending: Constraints = []
  ) {
    self.network = network
    self.hasExternalPower = hasExternalPower
    self.batteryPercent = batteryPercent
    self.isLowPower = isLowPower
    self.isIdle = isIdle
    self.pending = pending
  }

  /// Nothing stands in the way: what holds where no source can tell anything.
  package static let unrestricted = Conditions()
  /// Nothing has been looked at yet.
  package static let unknown = Conditions(pending: .all)

  package var isOnline: Bool { network != .none }

  /// The constraints that these conditions meet. Without a network nothing is metered: what needs a network requires
  /// that by itself.
  package var satisfied: Constraints {
    var met: Constraints = []
    switch network {
    case .none: met.formUnion([.unmetered, .unconstrained])
    case .available(let isExpensive, let isConstrained):
      met.insert(.network)
      if !isExpensive { met.insert(.unmetered) }
      if !isConstrained { met.insert(.unconstrained) }
    }
    if hasExternalPower { met.insert(.externalPower) }
    if hasExternalPower || (batteryPercent ?? 100) > Self.lowBatteryPercent { met.insert(.batteryNotLow) }
    if !isLowPower { met.insert(.fullPower) }
    if isIdle { met.insert(.idle) }
    return met.subtracting(pending)
  }

  /// UPower's own bound for "low" (PercentageLow of UPower.conf).
  package static let lowBatteryPercent: UInt8 = 20
}

/// Conditions that a piece of work requires, or that hold.
package struct Constraints: OptionSet, Hashable, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Some network. Never stored: every host but this machine itself requires it.
  package static let network = Constraints(rawValue: 1)
  package static let unmetered = Constraints(rawValue: 2)
  package static let unconstrained = Constraints(rawValue: 4)
  package static let externalPower = Constraints(rawValue: 8)
  package static let batteryNotLow = Constraints(rawValue: 16)
  package static let fullPower = Constraints(rawValue: 32)
  package static let idle = Constraints(rawValue: 64)

  package static let all = Constraints(rawValue: 127)
  /// What a transfer that may choose its time waits for.
  package static let discretionary: Constraints = [.unmetered, .externalPower]

  /// Each one alone, in the order of their bits.
  package static let each: [Constraints] = [
    .network, .unmetered, .unconstrained, .externalPower, .batteryNotLow, .fullPower, .idle,
  ]

  /// The stable name of one.
  package var name: String {
    switch self {
    case .network: "network"
    case .unmetered: "unmetered"
    case .unconstrained: "unconstrained"
    case .externalPower: "externalPower"
    case .batteryNotLow: "batteryNotLow"
    case .fullPower: "fullPower"
    case .idle: "idle"
    case _: "unknown"
    }
  }

  /// The names of all that are in the set.
  package var names: [String] { Self.each.filter(contains).map(\.name) }
}

/// How long constraints have not been met, each since its own moment; for people.
package struct UnmetSince: Hashable, Sendable {
  private var moments: [WallInstant?] = Array(repeating: nil, count: Constraints.each.count)

  package subscript(constraint: Constraints) -> WallInstant? {
    Constraints.each.firstIndex(of: constraint).flatMap { moments[$0] }
  }

  mutating func note(satisfied: Constraints, at now: WallInstant) {
    for (index, constraint) in Constraints.each.enumerated() {
      moments[index] = satisfied.contains(constraint) ? nil : moments[index] ?? now
    }
  }
}
