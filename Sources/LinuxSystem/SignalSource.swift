import CLinux
import Glibc

/// Signals as events of the loop (signalfd(2)).
///
/// Make it on the main thread before any other thread starts: the signals are blocked on this thread, and threads
/// inherit that. Children started with `ChildProcess` begin with nothing blocked.
package struct SignalSource: ~Copyable, Sendable {
  package struct Arrival: Hashable, Sendable {
    package let number: Int32
    /// 0 for the kernel.
    package let senderProcessID: UInt32
  }

  private let source: OwnedDescriptor

  /// Blocks `signals` in the process and ignores SIGPIPE.
  package init(_ signals: [Int32] = [SIGTERM, SIGINT, SIGHUP, SIGCHLD]) throws(SystemError) {
    clinux_ignore_sigpipe()
    source = try OwnedDescriptor(
      adopting: Syscall.retrying("signalfd") { unsafe clinux_signalfd(signals, signals.count) })
  }

  /// Readable while a signal is pending.
  package var descriptor: Int32 { source.raw }

  /// The next pending signal; nil when there is none. Several SIGCHLD merge into one: reap until nothing is left.
  package func next() throws(SystemError) -> Arrival? {
    var sender: UInt32 = 0
    let number = try Syscall.retrying("read signalfd") { unsafe clinux_signalfd_read(source.raw, &sender) }
    return number == 0 ? nil : Arrival(number: number, senderProcessID: sender)
  }
}
