import TransferCore

/// What a server sees of a request.
struct IncomingRequest {
  var order: AttemptOrder
  var now: Int64
  /// The whole request body came.
  var bodyIsWhole: Bool
  /// The task knows the digest that its content must have, so that even a lie that HTTP cannot show is found.
  var isDigestKnown: Bool

  var method: String { order.request.method }
  func header(_ name: String) -> String? { order.request.headers[name] }

  /// The first byte asked for, where the request names one.
  var rangeStart: Int64? {
    guard let text = header("Range"), text.hasPrefix("bytes="), text.hasSuffix("-") else { return nil }
    return Int64(text.dropFirst(6).dropLast())
  }
}

extension Servers {
  /// A server's answer, honest or not.
  mutating func answer(_ request: IncomingRequest, _ plan: inout FaultPlan, _ dice: inout Dice) -> Answer {
    if let answer = refusal(request, &plan, &dice) { return answer }
    if plan.strikes(.captivePortal, &dice, perMille: 30) {
      return page(request, status: 200, [("Content-Type", "text/html")], acts: false, length: 31)
    }
    if let answer = redirect(request, &plan, &dice) { return answer }
    guard let index = object(at: request.order.request.url) else {
      return page(request, status: 404, [], acts: false, length: 9)
    }
    if request.method != "GET" {
      return page(
        request, status: dice.pick([200, 201, 204]), [], acts: request.bodyIsWhole, length: dice.pick([0, 0, 12]))
    }
    return representation(index, request, &plan, &dice)
  }

  private mutating func page(
    _ request: IncomingRequest, status: Int, _ fields: [(String, String)], acts: Bool, length: Int64
  ) -> Answer {
    var headers = HeaderFields(fields.map { HeaderField(name: $0.0, value: $0.1) })
    let bodyLength = status == 204 ? 0 : length
    if status != 204 { headers.set("Content-Length", to: "\(length)") }
    let version = page(bodyLength)
    return Answer(
      head: ResponseHead(status: status, headers: headers, url: request.order.request.url),
      body: Span(version: version, offset: 0, length: bodyLength), hasActed: acts)
  }

  // MARK: Answers that are no representation

  private mutating func refusal(
    _ request: IncomingRequest, _ plan: inout FaultPlan, _ dice: inout Dice
  ) -> Answer? {
    if plan.strikes(.throttling, &dice, perMille: 25) {
      let fields = retryAfter(request.now, &dice).map { [("Retry-After", $0)] } ?? []
      return page(request, status: dice.pick([429, 503, 408, 425]), fields, acts: false, length: 5)
    }
    if plan.strikes(.serverError, &dice, perMille: 25) {
      // It may have done what it was asked before it fell over.
      return page(
        request, status: dice.pick([500, 502, 504]), [], acts: request.bodyIsWhole && dice.below(2) == 0, length: 8)
    }
    if plan.strikes(.permanentStatus, &dice, perMille: 10) {
      return page(request, status: dice.pick([400, 401, 403, 404, 407, 410, 511]), [], acts: false, length: 11)
    }
    let wants = [("WWW-Authenticate", dice.pick(["Basic realm=\"x\"", "Digest realm=\"x\", nonce=\"1\""]))]
    if request.order.credential == nil {
      if plan.strikes(.challenge, &dice, perMille: 40) {
        return page(request, status: 401, wants, acts: false, length: 9)
      }
    } else if plan.strikes(.refusedCredential, &dice, perMille: 200) {
      return page(request, status: 401, wants, acts: false, length: 9)
    }
    guard request.header("If-Range") != nil else { return nil }
    if plan.strikes(.expiredCredentials, &dice, perMille: 40) {
      return page(request, status: dice.pick([401, 403]), [], acts: false, length: 6)
    }
    if plan.strikes(.preconditionFailed, &dice, perMille: 30) {
      return page(request, status: 412, [], acts: false, length: 4)
    }
    if plan.strikes(.bare416, &dice, perMille: 40) {
      let field = dice.pick(["", "bytes", "bytes */*", "items */40", "bytes */-1", "bytes 5-1/40"])
      return page(request, status: 416, field.isEmpty ? [] : [("Content-Range", field)], acts: false, length: 3)
    }
    guard plan.strikes(.spurious416, &dice, perMille: 40), let index = object(at: request.order.request.url) else {
      return nil
    }
    let length = versions[Int(objects[index].current)].length
    return page(
      request, status: 416, [("Content-Range", "bytes */\(length + 1 + Int64(dice.below(3)))")], acts: false, length: 3)
  }

