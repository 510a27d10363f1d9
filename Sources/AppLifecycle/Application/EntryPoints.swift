#if !canImport(Darwin)
  internal import Foundation

  extension UIApplicationDelegate {
    /// The program, for a delegate class that is marked with `@main`: makes the delegate with its `init()`, launches
    /// the app, and never returns.
    public static func main() {
      let type: Any.Type = Self.self
      guard let type = type as? NSObject.Type, let delegate = Instantiation.object(of: type) as? Self else {
        fatalError("The application delegate \(Self.self) is no class that inherits from NSObject or UIResponder.")
      }
      UIApplication.shared.run(delegate)
    }
  }

  // The name is Apple's.
  // swift-format-ignore: AlwaysUseLowerCamelCase
  /// The program, for a `main.swift`: launches the app, and never returns.
  ///
  /// - Parameters:
  ///   - argc: ignored, as is `argv`; `CommandLine` has the arguments.
  ///   - principalClassName: must be nil; ``UIApplication`` is the only class.
  ///   - delegateClassName: `NSStringFromClass` of the delegate's class. Nil: an app without a delegate.
  @MainActor public func UIApplicationMain(
    _ argc: Int32, _ argv: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, _ principalClassName: String?,
    _ delegateClassName: String?
  ) -> Int32 {
    guard principalClassName == nil || principalClassName == NSStringFromClass(UIApplication.self) else {
      fatalError(
        "Unable to instantiate the UIApplication subclass instance. No class named \(principalClassName ?? "")")
    }
    guard let delegateClassName else { UIApplication.shared.run(nil) }
    guard let type = NSClassFromString(delegateClassName) as? NSObject.Type,
      let delegate = Instantiation.object(of: type) as? any UIApplicationDelegate
    else {
      fatalError("Unable to instantiate the UIApplication delegate instance. No class named \(delegateClassName)")
    }
    UIApplication.shared.run(delegate)
  }

  extension UIApplication {
    /// Launches the app and serves the main queue, the main actor and the run loop's timers until the process ends.
    func run(_ delegate: (any UIApplicationDelegate)?) -> Never {
      if let delegate { self.delegate = delegate }
      termination = Termination { [weak self] in self?.terminate() }
      launch()
      // A run loop that served the main queue returns; one that waits does so without a wake-up.
      while true { _ = RunLoop.main.run(mode: .default, before: .distantFuture) }
    }
  }
#endif
