import CurlEngine
import Foundation
import Glibc
import Synchronization
import Testing
import TransferCore

/// All tests of the engine run one after another: some count this process's descriptors.
@Suite(.serialized) struct EngineTests {}

/// An engine with a loop of its own, a folder, and the events of its attempts.
final class EngineRig {
  let engine: CurlEngine
  let folder: URL
  let worker: TestWorker
  private let loop: PollLoop
  private var lastAttempt: Int64 = 0
  var events: [EngineEvent] = []

  init(worker: TestWorker = TestWorker()) throws {
    loop = PollLoop()
    self.worker = worker
    engine = try CurlEngine(registrar: loop, wake: loop.wake)
    folder = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-engine-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  deinit {
    engine.close()
    try? FileManager.default.removeItem(at: folder)
  }

  func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

  /// A part file that holds `bytes`.
  func part(_ name: String = "part", holding bytes: [UInt8] = [], isLocal: Bool = true) -> PartFile {
    let descriptor = unsafe open(path(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    precondition(descriptor >= 0)
    if !bytes.isEmpty { precondition(unsafe write(descriptor, bytes, bytes.count) == bytes.count) }
    return PartFile(
      descriptor: descriptor, size: Int64(bytes.count), access: FileAccess(isLocal: isLocal, worker: worker))
  }

  func content(_ name: String = "part") -> [UInt8] {
    (try? Data(contentsOf: URL(fileURLWithPath: path(name)))).map(Array.init) ?? []
  }

  func order(
    _ url: String, method: String = "GET", headers: HeaderFields = [], resume: ResumePoint? = nil,
    rule: StatusRule = .successOnly, body: RequestBody = .none, sink: ResponseSink? = nil,
    network: NetworkSettings = NetworkSettings(), timeout: Duration = .seconds(20), fresh: Bool = false
  ) -> AttemptOrder {
    lastAttempt += 1
    var headers = headers
    if let resume {
      headers.set("Range", to: "bytes=\(resume.offset)-")
      headers.set("If-Range", to: resume.validator.fieldValue)
    }
    return AttemptOrder(
      attempt: AttemptID(rawValue: lastAttempt), task: TaskID(rawValue: lastAttempt),
      request: TransferRequest(method: method, url: url, headers: headers), network: network, body: body,
      sink: sink ?? .partFile(path: path("part")),
      judgement: JudgementContext(
        kind: .download, statusRule: rule, resume: resume, now: WallInstant(milliseconds: 1_700_000_000_000)),
      noProgressTimeout: timeout, needsFreshConnection: fresh)
  }

  /// A source file with its descriptor and its recorded identity.
  func source(_ bytes: [UInt8], isLocal: Bool = true) -> (UploadSource, BodyFile) {
    let path = path("source")
    try? Data(bytes).write(to: URL(fileURLWithPath: path))
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    var facts = stat()
    unsafe fstat(descriptor, &facts)
    let identity = FileIdentity(
      device: UInt64(facts.st_dev), inode: UInt64(facts.st_ino), sizeBytes: Int64(facts.st_size),
      modifiedNanoseconds: Int64(facts.st_mtim.tv_sec) * 1_000_000_000 + Int64(facts.st_mtim.tv_nsec))
    let source = UploadSource(path: path, pinnedPath: path, pin: .none, identity: identity)
    return (source, BodyFile(descriptor: descriptor, access: FileAccess(isLocal: isLocal, worker: worker)))
  }

  /// Turns the loop until the condition holds; false when the deadline came first.
  @discardableResult
  func turn(seconds: Double = 20, until holds: (EngineRig) -> Bool) -> Bool {
    let end = Date().addingTimeInterval(seconds)
    while true {
      engine.drainEvents(into: &events, limit: 1000)
      if holds(self) { return true }
      if Date() > end { return false }
      loop.turn(engine)
    }
  }

  func turnWithoutDraining() { loop.turn(engine) }

  /// Runs one attempt to its end.
  func run(_ order: AttemptOrder, part: PartFile? = nil, body: BodyFile? = nil, seconds: Double = 20) -> Outcome {
    engine.start(order, part: part, body: body)
    return outcome(of: order.attempt, seconds: seconds)
  }

  func outcome(of attempt: AttemptID, seconds: Double = 20) -> Outcome {
    let isOver = turn(seconds: seconds) { $0.events.contains { $0.attempt == attempt && $0.isEnd } }
    #expect(isOver, "the attempt did not end in time")
    return Outcome(events.filter { $0.attempt == attempt })
  }
}

/// What the events of one attempt say together.
struct Outcome {
  var head: ResponseHead?
  var verdict: ResponseVerdict?
  var end: AttemptEnd?
  var facts: AttemptFacts?
  var received: [UInt8] = []
  var synced: [Int64] = []
  var held: Int64?
  var sent: Int64?
  var isOrdered = true

  init(_ events: [EngineEvent]) {
    for event in events {
      if end != nil { isOrdered = false }
      switch event {
      case .informed: if verdict != nil { isOrdered = false }
      case .responded(_, let head, let verdict):
        if self.verdict != nil { isOrdered = false }
        (self.head, self.verdict) = (head, verdict)
      case .progressed(_, let held, let sent): (self.held, self.sent) = (held, sent)
      case .received(_, let bytes):
        if verdict == nil { isOrdered = false }
        received += bytes
      case .synced(_, let offset): synced.append(offset)
      case .ended(_, let end, let facts): (self.end, self.facts) = (end, facts)
      }
    }
  }

  var failure: TransferFailure? {
    switch end {
    case .failed(let failure), .untrusted(let failure, _): failure
    default: nil
    }
  }
  var summary: TransferSummary? {
    if case .complete(let summary)? = end { summary } else { nil }
  }
}

extension EngineEvent {
  var isEnd: Bool {
    if case .ended = self { true } else { false }
  }
}

/// A loop on poll(2).
final class PollLoop: LoopRegistrar {
  private var watched: [Int32: Int16] = [:]
  private let pipe = Pipe()
  let wake: @Sendable () -> Void

  init() {
    let descriptor = pipe.fileHandleForWriting.fileDescriptor
    wake = {
      var byte: UInt8 = 1
      _ = unsafe write(descriptor, &byte, 1)
    }
  }

  func watch(_ descriptor: Int32, readable: Bool, writable: Bool) {
    watched[descriptor] = Int16((readable ? POLLIN : 0) | (writable ? POLLOUT : 0))
  }

  func unwatch(_ descriptor: Int32) { watched[descriptor] = nil }

  func turn(_ engine: CurlEngine) {
    let wakeEnd = pipe.fileHandleForReading.fileDescriptor
    var entries = [pollfd(fd: wakeEnd, events: Int16(POLLIN), revents: 0)]
    entries += watched.map { pollfd(fd: $0.key, events: $0.value, revents: 0) }
    var wait: Int64 = 50
    if let deadline = engine.nextDeadline {
      let left = (deadline.nanoseconds - Self.now.nanoseconds) / 1_000_000
      wait = max(0, min(wait, left))
    }
    _ = unsafe poll(&entries, nfds_t(entries.count), Int32(wait))
    if entries[0].revents != 0 {
      var bytes = [UInt8](repeating: 0, count: 512)
      _ = unsafe read(wakeEnd, &bytes, bytes.count)
      engine.takeReports()
    }
    for entry in entries.dropFirst() where entry.revents != 0 && watched[entry.fd] != nil {
      let broken = Int32(entry.revents) & (POLLERR | POLLHUP) != 0
      engine.ready(
        entry.fd, readable: Int32(entry.revents) & POLLIN != 0 || broken,
        writable: Int32(entry.revents) & POLLOUT != 0 || broken)
    }
    engine.turn(now: Self.now)
  }

  static var now: BootInstant {
    var time = timespec()
    unsafe clock_gettime(CLOCK_BOOTTIME, &time)
    return BootInstant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
  }
}

/// A worker whose calls can be held back.
final class TestWorker: FileWorker {
  private struct State {
    var waiting: [@Sendable () -> Void] = []
    var isHeld = false
  }
  private let queue = DispatchQueue(label: "worker")
  private let state = Mutex(State())
  private let calls = Atomic<Int>(0)

  var callCount: Int { calls.load(ordering: .acquiring) }
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  func submit(_ call: @escaping @Sendable () -> Void) -> Bool {
    calls.add(1, ordering: .acquiringAndReleasing)
    let isHeld = state.withLock { state in
      if state.isHeld { state.waiting.append(call) }
      return state.isHeld
    }
    if !isHeld { queue.async(execute: call) }
    return true
  }

  func hold() { state.withLock { $0.isHeld = true } }

  func release() {
    state.withLock { state in
      state.isHeld = false
      for call in state.waiting { queue.async(execute: call) }
      state.waiting = []
    }
  }
}

/// Bytes that differ from place to place.
func pattern(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
  var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
  // A block of a prime length, repeated: quick to make, and no two places near a power of two look alike.
  let block = (0..<min(count, 65_521)).map { _ in
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return UInt8(truncatingIfNeeded: state)
  }
  var bytes: [UInt8] = []
  bytes.reserveCapacity(count)
  while bytes.count < count { bytes += block.prefix(count - bytes.count) }
  return bytes
}

func openDescriptors() -> Int {
  (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
}