  /// `Retry-After` in every form that was ever seen; nil: the field is missing.
  private func retryAfter(_ now: Int64, _ dice: inout Dice) -> String? {
    switch dice.below(9) {
    case 0: nil
    case 1: "0"
    case 2: "\(dice.within(1...90))"
    case 3: "99999999999999999999"
    case 4: "-5"
    case 5: HTTPDateText.fixed(Self.seconds(now) + Int64(dice.within(1...120)))
    case 6: HTTPDateText.asctime(Self.seconds(now) + Int64(dice.within(1...120)))
    case 7: HTTPDateText.fixed(Self.seconds(now) - 86_400 * 400)
    default: "soon"
    }
  }

  private mutating func redirect(
    _ request: IncomingRequest, _ plan: inout FaultPlan, _ dice: inout Dice
  ) -> Answer? {
    let status = dice.pick([301, 302, 303, 307, 308])
    let acts = (status == 303 || (status < 303 && request.method == "POST")) && request.bodyIsWhole
    let url = request.order.request.url
    let isSecondHop = url.contains("/moved/")
    if isSecondHop, plan.strikes(.redirectExpires, &dice, perMille: 150) {
      return page(request, status: dice.pick([403, 404, 410]), [], acts: false, length: 7)
    }
    if plan.strikes(.redirectLoop, &dice, perMille: 15) {
      return page(request, status: status, [("Location", url)], acts: acts, length: 2)
    }
    if plan.strikes(.redirectToNowhere, &dice, perMille: 10) {
      return page(
        request, status: status, [("Location", dice.pick(["ftp://x/", "http://", ""]))], acts: acts, length: 2)
    }
    guard plan.strikes(.redirect, &dice, perMille: 60), let index = object(at: url) else { return nil }
    let host = dice.pick(Self.hosts)
    return page(
      request, status: status, [("Location", "\(host)/moved/\(dice.below(1000))/\(index)")], acts: acts, length: 2)
  }

  // MARK: Representations

  private mutating func representation(
    _ index: Int, _ request: IncomingRequest, _ plan: inout FaultPlan, _ dice: inout Dice
  ) -> Answer {
    let current = objects[index].current
    let version = versions[Int(current)]
    if request.isDigestKnown, plan.strikes(.undetectableLie, &dice, perMille: 60) {
      let lie = page(version.length)
      return whole(lie, version, request, &plan, &dice)
    }
    guard let start = request.rangeStart, request.header("Range") != nil else {
      if plan.strikes(.unaskedPart, &dice, perMille: 10), version.length > 2 {
        return part(current, version, from: version.length / 2, request, &plan, &dice)
      }
      return whole(current, version, request, &plan, &dice)
    }
    guard objects[index].canRange, !plan.strikes(.ignoredRange, &dice, perMille: 60) else {
      return whole(current, version, request, &plan, &dice)
    }
    if let condition = request.header("If-Range"), !plan.strikes(.ignoredIfRange, &dice, perMille: 150) {
      let compareWeakly = plan.strikes(.weakComparison, &dice, perMille: 200)
      if !holds(condition, version, request.now, weakly: compareWeakly) {
        return whole(current, version, request, &plan, &dice)
      }
    }
    guard start < version.length else {
      var fields = [("Content-Range", "bytes */\(version.length)")]
      if dice.below(2) == 0, let tag = version.entityTag { fields.append(("ETag", tag)) }
      return page(request, status: 416, fields, acts: false, length: 3)
    }
    return part(current, version, from: start, request, &plan, &dice)
  }

