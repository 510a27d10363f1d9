import Foundation
import Testing

/// Keeps docs/FailureCases.md from going stale: the tests that it names exist, and a row without one says why.
@Suite struct FailureTableTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  private static func sources() throws -> [String] {
    let tests = root.appending(path: "Tests").path
    return try FileManager.default.subpathsOfDirectory(atPath: tests).filter { $0.hasSuffix(".swift") }
      .map { try String(contentsOfFile: "\(tests)/\($0)", encoding: .utf8) }
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
        let declarations = ["func \(name)(", "struct \(name) "]
        #expect(sources.contains { declarations.contains(where: $0.contains) }, "there is no test \(name)")
      }
    }
    #expect(rows > 45)
    #expect(named > 60)
  }
}
