import Foundation
import Testing

/// Keeps docs/FailureCases.md from going stale: the tests that it names exist, and a row without one says why.
@Suite struct FailureTableTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  private static func sources() throws -> [String] {
    let tests = root.appending(path: "Tests/DaemonTests")
    let folder = tests.appending(path: "FailureCases")
    let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    return try (files + [tests.appending(path: "RealServerTests.swift")]).filter { $0.pathExtension == "swift" }
      .map { try String(contentsOf: $0, encoding: .utf8) }
  }

  @Test func everyTestThatTheTableNamesExists() throws {
    let table = try String(contentsOf: Self.root.appending(path: "docs/FailureCases.md"), encoding: .utf8)
    let sources = try Self.sources()
    var rows = 0
    var named = 0
    for line in table.split(separator: "\n") {
      let cells = line.split(separator: "|", omittingEmptySubsequences: false)
      guard cells.count == 6, Int(cells[1].trimmingCharacters(in: .whitespaces)) != nil else { continue }
      rows += 1
      let names = cells[4].split(separator: "`").map(String.init).filter { $0.contains { $0.isLetter } }
      if names.isEmpty {
        #expect(cells[3].contains("ssue"), "a row without a test says which issue brings it: \(line)")
      }
      for name in names {
        named += 1
        #expect(sources.contains { $0.contains("func \(name)(") }, "there is no test \(name)")
      }
    }
    #expect(rows > 45)
    #expect(named > 60)
  }
}
