/// JSON text of one message, written straight into bytes.
///
/// Each change of a task is told to whoever follows it. Through JSONEncoder, which builds a tree of boxed values first,
/// that was most of the daemon's work at thousands of small files a second (docs/internals/Performance.md). What is
/// told rarely still goes that way; what is told for each task writes itself (``LineWritable``).
struct LineText {
  private(set) var bytes: [UInt8] = []

  init(capacity: Int) { bytes.reserveCapacity(capacity) }

  mutating func append(_ literal: StaticString) {
    literal.withUTF8Buffer { unsafe bytes.append(contentsOf: $0) }
  }

  mutating func append(raw: some Sequence<UInt8>) { bytes.append(contentsOf: raw) }

  // MARK: Values

  mutating func object(_ members: (inout LineText) -> Void) {
    bytes.append(UInt8(ascii: "{"))
    members(&self)
    bytes.append(UInt8(ascii: "}"))
  }

  mutating func list<Element>(_ elements: [Element], _ write: (inout LineText, Element) -> Void) {
    bytes.append(UInt8(ascii: "["))
    var isFirst = true
    for element in elements {
      if !isFirst { bytes.append(UInt8(ascii: ",")) }
      isFirst = false
      write(&self, element)
    }
    bytes.append(UInt8(ascii: "]"))
  }

  mutating func value(_ value: Int64) {
    var left = value.magnitude
    if value < 0 { bytes.append(UInt8(ascii: "-")) }
    if left < 10 { return bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: left)) }
    var place = bytes.count + Self.digits(of: left)
    bytes.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: place - bytes.count))
    while left > 0 {
      let (quotient, digit) = left.quotientAndRemainder(dividingBy: 10)
      place -= 1
      bytes[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: digit)
      left = quotient
    }
  }

  private static func digits(of value: UInt64) -> Int {
    var count = 1
    var left = value / 10
    while left > 0 {
      count += 1
      left /= 10
    }
    return count
  }

  mutating func value(_ value: Bool) { value ? append("true") : append("false") }

  /// A number that JSON cannot write becomes a text, and is refused at the other end with the member's name.
  mutating func value(_ value: Double) {
    guard value.isFinite else { return self.value(value.isNaN ? "nan" : value < 0 ? "-inf" : "inf") }
    if let whole = Int64(exactly: value) { return self.value(whole) }
    bytes.append(contentsOf: value.description.utf8)
  }

  /// RFC 8259 section 7.
  mutating func value(_ value: String) {
    bytes.append(UInt8(ascii: "\""))
    var text = value
    let wasClean = text.withUTF8 { utf8 in
      guard unsafe utf8.allSatisfy({ $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }) else {
        return false
      }
      unsafe bytes.append(contentsOf: utf8)
      return true
    }
    if !wasClean { for byte in value.utf8 { escape(byte) } }
    bytes.append(UInt8(ascii: "\""))
  }

  private mutating func escape(_ byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""): append("\\\"")
    case UInt8(ascii: "\\"): append("\\\\")
    case 0x0A: append("\\n")
    case 0x0D: append("\\r")
    case 0x09: append("\\t")
    case 0..<0x20:
      append("\\u00")
      for digit in [byte >> 4, byte & 15] { bytes.append(digit < 10 ? 0x30 + digit : 0x57 + digit) }
    default: bytes.append(byte)
    }
  }

  // MARK: Members

  /// A member's name; its value must follow.
  mutating func name(_ name: StaticString) {
    if bytes.last != UInt8(ascii: "{") { bytes.append(UInt8(ascii: ",")) }
    bytes.append(UInt8(ascii: "\""))
    append(name)
    bytes.append(UInt8(ascii: "\""))
    bytes.append(UInt8(ascii: ":"))
  }

  mutating func member(_ name: StaticString, _ value: Int64) {
    self.name(name)
    self.value(value)
  }

  mutating func member(_ name: StaticString, _ value: Bool) {
    self.name(name)
    self.value(value)
  }

  mutating func member(_ name: StaticString, _ value: Double) {
    self.name(name)
    self.value(value)
  }

  mutating func member(_ name: StaticString, _ value: String) {
    self.name(name)
    self.value(value)
  }

  mutating func member(_ name: StaticString, _ value: some LineWritable) {
    self.name(name)
    value.write(to: &self)
  }

  // An absent member is left out.
  mutating func member(_ name: StaticString, _ value: Int64?) { if let value { member(name, value) } }
  mutating func member(_ name: StaticString, _ value: Double?) { if let value { member(name, value) } }
  mutating func member(_ name: StaticString, _ value: Bool?) { if let value { member(name, value) } }
  mutating func member(_ name: StaticString, _ value: String?) { if let value { member(name, value) } }
  mutating func member(_ name: StaticString, _ value: (some LineWritable)?) { if let value { member(name, value) } }
}

/// A message, or a part of one, that writes its own JSON: the same as its `Encodable` conformance, which the tests
/// compare.
protocol LineWritable {
  func write(to line: inout LineText)
}

extension EmptyResult: LineWritable {
  func write(to line: inout LineText) { line.object { _ in } }
}

extension TaskEnqueueResult: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.name("tasks")
      line.list(tasks) { $1.write(to: &$0) }
    }
  }
}