  /// RFC 9110 section 13.1.5.
  private func holds(_ condition: String, _ version: Version, _ now: Int64, weakly: Bool) -> Bool {
    if condition.hasPrefix("\"") || condition.hasPrefix("W/") {
      guard let tag = version.entityTag else { return false }
      if weakly { return Self.opaque(tag) == Self.opaque(condition) }
      return tag == condition && !tag.hasPrefix("W/")
    }
    return version.modifiedSeconds.map { HTTPDateText.fixed($0) == condition } ?? false
  }

  private static func opaque(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }

  private func validators(
    _ version: Version, _ request: IncomingRequest, _ plan: inout FaultPlan, _ dice: inout Dice
  ) -> HeaderFields {
    var headers: HeaderFields = []
    if !plan.strikes(.omittedDate, &dice, perMille: 100) {
      headers.set("Date", to: HTTPDateText.fixed(Self.seconds(request.now)))
    }
    if let tag = version.entityTag { headers.set("ETag", to: tag) }
    if let modified = version.modifiedSeconds { headers.set("Last-Modified", to: HTTPDateText.fixed(modified)) }
    return headers
  }

  private mutating func whole(
    _ number: Int32, _ version: Version, _ request: IncomingRequest, _ plan: inout FaultPlan, _ dice: inout Dice
  ) -> Answer {
    var headers = validators(version, request, &plan, &dice)
    var body = Span(version: number, offset: 0, length: version.length)
    if version.isEncoded { headers.set("Content-Encoding", to: dice.pick(["gzip", "x-gzip", "GZip"])) }
    if plan.strikes(.chunkedBody, &dice, perMille: 150) {
      headers.set("Transfer-Encoding", to: "chunked")
    } else if plan.strikes(.bodyUntilClose, &dice, perMille: 60) {
      // No length at all.
    } else if plan.strikes(.inflatedLength, &dice, perMille: 20) {
      headers.set("Content-Length", to: "\(version.length + 1 + Int64(dice.below(5)))")
    } else {
      headers.set("Content-Length", to: "\(version.length)")
      if plan.strikes(.extraBytes, &dice, perMille: 20) { body.length += 1 }
    }
    return Answer(
      head: ResponseHead(status: 200, headers: headers, url: request.order.request.url), body: body, hasActed: true)
  }

  private mutating func part(
    _ number: Int32, _ version: Version, from start: Int64, _ request: IncomingRequest, _ plan: inout FaultPlan,
    _ dice: inout Dice
  ) -> Answer {
    var first = start
    var last = version.length - 1
    var total = "\(version.length)"
    if plan.strikes(.wrongRangeStart, &dice, perMille: 60) {
      first = dice.below(2) == 0 ? max(0, first - Int64(dice.within(1...9))) : min(last, first + 1)
    }
    let isShort = plan.strikes(.shortRange, &dice, perMille: 60)
    if isShort, last > first { last -= 1 }
    if plan.strikes(.wrongTotal, &dice, perMille: 40) { total = "\(last + 1 + Int64(dice.within(1...3)))" }
    // A part that ends early under an unknown length is a lie that nothing shows.
    if dice.below(12) == 0, !isShort { total = "*" }
    var range: String? = "bytes \(first)-\(last)/\(total)"
    if plan.strikes(.unusableRange, &dice, perMille: 60) {
      range = dice.pick([
        nil, "items \(first)-\(last)/\(total)", "bytes \(first)-/\(total)", "bytes=\(first)-\(last)", "",
      ])
    }
    var headers = validators(version, request, &plan, &dice)
    if plan.strikes(.omittedPartValidator, &dice, perMille: 200) {
      headers.remove("ETag")
      if request.header("If-Range")?.hasPrefix("\"") == true { headers.remove("Last-Modified") }
    }
    // RFC 9110 section 15.3.7: a 206 to If-Range leaves out what the client has already.
    if version.isEncoded, dice.below(2) == 0 { headers.set("Content-Encoding", to: "gzip") }
    if let range { headers.set("Content-Range", to: range) }
    if dice.below(5) > 0 { headers.set("Content-Length", to: "\(last - first + 1)") }
    return Answer(
      head: ResponseHead(status: 206, headers: headers, url: request.order.request.url),
      body: Span(version: number, offset: first, length: last - first + 1), hasActed: true)
  }
}
