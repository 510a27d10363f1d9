import CurlEngine
import Glibc
import LinuxSystem
import TransferCore

/// Whole answers, from the socket through libcurl and the engine into a part file.
enum AnswerTarget {
  static func run(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    let held = source.bool() ? 10 : 0
    let isForClient = held == 0 && source.bool()
    let rule = source.bool() ? StatusRule.any : .successOnly
    let cut = Int(source.byte())
    try unsafe AnswerBench.shared.run(
      answer: source.remainder(), held: held, isForClient: isForClient, rule: rule, cut: cut)
  }
}

/// An engine, and a server in the same thread that says what it is told.
private final class AnswerBench: LoopRegistrar {
  // One thread runs all targets.
  nonisolated(unsafe) static let shared = AnswerBench()

  private var watched: [Int32: Int16] = [:]
  private var engine: CurlEngine?
  private let listener: Int32
  private let port: UInt16
  private var lastAttempt: Int64 = 0

  private init() {
    listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let raw = listener
    // SAFETY: each call is given the size of the structure that it reads or fills.
    let isListening = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe bind(raw, $0, length) == 0 && listen(raw, 8) == 0 && getsockname(raw, $0, &length) == 0
      }
    }
    precondition(isListening, "no loopback")
    port = UInt16(bigEndian: address.sin_port)
    engine = try? CurlEngine(registrar: self, wake: {})
  }

  func watch(_ descriptor: Int32, readable: Bool, writable: Bool) {
    watched[descriptor] = (readable ? Int16(POLLIN) : 0) | (writable ? Int16(POLLOUT) : 0)
  }

  func unwatch(_ descriptor: Int32) { watched.removeValue(forKey: descriptor) }

  /// Does the calls of files at once.
  private final class Worker: FileWorker {
    func submit(_ call: @escaping @Sendable () -> Void) -> Bool {
      call()
      return true
    }
  }

  /// What the engine said of one attempt.
  private struct Story {
    var verdict: ResponseVerdict?
    var received = 0
    var end: AttemptEnd?
  }

  func run(answer: [UInt8], held: Int, isForClient: Bool, rule: StatusRule, cut: Int) throws {
    guard let engine else { throw FuzzFinding("no engine") }
    lastAttempt += 1
    let old = [UInt8](repeating: 0xAA, count: held)
    let file = try PartOfFile.make(old)
    let attempt = AttemptID(rawValue: lastAttempt)
    engine.start(
      order(attempt, held: held, isForClient: isForClient, rule: rule),
      part: isForClient
        ? nil
        : PartFile(
          descriptor: try file.duplicate().take(), size: Int64(held),
          access: FileAccess(isLocal: true, worker: Worker())), body: nil)
    var story = Story()
    var server = Server(answer: answer, cut: min(cut, answer.count))
    defer { server.close() }
    for _ in 0..<20_000 where story.end == nil {
      try turn(engine, &server, attempt, &story)
    }
    guard let end = story.end else { throw FuzzFinding("the attempt does not end") }
    guard !isForClient else {
      if case .complete(let summary) = end {
        try require(summary.held == Int64(story.received), "\(summary.held) bytes are told, \(story.received) came")
      }
      return
    }
    try check(file, old, story, end)
  }

  private func order(_ attempt: AttemptID, held: Int, isForClient: Bool, rule: StatusRule) -> AttemptOrder {
    let resume = ResumePoint(validator: .entityTag("\"a\""), offset: Int64(held), total: nil)
    var request = TransferRequest(url: "http://127.0.0.1:\(port)/f")
    if held > 0 {
      request.headers.set("Range", to: "bytes=\(held)-")
      request.headers.set("If-Range", to: "\"a\"")
    }
    return AttemptOrder(
      attempt: attempt, task: TaskID(rawValue: 1), request: request, network: NetworkSettings(), body: .none,
      sink: isForClient ? .client : .partFile(path: "/part"),
      judgement: JudgementContext(
        kind: isForClient ? .data : .download, statusRule: rule, resume: held > 0 ? resume : nil,
        now: WallInstant(milliseconds: 1_700_000_000_000)),
      noProgressTimeout: .seconds(5), needsFreshConnection: true, tellsInterim: isForClient)
  }

  private func turn(_ engine: CurlEngine, _ server: inout Server, _ attempt: AttemptID, _ story: inout Story) throws {
    var polled = watched.map { pollfd(fd: $0.key, events: $0.value, revents: 0) }
    polled.append(pollfd(fd: server.descriptor ?? listener, events: Int16(POLLIN), revents: 0))
    _ = unsafe poll(&polled, nfds_t(polled.count), 1)
    for entry in polled.dropLast() where entry.revents != 0 {
      engine.ready(
        entry.fd, readable: entry.revents & Int16(POLLIN | POLLHUP | POLLERR) != 0,
        writable: entry.revents & Int16(POLLOUT) != 0)
    }
    server.step(listener)
    engine.takeReports()
    engine.turn(now: .now())
    var events: [EngineEvent] = []
    engine.drainEvents(into: &events, limit: 1000)
    for event in events where event.attempt == attempt {
      try require(story.end == nil, "an event after the end")
      switch event {
      case .informed: try require(story.verdict == nil, "information behind the answer")
      case .responded(_, _, let verdict):
        try require(story.verdict == nil, "two verdicts")
        story.verdict = verdict
        engine.releaseBody(attempt)
      case .received(_, let bytes): story.received += bytes.count
      case .progressed: engine.releaseBody(attempt)
      case .synced: break
      case .ended(_, let end, _): story.end = end
      }
    }
  }

  private func check(_ file: borrowing OwnedDescriptor, _ old: [UInt8], _ story: Story, _ end: AttemptEnd) throws {
    var status = stat()
    try require(unsafe fstat(file.raw, &status) == 0, "fstat")
    let size = Int64(status.st_size)
    var start = [UInt8](repeating: 0, count: old.count)
    let count = unsafe pread(file.raw, &start, start.count, 0)
    let isKept = count == old.count && start == old
    if case .complete(let summary) = end {
      try require(size == summary.held, "\(summary.held) bytes are told, \(size) are there")
    }
    switch story.verdict {
    case .continueAt(let offset):
      try require(Int(offset) == old.count && isKept, "continued, and the bytes before are others")
    case .takeWhole: break
    case nil, .alreadyComplete, .restart, .redirect, .retryLater, .reject, .ask:
      try require(size == Int64(old.count) && isKept, "the file was touched without leave")
    }
  }
}

