package import TransferCore

/// How long the response's body says it is (RFC 9112 section 6.3), and by what it ends.
package struct BodyFraming: Hashable {
  /// What ends a body on its connection.
  package enum Delimiter: Hashable {
    /// So many bytes, and nothing else between them: Content-Length, or none at all.
    case length
    /// Transfer-Encoding: among the body's bytes are some of its coding's.
    case chunks
    /// HTTP/2's frames.
    case stream
    case connection
  }

  /// Body bytes announced by Content-Length or Content-Range; nil where neither does.
  package var expected: Int64?
  /// Not the same as whether `expected` is known: Content-Range tells that also of a body in chunks.
  package var delimiter: Delimiter
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
      return .framing(BodyFraming(expected: 0, delimiter: .length, isVerifiable: true))
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
    let isMultiplexed = head.httpVersion.hasPrefix("2") || head.httpVersion.hasPrefix("3")
    let delimiter: Delimiter = isChunked ? .chunks : expected != nil ? .length : isMultiplexed ? .stream : .connection
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
    return .framing(
      BodyFraming(expected: expected, delimiter: delimiter, isVerifiable: expected != nil || isChunked))
  }
}

extension ResponseHead {
  /// The server closes the connection after this response in any case (RFC 9112 section 9.3).
  var endsConnection: Bool {
    httpVersion == "1.0"
      || headers.values("Connection").contains { $0.asciiLowercased.contains("close") }
  }
}
