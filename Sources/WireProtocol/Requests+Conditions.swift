/// Overrides what the device's sources say, until ``ConditionsClearParameters``.
package struct ConditionsSetParameters: Codable, Hashable, Sendable {
  package var values: [ConditionValue]
  package init(values: [ConditionValue]) { self.values = values }
}

package struct ConditionValue: Codable, Hashable, Sendable {
  /// A name of ``ConditionName``.
  package var name: String
  package var value: String
  package init(name: String, value: String) {
    self.name = name
    self.value = value
  }
}

package struct ConditionsClearParameters: Codable, Hashable, Sendable {
  /// Absent: all.
  package var names: [String]?
  package init(names: [String]? = nil) { self.names = names }
}

/// The conditions that a person may see and set.
package enum ConditionName: String, CaseIterable, Sendable {
  case network, metered, constrained, power, battery, saving, idle

  /// What may stand behind `NAME=`.
  package var values: String {
    switch self {
    case .network: "up or none"
    case .metered, .constrained, .saving, .idle: "yes or no"
    case .power: "external or battery"
    case .battery: "0 to 100 (percent) or none"
    }
  }
}

/// The present conditions, and whence they are known.
package struct ConditionsResult: Codable, Hashable, Sendable {
  package var conditions: [ShownCondition]
  /// Names of the constraints that are met now.
  package var satisfied: [String]
  /// What each source of the device said last.
  package var sources: [ConditionSource]
  package init(conditions: [ShownCondition], satisfied: [String], sources: [ConditionSource]) {
    self.conditions = conditions
    self.satisfied = satisfied
    self.sources = sources
  }
}

package struct ShownCondition: Codable, Hashable, Sendable {
  package var name: String
  /// What counts.
  package var value: String
  /// What the device says, where that was overridden.
  package var observed: String?
  package var isSet: Bool
  package init(name: String, value: String, observed: String?, isSet: Bool) {
    self.name = name
    self.value = value
    self.observed = observed
    self.isSet = isSet
  }
}

package struct ConditionSource: Codable, Hashable, Sendable {
  package var name: String
  /// In words: "a default route", "not there".
  package var state: String
  package init(name: String, state: String) {
    self.name = name
    self.state = state
  }
}

/// One thing that keeps a task from running now.
package struct WireBlocker: Codable, Hashable, Sendable {
  package var name: String
  package var cause: String
  /// What will lift it.
  package var lifts: String
  package var sinceMilliseconds: Int64?
  /// When it lifts by itself at the latest.
  package var untilMilliseconds: Int64?
  package init(name: String, cause: String, lifts: String, sinceMilliseconds: Int64?, untilMilliseconds: Int64?) {
    self.name = name
    self.cause = cause
    self.lifts = lifts
    self.sinceMilliseconds = sinceMilliseconds
    self.untilMilliseconds = untilMilliseconds
  }
}

extension WireBlocker: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("name", name)
      line.member("cause", cause)
      line.member("lifts", lifts)
      line.member("sinceMilliseconds", sinceMilliseconds)
      line.member("untilMilliseconds", untilMilliseconds)
    }
  }
}
