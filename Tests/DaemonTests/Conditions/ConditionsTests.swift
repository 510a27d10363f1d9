import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

extension ProtocolClient {
  func conditions() throws -> ConditionsResult { try call(.conditionsShow(EmptyParameters()), ConditionsResult.self) }

  @discardableResult
  func set(_ values: [String: String]) throws -> ConditionsResult {
    let values = values.sorted { $0.key < $1.key }.map { ConditionValue(name: $0.key, value: $0.value) }
    return try call(.conditionsSet(ConditionsSetParameters(values: values)), ConditionsResult.self)
  }

  @discardableResult
  func clear(_ names: [String]? = nil) throws -> ConditionsResult {
    try call(.conditionsClear(ConditionsClearParameters(names: names)), ConditionsResult.self)
  }
}

extension ConditionsResult {
  subscript(name: String) -> String? { conditions.first { $0.name == name }?.value }
  func source(_ name: String) -> String? { sources.first { $0.name == name }?.state }
}

/// Conditions with real daemons, set by hand.
@Suite struct SetConditionsTests {
  @Test func aTaskWaitsOnAMeteredNetworkSaysWhyAndGoesOnByItself() throws {
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let server = try LocalServer.start { _ in .generated(length: 1000, seed: 1) }
    defer { server.stop() }
    let session = try client.open("s")
    try client.set(["metered": "yes"])
    var wire = WireTaskSpecification.download(server.url("/a"))
    wire.requires = ["unmetered"]
    let id = try client.enqueue(wire, in: session)
    let waiting = try client.show(id)
    #expect(waiting.state == "waiting" && waiting.reason == "the network is metered")
    #expect(waiting.requires == ["unmetered"])
    let blocker = try #require(waiting.blockers?.first)
    #expect(blocker.name == "unmetered" && blocker.sinceMilliseconds != nil && !blocker.lifts.isEmpty)
    #expect(server.requestCount == 0)
    try client.clear(["metered"])
    #expect(try client.waitForEnd(of: id).state == "succeeded")
    home.end()
  }

  @Test func aRunningTransferStopsAndIsContinuedWithoutFetchingAnythingTwice() throws {
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let content = GeneratedContent(length: 4_000_000, seed: 2)
    let server = try ContentServer()
    defer { server.stop() }
    server.put("/big", content) { $0.stall(afterBytes: 2_000_000) }
    let session = try client.open("s")
    var wire = WireTaskSpecification.download(server.url("/big"))
    wire.requires = ["unmetered"]
    let id = try client.enqueue(wire, in: session)
    try client.watch(id)
    try client.waitForBytes(of: id, atLeast: 2_000_000)
    try client.set(["metered": "yes"])
    let stopped = try client.show(id)
    #expect(stopped.state == "waiting" && stopped.received == 2_000_000)
    try client.clear()
    let done = try client.waitForEnd(of: id)
    #expect(done.state == "succeeded" && done.attempts == 2)
    expectContent(done.file, content)
    #expect(server.server.requests.last?.headers["Range"] == "bytes=2000000-")
    #expect(try server.fetchedTwice("/big") == [0])
    home.end()
  }

  @Test func whatWasSetOutlivesTheDaemon() throws {
    let home = try DaemonHome()
    let first = try home.startForeground()
    try home.connect().set(["metered": "yes", "battery": "7", "power": "battery"])
    first.signal(SIGTERM)
    try first.wait()
    try home.startForeground()
    let client = try home.connect()
    let shown = try client.conditions()
    #expect(shown["metered"] == "yes" && shown["battery"] == "7" && shown["power"] == "battery")
    #expect(shown["network"] == "up" && shown["idle"] == "yes")
    #expect(!shown.satisfied.contains("unmetered") && !shown.satisfied.contains("batteryNotLow"))
    try client.clear()
    #expect(!FileManager.default.fileExists(atPath: home.path + "/conditions"))
    home.end()
  }

