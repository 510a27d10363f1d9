import WireProtocol

extension TaskText {
  /// What the task asks, and how a person answers: "Task 7 needs an answer: …; `ferry answer 7 --user NAME` goes on."
  static func asking(_ task: TaskSnapshot) -> String {
    let reason = TerminalText.escaped(task.reason ?? "it needs an answer")
    return "Task \(task.id) \(reason); \(remedy(task)) goes on."
  }

  /// The command that answers; the daemon takes the others too. Whether a certificate is the right one only a person
  /// can tell, who has its fingerprint from elsewhere.
  static func remedy(_ task: TaskSnapshot) -> String {
    let question = task.question
    if question?.method == "serverTrust", let certificate = question?.certificate {
      return "`ferry answer \(task.id) --cacert FILE`, or, if that is its certificate, "
        + "`ferry answer \(task.id) --trust \(TerminalText.escaped(certificate))`"
    }
    let option =
      switch (question?.kind, question?.method) {
      case ("freshRequest", _): "--url URL"
      case (_, "basic"), (_, "digest"): "--user NAME"
      case (_, "unknown") where question?.isProxy == true: "--user NAME"
      case (_, "bearer"): "--secret-header \"Authorization: Bearer TOKEN\""
      case (_, "clientCertificate"): "--cert FILE"
      case (_, "serverTrust"): "--cacert FILE"
      default: "--proceed"
      }
    return "`ferry answer \(task.id) \(option)`"
  }
}
