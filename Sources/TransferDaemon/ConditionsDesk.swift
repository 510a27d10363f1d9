import DeviceConditions
import LinuxSystem
import TransferCore
import WireProtocol

/// What the device's sources say, and what a person set over it.
struct ConditionsDesk {
  private(set) var facts: DeviceFacts
  private(set) var overrides: [ConditionName: String] = [:]

  init() {
    facts = DeviceFacts()
    facts.pending = .all
  }

  mutating func take(_ new: DeviceFacts) { facts = new }

  /// - Throws: a name or a value that is not known; nothing was set then.
  mutating func set(_ values: [ConditionValue]) throws(WireError) {
    var new = overrides
    for item in values {
      guard let name = ConditionName(rawValue: item.name) else {
        let names = ConditionName.allCases.map(\.rawValue).joined(separator: ", ")
        throw WireError(.invalidParameters, "There is no condition \"\(item.name.prefix(32))\"; there are \(names).")
      }
      guard Self.isValid(item.value, of: name) else {
        throw WireError(.invalidParameters, "\(name.rawValue) is \(name.values), not \"\(item.value.prefix(32))\".")
      }
      new[name] = item.value
    }
    overrides = new
  }

  mutating func clear(_ names: [String]?) throws(WireError) {
    guard let names else { return overrides = [:] }
    var known: [ConditionName] = []
    for text in names {
      guard let name = ConditionName(rawValue: text) else {
        let names = ConditionName.allCases.map(\.rawValue).joined(separator: ", ")
        throw WireError(.invalidParameters, "There is no condition \"\(text.prefix(32))\"; there are \(names).")
      }
      known.append(name)
    }
    for name in known { overrides[name] = nil }
  }

  private static func isValid(_ value: String, of name: ConditionName) -> Bool {
    switch name {
    case .network: ["up", "none"].contains(value)
    case .metered, .constrained, .saving, .idle: ["yes", "no"].contains(value)
    case .power: ["external", "battery"].contains(value)
    case .battery: value == "none" || UInt8(value).map { $0 <= 100 } ?? false
    }
  }

  /// The constraints whose facts a person has decided: no source needs to be asked for them.
  private var decided: Constraints {
    var decided: Constraints = []
    if overrides[.network] != nil { decided.insert(.network) }
    if overrides[.metered] != nil { decided.insert(.unmetered) }
    if overrides[.constrained] != nil { decided.insert(.unconstrained) }
    if overrides[.power] != nil { decided.formUnion([.externalPower, .batteryNotLow]) }
    if overrides[.battery] != nil { decided.insert(.batteryNotLow) }
    if overrides[.saving] != nil { decided.insert(.fullPower) }
    if overrides[.idle] != nil { decided.insert(.idle) }
    return decided
  }

  /// What counts.
  var conditions: Conditions {
    var now = facts.conditions
    var (isExpensive, isConstrained) =
      switch now.network {
      case .none: (facts.managerMetered == 1 || facts.managerMetered == 3, facts.managerMetered == 1)
      case .available(let isExpensive, let isConstrained): (isExpensive, isConstrained)
      }
    if let value = overrides[.metered] { isExpensive = value == "yes" }
    if let value = overrides[.constrained] { isConstrained = value == "yes" }
    let isOnline = overrides[.network].map { $0 == "up" } ?? now.isOnline
    now.network = isOnline ? .available(isExpensive: isExpensive, isConstrained: isConstrained) : .none
    if let value = overrides[.power] { now.hasExternalPower = value == "external" }
    if let value = overrides[.battery] { now.batteryPercent = UInt8(value) }
    if let value = overrides[.saving] { now.isLowPower = value == "yes" }
    if let value = overrides[.idle] { now.isIdle = value == "yes" }
    now.pending.subtract(decided)
    return now
  }

  var result: ConditionsResult {
    let present = conditions
    let observed = facts.conditions
    return ConditionsResult(
      conditions: ConditionName.allCases.map { name in
        ShownCondition(
          name: name.rawValue, value: Self.value(name, present),
          observed: overrides[name] == nil ? nil : Self.value(name, observed), isSet: overrides[name] != nil)
      },
      satisfied: present.satisfied.names,
      sources: facts.sources.map { ConditionSource(name: $0.name, state: $0.state) })
  }

  private static func value(_ name: ConditionName, _ conditions: Conditions) -> String {
    func yes(_ value: Bool) -> String { value ? "yes" : "no" }
    var (isExpensive, isConstrained) = (false, false)
    if case .available(let first, let second) = conditions.network { (isExpensive, isConstrained) = (first, second) }
    return switch name {
    case .network: conditions.isOnline ? "up" : "none"
    case .metered: yes(isExpensive)
    case .constrained: yes(isConstrained)
    case .power: conditions.hasExternalPower ? "external" : "battery"
    case .battery: conditions.batteryPercent.map { String($0) } ?? "none"
    case .saving: yes(conditions.isLowPower)
    case .idle: yes(conditions.isIdle)
    }
  }

