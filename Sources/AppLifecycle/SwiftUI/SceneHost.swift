#if !canImport(Darwin)
  internal import Foundation
  internal import Observation
  internal import Synchronization

  /// What an application knows of a SwiftUI app's scenes.
  @MainActor protocol SceneHosting: AnyObject {
    /// Evaluates the scenes, and runs the actions of values that have changed.
    func update()
    /// Runs the background tasks for that session, and then the handler. False when there is none.
    func handle(session: String, within limit: Duration, then call: HandlerCall) -> Bool
    func cancelBackgroundTasks()
  }

  /// What one evaluation of the scenes found, in their order.
  @MainActor struct SceneRecords {
    var changes: [any ChangeWatching] = []
    var sessionTasks: [SessionTaskRecord] = []

    mutating func walk(_ scene: some Scene) {
      if let primitive = scene as? any PrimitiveScene {
        primitive.record(in: &self)
      } else {
        walk(scene.body)
      }
    }
  }

  @MainActor protocol ChangeWatching {
    /// Runs the action if the value is another than in the evaluation before.
    func compare(with previous: (any ChangeWatching)?)
  }

  struct ChangeWatch<V: Equatable>: ChangeWatching {
    let value: V
    let isInitial: Bool
    let action: (V, V) -> Void

    init(_ value: V, _ isInitial: Bool, _ action: @escaping (V, V) -> Void) {
      self.value = value
      self.isInitial = isInitial
      self.action = action
    }

    func compare(with previous: (any ChangeWatching)?) {
      if let previous = previous as? ChangeWatch<V> {
        if previous.value != value { action(previous.value, value) }
      } else if isInitial {
        action(value, value)
      }
    }
  }

  struct SessionTaskRecord: Sendable {
    /// The work for a session; nil when it is not for that.
    let work: @Sendable (_ session: String) -> (@Sendable () async -> Void)?

    init<D: Sendable, R: Sendable>(_ task: BackgroundTask<D, R>, _ action: @escaping @Sendable (D) async -> R) {
      work = { session in
        guard let request = task.request(session) else { return nil }
        return { _ = await action(request) }
      }
    }
  }

  final class SceneHost<A: App>: SceneHosting {
    private let app: A
    private var records = SceneRecords()
    private var isUpdating = false
    private var mustUpdateAgain = false
    private var running: [Int: Task<Void, Never>] = [:]
    private var nextNumber = 0

    init(_ app: A) { self.app = app }

    func update() {
      guard !isUpdating else {
        mustUpdateAgain = true
        return
      }
      isUpdating = true
      repeat {
        mustUpdateAgain = false
        let found = withObservationTracking({ Self.records(of: app) }, onChange: { SceneInvalidation.request() })
        let previous = records.changes
        records = found
        for (index, change) in found.changes.enumerated() {
          change.compare(with: index < previous.count ? previous[index] : nil)
        }
      } while mustUpdateAgain
      isUpdating = false
    }

    private static func records(of app: A) -> SceneRecords {
      var found = SceneRecords()
      found.walk(app.body)
      return found
    }

    func handle(session: String, within limit: Duration, then call: HandlerCall) -> Bool {
      let works = records.sessionTasks.compactMap { $0.work(session) }
      guard !works.isEmpty else { return false }
      let number = nextNumber
      nextNumber += 1
      let task = Task { @MainActor in
        await withTaskGroup(of: Void.self) { group in
          for work in works { group.addTask { await work() } }
        }
        self.running[number] = nil
        call.call()
      }
      running[number] = task
      DispatchQueue.main.asyncAfter(deadline: .now() + limit / .seconds(1)) { task.cancel() }
      return true
    }

    func cancelBackgroundTasks() {
      for number in running.keys.sorted() { running[number]?.cancel() }
    }
  }

  /// Something that the scenes may have used has changed.
  enum SceneInvalidation {
    private static let isRequested = Mutex(false)

    /// Any thread. The scenes are evaluated again in a later turn of the main queue, once for all requests until then.
    static func request() {
      let isFirst = isRequested.withLock { requested in
        defer { requested = true }
        return !requested
      }
      guard isFirst else { return }
      DispatchQueue.main.async {
        isRequested.withLock { $0 = false }
        MainActor.assumeIsolated { UIApplication.shared.sceneHost?.update() }
      }
    }
  }
#endif
