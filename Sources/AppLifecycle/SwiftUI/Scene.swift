#if !canImport(Darwin)
  /// A part of an app's interface with a life cycle of its own. All scenes of a process are in the same phase.
  @MainActor @preconcurrency public protocol Scene {
    /// The type of what it consists of; `Never` for the scenes of this module.
    associatedtype Body: Scene
    /// What it consists of.
    @SceneBuilder var body: Body { get }
  }

  extension Never: Scene, View {}
  extension Never {
    /// There is no value to ask.
    public var body: Never { switch self {} }
  }

  /// A scene that this module walks through itself.
  @MainActor protocol PrimitiveScene: Scene where Body == Never {
    func record(in records: inout SceneRecords)
  }

  extension PrimitiveScene {
    /// Never asked for.
    public var body: Never { fatalError("\(Self.self) has no body of its own.") }
  }

  /// A group of windows. Nothing is drawn: `content` is never called.
  public struct WindowGroup<Content: View>: Scene, PrimitiveScene {
    /// A group whose windows show `content`.
    public init(@ViewBuilder content: () -> Content) where Content: View {}
    /// A group with an identifier.
    public init(id: String, @ViewBuilder content: () -> Content) {}
    /// A group with a title.
    public init(_ title: some StringProtocol, @ViewBuilder content: () -> Content) {}
    /// A group with a title and an identifier.
    public init(_ title: some StringProtocol, id: String, @ViewBuilder content: () -> Content) {}

    func record(in records: inout SceneRecords) {}
  }

  /// Scenes in a row.
  public struct TupleScene<each Content: Scene>: Scene, PrimitiveScene {
    private let content: (repeat each Content)

    init(_ content: repeat each Content) { self.content = (repeat each content) }

    func record(in records: inout SceneRecords) {
      for scene in repeat each content { records.walk(scene) }
    }
  }

  /// No scene, or one.
  public struct OptionalScene<Content: Scene>: Scene, PrimitiveScene {
    let content: Content?

    func record(in records: inout SceneRecords) {
      if let content { records.walk(content) }
    }
  }

  /// Makes one scene of the scenes in a closure.
  @resultBuilder public enum SceneBuilder {
    /// A scene as it is.
    public static func buildExpression<Content: Scene>(_ content: Content) -> Content { content }
    /// One scene.
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
    /// Several scenes.
    @MainActor public static func buildBlock<each Content: Scene>(
      _ content: repeat each Content
    ) -> TupleScene<repeat each Content> {
      TupleScene(repeat each content)
    }
    /// A scene under a condition.
    @MainActor public static func buildOptional<Content: Scene>(_ content: Content?) -> OptionalScene<Content> {
      OptionalScene(content: content)
    }
    /// A scene under an availability condition.
    public static func buildLimitedAvailability<Content: Scene>(_ content: Content) -> Content { content }
  }

  /// Where an app's scenes stand: the same for all of them.
  public enum ScenePhase: Comparable, Sendable {
    /// Not visible; the process was started by the daemon, or moved to the background.
    case background
    /// In the foreground, on the way from or to another phase.
    case inactive
    /// In the foreground.
    case active

    init(_ state: UIApplication.State) {
      self =
        switch state {
        case .active: .active
        case .inactive: .inactive
        case .background: .background
        }
    }
  }
#endif
