package import FoundationEssentials
package import TransferCore

/// What a program holds as resume data: it names a part that the daemon keeps, and holds nothing else. The request with
/// its secrets, the validator and the bytes stay with the daemon.
///
/// Bytes: `FERRYRES`, version (1), token (16), bytes held (8), checksum of all before (8); numbers big-endian.
package struct ResumeTicket: Hashable, Sendable {
  package var token: ResumeToken
  /// Bytes that were held when the ticket was made; for people and tests, the daemon knows better.
  package var received: Int64

  package init(token: ResumeToken, received: Int64) {
    self.token = token
    self.received = received
  }

  /// Why bytes are no resume data of ours.
  package enum Fault: Error, Hashable, Sendable, CaseIterable {
    /// Another program's, or Apple's property lists.
    case foreign
    case truncated
    case newerVersion
    case damaged

    package var words: String {
      switch self {
      case .foreign: "it was not made by Ferry"
      case .truncated: "its length is wrong"
      case .newerVersion: "another version of Ferry made it"
      case .damaged: "it is damaged"
      }
    }
  }

  private static let magic = Array("FERRYRES".utf8)
  private static let version: UInt8 = 1
  package static let byteCount = 8 + 1 + 16 + 8 + 8

  package var bytes: [UInt8] {
    var bytes = Self.magic + [Self.version]
    for word in [token.high, token.low, UInt64(bitPattern: received)] { Self.append(word, to: &bytes) }
    Self.append(Self.checksum(bytes[...]), to: &bytes)
    return bytes
  }

  /// What a program is given for a kept part; nil where the token is not one.
  package static func data(token: String, received: Int64) -> Data? {
    ResumeToken(token).map { Data(ResumeTicket(token: $0, received: received).bytes) }
  }

  package init(_ bytes: [UInt8]) throws(Fault) {
    guard bytes.starts(with: Self.magic) else { throw .foreign }
    guard bytes.count > Self.magic.count else { throw .truncated }
    // Before the length, which another version may have changed.
    guard bytes[Self.magic.count] == Self.version else { throw .newerVersion }
    guard bytes.count == Self.byteCount else { throw .truncated }
    let body = bytes[..<(Self.byteCount - 8)]
    guard Self.word(bytes, at: Self.byteCount - 8) == Self.checksum(body) else { throw .damaged }
    let start = Self.magic.count + 1
    let received = Int64(bitPattern: Self.word(bytes, at: start + 16))
    guard received >= 0 else { throw .damaged }
    self.init(
      token: ResumeToken(high: Self.word(bytes, at: start), low: Self.word(bytes, at: start + 8)), received: received)
  }

  private static func append(_ word: UInt64, to bytes: inout [UInt8]) {
    for shift in stride(from: UInt64(56), through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
  }

  private static func word(_ bytes: [UInt8], at start: Int) -> UInt64 {
    bytes[start..<(start + 8)].reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// FNV-1a: it finds damage; a forger gains nothing, for the token is what counts.
  private static func checksum(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }
}
