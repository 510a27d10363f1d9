import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// What the daemon believes without being made to look: the blockers of a task that requires all there is, and that
/// does not begin before tomorrow.
private struct Witness {
  let client: ProtocolClient
  let task: Int64

  init(_ home: DaemonHome) throws {
    client = try home.connect()
    var wire = WireTaskSpecification.download("http://127.0.0.1:9/a")
    wire.requires = ["unmetered", "unconstrained", "externalPower", "batteryNotLow", "fullPower", "idle"]
    wire.earliestBeginMilliseconds = Clocks.wallMilliseconds() + 86_400_000
    task = try client.enqueue(wire, in: try client.open("witness"))
  }

  func unmet() throws -> [String] {
    let blockers = try client.show(task).blockers ?? []
    // Until everything was asked for once, nothing is believed.
    guard !blockers.contains(where: { $0.cause.contains("being looked at") }) else { return ["pending"] }
    return blockers.map(\.name).filter { $0 != "time" }
  }

  func waits(for names: String..., sourceLocation: SourceLocation = #_sourceLocation) throws {
    var last: [String] = []
    do {
      try eventually("") {
        last = try unmet()
        return last == names
      }
    } catch is Late {
      Issue.record("it waits for \(last), not for \(names)", sourceLocation: sourceLocation)
    }
  }
}

