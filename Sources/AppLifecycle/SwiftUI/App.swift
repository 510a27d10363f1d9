#if !canImport(Darwin)
  public import Foundation

  /// A program that is declared by its scenes. Mark it with `@main`.
  ///
  /// Of the scenes only what works without a screen has an effect: `backgroundTask(_:action:)` and `onChange(of:)` on
  /// them, and ``Environment`` and ``State`` of the app. Nothing is drawn, and no view is ever made.
  @MainActor @preconcurrency public protocol App {
    /// The type of the scenes together.
    associatedtype Body: Scene
    /// The scenes. Evaluated at the launch, and again when something that it used has changed.
    @SceneBuilder var body: Body { get }
    /// The app; once in a process.
    init()
  }

  extension App {
    /// The program: makes the app, launches it, and never returns.
    public static func main() {
      let application = UIApplication.shared
      // Made first: its adaptor makes the delegate.
      let app = Self()
      application.sceneHost = SceneHost(app)
      application.run(nil)
    }
  }

  /// Makes an application delegate for an ``App``, and gives it what happens to the app.
  @MainActor @preconcurrency @propertyWrapper
  public struct UIApplicationDelegateAdaptor<DelegateType: NSObject & UIApplicationDelegate>: DynamicProperty {
    /// The delegate.
    public let wrappedValue: DelegateType

    /// Makes the delegate by its `init()`.
    public init(_ delegateType: DelegateType.Type = DelegateType.self) {
      guard let delegate = Instantiation.object(of: delegateType) as? DelegateType else {
        fatalError("The application delegate \(delegateType) could not be made.")
      }
      wrappedValue = delegate
      UIApplication.shared.delegate = delegate
    }
  }
#endif
