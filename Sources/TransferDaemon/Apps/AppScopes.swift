import DeviceConditions
import LinuxSystem
import TransferCore

/// Has launched apps moved out of the daemon's control group into scopes of their own, where the user's service manager
/// can be reached: their memory and their end are then not the daemon's. On a thread of its own, made with the first
/// launch: a bus that hangs keeps nothing but later scopes.
final class AppScopes {
  /// Launches that may wait for the bus; the others stay where they are.
  private static let backlog = 16

  private let runtimeFolder: String?
  private var worker: Worker?

  init(runtimeFolder: String?) { self.runtimeFolder = runtimeFolder }

  /// - Parameters:
  ///   - watch: the process's pidfd; it stays the caller's.
  ///   - report: called with a failure, on any thread.
  func adopt(
    _ processID: Int32, watch: Int32, app: String, report: @escaping @Sendable (ScopeFailure) -> Void
  ) {
    // Of its own, because the process's number may be another's by the time that the thread comes to it.
    guard let watch = try? OwnedDescriptor.duplicate(of: watch).take() else { return }
    if worker == nil { worker = try? Worker(name: "app-scopes", limit: Self.backlog) }
    let isTaken = worker?.submit { [runtimeFolder] in
      let process = OwnedDescriptor(adopting: watch)
      guard (try? Syscall.poll(process.raw, for: .readable, timeoutMilliseconds: 0).isEmpty) == true else { return }
      do throws(ScopeFailure) {
        try UserSystemd.startScope(
          UserSystemd.scopeName(app: app, processID: processID), description: "\(app), launched by ferryd",
          processID: processID, runtimeFolder: runtimeFolder)
      } catch {
        report(error)
      }
    }
    if isTaken != true { _ = OwnedDescriptor(adopting: watch) }
  }
}
