import Glibc
package import LinuxSystem
import Synchronization
package import TransferCore

/// The sources of the device's conditions, on a thread of their own: a bus or a service that hangs stops nobody.
///
/// Nothing is opened before somebody needs it. Changes are reported when they have lasted for a moment; the first
/// answer to what was asked for at once.
package final class DeviceConditions: Sendable {
  /// Where the sources are, for tests and containers.
  package struct Places: Sendable {
    /// In place of `/sys`.
    package var sysfs: String

    package init(sysfs: String = "/sys") { self.sysfs = sysfs }

    /// `FERRY_SYSFS` names another root of sysfs; the bus is `DBUS_SYSTEM_BUS_ADDRESS`, as sd-bus has it.
    package init(environment: [String: String]) {
      let given = environment["FERRY_SYSFS"] ?? ""
      sysfs = given.hasPrefix("/") ? given : "/sys"
    }
  }

  enum Request: Sendable {
    case need(Constraints)
    case refresh
  }

  private let requests: Mailbox<Request>
  private let worker: Worker

  /// - Parameter report: called on the sources' thread.
  package init(_ places: Places, report: @escaping @Sendable (DeviceFacts) -> Void) throws(SystemError) {
    let requests = try Mailbox<Request>()
    self.requests = requests
    worker = try Worker(name: "ferry-device", limit: 1)
    worker.submit {
      do throws(SystemError) {
        try Watch(places, requests, report).run()
      } catch {
        // No thread, no source: then nothing is known, and nothing stands in anybody's way.
        var facts = DeviceFacts()
        facts.busProblem = "the sources cannot be watched: \(error)"
        report(facts)
      }
    }
  }

  /// From now on the facts behind these constraints are watched.
  package func need(_ constraints: Constraints) { requests.post(.need(constraints)) }

  /// Looks at everything that is watched again.
  package func refresh() { requests.post(.refresh) }
}

/// The thread's own state.
private final class Watch {
  /// How long a change must last: a router that is left for the next one is no loss of the network.
  private static let settle = Duration.seconds(1)
  /// Properties change in flocks, and are asked for once.
  private static let pause = Duration.milliseconds(50)
  /// A bus that accepts a connection and then says nothing is none.
  private static let patience = Duration.seconds(5)
  /// A socket appears a moment before somebody listens on it.
  private static let triesOfArrival = 5

  private let places: DeviceConditions.Places
  private let requests: Mailbox<DeviceConditions.Request>
  private let report: @Sendable (DeviceFacts) -> Void
  private let loop: EventLoop
  private var needed: Constraints = []
  private var facts = DeviceFacts()
  private var reported: DeviceFacts?
  private var reportAt: BootInstant?
  private var networkNotices: Int32 = -1
  private var deviceNotices: Int32 = -1
  private var isNetworkDue = false
  private var isPowerDue = false
  private var bus: SystemBus?
  private var busRegistration: EventLoop.Registration?
  private var askAt: BootInstant?
  private var hasMore = false
  /// The bus has said nothing yet, and is given up then.
  private var heardBy: BootInstant?
  /// Where there is no bus: hears of one that comes.
  private var arrivals: FolderWatch?
  private var arrivalsRegistration: EventLoop.Registration?
  private var openAt: BootInstant?
  private var triesLeft = 0

  init(
    _ places: DeviceConditions.Places, _ requests: Mailbox<DeviceConditions.Request>,
    _ report: @escaping @Sendable (DeviceFacts) -> Void
  ) throws(SystemError) {
    self.places = places
    self.requests = requests
    self.report = report
    loop = try EventLoop()
    facts.pending = .all
    _ = try loop.register(descriptor: requests.descriptor, interest: .readable) { _ in }
  }

  /// For the life of the process.
  func run() throws(SystemError) {
    while true {
      let now = BootInstant.now()
      let deadlines = [reportAt, askAt, heardBy, openAt, bus?.deadline(at: now)].compactMap { $0 }
      if hasMore { try loop.poll() } else { try loop.wait(until: deadlines.min()) }
      turn()
    }
  }

  private func turn() {
    for request in requests.drain() {
      switch request {
      case .need(let constraints): open(constraints)
      case .refresh: refresh()
      }
    }
    if let due = openAt, due <= .now() {
      openAt = nil
      openBus()
    }
    workBus()
    if isNetworkDue {
      isNetworkDue = false
      facts.network = DeviceFacts.Network.read()
      facts.pending.remove(.network)
    }
    takeBusValues()
    if isPowerDue, facts.isOnBattery == nil, needed.intersection(DeviceFacts.askedOverBus) != [] {
      isPowerDue = false
      facts.supplies = PowerSupply.all(under: places.sysfs)
    }
    tell()
  }

  private func refresh() {
    isNetworkDue = needed.contains(.network)
    isPowerDue = true
    if needed.intersection(DeviceFacts.askedOverBus) != [] {
      if bus == nil { openBus() } else { bus?.ask() }
    }
  }

