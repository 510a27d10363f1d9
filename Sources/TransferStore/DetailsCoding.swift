internal import TransferCore

// The rows that are read when a task is admitted or shown. Each pair follows its list in ``Schema``.

extension TaskPlan {
  /// In the order of ``Schema/taskPlanColumns``.
  func bindToTask(_ statement: Statement) throws(StoreError) {
    try statement.bind(key)
    switch destination {
    case .managed: try statement.bind(String?.none)
    case .file(let path, _): try statement.bind(path)
    }
    try statement.bind(partOwner?.rawValue)
  }

  /// In the order of ``Schema/planColumns``. The rest, and the kind, stand in the row of the entry.
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bind(request.method)
    try statement.bind(request.url)
    try statement.bindHeaders(request.headers, "the request's header")
    try statement.bindLines(request.secretHeaderNames, "a secret header name")
    try statement.bind(source?.path)
    try statement.bind(source?.pinnedPath)
    try statement.bindName(source?.pin)
    // Device and inode numbers use all 64 bits; SQLite's integers are signed.
    try statement.bind(source.map { Int64(bitPattern: $0.identity.device) })
    try statement.bind(source.map { Int64(bitPattern: $0.identity.inode) })
    try statement.bindCount(source?.identity.sizeBytes, "the size of a source")
    try statement.bind(source?.identity.modifiedNanoseconds)
    try destination.bind(to: statement)
    try statement.bind(partPath)
    try statement.bind(expectedSHA256)
    try statement.bindName(statusRule)
    try statement.bind(keepsEncoding)
    try statement.bind(requestTimeout.millisecondsClamped)
    try statement.bind(resourceTimeout.millisecondsClamped)
    try statement.bind(createdAt.milliseconds)
    try statement.bind(answersChallenges.map { $0 ? 1 : 0 } as Int64?)
    try statement.bind(asksBeforeBegin)
    try statement.bindHeaders(tls?.stored, "a setting of TLS")
  }

  /// In the order of kind, ``Schema/taskPlanColumns`` and ``Schema/planColumns``.
  static func read(from row: Statement) throws(RowFault) -> TaskPlan {
    let kind = try row.nextName(TaskKind.self)
    let key = try row.nextText()
    let path = try row.nextText()
    let owner = try row.nextInteger().map(TaskID.init(rawValue:))
    return TaskPlan(
      kind: kind,
      request: TransferRequest(
        method: try row.nextRequiredText(), url: try row.nextRequiredText(), headers: try row.nextHeaders(),
        secretHeaderNames: try row.nextLines()),
      source: try UploadSource.read(from: row), destination: try Destination.read(from: row, path: path),
      partPath: try row.nextRequiredText(), partOwner: owner, expectedSHA256: try row.nextText(),
      statusRule: try row.nextName(StatusRule.self), keepsEncoding: try row.nextFlag(),
      requestTimeout: .milliseconds(try row.nextRequiredInteger()),
      resourceTimeout: .milliseconds(try row.nextRequiredInteger()), key: key,
      createdAt: WallInstant(milliseconds: try row.nextRequiredInteger()),
      answersChallenges: try row.nextInteger().map { $0 != 0 }, asksBeforeBegin: try row.nextFlag(),
      tls: try TLSSettings.read(from: row))
  }
}

private enum DestinationName: String {
  case managed, file
}

extension Destination {
  /// Without its path.
  func bind(to statement: Statement) throws(StoreError) {
    switch self {
    case .managed:
      try statement.bindName(DestinationName.managed)
      try statement.bind(String?.none)
    case .file(_, let collision):
      try statement.bindName(DestinationName.file)
      try statement.bindName(collision)
    }
  }