  /// As they are kept over restarts: a person who travels must not pay because the daemon was upgraded.
  var stored: [UInt8] {
    Array(
      ConditionName.allCases.compactMap { name in overrides[name].map { "\(name.rawValue)=\($0)\n" } }.joined().utf8)
  }

  /// Lines that are not understood are left out, and given back.
  mutating func restore(_ bytes: [UInt8]) -> [String] {
    var refused: [String] = []
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n").prefix(64) {
      let parts = line.split(separator: "=", maxSplits: 1)
      guard parts.count == 2 else {
        refused.append(String(line.prefix(64)))
        continue
      }
      do throws(WireError) {
        try set([ConditionValue(name: String(parts[0]), value: String(parts[1]))])
      } catch {
        refused.append(String(line.prefix(64)))
      }
    }
    return refused
  }
}

// MARK: - In the daemon

extension Daemon {
  private var overridesPath: String { directories.state + "/conditions" }

  /// Before the first tick: nothing is known yet, but for what a person set.
  func startConditions() {
    if let bytes = try? Files.read(overridesPath, limitBytes: 4096) {
      for line in desk.restore(bytes) { log.write(.warning, "Ignored in \(overridesPath): \(line)") }
      if !desk.overrides.isEmpty {
        log.write(.notice, "Conditions are set by hand; `ferry conditions` shows them.")
      }
    }
    perform(core.handle(.conditionsChanged(desk.conditions), at: Self.readClock(randomWord: random.next())))
  }

  /// Opens the sources of what some task has come to require.
  func watchConditions() {
    let demanded = core.demanded.union(demandedByPeers)
    guard demanded != watchedConditions else { return }
    watchedConditions = demanded
    if device == nil {
      do throws(SystemError) {
        device = try DeviceConditions(DeviceConditions.Places(environment: ProcessEnvironment.current())) {
          [mailbox] facts in mailbox.post(.device(facts))
        }
      } catch {
        log.write(.warning, "The device's conditions cannot be watched and count as good: \(error)")
        mailbox.post(.device(DeviceFacts()))
      }
    }
    device?.need(demanded)
  }

  func took(_ facts: DeviceFacts, _ now: ClockReading, _ effects: inout [Effect]) {
    desk.take(facts)
    effects += changedConditions(now)
    guard facts.pending.isEmpty else { return }
    let waiting = conditionQuestions
    conditionQuestions = []
    for token in waiting { answerConditions(token) }
  }

  private func changedConditions(_ now: ClockReading) -> [Effect] {
    let new = desk.conditions
    guard new != core.conditions else { return [] }
    let lost = core.conditions.satisfied.subtracting(new.satisfied).subtracting(new.pending)
    let gained = new.satisfied.subtracting(core.conditions.satisfied)
    if !lost.isEmpty { log.write(.info, "Conditions no longer met: \(lost.names.joined(separator: ", ")).") }
    if !gained.isEmpty { log.write(.info, "Conditions met: \(gained.names.joined(separator: ", ")).") }
    return core.handle(.conditionsChanged(new), at: now)
  }

  func setConditions(
    _ parameters: ConditionsSetParameters, _ token: RequestToken, _ now: ClockReading, _ effects: inout [Effect]
  ) throws(WireError) {
    guard !parameters.values.isEmpty else { throw WireError(.invalidParameters, "values names no condition.") }
    try desk.set(parameters.values)
    try changedOverrides(token, now, &effects)
  }

  func clearConditions(
    _ parameters: ConditionsClearParameters, _ token: RequestToken, _ now: ClockReading, _ effects: inout [Effect]
  ) throws(WireError) {
    try desk.clear(parameters.names)
    try changedOverrides(token, now, &effects)
  }

  private func changedOverrides(
    _ token: RequestToken, _ now: ClockReading, _ effects: inout [Effect]
  ) throws(WireError) {
    effects += changedConditions(now)
    do throws(SystemError) {
      try desk.stored.isEmpty ? Files.remove(overridesPath) : Files.atomicWrite(overridesPath, desk.stored)
    } catch {
      throw WireError(.degraded, "It holds until the daemon ends, for it could not be written down: \(error).")
    }
    showConditions(token)
  }

  /// Answers when every source has been asked once.
  func showConditions(_ token: RequestToken) {
    demandedByPeers = .all
    if desk.facts.pending.isEmpty {
      device?.refresh()
      answerConditions(token)
    } else {
      conditionQuestions.append(token)
      watchConditions()
    }
  }

  private func answerConditions(_ token: RequestToken) { respond(to: token, result: desk.result, isHeld: false) }
}
