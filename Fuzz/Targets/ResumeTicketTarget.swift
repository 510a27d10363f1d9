import TransferCore
import WireProtocol

/// Resume data went through a program's hands: it is read as it was made, or refused.
enum ResumeTicketTarget {
  static func run(_ bytes: [UInt8]) throws {
    try read(bytes)
    // A fuzzer hardly guesses a checksum: its bytes as the ones in the middle, too.
    var source = ByteSource(bytes)
    let made = ResumeTicket(
      token: ResumeToken(high: source.word(), low: source.word()), received: source.integer() & .max)
    try require(try ResumeTicket(made.bytes) == made, "a ticket is not read as it was made")
    var damaged = made.bytes
    let place = Int(source.byte()) % damaged.count
    let change = source.byte()
    damaged[place] ^= change
    if change != 0 { try require((try? ResumeTicket(damaged)) == nil, "a damaged ticket is taken") }
    let text = made.token.description
    try require(ResumeToken(text) == made.token, "a token is not read as it was written")
  }

  private static func read(_ bytes: [UInt8]) throws {
    guard let ticket = try? ResumeTicket(bytes) else { return }
    try require(ticket.bytes == bytes, "two texts are one ticket")
    try require(ticket.received >= 0, "a ticket of fewer than no bytes")
  }
}