  /// The path follows.
  static func readWithPath(from row: Statement) throws(RowFault) -> Destination {
    let name = try row.nextName(DestinationName.self)
    let collision = try row.nextOptionalName(CollisionRule.self)
    let path = try row.nextText()
    switch name {
    case .managed: return .managed
    case .file:
      guard let path, let collision else { throw RowFault("a destination lacks its path or collision rule") }
      return .file(path: path, collision: collision)
    }
  }

  fileprivate static func read(from row: Statement, path: String?) throws(RowFault) -> Destination {
    let name = try row.nextName(DestinationName.self)
    let collision = try row.nextOptionalName(CollisionRule.self)
    switch name {
    case .managed: return .managed
    case .file:
      guard let path, let collision else { throw RowFault("a destination lacks its path or collision rule") }
      return .file(path: path, collision: collision)
    }
  }
}

extension UploadSource {
  fileprivate static func read(from row: Statement) throws(RowFault) -> UploadSource? {
    let path = try row.nextText()
    let pinnedPath = try row.nextText()
    let pin = try row.nextOptionalName(PinKind.self)
    let device = try row.nextInteger()
    let inode = try row.nextInteger()
    let size = try row.nextOptionalCount()
    let modified = try row.nextInteger()
    if let path, let pinnedPath, let pin, let device, let inode, let size, let modified {
      let identity = FileIdentity(
        device: UInt64(bitPattern: device), inode: UInt64(bitPattern: inode), sizeBytes: size,
        modifiedNanoseconds: modified)
      return UploadSource(path: path, pinnedPath: pinnedPath, pin: pin, identity: identity)
    }
    guard path == nil, pinnedPath == nil, pin == nil, device == nil, inode == nil, size == nil, modified == nil else {
      throw RowFault("the source of an upload is incomplete")
    }
    return nil
  }
}

extension TaskProgress {
  /// In the order of ``Schema/progressColumns``.
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bind(taskDescription)
    try resumePoint.bind(to: statement)
    try statement.bind(bootID)
    try response.bind(to: statement)
    try statement.bindName(failure?.code)
    try statement.bindName(failure?.retryability)
    try statement.bind(failure?.domain)
    try statement.bind(failure.map { Int64($0.number) })
    try statement.bind(failure?.detail)
    try statement.bindCount(failure?.retryAfterSeconds.map(Int64.init), "retry-after seconds")
    try statement.bindName(cancelCause)
    try statement.bind(contentEncoding)
    try statement.bind(filePath)
    try statement.bind(bodyPath)
    try statement.bind(sha256)
    try statement.bind(isLengthVerified)
    try statement.bindCount(wasted, "wasted")
    try statement.bindCount(restarts, "restarts")
    try statement.bind(utf8: MetricsText.text(of: metrics))
    try statement.bind(heldSince?.milliseconds)
    try statement.bind(earliestBegin?.milliseconds)
    try statement.bindCount(hintToSend, "a size hint")
    try statement.bindCount(hintToReceive, "a size hint")
    try statement.bindHeaders(question?.stored, "a question")
    try statement.bindHeaders(access?.stored, "an answer")
  }

  /// In the order of ``Schema/progressColumns``.
  static func read(from row: Statement) throws(RowFault) -> TaskProgress {
    TaskProgress(
      taskDescription: try row.nextText(), resumePoint: try ResumePoint.read(from: row),
      bootID: try row.nextRequiredText(), response: try ResponseHead.read(from: row),
      failure: try TransferFailure.read(from: row), cancelCause: try row.nextOptionalName(CancelCause.self),
      contentEncoding: try row.nextText(), filePath: try row.nextText(), bodyPath: try row.nextText(),
      sha256: try row.nextText(),
      isLengthVerified: try row.nextFlag(), wasted: try row.nextCount(), restarts: try row.nextCount(),
      metrics: try nextMetrics(row),
      heldSince: try row.nextInteger().map(WallInstant.init(milliseconds:)),
      earliestBegin: try row.nextInteger().map(WallInstant.init(milliseconds:)),
      hintToSend: try row.nextOptionalCount(), hintToReceive: try row.nextOptionalCount(),
      question: try Question.read(from: row), access: try TaskAccess.read(from: row))
  }
}

