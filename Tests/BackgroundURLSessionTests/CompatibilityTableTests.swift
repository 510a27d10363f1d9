import Foundation
import Testing

/// The folder of the package.
private let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
  .deletingLastPathComponent()
private let page = root.appendingPathComponent("docs/AppleCompatibility.md")

/// The public declarations of the products, as the compiler knows them.
@Suite(.serialized) struct CompatibilityTableTests {
  /// A row of the page's table: | `declaration` | here | how |
  private struct Row {
    var declaration: String
    var isHere: Bool
    var how: String

    init?(_ line: Substring) {
      let cells = line.split(separator: "|", omittingEmptySubsequences: false).map { $0.trimmingPrefix(" ") }
      guard cells.count == 5, cells[1].hasPrefix("`") else { return nil }
      let name = cells[1].dropFirst().prefix { $0 != "`" }
      let here = String(cells[2]).trimmingCharacters(in: .whitespaces)
      guard here == "yes" || here == "—" else { return nil }
      declaration = String(name)
      isHere = here == "yes"
      how = String(cells[3]).trimmingCharacters(in: .whitespaces)
    }

    var saysAbsent: Bool { how.hasPrefix("Absent:") || how.hasPrefix("Not yet:") }
    var line: String { "| `\(declaration)` | \(isHere ? "yes" : "—") | \(how) |" }
  }

  /// With FERRY_UPDATE_TABLE=1 in the environment the page is written anew, and the difference is for git to show.
  @Test func theTableTellsWhatIsThere() throws {
    let symbols = try PublicSymbol.all(of: "BackgroundURLSession").filter { !$0.isDetail }
    let present = Set(symbols.map(\.name))
    #expect(present.contains("URLSession.allTasks") && present.contains("URLError.downloadTaskResumeData"))
    let text = try String(contentsOf: page, encoding: .utf8)
    if ProcessInfo.processInfo.environment["FERRY_UPDATE_TABLE"] != nil {
      try Self.updated(text, present).write(to: page, atomically: true, encoding: .utf8)
      return
    }
    let remedy = "FERRY_UPDATE_TABLE=1 swift test --filter CompatibilityTableTests writes the column anew"
    let rows = text.split(separator: "\n").compactMap(Row.init)
    #expect(rows.count > 150, "the table was not found")
    for row in rows {
      #expect(row.isHere == present.contains(row.declaration), "\(row.declaration): \(remedy)")
      #expect(!row.how.isEmpty && row.saysAbsent == !row.isHere, "\(row.declaration): the last column says otherwise")
    }
    let listed = Set(rows.map(\.declaration))
    #expect(listed.count == rows.count, "a declaration is listed twice")
    for name in present.subtracting(listed).sorted() { Issue.record("\(name) is not in the table: \(remedy)") }
  }

  private static func updated(_ text: String, _ present: Set<String>) -> String {
    var listed: Set<String> = []
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map { line -> String in
      guard var row = Row(line) else { return String(line) }
      listed.insert(row.declaration)
      row.isHere = present.contains(row.declaration)
      // What has come since then is Apple's, unless its documentation says otherwise.
      if row.isHere, row.saysAbsent { row.how = "Same; see its documentation." }
      return row.line
    }
    let news = present.subtracting(listed).sorted()
    guard !news.isEmpty else { return lines.joined(separator: "\n") }
    while lines.last?.isEmpty == true { lines.removeLast() }
    let head = "### Only here"
    if !lines.contains(head) { lines += ["", head, "", "| declaration | here | how |", "|---|---|---|"] }
    lines += news.map { "| `\($0)` | yes | Not Apple's; see its documentation. |" }
    return lines.joined(separator: "\n") + "\n"
  }

  @Test(arguments: ["BackgroundURLSession", "AppLifecycle", "FerryClient", "LoopbackServer"])
  func everyPublicDeclarationIsDocumented(module: String) throws {
    let symbols = try PublicSymbol.all(of: module)
    #expect(symbols.count > 50)
    for symbol in symbols where !symbol.isDocumented { Issue.record("\(module): \(symbol.name) has no documentation") }
  }
}

/// One entry of a symbol graph (https://github.com/swiftlang/swift-docc-symbolkit).
private struct PublicSymbol {
  /// Its path within the module, as "URLSession.allTasks".
  let name: String
  let kind: String
  let isDocumented: Bool

  /// Belongs to the row of its type.
  var isDetail: Bool { kind == "swift.enum.case" || name.hasSuffix(".init(rawValue:)") }

  private struct Graph: Decodable {
    struct Symbol: Decodable {
      struct Kind: Decodable { var identifier: String }
      struct Identifier: Decodable { var precise: String }
      struct Comment: Decodable { var module: String? }
      var kind: Kind
      var identifier: Identifier
      var pathComponents: [String]
      var docComment: Comment?
    }
    var symbols: [Symbol]
  }

  /// Read from the module that this build has made: beside the program that runs the tests.
  static func all(of module: String) throws -> [PublicSymbol] {
    let build = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("ferry-symbols-\(UInt32.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [
      "swift", "symbolgraph-extract", "-module-name", module, "-target", target, "-minimum-access-level", "public",
      "-I", build.appendingPathComponent("Modules").path, "-output-dir", folder.path,
      "-Xcc", "-fmodule-map-file=\(build.path)/CLinux.build/module.modulemap",
    ]
    // The foreign interfaces that our modules stand on.
    for name in ["CCurl", "CCrypto", "CZlib", "CSQLite"] {
      process.arguments?.append(contentsOf: ["-I", root.appendingPathComponent("Sources/\(name)").path])
    }
    try process.run()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "swift symbolgraph-extract of \(module) failed")
    let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    return try files.flatMap { file in
      try JSONDecoder().decode(Graph.self, from: Data(contentsOf: file)).symbols.compactMap { symbol in
        // Made by the compiler, or inherited from another module, whose documentation it has.
        guard !symbol.identifier.precise.contains("::SYNTHESIZED::") else { return nil }
        return PublicSymbol(
          name: symbol.pathComponents.joined(separator: "."), kind: symbol.kind.identifier,
          isDocumented: symbol.docComment != nil)
      }
    }
  }

  private static var target: String {
    #if arch(arm64)
      "aarch64-unknown-linux-gnu"
    #else
      "x86_64-unknown-linux-gnu"
    #endif
  }
}
