import Glibc

/// Why a request could not be read.
enum ReadFailure: Error {
  case socket(SocketFailure)
  /// The client ended its stream in the middle.
  case truncated
  /// Not HTTP/1, or more than we take: the status to answer with and the reason in words.
  case malformed(Int, String)
}

/// Where the body of a request ends, and how much of it is still to come.
struct RequestBody {
  enum Framing: Equatable { case none, length, chunked }
  var framing = Framing.none
  /// Bytes to come of the body or of the current chunk.
  fileprivate(set) var remaining = 0
  fileprivate(set) var isComplete = true

  /// RFC 9112, 6.3, with its strict choice where it leaves one.
  init(_ headers: HeaderFields) throws(ReadFailure) {
    let codings = headers.values("Transfer-Encoding")
    if !codings.isEmpty {
      guard codings.count == 1, codings[0].equalsIgnoringASCIICase("chunked") else {
        throw .malformed(501, "this server understands no transfer coding but chunked")
      }
      framing = .chunked
      isComplete = false
      return
    }
    let lengths = headers.values("Content-Length")
    guard let first = lengths.first else { return }
    guard lengths.allSatisfy({ $0 == first }), let length = first.decimalClamped, length < Int.max else {
      throw .malformed(400, "Content-Length is no single number")
    }
    framing = .length
    remaining = length
    isComplete = length == 0
  }
}

/// Takes requests apart as they come from a socket. Every count in it is bounded.
struct RequestReader {
  private let socket: StreamSocket
  private var buffer = [UInt8](repeating: 0, count: 32 * 1024)
  private var start = 0
  private var end = 0

  init(_ socket: StreamSocket) { self.socket = socket }