/// What cannot be read of a measurement must not keep its task from its app.
private func nextMetrics(_ row: Statement) throws(RowFault) -> MetricsLog {
  guard let text = try row.nextText() else { return MetricsLog() }
  do throws(RowFault) {
    return try MetricsText.log(of: text)
  } catch {
    return MetricsLog()
  }
}

extension ResumePoint? {
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bindName(map { ValidatorName($0.validator) })
    try statement.bind(self?.validator.fieldValue)
    try statement.bindCount(self?.offset, "the offset of a resume point")
    try statement.bindCount(self?.total, "the total of a resume point")
  }
}

extension ResumePoint {
  func bind(to statement: Statement) throws(StoreError) { try Optional(self).bind(to: statement) }
}

extension ResponseHead? {
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bindCount(map { Int64($0.status) }, "a response status")
    try statement.bindHeaders(self?.headers, "a response's header")
    try statement.bind(self?.url)
    try statement.bind(self?.httpVersion)
  }
}

private enum ValidatorName: String {
  case entityTag, lastModified

  init(_ validator: Validator) {
    self =
      switch validator {
      case .entityTag: .entityTag
      case .lastModified: .lastModified
      }
  }
}

extension ResumePoint {
  static func read(from row: Statement) throws(RowFault) -> ResumePoint? {
    let name = try row.nextOptionalName(ValidatorName.self)
    let value = try row.nextText()
    let offset = try row.nextOptionalCount()
    let total = try row.nextOptionalCount()
    if let name, let value, let offset {
      let validator: Validator =
        switch name {
        case .entityTag: .entityTag(value)
        case .lastModified: .lastModified(value)
        }
      return ResumePoint(validator: validator, offset: offset, total: total)
    }
    guard name == nil, value == nil, offset == nil, total == nil else {
      throw RowFault("the resume point is incomplete")
    }
    return nil
  }
}

extension ResponseHead {
  static func read(from row: Statement) throws(RowFault) -> ResponseHead? {
    let status = try row.nextOptionalCount()
    let headers = try row.nextOptionalHeaders()
    let url = try row.nextText()
    let version = try row.nextText()
    if let status, let headers, let url, let version {
      return ResponseHead(status: Int(status), headers: headers, url: url, httpVersion: version)
    }
    guard status == nil, headers == nil, url == nil, version == nil else {
      throw RowFault("the response is incomplete")
    }
    return nil
  }
}

extension TransferFailure {
  fileprivate static func read(from row: Statement) throws(RowFault) -> TransferFailure? {
    let code = try row.nextOptionalName(FailureCode.self)
    let retryability = try row.nextOptionalName(Retryability.self)
    let domain = try row.nextText()
    let number = try row.nextInteger()
    let detail = try row.nextText()
    let retryAfter = try row.nextOptionalCount()
    if let code, let retryability, let domain, let number, let detail {
      return TransferFailure(
        code, retryability, domain: domain, number: Int(number), detail: detail,
        retryAfterSeconds: retryAfter.map(Int.init))
    }
    guard code == nil, retryability == nil, domain == nil, number == nil, detail == nil, retryAfter == nil else {
      throw RowFault("the failure is incomplete")
    }
    return nil
  }
}

extension TaskDetails {
  /// In the order of ``OpenDatabase/details``: plan, progress, then the ids that tell that both are there.
  static func read(from row: Statement) throws(RowFault) -> TaskDetails {
    guard row.integerValue(row.columnCount - 2) != nil else { throw RowFault("its plan is not there") }
    guard row.integerValue(row.columnCount - 1) != nil else { throw RowFault("its progress is not there") }
    let plan = try TaskPlan.read(from: row)
    return TaskDetails(plan: plan, progress: try TaskProgress.read(from: row))
  }
}
