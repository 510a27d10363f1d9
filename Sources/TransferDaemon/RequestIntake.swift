package import TransferCore
package import WireProtocol

/// Turns what a client wrote into what the core takes: every bound and every syntax is checked here, and each refusal
/// says what to change.
package enum RequestIntake {
  // MARK: Sessions

  package static func network(_ wire: WireNetwork) throws(WireError) -> NetworkSettings {
    for text in [wire.httpProxy, wire.httpsProxy, wire.noProxy, wire.certificateFile] {
      try check(text, "a network setting", bytes: 4096)
    }
    for proxy in [wire.httpProxy, wire.httpsProxy] {
      guard let proxy, !proxy.isEmpty else { continue }
      let scheme = proxy.prefix { $0 != ":" }.lowercased()
      if proxy.contains("://"), !["http", "https", "socks4", "socks4a", "socks5", "socks5h"].contains(scheme) {
        throw WireError(.invalidParameters, "The proxy scheme \"\(scheme)\" is not one of http, https, socks4, socks5.")
      }
    }
    if let file = wire.certificateFile, !file.hasPrefix("/") {
      throw WireError(.invalidParameters, "certificateFile must be an absolute path.")
    }
    return NetworkSettings(
      httpProxy: wire.httpProxy.flatMap { $0.isEmpty ? nil : $0 },
      httpsProxy: wire.httpsProxy.flatMap { $0.isEmpty ? nil : $0 }, noProxy: wire.noProxy ?? "",
      certificateFile: wire.certificateFile,
      maximumConnectionsPerHost: min(max(wire.maximumConnectionsPerHost ?? 6, 1), 64), tls: try tls(wire.tls))
  }

  package static func sessionKey(_ parameters: SessionOpenParameters) throws(WireError) -> SessionKey {
    for (text, name) in [(parameters.app, "app"), (parameters.identifier, "identifier")] {
      try check(text, name, bytes: WireLimits.identifierBytes)
      if text.isEmpty { throw WireError(.invalidParameters, "\(name) must not be empty.") }
    }
    return SessionKey(app: parameters.app, identifier: parameters.identifier)
  }

  // MARK: Tasks

  /// - Parameter random: gives words for an Idempotency-Key.
  package static func draft(
    _ wire: WireTaskSpecification, random: () -> UInt64
  ) throws(WireError) -> TaskDraft {
    guard let kind = TaskKind(rawValue: wire.kind) else {
      throw WireError(
        .invalidParameters, "kind is \"download\", \"upload\" or \"data\", not \"\(wire.kind.prefix(32))\".")
    }
    if let text = wire.resumeToken { return try resumingDraft(text, wire, kind) }
    var request = try request(wire, kind)
    guard let origin = Origin(url: request.url) else {
      throw WireError(
        .invalidURL, "The URL must be an absolute http or https URL, for example https://example.org/file.")
    }
    if wire.addsIdempotencyKey == true, !request.isIdempotent, !request.headers.contains("Idempotency-Key") {
      request.headers.set("Idempotency-Key", to: "\"\(hex(random()))\(hex(random()))\"")
    }
    var draft = TaskDraft(kind: kind, request: request, origin: origin.description)
    try apply(files: wire, to: &draft)
    try apply(rules: wire, to: &draft)
    try apply(access: wire, to: &draft)
    return draft
  }

  /// A download that goes on from a kept part, which says the rest.
  private static func resumingDraft(
    _ text: String, _ wire: WireTaskSpecification, _ kind: TaskKind
  ) throws(WireError) -> TaskDraft {
    guard kind == .download, let token = ResumeToken(text) else {
      throw WireError(.invalidParameters, "\"resumeToken\" is 32 hex digits in lower case, and only of a download.")
    }
    var draft = TaskDraft(kind: kind, request: TransferRequest(url: ""), origin: "")
    try apply(rules: wire, to: &draft)
    draft.resumeToken = token
    return draft
  }

  private static func request(_ wire: WireTaskSpecification, _ kind: TaskKind) throws(WireError) -> TransferRequest {
    let method = wire.method ?? (kind == .upload ? "PUT" : "GET")
    guard !method.isEmpty, method.utf8.count <= 32, method.utf8.allSatisfy(isTokenByte) else {
      throw WireError(.invalidParameters, "The method must be a token such as GET, PUT or POST.")
    }
    if method == "CONNECT" || method == "TRACE" {
      throw WireError(.invalidParameters, "The method \(method) cannot be used.")
    }
    var headers = try headers(wire.headers ?? [])
    let secrets = wire.secretHeaders ?? []
    guard secrets.count <= WireLimits.headerCount, secrets.allSatisfy({ $0.utf8.allSatisfy(isTokenByte) }) else {
      throw WireError(.invalidParameters, "secretHeaders must be names of headers.")
    }
    let url = try url(wire.url, credentialsInto: &headers)
    return TransferRequest(method: method, url: url, headers: headers, secretHeaderNames: secrets)
  }

  /// Credentials in a URL would stand in lists and logs; they become the header that they mean (RFC 7617).
  private static func url(_ text: String, credentialsInto headers: inout HeaderFields) throws(WireError) -> String {
    guard text.utf8.count <= WireLimits.urlBytes else {
      throw WireError(.invalidURL, "The URL is longer than \(WireLimits.urlBytes) bytes.")
    }
    guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x5C && $0 != 0x22 }) else {
      throw WireError(
        .invalidURL, "The URL has a space, a quote, a backslash or a character outside ASCII; percent-encode it.")
    }
    guard let start = text.range(ofFirst: "://") else { return text }
    // By bytes: all of them are ASCII by now.
    let authority = text.utf8[start...].prefix {
      $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#")
    }
    guard let at = authority.lastIndex(of: UInt8(ascii: "@")) else { return text }
    // As it was written: what is left without its credentials may look better than it was.
    guard Origin(url: text) != nil else {
      throw WireError(
        .invalidURL, "The URL must be an absolute http or https URL, for example https://example.org/file.")
    }
    let credentials = percentDecoded(Substring(authority[..<at]))
    if !headers.contains("Authorization") {
      headers.set("Authorization", to: "Basic " + WireCoding.base64(credentials))
    }
    return String(text[..<start]) + String(text[text.index(after: at)...])
  }

  private static func percentDecoded(_ text: Substring) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == 0x25, rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    return bytes
  }

  /// Fields that describe the transfer itself are the transfer's own (RFC 9110 section 7.6.1).
  private static let ownFields: Set<String> = [
    "connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade", "if-range",
  ]

  private static func headers(_ wire: [WireHeader]) throws(WireError) -> HeaderFields {
    guard wire.count <= WireLimits.headerCount else {
      throw WireError(.invalidParameters, "More than \(WireLimits.headerCount) headers.")
    }
    var fields: [HeaderField] = []
    var bytes = 0
    for header in wire {
      guard !header.name.isEmpty, header.name.utf8.allSatisfy(isTokenByte) else {
        throw WireError(.invalidParameters, "A header's name must be a token (letters, digits, - and a few more).")
      }
      guard header.value.utf8.allSatisfy({ ($0 >= 0x20 && $0 != 0x7F) || $0 == 0x09 }) else {
        throw WireError(.invalidParameters, "The value of \(header.name) has a line break or control character.")
      }
      bytes += header.name.utf8.count + header.value.utf8.count
      if ownFields.contains(header.name.lowercased()) { continue }
      fields.append(HeaderField(name: header.name, value: header.value.trimmingOptionalWhitespace))
    }
    guard bytes <= WireLimits.headerBytes else {
      throw WireError(.invalidParameters, "The headers are longer than \(WireLimits.headerBytes) bytes together.")
    }
    return HeaderFields(fields)
  }

  private static func apply(files wire: WireTaskSpecification, to draft: inout TaskDraft) throws(WireError) {
    try check(wire.source, "source", bytes: 4096)
    try check(wire.destination, "destination", bytes: 4096)
    if draft.kind == .upload {
      guard let source = wire.source, source.hasPrefix("/") else {
        throw WireError(.invalidParameters, "An upload needs \"source\", the absolute path of its body.")
      }
      draft.sourcePath = source
    } else if wire.source != nil {
      throw WireError(.invalidParameters, "Only an upload has a \"source\".")
    }
    if let text = wire.body {
      guard draft.kind != .upload, let body = WireCoding.bytes(base64: text), body.count <= WireLimits.bodyBytes else {
        throw WireError(
          .invalidParameters,
          "\"body\" is base 64 of at most \(WireLimits.bodyBytes) bytes; a larger body is an upload from a file.")
      }
      draft.body = body
    }
    if let path = wire.destination {
      guard draft.kind == .download, path.hasPrefix("/") else {
        throw WireError(.invalidParameters, "\"destination\" is the absolute path of a download's file.")
      }
      guard let collision = CollisionRule(rawValue: wire.collision ?? "fail") else {
        throw WireError(.invalidParameters, "collision is \"fail\", \"replace\" or \"rename\".")
      }
      draft.destination = .file(path: path, collision: collision)
    }
    if let digest = wire.sha256?.lowercased() {
      guard digest.utf8.count == 64, digest.allSatisfy(\.isHexDigit) else {
        throw WireError(.invalidParameters, "sha256 must have 64 hexadecimal digits.")
      }
      draft.expectedSHA256 = digest
    }
  }

  private static func apply(rules wire: WireTaskSpecification, to draft: inout TaskDraft) throws(WireError) {
    try check(wire.key, "key", bytes: WireLimits.identifierBytes)
    try check(wire.description, "description", bytes: WireLimits.descriptionBytes, allowsControl: true)
    guard let rule = StatusRule(rawValue: wire.statusRule ?? "successOnly") else {
      throw WireError(.invalidParameters, "statusRule is \"any\" or \"successOnly\".")
    }
    draft.statusRule = rule
    draft.keepsEncoding = wire.keepsEncoding ?? false
    draft.requestTimeout = try duration(wire.requestTimeoutSeconds, "requestTimeoutSeconds") ?? .seconds(60)
    draft.resourceTimeout = try duration(wire.resourceTimeoutSeconds, "resourceTimeoutSeconds") ?? .seconds(604_800)
    draft.key = wire.key
    draft.taskDescription = wire.description
    draft.priority = try priority(wire.priority) ?? 128
    draft.isDiscretionary = wire.isDiscretionary ?? false
    draft.constraints = try constraints(wire.requires ?? [])
    draft.hintToSend = try count(wire.clientExpectsToSend, "clientExpectsToSend")
    draft.hintToReceive = try count(wire.clientExpectsToReceive, "clientExpectsToReceive")
    draft.earliestBegin = wire.earliestBeginMilliseconds.map { WallInstant(milliseconds: $0) }
    draft.isSuspended = wire.isSuspended ?? false
  }

  package static func change(_ wire: TaskUpdateParameters) throws(WireError) -> TaskChange {
    try check(wire.description, "description", bytes: WireLimits.descriptionBytes, allowsControl: true)
    var change = TaskChange(
      taskDescription: wire.description, priority: try priority(wire.priority),
      earliestBegin: wire.earliestBeginMilliseconds.map { WallInstant(milliseconds: $0) })
    change.hintToSend = try count(wire.clientExpectsToSend, "clientExpectsToSend")
    change.hintToReceive = try count(wire.clientExpectsToReceive, "clientExpectsToReceive")
    for name in wire.clear ?? [] {
      guard let member = TaskChange.Clearable(rawValue: name) else {
        let names = TaskChange.Clearable.allCases.map(\.rawValue).joined(separator: ", ")
        throw WireError(.invalidParameters, "clear may name \(names), not \"\(name.prefix(32))\".")
      }
      change.clears.insert(member)
    }
    return change
  }

  /// ``Constraints/network`` is not asked for: the host says whether one is needed.
  private static func constraints(_ names: [String]) throws(WireError) -> Constraints {
    var all: Constraints = []
    let known = Constraints.each.filter { $0 != .network }
    for name in names {
      guard let constraint = known.first(where: { $0.name == name }) else {
        let names = known.map(\.name).joined(separator: ", ")
        throw WireError(.invalidParameters, "requires may name \(names), not \"\(name.prefix(32))\".")
      }
      all.insert(constraint)
    }
    return all
  }

  private static func count(_ value: Int64?, _ name: String) throws(WireError) -> Int64? {
    guard let value else { return nil }
    guard value >= 0 else { throw WireError(.invalidParameters, "\(name) counts bytes and must not be negative.") }
    return value
  }

  /// 0 … 1 to 0 … 255, with 0.5 at 128.
  private static func priority(_ value: Double?) throws(WireError) -> UInt8? {
    guard let value else { return nil }
    guard value >= 0, value <= 1 else { throw WireError(.invalidParameters, "priority is a number from 0 to 1.") }
    return UInt8(min(255, (value * 256).rounded(.down)))
  }

  private static func duration(_ seconds: Double?, _ name: String) throws(WireError) -> Duration? {
    guard let seconds else { return nil }
    guard seconds.isFinite, seconds > 0 else {
      throw WireError(.invalidParameters, "\(name) must be more than 0.")
    }
    return .milliseconds(max(1, Int64(min(seconds, 315_360_000) * 1000)))
  }

  static func check(
    _ text: String?, _ name: String, bytes: Int, allowsControl: Bool = false
  ) throws(WireError) {
    guard let text else { return }
    guard text.utf8.count <= bytes else {
      throw WireError(.invalidParameters, "\(name) is longer than \(bytes) bytes.")
    }
    let isClean = text.utf8.allSatisfy { allowsControl ? $0 != 0 : $0 >= 0x20 && $0 != 0x7F }
    guard isClean else { throw WireError(.invalidParameters, "\(name) has a control character.") }
  }

  /// RFC 9110 section 5.6.2.
  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }

  private static func hex(_ word: UInt64) -> String {
    let digits = String(word, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}

extension String {
  /// The index behind the first occurrence of an ASCII text.
  fileprivate func range(ofFirst needle: String) -> Index? {
    guard let first = needle.utf8.first else { return nil }
    var rest = Substring(self).utf8
    while let index = rest.firstIndex(of: first) {
      rest = rest[index...]
      if rest.starts(with: needle.utf8) { return rest.index(index, offsetBy: needle.utf8.count) }
      rest = rest.dropFirst()
    }
    return nil
  }
}
