internal import TransferCore

// What columns may hold, each rule once for writing and once for reading. What is refused on reading is refused on
// writing too: else a row would be accepted today and quarantined at the next start.

extension Statement {
  // MARK: Writing

  /// Zero or more.
  func bindCount(_ value: Int64?, _ name: StaticString) throws(StoreError) {
    if let value, value < 0 { throw invalidValue("\(name) is negative") }
    try bind(value)
  }

  /// One or more.
  func bindOrdinal(_ value: Int64, _ name: StaticString) throws(StoreError) {
    if value < 1 { throw invalidValue("\(name) is not positive") }
    try bind(value)
  }

  func bindName<Name: RawRepresentable<String>>(_ value: Name?) throws(StoreError) { try bind(value?.rawValue) }

  /// Texts without line ends, one a line.
  func bindLines(_ lines: [String], _ name: StaticString) throws(StoreError) {
    var text: [UInt8] = []
    for line in lines {
      try append(line, to: &text, name)
      text.append(0x0A)
    }
    try bind(utf8: text)
  }

  /// Lines of `Name: value`; NULL for nil.
  func bindHeaders(_ headers: HeaderFields?, _ name: StaticString) throws(StoreError) {
    guard let headers else { return try bind(String?.none) }
    var text: [UInt8] = []
    text.reserveCapacity(headers.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 3 })
    for field in headers.fields {
      if field.name.isEmpty || field.name.utf8.contains(UInt8(ascii: ":")) {
        throw invalidValue("a field name of \(name) is empty or holds a colon")
      }
      try append(field.name, to: &text, name)
      text.append(UInt8(ascii: ":"))
      text.append(UInt8(ascii: " "))
      try append(field.value, to: &text, name)
      text.append(0x0A)
    }
    try bind(utf8: text)
  }

  private func append(_ part: String, to text: inout [UInt8], _ name: StaticString) throws(StoreError) {
    if part.utf8.contains(where: Self.endsLine) { throw invalidValue("\(name) holds a line end or NUL") }
    text.append(contentsOf: part.utf8)
  }

  func invalidValue(_ reason: String) -> StoreError {
    reset()
    return StoreError(.invalidValue, message: "a row cannot be stored: \(reason)", statement: sql)
  }

  private static func endsLine(_ byte: UInt8) -> Bool { byte == 0x0A || byte == 0x0D || byte == 0 }

  // MARK: Reading

  func nextRequiredInteger() throws(RowFault) -> Int64 {
    guard let value = try nextInteger() else { throw missing }
    return value
  }

  func nextOptionalCount() throws(RowFault) -> Int64? {
    guard let value = try nextInteger() else { return nil }
    if value < 0 { throw RowFault("\(lastColumnName) is negative") }
    return value
  }

  func nextCount() throws(RowFault) -> Int64 {
    guard let value = try nextOptionalCount() else { throw missing }
    return value
  }

  func nextOrdinal() throws(RowFault) -> Int64 {
    let value = try nextCount()
    if value == 0 { throw RowFault("\(lastColumnName) is not positive") }
    return value
  }

  func nextInteger(in range: ClosedRange<Int64>) throws(RowFault) -> Int64 {
    let value = try nextRequiredInteger()
    if !range.contains(value) {
      throw RowFault("\(lastColumnName) is outside of \(range.lowerBound) to \(range.upperBound)")
    }
    return value
  }

  func nextFlag() throws(RowFault) -> Bool {
    switch try nextRequiredInteger() {
    case 0: return false
    case 1: return true
    default: throw RowFault("\(lastColumnName) is neither 0 nor 1")
    }
  }

  func nextRequiredText() throws(RowFault) -> String {
    guard let value = try nextText() else { throw missing }
    return value
  }

  func nextOptionalName<Name: RawRepresentable<String>>(_: Name.Type) throws(RowFault) -> Name? {
    guard let text = try nextText() else { return nil }
    guard let name = Name(rawValue: text) else { throw RowFault("\(lastColumnName) has an unknown name") }
    return name
  }

  func nextName<Name: RawRepresentable<String>>(_ type: Name.Type) throws(RowFault) -> Name {
    guard let name = try nextOptionalName(type) else { throw missing }
    return name
  }

  func nextOptionalLines() throws(RowFault) -> [String]? {
    guard let text = try nextText() else { return nil }
    if text.utf8.contains(where: { Self.endsLine($0) && $0 != 0x0A }) {
      throw RowFault("\(lastColumnName) holds a carriage return or NUL")
    }
    var lines = text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false).map { String(Substring($0)) }
    guard lines.removeLast().isEmpty else { throw RowFault("\(lastColumnName) does not end with a line end") }
    return lines
  }

  func nextLines() throws(RowFault) -> [String] {
    guard let lines = try nextOptionalLines() else { throw missing }
    return lines
  }

  func nextOptionalHeaders() throws(RowFault) -> HeaderFields? {
    guard let lines = try nextOptionalLines() else { return nil }
    var fields: [HeaderField] = []
    fields.reserveCapacity(lines.count)
    for line in lines {
      let bytes = line.utf8
      guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon != bytes.startIndex,
        case let space = bytes.index(after: colon), space < bytes.endIndex, bytes[space] == UInt8(ascii: " ")
      else { throw RowFault("\(lastColumnName) has a line that is not `Name: value`") }
      fields.append(
        HeaderField(name: String(line[..<colon]), value: String(Substring(bytes[bytes.index(after: space)...]))))
    }
    return HeaderFields(fields)
  }

  func nextHeaders() throws(RowFault) -> HeaderFields {
    guard let headers = try nextOptionalHeaders() else { throw missing }
    return headers
  }

  var missing: RowFault { RowFault("\(lastColumnName) is missing") }
}
