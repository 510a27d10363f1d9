/// What a Range field asks of content of a known length (RFC 9110, 14).
enum ByteRange: Equatable {
  /// Not for us: another unit, several ranges, or no valid syntax; the whole content is the answer (14.2).
  case ignored
  /// Nothing of the content: 416 (15.5.17).
  case unsatisfiable
  case satisfiable(Range<Int>)

  init(_ field: String, length: Int) {
    self = .ignored
    let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, String(parts[0]).equalsIgnoringASCIICase("bytes") else { return }
    let bounds = parts[1].trimmingBlanks.split(separator: "-", omittingEmptySubsequences: false)
    guard bounds.count == 2 else { return }
    let (low, high) = (bounds[0], bounds[1])
    if low.isEmpty {
      guard let count = high.decimalClamped else { return }
      self = count == 0 || length == 0 ? .unsatisfiable : .satisfiable(max(0, length - count)..<length)
      return
    }
    guard let first = low.decimalClamped else { return }
    var last = Int.max - 1
    if !high.isEmpty {
      guard let given = high.decimalClamped, given >= first else { return }
      last = min(given, last)
    }
    self = first >= length ? .unsatisfiable : .satisfiable(first..<min(last + 1, length))
  }
}

extension StringProtocol {
  /// The number if this is one or more ASCII digits; larger than `Int` counts as `Int.max`.
  var decimalClamped: Int? {
    let digits = utf8
    guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return Int(String(self)) ?? Int.max
  }

  var trimmingBlanks: SubSequence {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    let start = firstIndex { !isBlank($0) } ?? endIndex
    let end = self[start...].lastIndex { !isBlank($0) }.map { index(after: $0) } ?? start
    return self[start..<end]
  }
}
