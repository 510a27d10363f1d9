import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import TransferCore
import WireProtocol

/// When things are tried again: rows 31, 32, 34, 37, 38 and 47 of docs/FailureCases.md, and the limits in time.
@Suite(.timeLimit(.minutes(3))) struct RetryCases {
  /// Row 31.
  @Test(arguments: [401, 403])
  func credentialsThatExpiredAreAskedForAndTheBytesKept(status: Int) throws {
    let server = try Script.start(
      { _ in ResumeCases.broken() }, { _ in .status(status) }, { _ in ResumeCases.whole() })
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"))
    let asking = try scene.wait(id, for: "the question") { $0.state == "asking" }
    #expect(asking.error?.code == "credentialsRequired")
    #expect(asking.received == Int64(ResumeCases.cutAt))
    #expect(asking.reason?.isEmpty == false)
    // Nothing is tried by itself, a restart included, and the question stays.
    try scene.restart()
    #expect(try scene.show(id).state == "asking")
    #expect(server.requestCount == 2)
    try scene.resume(id)
    #expect(try scene.ended(id).state == "succeeded")
    #expect(server.requests.last?.headers["Range"] == "bytes=\(ResumeCases.cutAt)-")
    try ResumeCases.expectWhole(scene)
  }

  /// Row 32: a server that goes silent in the middle, before its answer, and before it has read anything.
  @Test(arguments: ["body", "head", "nothing"])
  func aSilentServerIsLeftAfterTheRequestTimeout(where place: String) throws {
    let gate = Gate()
    let server = try Script.start(
      { _ in
        place == "body"
          ? ResumeCases.whole().stall(afterBytes: 100_000, until: gate) : ResumeCases.whole().hold(until: gate)
      }, { _ in ResumeCases.whole() })
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    var url = server.url("/file")
    let deaf = try DeafPort()
    if place == "nothing" { url = "http://127.0.0.1:\(deaf.port)/file" }
    let id = try scene.get(url) { $0.requestTimeoutSeconds = 2 }
    let waiting = try scene.wait(id, for: "the timeout") { $0.error?.code == "timedOut" }
    #expect(waiting.error?.isTransient == true)
    #expect(waiting.error?.detail.contains("2 s") == true)
    guard place != "nothing" else { return }
    #expect(try scene.ended(id).state == "succeeded")
    #expect(server.requests.last?.headers["Range"] == (place == "body" ? "bytes=100000-" : nil))
    try ResumeCases.expectWhole(scene)
  }

  /// Row 32: a slow server is not a dead one.
  @Test func aSlowServerIsNotLeft() throws {
    let server = try LocalServer.start { _ in
      Response.generated(length: 40).throttled(bytes: 10, every: .milliseconds(900))
    }
    defer { server.stop() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file")) { $0.requestTimeoutSeconds = 2 }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded")
    #expect(task.attempts == 1)
  }

  /// Row 34: a host that refuses for a second costs about that second, however many tasks met it.
  @Test func aFlapOfASecondCostsLittle() throws {
    let server = try LocalServer.start { _ in ResumeCases.whole() }
    defer { server.stop() }
    let scene = try Scene()
    server.refuseConnections()
    let ids = try scene.getAtOnce((0..<12).map { (server.url("/\($0)"), "file\($0)") })
    for id in ids.prefix(6) {
      try scene.wait(id, for: "a refused attempt") { $0.error?.code == "connectionRefused" }
    }
    try server.acceptConnections()
    let up = BootInstant.now()
    for (index, id) in ids.enumerated() {
      #expect(try scene.ended(id).state == "succeeded")
      try ResumeCases.expectWhole(scene, "file\(index)")
    }
    // The second delay of a host is at most 2 s, and that of a task too.
    #expect(BootInstant.now() - up < .seconds(6))
  }

  /// Row 34: a paused transfer's kept connection is used again rather than a new one made.
  @Test func aTransferUnderWayIsNotDisturbedByRefusedConnections() throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in ResumeCases.whole().stall(afterBytes: 100_000, until: gate) }
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let running = try scene.get(server.url("/a"), to: "a")
    try scene.wait(running, for: "100,000 bytes") { $0.received == 100_000 }
    server.refuseConnections()
    let refused = try scene.get(server.url("/b"), to: "b")
    try scene.wait(refused, for: "a refused attempt") { $0.error?.code == "connectionRefused" }
    gate.open()
    #expect(try scene.ended(running).attempts == 1)
    try server.acceptConnections()
    #expect(try scene.ended(refused).state == "succeeded")
  }

  /// Row 37: both forms, absurd values, and none.
  @Test func retryAfterIsHonouredInBothFormsAndClamped() throws {
    let forms: [(text: String?, expected: ClosedRange<Double>)] = [
      ("7", 6...8), (HTTPDate.ago(seconds: -10).description, 8...11), (nil, 0.2...1.1), ("0", 0.9...1.1),
      (HTTPDate.ago(seconds: 100).description, 0.9...1.1), ("315360000", 86_398...86_401),
      ("99999999999999999999999", 86_398...86_401), ("-5", 0.2...1.1), ("soon", 0.2...1.1), ("1.5", 0.2...1.1),
      ("Fri, 31 Dec 9999 23:59:59 GMT", 86_398...86_401), ("Wed, 31 Feb 2027 00:00:00 GMT", 0.2...1.1), ("", 0.2...1.1),
    ]
    for status in [429, 503] {
      // A server each: the rest is given to a whole host.
      let servers = try forms.map { form in
        try LocalServer.start { _ in
          let answer = Response.status(status)
          return form.text.map { answer.header("Retry-After", $0) } ?? answer
        }
      }
      defer { for server in servers { server.stop() } }
      let scene = try Scene()
      for (index, form) in forms.enumerated() {
        let id = try scene.get(servers[index].url("/file"), to: "file\(index)")
        let waiting = try scene.wait(id, for: "the answer") { $0.state == "waiting" && $0.error != nil }
        #expect(waiting.error?.number == status)
        let due = Double(try #require(waiting.nextAttemptMilliseconds)) / 1000
        let received = servers[index].exchanges.last == nil ? 0 : Date().timeIntervalSince1970
        // Told a moment after the answer; a host that is busy may tell later, never earlier.
        let rest = due - received
        #expect(rest <= form.expected.upperBound, "\(form.text ?? "none"): \(rest)")
        #expect(rest >= form.expected.lowerBound - 1.5, "\(form.text ?? "none"): \(rest)")
      }
    }
  }

  /// Row 37: the rest is given to the host, for every task of every session.
  @Test func retryAfterHoldsAllTasksOfTheHost() throws {
    let server = try LocalServer.start { request in
      request.path == "/busy" ? Response.status(503).header("Retry-After", "4") : .text("x")
    }
    defer { server.stop() }
    let scene = try Scene()
    let other = try scene.call(
      .sessionOpen(
        SessionOpenParameters(
          app: "tests", identifier: "other", attach: false, collectsResults: false, network: scene.network)),
      SessionOpenResult.self
    ).session
    let first = try scene.get(server.url("/busy"), to: "busy")
    try scene.wait(first, for: "the answer") { $0.error?.number == 503 }
    let answered = try #require(server.requests.first).receivedAt
    let second = try scene.get(server.url("/a"), to: "a")
    var third = WireTaskSpecification(kind: "download", url: server.url("/b"))
    third.destination = scene.path("b")
    let strange = try scene.enqueue(third, in: other)
    #expect(try scene.show(second).reason?.contains("s") == true)
    #expect(try scene.ended(second).state == "succeeded")
    while try scene.show(strange).state != "succeeded" {
      try #require(ContinuousClock.now - answered < .seconds(20))
    }
    let later = server.requests.filter { $0.path != "/busy" }
    #expect(later.count == 2)
    for request in later { #expect(request.receivedAt - answered >= .milliseconds(3900), "\(request.path)") }
  }

  /// Row 38.
  @Test func aHostThatComesBackIsProbedByOneAndNeverMetByAHerd() throws {
    let first = Gate()
    let seen = Counter()
    let server = try LocalServer.start { _ in
      let answer = Response.generated(length: 1000).delayed(by: .milliseconds(10))
      return seen.next() == 1 ? answer.hold(until: first) : answer
    }
    defer { server.stop() }
    defer { first.open() }
    server.refuseConnections()
    let scene = try Scene()
    let ids = try scene.getAtOnce((0..<50).map { (server.url("/\($0)"), "file\($0)") })
    for id in ids.prefix(6) { try scene.wait(id, for: "a refused attempt") { $0.error?.code == "connectionRefused" } }
    try server.acceptConnections()
    #expect(server.waitForRequests(1, seconds: 20))
    // While the probe has no answer, nobody else is sent: it is given time in which a herd would show itself.
    #expect(!server.waitForRequests(2, seconds: 1.5))
    first.open()
    for id in ids { #expect(try scene.ended(id).state == "succeeded") }
    #expect(server.peakConcurrentRequests <= 6)
    #expect(server.peakConnections <= 6)
    #expect(server.requestCount == 50)
  }

  /// Row 47: whatever does not run says why, and when it is looked at next.
  @Test func whateverWaitsSaysWhyAndUntilWhen() throws {
    let gate = Gate()
    let server = try LocalServer.start { request in
      request.path == "/busy" ? .status(500) : ResumeCases.whole().hold(until: gate)
    }
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let running = try (0..<6).map { try scene.get(server.url("/\($0)"), to: "file\($0)") }
    for id in running { try scene.wait(id, for: "its start") { $0.state == "running" } }
    let full = try scene.get(server.url("/full"), to: "full")
    #expect(try scene.show(full).reason?.contains("6 transfers") == true)
    let dated = try scene.get("http://127.0.0.1:9/file", to: "dated") {
      $0.earliestBeginMilliseconds = Clocks.wallMilliseconds() + 3_600_000
    }
    let later = try scene.show(dated)
    #expect(later.reason?.contains("min") == true)
    #expect(later.nextAttemptMilliseconds != nil)
    let paused = try scene.get(server.url("/paused"), to: "paused") { $0.isSuspended = true }
    #expect(try scene.show(paused).reason?.contains("paused") == true)
    let failed = try scene.get("http://127.0.0.1:9/refused", to: "refused")
    let refused = try scene.wait(failed, for: "a refused attempt") { $0.state == "waiting" && $0.error != nil }
    #expect(refused.reason?.contains("refused") == true && refused.reason?.contains("next try") == true)
    #expect(refused.nextAttemptMilliseconds != nil)
  }

  /// A task ends when its time is over, waiting or running, and says what the last attempt met.
  @Test(arguments: ["refused", "stalled"])
  func theResourceTimeoutEndsTheTask(kind: String) throws {
    let server = try LocalServer.start { _ in ResumeCases.whole().stall(afterBytes: 1000) }
    defer { server.stop() }
    if kind == "refused" { server.refuseConnections() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file")) { $0.resourceTimeoutSeconds = 2 }
    let task = try scene.ended(id)
    #expect(task.state == "failed")
    #expect(task.error?.code == "resourceTimedOut")
    if kind == "refused" { #expect(task.error?.detail.contains("refused") == true) }
    try scene.waitForNames([])
  }
}

/// A port whose connections the kernel takes and nobody ever reads.
final class DeafPort: Sendable {
  let port: UInt16
  private let socket: Int32

  init() throws {
    socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let handle = socket
    let result = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        unsafe bind(handle, pointer, length) == 0 && listen(handle, 8) == 0
          && getsockname(handle, pointer, &length) == 0
      }
    }
    guard result else { throw Scene.Trouble("no port: errno \(errno)") }
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(socket) }
}
