import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import WireProtocol

/// One life of a mixed workload in which one passage of one fault point goes wrong.
final class FaultRun {
  enum Kind: String, CaseIterable, Sendable {
    case kill, stop
    /// As FERRY_FAULT spells them.
    case ioError = "EIO"
    case noSpace = "ENOSPC"
    case noDescriptors = "EMFILE"
    case brokenPipe = "EPIPE"
  }

  /// Which daemon meets the fault: the one that takes the work on, or its successor, which finds it half done.
  enum Scenario: String, CaseIterable, Sendable { case fresh, successor }

  struct Fault: Sendable, CustomStringConvertible {
    var point: String
    var kind: Kind
    var scenario: Scenario
    var passage: Int
    var text: String { "\(point):\(passage):\(kind.rawValue)" }
    var description: String { "\(text) (\(scenario.rawValue))" }
    var isError: Bool { kind != .kill && kind != .stop }
  }

  typealias Item = FaultWorkload.Item

  struct Outcome: Sendable {
    var fired = false
    var problems: [String] = []
    var seconds = 0.0
    var deaths = 0
  }

  /// Set by one thread, taken by another.
  private final class Mark: Sendable {
    private let isSet = Atomic(false)
    func set() { isSet.store(true, ordering: .releasing) }
    func take() -> Bool { isSet.exchange(false, ordering: .acquiringAndReleasing) }
  }

  private let fault: Fault
  private let home: DaemonHome
  private let work: FaultWorkload
  private let deadline: Deadline
  private let began = ContinuousClock.now
  private var outcome = Outcome()

  private var daemon: Program?
  private var starts = 0
  private var isFaulty = false
  private var faulty: Program?
  private var waker: Worker?
  private let wasStopped = Mark()

  private var client: ProtocolClient?
  private var session: Int64 = 0
  /// Receipts: what the daemon has promised.
  private var accepted: [Item: Int64] = [:]
  private var refusals = 0
  private var acknowledged: Set<Int64> = []
  /// Items whose completion was acknowledged, or that were removed.
  private var settled: Set<Item> = []
  private var perhapsSettled: Set<Item> = []
  private var succeeded: Set<Item> = []
  private var told: Set<Item> = []
  private var moving: Set<Item> = []
  private var heardFinish = false
  private var dataBytes: [UInt8] = []
  private var connections = 0
  private var collects = true

  init(_ fault: Fault, seconds: Double) throws {
    self.fault = fault
    home = try DaemonHome()
    work = try FaultWorkload(home, stalls: fault.scenario == .successor)
    deadline = Deadline(seconds: seconds)
  }

  /// Runs it all; never throws, for several run side by side, and each tells of itself.
  static func run(_ fault: Fault, seconds: Double) -> Outcome {
    do {
      let run = try FaultRun(fault, seconds: seconds)
      defer {
        run.work.server.stop()
        run.home.end()
      }
      do {
        try run.live()
      } catch {
        run.note("\(error)")
      }
      let (whole, rest) = (ContinuousClock.now - run.began).components
      run.outcome.seconds = Double(whole) + Double(rest) / 1e18
      if !run.outcome.problems.isEmpty {
        run.outcome.problems.append("log: \(run.home.logText.suffix(1500)) \(run.faulty?.errorText.suffix(1500) ?? "")")
      }
      return run.outcome
    } catch {
      return Outcome(problems: ["\(error)"])
    }
  }

  private func note(_ problem: String) { outcome.problems.append("\(fault): \(problem)") }

  private func live() throws {
    defer { outcome.fired = faulty?.errorText.contains("fault point \(fault.point) passage") ?? false }
    if fault.scenario == .successor {
      collects = false
      try drive { self.isHalfDone }
      collects = true
      client = nil
      daemon?.kill()
      daemon = nil
    }
    isFaulty = true
    try drive { self.isDone }
    guard outcome.problems.isEmpty else { return }
    try checkEnd()
  }

