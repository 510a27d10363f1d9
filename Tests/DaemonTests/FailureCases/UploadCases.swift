import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import TransferCore
import WireProtocol

/// Plain uploads: rows 54, 55, 58 and 62 of docs/FailureCases.md.
@Suite(.timeLimit(.minutes(2))) struct UploadCases {
  static let content = GeneratedContent(length: 1_500_000, seed: 11)

  private static let smallBuffers: LocalServer.Configuration = {
    var configuration = LocalServer.Configuration()
    configuration.receiveBufferByteCount = 8 << 10
    return configuration
  }()

  /// A server that reads `bytes` of the first body and then waits for the gate.
  private static func reluctant(_ gate: Gate, afterBytes bytes: Int = 100_000) throws -> LocalServer {
    let first = Counter()
    return try LocalServer.start(
      configuration: smallBuffers,
      head: { _ in first.next() == 1 ? .stall(afterBytes: bytes, until: gate) : .read },
      handler: { _ in .text("stored") })
  }

  enum Change: String, CaseIterable, Sendable { case rewritten, appended, shortened }

  private static func change(_ path: String, _ change: Change) throws {
    switch change {
    case .rewritten:
      let file = try FileHandle(forWritingTo: URL(filePath: path))
      try file.seek(toOffset: 1_400_000)
      try file.write(contentsOf: Data("changed".utf8))
      try file.close()
    case .appended:
      let file = try FileHandle(forWritingTo: URL(filePath: path))
      try file.seekToEnd()
      try file.write(contentsOf: Data("more".utf8))
      try file.close()
    case .shortened:
      guard unsafe truncate(path, 1_000_000) == 0 else { throw Scene.Trouble("truncate: \(errno)") }
    }
  }

  /// Row 54: where the source is a second name of the same file, a change in place is found out.
  @Test(arguments: Change.allCases)
  func aSourceChangedDuringItsUploadFailsWithItsOwnCode(how: Change) throws {
    let gate = Gate()
    let server = try Self.reluctant(gate)
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up"))
    let running = try scene.wait(id, for: "the first bytes") { $0.sent > 0 }
    try Self.change(source, how)
    gate.open()
    let task = try scene.ended(id)
    if running.pin == "reflink" || running.pin == "copy" {
      #expect(task.state == "succeeded")
    } else {
      #expect(task.state == "failed", "\(Scene.text(task))")
      #expect(task.error?.code == "sourceChanged")
      #expect(task.error?.isTransient == false)
    }
  }

  /// Row 54: between two attempts.
  @Test(arguments: Change.allCases)
  func aSourceChangedBetweenAttemptsIsNotSent(how: Change) throws {
    let server = try LocalServer.start { _ in .text("stored") }
    defer { server.stop() }
    server.refuseConnections()
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up"))
    let waiting = try scene.wait(id, for: "a refused attempt") { $0.error?.code == "connectionRefused" }
    try Self.change(source, how)
    try server.acceptConnections()
    let task = try scene.ended(id)
    if waiting.pin == "reflink" || waiting.pin == "copy" {
      #expect(server.requests.last?.bodyDigest == Self.content.digest)
    } else {
      #expect(task.error?.code == "sourceChanged")
      #expect(server.requestCount == 0)
    }
  }

  /// Row 54: no false alarm when the file is only looked at, renamed over, or given other permissions.
  @Test func aSourceReplacedByRenameIsSentAsItWas() throws {
    let gate = Gate()
    let server = try Self.reluctant(gate)
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up"))
    try scene.wait(id, for: "the first bytes") { $0.sent > 0 }
    _ = try scene.bytes("source")
    #expect(unsafe chmod(source, 0o644) == 0)
    let other = try scene.write("other", Array("other".utf8))
    #expect(unsafe rename(other, source) == 0)
    gate.open()
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(server.requests.first?.bodyDigest == Self.content.digest)
  }

  /// Row 55: deleted while it is sent, between attempts, and while the daemon is dead.
  @Test func aSourceDeletedAfterItsCreationIsStillSent() throws {
    let server = try LocalServer.start { _ in .text("stored") }
    defer { server.stop() }
    server.refuseConnections()
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up"))
    try scene.wait(id, for: "a refused attempt") { $0.error?.code == "connectionRefused" }
    try scene.restart { try Files.remove(source) }
    try server.acceptConnections()
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(server.requests.last?.bodyDigest == Self.content.digest)
    // The pinned file is gone with the task's end.
    let deadline = BootInstant.now() + .seconds(10)
    while try !FileManager.default.contentsOfDirectory(atPath: "\(scene.home)/sources").isEmpty {
      try #require(BootInstant.now() < deadline)
      _ = try scene.show(id)
    }
  }

  /// Row 55: deleted in the middle of the body.
  @Test func aSourceDeletedInTheMiddleIsSentToItsEnd() throws {
    let gate = Gate()
    let server = try Self.reluctant(gate)
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up"))
    try scene.wait(id, for: "the first bytes") { $0.sent > 0 }
    try Files.remove(source)
    gate.open()
    #expect(try scene.ended(id).state == "succeeded")
    #expect(server.requests.first?.bodyDigest == Self.content.digest)
  }

  /// Row 55: what is missing from the start is said at once.
  @Test func aMissingSourceIsRefusedAtOnce() throws {
    let scene = try Scene()
    let refusal = #expect(throws: WireError.self) { try scene.put(scene.path("none"), to: "http://127.0.0.1:9/") }
    #expect(refusal?.name == .sourceMissing)
    let folder = #expect(throws: WireError.self) { try scene.put(scene.folder, to: "http://127.0.0.1:9/") }
    #expect(folder?.name == .sourceUnusable)
  }

  /// A body that was cut is sent again from byte 0.
  @Test(arguments: ["PUT", "POST"])
  func aBodyThatWasCutIsSentAgainFromItsBeginning(method: String) throws {
    let first = Counter()
    let server = try LocalServer.start(
      configuration: Self.smallBuffers, head: { _ in first.next() == 1 ? .reset(afterBytes: 200_000) : .read },
      handler: { _ in .text("stored") })
    defer { server.stop() }
    // More than both kernels buffer: of a POST whose last byte has left us nobody can say that the server did nothing.
    let content = GeneratedContent(length: 12_000_000, seed: 12)
    let scene = try Scene()
    let source = try scene.write("source", content.allBytes)
    let id = try scene.put(source, to: server.url("/up")) { $0.method = method }
    let task = try scene.ended(id)
    #expect(task.state == "succeeded", "\(Scene.text(task))")
    #expect(server.requestCount == 2)
    #expect(server.requests.last?.bodyDigest == content.digest)
    #expect(server.requests.last?.headers["Content-Length"] == "\(content.length)")
    #expect(server.requests.allSatisfy { $0.headers["Expect"] == nil })
    #expect(try readText(try #require(task.body)) == "stored")
  }

  /// Row 58: all was sent, and the answer was lost.
  @Test(arguments: [("PUT", false), ("POST", false), ("POST", true), ("PATCH", true)])
  func aLostAnswerIsRepeatedOnlyWhereThatIsSafe(method: String, hasKey: Bool) throws {
    let server = try Script.start({ _ in .closeWithoutAnswer() }, { _ in .text("stored") })
    defer { server.stop() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up")) {
      $0.method = method
      $0.addsIdempotencyKey = hasKey
    }
    let task = try scene.ended(id)
    let isRepeated = method == "PUT" || hasKey
    #expect(task.state == (isRepeated ? "succeeded" : "failed"), "\(Scene.text(task))")
    #expect(server.requestCount == (isRepeated ? 2 : 1))
    #expect(server.requests.allSatisfy { $0.bodyDigest == Self.content.digest })
    let keys = server.requests.map { $0.headers["Idempotency-Key"] }
    #expect(Set(keys).count == 1)
    #expect((keys[0] != nil) == hasKey)
    if !isRepeated {
      #expect(task.error?.code == "outcomeUnknown")
      #expect(task.error?.detail.contains("Idempotency-Key") == true)
    }
  }

  /// Row 58: the daemon is killed where the answer is awaited.
  @Test(arguments: [("PUT", false), ("POST", false), ("POST", true)])
  func aDaemonKilledBeforeTheAnswerKnowsWhatItMayRepeat(method: String, hasKey: Bool) throws {
    let gate = Gate()
    let server = try Script.start({ _ in Response.text("stored").hold(until: gate) }, { _ in .text("stored") })
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up")) {
      $0.method = method
      $0.addsIdempotencyKey = hasKey
    }
    #expect(server.waitUntil(seconds: 20) { $0.first?.isBodyComplete == true })
    try scene.restart()
    let task = try scene.ended(id)
    let isRepeated = method == "PUT" || hasKey
    #expect(task.state == (isRepeated ? "succeeded" : "failed"), "\(Scene.text(task))")
    #expect(server.requestCount == (isRepeated ? 2 : 1))
    if !isRepeated { #expect(task.error?.code == "outcomeUnknown") }
    #expect(Set(server.requests.map { $0.headers["Idempotency-Key"] }).count == 1)
  }

  /// Row 62: an answer after the whole body is a verdict.
  @Test(arguments: [400, 403, 409, 410, 413, 422], ["successOnly", "any"])
  func anErrorAfterTheWholeBodyIsFinal(status: Int, rule: String) throws {
    let server = try LocalServer.start { _ in
      Response.text("no").status(status).header("Upload-Complete", "?1")
    }
    defer { server.stop() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let id = try scene.put(source, to: server.url("/up")) { $0.statusRule = rule }
    let task = try scene.ended(id)
    #expect(server.requestCount == 1)
    #expect(task.attempts == 1)
    if rule == "any" {
      #expect(task.state == "succeeded")
      #expect(task.response?.status == status)
      #expect(try readText(try #require(task.body)) == "no")
    } else {
      #expect(task.state == "failed")
      #expect(task.error?.number == status)
    }
  }

  /// An answer that comes before the body is read is heard, not taken for a broken connection.
  @Test func anEarlyRefusalIsHeard() throws {
    let server = try LocalServer.start(
      configuration: Self.smallBuffers, head: { _ in .respondEarly(.status(413), afterBytes: 50_000) },
      handler: { _ in .text("never") })
    defer { server.stop() }
    let scene = try Scene()
    let source = try scene.write("source", Self.content.allBytes)
    let task = try scene.ended(try scene.put(source, to: server.url("/up")))
    #expect(task.error?.number == 413, "\(Scene.text(task))")
    #expect(server.requestCount == 1)
  }
}