/// The system bus as a source: a private one, with services of python3-dbusmock.
@Suite(.timeLimit(.minutes(2))) struct BusTests {
  private let bus: DeviceBus
  private let home: DaemonHome

  init() throws {
    bus = try DeviceBus()
    home = try DaemonHome(["DBUS_SYSTEM_BUS_ADDRESS": bus.address])
  }

  private func startAll() throws {
    for name in ["networkmanager", "upower", "logind", "power_profiles_daemon"] { try bus.tell("start \(name)") }
    try bus.tell("set logind IdleHint b true")
  }

  @Test func eachChangeIsHeardWithoutAnybodyAsking() throws {
    try startAll()
    try home.startForeground()
    let witness = try Witness(home)
    try witness.waits()
    // NMMetered: yes, a guess of yes, no, a guess of no.
    try bus.tell("set networkmanager Metered u 1")
    try witness.waits(for: "unmetered", "unconstrained")
    try bus.tell("set networkmanager Metered u 3")
    try witness.waits(for: "unmetered")
    try bus.tell("set networkmanager Metered u 2")
    try witness.waits()
    try bus.tell("set upower OnBattery b true")
    try bus.tell("set display IsPresent b true")
    try bus.tell("set display Percentage d 63")
    try witness.waits(for: "externalPower")
    try bus.tell("set display Percentage d 20")
    try witness.waits(for: "externalPower", "batteryNotLow")
    try bus.tell("set display WarningLevel u 3")
    try witness.waits(for: "externalPower", "batteryNotLow", "fullPower")
    try bus.tell("set upower OnBattery b false")
    try bus.tell("set display WarningLevel u 1")
    try witness.waits()
    try bus.tell("set power_profiles_daemon ActiveProfile s power-saver")
    try bus.tell("set logind IdleHint b false")
    try witness.waits(for: "fullPower", "idle")
    // A service that goes takes its word with it, one that comes is asked.
    try bus.tell("stop logind")
    try witness.waits(for: "fullPower")
    try bus.tell("set networkmanager Metered u 4")
    try bus.tell("start logind")
    try bus.tell("set logind IdleHint b false")
    try witness.waits(for: "fullPower", "idle")
    home.end()
  }

  @Test func whatAServiceSaidHoldsWhileItHangs() throws {
    try startAll()
    try home.startForeground()
    let witness = try Witness(home)
    try bus.tell("set networkmanager Metered u 1")
    try witness.waits(for: "unmetered", "unconstrained")
    try bus.tell("hang networkmanager")
    // Whatever changes makes the daemon ask everybody.
    try bus.tell("set upower OnBattery b true")
    try witness.waits(for: "unmetered", "unconstrained", "externalPower")
    try bus.tell("set upower OnBattery b false")
    try witness.waits(for: "unmetered", "unconstrained")
    try bus.tell("stop networkmanager")
    try witness.waits()
    home.end()
  }

  @Test func aBusThatEndsIsNoSourceAndOneThatComesBackIsHeard() throws {
    try bus.tell("bus stop")
    try home.startForeground()
    let witness = try Witness(home)
    try witness.waits()
    for _ in 0..<2 {
      try bus.tell("bus start")
      try bus.tell("start networkmanager")
      try bus.tell("set networkmanager Metered u 1")
      try witness.waits(for: "unmetered", "unconstrained")
      try bus.tell("bus stop")
      try witness.waits()
    }
    let shown = try witness.client.conditions()
    #expect(shown.source("UPower")?.contains("system bus") == true, "\(shown.sources)")
    home.end()
  }

  @Test func aBusThatNeverAnswersHoldsNobodyUp() throws {
    try bus.tell("bus hang")
    try home.startForeground()
    let witness = try Witness(home)
    #expect(try witness.unmet() == ["pending"])
    try witness.waits()
    #expect(try witness.client.conditions().source("NetworkManager") == "the system bus does not answer")
    home.end()
  }

  @Test func valuesThatMakeNoSenseAreNothingAndAFloodHurtsNobody() throws {
    try startAll()
    for nonsense in [
      "networkmanager Metered s yes", "networkmanager State as x", "upower OnBattery d nan", "display IsPresent b true",
      "display Percentage d nan", "display WarningLevel t 18446744073709551615", "logind IdleHint as true",
      "power_profiles_daemon ActiveProfile u 7",
    ] { try bus.tell("set \(nonsense)") }
    try home.startForeground()
    let witness = try Witness(home)
    try witness.waits()
    for nonsense in [
      "display Percentage d inf", "display Percentage s 5", "networkmanager Metered x -9223372036854775808",
      "power_profiles_daemon ActiveProfile s \(String(repeating: "power-saver", count: 1000))",
      "upower OnBattery u 4294967295",
    ] { try bus.tell("set \(nonsense)") }
    // A whole number counts as a yes where a yes is asked for.
    try witness.waits(for: "externalPower")
    try bus.tell("flood upower 1000")
    try bus.tell("set upower OnBattery b false")
    try bus.tell("set networkmanager Metered u 1")
    try witness.waits(for: "unmetered", "unconstrained")
    home.end()
  }

  /// A discretionary task does not begin on the battery, is taken off the wire when the charger goes, and goes on.
  @Test func aDiscretionaryTransferFollowsTheCharger() throws {
    try startAll()
    try bus.tell("set upower OnBattery b true")
    try home.startForeground()
    let client = try home.connect()
    let content = GeneratedContent(length: 3_000_000, seed: 9)
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/big", content) { $0.stall(afterBytes: 1_000_000) }
    var wire = WireTaskSpecification.download(server.url("/big"))
    wire.isDiscretionary = true
    let id = try client.enqueue(wire, in: try client.open("s"))
    try eventually("the battery is known", is: { try client.show(id).blockers?.first?.name == "externalPower" })
    let why = try home.run("ferry", ["why", "\(id)"])
    #expect(why.output.contains("the device runs on its battery") && why.output.contains("external power"), "\(why)")
    #expect(server.server.requestCount == 0)
    try bus.tell("set upower OnBattery b false")
    try client.watch(id)
    try client.waitForBytes(of: id, atLeast: 1_000_000)
    try bus.tell("set upower OnBattery b true")
    try eventually("it is off the wire", is: { try client.show(id).state == "waiting" })
    #expect(try client.show(id).received == 1_000_000)
    try bus.tell("set upower OnBattery b false")
    let done = try client.waitForEnd(of: id)
    #expect(done.state == "succeeded" && done.attempts == 2)
    expectContent(done.file, content)
    #expect(try server.fetchedTwice("/big") == [0])
    home.end()
  }
}
