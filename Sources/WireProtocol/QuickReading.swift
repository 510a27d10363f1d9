import FoundationEssentials

/// The messages that ``LineReader`` knows. Nil: the general decoder is to look at it.
extension WireCoding {
  package static func quickRequest(_ line: ArraySlice<UInt8>) -> IncomingRequest? {
    var reader = LineReader(line)
    do throws(LineReader.GaveUp) {
      let request = try reader.request()
      try reader.end()
      return request
    } catch {
      return nil
    }
  }

  package static func quickMessage(_ line: ArraySlice<UInt8>) -> IncomingMessage? {
    var reader = LineReader(line)
    do throws(LineReader.GaveUp) {
      let message = try reader.message()
      try reader.end()
      switch message {
      case .notification(let notification): return .notification(notification)
      case .empty(let id): return .result(id: id, line: emptyResult)
      }
    } catch {
      return nil
    }
  }

  /// Stands for every reply that says nothing but "done".
  static let emptyResult = Data("{\"result\":{}}".utf8)
}

extension LineReader {
  // MARK: Envelopes

  mutating func request() throws(GaveUp) -> WireCoding.IncomingRequest {
    var members = Members()
    var id: Int64?
    var method = ""
    var request: ClientRequest?
    while try next(&members) {
      if try isMember(&members, "jsonrpc", 1) {
        guard try text() == "2.0" else { throw GaveUp() }
      } else if try isMember(&members, "id", 2) {
        id = try optional { reader throws(GaveUp) in try reader.integer() }
      } else if try isMember(&members, "method", 4) {
        method = try text()
      } else if try isMember(&members, "params", 8) {
        switch method {
        case "delivery.acknowledge": request = .deliveryAcknowledge(try acknowledgement())
        case "task.enqueue": request = .taskEnqueue(try batch())
        default: throw GaveUp()
        }
      } else {
        throw GaveUp()
      }
    }
    guard members.has(13), let request else { throw GaveUp() }
    return WireCoding.IncomingRequest(id: id, request: request)
  }

  enum Message {
    case notification(DaemonNotification)
    /// The reply to this request, without content.
    case empty(Int64)
  }

  mutating func message() throws(GaveUp) -> Message {
    var members = Members()
    var id: Int64 = 0
    var method = ""
    var notification: DaemonNotification?
    while try next(&members) {
      if try isMember(&members, "jsonrpc", 1) {
        guard try text() == "2.0" else { throw GaveUp() }
      } else if try isMember(&members, "method", 2) {
        method = try text()
      } else if try isMember(&members, "params", 4) {
        notification = try parameters(of: method)
      } else if try isMember(&members, "id", 8) {
        id = try integer()
      } else if try isMember(&members, "result", 16) {
        var inner = Members()
        if try next(&inner) { throw GaveUp() }
      } else {
        throw GaveUp()
      }
    }
    if members.has(1 | 2 | 4), !members.has(8), !members.has(16), let notification {
      return .notification(notification)
    }
    guard members.has(1 | 8 | 16), !members.has(2), !members.has(4) else { throw GaveUp() }
    return .empty(id)
  }

  private mutating func parameters(of method: String) throws(GaveUp) -> DaemonNotification {
    switch method {
    case DaemonNotification.Name.delivery.rawValue: return .delivery(try delivery())
    case DaemonNotification.Name.taskState.rawValue:
      var members = Members()
      var task: TaskSnapshot?
      while try next(&members) {
        guard try isMember(&members, "task", 1) else { throw GaveUp() }
        task = try snapshot()
      }
      guard let task else { throw GaveUp() }
      return .taskState(TaskStateNotice(task: task))
    case DaemonNotification.Name.taskProgress.rawValue: return .taskProgress(try progress())
    default: throw GaveUp()
    }
  }

  // MARK: Notifications

  private mutating func progress() throws(GaveUp) -> TaskProgressNotice {
    var members = Members()
    var notice = TaskProgressNotice(id: 0, received: 0, expected: nil, sent: 0)
    while try next(&members) {
      if try isMember(&members, "id", 1) {
        notice.id = try integer()
      } else if try isMember(&members, "received", 2) {
        notice.received = try integer()
      } else if try isMember(&members, "sent", 4) {
        notice.sent = try integer()
      } else if try isMember(&members, "expected", 8) {
        notice.expected = try optionalInteger()
      } else {
        throw GaveUp()
      }
    }
    guard members.has(7) else { throw GaveUp() }
    return notice
  }

