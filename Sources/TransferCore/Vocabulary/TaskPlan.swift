package enum TaskKind: String, CaseIterable, Hashable, Sendable {
  case download, upload, data
}

/// Where a finished download goes.
package enum Destination: Hashable, Sendable {
  /// Into the daemon's own folder; it belongs to the daemon until its delivery is acknowledged.
  case managed
  /// To this absolute path, its folder canonical; the part file stands in the same folder.
  case file(path: String, collision: CollisionRule)
}

/// What happens when the destination exists at the end.
package enum CollisionRule: String, CaseIterable, Hashable, Sendable {
  case fail, replace, rename
}

/// How an upload's source was kept safe from what happens to it after creation (design 11).
package enum PinKind: String, CaseIterable, Hashable, Sendable {
  /// A copy-on-write clone; later changes to the source do not reach it.
  case reflink
  /// A second name for the same file: deletion does no harm, a change in place is detected.
  case hardLink
  case copy
  /// Only the path is known; it is opened, and its identity checked, when needed.
  case none
}

/// What tells that a file is still the one that was meant.
package struct FileIdentity: Hashable, Sendable {
  package var device: UInt64
  package var inode: UInt64
  package var sizeBytes: Int64
  package var modifiedNanoseconds: Int64

  package init(device: UInt64, inode: UInt64, sizeBytes: Int64, modifiedNanoseconds: Int64) {
    self.device = device
    self.inode = inode
    self.sizeBytes = sizeBytes
    self.modifiedNanoseconds = modifiedNanoseconds
  }
}

/// The body of an upload.
package struct UploadSource: Hashable, Sendable {
  /// The path that the caller named.
  package var path: String
  /// Where the bytes are read from; equal to `path` when nothing was pinned.
  package var pinnedPath: String
  package var pin: PinKind
  package var identity: FileIdentity

  package init(path: String, pinnedPath: String, pin: PinKind, identity: FileIdentity) {
    self.path = path
    self.pinnedPath = pinnedPath
    self.pin = pin
    self.identity = identity
  }
}

/// Which responses are a success.
package enum StatusRule: String, CaseIterable, Hashable, Sendable {
  /// Every status is a completed transfer, as URLSession has it.
  case any
  /// 2xx only; 408, 425, 429, 500, 502, 503 and 504 are retried, the others fail.
  case successOnly
}

/// The unchanging part of a task: what was asked for. Written once, when the task is accepted.
package struct TaskPlan: Hashable, Sendable {
  package var kind: TaskKind
  package var request: TransferRequest
  package var source: UploadSource?
  package var destination: Destination
  /// Where bytes are collected before they are published: the part file of a download, or the spool of a
  /// response body. Absolute.
  package var partPath: String
  /// Whose id stands in the part file's name, where the task goes on from a kept part.
  package var partOwner: TaskID?
  /// SHA-256 that the content must have, 64 lower-case hex digits.
  package var expectedSHA256: String?
  package var statusRule: StatusRule
  /// Keep an encoded body as it came (`--raw`).
  package var keepsEncoding: Bool
  /// No progress for so long restarts the attempt.
  package var requestTimeout: Duration
  /// The task ends so long after its creation, retries included.
  package var resourceTimeout: Duration
  /// The client's own key: enqueueing twice under one key makes one task.
  package var key: String?
  package var createdAt: WallInstant
  /// The app can be asked for credentials; nil: as its session says.
  package var answersChallenges: Bool?
  /// The app wants to be asked before the first attempt of a task that has a date.
  package var asksBeforeBegin: Bool
  /// In place of the session's.
  package var tls: TLSSettings?

  package init(
    kind: TaskKind, request: TransferRequest, source: UploadSource? = nil, destination: Destination = .managed,
    partPath: String, partOwner: TaskID? = nil, expectedSHA256: String? = nil, statusRule: StatusRule = .successOnly,
    keepsEncoding: Bool = false, requestTimeout: Duration = .seconds(60),
    resourceTimeout: Duration = .seconds(604_800), key: String? = nil, createdAt: WallInstant,
    answersChallenges: Bool? = nil, asksBeforeBegin: Bool = false, tls: TLSSettings? = nil
  ) {
    self.kind = kind
    self.request = request
    self.source = source
    self.destination = destination
    self.partPath = partPath
    self.partOwner = partOwner
    self.expectedSHA256 = expectedSHA256
    self.statusRule = statusRule
    self.keepsEncoding = keepsEncoding
    self.requestTimeout = requestTimeout
    self.resourceTimeout = resourceTimeout
    self.key = key
    self.createdAt = createdAt
    self.answersChallenges = answersChallenges
    self.asksBeforeBegin = asksBeforeBegin
    self.tls = tls
  }

  /// What may be kept of a task that has ended.
  package var withoutSecrets: TaskPlan {
    var plain = self
    plain.request = request.withoutSecrets
    plain.tls?.keyPassword = nil
    return plain
  }
}
