import Testing

@testable import TransferCore

/// Servers that are taken for the right ones because the app said so.
@Suite struct ServerTrustTests {
  private static let place = "https://host.test:443"
  private static let untrusted = TransferFailure(.certificateUntrusted, .permanent, detail: "no")

  private static func server(_ name: String, isVouched: Bool = false) -> ShownServer {
    ShownServer(chain: ["AAAA"], certificate: name, key: "key of \(name)", isVouched: isVouched)
  }

  /// A task of a server with TLS, on the wire.
  private static func running(_ tls: TLSSettings? = nil) throws -> (Bench, TaskID) {
    var bench = Bench()
    let draft = TaskDraft.download().with {
      $0.request.url = "https://host.test/file"
      $0.origin = place
      $0.tls = tls
    }
    let id = try QuestionTests.present(bench.add(draft, to: QuestionTests.open(&bench)))
    bench.openFiles(id)
    return (bench, id)
  }

  private static func turnAway(_ bench: inout Bench, _ id: TaskID, _ server: ShownServer) {
    bench.handle(.ended(bench.attempt(id), .untrusted(untrusted, server), requestWasSent: false))
  }

  private static func shown(_ bench: Bench, _ id: TaskID) -> ShownServer? {
    guard case .challenge(let challenge)? = bench.core.residentDetails(id)?.progress.question else { return nil }
    return challenge.server
  }

  @Test func anAcceptedCertificateIsForItsPlace() throws {
    var (bench, id) = try Self.running()
    Self.turnAway(&bench, id, Self.server("a"))
    #expect(bench.state(id) == .asking && Self.shown(bench, id) == Self.server("a"))
    // Another certificate than the one that was shown is not accepted.
    _ = QuestionTests.answer(&bench, id, .trust(certificate: "b"))
    #expect(bench.state(id) == .asking)
    _ = QuestionTests.answer(&bench, id, .trust(certificate: "a"))
    let order = try QuestionTests.present(bench.openFiles(id))
    let accepted = AcceptedCertificate(
      origin: Self.place, certificate: "a", key: "key of a", mustBeVouched: false)
    #expect(order.trust == .accepted([accepted]))
    bench.respond(id, QuestionTests.head(302, [("Location", "https://other.test/")]), .redirect)
    bench.handle(.ended(bench.attempt(id), .redirected(location: "https://other.test/x"), requestWasSent: true))
    #expect(try QuestionTests.present(bench.openFiles(id)).trust == .vouched)
    #expect(bench.core.violations() == [])
  }

  @Test func anotherCertificateIsANewQuestionAndAVouchedOneIsNone() throws {
    var (bench, id) = try Self.running()
    Self.turnAway(&bench, id, Self.server("a"))
    _ = QuestionTests.answer(&bench, id, .trust(certificate: "a"))
    bench.openFiles(id)
    Self.turnAway(&bench, id, Self.server("b"))
    #expect(bench.state(id) == .asking && Self.shown(bench, id) == Self.server("b"))
    _ = QuestionTests.answer(&bench, id, .trust(certificate: "b"))
    bench.openFiles(id)
    // It has got a certificate of an authority: as if nothing had ever been accepted.
    Self.turnAway(&bench, id, Self.server("c", isVouched: true))
    let order = try QuestionTests.present(bench.openFiles(id))
    #expect(order.trust == .vouched)
    #expect(bench.core.residentDetails(id)?.progress.access?.accepted.isEmpty == true)
    #expect(bench.core.violations() == [])
  }

  @Test func theDefaultFailsUnlessAuthoritiesVouch() throws {
    var (bench, id) = try Self.running()
    Self.turnAway(&bench, id, Self.server("a"))
    _ = QuestionTests.answer(&bench, id, .proceed)
    #expect(bench.state(id) == .finished(.failed))

    (bench, id) = try Self.running(TLSSettings(asksAboutServers: true))
    #expect(bench.core.tasks[id] != nil)
    Self.turnAway(&bench, id, Self.server("a", isVouched: true))
    #expect(bench.state(id) == .asking)
    _ = QuestionTests.answer(&bench, id, .proceed)
    guard case .accepted(let accepted) = try QuestionTests.present(bench.openFiles(id)).trust else {
      Issue.record("it was not accepted")
      return
    }
    #expect(accepted.map(\.mustBeVouched) == [true])
    // Who wants to be asked is asked about the next one too, vouched for or not.
    Self.turnAway(&bench, id, Self.server("b", isVouched: true))
    #expect(bench.state(id) == .asking)
    _ = QuestionTests.answer(&bench, id, .cancel)
    #expect(bench.state(id) == .finished(.cancelled))
  }

  @Test func nobodyIsTrustedBeforeTheAppHasSeenIt() throws {
    var bench = Bench()
    let draft = TaskDraft.download().with {
      $0.request.url = "https://host.test/file"
      $0.origin = Self.place
      $0.tls = TLSSettings(asksAboutServers: true)
    }
    let id = try QuestionTests.present(bench.add(draft, to: QuestionTests.open(&bench, answers: false)))
    #expect(bench.openFiles(id)?.trust == .unseen)
    // Nobody can be asked: it is not connected to.
    Self.turnAway(&bench, id, Self.server("a", isVouched: true))
    #expect(bench.state(id) == .finished(.failed))
  }

