/// Header fields in the order they stand in the message; names are looked up without regard to case (RFC 9110, 5.1).
public struct HeaderFields: Sendable, Equatable, ExpressibleByDictionaryLiteral {
  /// One field line.
  public struct Field: Sendable, Equatable {
    /// The name as it was written.
    public let name: String
    /// The value without the whitespace around it. Bytes that are not UTF-8 are replaced by U+FFFD.
    public let value: String
  }

  /// Every field line in order, duplicates included.
  public private(set) var fields: [Field] = []

  /// No fields.
  public init() {}

  /// Fields in the order written.
  public init(dictionaryLiteral elements: (String, String)...) {
    for (name, value) in elements { append(name, value) }
  }

  /// The value of the first field called `name`.
  public subscript(name: String) -> String? {
    fields.first { $0.name.equalsIgnoringASCIICase(name) }?.value
  }

  /// The values of all fields called `name`, in order.
  public func values(_ name: String) -> [String] {
    fields.filter { $0.name.equalsIgnoringASCIICase(name) }.map(\.value)
  }

  /// Adds a field at the end, whatever is there already.
  public mutating func append(_ name: String, _ value: String) {
    fields.append(Field(name: name, value: value))
  }

  /// Puts one field in place of all that have this name.
  public mutating func set(_ name: String, _ value: String) {
    if let index = fields.firstIndex(where: { $0.name.equalsIgnoringASCIICase(name) }) {
      let position = index
      fields.removeAll { $0.name.equalsIgnoringASCIICase(name) }
      fields.insert(Field(name: name, value: value), at: position)
    } else {
      append(name, value)
    }
  }

  /// Removes all fields called `name`.
  public mutating func remove(_ name: String) {
    fields.removeAll { $0.name.equalsIgnoringASCIICase(name) }
  }
}

extension String {
  func equalsIgnoringASCIICase(_ other: String) -> Bool {
    let left = utf8
    let right = other.utf8
    return left.count == right.count && zip(left, right).allSatisfy { $0.asciiLowercased == $1.asciiLowercased }
  }
}

extension UInt8 {
  var asciiLowercased: UInt8 { self >= 0x41 && self <= 0x5A ? self | 0x20 : self }
}
