import Glibc

/// What has been sent of a response.
struct Progress {
  var statusCode: Int?
  var bodyByteCount = 0
}

extension Connection {
  /// Does what the response says, and tells what becomes of the connection.
  func perform(
    _ response: Response, for head: RequestHead?, _ progress: inout Progress
  ) throws(Interruption) -> Afterwards {
    for prelude in response.preludes {
      switch prelude {
      case .hold(let gate): try pause(for: nil, gate: gate, whileClientStays: true)
      case .delay(let duration): try pause(for: duration, gate: nil, whileClientStays: true)
      case .informational(let code, let headers):
        if head?.minorVersion == 0 { continue }
        let reason = ResolvedResponse.reason(for: code)
        try send(ResolvedResponse.headBytes(statusCode: code, reason: reason, headers: headers))
      }
    }
    if let raw = response.raw {
      var transmission = BodyTransmission(
        content: .bytes(raw), range: 0..<raw.count, chunkByteCount: nil, marks: response.marks,
        throttle: response.throttle, head: [])
      try transmission.run(on: self, &progress)
      throw Interruption(end: .unanswered, afterwards: .close)
    }
    let resolved = ResolvedResponse(response, for: head)
    progress.statusCode = resolved.statusCode
    var chunkByteCount: Int?
    var isTerminated = false
    if resolved.sendsBody, case .chunked(let byteCount, let terminated) = resolved.framing {
      chunkByteCount = byteCount
      isTerminated = terminated
    }
    var transmission = BodyTransmission(
      content: response.content, range: resolved.sendsBody ? resolved.range : resolved.range.prefixOfNothing,
      chunkByteCount: chunkByteCount, marks: response.marks, throttle: response.throttle,
      head: resolved.headBytes(reason: response.reason))
    try transmission.run(on: self, &progress)
    try transmission.finish(on: self, terminator: isTerminated)
    return resolved.endsConnection ? .close : .nextRequest
  }

  func send(_ bytes: [UInt8]) throws(Interruption) {
    guard !bytes.isEmpty else { return }
    let failed = unsafe bytes.withUnsafeBytes { unsafe sendFails($0) }
    if failed { throw departure }
  }

  // A result instead of an error, because closures of the standard library do not carry typed errors.
  fileprivate func sendFails(_ bytes: UnsafeRawBufferPointer) -> Bool {
    do throws(SocketFailure) {
      unsafe try socket.send(bytes)
      return false
    } catch {
      return true
    }
  }

  /// Waits until the peer's kernel has all that was sent: a reset throws away what is still in our send buffer.
  fileprivate func settle() throws(Interruption) {
    let deadline = ContinuousClock.now.advanced(by: .seconds(2))
    // The kernel has no event for "all acknowledged"; on the loopback device this is true at once or after a moment.
    while socket.unacknowledgedByteCount > 0 && ContinuousClock.now < deadline {
      try pause(for: .milliseconds(1), gate: nil)
    }
  }
}

/// The body on its way: marks, throttle and chunks.
private struct BodyTransmission {
  let content: Response.Content
  let range: Range<Int>
  let chunkByteCount: Int?
  let marks: [(position: Int, mark: Response.Mark)]
  let throttle: (byteCount: Int, interval: Duration)?
  /// Bytes to send before, or together with, the next part of the body.
  private var pending: [UInt8]
  private var position = 0
  private var nextMark = 0
  private var window: Int
  private var block: Block?

  init(
    content: Response.Content, range: Range<Int>, chunkByteCount: Int?,
    marks: [(position: Int, mark: Response.Mark)], throttle: (byteCount: Int, interval: Duration)?, head: [UInt8]
  ) {
    self.content = content
    self.range = range
    self.chunkByteCount = chunkByteCount
    self.marks = marks
    self.throttle = throttle
    pending = head
    window = throttle?.byteCount ?? .max
  }

  mutating func run(on connection: Connection, _ progress: inout Progress) throws(Interruption) {
    while true {
      try passMarks(on: connection)
      guard position < range.count else { return }
      if let throttle, window == 0 {
        try flush(on: connection)
        try connection.pause(for: throttle.interval, gate: nil, whileClientStays: true)
        window = throttle.byteCount
      }
      var count = min(range.count - position, window, chunkByteCount ?? .max)
      if nextMark < marks.count { count = min(count, marks[nextMark].position - position) }
      count = try sendPart(limit: count, on: connection)
      position += count
      window -= count
      progress.bodyByteCount = position
    }
  }

  mutating func finish(on connection: Connection, terminator: Bool) throws(Interruption) {
    if terminator { pending += "0\r\n\r\n".utf8 }
    try flush(on: connection)
  }

  private mutating func flush(on connection: Connection) throws(Interruption) {
    try connection.send(pending)
    pending.removeAll(keepingCapacity: true)
  }

  private mutating func passMarks(on connection: Connection) throws(Interruption) {
    while nextMark < marks.count, marks[nextMark].position <= position {
      let mark = marks[nextMark].mark
      nextMark += 1
      try flush(on: connection)
      switch mark {
      case .cut: throw Interruption(end: .cut, afterwards: .close)
      case .reset:
        try connection.settle()
        throw Interruption(end: .reset, afterwards: .reset)
      case .stall(let gate): try connection.pause(for: nil, gate: gate, whileClientStays: true)
      case .call(let hook): hook()
      }
    }
  }

  // At least one byte, at most `limit`.
  private mutating func sendPart(limit: Int, on connection: Connection) throws(Interruption) -> Int {
    switch content {
    case .bytes(let bytes):
      let start = range.lowerBound + position
      let count = min(limit, bytes.count - start)
      // SAFETY: the range was clamped to the content, so `start + count` is within the array.
      let failed = unsafe bytes.withUnsafeBytes {
        unsafe sendFails(UnsafeRawBufferPointer(rebasing: $0[start..<start + count]), on: connection)
      }
      if failed { throw connection.departure }
      return count
    case .generated(let generated):
      let block = block ?? Block(byteCount: min(GeneratedContent.scratchByteCount, (range.count + 135) / 64 * 64))
      self.block = block
      let part = unsafe generated.fill(block.bytes, from: range.lowerBound + position, limit: limit)
      if unsafe sendFails(part, on: connection) { throw connection.departure }
      return part.count
    }
  }

  // Small parts travel with what is before them in one packet, large ones are not copied.
  private mutating func sendFails(_ part: UnsafeRawBufferPointer, on connection: Connection) -> Bool {
    if chunkByteCount != nil { pending += "\(String(part.count, radix: 16))\r\n".utf8 }
    let isSmall = part.count <= 16 * 1024
    if isSmall { unsafe pending.append(contentsOf: part) }
    if isSmall && chunkByteCount != nil { pending += "\r\n".utf8 }
    if !pending.isEmpty {
      if unsafe pending.withUnsafeBytes({ unsafe connection.sendFails($0) }) { return true }
      pending.removeAll(keepingCapacity: true)
    }
    if isSmall { return false }
    if chunkByteCount != nil { pending += "\r\n".utf8 }
    return unsafe connection.sendFails(part)
  }
}

/// Aligned memory to generate content in.
@safe
private final class Block {
  let bytes: UnsafeMutableRawBufferPointer
  init(byteCount: Int) { unsafe bytes = .allocate(byteCount: byteCount, alignment: 64) }
  deinit { unsafe bytes.deallocate() }
}

extension Range<Int> {
  fileprivate var prefixOfNothing: Range<Int> { lowerBound..<lowerBound }
}
