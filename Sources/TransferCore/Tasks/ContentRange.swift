/// A parsed `Content-Range` (RFC 9110 section 14.4) in the unit `bytes`.
package enum ContentRange: Hashable, Sendable {
  /// `bytes first-last/total`; total is nil for `*`.
  case range(first: Int64, last: Int64, total: Int64?)
  /// `bytes */total`
  case unsatisfied(total: Int64)

  /// Nil for another unit, a form outside the grammar, or numbers that contradict each other.
  package init?(_ text: String) {
    let trimmed = text.trimmingOptionalWhitespace
    guard trimmed.utf8.count <= 128, let space = trimmed.firstIndex(of: " "),
      String(trimmed[..<space]).equalsIgnoringASCIICase("bytes")
    else { return nil }
    let spec = String(trimmed[trimmed.index(after: space)...]).trimmingOptionalWhitespace
    let halves = spec.split(separator: "/", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    let total = halves[1] == "*" ? nil : Self.number(halves[1])
    if halves[1] != "*" && total == nil { return nil }
    if halves[0] == "*" {
      guard let total else { return nil }
      self = .unsatisfied(total: total)
      return
    }
    let ends = halves[0].split(separator: "-", omittingEmptySubsequences: false)
    guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]), first <= last,
      total.map({ last < $0 }) ?? true
    else { return nil }
    self = .range(first: first, last: last, total: total)
  }

  private static func number(_ text: Substring) -> Int64? {
    guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return Int64(text)
  }
}
