#if !canImport(Darwin)
  internal import FerryClient
  public import Foundation
  internal import Synchronization
  internal import WireProtocol

  /// This process as an app: where it stands between foreground and background, and what it was started for.
  ///
  /// A program without a screen is an app to the daemon `ferryd`: a person started it, or the daemon did because a
  /// background session has something to collect. Write an application delegate with `@main`, or a SwiftUI ``App``;
  /// either calls ``main()`` of its protocol, which makes this object, registers the program with the daemon and runs
  /// the main run loop until the process ends.
  ///
  /// - Started by a person, the app becomes active, and stays so until ``moveToBackground()``.
  /// - Started by the daemon (the variable `FERRY_LAUNCH` is set), it is in the background: after
  ///   `didFinishLaunchingWithOptions` the delegate's `handleEventsForBackgroundURLSession` is called, and the process
  ///   has 30 s until it must have called the completion handler.
  /// - A process in the background is not suspended. It sleeps in its run loop, without a wake-up, until something
  ///   happens; a program that should not stay ends itself.
  @MainActor public final class UIApplication: UIResponder, @unchecked Sendable {
    /// The only object of this class.
    public static let shared = UIApplication(
      surroundings: LaunchSurroundings(environment: ProcessInfo.processInfo.environment), leases: .process,
      connect: DaemonConnection.forLifeCycle)

    /// Hears what happens to the app. ``UIApplicationDelegate/main()`` and ``UIApplicationDelegateAdaptor`` set it; the
    /// object is kept.
    public var delegate: (any UIApplicationDelegate)?

    /// Where the app stands. ``State/active`` in a program that never entered ``UIApplicationDelegate/main()``.
    public internal(set) var applicationState = State.active {
      didSet { EnvironmentValues.present.withLock { [applicationState] in $0 = ScenePhase(applicationState) } }
    }

    /// Background refresh cannot be turned off on Linux: always `available`.
    public var backgroundRefreshStatus: UIBackgroundRefreshStatus { .available }

    /// Kept; nothing turns off. Default: false.
    public var isIdleTimerDisabled = false

    let surroundings: LaunchSurroundings
    let connect: DaemonRoadOpener
    /// The road to the daemon; nil before the app was launched, and while no daemon was reached.
    var road: (any DaemonRoad)?
    nonisolated let leases: BackgroundLeases
    /// Wakes whose completion handler was not called yet, by launch.
    var openWakes: [SessionWake: HandlerCall] = [:]
    /// The completion handler of the wake that this process was launched for was called.
    var isLaunchHandled = false
    /// The scenes of a SwiftUI ``App``.
    var sceneHost: (any SceneHosting)?
    var termination: Termination?

    init(
      surroundings: LaunchSurroundings, leases: BackgroundLeases = BackgroundLeases(BackgroundAllowance()),
      connect: @escaping DaemonRoadOpener
    ) {
      self.surroundings = surroundings
      self.connect = connect
      self.leases = leases
      super.init()
    }

    /// A second object would be a second app: ``shared`` is the only one, so this ends the program.
    public nonisolated required init() { fatalError("There can only be one UIApplication instance.") }

    // MARK: Time in the background

    /// Seconds that the app may still run in the background; `Double.greatestFiniteMagnitude` in the foreground.
    ///
    /// Counted from the moment in which the app went to the background, or was launched or woken there: 30 s.
    public nonisolated var backgroundTimeRemaining: TimeInterval { leases.timeRemaining }

    /// Asks for time to finish something when the app goes to the background.
    ///
    /// The app has about 30 s for all that it has begun, from the moment it went to the background. Then each handler
    /// is called, on the main actor; whoever has not called ``endBackgroundTask(_:)`` 5 s later loses the process: it
    /// is killed (SIGKILL) with a line on standard error that says why, as on Apple's systems.
    ///
    /// - Parameters:
    ///   - name: for that line.
    ///   - handler: called once when the time is over; must end the task. Nil: no warning.
    /// - Returns: what ``endBackgroundTask(_:)`` takes; `invalid` when the time is over already.
    public nonisolated func beginBackgroundTask(
      withName name: String?, expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier {
      leases.begin(name: name, handler)
    }

    /// As ``beginBackgroundTask(withName:expirationHandler:)`` without a name.
    public nonisolated func beginBackgroundTask(
      expirationHandler handler: (@MainActor @Sendable () -> Void)? = nil
    ) -> UIBackgroundTaskIdentifier {
      leases.begin(name: nil, handler)
    }

    /// Ends what ``beginBackgroundTask(withName:expirationHandler:)`` began. Any thread; an unknown identifier does no
    /// harm.
    public nonisolated func endBackgroundTask(_ identifier: UIBackgroundTaskIdentifier) {
      leases.end(identifier)
    }
  }

  /// Whether the app may run in the background to refresh its content.
  public enum UIBackgroundRefreshStatus: Int, Sendable {
    /// Not to be changed by the person.
    case restricted = 0
    /// The person turned it off.
    case denied = 1
    /// It may.
    case available = 2
  }

  extension UIApplication {
    /// Where an app stands.
    public enum State: Int, Sendable {
      /// In the foreground.
      case active = 0
      /// In the foreground, on its way from or to another state.
      case inactive = 1
      /// In the background.
      case background = 2
    }

    /// Keys of the options of `didFinishLaunchingWithOptions`. None is ever set on Linux.
    public struct LaunchOptionsKey: RawRepresentable, Hashable, Sendable {
      /// Apple's name of the key.
      public let rawValue: String
      /// A key of that name.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// The address that the app is to open.
      public static let url = Self(rawValue: "UIApplicationLaunchOptionsURLKey")
    }

    /// The app has finished launching. Posted on the main actor, as all of these.
    public nonisolated static let didFinishLaunchingNotification = NSNotification.Name(
      "UIApplicationDidFinishLaunchingNotification")
    /// The app became active.
    public nonisolated static let didBecomeActiveNotification = NSNotification.Name(
      "UIApplicationDidBecomeActiveNotification")
    /// The app is about to stop being active.
    public nonisolated static let willResignActiveNotification = NSNotification.Name(
      "UIApplicationWillResignActiveNotification")
    /// The app went to the background.
    public nonisolated static let didEnterBackgroundNotification = NSNotification.Name(
      "UIApplicationDidEnterBackgroundNotification")
    /// The app is about to leave the background.
    public nonisolated static let willEnterForegroundNotification = NSNotification.Name(
      "UIApplicationWillEnterForegroundNotification")
    /// The process is about to end, because it got SIGTERM or SIGINT.
    public nonisolated static let willTerminateNotification = NSNotification.Name(
      "UIApplicationWillTerminateNotification")
    /// Never posted on Linux.
    public nonisolated static let didReceiveMemoryWarningNotification = NSNotification.Name(
      "UIApplicationDidReceiveMemoryWarningNotification")
    /// Never posted on Linux.
    public nonisolated static let backgroundRefreshStatusDidChangeNotification = NSNotification.Name(
      "UIApplicationBackgroundRefreshStatusDidChangeNotification")
  }
#endif
