import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// One session, and the client processes that serve it one after another: each comes back when it was killed or its
/// daemon was.
final class CrowdClient {
  enum Kind { case managed, placed, upload, data }

  /// How far a client had come when it was killed.
  enum Progress: String, CaseIterable {
    case beforeItsReceipts, waitingForResults, betweenResultAndAcknowledgement
  }

  private struct Line: Decodable {
    var event: String
    var id: Int64?
    var number: Int64?
    var kind: String?
    var sha256: String?
    var task: Task?
    var error: Refusal?

    struct Task: Decodable {
      var id: Int64
      var state: String
      var url: String
      var error: Failure?
    }
    struct Failure: Decodable { var code: String }
    struct Refusal: Decodable { var message: String }
  }

  private let home: DaemonHome
  private let kind: Kind
  private let session: String
  private let urls: [String]
  private let arguments: [String]
  let placedName: String?
  private var running: Program?
  private var lives: [[Line]] = []
  private var receipts: Set<Int64> = []
  private var lastListing = ContinuousClock.now
  private(set) var isDone = false

  static func crowd(_ home: DaemonHome, _ server: CrowdServer, round: Int) throws -> [CrowdClient] {
    let source = home.path + "/crowd-source"
    try Files.atomicWrite(source, CrowdServer.upload.allBytes)
    var crowd: [CrowdClient] = []
    for (number, kind) in [Kind.managed, .upload, .data, .placed, .managed, .upload].enumerated() {
      let count = kind == .placed ? 1 : kind == .managed ? 8 : 3
      let paths = (0..<count).map { "/r\(round)-c\(number)-\(kind == .placed ? 3 : $0)" }
      crowd.append(CrowdClient(home, kind, "r\(round)-c\(number)", paths.map { server.server.url($0) }, source))
    }
    return crowd
  }

  private init(_ home: DaemonHome, _ kind: Kind, _ session: String, _ urls: [String], _ source: String) {
    self.home = home
    self.kind = kind
    self.session = session
    self.urls = urls
    placedName = kind == .placed ? session : nil
    arguments =
      switch kind {
      case .managed: []
      case .placed: ["--to", home.out + "/" + session]
      case .upload: ["--upload", source]
      case .data: ["--data"]
      }
  }

  var state: String { "\(session): \(lives.count) lives, \(receipts.count) receipts, done \(isDone)" }

  /// Starts the next process when the last has ended; finds out that all is done.
  func keepAlive() throws {
    guard !isDone else { return }
    if let running {
      let isOver = running.status != nil
      // One that was killed between an acknowledgement and its word of it leaves a successor who waits for nothing.
      if !isOver, ContinuousClock.now - lastListing < .milliseconds(500) { return }
      lastListing = .now
      if receipts.count < urls.count { readReceipts(running) }
      let isEmpty = receipts.count == urls.count ? try isSessionEmpty() : false
      guard isOver || isEmpty else { return }
      bury(running)
      isDone = isEmpty
    }
    guard !isDone else { return }
    let script = Files.parent(of: Files.parent(of: #filePath)) + "/Fixtures/protocol_client.py"
    let common = ["--session", session, "--linger", "0.03", "--timeout", "20"]
    // With its receipts it only collects: a key is free again when its task was acknowledged.
    let command =
      receipts.count == urls.count
      ? ["collect"] + common : ["run"] + common + arguments + ["--key", "k"] + urls
    running = try Program("/usr/bin/python3", [script] + command, environment: home.environment, folder: home.path)
    lastListing = .now
  }

  private func isSessionEmpty() throws -> Bool {
    guard let client = try? home.connect() else { return false }
    defer { client.close() }
    return try client.list().allSatisfy { $0.session != session }
  }

  private func lines(_ program: Program) -> [Line] {
    program.outputText.split(separator: "\n").compactMap {
      try? JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }
  }

  private func readReceipts(_ program: Program) {
    receipts.formUnion(lines(program).filter { $0.event == "receipt" }.compactMap(\.id))
  }

  private func bury(_ program: Program) {
    program.kill()
    readReceipts(program)
    lives.append(lines(program))
    running = nil
  }

  /// How far the process has come; nil when there is none.
  var progress: Progress? {
    guard let running, running.status == nil else { return nil }
    readReceipts(running)
    return progress(of: lines(running))
  }

  private func progress(of life: [Line]) -> Progress {
    if receipts.count < urls.count { return .beforeItsReceipts }
    return life.last?.event == "delivery" ? .betweenResultAndAcknowledgement : .waitingForResults
  }

  /// kill -9 of the process; nil when there is none.
  func kill() -> Progress? {
    guard let running, running.status == nil else { return nil }
    bury(running)
    return progress(of: lives.last ?? [])
  }

  /// All its lives told together: each result as often as it must be, and the right one.
  func check(_ crowd: CrowdServer) throws {
    let digests = try CrowdServer.digests.get()
    var acknowledged: Set<Int64> = []
    var ended: [String: Int64] = [:]
    for life in lives {
      var last: Int64 = 0
      for line in life {
        if line.event == "acknowledged", let number = line.number { acknowledged.insert(number) }
        guard line.event == "delivery", let number = line.number else { continue }
        #expect(!acknowledged.contains(number), "\(session): delivery \(number) came after its acknowledgement")
        #expect(number > last, "\(session): delivery \(number) came after \(last)")
        last = number
        guard let task = line.task else { continue }
        let wanted = digests[(Int(task.url.suffix(1)) ?? 0) % 4]
        let isFile = line.kind == "file" || (kind == .placed && task.state == "succeeded")
        if isFile { #expect(line.sha256 == wanted, "\(session): \(task.url) has other bytes") }
        guard line.kind == "completion" else { continue }
        // Data went to a client that is gone.
        let mayFail = kind == .data && ["sessionDisconnected", "connectionLost"].contains(task.error?.code)
        #expect(task.state == "succeeded" || mayFail, "\(session): \(task.url) \(task.error?.code ?? "")")
        #expect(ended.updateValue(task.id, forKey: task.url).map { $0 == task.id } ?? true, "\(task.url) ran twice")
      }
    }
    #expect(ended.count == urls.count, "\(session): results of \(ended.keys.sorted()) alone")
    #expect(receipts.count == urls.count, "\(session): \(receipts) for \(urls.count) tasks")
    guard kind == .upload else { return }
    for url in urls {
      let bodies = crowd.server.requests.filter { crowd.server.url($0.path) == url && $0.isBodyComplete }
      #expect(!bodies.isEmpty && bodies.allSatisfy { $0.bodyDigest == CrowdServer.upload.digest }, "\(url)")
    }
  }
}