  /// All is accepted, and what can wait on the wire does.
  private var isHalfDone: Bool {
    accepted.count == Item.allCases.count && moving.isSuperset(of: Item.allCases.filter(\.isEndless) + [.big, .cut])
  }

  private var isDone: Bool { settled.count == Item.allCases.count && heardFinish }

  // MARK: Driving

  private func drive(until isDone: () -> Bool) throws {
    while !isDone() {
      guard !deadline.isOver else { throw Late(state) }
      guard outcome.problems.isEmpty else { return }
      do {
        try step()
      } catch ProtocolClient.Failure.ended {
        client = nil
      } catch let error as ProtocolClient.Failure {
        try takeRefusal(error)
      } catch is Late {
        // Nothing was said for a moment.
      } catch let error as SystemError {
        client = nil
        if deadline.isOver { throw error }
      }
    }
  }

  private var state: String {
    let open = Item.allCases.filter { !settled.contains($0) }.map(\.rawValue)
    let tasks = (try? client?.list().map { "\($0.description ?? "") \($0.state) \($0.received) \($0.reason ?? "")" })
    return "the end of \(open), finish events \(heardFinish), tasks \(tasks ?? [])"
  }

  private func takeRefusal(_ failure: ProtocolClient.Failure) throws {
    guard case .refused(let error) = failure else { throw failure }
    // The daemon has not noticed yet that the connection before this one is gone; or it cannot store now.
    guard error.name == .sessionInUse || (error.name == .degraded && fault.isError) else {
      return note("refused: \(error)")
    }
    if error.name == .sessionInUse { client = nil }
    _ = poll(nil, 0, 5)
  }

  private func step() throws {
    guard let client = try connected() else { return }
    if wasStopped.take() {
      // Stopped for a moment, it finds that its client is gone.
      client.close()
      self.client = nil
      return
    }
    let missing = Item.allCases.filter { accepted[$0] == nil }
    if !missing.isEmpty { try enqueue(missing, client) }
    if collects { try endEndless(client) }
    try take(try client.next(seconds: 0.1), client)
  }

  private func connected() throws -> ProtocolClient? {
    if let client { return client }
    try keepDaemon()
    guard let fresh = try? ProtocolClient(home) else {
      _ = poll(nil, 0, 3)
      return nil
    }
    session = try fresh.open("s", network: WireNetwork(maximumConnectionsPerHost: 12))
    connections += 1
    client = fresh
    try compareBooks(fresh)
    return fresh
  }

  private func keepDaemon() throws {
    if let daemon, let status = daemon.status {
      outcome.deaths += 1
      let isWanted = daemon === faulty && (status == .signalled(number: SIGKILL) || fault.point == "store.open")
      if !isWanted { note("the daemon ended by itself: \(status) \(daemon.errorText.suffix(1000))") }
      self.daemon = nil
    }
    guard daemon == nil else { return }
    let meetsFault = isFaulty && faulty == nil
    daemon = try home.start("ferryd", ["--foreground"], meetsFault ? ["FERRY_FAULT": fault.text] : [:])
    starts += 1
    guard meetsFault, let daemon else { return }
    faulty = daemon
    if fault.kind == .stop { try wakeWhenStopped(daemon) }
  }

  private func wakeWhenStopped(_ daemon: Program) throws {
    let waker = try Worker(name: "waker", limit: 1)
    self.waker = waker
    waker.submit { [deadline, wasStopped] in
      while daemon.status == nil, !deadline.isOver {
        let line = (try? readText("/proc/\(daemon.processID)/stat")) ?? ""
        if line.contains(") T ") {
          wasStopped.set()
          daemon.signal(SIGCONT)
          return
        }
        _ = poll(nil, 0, 5)
      }
    }
  }

  // MARK: The client

