import CLinux
import Glibc
import Synchronization
package import TransferCore

/// One named thread with a bounded queue: where calls that block run (commits, file calls that can hang).
///
/// Jobs run in order, each to its end. All signals are blocked on the thread.
package final class Worker: Sendable {
  package typealias Job = @Sendable () -> Void

  private let line: Line
  private let thread: Mutex<UInt?>

  /// - Parameters:
  ///   - name: at most 15 bytes reach the kernel (pthread_setname_np(3)).
  ///   - limit: jobs that may wait, not counting the one that runs.
  package init(name: String, limit: Int) throws(SystemError) {
    line = try Line(name: name, limit: max(1, limit))
    var started: UInt = 0
    let context = unsafe Unmanaged.passRetained(line)
    let result = unsafe clinux_thread_start(&started, runLine, context.toOpaque(), Self.stackBytes)
    guard result == 0 else {
      unsafe context.release()
      throw SystemError(result, operation: "pthread_create")
    }
    thread = Mutex(started)
  }

  deinit {
    stop(andWait: false)
  }

  /// SQLite and an unoptimised Swift frame fit several times over; a hundred workers stay small.
  private static let stackBytes = 1 << 20

  package var name: String { line.name }

  /// Hands over a job. False: the queue is full or the worker was stopped; the job was not taken.
  @discardableResult
  package func submit(_ job: @escaping Job) -> Bool {
    line.submit(job)
  }

  /// Jobs that wait.
  package var backlog: Int { line.state.withLock { $0.waiting.count } }

  /// Since when the present job runs; nil when none does. A watchdog sees a hung call here.
  package var busySince: BootInstant? { line.state.withLock { $0.busySince } }

  /// Takes no more jobs; those already taken are still run. With `andWait` returns when they have ended, for ever if
  /// one hangs. Not from a job of this worker.
  package func stop(andWait: Bool) {
    line.stop()
    let taken = thread.withLock { thread in
      let taken = thread
      thread = nil
      return taken
    }
    guard let taken else { return }
    _ = andWait ? clinux_thread_join(taken) : clinux_thread_detach(taken)
  }

  /// As `stop(andWait: true)`, but gives up after so many nanoseconds: false, and the thread is left to its hung call.
  package func stop(waitingAtMostNanoseconds nanoseconds: Int64) -> Bool {
    line.stop()
    let taken = thread.withLock { thread in
      let taken = thread
      thread = nil
      return taken
    }
    guard let taken else { return true }
    if clinux_thread_join_within(taken, max(0, nanoseconds)) == 0 { return true }
    _ = clinux_thread_detach(taken)
    return false
  }
}

/// What the thread and its owner share. The thread holds it alone once the owner is gone.
private final class Line: Sendable {
  struct State {
    var waiting: [Worker.Job] = []
    var sleeping = false
    var stopping = false
    var busySince: BootInstant?
  }

  let name: String
  let limit: Int
  let state = Mutex(State())
  private let counter: OwnedDescriptor

  init(name: String, limit: Int) throws(SystemError) {
    self.name = name
    self.limit = limit
    counter = try OwnedDescriptor.eventCounter(nonblocking: false)
  }

  func submit(_ job: @escaping Worker.Job) -> Bool {
    let (taken, wake) = state.withLock { state in
      guard !state.stopping, state.waiting.count < limit else { return (false, false) }
      state.waiting.append(job)
      return (true, state.takeSleep())
    }
    if wake { signal() }
    return taken
  }

  func stop() {
    let wake = state.withLock { state in
      state.stopping = true
      return state.takeSleep()
    }
    if wake { signal() }
  }

  /// The life of the thread.
  func run() {
    clinux_block_all_signals()
    _ = unsafe clinux_thread_name(Self.kernelName(name))
    while true {
      let (job, ended) = state.withLock { state -> (Worker.Job?, Bool) in
        guard !state.waiting.isEmpty else {
          state.busySince = nil
          state.sleeping = !state.stopping
          return (nil, state.stopping)
        }
        state.busySince = .now()
        return (state.waiting.removeFirst(), false)
      }
      if let job {
        job()
      } else if ended {
        return
      } else {
        var count: UInt64 = 0
        _ = unsafe read(counter.raw, &count, MemoryLayout<UInt64>.size)
      }
    }
  }

  private func signal() {
    var one: UInt64 = 1
    _ = unsafe write(counter.raw, &one, MemoryLayout<UInt64>.size)
  }

  /// The first 15 bytes, cut between characters.
  private static func kernelName(_ name: String) -> String {
    var short = ""
    for character in name.unicodeScalars where character.value != 0 {
      if short.utf8.count + UTF8.width(character) > 15 { break }
      short.unicodeScalars.append(character)
    }
    return short
  }
}

extension Line.State {
  mutating func takeSleep() -> Bool {
    let was = sleeping
    sleeping = false
    return was
  }
}

/// The entry of every worker thread. A global function: C calls it on the new thread, where a closure could be
/// isolated to another.
private func runLine(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let context = unsafe context else { return nil }
  // SAFETY: `context` is the retained Line that Worker.init passed; this takes over that reference.
  unsafe Unmanaged<Line>.fromOpaque(context).takeRetainedValue().run()
  return nil
}
