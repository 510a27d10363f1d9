#if !canImport(Darwin)
  public import Foundation

  /// The base class of application delegates. There are no events to respond to on a machine without a screen.
  ///
  /// Bound to the main actor.
  @MainActor open class UIResponder: NSObject {
    /// A responder with every property at its default.
    public nonisolated required override init() { super.init() }
  }

  /// Exists so that an application delegate's `var window: UIWindow?` compiles. Nothing makes one, and it shows
  /// nothing.
  @MainActor open class UIWindow: UIResponder {}

  /// Objects of classes that are known at run time only, as the Objective-C runtime makes them on Apple's systems.
  enum Instantiation {
    /// An object made by the class's own `init()`. A class that has none, only initializers with parameters, ends the
    /// program in it, as on Apple's systems.
    static func object(of type: NSObject.Type) -> NSObject {
      if let responder = type as? UIResponder.Type { return responder.init() }
      // Foundation's `NSObject.init()` is not `required` on Linux, so the language makes no object of a metatype. But
      // every subclass has that initializer (its own, an inherited one, or one that ends the program), in the place of
      // its method table where UIResponder has the override that the call below is dispatched to.
      // SAFETY: `UIResponder.init()` is an override with the same signature, so it has no place of its own in the
      // table; the class is open, so the call is always dispatched by the table of the class itself. What comes back
      // is an object of `type`, and is used as the NSObject that it is.
      return unsafe unsafeBitCast(type, to: UIResponder.Type.self).init()
    }
  }
#endif
