/// Names a kept part: 128 random bits, used once. It is no secret among the programs of one user; the request with its
/// secrets stays in the daemon.
package struct ResumeToken: Hashable, Sendable, CustomStringConvertible {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Nil unless the text is 32 hex digits in lower case.
  package init?(_ text: String) {
    let digits = Array(text.utf8)
    guard digits.count == 32, digits.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
      let high = UInt64(String(decoding: digits[..<16], as: UTF8.self), radix: 16),
      let low = UInt64(String(decoding: digits[16...], as: UTF8.self), radix: 16)
    else { return nil }
    self.init(high: high, low: low)
  }

  /// 32 hex digits.
  package var description: String {
    [high, low].map { word in
      let digits = String(word, radix: 16)
      return String(repeating: "0", count: 16 - digits.count) + digits
    }.joined()
  }
}

/// The part file of a download that has ended, kept so that a new task can go on from it: what resume data refers to.
package struct KeptPart: Hashable, Sendable {
  package var token: ResumeToken
  /// The task that it was kept from.
  package var task: TaskID
  /// Whose id stands in the part file's name: a task that went on from a kept part has not made its file itself.
  package var owner: TaskID
  /// Only sessions of this app may go on from it.
  package var app: String
  package var partPath: String
  package var request: TransferRequest
  package var destination: Destination
  package var expectedSHA256: String?
  package var statusRule: StatusRule
  package var keepsEncoding: Bool
  package var point: ResumePoint
  /// Bytes held when the task ended.
  package var received: Int64
  package var response: ResponseHead?
  package var bootID: String
  package var keptAt: WallInstant

  package init(
    token: ResumeToken, task: TaskID, owner: TaskID, app: String, partPath: String, request: TransferRequest,
    destination: Destination, expectedSHA256: String?, statusRule: StatusRule, keepsEncoding: Bool,
    point: ResumePoint, received: Int64, response: ResponseHead?, bootID: String, keptAt: WallInstant
  ) {
    self.token = token
    self.task = task
    self.owner = owner
    self.app = app
    self.partPath = partPath
    self.request = request
    self.destination = destination
    self.expectedSHA256 = expectedSHA256
    self.statusRule = statusRule
    self.keepsEncoding = keepsEncoding
    self.point = point
    self.received = received
    self.response = response
    self.bootID = bootID
    self.keptAt = keptAt
  }
}

/// A task that goes on in the part file that another one made.
package struct PartAdoption: Hashable, Sendable {
  package var task: TaskID
  /// Whose id stands in the file's name.
  package var owner: TaskID

  package init(task: TaskID, owner: TaskID) {
    self.task = task
    self.owner = owner
  }
}
