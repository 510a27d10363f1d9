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

  /// Credentials and certificates are the general decoder's.
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
        task.priority = try optionalDouble()
      } else if try isMember(&members, "earliestBeginMilliseconds", 2048) {
        task.earliestBeginMilliseconds = try optionalInteger()
      } else if try isMember(&members, "isSuspended", 4096) {
        task.isSuspended = try optionalBool()
      } else if try readRare(&task, &members) {
        continue
      } else {
        throw GaveUp()
      }
    }
    guard members.has(3) else { throw GaveUp() }
    return task
  }

  private mutating func readRare(
    _ task: inout WireTaskSpecification, _ members: inout Members
  ) throws(GaveUp) -> Bool {
    if try isMember(&members, "source", 1 << 13) {
      task.source = try optionalText()
    } else if try isMember(&members, "body", 1 << 14) {
      task.body = try optionalText()
    } else if try isMember(&members, "secretHeaders", 1 << 15) {
      task.secretHeaders = try optionalTexts()
    } else if try isMember(&members, "keepsEncoding", 1 << 16) {
      task.keepsEncoding = try optionalBool()
    } else if try isMember(&members, "requestTimeoutSeconds", 1 << 17) {
      task.requestTimeoutSeconds = try optionalDouble()
    } else if try isMember(&members, "resourceTimeoutSeconds", 1 << 18) {
      task.resourceTimeoutSeconds = try optionalDouble()
    } else if try isMember(&members, "isDiscretionary", 1 << 19) {
      task.isDiscretionary = try optionalBool()
    } else if try isMember(&members, "requires", 1 << 20) {
      task.requires = try optionalTexts()
    } else if try isMember(&members, "clientExpectsToSend", 1 << 21) {
      task.clientExpectsToSend = try optionalInteger()
    } else if try isMember(&members, "clientExpectsToReceive", 1 << 22) {
      task.clientExpectsToReceive = try optionalInteger()
    } else if try isMember(&members, "addsIdempotencyKey", 1 << 23) {
      task.addsIdempotencyKey = try optionalBool()
    } else if try isMember(&members, "resumeToken", 1 << 24) {
      task.resumeToken = try optionalText()
    } else if try isMember(&members, "answersChallenges", 1 << 25) {
      task.answersChallenges = try optionalBool()
    } else if try isMember(&members, "asksBeforeBegin", 1 << 26) {
      task.asksBeforeBegin = try optionalBool()
    } else {
      return false
    }
    return true
  }

  mutating func headers() throws(GaveUp) -> [WireHeader] {
    try list { reader throws(GaveUp) in
      let pair = try reader.list { inner throws(GaveUp) in try inner.text() }
      guard pair.count == 2 else { throw GaveUp() }
      return WireHeader(name: pair[0], value: pair[1])
    }
  }

  mutating func optionalText() throws(GaveUp) -> String? {
    try optional { reader throws(GaveUp) in try reader.text() }
  }

  mutating func optionalTexts() throws(GaveUp) -> [String]? {
    try optional { reader throws(GaveUp) in try reader.list { inner throws(GaveUp) in try inner.text() } }
  }

  mutating func optionalInteger() throws(GaveUp) -> Int64? {
    try optional { reader throws(GaveUp) in try reader.integer() }
  }

  mutating func optionalDouble() throws(GaveUp) -> Double? {
    try optional { reader throws(GaveUp) in try reader.double() }
  }

  mutating func optionalBool() throws(GaveUp) -> Bool? {
    try optional { reader throws(GaveUp) in try reader.bool() }
  }
}
