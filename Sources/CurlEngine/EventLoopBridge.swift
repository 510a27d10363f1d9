package import LinuxSystem

/// Runs an engine on LinuxSystem's loop: its sockets, and the reports of its workers.
package final class EventLoopBridge: LoopRegistrar {
  private struct Wake: Sendable {}

  private let loop: EventLoop
  private let mailbox: Mailbox<Wake>
  private var mailboxRegistration: EventLoop.Registration?
  private var registrations: [Int32: EventLoop.Registration] = [:]
  private weak var engine: CurlEngine?
  /// Sockets that the kernel refused to watch; their transfers end by the watchdog. Diagnostic.
  package private(set) var refusedWatches = 0

  package init(_ loop: EventLoop) throws(SystemError) {
    self.loop = loop
    mailbox = try Mailbox()
  }

  /// Makes the engine of this loop; once. The caller keeps bridge and engine, calls `turn` when the engine's
  /// `nextDeadline` has come, and `detach` at the end.
  package func makeEngine() throws(EngineUnavailable) -> CurlEngine {
    let engine = try CurlEngine(registrar: self, wake: { [mailbox] in mailbox.post(Wake()) })
    do throws(SystemError) {
      mailboxRegistration = try loop.register(descriptor: mailbox.descriptor, interest: .readable) { [weak self] _ in
        guard let self else { return }
        _ = mailbox.drain()
        self.engine?.takeReports()
      }
    } catch {
      throw EngineUnavailable(curlCode: 0)
    }
    self.engine = engine
    return engine
  }

  /// Closes the engine and takes everything off the loop.
  package func detach() {
    engine?.close()
    for registration in registrations.values { loop.remove(registration) }
    registrations = [:]
    if let mailboxRegistration { loop.remove(mailboxRegistration) }
    mailboxRegistration = nil
  }

  package func watch(_ descriptor: Int32, readable: Bool, writable: Bool) {
    var interest: EventLoop.Interest = []
    if readable { interest.insert(.readable) }
    if writable { interest.insert(.writable) }
    if let registration = registrations[descriptor] {
      // Refused when libcurl closed the socket and got its number again: then it is a new one.
      if (try? loop.modify(registration, interest: interest)) != nil { return }
      loop.remove(registration)
    }
    registrations[descriptor] = try? loop.register(descriptor: descriptor, interest: interest) {
      [weak self] readiness in
      let isBroken = !readiness.isDisjoint(with: [.error, .hangUp])
      self?.engine?.ready(
        descriptor, readable: isBroken || readiness.contains(.readable),
        writable: isBroken || readiness.contains(.writable))
    }
    if registrations[descriptor] == nil { refusedWatches += 1 }
  }

  package func unwatch(_ descriptor: Int32) {
    guard let registration = registrations.removeValue(forKey: descriptor) else { return }
    loop.remove(registration)
  }
}

extension Worker: FileWorker {}
