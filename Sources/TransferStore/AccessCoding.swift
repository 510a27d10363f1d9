internal import TransferCore

// What is asked, and what an app gave for it, as lines of `name: value`. Each pair writes and reads the same names.

extension TLSSettings {
  var stored: HeaderFields {
    var fields = HeaderFields()
    func add(_ name: String, _ value: String?) {
      if let value { fields.fields.append(HeaderField(name: name, value: value)) }
    }
    add("minimum", minimum?.rawValue)
    add("maximum", maximum?.rawValue)
    add("authority-file", authorityFile)
    for key in pinnedKeys { add("pinned-key", key) }
    add("certificate-file", certificateFile)
    add("key-file", keyFile)
    add("key-password", keyPassword?.text)
    if asksAboutServers { add("asks-about-servers", "1") }
    if asksForCertificate { add("asks-for-certificate", "1") }
    for domain in pinnedDomains {
      add("pinned-domain", "\(domain.includesSubdomains ? "*." : "")\(domain.domain)")
      for key in domain.keys { add("pinned-domain-key", key) }
    }
    return fields
  }

  init(stored: HeaderFields) throws(RowFault) {
    self.init()
    for field in stored.fields {
      switch field.name {
      case "minimum": minimum = try Self.version(field.value)
      case "maximum": maximum = try Self.version(field.value)
      case "authority-file": authorityFile = field.value
      case "pinned-key": pinnedKeys.append(field.value)
      case "certificate-file": certificateFile = field.value
      case "key-file": keyFile = field.value
      case "key-password": keyPassword = Secret(field.value)
      case "asks-about-servers": asksAboutServers = field.value == "1"
      case "asks-for-certificate": asksForCertificate = field.value == "1"
      case "pinned-domain":
        let isWide = field.value.hasPrefix("*.")
        pinnedDomains.append(
          PinnedDomain(
            domain: isWide ? String(field.value.dropFirst(2)) : field.value, includesSubdomains: isWide, keys: []))
      case "pinned-domain-key":
        guard !pinnedDomains.isEmpty else { throw RowFault("a pinned key has no domain") }
        pinnedDomains[pinnedDomains.count - 1].keys.append(field.value)
      default: throw RowFault("the settings of TLS hold an unknown name")
      }
    }
  }

  private static func version(_ text: String) throws(RowFault) -> Version {
    guard let version = Version(rawValue: text) else { throw RowFault("a version of TLS has an unknown name") }
    return version
  }

  static func read(from row: Statement) throws(RowFault) -> TLSSettings? {
    guard let fields = try row.nextOptionalHeaders() else { return nil }
    return try TLSSettings(stored: fields)
  }
}

extension Question {
  var stored: HeaderFields {
    switch self {
    case .delayedRequest: return [("kind", "delayedRequest")]
    case .freshRequest(let status, let failures):
      return [("kind", "freshRequest"), ("status", "\(status)"), ("failures", "\(failures)")]
    case .challenge(let challenge):
      var fields: HeaderFields = [
        ("kind", "challenge"), ("method", challenge.method.rawValue), ("proxy", challenge.isProxy ? "1" : "0"),
        ("origin", challenge.origin), ("failures", "\(challenge.previousFailures)"),
      ]
      if let realm = challenge.realm { fields.fields.append(HeaderField(name: "realm", value: realm)) }
      fields.fields += challenge.server?.stored ?? []
      return fields
    }
  }

  static func read(from row: Statement) throws(RowFault) -> Question? {
    guard let fields = try row.nextOptionalHeaders() else { return nil }
    func number(_ name: String) throws(RowFault) -> Int {
      guard let text = fields[name], let value = Int(text), value >= 0 else {
        throw RowFault("a question lacks its \(name)")
      }
      return value
    }
    switch fields["kind"] {
    case "delayedRequest": return .delayedRequest
    case "freshRequest": return .freshRequest(status: try number("status"), previousFailures: try number("failures"))
    case "challenge":
      guard let method = fields["method"].flatMap(Challenge.Method.init(rawValue:)), let origin = fields["origin"],
        let proxy = fields["proxy"]
      else { throw RowFault("a challenge is incomplete") }
      return .challenge(
        Challenge(
          method: method, isProxy: proxy == "1", origin: origin, realm: fields["realm"],
          previousFailures: try number("failures"), server: try ShownServer.read(from: fields)))
    default: throw RowFault("a question has an unknown kind")
    }
  }
}

extension ShownServer {
  var stored: [HeaderField] {
    [
      HeaderField(name: "server-certificate", value: certificate), HeaderField(name: "server-key", value: key),
      HeaderField(name: "server-vouched", value: isVouched ? "1" : "0"),
    ] + chain.map { HeaderField(name: "server-chain", value: $0) }
  }

  static func read(from fields: HeaderFields) throws(RowFault) -> ShownServer? {
    guard let certificate = fields["server-certificate"] else { return nil }
    guard let key = fields["server-key"], let vouched = fields["server-vouched"] else {
      throw RowFault("what a server showed is incomplete")
    }
    return ShownServer(
      chain: fields.values("server-chain"), certificate: certificate, key: key, isVouched: vouched == "1")
  }
}