  /// What is listed against what was promised.
  private func compareBooks(_ client: ProtocolClient) throws {
    let tasks = try client.list()
    let listed = Set(tasks.map(\.id))
    // What stands still on the wire is told of no more.
    for task in tasks { if let item = item(task) { noteMovement(item, task.received) } }
    for item in Item.allCases {
      guard let id = accepted[item], !settled.contains(item), !listed.contains(id) else { continue }
      if perhapsSettled.contains(item) {
        settled.insert(item)
      } else {
        note("\(item) was accepted as task \(id) and is gone")
      }
    }
    for item in settled {
      if let id = accepted[item], listed.contains(id) { note("\(item) was settled and is listed again") }
    }
  }

  private func enqueue(_ items: [Item], _ client: ProtocolClient) throws {
    let receipts = try client.enqueue(items.map { work.specification($0) }, in: session)
    for (item, receipt) in zip(items, receipts) {
      if let id = receipt.id {
        accepted[item] = id
      } else {
        refusals += 1
        if !fault.isError || refusals > 40 { note("\(item) was refused: \(receipt.error.map { "\($0)" } ?? "")") }
      }
    }
  }

  /// Ends what never ends by itself, once its bytes flow.
  private func endEndless(_ client: ProtocolClient) throws {
    for item in Item.allCases where item.isEndless && !settled.contains(item) && moving.contains(item) {
      guard let id = accepted[item] else { continue }
      if item.isRemoved {
        perhapsSettled.insert(item)
        let result = try client.call(
          .taskRemove(TaskIdentifiersParameters(ids: [id])), TaskIdentifiersResult.self)
        if result.ids != [id] { note("\(item) is unknown to remove") }
        settled.insert(item)
      } else if told.insert(item).inserted {
        do {
          _ = try client.call(.taskCancel(TaskIdentifiersParameters(ids: [id])), TaskIdentifiersResult.self)
        } catch {
          told.remove(item)
          throw error
        }
      }
    }
  }

  private func item(_ task: TaskSnapshot) -> Item? { task.description.flatMap { Item(rawValue: $0) } }

  private func take(_ notification: DaemonNotification, _ client: ProtocolClient) throws {
    switch notification {
    case .taskState(let notice):
      let task = notice.task
      guard let item = self.item(task) else { return }
      noteMovement(item, task.received)
      // A person who looks on would try again at once, too.
      if task.state == "waiting", task.error != nil {
        _ = try client.call(.taskResume(TaskIdentifiersParameters(ids: [task.id])), TaskIdentifiersResult.self)
      }
    case .taskProgress(let notice):
      if let item = accepted.first(where: { $0.value == notice.id })?.key { noteMovement(item, notice.received) }
    case .taskData(let notice): dataBytes += WireCoding.bytes(base64: notice.bytes) ?? []
    case .delivery(let notice): if collects { try take(notice, client) }
    case .taskResumed, .taskResponse, .taskQuestion, .taskRemoved, .sessionEnded, .appWake, .goodbye: break
    }
  }

  private func noteMovement(_ item: Item, _ received: Int64) {
    let enough: Int64 =
      switch item {
      case .cancelled, .removed, .gone, .cut: 150_000
      case .big: 4_500_000
      case .managed, .placed, .replaced, .renamed, .decoded, .digest, .upload, .again, .once, .data: 1
      }
    if received >= enough { moving.insert(item) }
  }

  private func take(_ notice: DeliveryNotice, _ client: ProtocolClient) throws {
    if acknowledged.contains(notice.number) { note("delivery \(notice.number) came after its acknowledgement") }
    let item = notice.task.flatMap { self.item($0) }
    if let task = notice.task, let item {
      // The receipt was lost; this says the same.
      accepted[item] = task.id
      switch notice.kind {
      case "file": if let fault = work.fault(of: task.file, item) { note(fault) }
      case "body": if let fault = work.fault(of: task.body, item) { note(fault) }
      case "completion":
        if settled.contains(item) { note("\(item) completed twice") }
        judge(item, task)
      default: note("a delivery of kind \(notice.kind)")
      }
    }
    if notice.kind == "completion", let item { perhapsSettled.insert(item) }
    try client.acknowledge([notice.number], in: session)
    acknowledged.insert(notice.number)
    if notice.kind == "finishEvents" { heardFinish = true }
    if notice.kind == "completion", let item { settled.insert(item) }
  }

