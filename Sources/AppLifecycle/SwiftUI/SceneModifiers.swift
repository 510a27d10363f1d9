#if !canImport(Darwin)
  /// A scene, and something that is known of it besides.
  struct RecordedScene<Content: Scene>: Scene, PrimitiveScene {
    let content: Content
    let note: @MainActor (inout SceneRecords) -> Void

    func record(in records: inout SceneRecords) {
      records.walk(content)
      note(&records)
    }
  }

  extension Scene {
    /// Does something when a value has changed since the last evaluation of the app's scenes; this is how an app
    /// follows ``ScenePhase``.
    ///
    /// - Parameters:
    ///   - value: compared with its value in the evaluation before.
    ///   - initial: true: `action` runs at the first evaluation, too.
    ///   - action: gets the old and the new value; on the main actor.
    public func onChange<V: Equatable>(
      of value: V, initial: Bool = false, _ action: @escaping (_ oldValue: V, _ newValue: V) -> Void
    ) -> some Scene {
      RecordedScene(content: self) { $0.changes.append(ChangeWatch(value, initial, action)) }
    }

    /// As above, for an action that needs no values.
    public func onChange<V: Equatable>(
      of value: V, initial: Bool = false, _ action: @escaping () -> Void
    ) -> some Scene {
      RecordedScene(content: self) { $0.changes.append(ChangeWatch(value, initial) { _, _ in action() }) }
    }

    /// The old form, whose action gets the new value. (Deprecated on Apple's systems.)
    public func onChange<V: Equatable>(
      of value: V, perform action: @escaping (_ newValue: V) -> Void
    ) -> some Scene {
      RecordedScene(content: self) { $0.changes.append(ChangeWatch(value, false) { _, new in action(new) }) }
    }

    /// What the app does in the background when the system wants it to.
    ///
    /// For ``BackgroundTask/urlSession(_:)`` the closure takes the place of the application delegate's
    /// `handleEventsForBackgroundURLSession`: its end tells the daemon that the session's events are handled. It has
    /// 30 s; after 25 s its Swift task is cancelled.
    public nonisolated func backgroundTask<D: Sendable, R: Sendable>(
      _ task: BackgroundTask<D, R>, action: @escaping @Sendable (D) async -> R
    ) -> some Scene {
      BackgroundTaskScene(content: self, record: SessionTaskRecord(task, action))
    }

    /// No effect: no view is made that could see it.
    public func environment<V>(_ keyPath: WritableKeyPath<EnvironmentValues, V>, _ value: V) -> some Scene { self }
  }

  /// A scene with a background task.
  struct BackgroundTaskScene<Content: Scene>: Scene, PrimitiveScene {
    // SAFETY: a scene is made and read on the main actor; only the method that Apple declares so is not bound to it.
    nonisolated(unsafe) let content: Content
    let record: SessionTaskRecord

    nonisolated init(content: Content, record: SessionTaskRecord) {
      unsafe self.content = content
      self.record = record
    }

    func record(in records: inout SceneRecords) {
      unsafe records.walk(content)
      records.sessionTasks.append(record)
    }
  }

  /// A kind of work that the system has an app do in the background.
  public struct BackgroundTask<Request: Sendable, Response: Sendable>: Sendable {
    /// What the closure gets for a session of that identifier; nil when the task is not for it.
    let request: @Sendable (_ session: String) -> Request?
  }

  extension BackgroundTask where Request == Void, Response == Void {
    /// The events of the background session with that identifier.
    public static func urlSession(_ identifier: String) -> Self {
      Self { $0 == identifier ? () : nil }
    }

    /// A refresh of the app's content. Compiles, and is never carried out: nothing on Linux asks for one here.
    public static func appRefresh(_ identifier: String) -> Self {
      Self { _ in nil }
    }
  }

  extension BackgroundTask where Request == String, Response == Void {
    /// The events of every background session; the closure gets its identifier.
    public static var urlSession: Self { Self { $0 } }

    /// The events of the background sessions whose identifier `isMatch` accepts; the closure gets the identifier.
    public static func urlSession(matching isMatch: @escaping @Sendable (String) -> Bool) -> Self {
      Self { isMatch($0) ? $0 : nil }
    }
  }
#endif
