#if !canImport(Darwin)
  public import Foundation
  public import Observation
  internal import Synchronization

  /// A property whose value comes from outside of the value that it belongs to.
  public protocol DynamicProperty {
    /// Called on Apple's systems before a body is evaluated; never here.
    mutating func update()
  }

  extension DynamicProperty {
    /// Does nothing.
    public mutating func update() {}
  }

  /// A place in ``EnvironmentValues``.
  public protocol EnvironmentKey {
    /// The type of its value.
    associatedtype Value
    /// The value where nobody set one.
    static var defaultValue: Value { get }
  }

  /// What the surroundings tell a scene or a view.
  public struct EnvironmentValues {
    private var values: [ObjectIdentifier: Any] = [:]
    private var chosenPhase: ScenePhase?

    /// Every value at its default; the phase is the app's present one.
    public init() {}

    /// The value of a key.
    public subscript<K: EnvironmentKey>(key: K.Type) -> K.Value {
      get { values[ObjectIdentifier(key)] as? K.Value ?? K.defaultValue }
      set { values[ObjectIdentifier(key)] = newValue }
    }

    /// Where the app's scenes stand.
    public var scenePhase: ScenePhase {
      get { chosenPhase ?? Self.present.withLock { $0 } }
      set { chosenPhase = newValue }
    }

    /// The language and region of the process.
    public var locale: Locale { .current }
    /// The calendar of the process.
    public var calendar: Calendar { .current }
    /// The time zone of the process.
    public var timeZone: TimeZone { .current }
    /// Does nothing: there is nothing to dismiss.
    public var dismiss: DismissAction { DismissAction() }
    /// Opens nothing: there is no screen.
    public var openURL: OpenURLAction { OpenURLAction() }

    /// The phase of all scenes of the process.
    static let present = Mutex(ScenePhase.inactive)
  }

  /// Dismisses the present view; here there is none.
  public struct DismissAction: Sendable {
    /// Does nothing.
    public func callAsFunction() {}
  }

  /// Opens an address; here there is nobody to open it for.
  public struct OpenURLAction: Sendable {
    /// Does nothing.
    public func callAsFunction(_ url: URL) {}
  }

  /// Reads a value of the surroundings.
  @propertyWrapper public struct Environment<Value>: DynamicProperty {
    private enum Source {
      case path(KeyPath<EnvironmentValues, Value>)
      case object
    }

    private let source: Source

    /// The value at that place.
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) { source = .path(keyPath) }

    /// The object of that type which a view before this one was given. No view is made here, so reading it ends the
    /// program, as on Apple's systems where it was not given.
    public init(_ objectType: Value.Type) where Value: AnyObject, Value: Observable { source = .object }

    /// The present value.
    public var wrappedValue: Value {
      switch source {
      case .path(let path): EnvironmentValues()[keyPath: path]
      case .object:
        fatalError("No Observable object of type \(Value.self) found: no view is made on a machine without a screen.")
      }
    }
  }
#endif
