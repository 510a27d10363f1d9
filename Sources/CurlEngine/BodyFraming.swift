package import TransferCore

/// How long the response's body says it is (RFC 9112 section 6.3), and by what it ends.
package struct BodyFraming: Hashable {
  /// Body bytes announced by Content-Length or Content-Range; nil where neither does.
  package var expected: Int64?
  /// Only the end of the connection delimits the body.
  package var endsWithConnection: Bool
  /// A length or a terminator proves that the body is whole. HTTP/2 without a length has an end of the stream, but
  /// libcurl does not tell it from a reset with NO_ERROR.
  package var isVerifiable: Bool

  package enum Reading: Hashable {
    case framing(BodyFraming)
    /// RFC 9112 section 6.3 rule 5: the message's length cannot be known.
    case contradiction(String)
  }

  package static func read(_ head: ResponseHead, method: String) -> Reading {
    // RFC 9110 sections 6.4.1 and 9.3.2: these never carry content, whatever their fields say.
    if method == "HEAD" || head.status == 204 || head.status == 304 {
      return .framing(BodyFraming(expected: 0, endsWithConnection: false, isVerifiable: true))
    }
    let isChunked = head.headers.contains("Transfer-Encoding")
    let lengths = Set(
      head.headers.values("Content-Length").flatMap { $0.split(separator: ",") }
        .map { String($0).trimmingOptionalWhitespace })
    if !isChunked, lengths.count > 1 {
      return .contradiction("The response has Content-Length fields that differ.")
    }
    var expected = isChunked ? nil : lengths.first.flatMap(Int64.init)
    if !isChunked, let text = lengths.first, expected == nil || !text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      return .contradiction("The response's Content-Length is not a number.")
    }
    if head.status == 206,
      case .range(let first, let last, _)? = head.headers["Content-Range"].flatMap(ContentRange.init)
    {
      // "0-9223372036854775807/*" is good grammar, and one byte longer than a length can be.
      let (count, isTooLong) = (last - first).addingReportingOverflow(1)
      guard !isTooLong else { return .contradiction("The part's Content-Range is longer than any file.") }
      if let told = expected, told != count {
        return .contradiction("The part's Content-Range and Content-Length contradict each other.")
      }
      expected = count
    }
    let isMultiplexed = head.httpVersion.hasPrefix("2") || head.httpVersion.hasPrefix("3")
    return .framing(
      BodyFraming(
        expected: expected, endsWithConnection: !isMultiplexed && !isChunked && expected == nil,
        isVerifiable: expected != nil || isChunked))
  }
}
