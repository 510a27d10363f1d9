import Foundation
import Testing

/// The rules of the project that a compiler does not know.
@Suite struct TidyTests {
  /// Which module may import which of ours and of the system's; what is not named here may be imported by nobody.
  static let edges: [String: Set<String>] = [
    "TransferCore": [],
    "LinuxSystem": ["TransferCore", "CLinux", "Glibc", "Synchronization"],
    "WireProtocol": ["TransferCore", "FoundationEssentials"],
    "TransferStore": ["TransferCore", "CSQLite", "Glibc", "Synchronization"],
    "Certificates": ["CCrypto"],
    "CurlEngine": [
      "TransferCore", "LinuxSystem", "Certificates", "CCurl", "CCrypto", "CZlib", "Glibc", "Synchronization",
    ],
    "DeviceConditions": ["TransferCore", "LinuxSystem", "CSystemd", "Glibc", "Synchronization"],
    "TransferDaemon": [
      "TransferCore", "LinuxSystem", "WireProtocol", "TransferStore", "CurlEngine", "DeviceConditions", "Glibc",
      "Synchronization",
    ],
    "ferryd": ["TransferDaemon", "LinuxSystem", "TransferCore", "Glibc"],
    "FerryClient": [
      "TransferCore", "LinuxSystem", "WireProtocol", "FoundationEssentials", "Glibc", "Synchronization",
    ],
    "InProcessTransfers": [
      "TransferCore", "LinuxSystem", "CurlEngine", "DeviceConditions", "Synchronization", "Glibc",
    ],
    "BackgroundURLSession": facade.union(["InProcessTransfers", "Certificates"]),
    "BackgroundTasks": facade, "AppLifecycle": facade,
    "ferry": [
      "FerryClient", "LinuxSystem", "WireProtocol", "TransferCore", "FoundationEssentials", "Glibc", "Synchronization",
    ],
    "LoopbackServer": ["LinuxSystem", "Glibc", "Synchronization"],
    "loopback-server": ["LoopbackServer", "Glibc", "Synchronization"],
    "TransferSimulation": ["TransferCore"],
    "ferry-simulate": ["TransferSimulation", "TransferCore", "Glibc"],
  ]

  static let facade: Set<String> = [
    "FerryClient", "BackgroundURLSession", "WireProtocol", "TransferCore", "Foundation", "FoundationNetworking",
    "FoundationEssentials", "Glibc", "Synchronization", "Dispatch", "Observation", "UIKit", "SwiftUI",
  ]

  private static let allSources = Result { try SourceFile.all(under: "Sources") }
  private static let allTests = Result { try SourceFile.all(under: "Tests") }

  let sources: [SourceFile]
  let tests: [SourceFile]

  init() throws {
    sources = try Self.allSources.get()
    tests = try Self.allTests.get()
    #expect(!sources.isEmpty && !tests.isEmpty, "the package's folder was not found")
  }

  private func report(_ file: SourceFile, _ line: Int?, _ words: String) {
    Issue.record("\(file.path)\(line.map { ":\($0 + 1)" } ?? ""): \(words)")
  }

  /// Reports each line of code that the form is found in; `hint` is in all such lines, and is looked for first.
  private func search(_ files: [SourceFile], _ hint: String, _ form: Regex<some Any>, _ words: String) {
    for file in files {
      for (index, line) in file.code.enumerated() where line.utf8.contains(hint.utf8) {
        if line.firstMatch(of: form) != nil { report(file, index, words) }
      }
    }
  }

  @Test func onlyTheOwnerOfAForeignThingImportsIt() {
    for file in sources {
      guard let allowed = Self.edges[file.target] else {
        if !file.target.hasPrefix("C") {
          report(file, nil, "the target \(file.target) has no line in the table of edges")
        }
        continue
      }
      for module in file.imports where !allowed.contains(module) {
        report(file, nil, "\(file.target) may not import \(module)")
      }
    }
  }

  @Test func theFacesOfTheDaemonAreSeparate() {
    let clients: Set<String> = ["ferry", "FerryClient", "BackgroundURLSession", "BackgroundTasks", "AppLifecycle"]
    for (target, modules) in Self.edges.sorted(by: { $0.key < $1.key }) {
      if clients.contains(target) {
        #expect(modules.isDisjoint(with: ["CurlEngine", "TransferStore", "TransferDaemon"]), "\(target)")
      } else {
        #expect(modules.isDisjoint(with: ["Foundation", "FoundationNetworking"]), "\(target)")
      }
    }
  }

  @Test func filesAndLinesAreShort() {
    for file in sources + tests {
      if file.lines.count > 601 { report(file, nil, "\(file.lines.count) lines; 600 are the limit") }
      for (index, line) in file.lines.enumerated() where line.utf8.count > 120 && line.count > 120 {
        // The row of a table and an address cannot be broken.
        let cannotBreak = line.contains("/// |") || line.contains("://") || line.split(separator: " ").count < 3
        if !cannotBreak { report(file, index, "\(line.count) columns; 120 are the limit") }
      }
    }
  }

  @Test func functionsAreShort() {
    for file in sources + tests {
      for function in Functions.of(file) where function.count > 70 {
        report(file, function.start, "a function of \(function.count) lines; 70 are the limit")
      }
    }
  }

