/// Judges a response: a total function of its status, its headers and what was asked. The engine calls it when the
/// final header block is in; nothing else decides whether a body byte may touch a part file.
package enum ResponseTable {
  package static func judge(_ head: ResponseHead, _ context: JudgementContext) -> ResponseVerdict {
    // RFC 9110 section 15.4: only these five say "ask there"; a 3xx without Location is an answer like any other.
    if [301, 302, 303, 307, 308].contains(head.status), head.headers.contains("Location") { return .redirect }
    if let resume = context.resume { return judgeResumption(head, resume, context) }
    switch head.status {
    case 206:
      if context.asksForPart { return .takeWhole }
      // RFC 9110 section 15.3.7: a 206 answers only a Range request, and none was sent.
      return .retryLater(
        TransferFailure(
          .badServerResponse, .transient, domain: "http", number: 206,
          detail: "The server sent a part (206) although the whole was asked for."))
    case 200...299: return .takeWhole
    default: return judgeFailureStatus(head, context, isResumption: false)
    }
  }

  // MARK: Answers to a resumption

  private static func judgeResumption(
    _ head: ResponseHead, _ resume: ResumePoint, _ context: JudgementContext
  ) -> ResponseVerdict {
    switch head.status {
    case 206: return judgePart(head, resume)
    // RFC 9110 section 13.1.5: If-Range did not hold, or the server has no ranges: this is the whole, perhaps another
    // one.
    case 200: return .takeWhole
    case 201...299: return .restart(reason: "The server answered a range request with \(head.status).")
    case 416:
      // RFC 9110 section 15.5.17: "bytes */total". When we hold just that much of the same representation, we are done;
      // and that it is the same must be told, for a server that ignores If-Range may mean another one of this length.
      if case .unsatisfied(let total)? = head.headers["Content-Range"].flatMap(ContentRange.init),
        total == resume.offset, resume.total == nil || resume.total == total, validatorAgrees(head, resume)
      {
        return .alreadyComplete
      }
      return .restart(reason: "The server cannot satisfy the range (416).")
    // RFC 9110 section 15.5.13: our precondition failed, so the representation is another one.
    case 412: return .restart(reason: "The server's precondition failed (412).")
    case 401, 403, 407:
      switch context.asking {
      case .never, .knownSchemes: return judgeFailureStatus(head, context, isResumption: false)
      case .whenResuming, .always: return .ask(refusal(head, .credentialsRequired))
      }
    default: return judgeFailureStatus(head, context, isResumption: true)
    }
  }

  /// RFC 9110 section 15.3.7: what a 206 must show before its bytes may follow the ones held.
  private static func judgePart(_ head: ResponseHead, _ resume: ResumePoint) -> ResponseVerdict {
    guard let text = head.headers["Content-Range"], let parsed = ContentRange(text) else {
      return .restart(reason: "The part (206) has no usable Content-Range.")
    }
    guard case .range(let first, let last, let total) = parsed else {
      return .restart(reason: "The part (206) says that its range is unsatisfied.")
    }
    guard first == resume.offset else {
      return .restart(reason: "The part (206) starts at byte \(first), not at \(resume.offset) as asked.")
    }
    if let held = resume.total, let total, held != total {
      return .restart(reason: "The whole length changed from \(held) to \(total) bytes.")
    }
    // We asked for everything to the end; a shorter part would leave a gap at the end that nobody asks for again.
    if let end = total ?? resume.total, last != end - 1 {
      return .restart(reason: "The part (206) ends at byte \(last), before the end.")
    }
    if let length = head.headers["Content-Length"], !head.headers.contains("Transfer-Encoding"),
      Int64(length)?.subtractingClamped(1) != last - first
    {
      return .restart(reason: "The part's Content-Range and Content-Length contradict each other.")
    }
    guard validatorAgrees(head, resume) else {
      return .restart(reason: "The part (206) is of another version: its validator differs.")
    }
    return .continueAt(first)
  }

  /// Some servers ignore If-Range, so the answer's own validator is compared too. A 206 must carry the ETag that a 200
  /// would have (RFC 9110 section 15.3.7), so one without it comes from a server that keeps no such rule; to If-Range
  /// it may leave out Last-Modified, and a missing date alone proves nothing against it. A 416 has no such excuse: it
  /// ends the transfer with what is held.
  private static func validatorAgrees(_ head: ResponseHead, _ resume: ResumePoint) -> Bool {
    switch resume.validator {
    case .entityTag(let tag):
      guard let told = head.headers["ETag"]?.trimmingOptionalWhitespace else { return false }
      return told.utf8.elementsEqual(tag.utf8)
    case .lastModified(let date):
      guard let told = head.headers["Last-Modified"]?.trimmingOptionalWhitespace else { return head.status == 206 }
      return told.utf8.elementsEqual(date.utf8)
    }
  }

  // MARK: Statuses outside 2xx

  private static func judgeFailureStatus(
    _ head: ResponseHead, _ context: JudgementContext, isResumption: Bool
  ) -> ResponseVerdict {
    let asks = context.asking == .always || context.asking == .knownSchemes
    if asks, isAskable(head, context) { return .ask(refusal(head, .credentialsRequired)) }
    let isTransient = [408, 425, 429, 500, 502, 503, 504].contains(head.status)
    switch context.statusRule {
    case .any:
      // URLSession: every status is a completed transfer; but an error page must not overwrite half a file that a later
      // attempt can finish.
      if isResumption && (isTransient || head.status >= 500) { return .retryLater(transientStatus(head, context)) }
      return .takeWhole
    case .successOnly:
      if isTransient { return .retryLater(transientStatus(head, context)) }
      // What a server says to a refused upload is its client's to read; the status still fails the task at the end.
      return context.kind == .upload ? .takeWhole : .reject(refusal(head))
    }
  }

  /// Why a task fails whose server refused it with this status.
  package static func refusal(_ head: ResponseHead) -> TransferFailure {
    refusal(head, head.status == 401 || head.status == 407 ? .credentialsRequired : .httpStatus)
  }

  private static func refusal(_ head: ResponseHead, _ code: FailureCode) -> TransferFailure {
    let isProxy = head.status == 407 && code == .credentialsRequired
    return statusFailure(head, isProxy ? .proxyCredentialsRequired : code, .permanent)
  }

  /// A status that credentials lift (RFC 9110 section 11). URLSession makes a challenge of it only where it knows the
  /// scheme, and else delivers it like any other answer.
  private static func isAskable(_ head: ResponseHead, _ context: JudgementContext) -> Bool {
    guard head.status == 401 || head.status == 407 else { return false }
    if context.statusRule == .successOnly { return true }
    let name = head.status == 401 ? "WWW-Authenticate" : "Proxy-Authenticate"
    switch AuthenticateField.choose(AuthenticateField.parse(head.headers.values(name))).method {
    case .basic, .digest, .negotiate, .ntlm: return true
    case .bearer, .clientCertificate, .serverTrust, .unknown: return false
    }
  }

  private static func transientStatus(_ head: ResponseHead, _ context: JudgementContext) -> TransferFailure {
    var failure = statusFailure(head, .httpStatus, .transient)
    failure.retryAfterSeconds = head.headers["Retry-After"].flatMap { RetryAfter.seconds($0, now: context.now) }
    return failure
  }

  private static func statusFailure(
    _ head: ResponseHead, _ code: FailureCode, _ retryability: Retryability
  ) -> TransferFailure {
    TransferFailure(
      code, retryability, domain: "http", number: head.status, detail: "The server answered with status \(head.status)."
    )
  }
}

