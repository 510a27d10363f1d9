import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// Apps as real processes: launched, collected, left alone, launched again, ended.
@Suite(.serialized, .timeLimit(.minutes(5))) struct AppTests {
  /// Delays of minutes, as fractions of a second; a grant that a loaded machine keeps.
  static let policy = "delay:700,grant:8000,end:300,restart:400"

  struct Entry: Decodable {
    var event: String
    var pid: Int32
    var launch: Int64
    var reason: String?
    var session: String?
    var kind: String?
    var number: Int64?
    var task: Int64?
    var environment: [String]?
    var folder: String?
    var descriptors: [Int32]?
    var leader: Bool?
  }

  /// A home with a server that answers when it is told to, and one app.
  final class Stage {
    let home: DaemonHome
    let gate = Gate()
    let server: LocalServer
    var client: ProtocolClient
    let app = "org.example.tests"

    /// - Parameter fault: of a daemon without a supervisor.
    init(_ policy: String = AppTests.policy, fault: String? = nil) throws {
      home = try DaemonHome(["FERRY_TEST_LAUNCHES": policy, "FERRY_SECRET": "not for apps"])
      let gate = gate
      server = try LocalServer.start { request in
        if request.path.hasPrefix("/private"), !SecretCases.login.isShown(by: request) {
          return SecretCases.login.challenge
        }
        let answer = Response.generated(length: 1024, seed: 7).etag("\"a\"")
        return request.path.hasPrefix("/gated") ? answer.hold(until: gate) : answer
      }
      if let fault { try home.startForeground(["FERRY_FAULT": fault]) } else { try home.startSupervised() }
      client = try home.connect()
    }

    deinit { server.stop() }

    var book: String { home.path + "/book" }

    func entries() -> [Entry] {
      ((try? readText(book)) ?? "").split(separator: "\n").compactMap {
        try? JSONDecoder().decode(Entry.self, from: Data($0.utf8))
      }
    }

    func register(_ behaviour: String) throws {
      let script = Files.parent(of: #filePath) + "/Fixtures/background_app.py"
      _ = try client.call(
        .appRegister(
          AppRegisterParameters(app: app, command: ["/usr/bin/python3", script, book, behaviour])), EmptyResult.self)
    }

    /// The app enqueues as an ordinary process, which then ends.
    func enqueue(
      _ count: Int, sendsLaunchEvents: Bool? = nil, path: String = "/gated", answersChallenges: Bool = false
    ) throws -> [Int64] {
      let process = try home.connect()
      let session = try process.call(
        .sessionOpen(
          SessionOpenParameters(
            app: app, identifier: "s", attach: true, collectsResults: true, network: WireNetwork(),
            sendsLaunchEvents: sendsLaunchEvents, answersChallenges: answersChallenges)), SessionOpenResult.self
      ).session
      let receipts = try process.enqueue(
        (0..<count).map { .download(server.url("\(path)/\($0)")) }, in: session)
      process.close()
      return receipts.compactMap(\.id)
    }

    func show() throws -> AppSnapshot {
      try client.call(.appShow(AppParameters(app: app)), AppShowResult.self).app
    }

    func wait(_ what: String, seconds: Double = 60, _ isThere: (AppSnapshot) -> Bool) throws -> AppSnapshot {
      var last: AppSnapshot?
      do {
        return try eventually(what, seconds: seconds) {
          let shown = try show()
          last = shown
          return isThere(shown) ? shown : nil
        }
      } catch is Late {
        throw Late("\(what): \(last.map { "\($0)" } ?? "") \(entries()) \(home.logText.suffix(2000))")
      }
    }

    /// Long enough that a launch which should not be would have come.
    func staysQuiet(launches: Int) throws {
      let end = Deadline(seconds: 2)
      while !end.isOver {
        #expect(try show().launches.count == launches)
        _ = poll(nil, 0, 100)
      }
    }
  }

  @Test func aKilledAppIsLaunchedOnceGetsItsResultsInOrderAndIsLeftAlone() throws {
    let stage = try Stage()
    try stage.register("collect")
    let ids = try stage.enqueue(3)
    #expect(try stage.show().launches.isEmpty)
    stage.gate.open()
    let shown = try stage.wait("the app collects") { $0.launches.first?.endedMilliseconds != nil }
    #expect(shown.launches.map(\.outcome) == ["handled"])
    #expect(shown.launches[0].output == "this is launch 1\n")
    #expect(shown.state == "notRunning")
    let entries = stage.entries()
    let deliveries = entries.filter { $0.event == "delivery" }
    #expect(Set(deliveries.compactMap(\.task)) == Set(ids))
    let pair = ["file", "completion"]
    #expect(deliveries.compactMap(\.kind) == pair + pair + pair + ["finishEvents"])
    #expect(deliveries.compactMap(\.number) == Array(1...7))
    #expect(entries.last?.event == "handled")
    let start = try #require(entries.first)
    #expect(start.reason == "sessionEvents" && start.session == "s" && start.leader == true)
    #expect(start.folder == stage.home.path)
    #expect(start.descriptors == [0, 1, 2, 3], "no descriptor of the daemon's; 3 lists them")
    #expect(start.environment?.contains("FERRY_SECRET") == false)
    #expect(
      Set(start.environment ?? []).isSuperset(of: [
        "FERRY_APP_ID", "FERRY_HOME", "FERRY_LAUNCH", "FERRY_LAUNCH_REASON", "FERRY_LAUNCH_SESSION", "HOME", "LANG",
        "PATH",
      ]))
    try stage.staysQuiet(launches: 1)
    #expect(try stage.show().reason == "Nothing waits for it.")
  }

  @Test func killedInsideTheSecondCallItGetsTheRestWithTheNextLaunch() throws {
    let stage = try Stage()
    try stage.register("second")
    _ = try stage.enqueue(3)
    stage.gate.open()
    let shown = try stage.wait("the second launch collects") { $0.launches.last?.outcome == "handled" }
    #expect(shown.launches.map(\.outcome) == ["exitedEarly", "handled"])
    #expect(shown.launches[0].detail == "It ended with signal 9 before it had collected everything.")
    let second = stage.entries().filter { $0.launch == 2 && $0.event == "delivery" && $0.kind == "completion" }
    let first = stage.entries().filter { $0.launch == 1 && $0.event == "delivery" && $0.kind == "completion" }
    #expect(first.compactMap(\.number) == [2])
    #expect(second.compactMap(\.number) == [4, 6])
    let gap = (shown.launches[1].decidedMilliseconds - shown.launches[0].decidedMilliseconds)
    #expect(gap >= 690, "the next launch waits for its delay")
  }

  @Test func aQuestionLaunchesTheAppThatAnswersIt() throws {
    let stage = try Stage()
    let id = try #require(try stage.enqueue(1, path: "/private", answersChallenges: true).first)
    let asking = try eventually("a question") {
      let task = try stage.client.call(.taskShow(TaskShowParameters(id: id)), TaskShowResult.self).task
      return task.state == "asking" ? task : nil
    }
    // It survives the daemon, and asks for an app that is registered later.
    try stage.home.killDaemon()
    stage.client = try stage.home.connect()
    try stage.register("answer")
    let shown = try stage.wait("the app answers and collects") { $0.launches.last?.outcome == "handled" }
    #expect(shown.launches.count == 1)
    let entries = stage.entries()
    #expect(entries.first?.reason == "challenge")
    let question = entries.filter { $0.event == "question" }
    #expect(question.map(\.task) == [id] && question.map(\.number) == [asking.question?.number])
    #expect(entries.filter { $0.event == "delivery" }.compactMap(\.kind) == ["file", "completion", "finishEvents"])
    let authorized = stage.server.requests.filter { $0.headers["Authorization"] != nil }
    #expect(authorized.count == 1 && stage.server.requestCount == 2)
  }

  @Test func oneThatNeverAttachesIsLaunchedAgainAfterGrowingDelays() throws {
    let stage = try Stage("delay:300,grant:8000,end:300,restart:400")
    try stage.register("crash")
    _ = try stage.enqueue(1)
    stage.gate.open()
    let shown = try stage.wait("four launches") { $0.launches.count { $0.endedMilliseconds != nil } >= 4 }
    let moments = shown.launches.map(\.decidedMilliseconds)
    let gaps = zip(moments.dropFirst(), moments).map { $0 - $1 }
    for (gap, least) in zip(gaps, [300, 600, 1200]) { #expect(gap >= Int64(least) - 10, "\(gaps)") }
    #expect(shown.launches[0].outcome == "exitedEarly")
    let page = try stage.home.run("ferry", ["app", "show", stage.app])
    #expect(page.output.contains("It ended with exit status 3 before it attached to its session."), "\(page)")
    #expect(page.output.contains("| no such luck"), "\(page)")
  }

  @Test func oneThatHangsIsEndedAfterItsGrant() throws {
    let stage = try Stage("delay:60000,grant:2500,end:400,restart:400")
    try stage.register("hang")
    _ = try stage.enqueue(1)
    stage.gate.open()
    let shown = try stage.wait("it is ended") { $0.launches.first?.endedMilliseconds != nil }
    #expect(shown.launches[0].outcome == "ended")
    #expect(shown.launches[0].detail == "It did not attach to its session within 2.5 s, and was ended.")
    #expect(stage.entries().contains { $0.event == "asked to end" }, "SIGTERM comes first")
    let process = try #require(stage.entries().first?.pid)
    #expect(kill(process, 0) != 0, "SIGKILL follows")
    let lasted = (shown.launches[0].endedMilliseconds ?? 0) - (shown.launches[0].startedMilliseconds ?? 0)
    #expect(lasted >= 2890)
  }

  @Test func oneThatNeverReportsIsEndedAndNotLaunchedAgain() throws {
    let stage = try Stage("delay:300,grant:2500,end:400,restart:400")
    try stage.register("linger")
    _ = try stage.enqueue(2)
    stage.gate.open()
    let shown = try stage.wait("it is ended") { $0.launches.first?.endedMilliseconds != nil }
    #expect(shown.launches[0].outcome == "ended")
    #expect(shown.launches[0].detail.hasPrefix("It did not report its events handled (app.handled)"))
    try stage.staysQuiet(launches: 1)
  }

  @Test func onePlainProgramThatCollectsAndEndsIsFine() throws {
    let stage = try Stage()
    try stage.register("quiet")
    _ = try stage.enqueue(2)
    stage.gate.open()
    let shown = try stage.wait("it collects") { $0.launches.first?.outcome != "running" && !$0.launches.isEmpty }
    #expect(shown.launches.map(\.outcome) == ["collected"])
    try stage.staysQuiet(launches: 1)
  }

  @Test func fiveHundredSmallTransfersAreOneLaunch() throws {
    let stage = try Stage("delay:700,grant:60000,end:300,restart:400")
    try stage.register("collect")
    let ids = try stage.enqueue(500)
    #expect(ids.count == 500)
    stage.gate.open()
    let shown = try stage.wait("the app collects", seconds: 120) { $0.launches.first?.outcome == "handled" }
    #expect(shown.launches.count == 1)
    #expect(stage.entries().count { $0.event == "delivery" && $0.kind == "completion" } == 500)
    try stage.staysQuiet(launches: 1)
  }

  /// The daemon dies between the end of the transfers and the launch, and between the launch and its record.
  @Test(arguments: ["launch.spawn:1:kill", "launch.spawned:1:kill"])
  func aDaemonThatDiesInTheLaunchLaunchesOnce(fault: String) throws {
    let stage = try Stage(fault: fault)
    try stage.register("collect")
    _ = try stage.enqueue(3)
    stage.gate.open()
    try eventually("the daemon dies", is: { stage.home.daemonProcessID == nil })
    try stage.home.startForeground()
    stage.client = try stage.home.connect()
    let shown = try stage.wait("the app collects") { !["running", nil].contains($0.launches.last?.outcome) }
    #expect(shown.launches.count == 1, "\(shown.launches)")
    #expect(stage.entries().count { $0.event == "started" } == 1, "\(stage.entries())")
    #expect(stage.entries().count { $0.event == "delivery" && $0.kind == "completion" } == 3)
    try stage.staysQuiet(launches: 1)
  }

  @Test func killNineBetweenTheEndAndTheLaunchStillLaunchesOnce() throws {
    let stage = try Stage("delay:700,grant:8000,end:300,restart:800")
    try stage.register("collect")
    _ = try stage.enqueue(3)
    try stage.home.killDaemon()
    stage.client = try stage.home.connect()
    // The transfers end in the time in which the new daemon waits for its old clients.
    stage.gate.open()
    let shown = try stage.wait("the app collects") { $0.launches.last?.outcome == "handled" }
    #expect(shown.launches.count == 1)
    try stage.staysQuiet(launches: 1)
  }
}
