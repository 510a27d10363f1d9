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
    let accepted = access?.accepted.filter { $0.origin == origin.description } ?? []
    if let last = accepted.last { return .accepted(accepted.filter { $0.mustBeVouched == last.mustBeVouched }) }
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
      access.accepted.take(accepted)
      if access.accepted.count > Limits.knownCertificates { access.accepted.removeFirst() }
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

  /// A server showed another certificate than those that were accepted. If the authorities vouch for it, and nobody
  /// wants to be asked all the same, it is as if nothing had been accepted.
  mutating func goesOnVouched(_ id: TaskID, _ work: ActiveTask, _ server: ShownServer) -> Bool {
    guard let held = details[id], let request = work.request, let origin = Origin(url: request.url)?.description,
      held.progress.access?.accepted.contains(where: { $0.origin == origin }) == true,
      let session = tasks[id].flatMap({ sessions[$0.entry.session]?.record })
    else { return false }
    guard server.isVouched, !asksAboutServers(held, session) else { return false }
    details[id]?.progress.access?.accepted.removeAll { $0.origin == origin }
    touch(id, progress: true)
    hop(id, work, request, isRedirect: false)
    return true
  }
}

extension [AcceptedCertificate] {
  /// One more is accepted. A place behind which several servers stand shows now this certificate and now that one, so
  /// that the word for one does not take back the others'; but what authorities must vouch for and what they need not
  /// is never mixed, because connections are told apart by it.
  package mutating func take(_ certificate: AcceptedCertificate) {
    removeAll {
      $0.origin == certificate.origin
        && ($0.certificate == certificate.certificate || $0.mustBeVouched != certificate.mustBeVouched)
    }
    append(certificate)
    guard filter({ $0.origin == certificate.origin }).count > Limits.certificatesOfPlace,
      let oldest = firstIndex(where: { $0.origin == certificate.origin })
    else { return }
    remove(at: oldest)
  }
}
