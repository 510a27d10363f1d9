import Glibc
import Testing
import TransferCore

@testable import LinuxSystem

@Suite struct EventLoopTests {
  @Test func reportsReadinessWhileItLasts() throws {
    let loop = try EventLoop()
    let pair = try UnixSocket.socketPair()
    var seen: [EventLoop.Readiness] = []
    let registration = try loop.register(descriptor: pair.first.raw, interest: .readable) { seen.append($0) }
    #expect(try loop.poll() == 0)
    try Syscall.writeAll(pair.second.raw, [1])
    try turn(loop) { !seen.isEmpty }
    #expect(try loop.poll() == 1)
    #expect(seen == [.readable, .readable])

    try loop.modify(registration, interest: [.readable, .writable])
    try loop.poll()
    #expect(seen.last == [.readable, .writable])

    loop.remove(registration)
    #expect(try loop.poll() == 0)
    #expect(loop.registrationCount == 0)
    #expect(errorNumber { try loop.modify(registration, interest: .readable) } == ENOENT)
    loop.remove(registration)
  }

  @Test func reportsTheEndOfThePeer() throws {
    let loop = try EventLoop()
    var pair = Optional(try UnixSocket.socketPair())
    var second: OwnedDescriptor?
    let first = pair.take()!.split(second: &second)
    var seen: EventLoop.Readiness = []
    _ = try loop.register(descriptor: first.raw, interest: [.readable, .readHangUp]) { seen.formUnion($0) }
    second = nil
    try turn(loop) { seen.contains(.hangUp) }
    #expect(seen.isSuperset(of: [.readable, .readHangUp, .hangUp]))
    withExtendedLifetime(first) {}
  }

  /// Two descriptors become ready in one turn; the handler of the first removes the second.
  @Test func dropsAnEventOfARegistrationRemovedInTheSameTurn() throws {
    let loop = try EventLoop()
    let one = try OwnedDescriptor.eventCounter(nonblocking: true)
    let two = try OwnedDescriptor.eventCounter(nonblocking: true)
    var registrations: [EventLoop.Registration] = []
    var calls = 0
    for raw in [one.raw, two.raw] {
      registrations.append(
        try loop.register(descriptor: raw, interest: .readable) { [unowned loop] _ in
          calls += 1
          for registration in registrations where registration.descriptor != raw { loop.remove(registration) }
        })
    }
    for raw in [one.raw, two.raw] { try Syscall.writeAll(raw, [1, 0, 0, 0, 0, 0, 0, 0]) }
    #expect(try loop.poll() == 1)
    #expect(calls == 1)
    #expect(loop.staleEvents == 1)
  }

  /// The first handler closes the second descriptor and gets the same number for a new one, which is not ready.
  @Test func dropsAnEventOfARecycledDescriptor() throws {
    let loop = try EventLoop()
    let one = try OwnedDescriptor.eventCounter(nonblocking: true).take()
    let two = try OwnedDescriptor.eventCounter(nonblocking: true).take()
    defer { for raw in [one, two] { close(raw) } }
    let quiet = try OwnedDescriptor.eventCounter(nonblocking: true)
    var registrations: [Int32: EventLoop.Registration] = [:]
    var wronglyCalled = 0
    var recycled: Int32 = -1
    for raw in [one, two] {
      registrations[raw] = try loop.register(descriptor: raw, interest: .readable) { [unowned loop] _ in
        guard recycled < 0 else { return }
        let other = raw == one ? two : one
        loop.remove(registrations[other]!)
        // dup2 closes `other` and gives its number to the quiet eventfd at once, whatever other tests open meanwhile.
        recycled = dup2(quiet.raw, other)
        registrations[other] = try? loop.register(descriptor: other, interest: .readable) { _ in wronglyCalled += 1 }
      }
    }
    for raw in [one, two] { try Syscall.writeAll(raw, [1, 0, 0, 0, 0, 0, 0, 0]) }
    #expect(try loop.poll() == 1)
    #expect(recycled >= 0)
    #expect(wronglyCalled == 0)
    #expect(loop.staleEvents == 1)
    try Syscall.writeAll(quiet.raw, [1, 0, 0, 0, 0, 0, 0, 0])
    try loop.poll()
    #expect(wronglyCalled == 1)
  }

