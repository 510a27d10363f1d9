package import TransferCore

/// Collects the header lines of a response as libcurl hands them over, and says when the final block is in.
package struct HeaderCollector {
  package enum Step: Hashable {
    case more
    /// The blank line after a block of 1xx that only informs (RFC 9110 section 15.2).
    case interim
    /// The blank line after a block whose status is 200 or more.
    case final
    case failed(String)
  }

  package private(set) var status = 0
  package private(set) var httpVersion = ""
  package private(set) var headers = HeaderFields()
  private var bytes = 0
  private var interimCount = 0
  private var interimBytes = 0
  private var isFinal = false

  package init() {}

  /// Takes one line with its line end. Lines after the final block are trailers: they are dropped.
  package mutating func take(_ line: UnsafeRawBufferPointer) -> Step {
    if isFinal { return .more }
    // SAFETY: reads within the buffer, which libcurl keeps alive during its callback.
    var end = line.count
    while end > 0, unsafe Self.isLineEnd(line[end - 1]) { end -= 1 }
    bytes += line.count
    guard bytes <= EngineLimits.headerBytes else {
      return .failed("The response's header block is larger than \(EngineLimits.headerBytes) bytes.")
    }
    if end == 0 { return endBlock() }
    let text = unsafe UnsafeRawBufferPointer(rebasing: line[..<end])
    if unsafe Self.isStatusLine(text) { return unsafe startBlock(text) }
    return unsafe takeField(text)
  }

  /// "HTTP/" at its beginning. (`starts(with:)` walks two sequences, and is asked for each line of each answer.)
  static func isStatusLine(_ line: UnsafeRawBufferPointer) -> Bool {
    unsafe line.count >= 5 && line[0] == UInt8(ascii: "H") && line[1] == UInt8(ascii: "T")
      && line[2] == UInt8(ascii: "T") && line[3] == UInt8(ascii: "P") && line[4] == UInt8(ascii: "/")
  }

  private static func isLineEnd(_ byte: UInt8) -> Bool { byte == 0x0A || byte == 0x0D }

  private mutating func endBlock() -> Step {
    if status >= 200 {
      isFinal = true
      return .final
    }
    // RFC 9110 section 15.2: any number of 1xx answers may come first. A server could send nothing else for ever.
    interimCount += 1
    interimBytes += bytes
    bytes = 0
    guard interimCount <= EngineLimits.interimResponses, interimBytes <= EngineLimits.headerBytes else {
      return .failed("The server informed more than \(EngineLimits.interimResponses) times, or at too great a length.")
    }
    // 101 changes the protocol, and 0 is no response at all.
    return status > 101 || status == 100 ? .interim : .more
  }

  private mutating func startBlock(_ line: UnsafeRawBufferPointer) -> Step {
    let words = unsafe String(decoding: line, as: UTF8.self).split(separator: " ", maxSplits: 2)
    guard words.count >= 2, let number = Int(words[1]), (100...599).contains(number) else {
      return .failed("The response's status line is not one of HTTP.")
    }
    status = number
    httpVersion = String(words[0].dropFirst(5))
    headers = HeaderFields()
    bytes = line.count
    return .more
  }

  private mutating func takeField(_ line: UnsafeRawBufferPointer) -> Step {
    guard headers.fields.count < EngineLimits.headerFields else {
      return .failed("The response has more than \(EngineLimits.headerFields) header fields.")
    }
    // SAFETY: indices stay within the line.
    var end = line.count
    while end > 0, unsafe Self.isSpace(line[end - 1]) { end -= 1 }
    // RFC 9112 section 5.2: a folded line continues the value before it, as if by one space.
    if unsafe Self.isSpace(line[0]) {
      guard let last = headers.fields.indices.last else { return .more }
      unsafe headers.fields[last].value += " " + Self.text(line, 0, end)
      return .more
    }
    guard let colon = unsafe line.firstIndex(of: UInt8(ascii: ":")) else { return .more }
    unsafe headers.fields.append(
      HeaderField(
        name: String(decoding: line[..<colon], as: UTF8.self), value: Self.text(line, colon + 1, end)))
    return .more
  }

  private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

  /// A part of a line without the space before it (RFC 9110 OWS); that behind it was left out by the caller.
  private static func text(_ line: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> String {
    // SAFETY: as above.
    var first = start
    while first < end, unsafe isSpace(line[first]) { first += 1 }
    return first < end ? unsafe String(decoding: line[first..<end], as: UTF8.self) : ""
  }
}