/// One connection: it reads a request, says the answer in two pieces, and closes.
private struct Server {
  let answer: [UInt8]
  let cut: Int
  private(set) var descriptor: Int32?
  private var request: [UInt8] = []
  private var sent = 0
  private var isOver = false

  init(answer: [UInt8], cut: Int) {
    self.answer = answer
    self.cut = cut
  }

  mutating func step(_ listener: Int32) {
    guard !isOver else { return }
    guard let descriptor else {
      let accepted = accept(listener, nil, nil)
      if accepted >= 0 {
        descriptor = accepted
        _ = fcntl(accepted, F_SETFL, O_NONBLOCK)
      }
      return
    }
    var chunk = [UInt8](repeating: 0, count: 4096)
    let count = unsafe recv(descriptor, &chunk, chunk.count, 0)
    if count > 0 { request += chunk[..<count] }
    if count == 0 { return close() }
    guard request.suffix(4).elementsEqual("\r\n\r\n".utf8) else { return }
    let end = sent < cut ? cut : answer.count
    let piece = Array(answer[sent..<end])
    let written = unsafe send(descriptor, piece, piece.count, Int32(MSG_NOSIGNAL))
    if written > 0 { sent += written }
    if sent >= answer.count || written < 0 && errno != EAGAIN { close() }
  }

  mutating func close() {
    if let descriptor { Glibc.close(descriptor) }
    descriptor = nil
    isOver = true
  }
}

private enum PartOfFile {
  static func make(_ bytes: [UInt8]) throws -> OwnedDescriptor {
    let path = "\(FuzzFolder.path)/ferry-fuzz-\(String(Clocks.randomWord(), radix: 36))"
    let file = try Files.createPrivate(path)
    unsafe unlink(path)
    try Syscall.writeAll(file.raw, bytes.span, at: 0)
    return file
  }
}
