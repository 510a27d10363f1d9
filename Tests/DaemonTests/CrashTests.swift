import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// kill -9 at every moment of a transfer's life. FERRY_KILLS=100 is the whole run, FERRY_SEED another one.
@Suite(.serialized, .timeLimit(.minutes(10))) struct CrashTests {
  enum Phase: String, CaseIterable {
    /// The request is on its way or not even made: not a byte of answer.
    case connecting
    case firstByte
    case middle
    case lastByte
    /// All bytes are in; checked, synced, placed, the folder synced.
    case finalizing
    /// The result was offered, and perhaps acknowledged.
    case delivery
    /// Inside of a commit of the daemon's state, whatever it was about.
    case commit
    /// Just before bytes go to a client.
    case reply
  }

  struct Kill {
    var phase: Phase
    /// Bytes of the body that the server had sent.
    var sent: Int
    var placed: Bool
    /// Bytes fetched twice because of it.
    var twice = 0
  }

  /// "under 1 MiB each time"
  static let inFlightBytes = 1 << 20

  @Test func killedAtAnyMomentItComesBackByItselfAndNothingIsLost() throws {
    let wanted = Knob.number("FERRY_KILLS", 30)
    let seed = Knob.number("FERRY_SEED", 1)
    var random = SeededRandom(seed: UInt64(seed))
    var kills: [Kill] = []
    let server = try ContentServer()
    defer { server.stop() }
    var round = 0
    while kills.count < wanted {
      // One home sees a few deaths: the supervisor rightly waits longer after each.
      switch round % 5 {
      case 0, 1, 2:
        let phases: [Phase] = [.connecting, .firstByte, .middle, .lastByte, .delivery].shuffled(using: &random)
        kills += try HomeOfKills(server, round, &random).run(Array(phases.prefix(4)), &random)
      case 3:
        let point = ["worker.fsync", "file.place", "folder.fsync"][round / 5 % 3]
        kills += try HomeOfKills(server, round, &random, fault: "\(point):2:kill").runFaults(
          .finalizing, tasks: 4, &random)
      default:
        let (point, phase): (String, Phase) = round / 5 % 2 == 0 ? ("store.commit", .commit) : ("peer.reply", .reply)
        let fault = "\(point):\(Int.random(in: phase == .reply ? 9...14 : 4...6, using: &random)):kill"
        kills += try HomeOfKills(server, round, &random, fault: fault).runFaults(phase, tasks: 2, &random)
        let (point2, phase2): (String, Phase) = round / 5 % 2 == 1 ? ("store.commit", .commit) : ("peer.reply", .reply)
        let fault2 = "\(point2):\(Int.random(in: phase2 == .reply ? 9...14 : 4...6, using: &random)):kill"
        kills += try HomeOfKills(server, round + 1000, &random, fault: fault2).runFaults(phase2, tasks: 2, &random)
      }
      round += 1
    }
    report(kills, seed: seed)
  }

  /// Many tasks at once, and kills at moments that nobody chose: what one commit, one batch of results or one reply
  /// holds belongs to several of them.
  @Test func killedUnderManyTasksItLosesNoneAndTellsOfEachOnce() throws {
    var random = SeededRandom(seed: UInt64(Knob.number("FERRY_SEED", 1)) &+ 77)
    let server = try ContentServer()
    defer { server.stop() }
    for round in 0..<max(2, Knob.number("FERRY_KILLS", 30) / 15) {
      let home = try DaemonHome()
      try home.startSupervised()
      let client = PersistentClient(home)
      var contents: [Int64: (path: String, content: GeneratedContent, file: String?)] = [:]
      var batch: [WireTaskSpecification] = []
      for number in 0..<40 {
        let path = "/many-\(round)-\(number)"
        let length = number % 4 == 0 ? Int.random(in: 1...3_000_000, using: &random) : 2000 + number
        let content = GeneratedContent(length: length, seed: UInt64(round * 100 + number))
        server.put(path, content) { $0.throttled(bytes: 32 << 10, every: .milliseconds(10)) }
        batch.append(
          .download(server.url(path), to: number % 2 == 0 ? home.out + "/\(number)" : nil, key: path))
      }
      let receipts = try client.perform("enqueueing") { client, session in try client.enqueue(batch, in: session) }
      for (number, receipt) in receipts.enumerated() {
        let path = "/many-\(round)-\(number)"
        contents[try #require(receipt.id)] = (path, try #require(server.content(path)), batch[number].destination)
      }
      #expect(contents.count == batch.count)
      for _ in 0..<4 {
        try client.waitForNotifications(Int.random(in: 1...40, using: &random))
        let dead = try home.killDaemon()
        client.vanish()
        try eventually("a new daemon", seconds: 60, is: { home.daemonProcessID.map { $0 != dead } ?? false })
      }
      try collect(client, contents)
      #expect(try client.perform("listing") { client, _ in try client.list() }.isEmpty)
      try eventually(
        "only results are left",
        is: {
          DaemonHome.names(in: home.out).count == 20 && home.ownFiles().isEmpty
        })
      var twice: [Int] = []
      for item in contents.values { twice += try server.fetchedTwice(item.path) }
      print("many tasks, \(4) kills: \(twice.count) attempts more, fetched twice at most \(twice.max() ?? 0)")
      for count in twice { #expect(count <= Self.inFlightBytes) }
      client.vanish()
    }
  }

  /// Takes deliveries, checks each file, acknowledges, until all was said.
  private func collect(
    _ client: PersistentClient, _ contents: [Int64: (path: String, content: GeneratedContent, file: String?)]
  ) throws {
    var completed: Set<Int64> = []
    while completed.count < contents.count {
      let notice = try client.delivery()
      if let task = notice.task {
        let item = try #require(contents[task.id])
        #expect(task.state == "succeeded", "\(task)")
        if notice.kind == "file" { expectContent(task.file, item.content, item.path) }
        if notice.kind == "completion" {
          #expect(completed.insert(task.id).inserted, "\(item.path) completed twice")
          if let file = item.file { expectContent(file, item.content, item.path) }
        }
      }
      try client.acknowledge(notice)
    }
  }

  /// Prints what was hit and fails when a phase was missed: a hundred kills before the first byte prove nothing.
  private func report(_ kills: [Kill], seed: Int) {
    print("\(kills.count) kills (seed \(seed))")
    for phase in Phase.allCases {
      let hits = kills.filter { $0.phase == phase }
      let sent = hits.map(\.sent)
      print(
        "  \(phase.rawValue): \(hits.count) (\(hits.filter(\.placed).count) to a file), server had sent "
          + "\(sent.min() ?? 0)…\(sent.max() ?? 0) bytes, fetched twice at most \(hits.map(\.twice).max() ?? 0)")
      #expect(!hits.isEmpty, "no kill hit \(phase.rawValue)")
      for kill in hits {
        #expect(
          kill.twice <= Self.inFlightBytes, "\(phase.rawValue) at \(kill.sent): \(kill.twice) bytes fetched twice")
      }
    }
  }
}

/// One daemon's home, a few deaths, and what must hold after each and at the end.
private final class HomeOfKills {
  let home: DaemonHome
  let server: ContentServer
  let client: PersistentClient
  let round: Int
  var made = 0
  var placedNames: [String] = []
  private var mayLackFile = false

  init(
    _ server: ContentServer, _ round: Int, _ random: inout SeededRandom, fault: String? = nil
  ) throws {
    self.server = server
    self.round = round
    home = try DaemonHome(fault.map { ["FERRY_FAULT": $0] } ?? [:])
    try home.startSupervised()
    client = PersistentClient(home)
  }

  private struct Made {
    var path: String
    var content: GeneratedContent
    var destination: String?
  }

  private func make(_ random: inout SeededRandom) -> Made {
    made += 1
    let path = "/\(round)-\(made)"
    let length = Int.random(in: 200_000...3_000_000, using: &random)
    let name = Bool.random(using: &random) ? "file\(made)" : nil
    if let name { placedNames.append(name) }
    return Made(
      path: path, content: GeneratedContent(length: length, seed: UInt64(round * 1000 + made)),
      destination: name.map { home.out + "/" + $0 })
  }

  private func restarted(after old: Int32) throws {
    // By itself: nobody connects meanwhile.
    try eventually("a new daemon after \(old) in \(home.path)", seconds: 60) {
      if let process = home.daemonProcessID, process != old { true } else { false }
    }
  }

  // MARK: Kills from outside

  func run(_ phases: [CrashTests.Phase], _ random: inout SeededRandom) throws -> [CrashTests.Kill] {
    var kills: [CrashTests.Kill] = []
    for phase in phases {
      let made = make(&random)
      let old = try #require(home.daemonProcessID)
      var kill = CrashTests.Kill(phase: phase, sent: 0, placed: made.destination != nil)
      switch phase {
      case .connecting: try killWhileConnecting(made, old, &random)
      case .firstByte:
        kill.sent = Int.random(in: 1...4096, using: &random)
        try killInFlow(made, old, at: kill.sent)
      case .middle:
        kill.sent = Int.random(in: made.content.length / 5...made.content.length * 4 / 5, using: &random)
        if Bool.random(using: &random) {
          try killInFlow(made, old, at: kill.sent)
        } else {
          try killAtRest(made, at: kill.sent)
        }
      case .lastByte:
        let isWhole = Bool.random(using: &random)
        kill.sent = made.content.length - (isWhole ? 0 : 1)
        if isWhole { try killInFlow(made, old, at: kill.sent) } else { try killAtRest(made, at: kill.sent) }
      case .delivery:
        kill.sent = made.content.length
        try killDuringDelivery(made, &random)
      case .finalizing, .commit, .reply: break
      }
      try restarted(after: old)
      kill.twice = try settle(made)
      if phase == .connecting, let sent = server.firstAnswerBytes(made.path), sent > 0 {
        // It was faster than the kill.
        kill.phase = .middle
        kill.sent = sent
      }
      kills.append(kill)
    }
    try checkEnd(deaths: kills.count)
    return kills
  }

  private func enqueue(_ made: Made) throws -> Int64 {
    try client.enqueue(server.url(made.path), to: made.destination, key: made.path)
  }

  private func killWhileConnecting(_ made: Made, _ process: Int32, _ random: inout SeededRandom) throws {
    if round > 0, Bool.random(using: &random) {
      // As soon as the task is accepted.
      server.put(made.path, made.content)
      _ = try enqueue(made)
      try home.killDaemon()
    } else {
      // The request is there, and not a byte of its answer.
      let killed = Gate()
      server.put(made.path, made.content) { response in
        kill(process, SIGKILL)
        killed.open()
        return response
      }
      _ = try enqueue(made)
      try #require(killed.wait(seconds: 30))
    }
  }

  /// When the server's kernel has so many bytes, whatever the daemon has of them.
  private func killInFlow(_ made: Made, _ process: Int32, at count: Int) throws {
    let killed = Gate()
    server.put(made.path, made.content) { response in
      response.throttled(bytes: 64 << 10, every: .milliseconds(1)).onBytes(count) {
        kill(process, SIGKILL)
        killed.open()
      }
    }
    _ = try enqueue(made)
    try #require(killed.wait(seconds: 30))
  }

  /// When the daemon has told that it has so many bytes, and the server sends no more.
  private func killAtRest(_ made: Made, at count: Int) throws {
    server.put(made.path, made.content) { $0.stall(afterBytes: count) }
    let id = try enqueue(made)
    try client.waitForBytes(of: id, atLeast: Int64(count))
    try home.killDaemon()
  }

  private func killDuringDelivery(_ made: Made, _ random: inout SeededRandom) throws {
    server.put(made.path, made.content)
    _ = try enqueue(made)
    let first = try client.delivery()
    try home.killDaemon()
    // What the dead daemon still sent stands in the old connection.
    client.vanish()
    let again = try client.delivery()
    #expect(again.number == first.number && again.kind == first.kind && again.task?.id == first.task?.id)
    expectContent(again.task?.file, made.content, made.path)
    guard again.kind == "file", Bool.random(using: &random) else { return client.vanish() }
    // An acknowledgement on its way when its sender dies: taken or not, nothing else may be lost with it.
    try client.throwAcknowledgement(again)
    client.vanish()
    mayLackFile = true
  }

  // MARK: Kills from inside

  /// Tasks one after another; each daemon dies where its fault says. Which deaths there were, its log tells.
  func runFaults(
    _ phase: CrashTests.Phase, tasks: Int, _ random: inout SeededRandom
  ) throws -> [CrashTests.Kill] {
    var kills: [CrashTests.Kill] = []
    for _ in 0..<tasks {
      let before = starts
      let made = make(&random)
      server.put(made.path, made.content)
      _ = try enqueue(made)
      let twice = try settle(made)
      for _ in before..<starts {
        kills.append(
          CrashTests.Kill(phase: phase, sent: made.content.length, placed: made.destination != nil, twice: twice))
      }
    }
    try checkEnd(deaths: nil)
    return kills
  }

  private var starts: Int { home.logText.split(separator: "\n").count { $0.contains(" started with ") } }

  // MARK: What must hold

  /// The task ends well with the right file, is delivered once, and is gone; how much was fetched twice.
  private func settle(_ made: Made) throws -> Int {
    let id = try enqueue(made)
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "succeeded", "\(made.path): \(task.error?.detail ?? "") \(home.logText.suffix(1000))")
    if !mayLackFile || task.file != nil { expectContent(task.file, made.content, made.path) }
    mayLackFile = false
    if let destination = made.destination { #expect(task.file == destination) }
    var kinds: [String] = []
    while kinds.last != "finishEvents" {
      let notice = try client.delivery()
      kinds.append(notice.kind)
      if notice.kind == "file" { expectContent(notice.task?.file, made.content, made.path) }
      if notice.kind != "finishEvents" { #expect(notice.task?.id == id) }
      try client.acknowledge(notice)
    }
    #expect(kinds.filter { $0 == "completion" }.count == 1, "\(kinds)")
    return try server.fetchedTwice(made.path).max() ?? 0
  }

  private func checkEnd(deaths: Int?) throws {
    // Every task was acknowledged: nothing of it is left, but the files that clients asked for by name.
    let left = try client.perform("listing") { client, _ in try client.list() }
    #expect(left.isEmpty, "lost or duplicated: \(left.map(\.url))")
    let names = placedNames.sorted()
    try eventually(
      "only results in \(home.out): \(DaemonHome.names(in: home.out))",
      is: {
        DaemonHome.names(in: home.out) == names
      })
    try eventually("no file of the daemon's own: \(home.ownFiles())", is: { home.ownFiles().isEmpty })
    if let deaths { #expect(starts >= deaths + 1) }
    client.vanish()
    home.end()
  }
}
