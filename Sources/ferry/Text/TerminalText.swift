/// Text from outside (servers, file names, other programs) made fit for a terminal.
enum TerminalText {
  /// Control characters, and those that reorder or break lines, become visible escapes like `\u{1B}`: a server's text
  /// must not move the cursor, change colours, or make one name look like another.
  static func escaped(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: isHarmful) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      if isHarmful(scalar) {
        result += "\\u{\(String(scalar.value, radix: 16, uppercase: true))}"
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  static func isHarmful(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x00...0x1F, 0x7F...0x9F: true
    // Line and paragraph separators, marks and overrides of direction (Unicode Standard Annex 9), byte order mark.
    case 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069, 0xFEFF: true
    // Interlinear annotations and tags show nothing.
    case 0xFFF9...0xFFFB, 0xE0000...0xE007F: true
    default: false
    }
  }

  /// Columns that a terminal uses for the text: 0 for marks that combine, 2 for wide East Asian characters and emoji.
  static func columns(_ text: some StringProtocol) -> Int {
    text.unicodeScalars.reduce(0) { $0 + columns($1) }
  }

  /// The text cut to at most so many columns; what was cut shows as "…".
  static func fitted(_ text: String, columns limit: Int) -> String {
    guard columns(text) > limit else { return text }
    guard limit > 0 else { return "" }
    var result = ""
    var used = 0
    for character in text {
      let width = columns(String(character))
      guard used + width <= limit - 1 else { break }
      result.append(character)
      used += width
    }
    return result + "…"
  }

  static func padded(_ text: String, columns width: Int, alignedRight: Bool = false) -> String {
    let space = String(repeating: " ", count: max(0, width - columns(text)))
    return alignedRight ? space + text : text + space
  }

  private static func columns(_ scalar: Unicode.Scalar) -> Int {
    if scalar.value < 0x300 { return 1 }
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format: return 0
    default: break
    }
    // Unicode Standard Annex 11, classes W and F, in blocks.
    switch scalar.value {
    case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3, 0xF900...0xFAFF,
      0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1FAFF,
      0x20000...0x3FFFD:
      return 2
    default: return 1
    }
  }
}

/// Rows under headings, each column as wide as its widest entry; the last column is not padded.
struct TextTable: Sendable {
  struct Column: Sendable {
    var heading: String
    var isAlignedRight = false
  }
  var columns: [Column]
  /// Already escaped, one entry a column.
  var rows: [[String]] = []

  func lines() -> [String] {
    let table = [columns.map(\.heading)] + rows
    let widths = columns.indices.map { column in table.map { TerminalText.columns($0[column]) }.max() ?? 0 }
    return table.map { row in
      let cells = row.enumerated().map { index, cell in
        index == columns.count - 1 && !columns[index].isAlignedRight
          ? cell : TerminalText.padded(cell, columns: widths[index], alignedRight: columns[index].isAlignedRight)
      }
      return cells.joined(separator: "  ")
    }
  }
}