  private func open(_ constraints: Constraints) {
    let new = constraints.subtracting(needed)
    needed.formUnion(new)
    if new.contains(.network) {
      networkNotices = (try? KernelNotices.network().take()) ?? -1
      watch(networkNotices) { [unowned self] descriptor in
        if KernelNotices.drain(descriptor) { isNetworkDue = true }
      }
      isNetworkDue = true
    }
    if !new.isDisjoint(with: DeviceFacts.askedOverBus), bus == nil {
      deviceNotices = deviceNotices >= 0 ? deviceNotices : (try? KernelNotices.devices().take()) ?? -1
      watch(deviceNotices) { [unowned self] descriptor in
        if KernelNotices.drain(descriptor, lookingFor: "power_supply") { isPowerDue = true }
      }
      isPowerDue = true
      openBus()
    }
  }

  private func watch(_ descriptor: Int32, _ body: @escaping (Int32) -> Void) {
    guard descriptor >= 0 else { return }
    _ = try? loop.register(descriptor: descriptor, interest: .readable) { _ in body(descriptor) }
  }

  // MARK: The bus

  private func openBus() {
    // Before the attempt: a bus that comes in between is heard of.
    awaitBus()
    do throws(BusFailure) {
      let opened = try SystemBus()
      bus = opened
      facts.busProblem = nil
      heardBy = .now() + Self.patience
      busRegistration = try? loop.register(descriptor: opened.descriptor, interest: opened.interest) { _ in }
      awaitBusNoMore()
    } catch {
      loseBus(error.words)
    }
  }

  private func loseBus(_ why: String) {
    if let busRegistration { loop.remove(busRegistration) }
    busRegistration = nil
    bus = nil
    askAt = nil
    heardBy = nil
    hasMore = false
    facts.busProblem = why
    isPowerDue = true
    awaitBus()
    guard triesLeft > 0 else { return }
    triesLeft -= 1
    openAt = .now() + Self.pause
  }

  private func awaitBus() {
    guard arrivalsRegistration == nil else { return }
    arrivals = try? BusSocket.arrivals()
    guard let descriptor = arrivals?.descriptor else { return }
    arrivalsRegistration = try? loop.register(descriptor: descriptor, interest: .readable) { [unowned self] _ in
      // The folder may be another one from now on, so its watch is made anew.
      awaitBusNoMore()
      triesLeft = Self.triesOfArrival
      openAt = openAt ?? .now() + Self.pause
    }
  }

  private func awaitBusNoMore() {
    if let arrivalsRegistration { loop.remove(arrivalsRegistration) }
    arrivalsRegistration = nil
    arrivals = nil
  }

  private func workBus() {
    guard let bus else { return }
    let (isAlive, hasMore) = bus.process()
    guard isAlive else { return loseBus("the connection to the system bus was lost") }
    self.hasMore = hasMore
    if bus.isHeard {
      heardBy = nil
      triesLeft = 0
    } else if let due = heardBy, due <= .now() {
      return loseBus("the system bus does not answer")
    }
    if bus.takeResumption() {
      isNetworkDue = needed.contains(.network)
      isPowerDue = true
    }
    let now = BootInstant.now()
    if bus.isStale, askAt == nil { askAt = now + Self.pause }
    if let due = askAt, due <= now {
      askAt = nil
      bus.ask()
    }
    if let busRegistration { try? loop.modify(busRegistration, interest: bus.interest) }
  }

  private func takeBusValues() {
    func integer(_ property: SystemBus.Property) -> Int64? {
      if case .integer(let value)? = bus?.values[property] { value } else { nil }
    }
    let wasKnown = facts.isOnBattery != nil
    facts.managerState = integer(.managerState)
    facts.managerMetered = integer(.managerMetered)
    facts.isOnBattery = integer(.onBattery).map { $0 != 0 }
    facts.warningLevel = integer(.warningLevel)
    facts.isIdle = integer(.idle).map { $0 != 0 }
    facts.displayPercent = nil
    if integer(.displayPresent) == 1, case .number(let percent)? = bus?.values[.displayPercent] {
      facts.displayPercent = percent
    }
    facts.powerProfile = nil
    if case .text(let profile)? = bus?.values[.profile] { facts.powerProfile = profile }
    if wasKnown, facts.isOnBattery == nil { isPowerDue = true }
    let isAnswered = bus == nil || bus?.isWaiting == false
    if isAnswered, !needed.isDisjoint(with: DeviceFacts.askedOverBus) {
      facts.pending.subtract(DeviceFacts.askedOverBus)
    }
  }

  // MARK: Telling

  /// What answers a question goes out at once, a change when it has lasted.
  private func tell() {
    guard facts != reported else {
      reportAt = nil
      return
    }
    let isAnswer = reported.map { !$0.pending.subtracting(facts.pending).isEmpty } ?? (facts.pending != .all)
    let now = BootInstant.now()
    if isAnswer || reportAt.map({ $0 <= now }) == true {
      reportAt = nil
      reported = facts
      report(facts)
    } else if reported != nil, reportAt == nil {
      reportAt = now + Self.settle
    }
  }
}
