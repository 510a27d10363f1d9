import Foundation

/// A Swift file of the package, as it is and with comments and the content of texts blanked.
struct SourceFile {
  /// Relative to the package's folder.
  let path: String
  let lines: [String]
  /// As many lines, with code only.
  let code: [String]

  /// The folder directly under `Sources` or `Tests`.
  var target: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }

  /// Modules that it imports, however the import is written.
  var imports: [String] {
    code.compactMap { line in
      guard line.utf8.contains("import".utf8), let match = line.firstMatch(of: Self.importForm) else { return nil }
      return String(match.output.2)
    }
  }

  private static var importForm: Regex<(Substring, Substring?, Substring)> {
    /^\s*(?:@\w+(?:\([^)]*\))?\s+)*(?:(?:public|package|internal|fileprivate|private)\s+)?import\s+(struct|class|enum|protocol|func|var|let|typealias)?\s*(\w+)/
  }

  init(path: String, text: String) {
    self.path = path
    lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    code = Self.blank(text).split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
  }

  static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

  static func all(under folder: String) throws -> [SourceFile] {
    try paths(under: folder).filter { $0.hasSuffix(".swift") }.map { path in
      SourceFile(path: path, text: try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8))
    }
  }

  /// Files under a folder of the package, in order.
  static func paths(under folder: String) -> [String] {
    let base = root.appendingPathComponent(folder).resolvingSymlinksInPath()
    guard let walk = FileManager.default.enumerator(atPath: base.path) else { return [] }
    var found: [String] = []
    for case let path as String in walk where !path.split(separator: "/").contains(where: { $0.hasPrefix(".") }) {
      var isFolder: ObjCBool = false
      let isThere = unsafe FileManager.default.fileExists(atPath: "\(base.path)/\(path)", isDirectory: &isFolder)
      if isThere, !isFolder.boolValue { found.append("\(folder)/\(path)") }
    }
    return found.sorted()
  }

  private enum Mode: Equatable {
    case code, line
    case block(Int)
    case text(hashes: Int, isLong: Bool, depths: [Int])
  }

  /// Keeps line ends and code; interpolated code inside of texts counts as text.
  private static func blank(_ text: String) -> String {
    var result: [UInt8] = []
    let bytes = Array(text.utf8)
    var mode = Mode.code
    var index = 0
    func has(_ word: String, at place: Int) -> Bool { bytes[place...].starts(with: word.utf8) }
    while index < bytes.count {
      let byte = bytes[index]
      var width = 1
      var kept = byte == 0x0A ? byte : UInt8(ascii: " ")
      switch mode {
      case .code:
        var hashes = 0
        while index + hashes < bytes.count, bytes[index + hashes] == UInt8(ascii: "#") { hashes += 1 }
        if has("//", at: index) {
          mode = .line
        } else if has("/*", at: index) {
          mode = .block(1)
        } else if index + hashes < bytes.count, bytes[index + hashes] == UInt8(ascii: "\"") {
          let isLong = has("\"\"\"", at: index + hashes)
          width = hashes + (isLong ? 3 : 1)
          kept = UInt8(ascii: "\"")
          mode = .text(hashes: hashes, isLong: isLong, depths: [])
        } else {
          kept = byte
        }
      case .line: if byte == 0x0A { mode = .code }
      case .block(let depth):
        if has("*/", at: index) { mode = depth == 1 ? .code : .block(depth - 1) }
        if has("/*", at: index) { mode = .block(depth + 1) }
      case .text(let hashes, let isLong, _):
        let fence = String(repeating: "#", count: hashes)
        if has("\\" + fence, at: index) {
          width = index + 1 + hashes < bytes.count && bytes[index + 1 + hashes] == 0x0A ? 1 : 2 + hashes
        } else if has((isLong ? "\"\"\"" : "\"") + fence, at: index) {
          width = (isLong ? 3 : 1) + hashes
          mode = .code
        } else if byte == 0x0A, !isLong {
          mode = .code
        }
      }
      result.append(kept)
      index += max(width, 1)
    }
    return String(decoding: result, as: UTF8.self)
  }
}