  private func judge(_ item: Item, _ task: TaskSnapshot) {
    let code = task.error?.code ?? ""
    if item == .cancelled {
      if task.state != "cancelled" { note("\(item) ended as \(task.state) \(code)") }
      return
    }
    if task.state == "succeeded" {
      succeeded.insert(item)
      if !item.resultNames.isEmpty, let fault = work.fault(of: task.file, item) { note(fault) }
      if item == .data, connections == 1, dataBytes != item.content.allBytes { note("other bytes of a data task") }
      return
    }
    let mayFail =
      switch item {
      // Its bytes went to a client that is gone.
      case .data: connections > 1 && ["sessionDisconnected", "connectionLost"].contains(code)
      // It cannot be sent again: that its answer was lost is the result.
      case .once: code == "outcomeUnknown" || fault.isError
      // The server has taken the body; its answer could not be kept.
      case .upload: fault.isError
      case .managed, .cut, .placed, .replaced, .renamed, .decoded, .big, .digest, .again, .cancelled, .removed, .gone:
        false
      }
    if !mayFail || code == "internalFault" || code == "recordUnreadable" {
      note("\(item) ended as \(task.state) \(code) \(task.error?.detail ?? "")")
    }
  }

  // MARK: The end

  private func checkEnd() throws {
    for fault in work.faultsAtServer(hasUploaded: succeeded.contains(.upload)) { note(fault) }
    if let client, let text = try? client.status().degraded { note("still degraded: \(text)") }
    client = nil
    // A removal that failed is the successor's; else a moment is enough.
    awaitNothingLeft(seconds: fault.kind == .stop ? 10 : 1)
    try stopDaemon()
    if try !leftBehind.isEmpty || Self.isSuccessors(rows()) {
      isFaulty = false
      try keepDaemon()
      awaitNothingLeft(seconds: 10)
      let end = Deadline(seconds: 10)
      while try Self.isSuccessors(rows()), !end.isOver { _ = poll(nil, 0, 50) }
      try stopDaemon()
    }
    for file in leftBehind { note("left behind: \(file)") }
    let rows = try rows()
    if rows.contains(where: { $0 != 0 }) {
      note("rows left (tasks, plans, progresses, deliveries, leftovers): \(rows)")
    }
  }

  /// Nothing but files that are still to be removed.
  private static func isSuccessors(_ rows: [Int]) -> Bool { rows.dropLast().allSatisfy { $0 == 0 } && rows.last != 0 }

  private var leftBehind: [String] { work.faultsInFolder(succeeded: succeeded) + home.ownFiles() }

  private func awaitNothingLeft(seconds: Double) {
    let end = Deadline(seconds: seconds)
    while !leftBehind.isEmpty, !end.isOver { _ = poll(nil, 0, 5) }
  }

  private func stopDaemon() throws {
    guard let daemon else { return }
    daemon.signal(SIGTERM)
    let status = try daemon.wait()
    let isWanted = status == .exited(code: 0) || (daemon === faulty && status == .signalled(number: SIGKILL))
    if !isWanted { note("the daemon stopped with \(status) \(daemon.errorText.suffix(1000))") }
    self.daemon = nil
  }

  private func rows() throws -> [Int] {
    let script = """
      import sqlite3, sys
      c = sqlite3.connect(sys.argv[1])
      print(*[c.execute(f"SELECT count(*) FROM {t}").fetchone()[0]
              for t in ("task", "task_plan", "task_progress", "delivery", "leftover")])
      """
    let result = try Shell.output("/usr/bin/python3", ["-c", script, home.path + "/ferry.sqlite"])
    let rows = result.output.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    if rows.count != 5 { note("the rows cannot be counted: \(result.errors)") }
    return rows
  }
}
