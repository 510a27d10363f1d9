/// Reads JSON of one message straight from its bytes.
///
/// Foundation's decoder builds a tree of boxed values first; for messages that come by the ten thousand (results,
/// acknowledgements, batches of tasks) that was most of a client's work. This reader knows only those messages, and
/// only plain JSON: whatever it does not know, and whatever looks odd, it gives up, and the general decoder decides. So
/// it may give up anything, but must never accept what the general decoder refuses, nor read it otherwise; the tests
/// compare.
struct LineReader {
  /// The general decoder is to look at it.
  struct GaveUp: Error {}

  /// The members of one object, while they are read.
  struct Members {
    fileprivate var name = 0..<0
    fileprivate var seen: UInt64 = 0
    fileprivate var isFirst = true

    func has(_ bits: UInt64) -> Bool { seen & bits == bits }
  }

  private let bytes: ArraySlice<UInt8>
  private var position: Int

  init(_ bytes: ArraySlice<UInt8>) {
    self.bytes = bytes
    position = bytes.startIndex
  }

  // MARK: Objects and lists

  /// Goes to the value of the next member; false at the end of the object.
  @inline(never)
  mutating func next(_ members: inout Members) throws(GaveUp) -> Bool {
    if members.isFirst {
      members.isFirst = false
      try expect(UInt8(ascii: "{"))
      if take(UInt8(ascii: "}")) { return false }
    } else {
      if take(UInt8(ascii: "}")) { return false }
      try expect(UInt8(ascii: ","))
    }
    members.name = try quoted().range
    try expect(UInt8(ascii: ":"))
    return true
  }

  /// Whether the present member has this name. Of a name that comes twice the general decoder knows what to do.
  @inline(never)  // sixty members have one comparison between them
  func isMember(_ members: inout Members, _ name: StaticString, _ bit: UInt64) throws(GaveUp) -> Bool {
    guard members.name.count == name.utf8CodeUnitCount else { return false }
    let isSame = name.withUTF8Buffer { text in
      for (offset, index) in members.name.enumerated() where unsafe text[offset] != bytes[index] { return false }
      return true
    }
    guard isSame else { return false }
    guard members.seen & bit == 0 else { throw GaveUp() }
    members.seen |= bit
    return true
  }

  mutating func list<Element>(
    _ element: (inout LineReader) throws(GaveUp) -> Element
  ) throws(GaveUp) -> [Element] {
    try expect(UInt8(ascii: "["))
    var elements: [Element] = []
    if take(UInt8(ascii: "]")) { return elements }
    while true {
      elements.append(try element(&self))
      if take(UInt8(ascii: "]")) { return elements }
      try expect(UInt8(ascii: ","))
    }
  }

  /// Nothing may follow.
  mutating func end() throws(GaveUp) {
    skipSpaces()
    guard position == bytes.endIndex else { throw GaveUp() }
  }

  // MARK: Values

  mutating func isNull() throws(GaveUp) -> Bool {
    skipSpaces()
    guard position < bytes.endIndex, bytes[position] == UInt8(ascii: "n") else { return false }
    try literal(0x6E75_6C6C, 4)
    return true
  }

  @inline(never)
  mutating func integer() throws(GaveUp) -> Int64 {
    let isNegative = take(UInt8(ascii: "-"))
    let start = position
    var value: Int64 = 0
    while let digit = digit() {
      let (ten, isTooLarge) = value.multipliedReportingOverflow(by: 10)
      let (next, isTooLargeToo) = ten.subtractingReportingOverflow(Int64(digit))
      if isTooLarge || isTooLargeToo { throw GaveUp() }
      value = next
      position += 1
    }
    let count = position - start
    // Leading zeros, fractions and exponents are the general decoder's; so is −0.
    guard count > 0, count == 1 || bytes[start] != UInt8(ascii: "0"), !isNumberByte(here), !(isNegative && value == 0)
    else { throw GaveUp() }
    if isNegative { return value }
    guard value != .min else { throw GaveUp() }
    return -value
  }

  @inline(never)
  mutating func double() throws(GaveUp) -> Double {
    skipSpaces()
    let start = position
    while isNumberByte(here) { position += 1 }
    let text = bytes[start..<position]
    guard Self.isPlainNumber(text), let value = Double(String(decoding: text, as: UTF8.self)), value.isFinite else {
      throw GaveUp()
    }
    // What is too small for a Double is no zero to the general decoder.
    guard value != 0 || !text.contains(where: { (UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) }) else {
      throw GaveUp()
    }
    return value
  }

  mutating func bool() throws(GaveUp) -> Bool {
    skipSpaces()
    if position < bytes.endIndex, bytes[position] == UInt8(ascii: "t") {
      try literal(0x7472_7565, 4)
      return true
    }
    try literal(0x66_616C_7365, 5)
    return false
  }