  // False at the end of the stream. `limit` bounds what is taken from the kernel, so that a throttle is one.
  private mutating func refill(limit: Int = .max) throws(ReadFailure) -> Bool {
    start = 0
    end = 0
    var failure: SocketFailure?
    let socket = socket
    let count = unsafe buffer.withUnsafeMutableBytes { bytes -> Int in
      let room = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[..<min(bytes.count, max(1, limit))])
      do throws(SocketFailure) {
        return unsafe try socket.receive(into: room)
      } catch {
        failure = error
        return 0
      }
    }
    if let failure { throw .socket(failure) }
    end = count
    return count > 0
  }

  /// A line without its CRLF (a lone LF ends one too, RFC 9112, 2.2); nil at the end of the stream before any byte.
  private mutating func line(
    budget: inout Int, tooLong: ReadFailure = .malformed(431, "the request's head is too long for this server")
  ) throws(ReadFailure) -> [UInt8]? {
    var line: [UInt8] = []
    while true {
      if start == end {
        if try !refill() {
          if line.isEmpty { return nil }
          throw .truncated
        }
      }
      let newline = buffer[start..<end].firstIndex(of: 0x0A)
      line += buffer[start..<(newline ?? end)]
      budget -= (newline ?? end) - start + (newline == nil ? 0 : 1)
      start = newline.map { $0 + 1 } ?? end
      if budget < 0 { throw tooLong }
      if newline != nil {
        if line.last == 0x0D { line.removeLast() }
        return line
      }
    }
  }

  /// The next request's head; nil when the client ended the connection between two requests.
  mutating func head(
    limit: Int, connectionNumber: Int, requestNumber: Int
  ) throws(ReadFailure) -> RequestHead? {
    var budget = limit
    guard var first = try line(budget: &budget) else { return nil }
    // RFC 9112, 2.2: empty lines before the request line are skipped.
    while first.isEmpty {
      guard let next = try line(budget: &budget) else { return nil }
      first = next
    }
    let (method, target, minorVersion) = try Self.requestLine(first)
    var headers = HeaderFields()
    while true {
      guard let line = try line(budget: &budget) else { throw .truncated }
      if line.isEmpty { break }
      let (name, value) = try Self.field(line)
      headers.append(name, value)
    }
    return RequestHead(
      method: method, target: target, minorVersion: minorVersion, headers: headers,
      connectionNumber: connectionNumber, requestNumber: requestNumber)
  }

  private static func requestLine(_ line: [UInt8]) throws(ReadFailure) -> (String, String, Int) {
    let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
    guard parts.count == 3, !parts[0].isEmpty, parts[0].allSatisfy(isToken), !parts[1].isEmpty,
      parts[1].allSatisfy({ $0 > 0x20 && $0 != 0x7F })
    else { throw .malformed(400, "the first line is not METHOD TARGET HTTP/1.1") }
    let minorVersion: Int
    switch String(decoding: parts[2], as: UTF8.self) {
    case "HTTP/1.1": minorVersion = 1
    case "HTTP/1.0": minorVersion = 0
    case let version where version.hasPrefix("HTTP/"): throw .malformed(505, "this server speaks HTTP/1.1")
    default: throw .malformed(400, "the first line is not METHOD TARGET HTTP/1.1")
    }
    return (String(decoding: parts[0], as: UTF8.self), String(decoding: parts[1], as: UTF8.self), minorVersion)
  }

  // RFC 9112, 5: no blank before the colon, no folded lines, no control bytes.
  private static func field(_ line: [UInt8]) throws(ReadFailure) -> (String, String) {
    guard let colon = line.firstIndex(of: 0x3A), colon > 0, line[..<colon].allSatisfy(isToken),
      line[colon...].allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 })
    else { throw .malformed(400, "a header field is not NAME: VALUE") }
    let value = String(decoding: line[(colon + 1)...], as: UTF8.self)
    return (String(decoding: line[..<colon], as: UTF8.self), String(value.trimmingBlanks))
  }

  // RFC 9110, 5.6.2.
  private static func isToken(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: Array("!#$%&'*+-.^_`|~".utf8).contains(byte)
    }
  }

  /// Gives `sink` the next bytes of the body, at least one and at most `limit`, and their count; 0 at its end.
  mutating func bodyPart(
    _ body: inout RequestBody, limit: Int, sink: (UnsafeRawBufferPointer) -> Void
  ) throws(ReadFailure) -> Int {
    if body.isComplete { return 0 }
    if body.framing == .chunked && body.remaining == 0 {
      try beginChunk(&body)
      if body.isComplete { return 0 }
    }
    if start == end, try !refill(limit: limit) { throw .truncated }
    let count = min(max(1, limit), body.remaining, end - start)
    let from = start
    // SAFETY: `from + count` is at most `end`, which is within the buffer.
    unsafe buffer.withUnsafeBytes { unsafe sink(UnsafeRawBufferPointer(rebasing: $0[from..<from + count])) }
    start += count
    body.remaining -= count
    if body.remaining == 0 {
      switch body.framing {
      case .none, .length: body.isComplete = true
      case .chunked: try endChunk()
      }
    }
    return count
  }

  // RFC 9112, 7.1.
  private mutating func beginChunk(_ body: inout RequestBody) throws(ReadFailure) {
    var budget = 4096
    let tooLong = ReadFailure.malformed(400, "a chunk's first line is too long")
    guard let line = try line(budget: &budget, tooLong: tooLong) else { throw .truncated }
    let digits = line.prefix { $0.hexDigitValue != nil }
    let rest = line[digits.endIndex...].drop { $0 == 0x20 || $0 == 0x09 }
    guard (1...15).contains(digits.count), rest.isEmpty || rest.first == UInt8(ascii: ";") else {
      throw .malformed(400, "a chunk has no size")
    }
    body.remaining = digits.reduce(0) { $0 << 4 | Int($1.hexDigitValue ?? 0) }
    guard body.remaining == 0 else { return }
    var trailerBudget = 16 * 1024
    repeat {
      guard let trailer = try self.line(budget: &trailerBudget) else { throw .truncated }
      if trailer.isEmpty { break }
    } while true
    body.isComplete = true
  }

  private mutating func endChunk() throws(ReadFailure) {
    let tooLong = ReadFailure.malformed(400, "a chunk is longer than its size")
    var budget = 2
    guard let rest = try line(budget: &budget, tooLong: tooLong) else { throw .truncated }
    guard rest.isEmpty else { throw tooLong }
  }
}