extension EnqueuedTask: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("id", id)
      line.member("number", number)
      line.member("existed", existed)
      line.member("pin", pin)
      line.member("error", error)
    }
  }
}

extension WireError: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("name", name.rawValue)
      line.member("message", message)
    }
  }
}

extension TaskIdentifiersResult: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.name("ids")
      line.list(ids) { $0.value($1) }
      line.name("unknown")
      line.list(unknown) { $0.value($1) }
      if let kept {
        line.name("kept")
        line.list(kept) { $1.write(to: &$0) }
      }
    }
  }
}

extension WireKeptPart: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("id", id)
      line.member("resumeToken", resumeToken)
      line.member("received", received)
    }
  }
}

extension TaskListResult: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.name("tasks")
      line.list(tasks) { $1.write(to: &$0) }
      line.member("next", next)
    }
  }
}

extension TaskSnapshot: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("id", id)
      line.member("session", session)
      line.member("app", app)
      line.member("sessionID", sessionID)
      line.member("number", number)
      line.member("kind", kind)
      line.member("state", state)
      line.member("reason", reason)
      line.member("method", method)
      line.member("url", url)
      line.member("currentURL", currentURL)
      if let headers {
        line.name("headers")
        line.list(headers) { $1.write(to: &$0) }
      }
      line.member("received", received)
      line.member("expected", expected)
      line.member("sent", sent)
      line.member("expectedToSend", expectedToSend)
      line.member("file", file)
      line.member("body", body)
      line.member("response", response)
      line.member("error", error)
      line.member("attempts", attempts)
      line.member("description", description)
      line.member("priority", priority)
      line.member("sha256", sha256)
      line.member("isLengthVerified", isLengthVerified)
      line.member("validator", validator)
      line.member("wasted", wasted)
      line.member("pin", pin)
      line.member("createdMilliseconds", createdMilliseconds)
      line.member("finishedMilliseconds", finishedMilliseconds)
      line.member("nextAttemptMilliseconds", nextAttemptMilliseconds)
      line.member("cancelCause", cancelCause)
      line.member("expiresMilliseconds", expiresMilliseconds)
      line.member("resumeToken", resumeToken)
      line.member("metrics", metrics)
      line.member("isDiscretionary", isDiscretionary)
      if let requires {
        line.name("requires")
        line.list(requires) { $0.value($1) }
      }
      line.member("earliestBeginMilliseconds", earliestBeginMilliseconds)
      line.member("clientExpectsToSend", clientExpectsToSend)
      line.member("clientExpectsToReceive", clientExpectsToReceive)
      if let blockers {
        line.name("blockers")
        line.list(blockers) { $1.write(to: &$0) }
      }
      line.member("question", question)
    }
  }
}

extension WireResponse: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("status", Int64(status))
      line.name("headers")
      line.list(headers) { $1.write(to: &$0) }
      line.member("url", url)
      line.member("httpVersion", httpVersion)
    }
  }
}

extension WireHeader: LineWritable {
  func write(to line: inout LineText) {
    line.append("[")
    line.value(name)
    line.append(",")
    line.value(value)
    line.append("]")
  }
}

extension WireFailure: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("code", code)
      line.member("isTransient", isTransient)
      line.member("domain", domain)
      line.member("number", Int64(number))
      line.member("detail", detail)
    }
  }
}

extension DaemonNotification: LineWritable {
  /// The notification's `params`.
  func write(to line: inout LineText) {
    line.object { line in
      switch self {
      case .taskProgress(let notice):
        line.member("id", notice.id)
        line.member("received", notice.received)
        line.member("expected", notice.expected)
        line.member("sent", notice.sent)
      case .taskState(let notice): line.member("task", notice.task)
      case .taskResumed(let notice):
        line.member("id", notice.id)
        line.member("offset", notice.offset)
        line.member("expected", notice.expected)
      case .taskResponse(let notice):
        line.member("id", notice.id)
        line.member("response", notice.response)
      case .taskData(let notice):
        line.member("id", notice.id)
        line.member("bytes", notice.bytes)
      case .taskRemoved(let notice): line.member("id", notice.id)
      case .taskQuestion(let notice): line.member("task", notice.task)
      case .delivery(let notice):
        line.member("session", notice.session)
        line.member("number", notice.number)
        line.member("kind", notice.kind)
        line.member("task", notice.task)
      case .sessionEnded(let notice): line.member("session", notice.session)
      case .goodbye(let notice): line.member("reason", notice.reason)
      case .appWake(let notice):
        line.member("app", notice.app)
        line.member("session", notice.session)
        line.member("launch", notice.launch)
        line.member("reason", notice.reason)
      }
    }
  }
}

extension ClientRequest {
  /// What is asked by the ten thousand writes itself.
  var quickParameters: (any LineWritable)? {
    if case .deliveryAcknowledge(let parameters) = self { parameters } else { nil }
  }
}

extension DeliveryAcknowledgeParameters: LineWritable {
  func write(to line: inout LineText) {
    line.object { line in
      line.member("session", session)
      line.name("numbers")
      line.list(numbers) { $0.value($1) }
    }
  }
}
