import TransferCore

/// The world's only source of chance: the same seed gives the same world.
package struct Dice {
  private var words: RandomWords

  package init(seed: UInt64) { words = RandomWords(seed: seed) }

  package mutating func word() -> UInt64 { words.next() }

  /// 0 ..< bound; `bound` is at least 1.
  package mutating func below(_ bound: Int) -> Int { Int(words.next() % UInt64(max(1, bound))) }

  package mutating func within(_ range: ClosedRange<Int>) -> Int {
    range.lowerBound + below(range.upperBound - range.lowerBound + 1)
  }

  package mutating func happens(perMille: Int) -> Bool { below(1000) < perMille }

  /// A duration in nanoseconds, from a range in milliseconds.
  package mutating func nanoseconds(milliseconds range: ClosedRange<Int>) -> Int64 {
    Int64(within(range)) * 1_000_000 + Int64(below(1_000_000))
  }

  /// An element of an array that is not empty.
  package mutating func pick<Element>(_ choices: [Element]) -> Element { choices[below(choices.count)] }
}
