internal import TransferCore

// The rows of kept parts. The pair follows ``Schema/keptPartColumns``.

extension KeptPart {
  func bind(to statement: Statement) throws(StoreError) {
    try statement.bind(token.description)
    try statement.bindOrdinal(task.rawValue, "the task of a kept part")
    try statement.bindOrdinal(owner.rawValue, "the owner of a kept part")
    try statement.bind(app)
    try statement.bind(partPath)
    try statement.bind(request.method)
    try statement.bind(request.url)
    try statement.bindHeaders(request.headers, "a kept request's header")
    try statement.bindLines(request.secretHeaderNames, "a secret header name")
    try destination.bind(to: statement)
    switch destination {
    case .managed: try statement.bind(String?.none)
    case .file(let path, _): try statement.bind(path)
    }
    try statement.bind(expectedSHA256)
    try statement.bindName(statusRule)
    try statement.bind(keepsEncoding)
    try point.bind(to: statement)
    try statement.bindCount(received, "the bytes of a kept part")
    try response.bind(to: statement)
    try statement.bind(bootID)
    try statement.bind(keptAt.milliseconds)
  }

  static func read(from row: Statement) throws(RowFault) -> KeptPart {
    guard let token = ResumeToken(try row.nextRequiredText()) else { throw RowFault("the token is none") }
    let task = TaskID(rawValue: try row.nextOrdinal())
    let owner = TaskID(rawValue: try row.nextOrdinal())
    let app = try row.nextRequiredText()
    let partPath = try row.nextRequiredText()
    let request = TransferRequest(
      method: try row.nextRequiredText(), url: try row.nextRequiredText(), headers: try row.nextHeaders(),
      secretHeaderNames: try row.nextLines())
    let destination = try Destination.readWithPath(from: row)
    let digest = try row.nextText()
    let rule = try row.nextName(StatusRule.self)
    let keepsEncoding = try row.nextFlag()
    guard let point = try ResumePoint.read(from: row) else { throw RowFault("a kept part has no resume point") }
    return KeptPart(
      token: token, task: task, owner: owner, app: app, partPath: partPath, request: request,
      destination: destination, expectedSHA256: digest, statusRule: rule, keepsEncoding: keepsEncoding, point: point,
      received: try row.nextCount(), response: try ResponseHead.read(from: row), bootID: try row.nextRequiredText(),
      keptAt: WallInstant(milliseconds: try row.nextRequiredInteger()))
  }
}