  private mutating func delivery() throws(GaveUp) -> DeliveryNotice {
    var members = Members()
    var notice = DeliveryNotice(session: 0, number: 0, kind: "", task: nil)
    while try next(&members) {
      if try isMember(&members, "session", 1) {
        notice.session = try integer()
      } else if try isMember(&members, "number", 2) {
        notice.number = try integer()
      } else if try isMember(&members, "kind", 4) {
        notice.kind = try text()
      } else if try isMember(&members, "task", 8) {
        notice.task = try optional { reader throws(GaveUp) in try reader.snapshot() }
      } else {
        throw GaveUp()
      }
    }
    guard members.has(7) else { throw GaveUp() }
    return notice
  }

  mutating func snapshot() throws(GaveUp) -> TaskSnapshot {
    var members = Members()
    var task = TaskSnapshot(
      id: 0, session: "", app: "", sessionID: 0, number: 0, kind: "", state: "", method: "", url: "", received: 0,
      sent: 0, attempts: 0, priority: 0, createdMilliseconds: 0)
    while try next(&members) {
      if try readRequired(&task, &members) { continue }
      if try readOptional(&task, &members) { continue }
      throw GaveUp()
    }
    // The first fourteen.
    guard members.has((1 << 14) - 1) else { throw GaveUp() }
    return task
  }

  private mutating func readRequired(
    _ task: inout TaskSnapshot, _ members: inout Members
  ) throws(GaveUp) -> Bool {
    if try isMember(&members, "id", 1 << 0) {
      task.id = try integer()
    } else if try isMember(&members, "session", 1 << 1) {
      task.session = try text()
    } else if try isMember(&members, "app", 1 << 2) {
      task.app = try text()
    } else if try isMember(&members, "sessionID", 1 << 3) {
      task.sessionID = try integer()
    } else if try isMember(&members, "number", 1 << 4) {
      task.number = try integer()
    } else if try isMember(&members, "kind", 1 << 5) {
      task.kind = try text()
    } else if try isMember(&members, "state", 1 << 6) {
      task.state = try text()
    } else if try isMember(&members, "method", 1 << 7) {
      task.method = try text()
    } else if try isMember(&members, "url", 1 << 8) {
      task.url = try text()
    } else if try isMember(&members, "received", 1 << 9) {
      task.received = try integer()
    } else if try isMember(&members, "sent", 1 << 10) {
      task.sent = try integer()
    } else if try isMember(&members, "attempts", 1 << 11) {
      task.attempts = try integer()
    } else if try isMember(&members, "priority", 1 << 12) {
      task.priority = try double()
    } else if try isMember(&members, "createdMilliseconds", 1 << 13) {
      task.createdMilliseconds = try integer()
    } else {
      return false
    }
    return true
  }

  private mutating func readOptional(
    _ task: inout TaskSnapshot, _ members: inout Members
  ) throws(GaveUp) -> Bool {
    if try isMember(&members, "expected", 1 << 14) {
      task.expected = try optionalInteger()
    } else if try isMember(&members, "response", 1 << 15) {
      task.response = try optional { reader throws(GaveUp) in try reader.response() }
    } else if try isMember(&members, "file", 1 << 16) {
      task.file = try optionalText()
    } else if try isMember(&members, "finishedMilliseconds", 1 << 17) {
      task.finishedMilliseconds = try optionalInteger()
    } else if try isMember(&members, "currentURL", 1 << 18) {
      task.currentURL = try optionalText()
    } else if try isMember(&members, "validator", 1 << 19) {
      task.validator = try optionalText()
    } else if try isMember(&members, "reason", 1 << 20) {
      task.reason = try optionalText()
    } else if try isMember(&members, "description", 1 << 21) {
      task.description = try optionalText()
    } else if try isMember(&members, "sha256", 1 << 22) {
      task.sha256 = try optionalText()
    } else if try isMember(&members, "isLengthVerified", 1 << 23) {
      task.isLengthVerified = try optional { reader throws(GaveUp) in try reader.bool() }
    } else if try isMember(&members, "wasted", 1 << 24) {
      task.wasted = try optionalInteger()
    } else if try isMember(&members, "pin", 1 << 25) {
      task.pin = try optionalText()
    } else if try isMember(&members, "body", 1 << 26) {
      task.body = try optionalText()
    } else if try isMember(&members, "expectedToSend", 1 << 27) {
      task.expectedToSend = try optionalInteger()
    } else if try isMember(&members, "nextAttemptMilliseconds", 1 << 28) {
      task.nextAttemptMilliseconds = try optionalInteger()
    } else {
      return false
    }
    return true
  }

