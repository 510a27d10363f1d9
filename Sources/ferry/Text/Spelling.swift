/// Finds what a person meant by a word with a typing mistake in it.
enum Spelling {
  /// The candidate with the fewest edits, if they are few for the word's length.
  static func nearest(to word: String, among candidates: [String]) -> String? {
    let limit = word.count <= 3 ? 1 : word.count <= 6 ? 2 : 3
    // A beginning counts as near: "stat" for "status".
    if word.count >= 2, let whole = candidates.first(where: { $0.hasPrefix(word) }) { return whole }
    let ranked = candidates.map { ($0, distance(word, $0)) }.min { $0.1 < $1.1 }
    guard let ranked, ranked.1 <= limit else { return nil }
    return ranked.0
  }

  /// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
  static func distance(_ first: String, _ second: String) -> Int {
    // A word longer than any of ours is not near to one, and must not cost its square.
    let (a, b) = (Array(first.utf8.prefix(64)), Array(second.utf8.prefix(64)))
    guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
    var rows = [[Int]](repeating: [Int](repeating: 0, count: b.count + 1), count: a.count + 1)
    for i in 0...a.count { rows[i][0] = i }
    for j in 0...b.count { rows[0][j] = j }
    for i in 1...a.count {
      for j in 1...b.count {
        let substitution = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)
        rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, substitution)
        if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
          rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
        }
      }
    }
    return rows[a.count][b.count]
  }
}
