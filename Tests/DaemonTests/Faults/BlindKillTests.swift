import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// kill -9 of the daemon and of its clients at moments that nobody chose, under load. FERRY_KILLS is how many, a third
/// of them of the daemon; FERRY_SEED other ones.
@Suite(.serialized, .timeLimit(.minutes(15))) struct BlindKillTests {
  /// What was going on when the daemon was killed; several things at once.
  enum Moment: String, CaseIterable { case waiting, downloading, uploading, streaming, resultsWait }

  @Test func whoeverDiesNothingIsLostOrDoubled() throws {
    let wanted = Knob.number("FERRY_KILLS", 30)
    let seed = Knob.number("FERRY_SEED", 1)
    var random = SeededRandom(seed: UInt64(seed) &+ 4711)
    var moments: [Moment: Int] = [:]
    var deaths: [CrowdClient.Progress: Int] = [:]
    var kills = (daemon: 0, clients: 0)
    let home = try DaemonHome()
    let server = try CrowdServer()
    defer { server.server.stop() }
    try home.startForeground()
    var round = 0
    /// Chances to kill that brought nothing new.
    var passed = 0
    let deadline = Deadline(seconds: 600)
    while kills.daemon + kills.clients < wanted {
      round += 1
      let crowd = try CrowdClient.crowd(home, server, round: round)
      while !crowd.allSatisfy(\.isDone) {
        guard !deadline.isOver else { throw Late("the crowd ends: \(crowd.map(\.state)) \(home.logText.suffix(1000))") }
        for client in crowd { try client.keepAlive() }
        _ = poll(nil, 0, Int32.random(in: 1...60, using: &random))
        guard kills.daemon + kills.clients < wanted else { continue }
        // A client is the first: whoever looks at the daemon's tasks waits, as they are shown, until these are on the
        // disk, and every client has its receipts by then.
        if kills.daemon * 2 < kills.clients {
          let present = try moment(home)
          // Moments that were not hit yet are short; chance alone would need many rounds.
          if moments.count < Moment.allCases.count, present.allSatisfy({ moments[$0] != nil }), passed < 200 {
            passed += 1
            continue
          }
          passed = 0
          for moment in present { moments[moment, default: 0] += 1 }
          try home.killDaemon()
          kills.daemon += 1
          try home.startForeground()
        } else {
          let alive = crowd.filter { !$0.isDone }
          let unseen = alive.filter { client in client.progress.map { deaths[$0] == nil } ?? false }
          if unseen.isEmpty, deaths.count < CrowdClient.Progress.allCases.count, passed < 200 {
            passed += 1
            continue
          }
          passed = 0
          guard let progress = (unseen.isEmpty ? alive : unseen).randomElement(using: &random)?.kill() else { continue }
          deaths[progress, default: 0] += 1
          kills.clients += 1
        }
      }
      for client in crowd { try client.check(server) }
      // A source that was pinned for a task which was never on record goes at the next start.
      try home.killDaemon()
      try home.startForeground()
      try eventually("nothing is left", is: { home.ownFiles().isEmpty })
      #expect(try home.connect().list().isEmpty)
      #expect(DaemonHome.names(in: home.out) == crowd.compactMap(\.placedName).sorted())
      Shell.remove(home.out)
      try Files.makePrivateDirectory(home.out)
    }
    print("\(kills.daemon) daemons and \(kills.clients) clients killed in \(round) rounds (seed \(seed))")
    for moment in Moment.allCases {
      print("  daemon while \(moment): \(moments[moment] ?? 0)")
      #expect(moments[moment, default: 0] > 0, "no daemon was killed while \(moment)")
    }
    for progress in CrowdClient.Progress.allCases {
      print("  client \(progress): \(deaths[progress] ?? 0)")
      #expect(deaths[progress, default: 0] > 0, "no client was killed \(progress)")
    }
  }

  private func moment(_ home: DaemonHome) throws -> Set<Moment> {
    var moments: Set<Moment> = []
    for task in try home.connect().list() {
      switch (task.state, task.kind) {
      case ("waiting", _): moments.insert(.waiting)
      case ("running", "download") where task.received > 0: moments.insert(.downloading)
      case ("running", "upload"): moments.insert(.uploading)
      case ("running", "data"): moments.insert(.streaming)
      case ("succeeded", _): moments.insert(.resultsWait)
      default: break
      }
    }
    return moments
  }
}

/// What the crowd fetches and sends; slowly enough to be killed in the middle.
final class CrowdServer: Sendable {
  static let upload = GeneratedContent(length: 300_000, seed: 99)
  let server: LocalServer

  init() throws {
    var configuration = LocalServer.Configuration()
    configuration.receiveBufferByteCount = 16 << 10
    server = try LocalServer.start(
      configuration: configuration,
      head: { _ in .throttled(bytes: 16 << 10, every: .milliseconds(15)) },
      handler: { request in
        if request.method == "PUT" { return .text("stored \(request.path)") }
        let content = Self.content(request.path)
        return Response.generated(length: content.length, seed: content.seed).etag("\"\(content.seed)\"")
          .throttled(bytes: 16 << 10, every: .milliseconds(10))
      })
  }

  /// The last digit of a path chooses the content.
  static func content(_ path: String) -> GeneratedContent {
    let kind = Int(path.suffix(1)) ?? 0
    return GeneratedContent(length: [700, 90_000, 400_000, 1_100_000][kind % 4], seed: UInt64(kind % 4 + 1))
  }

  static let digests = Result<[String], any Error> {
    let folder = "/tmp/ferry-crowd-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    defer { Shell.remove(folder) }
    return try (0..<4).map { kind in
      try Files.atomicWrite("\(folder)/\(kind)", content("\(kind)").allBytes)
      return String(try Shell.output("/usr/bin/sha256sum", ["\(folder)/\(kind)"]).output.prefix(64))
    }
  }
}