  private mutating func response() throws(GaveUp) -> WireResponse {
    var members = Members()
    var response = WireResponse(status: 0, headers: [], url: "", httpVersion: "")
    while try next(&members) {
      if try isMember(&members, "status", 1) {
        response.status = Int(try integer())
      } else if try isMember(&members, "headers", 2) {
        response.headers = try headers()
      } else if try isMember(&members, "url", 4) {
        response.url = try text()
      } else if try isMember(&members, "httpVersion", 8) {
        response.httpVersion = try text()
      } else {
        throw GaveUp()
      }
    }
    guard members.has(15) else { throw GaveUp() }
    return response
  }

  private mutating func headers() throws(GaveUp) -> [WireHeader] {
    try list { reader throws(GaveUp) in
      let pair = try reader.list { inner throws(GaveUp) in try inner.text() }
      guard pair.count == 2 else { throw GaveUp() }
      return WireHeader(name: pair[0], value: pair[1])
    }
  }

  // MARK: Requests

  private mutating func acknowledgement() throws(GaveUp) -> DeliveryAcknowledgeParameters {
    var members = Members()
    var parameters = DeliveryAcknowledgeParameters(session: 0, numbers: [])
    while try next(&members) {
      if try isMember(&members, "session", 1) {
        parameters.session = try integer()
      } else if try isMember(&members, "numbers", 2) {
        parameters.numbers = try list { reader throws(GaveUp) in try reader.integer() }
      } else {
        throw GaveUp()
      }
    }
    guard members.has(3) else { throw GaveUp() }
    return parameters
  }

  private mutating func batch() throws(GaveUp) -> TaskEnqueueParameters {
    var members = Members()
    var parameters = TaskEnqueueParameters(session: 0, tasks: [])
    while try next(&members) {
      if try isMember(&members, "session", 1) {
        parameters.session = try integer()
      } else if try isMember(&members, "tasks", 2) {
        parameters.tasks = try list { reader throws(GaveUp) in try reader.specification() }
      } else {
        throw GaveUp()
      }
    }
    guard members.has(3) else { throw GaveUp() }
    return parameters
  }

  /// What downloads in batches say; a rarer member is the general decoder's.
  private mutating func specification() throws(GaveUp) -> WireTaskSpecification {
    var members = Members()
    var task = WireTaskSpecification(kind: "", url: "")
    while try next(&members) {
      if try isMember(&members, "kind", 1) {
        task.kind = try text()
      } else if try isMember(&members, "url", 2) {
        task.url = try text()
      } else if try isMember(&members, "destination", 4) {
        task.destination = try optionalText()
      } else if try isMember(&members, "collision", 8) {
        task.collision = try optionalText()
      } else if try isMember(&members, "headers", 16) {
        task.headers = try optional { reader throws(GaveUp) in try reader.headers() }
      } else if try isMember(&members, "key", 32) {
        task.key = try optionalText()
      } else if try isMember(&members, "description", 64) {
        task.description = try optionalText()
      } else if try isMember(&members, "sha256", 128) {
        task.sha256 = try optionalText()
      } else if try isMember(&members, "method", 256) {
        task.method = try optionalText()
      } else if try isMember(&members, "statusRule", 512) {
        task.statusRule = try optionalText()
      } else if try isMember(&members, "priority", 1024) {
        task.priority = try optional { reader throws(GaveUp) in try reader.double() }
      } else if try isMember(&members, "earliestBeginMilliseconds", 2048) {
        task.earliestBeginMilliseconds = try optionalInteger()
      } else if try isMember(&members, "isSuspended", 4096) {
        task.isSuspended = try optional { reader throws(GaveUp) in try reader.bool() }
      } else {
        throw GaveUp()
      }
    }
    guard members.has(3) else { throw GaveUp() }
    return task
  }

  private mutating func optionalText() throws(GaveUp) -> String? {
    try optional { reader throws(GaveUp) in try reader.text() }
  }

  private mutating func optionalInteger() throws(GaveUp) -> Int64? {
    try optional { reader throws(GaveUp) in try reader.integer() }
  }
}
