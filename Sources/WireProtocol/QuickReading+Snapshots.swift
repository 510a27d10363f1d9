/// A task as deliveries and notices show it, read quickly. What a task waits for, and what it asks, comes seldom: that
/// is the general decoder's.
extension LineReader {
  mutating func snapshot() throws(GaveUp) -> TaskSnapshot {
    var members = Members()
    var task = TaskSnapshot(
      id: 0, session: "", app: "", sessionID: 0, number: 0, kind: "", state: "", method: "", url: "", received: 0,
      sent: 0, attempts: 0, priority: 0, createdMilliseconds: 0)
    while try next(&members) {
      if try readRequired(&task, &members) { continue }
      if try readOptional(&task, &members) { continue }
      if try readRare(&task, &members) { continue }
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
      task.isLengthVerified = try optionalBool()
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
    } else if try isMember(&members, "expiresMilliseconds", 1 << 29) {
      task.expiresMilliseconds = try optionalInteger()
    } else if try isMember(&members, "error", 1 << 30) {
      task.error = try optional { reader throws(GaveUp) in try reader.failure() }
    } else if try isMember(&members, "metrics", 1 << 31) {
      task.metrics = try optional { reader throws(GaveUp) in try reader.metrics() }
    } else {
      return false
    }
    return true
  }

  private mutating func readRare(_ task: inout TaskSnapshot, _ members: inout Members) throws(GaveUp) -> Bool {
    if try isMember(&members, "headers", 1 << 32) {
      task.headers = try optional { reader throws(GaveUp) in try reader.headers() }
    } else if try isMember(&members, "cancelCause", 1 << 33) {
      task.cancelCause = try optionalText()
    } else if try isMember(&members, "resumeToken", 1 << 34) {
      task.resumeToken = try optionalText()
    } else if try isMember(&members, "isDiscretionary", 1 << 35) {
      task.isDiscretionary = try optionalBool()
    } else if try isMember(&members, "requires", 1 << 36) {
      task.requires = try optionalTexts()
    } else if try isMember(&members, "earliestBeginMilliseconds", 1 << 37) {
      task.earliestBeginMilliseconds = try optionalInteger()
    } else if try isMember(&members, "clientExpectsToSend", 1 << 38) {
      task.clientExpectsToSend = try optionalInteger()
    } else if try isMember(&members, "clientExpectsToReceive", 1 << 39) {
      task.clientExpectsToReceive = try optionalInteger()
    } else {
      return false
    }
    return true
  }