  /// Closed without `remove`, number given out again: the new registration takes the place, the old token is dead.
  @Test func survivesACloseWithoutRemove() throws {
    let loop = try EventLoop()
    let raw = try OwnedDescriptor.eventCounter(nonblocking: true).take()
    defer { close(raw) }
    let replacement = try OwnedDescriptor.eventCounter(nonblocking: true)
    let old = try loop.register(descriptor: raw, interest: .readable) { _ in Issue.record("old handler") }
    #expect(dup2(replacement.raw, raw) == raw)
    var calls = 0
    let new = try loop.register(descriptor: raw, interest: .readable) { _ in calls += 1 }
    #expect(loop.registrationCount == 1)
    loop.remove(old)
    try Syscall.writeAll(raw, [1, 0, 0, 0, 0, 0, 0, 0])
    try loop.poll()
    #expect(calls == 1)
    loop.remove(new)
    #expect(loop.registrationCount == 0)
  }

  @Test func refusesARegularFileAndASecondRegistration() throws {
    let loop = try EventLoop()
    let folder = try TemporaryDirectory()
    let file = try OwnedDescriptor.open(folder.file("a"), .read)
    #expect(errorNumber { _ = try loop.register(descriptor: file.raw, interest: .readable) { _ in } } == EPERM)
    #expect(errorNumber { _ = try loop.register(descriptor: -1, interest: .readable) { _ in } } == EBADF)
    let counter = try OwnedDescriptor.eventCounter(nonblocking: true)
    _ = try loop.register(descriptor: counter.raw, interest: .readable) { _ in }
    #expect(errorNumber { _ = try loop.register(descriptor: counter.raw, interest: .readable) { _ in } } == EEXIST)
    #expect(loop.registrationCount == 1)
  }

  @Test(arguments: [Int64.min, -1, 0, 1, 5_000_000, 40_000_000])
  func wakesAtTheDeadlineAndNotBefore(nanosecondsFromNow: Int64) throws {
    let loop = try EventLoop()
    for _ in 0..<2 {
      let deadline = BootInstant.now().advanced(byNanoseconds: nanosecondsFromNow)
      #expect(try loop.wait(until: deadline) == 0)
      #expect(BootInstant.now() >= deadline)
    }
  }

  @Test func deadlineMovesBothWays() throws {
    let loop = try EventLoop()
    let mailbox = try Mailbox<Int>()
    var woken = false
    _ = try loop.register(descriptor: mailbox.descriptor, interest: .readable) { _ in woken = !mailbox.drain().isEmpty }
    mailbox.post(1)
    try loop.wait(until: .now().advanced(byNanoseconds: 3_600_000_000_000))
    #expect(woken)
    let near = BootInstant.now().advanced(byNanoseconds: 1_000_000)
    #expect(try loop.wait(until: near) == 0)
    #expect(BootInstant.now() >= near)
    mailbox.post(2)
    #expect(try loop.wait(until: nil) == 1)
  }

  @Test(.enabled(if: geteuid() == 0)) func reportsAChangeOfTheMountTable() throws {
    let folder = try TemporaryDirectory()
    let watch = try FilesystemMap.openChangeWatch()
    let loop = try EventLoop()
    var seen: EventLoop.Readiness = []
    _ = try loop.register(descriptor: watch.raw, interest: .priority) { seen.formUnion($0) }
    guard try run("/bin/mount", ["-t", "tmpfs", "tmpfs", folder.path]) == .exited(code: 0) else { return }
    defer { _ = try? run("/bin/umount", [folder.path]) }
    try turn(loop) { !seen.isEmpty }
    #expect(seen.isSuperset(of: [.priority, .error]))
    #expect(try FilesystemMap.current().filesystem(of: folder.path + "/f")?.mountPoint == folder.path)
  }
}

