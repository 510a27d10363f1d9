// Servers that are taken for the right ones because the app said so. Its word is for one certificate of one place, and
// for the task that asked.

/// What an attempt may show, and whom.
struct AttemptAccess {
  var credential: TransferCredential?
  var proxyCredential: TransferCredential?
  var tls: TLSSettings
  var trust: ServerTrust
}

extension Core {
  /// What is shown to one place of an attempt, and what is expected of it.
  func settings(in origin: Origin?, _ access: TaskAccess?, _ tls: TLSSettings) -> TLSSettings {
    guard let origin else { return tls }
    var tls = tls.pinned(to: origin.host)
    if let place = access?.identities.first(where: { $0.origin == origin.description }) {
      tls = tls.with(place.identity)
      tls.asksForCertificate = false
    }
    if tls.certificateFile != nil { tls.asksForCertificate = false }
    return tls
  }

  func trust(in origin: Origin?, _ access: TaskAccess?, _ tls: TLSSettings) -> ServerTrust {
    guard let origin, origin.scheme == "https" else { return .vouched }
    if let accepted = access?.accepted.first(where: { $0.origin == origin.description }) { return .accepted(accepted) }
    return tls.asksAboutServers ? .unseen : .vouched
  }

  /// Whether the app is asked about a failure of this kind. That it left an earlier challenge to the default says
  /// nothing about a server that it wants to see.
  func mayAsk(about failure: TransferFailure, _ held: TaskDetails, _ session: SessionRecord) -> Bool {
    if askRule(held, session) == .always { return true }
    return failure.code == .certificateUntrusted && asksAboutServers(held, session)
      && (held.plan.answersChallenges ?? session.answersChallenges)
  }

  private func asksAboutServers(_ held: TaskDetails, _ session: SessionRecord) -> Bool {
    madeSettings(held, session).asksAboutServers
  }

  private func madeSettings(_ held: TaskDetails, _ session: SessionRecord) -> TLSSettings {
    (session.network.tls ?? TLSSettings()).overridden(by: held.plan.tls).overridden(by: held.progress.access?.tls)
  }

  /// The certificate that was asked about is the right one.
  mutating func accept(_ challenge: Challenge, of id: TaskID) {
    guard let server = challenge.server else { return }
    let accepted = AcceptedCertificate(
      origin: challenge.origin, certificate: server.certificate, key: server.key, mustBeVouched: server.isVouched)
    let declines = details[id]?.progress.access?.declines ?? false
    changeAccess(id) { access in
      access.declines = declines
      access.accepted.removeAll { $0.origin == accepted.origin }
      access.accepted.append(accepted)
      if access.accepted.count > Limits.knownPlaces { access.accepted.removeFirst() }
    }
  }

  /// What the place that asked is shown from now on; nil: nothing.
  mutating func show(_ identity: ClientIdentity?, to challenge: Challenge, of id: TaskID) {
    let declines = details[id]?.progress.access?.declines ?? false
    changeAccess(id) { access in
      access.declines = declines
      access.identities.removeAll { $0.origin == challenge.origin }
      access.identities.append(PlacedIdentity(origin: challenge.origin, identity: identity))
      if access.identities.count > Limits.knownPlaces { access.identities.removeFirst() }
    }
  }

  /// Default handling of a question for a certificate of ours: a server that has only wished for one may go on without.
  mutating func goWithoutIdentity(_ challenge: Challenge, of id: TaskID) -> Bool {
    guard challenge.method == .clientCertificate, let held = details[id],
      let session = tasks[id].flatMap({ sessions[$0.entry.session]?.record }),
      madeSettings(held, session).asksForCertificate, !wasShownIdentity(challenge.origin, held)
    else { return false }
    show(nil, to: challenge, of: id)
    return true
  }

  /// The place was shown a certificate of ours by an answer, or was refused one.
  func wasShownIdentity(_ origin: String, _ held: TaskDetails) -> Bool {
    held.progress.access?.identities.contains { $0.origin == origin } == true
  }

  /// Default handling of a question about a server: whom the authorities vouch for is accepted, and nobody else.
  mutating func acceptVouched(_ challenge: Challenge, of id: TaskID) -> Bool {
    guard challenge.server?.isVouched == true else { return false }
    accept(challenge, of: id)
    return true
  }

  /// A server showed another certificate than the one that was accepted, which counts no more. If the authorities vouch
  /// for the new one, and nobody wants to be asked all the same, it is as if nothing had been accepted.
  mutating func goesOnVouched(_ id: TaskID, _ work: ActiveTask, _ server: ShownServer) -> Bool {
    guard let held = details[id], let request = work.request, let origin = Origin(url: request.url)?.description,
      held.progress.access?.accepted.contains(where: { $0.origin == origin }) == true,
      let session = tasks[id].flatMap({ sessions[$0.entry.session]?.record })
    else { return false }
    details[id]?.progress.access?.accepted.removeAll { $0.origin == origin }
    touch(id, progress: true)
    guard server.isVouched, !asksAboutServers(held, session) else { return false }
    hop(id, work, request, isRedirect: false)
    return true
  }
}
