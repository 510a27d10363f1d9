import Testing

@testable import DeviceConditions

/// Names of units. What the manager does with them is seen in the tests of the units.
@Suite struct UserSystemdTests {
  @Test(arguments: [
    ("org.example.app", "org.example.app"), ("a-b/c d", "a\\x2db\\x2fc\\x20d"), (".hidden", "\\x2ehidden"),
    ("é", "\\xc3\\xa9"), ("a@b\n", "a\\x40b\\x0a"),
  ])
  func aScopeIsNamedByItsApp(app: String, name: String) {
    #expect(UserSystemd.scopeName(app: app, processID: 7) == "app-ferry-\(name)-7.scope")
  }

  @Test func aNameIsNotLongerThanAUnitsMayBe() {
    #expect(UserSystemd.scopeName(app: String(repeating: "-", count: 255), processID: .max).utf8.count <= 255)
  }

  @Test func whereNoManagerListensThatIsSaid() {
    #expect(throws: ScopeFailure.self) {
      try UserSystemd.startScope("a.scope", description: "a", processID: .max, runtimeFolder: "/nonexistent")
    }
  }
}