  @inline(never)
  mutating func text() throws(GaveUp) -> String {
    let (range, hasEscapes) = try quoted()
    if hasEscapes { return try unescaped(range) }
    // Not `String(validating:as:)`, which is generic: a third of all reading.
    let piece = bytes[range]
    guard let text = try? UTF8Span(validating: piece.span) else { throw GaveUp() }
    return String(copying: text)
  }

  /// The same of a value that may be absent: null counts as that.
  mutating func optional<Value>(
    _ value: (inout LineReader) throws(GaveUp) -> Value
  ) throws(GaveUp) -> Value? {
    try isNull() ? nil : try value(&self)
  }

  // MARK: Inside

  private var here: UInt8? { position < bytes.endIndex ? bytes[position] : nil }

  private mutating func skipSpaces() {
    while here == 0x20 || here == 0x09 { position += 1 }
  }

  private mutating func take(_ byte: UInt8) -> Bool {
    skipSpaces()
    guard position < bytes.endIndex, bytes[position] == byte else { return false }
    position += 1
    return true
  }

  private mutating func expect(_ byte: UInt8) throws(GaveUp) {
    guard take(byte) else { throw GaveUp() }
  }

  /// Takes a word of so many letters, the last one in the lowest byte. (As a StaticString it crashes the optimizer of
  /// Swift 6.3.)
  private mutating func literal(_ word: UInt64, _ count: Int) throws(GaveUp) {
    skipSpaces()
    guard bytes.endIndex - position >= count else { throw GaveUp() }
    for letter in 0..<count {
      let wanted = UInt8(truncatingIfNeeded: word >> UInt64(8 * (count - 1 - letter)))
      guard bytes[position] == wanted else { throw GaveUp() }
      position += 1
    }
  }

  private func digit() -> UInt8? {
    guard let here, here >= UInt8(ascii: "0"), here <= UInt8(ascii: "9") else { return nil }
    return here - UInt8(ascii: "0")
  }

  private func isNumberByte(_ byte: UInt8?) -> Bool {
    guard let byte else { return false }
    // Digits, signs, the point and the exponent.
    return switch byte {
    case 0x30...0x39, 0x2B, 0x2D, 0x2E, 0x65, 0x45: true
    default: false
    }
  }

  /// RFC 8259 section 6 without a capital E.
  private static func isPlainNumber(_ text: ArraySlice<UInt8>) -> Bool {
    var rest = text
    if rest.first == UInt8(ascii: "-") { rest = rest.dropFirst() }
    let isDigit: (UInt8) -> Bool = { $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }
    let whole = rest.prefix(while: isDigit)
    guard !whole.isEmpty, whole.count == 1 || whole.first != UInt8(ascii: "0") else { return false }
    rest = rest[whole.endIndex...]
    if rest.first == UInt8(ascii: ".") {
      let fraction = rest.dropFirst().prefix(while: isDigit)
      guard !fraction.isEmpty else { return false }
      rest = rest[fraction.endIndex...]
    }
    guard let exponent = rest.first else { return true }
    // Swift writes 0.00005 as 5e-05. 0e5 is refused by the general decoder.
    guard exponent == UInt8(ascii: "e"), whole.first != UInt8(ascii: "0") else { return false }
    rest = rest.dropFirst()
    if rest.first == UInt8(ascii: "-") || rest.first == UInt8(ascii: "+") { rest = rest.dropFirst() }
    return !rest.isEmpty && rest.allSatisfy(isDigit)
  }

  /// The bytes between two quotes.
  private mutating func quoted() throws(GaveUp) -> (range: Range<Int>, hasEscapes: Bool) {
    try expect(UInt8(ascii: "\""))
    let start = position
    var hasEscapes = false
    while let byte = here {
      position += 1
      if byte == UInt8(ascii: "\"") { return (start..<(position - 1), hasEscapes) }
      if byte < 0x20 { throw GaveUp() }
      if byte == UInt8(ascii: "\\") {
        hasEscapes = true
        position += 1
      }
    }
    throw GaveUp()
  }

  /// The short escapes; those by number are rare.
  private func unescaped(_ range: Range<Int>) throws(GaveUp) -> String {
    var plain: [UInt8] = []
    plain.reserveCapacity(range.count)
    var index = range.lowerBound
    while index < range.upperBound {
      guard bytes[index] == UInt8(ascii: "\\") else {
        plain.append(bytes[index])
        index += 1
        continue
      }
      switch bytes[index + 1] {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): plain.append(bytes[index + 1])
      case UInt8(ascii: "n"): plain.append(0x0A)
      case UInt8(ascii: "r"): plain.append(0x0D)
      case UInt8(ascii: "t"): plain.append(0x09)
      default: throw GaveUp()
      }
      index += 2
    }
    guard let text = String(validating: plain, as: UTF8.self) else { throw GaveUp() }
    return text
  }
}