/// `Retry-After` (RFC 9110 section 10.2.3) in both forms.
package enum RetryAfter {
  /// Seconds to wait from now, clamped to 1 s … 24 h; nil where the text is neither form.
  package static func seconds(_ text: String, now: WallInstant) -> Int? {
    let trimmed = text.trimmingOptionalWhitespace
    if !trimmed.isEmpty, trimmed.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) {
      return clamp(Int64(trimmed) ?? .max)
    }
    guard let date = HTTPDate.parse(trimmed) else { return nil }
    return clamp((date.milliseconds.subtractingClamped(now.milliseconds)) / 1000)
  }

  private static func clamp(_ seconds: Int64) -> Int { Int(min(max(seconds, 1), 86_400)) }
}

extension ResponseHead {
  /// The validator that this response gives to later range requests, where it gives one that may be used.
  package var validator: Validator? {
    // RFC 9110 section 13.1.5: a weak tag never goes into If-Range, and a date only where there is no tag at all.
    if let tag = headers["ETag"]?.trimmingOptionalWhitespace {
      return Self.isStrong(Array(tag.utf8)) ? .entityTag(tag) : nil
    }
    // RFC 9110 section 8.8.2.2: a date is strong only when the server's clock had moved on by a minute.
    guard let modified = headers["Last-Modified"]?.trimmingOptionalWhitespace, let date = headers["Date"],
      let modifiedAt = HTTPDate.parse(modified), let sentAt = HTTPDate.parse(date.trimmingOptionalWhitespace),
      sentAt - modifiedAt >= .seconds(60)
    else { return nil }
    return .lastModified(modified)
  }

  /// RFC 9110 section 8.8.3, without bytes outside ASCII: whoever decodes them as text may make one tag of two.
  private static func isStrong(_ tag: [UInt8]) -> Bool {
    let quote = UInt8(ascii: "\"")
    return tag.count >= 2 && tag.count <= 1024 && tag.first == quote && tag.last == quote
      && tag.dropFirst().dropLast().allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != quote }
  }

  /// The whole length of the representation that this response carries or continues, where it says so.
  package var totalLength: Int64? {
    if status == 206 {
      guard case .range(_, _, let total)? = headers["Content-Range"].flatMap(ContentRange.init) else { return nil }
      return total
    }
    return contentLength
  }

  /// The length of this response's own body, where it says so.
  package var contentLength: Int64? {
    // RFC 9112 section 6.3: Transfer-Encoding overrides Content-Length.
    if headers.contains("Transfer-Encoding") { return nil }
    guard let text = headers["Content-Length"]?.trimmingOptionalWhitespace, !text.isEmpty,
      text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
    else { return nil }
    return Int64(text)
  }
}