  @Test func serversThatShareANameAreAcceptedTogether() throws {
    var (bench, id) = try Self.running(TLSSettings(asksAboutServers: true))
    for name in ["a", "b"] {
      Self.turnAway(&bench, id, Self.server(name, isVouched: true))
      _ = QuestionTests.answer(&bench, id, .proceed)
      let trust = try QuestionTests.present(bench.openFiles(id)).trust
      guard case .accepted(let accepted) = trust else {
        Issue.record("it was not accepted")
        return
      }
      #expect(accepted.map(\.certificate) == (name == "a" ? ["a"] : ["a", "b"]))
    }
    // Whom nobody vouches for is not mixed with them, and there is an end to it.
    for number in 0..<20 {
      Self.turnAway(&bench, id, Self.server("\(number)"))
      _ = QuestionTests.answer(&bench, id, .trust(certificate: "\(number)"))
      bench.openFiles(id)
    }
    let accepted = bench.core.residentDetails(id)?.progress.access?.accepted ?? []
    #expect(accepted.map(\.certificate) == (12..<20).map(String.init))
    #expect(accepted.allSatisfy { !$0.mustBeVouched } && bench.core.violations() == [])
  }

  // MARK: Certificates of ours

  @Test func aCertificateOfOursGoesToThePlaceThatAsked() throws {
    var (bench, id) = try Self.running(TLSSettings(asksForCertificate: true))
    bench.fail(id, .clientCertificateRequired, .permanent, sent: false)
    _ = QuestionTests.answer(&bench, id, .tls(TLSSettings(certificateFile: "/c.pem", keyPassword: Secret("pw"))))
    let order = try QuestionTests.present(bench.openFiles(id))
    #expect(order.tls.certificateFile == "/c.pem" && !order.tls.asksForCertificate)
    bench.respond(id, QuestionTests.head(302, [("Location", "https://other.test/")]), .redirect)
    bench.handle(.ended(bench.attempt(id), .redirected(location: "https://other.test/x"), requestWasSent: true))
    let next = try QuestionTests.present(bench.openFiles(id))
    #expect(next.tls.identity == nil && next.tls.asksForCertificate)
  }

  @Test func aServerThatOnlyWishesForACertificateGoesOnWithoutOne() throws {
    var (bench, id) = try Self.running(TLSSettings(asksForCertificate: true))
    bench.fail(id, .clientCertificateRequired, .permanent, sent: false)
    _ = QuestionTests.answer(&bench, id, .proceed)
    let order = try QuestionTests.present(bench.openFiles(id))
    #expect(order.tls.identity == nil && !order.tls.asksForCertificate)
    // And one that insists is not asked about for ever.
    bench.fail(id, .clientCertificateRequired, .permanent, sent: false)
    #expect(bench.state(id) == .finished(.failed))
  }

  // MARK: Pinned domains

  @Test func aPinnedDomainIsFoundHoweverItIsWritten() {
    let pins = TLSSettings(pinnedDomains: [
      PinnedDomain(domain: "host.test", includesSubdomains: false, keys: ["k"]),
      PinnedDomain(domain: "127.0.0.1", includesSubdomains: false, keys: ["k"]),
    ])
    for host in ["HOST.test", "host.test.", "h\u{FF4F}st.test", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1."] {
      #expect(pins.pinned(to: host).pinnedKeys == ["k"], "\(host)")
    }
    for host in ["other.test", "xn--hst-sna.test", "127.0.0.2", "[::1]", "10.test"] {
      #expect(pins.pinned(to: host).pinnedKeys == [], "\(host)")
    }
  }

  @Test(arguments: [
    ("host.test", ["k1"]), ("HOST.test.", ["k1"]), ("a.host.test", []), ("a.wide.test", ["k2"]), ("wide.test", ["k2"]),
    ("nowide.test", []), ("none.test", [PinnedDomain.noKey]),
  ])
  func aPinnedDomainHasItsKeys(host: String, keys: [String]) {
    let settings = TLSSettings(pinnedDomains: [
      PinnedDomain(domain: "Host.test", includesSubdomains: false, keys: ["k1"]),
      PinnedDomain(domain: "wide.test", includesSubdomains: true, keys: ["k2"]),
      PinnedDomain(domain: "none.test", includesSubdomains: true, keys: []),
    ])
    #expect(settings.pinned(to: host).pinnedKeys == keys)
    // Both must be kept.
    let both = settings.overridden(by: TLSSettings(pinnedKeys: ["k2"])).pinned(to: host).pinnedKeys
    #expect(both == (keys.isEmpty || keys == ["k2"] ? ["k2"] : [PinnedDomain.noKey]))
  }
}