  @Test func nothingIsForced() {
    search(sources, "try!", /\btry!/, "try! traps")
    search(sources, "as!", /\bas!/, "as! traps")
    search(sources, "!", /[\w\)\]\}]!(?:[\s.,;:\)\]\}\[\(?]|$)/, "a forced value traps")
    search(sources, "unowned(unsafe)", /unowned\(unsafe\)/, "this traps, or worse")
    // What Apple's URLSession refuses with an exception is refused by the façades with the same words (design 13).
    let others = sources.filter { Self.edges[$0.target]?.isSuperset(of: Self.facade) != true }
    search(others, "fatalError(", /\bfatalError\(/, "this traps")
  }

  @Test func namesAreNounsOfTheDomain() {
    for word in ["Manager", "Helper", "Util", "Impl"] {
      search(
        sources, word,
        /\b(?:struct|class|enum|protocol|actor|typealias)\s+\w*(?:Manager|Helper|Helpers|Util|Utils|Utility|Impl)\b/,
        "the name says nothing: no Manager, Helper, Util or Impl")
    }
  }

  /// What must pause (a server that is slow on purpose, a look again until a deadline) says why on its own line.
  @Test func testsWaitForEventsAndNotForTime() {
    let sleep = /\b(?:u|nano)?sleep\s*\(|Thread\.sleep|Task\.sleep/
    for file in tests {
      for (index, line) in file.code.enumerated()
      where line.contains(sleep) && !file.lines[index].contains("// sleep: ") {
        report(file, index, "wait for an event with a deadline, or say why not: // sleep: …")
      }
    }
  }

  /// The order of a dictionary or set differs from run to run.
  @Test func theCoreNeverWalksADictionary() {
    let core = sources.filter { $0.target == "TransferCore" }
    var names: Set<String> = []
    for file in core {
      for line in file.code where line.utf8.contains("[".utf8) || line.utf8.contains("Set<".utf8) {
        let form = /\b(?:var|let)\s+(\w+)\s*(?::\s*(?:\[[^\[\]]+:\s|Set<)|=\s*Set<)/
        if let match = line.firstMatch(of: form) { names.insert(String(match.output.1)) }
      }
    }
    #expect(
      names.isSuperset(of: ["active", "attemptOwners", "unreadable", "cells"]), "the declarations were not found")
    // Arrays of the same name elsewhere.
    names.subtract(["cells", "missing", "numbers"])
    for file in core {
      for (index, line) in file.code.enumerated() where line.utf8.contains("for ".utf8) {
        guard let match = line.firstMatch(of: /\bfor\s+.*?\bin\s+(?:self\.)?(\w+)(\.keys|\.values)?(?:\s|\{|$)/) else {
          continue
        }
        if names.contains(String(match.output.1)) { report(file, index, "\(match.output.1) has no order of its own") }
      }
    }
  }

  @Test func everyTargetHasItsPage() {
    for target in Self.edges.keys.sorted() where target.first?.isUppercase == true {
      let own = sources.filter { $0.target == target }
      let isEmpty = own.allSatisfy { $0.path.hasSuffix("/Placeholder.swift") }
      let page = "docs/internals/\(target).md"
      if !isEmpty {
        #expect(
          FileManager.default.fileExists(atPath: SourceFile.root.appendingPathComponent(page).path),
          "\(page) is missing")
      }
    }
  }

  @Test func nothingNamesAMachine() throws {
    // Put together here, so that this file does not name them.
    let folders = ["work", "root", "farm"].map { "/\($0)/" }
    let paths =
      ["Sources", "Tests", "docs", "scripts", ".ci", "Benchmarks", "Fuzz", "Compatibility"]
      .flatMap(SourceFile.paths) + ["Package.swift", "README.md"]
    for path in paths {
      guard let text = try? String(contentsOf: SourceFile.root.appendingPathComponent(path), encoding: .utf8) else {
        continue
      }
      for folder in folders
      where text.contains("\"\(folder)") || text.contains(" \(folder)") || text.contains("`\(folder)") {
        // What a rule says of the superuser's home is no path of this machine.
        if folder.hasPrefix("/root"), path.hasPrefix("Tests/LinuxSystemTests/") { continue }
        Issue.record("\(path) names \(folder)")
      }
    }
  }
}

/// Functions of a file by their braces.
enum Functions {
  struct Extent {
    var start: Int
    var count: Int
  }

  static func of(_ file: SourceFile) -> [Extent] {
    var found: [Extent] = []
    var depth = 0
    var open: [(start: Int, depth: Int)] = []
    var pending: Int?
    for (index, line) in file.code.enumerated() {
      if ["func", "init", "subscript"].contains(where: { line.utf8.contains($0.utf8) }),
        line.firstMatch(of: /\bfunc\s|\binit[?(<]|\bdeinit\b|\bsubscript[(<]/) != nil,
        line.firstMatch(of: /[.:]\s*init|self\.init|super\.init/) == nil
      {
        pending = index
      }
      for byte in line.utf8 {
        if byte == UInt8(ascii: "{") {
          depth += 1
          if let start = pending {
            open.append((start, depth))
            pending = nil
          }
        } else if byte == UInt8(ascii: "}") {
          // A requirement of a protocol has no body.
          pending = nil
          if let last = open.last, last.depth == depth {
            found.append(Extent(start: last.start, count: index - last.start + 1))
            open.removeLast()
          }
          depth -= 1
        }
      }
    }
    return found
  }
}

extension String.UTF8View {
  /// Whether the bytes stand somewhere in these; much faster than a search for characters.
  func contains(_ word: String.UTF8View) -> Bool {
    guard let first = word.first else { return true }
    var rest = self[...]
    while let place = rest.firstIndex(of: first) {
      rest = rest[place...]
      if rest.starts(with: word) { return true }
      rest = rest.dropFirst()
    }
    return false
  }
}