extension AcceptedCertificate {
  /// None of the four holds a space.
  fileprivate var stored: String { "\(origin) \(certificate) \(key) \(mustBeVouched ? "vouched" : "any")" }

  fileprivate init(stored: String) throws(RowFault) {
    let parts = stored.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 4, parts[3] == "vouched" || parts[3] == "any" else {
      throw RowFault("an accepted certificate is incomplete")
    }
    self.init(
      origin: String(parts[0]), certificate: String(parts[1]), key: String(parts[2]),
      mustBeVouched: parts[3] == "vouched")
  }
}

extension TaskAccess {
  var stored: HeaderFields {
    var fields = HeaderFields()
    func add(_ name: String, _ value: String) { fields.fields.append(HeaderField(name: name, value: value)) }
    func add(_ prefix: String, _ credential: TransferCredential?) {
      guard let credential else { return }
      add("\(prefix)origin", credential.origin)
      add("\(prefix)user", credential.user)
      add("\(prefix)password", credential.password.text)
      if let method = credential.method { add("\(prefix)method", method.rawValue) }
    }
    add("", credential)
    add("proxy-", proxyCredential)
    if declines { add("declines", "1") }
    if failures > 0 { add("failures", "\(failures)") }
    for certificate in accepted { add("accepted", certificate.stored) }
    for place in identities {
      add("place", place.origin)
      for field in TLSSettings().with(place.identity).stored.fields { add("place-\(field.name)", field.value) }
    }
    for field in tls?.stored.fields ?? [] { add("tls-\(field.name)", field.value) }
    if let replacement {
      add("request-method", replacement.method)
      add("request-url", replacement.url)
      for name in replacement.secretHeaderNames { add("request-secret", name) }
      for field in replacement.headers.fields { add("request-header", "\(field.name): \(field.value)") }
    }
    return fields
  }

  static func read(from row: Statement) throws(RowFault) -> TaskAccess? {
    guard let fields = try row.nextOptionalHeaders() else { return nil }
    var access = TaskAccess()
    var tls = HeaderFields()
    access.credential = try credential("", fields)
    access.proxyCredential = try credential("proxy-", fields)
    access.declines = fields["declines"] == "1"
    if let text = fields["failures"] {
      guard let count = Int(text), count >= 0 else { throw RowFault("a count of refused answers is no number") }
      access.failures = count
    }
    for field in fields.fields where field.name.hasPrefix("tls-") {
      tls.fields.append(HeaderField(name: String(field.name.dropFirst(4)), value: field.value))
    }
    access.identities = try identities(fields)
    for text in fields.values("accepted") { access.accepted.append(try AcceptedCertificate(stored: text)) }
    if !tls.fields.isEmpty { access.tls = try TLSSettings(stored: tls) }
    if let url = fields["request-url"] {
      guard let method = fields["request-method"] else { throw RowFault("a fresh request lacks its method") }
      access.replacement = TransferRequest(
        method: method, url: url, headers: try headers(fields), secretHeaderNames: fields.values("request-secret"))
    }
    return access
  }

  private static func identities(_ fields: HeaderFields) throws(RowFault) -> [PlacedIdentity] {
    var places: [(origin: String, tls: HeaderFields)] = []
    for field in fields.fields {
      if field.name == "place" { places.append((field.value, HeaderFields())) }
      guard field.name.hasPrefix("place-") else { continue }
      guard !places.isEmpty else { throw RowFault("a certificate of ours has no place") }
      places[places.count - 1].tls.fields.append(
        HeaderField(name: String(field.name.dropFirst(6)), value: field.value))
    }
    var identities: [PlacedIdentity] = []
    for place in places {
      identities.append(PlacedIdentity(origin: place.origin, identity: try TLSSettings(stored: place.tls).identity))
    }
    return identities
  }

  private static func headers(_ fields: HeaderFields) throws(RowFault) -> HeaderFields {
    var headers: [HeaderField] = []
    for line in fields.values("request-header") {
      guard let colon = line.utf8.firstIndex(of: UInt8(ascii: ":")), colon != line.utf8.startIndex else {
        throw RowFault("a header of a fresh request is not `Name: value`")
      }
      let value = line.utf8[line.utf8.index(after: colon)...].dropFirst()
      headers.append(HeaderField(name: String(line[..<colon]), value: String(Substring(value))))
    }
    return HeaderFields(headers)
  }

  private static func credential(_ prefix: String, _ fields: HeaderFields) throws(RowFault) -> TransferCredential? {
    guard let user = fields["\(prefix)user"] else { return nil }
    guard let password = fields["\(prefix)password"], let origin = fields["\(prefix)origin"] else {
      throw RowFault("a credential is incomplete")
    }
    var method: Challenge.Method?
    if let name = fields["\(prefix)method"] {
      method = Challenge.Method(rawValue: name)
      if method == nil { throw RowFault("a credential has an unknown method") }
    }
    return TransferCredential(user: user, password: Secret(password), method: method, origin: origin)
  }
}
