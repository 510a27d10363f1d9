/// Makes gzip members without compressing: enough to see what a client does with Content-Encoding.
public enum Gzip {
  /// `bytes` as one gzip member of stored blocks (RFC 1952; RFC 1951, 3.2.4). It is a little longer than `bytes`.
  public static func stored(_ bytes: [UInt8]) -> [UInt8] {
    var member: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
    member.reserveCapacity(bytes.count + bytes.count / 65_535 * 5 + 23)
    var start = 0
    repeat {
      let end = min(start + 65_535, bytes.count)
      let count = UInt16(end - start)
      member.append(end == bytes.count ? 1 : 0)
      member += littleEndian(UInt32(count) | UInt32(~count) << 16)
      member += bytes[start..<end]
      start = end
    } while start < bytes.count
    member += littleEndian(checksum(bytes))
    member += littleEndian(UInt32(truncatingIfNeeded: bytes.count))
    return member
  }

  private static func littleEndian(_ word: UInt32) -> [UInt8] {
    (0..<4).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
  }

  // CRC-32 of RFC 1952, section 8.
  private static let table: [UInt32] = (0..<256).map { index in
    (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0xEDB8_8320 : value >> 1 }
  }

  private static func checksum(_ bytes: [UInt8]) -> UInt32 {
    var value = UInt32.max
    for byte in bytes { value = table[Int(UInt8(truncatingIfNeeded: value) ^ byte)] ^ value >> 8 }
    return ~value
  }
}
