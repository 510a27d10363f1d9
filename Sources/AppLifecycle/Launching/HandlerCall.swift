#if !canImport(Darwin)
  internal import Synchronization

  /// One time that the daemon asked for a session's events to be collected.
  struct SessionWake: Hashable, Sendable {
    let session: String
    let launch: Int64
  }

  /// The completion handler of one wake: its first call counts.
  final class HandlerCall: Sendable {
    private let session: String
    private let isCalled = Mutex(false)
    private let body: @Sendable () -> Void

    init(session: String, _ body: @escaping @Sendable () -> Void) {
      self.session = session
      self.body = body
    }

    /// Any thread.
    func call() {
      let isFirst = isCalled.withLock { called in
        defer { called = true }
        return !called
      }
      guard isFirst else {
        return Diagnostics.log("the completion handler of the session \(session) was called twice")
      }
      body()
    }

    /// What the program gets. When it lets go of this without having called it, the mistake is named at once, and not
    /// only by the end of the process.
    var completionHandler: @Sendable () -> Void {
      let token = Token(self)
      return { token.call.call() }
    }

    private var isOpen: Bool { isCalled.withLock { !$0 } }

    private final class Token: Sendable {
      let call: HandlerCall
      init(_ call: HandlerCall) { self.call = call }
      deinit {
        if call.isOpen {
          Diagnostics.log(
            "the completion handler of the session \(call.session) was dropped without a call: the daemon will end "
              + "this process when its time is over")
        }
      }
    }
  }
#endif
