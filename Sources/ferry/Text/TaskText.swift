import WireProtocol

/// How one task is told in words. Everything that comes from outside is escaped here.
enum TaskText {
  static func isFinished(_ state: String) -> Bool { ["succeeded", "failed", "cancelled"].contains(state) }

  /// Bytes that count for a person: those sent of an upload, those received else.
  static func counts(_ task: TaskSnapshot) -> (done: Int64, whole: Int64?) {
    task.kind == "upload" ? (task.sent, task.expectedToSend) : (task.received, task.expected)
  }

  /// The progress of one task for a line of so many columns. The most important parts come first, and what has no room
  /// is left out from the end; the name takes what is left over.
  static func progress(
    _ task: TaskSnapshot, name: String, bytesPerSecond: Double?, wallMilliseconds: Int64, columns: Int
  ) -> String {
    let parts = progressParts(task, bytesPerSecond: bytesPerSecond, wallMilliseconds: wallMilliseconds)
    var line = ""
    for (index, part) in parts.enumerated() {
      let longer = index == 0 ? part : "\(line)  \(part)"
      guard TerminalText.columns(longer) <= columns else {
        return index == 0 ? TerminalText.fitted(part, columns: columns) : line
      }
      line = longer
    }
    let room = columns - TerminalText.columns(line) - 2
    guard room >= 8 else { return line }
    return "\(TerminalText.fitted(TerminalText.escaped(name), columns: min(room, 40)))  \(line)"
  }

  private static func progressParts(
    _ task: TaskSnapshot, bytesPerSecond: Double?, wallMilliseconds: Int64
  ) -> [String] {
    let (done, whole) = counts(task)
    switch task.state {
    case "suspended": return ["paused; `ferry resume \(task.id)` goes on"]
    case "waiting": return [waiting(task, wallMilliseconds: wallMilliseconds), amount(done, whole)]
    case "asking": return [TerminalText.escaped(task.reason ?? "needs an answer"), remedy(task)]
    case "finalizing": return ["finishing", amount(done, whole)]
    default: break
    }
    if whole == nil, done == 0 { return ["connecting"] }
    var parts: [String] = []
    if let percent = Quantity.percent(done, of: whole) { parts.append("\(percent) %") }
    parts.append(amount(done, whole))
    if let bytesPerSecond {
      parts.append(Quantity.rate(bytesPerSecond))
      if let whole, whole > done, bytesPerSecond >= 1 {
        parts.append("\(Quantity.time(seconds: max(1, Double(whole - done) / bytesPerSecond))) left")
      }
    }
    return parts
  }

  /// "waiting: server said 503, next try in 8 s"
  static func waiting(_ task: TaskSnapshot, wallMilliseconds: Int64) -> String {
    // The daemon's reason says when as well, but as of the moment it was told; here the seconds go down.
    if let next = nextAttempt(task, wallMilliseconds: wallMilliseconds), let detail = task.error?.detail {
      let cause = detail.hasSuffix(".") ? String(detail.dropLast()) : detail
      return "waiting: \(TerminalText.escaped(cause)), next try \(next)"
    }
    return task.reason.map { "waiting: \(TerminalText.escaped($0))" } ?? "waiting"
  }

  /// For somebody who sees no progress line, and would wait for ever without a word.
  static func waitNotice(_ id: Int64, _ cause: String) -> String {
    let sentence = cause.hasSuffix(".") ? String(cause.dropLast()) : cause
    return "Task \(id) waits: \(TerminalText.escaped(sentence)). It goes on by itself; `ferry why \(id)` tells when, "
      + "`ferry cancel \(id)` ends it."
  }

  /// "in 8 s", "now"; nil where none is set.
  static func nextAttempt(_ task: TaskSnapshot, wallMilliseconds: Int64) -> String? {
    guard let next = task.nextAttemptMilliseconds else { return nil }
    let (left, overflow) = next.subtractingReportingOverflow(wallMilliseconds)
    guard !overflow, left > 0 else { return "now" }
    return "in \(Quantity.time(seconds: (Double(left) / 1000).rounded(.up)))"
  }

