import TransferCore
import TransferDaemon
import WireProtocol

/// What a client asks for, after JSON: nothing reaches the core that cannot stand in a request.
enum IntakeTarget {
  static func run(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    try check(specification(&source))
    try network(&source)
    try update(&source)
  }

  private static func specification(_ source: inout ByteSource) -> WireTaskSpecification {
    var wire = WireTaskSpecification(
      kind: source.bool() ? source.text() : source.one(of: ["download", "upload", "data"]),
      url: source.bool() ? source.text() : "http://" + source.text())
    wire.method = source.bool() ? source.one(of: ["GET", "POST", "put", source.text()]) : nil
    if source.bool() {
      wire.headers = (0..<Int(source.byte() % 8)).map { _ in WireHeader(name: source.text(), value: source.text()) }
    }
    if source.bool() { wire.secretHeaders = [source.text()] }
    wire.source = source.optionalText()
    wire.body = source.optionalText()
    wire.destination = source.bool() ? "/" + source.text() : source.optionalText()
    wire.collision = source.bool() ? source.one(of: ["fail", "replace", "rename", source.text()]) : nil
    wire.sha256 = source.optionalText()
    wire.statusRule = source.bool() ? source.one(of: ["any", "successOnly", source.text()]) : nil
    wire.requestTimeoutSeconds = source.bool() ? Double(bitPattern: source.word()) : nil
    wire.resourceTimeoutSeconds = source.bool() ? Double(bitPattern: source.word()) : nil
    wire.description = source.optionalText()
    wire.priority = source.bool() ? Double(bitPattern: source.word()) : nil
    wire.earliestBeginMilliseconds = source.bool() ? source.integer() : nil
    wire.key = source.optionalText()
    wire.addsIdempotencyKey = source.bool()
    return wire
  }

  static func check(_ wire: WireTaskSpecification) throws {
    let draft: TaskDraft
    do throws(WireError) {
      draft = try RequestIntake.draft(wire) { 7 }
    } catch {
      try require(!error.message.isEmpty && error.message.utf8.count < 2000, "a refusal without a sensible reason")
      return
    }
    let request = draft.request
    try require(isOneLine(request.method) && !request.method.isEmpty, "a method that breaks the request line")
    try require(request.url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "a URL that breaks the request line")
    try require(Origin(url: request.url)?.description == draft.origin, "\(draft.origin) is not of \(request.url)")
    try URLTarget.check(request.url)
    try require(!authority(request.url).contains("@"), "credentials stay in a URL")
    for field in request.headers.fields {
      try require(!field.name.isEmpty && isOneLine(field.name) && !field.name.contains(":"), "a header's name")
      try require(isOneLine(field.value), "a header's value that breaks its line")
      let own = ["content-length", "transfer-encoding", "connection", "expect"]
      try require(!own.contains(field.name.asciiLowercased), "a header that is the transfer's own")
    }
    for path in [draft.sourcePath, destination(draft)] {
      try require(
        path.map { $0.hasPrefix("/") && !$0.utf8.contains(0) } ?? true, "a path that the kernel reads otherwise")
    }
    let digest = draft.expectedSHA256 ?? String(repeating: "0", count: 64)
    let isDigest = digest.utf8.count == 64 && digest.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
    try require(isDigest, "a digest that no file has")
    try require(draft.requestTimeout > .zero && draft.resourceTimeout > .zero, "a timeout of nothing")
    try require(draft.key.map { !$0.utf8.contains(0) } ?? true, "a key with a NUL")
  }

  private static func isOneLine(_ text: String) -> Bool { text.utf8.allSatisfy { $0 != 0 && $0 != 10 && $0 != 13 } }

  private static func destination(_ draft: TaskDraft) -> String? {
    if case .file(let path, _) = draft.destination { path } else { nil }
  }

  private static func authority(_ url: String) -> Substring {
    url.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).last?
      .prefix { !"/?#".contains($0) } ?? ""
  }

  private static func network(_ source: inout ByteSource) throws {
    let wire = WireNetwork(
      httpProxy: source.optionalText(), httpsProxy: source.optionalText(), noProxy: source.optionalText(),
      certificateFile: source.optionalText(),
      maximumConnectionsPerHost: source.bool() ? Int(clamping: source.integer()) : nil)
    guard let network = try? RequestIntake.network(wire) else { return }
    try require((1...64).contains(network.maximumConnectionsPerHost), "connections")
    for text in [network.httpProxy, network.httpsProxy, network.noProxy, network.certificateFile] {
      try require(text.map(isOneLine) ?? true, "a network setting with a line end or a NUL")
    }
  }

  private static func update(_ source: inout ByteSource) throws {
    let wire = TaskUpdateParameters(
      id: source.integer(), description: source.optionalText(),
      priority: source.bool() ? Double(bitPattern: source.word()) : nil,
      earliestBeginMilliseconds: source.bool() ? source.integer() : nil)
    _ = try? RequestIntake.change(wire)
  }
}
