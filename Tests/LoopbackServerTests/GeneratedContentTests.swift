import LoopbackServer
import Testing

@Suite struct GeneratedContentTests {
  @Test func everyRangeAgreesWithTheWhole() {
    let content = GeneratedContent(length: 600_001, seed: 9)
    let whole = content.allBytes
    #expect(whole.count == 600_001)
    for start in [0, 1, 7, 8, 9, 63, 64, 65, 262_143, 262_144, 262_145, 599_999, 600_000] {
      for count in [0, 1, 7, 8, 9, 100, 300_000] {
        let end = min(start + count, whole.count)
        #expect(content.bytes(start..<end) == Array(whole[start..<end]))
      }
    }
    #expect(content.bytes(600_000..<700_000).count == 1)
    #expect(GeneratedContent(length: -5).allBytes.isEmpty)
    #expect(GeneratedContent(length: 0).allBytes.isEmpty)
  }

  @Test func farOffsetsNeedNoBytesBefore() {
    let content = GeneratedContent(length: 5_000_000_000_000, seed: 9)
    let far = content.bytes(4_999_999_999_900..<5_000_000_000_000)
    #expect(far.count == 100)
    #expect(content.verify(far, at: 4_999_999_999_900) == nil)
  }

  @Test func rightBytesVerify() {
    let content = GeneratedContent(length: 300_000, seed: 2)
    #expect(content.verify(content.allBytes) == nil)
    #expect(content.verify(content.bytes(12_345..<290_001), at: 12_345) == nil)
    #expect(content.verify([]) == nil)
  }

  @Test func wrongBytesAreFoundAndTheirOriginNamed() throws {
    let content = GeneratedContent(length: 300_000, seed: 2)
    let whole = content.allBytes
    // The whole appended to a part: what a client gets that does not notice a 200.
    let appended = Array(whole[..<1000]) + whole[..<299_000]
    let first = try #require(content.verify(appended))
    #expect(first.offset == 1000)
    #expect(first.cameFrom == 0)
    #expect(first.expected == whole[1000])
    #expect(first.description.contains("belong at offset 0"))
    // A part missing, by a count that is no multiple of eight.
    let shifted = Array(whole[..<1000]) + whole[1013...]
    let second = try #require(content.verify(shifted))
    #expect((1000...1008).contains(second.offset))
    #expect(second.cameFrom == second.offset + 13)
    // Two versions with one length.
    let other = GeneratedContent(length: 300_000, seed: 3).allBytes
    let mixed = Array(whole[..<150_000]) + other[150_000...]
    let third = try #require(content.verify(mixed))
    #expect((150_000..<150_008).contains(third.offset))
    #expect(third.cameFrom == nil)
    // One byte, and bytes beyond the end.
    var flipped = whole
    flipped[299_999] ^= 1
    #expect(content.verify(flipped)?.offset == 299_999)
    let tooLong = try #require(content.verify(whole + [0]))
    #expect(tooLong.offset == 300_000)
    #expect(tooLong.expected == nil)
    #expect(content.verify([1], at: 300_000) != nil)
    #expect(content.verify([1], at: -1) != nil)
  }

  @Test func shiftsByBlocksDifferInEveryEightBytes() {
    let content = GeneratedContent(length: 1 << 24, seed: 5)
    let whole = content.bytes(0..<65_536)
    for shift in [8, 16, 256, 2048, 4096, 65_536, 1 << 19, 1 << 20, 1 << 23] {
      let moved = content.bytes(shift..<shift + 65_536)
      var equalRun = 0
      var longestRun = 0
      for index in 0..<65_536 {
        equalRun = whole[index] == moved[index] ? equalRun + 1 : 0
        longestRun = max(longestRun, equalRun)
      }
      #expect(longestRun < 8, "shifted by \(shift)")
    }
  }

  @Test func digestsAreFNV1a() {
    #expect(FNV1a().description == "cbf29ce484222325")
    // Test vectors of the FNV reference code (Noll): "a" and "foobar".
    #expect(FNV1a(Array("a".utf8)).description == "af63dc4c8601ec8c")
    #expect(FNV1a(Array("foobar".utf8)).description == "85944171f73967e8")
    let content = GeneratedContent(length: 300_000, seed: 8)
    #expect(content.digest == FNV1a(content.allBytes))
  }
}