  @Test func aThingThatIsNoConditionIsRefusedWithTheNamesThereAre() throws {
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    for (name, value) in [("weather", "fine"), ("metered", "maybe"), ("battery", "101"), ("battery", "-1")] {
      #expect(refusal { try client.set([name: value]) }?.name == .invalidParameters)
    }
    #expect(refusal { try client.clear(["weather"]) }?.message.contains("metered") == true)
    #expect(refusal { try client.set(["battery": "101"]) }?.message.contains("0 to 100") == true)
    #expect(try client.conditions()["metered"] == "no")
    home.end()
  }

  private func refusal(_ body: () throws -> Void) -> WireError? {
    do {
      try body()
    } catch ProtocolClient.Failure.refused(let error) {
      return error
    } catch {}
    return nil
  }

  @Test func aDiscretionaryTaskWaitsForPower() throws {
    let home = try DaemonHome()
    try home.startForeground()
    let client = try home.connect()
    let server = try LocalServer.start { _ in .generated(length: 10, seed: 1) }
    defer { server.stop() }
    try client.set(["power": "battery"])
    var wire = WireTaskSpecification.download(server.url("/a"))
    wire.isDiscretionary = true
    wire.clientExpectsToReceive = 12
    wire.earliestBeginMilliseconds = 1000
    let id = try client.enqueue(wire, in: try client.open("s"))
    let shown = try client.show(id)
    #expect(shown.state == "waiting" && shown.isDiscretionary == true && shown.clientExpectsToReceive == 12)
    #expect(shown.blockers?.first?.name == "externalPower" && shown.blockers?.first?.untilMilliseconds != nil)
    #expect(shown.earliestBeginMilliseconds == 1000)
    var update = TaskUpdateParameters(id: id)
    update.clear = ["earliestBegin", "clientExpectsToReceive"]
    _ = try client.call(.taskUpdate(update), TaskIdentifiersResult.self)
    #expect(try client.show(id).earliestBeginMilliseconds == nil)
    try client.set(["power": "external"])
    #expect(try client.waitForEnd(of: id).state == "succeeded")
    home.end()
  }
}

/// The sources themselves: a bus with services of python3-dbusmock, a folder in place of sysfs, a network namespace.
@Suite struct DeviceSourceTests {
  @Test func theBusIsListenedTo() throws {
    let bus = try DeviceBus()
    try bus.tell("start networkmanager")
    try bus.tell("start upower")
    try bus.tell("start logind")
    let home = try DaemonHome(["DBUS_SYSTEM_BUS_ADDRESS": bus.address])
    try home.startForeground()
    let client = try home.connect()
    let first = try client.conditions()
    #expect(first["metered"] == "no" && first["power"] == "external" && first["idle"] == "no")
    #expect(first.source("NetworkManager")?.hasPrefix("connected") == true)
    try bus.tell("set networkmanager Metered u 3")
    try bus.tell("set upower OnBattery b true")
    try bus.tell("set logind IdleHint b true")
    let second = try eventually("the bus's changes") { () -> ConditionsResult? in
      let shown = try client.conditions()
      return shown["metered"] == "yes" && shown["power"] == "battery" && shown["idle"] == "yes" ? shown : nil
    }
    #expect(second["constrained"] == "no")
    // A service that goes, and one that comes late.
    try bus.tell("stop networkmanager")
    try bus.tell("start power_profiles_daemon")
    try bus.tell("set power_profiles_daemon ActiveProfile s power-saver")
    try bus.tell("resume")
    try eventually("the services that came and went") {
      let shown = try client.conditions()
      return shown["metered"] == "no" && shown["saving"] == "yes"
    }
    home.end()
  }

  @Test func aServiceThatHangsStopsNobody() throws {
    let bus = try DeviceBus()
    try bus.tell("start networkmanager")
    try bus.tell("start upower")
    try bus.tell("set networkmanager Metered u 1")
    try bus.tell("hang upower")
    let home = try DaemonHome(["DBUS_SYSTEM_BUS_ADDRESS": bus.address])
    try home.startForeground()
    let client = try home.connect()
    let server = try LocalServer.start { _ in .generated(length: 10, seed: 1) }
    defer { server.stop() }
    let session = try client.open("s")
    var wire = WireTaskSpecification.download(server.url("/a"))
    wire.requires = ["unmetered"]
    let blocked = try client.enqueue(wire, in: session)
    // The loop serves others while UPower does not answer.
    #expect(try client.waitForEnd(of: client.download(server.url("/a"), in: session)).state == "succeeded")
    try eventually("the metered network is known", is: { try client.show(blocked).reason == "the network is metered" })
    #expect(try client.conditions()["constrained"] == "yes")
    home.end()
  }