@Suite struct MailboxTests {
  @Test func carriesEveryMessageOfFourThreadsInOrder() throws {
    let loop = try EventLoop()
    let mailbox = try Mailbox<(worker: Int, number: Int)>()
    let perWorker = 20_000
    var next = [0, 0, 0, 0]
    var turns = 0
    var buffer: [(worker: Int, number: Int)] = []
    _ = try loop.register(descriptor: mailbox.descriptor, interest: .readable) { _ in
      turns += 1
      mailbox.drain(into: &buffer)
      for message in buffer {
        #expect(message.number == next[message.worker])
        next[message.worker] += 1
      }
    }
    let workers = try (0..<4).map { try Worker(name: "producer-\($0)", limit: 1) }
    for (index, worker) in workers.enumerated() {
      worker.submit { for number in 0..<perWorker { mailbox.post((index, number)) } }
    }
    try turn(loop) { next.allSatisfy { $0 == perWorker } }
    for worker in workers { worker.stop(andWait: true) }
    #expect(turns <= 4 * perWorker)
    #expect(mailbox.drain().isEmpty)
  }

  @Test func wakesOnlyOnceUntilDrained() throws {
    let mailbox = try Mailbox<String>()
    for text in ["a", "b", "c"] { mailbox.post(text) }
    var count = [UInt8](repeating: 0, count: 8)
    #expect(try Syscall.read(mailbox.descriptor, into: &count) == 8)
    #expect(count[0] == 1)
    #expect(mailbox.drain() == ["a", "b", "c"])
    mailbox.post("d")
    #expect(try Syscall.poll(mailbox.descriptor, for: .readable, timeoutMilliseconds: 0) == .readable)
    #expect(mailbox.drain() == ["d"])
    #expect(try Syscall.poll(mailbox.descriptor, for: .readable, timeoutMilliseconds: 0) == [])
  }
}

@Suite struct WorkerTests {
  @Test func runsInOrderRefusesWhenFullAndShowsAHungCall() throws {
    let worker = try Worker(name: "a name longer than fifteen bytes", limit: 2)
    let gate = try UnixSocket.socketPair(nonblocking: false)
    let results = try Mailbox<String>()
    let gateRaw = gate.first.raw
    let before = BootInstant.now()
    #expect(worker.busySince == nil)
    #expect(
      worker.submit {
        results.post("started")
        var byte = [UInt8](repeating: 0, count: 1)
        _ = try? Syscall.read(gateRaw, into: &byte)
        results.post((try? text("/proc/thread-self/comm")) ?? "")
      })
    _ = try Syscall.poll(results.descriptor, for: .readable, timeoutMilliseconds: 20_000)
    #expect(results.drain() == ["started"])
    #expect(worker.submit { results.post("second") })
    #expect(worker.submit { results.post("third") })
    #expect(!worker.submit { results.post("never") })
    #expect(worker.backlog == 2)
    let since = try #require(worker.busySince)
    #expect(since >= before && since <= .now())

    #expect(!worker.stop(waitingAtMostNanoseconds: 1_000_000))
    #expect(!worker.submit {})
    try Syscall.writeAll(gate.second.raw, [1])
    var all: [String] = []
    while all.count < 3 {
      let ready = try Syscall.poll(results.descriptor, for: .readable, timeoutMilliseconds: 20_000)
      try #require(ready == .readable)
      all += results.drain()
    }
    #expect(all == ["a name longer t\n", "second", "third"])
  }

  @Test func stopsAfterWhatItTook() throws {
    let worker = try Worker(name: "store", limit: 100)
    let results = try Mailbox<Int>()
    for number in 0..<100 { worker.submit { results.post(number) } }
    worker.stop(andWait: true)
    let done = results.drain()
    #expect(done == Array(0..<done.count))
    #expect(worker.backlog == 0)
    #expect(worker.busySince == nil)
    #expect(worker.stop(waitingAtMostNanoseconds: 0))
  }

  /// A worker nobody holds any more ends by itself, after its jobs.
  @Test func endsWithItsOwner() throws {
    let results = try Mailbox<Int>()
    do {
      let worker = try Worker(name: "short", limit: 2)
      worker.submit { results.post(1) }
    }
    #expect(try Syscall.poll(results.descriptor, for: .readable, timeoutMilliseconds: 20_000) == .readable)
  }
}
