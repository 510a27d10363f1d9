import Glibc

/// Content of any length that can be made from any offset on and that says where it came from.
///
/// The eight bytes at offset `8 i` are, in little-endian order, `(i × odd + a(seed)) xor b(seed)`. The map is one to
/// one, and any eight bytes in a row differ from the eight at any other offset that is a multiple of eight away: so a
/// splice, a shift, a repeated or missing block and a mix of two seeds all fail ``verify(_:at:)``. One addition and
/// one xor a word keep it faster than the loopback device.
public struct GeneratedContent: Sendable, Equatable {
  /// The length in bytes.
  public let length: Int
  /// What tells one version of the content from another.
  public let seed: UInt64

  private let addend: UInt64
  private let mask: UInt64
  private static let odd: UInt64 = 0x9E37_79B9_7F4A_7C15

  /// Content of `length` bytes (negative counts as 0).
  public init(length: Int, seed: UInt64 = 1) {
    self.length = max(0, length)
    self.seed = seed
    addend = Self.mixed(seed)
    mask = Self.mixed(seed ^ 0xD1B5_4A32_D192_ED03)
  }

  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014), so that neighbouring seeds have nothing in common.
  private static func mixed(_ value: UInt64) -> UInt64 {
    var word = value &+ odd
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }

  private func word(_ index: UInt64) -> UInt64 { (index &* Self.odd &+ addend) ^ mask }

  /// The bytes of `range`, which is clamped to the content.
  public func bytes(_ range: Range<Int>) -> [UInt8] {
    let range = range.clamped(to: 0..<length)
    guard !range.isEmpty else { return [] }
    return unsafe [UInt8](unsafeUninitializedCapacity: range.count) { buffer, count in
      unsafe withScratch { scratch in
        while count < range.count {
          let part = unsafe fill(scratch, from: range.lowerBound + count, limit: range.count - count)
          // SAFETY: `fill` gives at most `limit` bytes, which is what is left of the buffer.
          unsafe UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
            .copyMemory(from: part)
          count += part.count
        }
      }
    }
  }

  /// All bytes; for small contents.
  public var allBytes: [UInt8] { bytes(0..<length) }

  /// Where bytes differ from the content.
  public struct Mismatch: Sendable, Equatable, CustomStringConvertible {
    /// The offset in the content of the first wrong byte.
    public let offset: Int
    /// The byte the content has there; nil beyond its end.
    public let expected: UInt8?
    /// The byte that was found there.
    public let found: UInt8
    /// The offset whose bytes stand here instead, when these are bytes of the same content.
    public let cameFrom: Int?

    /// One line for a test's message.
    public var description: String {
      let wanted = expected.map { "\($0)" } ?? "nothing (beyond the end)"
      let origin = cameFrom.map { "; these bytes belong at offset \($0)" } ?? ""
      return "wrong byte at offset \(offset): \(found) instead of \(wanted)\(origin)"
    }
  }

  /// Compares `found` with the content from `offset` on: nil when every byte is right. Bytes beyond the end are wrong;
  /// bytes that are missing at the end are not looked for, so compare the count too.
  public func verify(_ found: [UInt8], at offset: Int = 0) -> Mismatch? {
    guard let first = found.first else { return nil }
    guard offset >= 0, offset < length else {
      return Mismatch(offset: offset, expected: nil, found: first, cameFrom: nil)
    }
    let inside = min(found.count, length - offset)
    let wrong: Int? = unsafe found.withUnsafeBytes { found in
      unsafe withScratch { scratch in
        var done = 0
        while done < inside {
          let part = unsafe fill(scratch, from: offset + done, limit: inside - done)
          let piece = unsafe UnsafeRawBufferPointer(rebasing: found[done..<done + part.count])
          // SAFETY: both have `part.count` bytes.
          if let left = part.baseAddress, let right = piece.baseAddress,
            unsafe memcmp(left, right, part.count) != 0
          {
            return unsafe zip(part, piece).enumerated().first { $1.0 != $1.1 }.map { done + $0.offset }
          }
          done += part.count
        }
        return nil
      }
    }
    if let wrong {
      let expected = word(UInt64((offset + wrong) / 8)) >> UInt64((offset + wrong) % 8 * 8)
      return Mismatch(
        offset: offset + wrong, expected: UInt8(truncatingIfNeeded: expected), found: found[wrong],
        cameFrom: origin(of: found, at: wrong))
    }
    if inside < found.count {
      return Mismatch(offset: length, expected: nil, found: found[inside], cameFrom: origin(of: found, at: inside))
    }
    return nil
  }

  // Undoes `word` at each of the eight alignments the bytes may have; a chance hit must also lie inside the content.
  private func origin(of found: [UInt8], at index: Int) -> Int? {
    for alignment in 0..<8 where index + alignment + 8 <= found.count {
      let start = index + alignment
      let word = (0..<8).reduce(UInt64(0)) { $0 | UInt64(found[start + $1]) << UInt64($1 * 8) }
      let origin = ((word ^ mask) &- addend) &* Self.inverse(of: Self.odd)
      if origin < UInt64(length / 8) { return max(0, Int(origin) * 8 - alignment) }
    }
    return nil
  }

  // Newton's iteration for the inverse modulo 2^64: five steps double 3 right bits to 96.
  private static func inverse(of odd: UInt64) -> UInt64 {
    (0..<5).reduce(odd) { inverse, _ in inverse &* (2 &- odd &* inverse) }
  }

  /// FNV-1a, 64 bits, of the whole content.
  public var digest: FNV1a {
    var digest = FNV1a()
    unsafe withScratch { scratch in
      var done = 0
      while done < length {
        let part = unsafe fill(scratch, from: done, limit: length - done)
        unsafe digest.update(part)
        done += part.count
      }
    }
    return digest
  }

  static let scratchByteCount = 256 * 1024

  private func withScratch<Result>(_ body: (UnsafeMutableRawBufferPointer) -> Result) -> Result {
    let scratch = UnsafeMutableRawBufferPointer.allocate(
      byteCount: min(Self.scratchByteCount, (length + 8) / 64 * 64 + 64), alignment: 64)
    defer { unsafe scratch.deallocate() }
    return unsafe body(scratch)
  }

  /// Writes content from `offset` on to a 64-byte aligned scratch buffer (a multiple of 64 bytes long) and gives the
  /// part of it that begins at `offset`: at least one and at most `limit` bytes.
  func fill(
    _ scratch: UnsafeMutableRawBufferPointer, from offset: Int, limit: Int
  ) -> UnsafeRawBufferPointer {
    let skipped = offset % 8
    let count = min(scratch.count - skipped, limit)
    let rowCount = (skipped + count + 63) / 64
    var value = UInt64(offset / 8) &* Self.odd &+ addend
    let (odd, mask) = (Self.odd, mask)
    // SAFETY: `rowCount` × 64 is at most the scratch buffer's size, whose alignment is more than a word's.
    unsafe scratch.withMemoryRebound(to: UInt64.self) { words in
      guard var row = words.baseAddress else { return }
      let end = unsafe row + rowCount * 8
      // Unrolled by hand: debug builds, in which tests run, make 22 GB/s of this; a loop over SIMD8 made 0.7.
      while unsafe row < end {
        unsafe row[0] = value ^ mask
        value &+= odd
        unsafe row[1] = value ^ mask
        value &+= odd
        unsafe row[2] = value ^ mask
        value &+= odd
        unsafe row[3] = value ^ mask
        value &+= odd
        unsafe row[4] = value ^ mask
        value &+= odd
        unsafe row[5] = value ^ mask
        value &+= odd
        unsafe row[6] = value ^ mask
        value &+= odd
        unsafe row[7] = value ^ mask
        value &+= odd
        unsafe row += 8
      }
    }
    return unsafe UnsafeRawBufferPointer(rebasing: scratch[skipped..<skipped + count])
  }
}

/// The 64-bit FNV-1a checksum: for noticing differences, not for security.
public struct FNV1a: Sendable, Equatable, CustomStringConvertible {
  /// The checksum so far.
  public private(set) var value: UInt64 = 0xCBF2_9CE4_8422_2325

  /// The checksum of no bytes.
  public init() {}

  /// The checksum of `bytes`.
  public init(_ bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { unsafe update($0) }
  }

  mutating func update(_ bytes: UnsafeRawBufferPointer) {
    var value = value
    guard var next = unsafe bytes.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return }
    // SAFETY: reads the `count` bytes of the buffer; a raw loop, because this runs on every body, in debug builds too.
    let end = unsafe next + bytes.count
    while unsafe next < end {
      value = unsafe (value ^ UInt64(next.pointee)) &* 0x0000_0100_0000_01B3
      unsafe next += 1
    }
    self.value = value
  }

  /// Sixteen lower-case hexadecimal digits.
  public var description: String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