  private static func amount(_ done: Int64, _ whole: Int64?) -> String {
    guard let whole else { return Quantity.bytes(done) }
    return "\(Quantity.bytes(done)) of \(Quantity.bytes(whole))"
  }

  /// Why a task ended as it did, as one sentence for standard error.
  static func ending(_ task: TaskSnapshot) -> String {
    switch task.state {
    case "succeeded": return "Task \(task.id) has succeeded."
    case "cancelled": return "Task \(task.id) was cancelled."
    default:
      let why = task.error?.detail ?? task.reason ?? "no reason was given"
      let code = task.error.map { " (\($0.code))" } ?? ""
      return "Task \(task.id) failed: \(why)\(code)"
    }
  }

  /// The lines of `ferry show`: what is known, in the order in which a person asks for it.
  static func page(_ task: TaskSnapshot, wallMilliseconds: Int64) -> [String] {
    let (done, whole) = counts(task)
    var rows: [(String, String?)] = [
      ("task", "\(task.id) (number \(task.number) of session \(task.session) of \(task.app))"),
      ("kind", task.kind),
      ("state", task.state),
      ("reason", task.reason),
      ("answer", task.question == nil ? nil : remedy(task)),
      ("next try", nextAttempt(task, wallMilliseconds: wallMilliseconds)),
      ("error", task.error.map { "\($0.detail) (\($0.code)\(origin($0)))" }),
      ("request", "\(task.method) \(task.url)"),
      ("now at", task.currentURL == task.url ? nil : task.currentURL),
    ]
    for header in task.headers ?? [] { rows.append(("header", "\(header.name): \(header.value)")) }
    rows += [
      ("progress", Quantity.percent(done, of: whole).map { "\($0) %, \(amount(done, whole))" } ?? amount(done, whole)),
      ("received", task.kind == "upload" && task.received > 0 ? Quantity.bytes(task.received) : nil),
      ("file", task.file),
      ("body", task.body),
      ("response", task.response.map { "HTTP/\($0.httpVersion) \($0.status)" }),
      ("sha256", task.sha256),
      ("validator", task.validator),
      ("length", task.isLengthVerified == false ? "not verified: the server did not say how long the content is" : nil),
      ("attempts", String(task.attempts)),
      ("fetched twice", task.wasted.flatMap { $0 > 0 ? Quantity.bytes($0) : nil }),
      ("source kept by", task.pin),
      ("waits for", task.requires?.joined(separator: ", ")),
      ("discretionary", task.isDiscretionary == true ? "it begins when the device has power and a good network" : nil),
      ("not before", task.earliestBeginMilliseconds.map(LocalTime.text)),
      ("expects", expectation(task)),
      ("description", task.description),
      ("created", LocalTime.text(milliseconds: task.createdMilliseconds)),
      ("ended", task.finishedMilliseconds.map(LocalTime.text)),
      ("kept until", task.expiresMilliseconds.map { "\(LocalTime.text(milliseconds: $0)), unless it is collected" }),
      ("can go on", task.resumeToken.map { _ in "yes, by a new task of its program (resume data)" }),
    ]
    rows += TimingText.rows(task.metrics)
    return rows.compactMap { name, value in
      value.map { "\(TerminalText.padded("\(name):", columns: 16))\(TerminalText.escaped($0))" }
    }
  }

  /// What its owner expects to send and to receive.
  private static func expectation(_ task: TaskSnapshot) -> String? {
    let parts = [
      task.clientExpectsToSend.map { "to send \(Quantity.bytes($0))" },
      task.clientExpectsToReceive.map { "to receive \(Quantity.bytes($0))" },
    ].compactMap { $0 }
    return parts.isEmpty ? nil : parts.joined(separator: ", ")
  }

  private static func origin(_ failure: WireFailure) -> String {
    failure.domain.isEmpty ? "" : ", \(failure.domain) \(failure.number)"
  }
}