  @Test func batteriesAreReadFromSysfsWhereNobodyElseTells() throws {
    let home = try DaemonHome()
    let supply = home.path + "/sys/class/power_supply"
    for name in ["AC", "BAT0", "mouse"] {
      try FileManager.default.createDirectory(atPath: "\(supply)/\(name)", withIntermediateDirectories: true)
    }
    func write(_ name: String, _ text: String) throws {
      try Data("\(text)\n".utf8).write(to: URL(fileURLWithPath: "\(supply)/\(name)"))
    }
    try write("AC/type", "Mains")
    try write("AC/online", "0")
    try write("BAT0/type", "Battery")
    try write("BAT0/status", "Discharging")
    try write("BAT0/capacity", "17")
    try write("mouse/type", "Battery")
    try write("mouse/scope", "Device")
    try write("mouse/capacity", "99")
    try home.startForeground(["FERRY_SYSFS": home.path + "/sys"])
    let client = try home.connect()
    let shown = try client.conditions()
    #expect(shown["power"] == "battery" && shown["battery"] == "17")
    #expect(!shown.satisfied.contains("batteryNotLow"))
    try write("AC/online", "1")
    try eventually("the charger is seen", is: { try client.conditions()["power"] == "external" })
    home.end()
  }

  /// In a network namespace of its own: a task for another host waits while the link is down.
  @Test(.enabled(if: BareNetwork.isPossible, "needs root and ip(8)"))
  func aLinkThatGoesDownIsNoNetwork() throws {
    let home = try DaemonHome()
    let network = try BareNetwork()
    defer { network.end() }
    let daemon = try network.startDaemon(home)
    defer { daemon.kill() }
    let client = try home.connect()
    #expect(try client.conditions()["network"] == "none")
    let session = try client.open("s")
    let far = try client.download("http://192.0.2.1:9/a", in: session)
    try eventually("it waits for a network", is: { try client.show(far).reason == "there is no network" })
    for arguments in [
      ["link", "add", "veth0", "type", "veth", "peer", "name", "veth1"], ["link", "set", "veth0", "up"],
      ["link", "set", "veth1", "up"], ["address", "add", "192.0.2.2/24", "dev", "veth0"],
    ] { try network.ip(arguments) }
    try eventually("the network is seen", is: { try client.conditions()["network"] == "up" })
    try client.waitForTask(far, "is tried") { $0.attempts > 0 }
    try network.ip(["link", "set", "veth1", "down"])
    try eventually("the lost carrier is seen", is: { try client.conditions()["network"] == "none" })
    try eventually("the task waits", is: { try client.show(far).blockers?.first?.name == "network" })
    home.end()
  }
}

/// A network namespace with nothing in it but the loopback.
final class BareNetwork {
  static let isPossible = CableNetwork.ip != nil && geteuid() == 0
  private let name = "ferry-b\(String(Clocks.randomWord() & 0xFFFFFF, radix: 36))"

  init() throws {
    let made = try Shell.output(try #require(CableNetwork.ip), ["netns", "add", name])
    try #require(made.status == .exited(code: 0), "\(made.errors)")
    try ip(["link", "set", "lo", "up"])
  }

  func end() { if let ip = CableNetwork.ip { _ = try? Shell.output(ip, ["netns", "delete", name]) } }

  func ip(_ arguments: [String]) throws {
    let made = try Shell.output(try #require(CableNetwork.ip), ["-n", name] + arguments)
    try #require(made.status == .exited(code: 0), "ip \(arguments): \(made.errors)")
  }

  func startDaemon(_ home: DaemonHome) throws -> Program {
    let program = try Program(
      try #require(CableNetwork.ip), ["netns", "exec", name, DaemonHome.executable("ferryd"), "--foreground"],
      environment: home.environment, folder: home.path)
    try eventually("the daemon answers \(program.errorText)", is: { (try? ProtocolClient(home))?.close() != nil })
    return program
  }
}
