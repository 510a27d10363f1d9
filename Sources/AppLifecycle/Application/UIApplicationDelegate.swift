#if !canImport(Darwin)
  public import Foundation

  /// What an app hears of its own life. Every method may be left out, and is called on the main actor.
  ///
  /// The class that declares the conformance must implement the methods itself: one that only its subclass adds is not
  /// found, because there is no Objective-C.
  @MainActor public protocol UIApplicationDelegate: NSObjectProtocol {
    /// The process has started. Default: true. The result is ignored: there is no address to open.
    func application(
      _ application: UIApplication,
      willFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool

    /// The app is about to run: make background sessions here. Default: true. `launchOptions` is nil on Linux.
    func application(
      _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool

    /// The old form of `didFinishLaunchingWithOptions`; called in its place where that is not implemented.
    func applicationDidFinishLaunching(_ application: UIApplication)

    /// A background session has something to collect: all of its tasks have ended, or one needs an answer.
    ///
    /// Make the session with that identifier, keep the handler, and call it when the session's delegate got
    /// `urlSessionDidFinishEvents`. If it is not called within 30 s of the launch, the daemon ends the process and
    /// launches it again later. Any thread may call it; a second call is reported and ignored.
    ///
    /// Default: calls the `async` form and then the handler.
    func application(
      _ application: UIApplication, handleEventsForBackgroundURLSession identifier: String,
      completionHandler: @escaping () -> Void)

    /// The `async` form: returning is calling the handler. Default: returns, with a line on standard error.
    func application(_ application: UIApplication, handleEventsForBackgroundURLSession identifier: String) async

    /// The app became active. Default: nothing.
    func applicationDidBecomeActive(_ application: UIApplication)
    /// The app is about to stop being active. Default: nothing.
    func applicationWillResignActive(_ application: UIApplication)
    /// The app went to the background, and should return from this within 5 s. Default: nothing.
    func applicationDidEnterBackground(_ application: UIApplication)
    /// The app is about to leave the background. Default: nothing.
    func applicationWillEnterForeground(_ application: UIApplication)
    /// The process ends when this returns: it got SIGTERM or SIGINT. Default: nothing.
    func applicationWillTerminate(_ application: UIApplication)
    /// Never called on Linux.
    func applicationDidReceiveMemoryWarning(_ application: UIApplication)
  }

  extension UIApplicationDelegate {
    /// True.
    public func application(
      _ application: UIApplication, willFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool { true }

    /// Calls `applicationDidFinishLaunching`.
    public func application(
      _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
    ) -> Bool {
      applicationDidFinishLaunching(application)
      return true
    }

    /// Does nothing.
    public func applicationDidFinishLaunching(_ application: UIApplication) {}

    /// Calls the `async` form, and then the handler.
    public func application(
      _ application: UIApplication, handleEventsForBackgroundURLSession identifier: String,
      completionHandler: @escaping () -> Void
    ) {
      Task { @MainActor in
        await self.application(application, handleEventsForBackgroundURLSession: identifier)
        completionHandler()
      }
    }

    /// Says on standard error that nobody collects the session's results.
    public func application(
      _ application: UIApplication, handleEventsForBackgroundURLSession identifier: String
    ) async {
      Diagnostics.log(
        "the session \(identifier) has something to collect, and the application delegate does not implement "
          + "application(_:handleEventsForBackgroundURLSession:completionHandler:)")
    }

    /// Does nothing.
    public func applicationDidBecomeActive(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationWillResignActive(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationDidEnterBackground(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationWillEnterForeground(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationWillTerminate(_ application: UIApplication) {}
    /// Does nothing.
    public func applicationDidReceiveMemoryWarning(_ application: UIApplication) {}
  }
#endif
