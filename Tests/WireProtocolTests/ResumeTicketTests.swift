import Testing
import TransferCore
import WireProtocol

@Suite struct ResumeTicketTests {
  static let ticket = ResumeTicket(
    token: ResumeToken(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210), received: 1_234_567)

  @Test func isReadAsItWasWritten() throws {
    let bytes = Self.ticket.bytes
    #expect(bytes.count == ResumeTicket.byteCount)
    #expect(try ResumeTicket(bytes) == Self.ticket)
    let token = Self.ticket.token
    #expect(token.description == "0123456789abcdeffedcba9876543210")
    #expect(ResumeToken(token.description) == token)
  }

  @Test func everyFlippedBitIsFound() {
    let bytes = Self.ticket.bytes
    for index in bytes.indices {
      for bit in 0..<8 {
        var damaged = bytes
        damaged[index] ^= 1 << UInt8(bit)
        #expect(throws: ResumeTicket.Fault.self) { try ResumeTicket(damaged) }
      }
    }
  }

  @Test func otherLengthsAndOthersDataAreRefusedWithTheirReason() {
    let bytes = Self.ticket.bytes
    for count in 0..<8 { #expect(throws: ResumeTicket.Fault.foreign) { try ResumeTicket(Array(bytes.prefix(count))) } }
    #expect(throws: ResumeTicket.Fault.truncated) { try ResumeTicket(Array(bytes.prefix(8))) }
    for count in 9..<bytes.count {
      #expect(throws: ResumeTicket.Fault.truncated) { try ResumeTicket(Array(bytes.prefix(count))) }
    }
    #expect(throws: ResumeTicket.Fault.truncated) { try ResumeTicket(bytes + [0]) }
    #expect(throws: ResumeTicket.Fault.foreign) { try ResumeTicket(Array("<?xml version=\"1.0\"?><plist/>".utf8)) }
    #expect(throws: ResumeTicket.Fault.foreign) {
      try ResumeTicket(Array("bplist00".utf8) + [UInt8](repeating: 0, count: 33))
    }
    var newer = bytes
    newer[8] = 2
    #expect(throws: ResumeTicket.Fault.newerVersion) { try ResumeTicket(newer) }
  }

  @Test(arguments: [
    "", "0123", "0123456789ABCDEFFEDCBA9876543210", "g123456789abcdeffedcba9876543210",
    "+1234567-89abcdeffedcba987654321",
  ])
  func otherTextsAreNoTokens(text: String) {
    #expect(ResumeToken(text) == nil)
  }
}
