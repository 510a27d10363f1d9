import Glibc

/// A detached thread that runs one closure.
enum PosixThread {
  private final class Work {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }

  /// Starts a thread; the answer is 0 or an errno, then `body` never runs.
  static func detach(stackByteCount: Int, _ body: @escaping @Sendable () -> Void) -> Int32 {
    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    defer { unsafe pthread_attr_destroy(&attributes) }
    unsafe pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    unsafe pthread_attr_setstacksize(&attributes, stackByteCount)
    let work = unsafe Unmanaged.passRetained(Work(body))
    var thread = pthread_t()
    let code = unsafe pthread_create(&thread, &attributes, entry, work.toOpaque())
    if code != 0 { unsafe work.release() }
    return code
  }

  // SAFETY: the argument is the one reference `detach` retained for this thread. A static function, because a
  // closure written in main-actor code would trap on this thread.
  private static let entry: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
    if let argument = unsafe argument {
      unsafe Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().body()
    }
    return nil
  }
}