  private mutating func failure() throws(GaveUp) -> WireFailure {
    var members = Members()
    var failure = WireFailure(code: "", isTransient: false, domain: "", number: 0, detail: "")
    while try next(&members) {
      if try isMember(&members, "code", 1) {
        failure.code = try text()
      } else if try isMember(&members, "isTransient", 2) {
        failure.isTransient = try bool()
      } else if try isMember(&members, "domain", 4) {
        failure.domain = try text()
      } else if try isMember(&members, "number", 8) {
        failure.number = Int(try integer())
      } else if try isMember(&members, "detail", 16) {
        failure.detail = try text()
      } else {
        throw GaveUp()
      }
    }
    guard members.has(31) else { throw GaveUp() }
    return failure
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

  // MARK: Metrics

  private mutating func metrics() throws(GaveUp) -> WireMetrics {
    var members = Members()
    var metrics = WireMetrics(transactions: [])
    while try next(&members) {
      if try isMember(&members, "transactions", 1) {
        metrics.transactions = try list { reader throws(GaveUp) in try reader.transaction() }
      } else if try isMember(&members, "omitted", 2) {
        metrics.omitted = try optionalInteger()
      } else if try isMember(&members, "redirects", 4) {
        metrics.redirects = try optionalInteger()
      } else {
        throw GaveUp()
      }
    }
    guard members.has(1) else { throw GaveUp() }
    return metrics
  }

  private mutating func transaction() throws(GaveUp) -> WireTransaction {
    var members = Members()
    var transaction = WireTransaction(url: "", method: "", startMilliseconds: 0)
    while try next(&members) {
      if try readTimes(&transaction, &members) { continue }
      if try readFacts(&transaction, &members) { continue }
      throw GaveUp()
    }
    guard members.has(127) else { throw GaveUp() }
    return transaction
  }

  private mutating func readTimes(
    _ transaction: inout WireTransaction, _ members: inout Members
  ) throws(GaveUp) -> Bool {
    if try isMember(&members, "startMilliseconds", 1 << 2) {
      transaction.startMilliseconds = try double()
    } else if try isMember(&members, "domainLookupStartSeconds", 1 << 7) {
      transaction.domainLookupStartSeconds = try optionalDouble()
    } else if try isMember(&members, "domainLookupEndSeconds", 1 << 8) {
      transaction.domainLookupEndSeconds = try optionalDouble()
    } else if try isMember(&members, "connectStartSeconds", 1 << 9) {
      transaction.connectStartSeconds = try optionalDouble()
    } else if try isMember(&members, "secureConnectionStartSeconds", 1 << 10) {
      transaction.secureConnectionStartSeconds = try optionalDouble()
    } else if try isMember(&members, "secureConnectionEndSeconds", 1 << 11) {
      transaction.secureConnectionEndSeconds = try optionalDouble()
    } else if try isMember(&members, "connectEndSeconds", 1 << 12) {
      transaction.connectEndSeconds = try optionalDouble()
    } else if try isMember(&members, "requestStartSeconds", 1 << 13) {
      transaction.requestStartSeconds = try optionalDouble()
    } else if try isMember(&members, "requestEndSeconds", 1 << 14) {
      transaction.requestEndSeconds = try optionalDouble()
    } else if try isMember(&members, "responseStartSeconds", 1 << 15) {
      transaction.responseStartSeconds = try optionalDouble()
    } else if try isMember(&members, "responseEndSeconds", 1 << 16) {
      transaction.responseEndSeconds = try optionalDouble()
    } else {
      return false
    }
    return true
  }

  private mutating func readFacts(
    _ transaction: inout WireTransaction, _ members: inout Members
  ) throws(GaveUp) -> Bool {
    if try isMember(&members, "url", 1 << 0) {
      transaction.url = try text()
    } else if try isMember(&members, "method", 1 << 1) {
      transaction.method = try text()
    } else if try isMember(&members, "requestHeaderBytes", 1 << 3) {
      transaction.requestHeaderBytes = try integer()
    } else if try isMember(&members, "requestBodyBytes", 1 << 4) {
      transaction.requestBodyBytes = try integer()
    } else if try isMember(&members, "responseHeaderBytes", 1 << 5) {
      transaction.responseHeaderBytes = try integer()
    } else if try isMember(&members, "responseBodyBytes", 1 << 6) {
      transaction.responseBodyBytes = try integer()
    } else if try isMember(&members, "status", 1 << 17) {
      transaction.status = try optionalInteger().map { Int($0) }
    } else if try isMember(&members, "localPort", 1 << 18) {
      transaction.localPort = try optionalInteger().map { Int($0) }
    } else if try isMember(&members, "remotePort", 1 << 19) {
      transaction.remotePort = try optionalInteger().map { Int($0) }
    } else if try isMember(&members, "tlsVersion", 1 << 20) {
      transaction.tlsVersion = try optionalInteger().map { Int($0) }
    } else if try isMember(&members, "tlsCipherSuite", 1 << 21) {
      transaction.tlsCipherSuite = try optionalInteger().map { Int($0) }
    } else if try isMember(&members, "networkProtocol", 1 << 22) {
      transaction.networkProtocol = try optionalText()
    } else if try isMember(&members, "localAddress", 1 << 23) {
      transaction.localAddress = try optionalText()
    } else if try isMember(&members, "remoteAddress", 1 << 24) {
      transaction.remoteAddress = try optionalText()
    } else if try isMember(&members, "isProxied", 1 << 25) {
      transaction.isProxied = try optionalBool()
    } else if try isMember(&members, "isReused", 1 << 26) {
      transaction.isReused = try optionalBool()
    } else {
      return false
    }
    return true
  }
}
