import FoundationEssentials
import WireProtocol

/// What `--json` prints.
enum JSONText {
  /// Members in the order of their names, so that two runs compare. `isCompact` puts the value on one line.
  static func of(_ value: some Encodable, isCompact: Bool = false) throws(CommandFailure) -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting =
      isCompact ? [.sortedKeys, .withoutEscapingSlashes] : [.sortedKeys, .withoutEscapingSlashes, .prettyPrinted]
    do {
      return escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    } catch {
      throw CommandFailure(.failure, "The result cannot be written as JSON.")
    }
  }

  /// JSON lets characters through that steer terminals (U+007F, U+0080 … U+009F, marks of direction); as escapes they
  /// mean the same. Outside of strings none of them can stand.
  static func escaped(_ json: String) -> String {
    let isLayout: (Unicode.Scalar) -> Bool = { $0 == "\n" || $0 == " " }
    guard json.unicodeScalars.contains(where: { TerminalText.isHarmful($0) && !isLayout($0) }) else { return json }
    var result = ""
    for scalar in json.unicodeScalars {
      if TerminalText.isHarmful(scalar), !isLayout(scalar) {
        for unit in String(scalar).utf16 {
          let digits = String(unit, radix: 16)
          result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
