import FerryClient
import Foundation
import Synchronization
import WireProtocol

@testable import AppLifecycle

/// A daemon in memory: keeps what an app says, and speaks to it when a test wants it to.
final class ScriptedRoad: DaemonRoad {
  private struct State {
    var requests: [ClientRequest] = []
    var events: DaemonEvents?
    var refusal: ConnectionFailure?
  }

  private let state = Mutex(State())

  init(refusing refusal: ConnectionFailure? = nil) { state.withLock { $0.refusal = refusal } }

  var requests: [ClientRequest] { state.withLock { $0.requests } }
  var names: [String] { requests.map(\.name.rawValue) }

  func ask(_ request: ClientRequest) throws(ConnectionFailure) {
    let refusal = state.withLock {
      $0.requests.append(request)
      return $0.refusal
    }
    if let refusal { throw refusal }
  }

  func tell(_ request: ClientRequest) { state.withLock { $0.requests.append(request) } }

  var opener: DaemonRoadOpener {
    { _, events throws(ConnectionFailure) in
      self.state.withLock { $0.events = events }
      return self
    }
  }

  func wake(session: String, launch: Int64, app: String = "reader") {
    state.withLock { $0.events }?
      .woken(AppWakeNotice(app: app, session: session, launch: launch, reason: "sessionEvents"))
  }

  func reconnect() { state.withLock { $0.events }?.reconnected() }

  var handled: [AppHandledParameters] {
    requests.compactMap { if case .appHandled(let parameters) = $0 { parameters } else { nil } }
  }
}

/// An app that was started by a person, or launched by the daemon, with a scripted road.
@MainActor struct Stage {
  let road: ScriptedRoad
  let application: UIApplication

  init(
    launch: Int64? = nil, session: String? = nil, road: ScriptedRoad = ScriptedRoad(),
    allowance: BackgroundAllowance = BackgroundAllowance()
  ) {
    var environment = ["FERRY_APP_ID": "reader"]
    environment["FERRY_LAUNCH"] = launch.map { "\($0)" }
    environment["FERRY_LAUNCH_SESSION"] = session
    var bundle = BundleKeys()
    bundle.taskIdentifiers = ["reader.refresh"]
    bundle.backgroundModes = ["fetch"]
    self.road = road
    application = UIApplication(
      surroundings: LaunchSurroundings(environment: environment, executable: "/opt/reader", bundle: bundle),
      leases: BackgroundLeases(allowance), connect: road.opener)
  }

  /// Waits until something holds, looking after each turn of the main queue. The test's time limit is the deadline.
  func settle(until holds: () -> Bool) async {
    while !holds() {
      await withCheckedContinuation { continuation in DispatchQueue.main.async { continuation.resume() } }
    }
  }
}

/// Writes down what it hears, and the state at that moment.
final class DiaryDelegate: UIResponder, UIApplicationDelegate {
  var lines: [String] = []
  var handlers: [() -> Void] = []
  var callsHandler = true

  private func note(_ line: String, _ application: UIApplication) {
    lines.append("\(line) \(application.applicationState)")
  }

  func application(
    _ application: UIApplication, willFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool {
    note("willFinishLaunching", application)
    return true
  }
  func application(
    _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool {
    note("didFinishLaunching", application)
    return true
  }
  func application(
    _ application: UIApplication, handleEventsForBackgroundURLSession identifier: String,
    completionHandler: @escaping () -> Void
  ) {
    note("handleEvents \(identifier)", application)
    if callsHandler { completionHandler() } else { handlers.append(completionHandler) }
  }
  func applicationDidBecomeActive(_ application: UIApplication) { note("didBecomeActive", application) }
  func applicationWillResignActive(_ application: UIApplication) { note("willResignActive", application) }
  func applicationDidEnterBackground(_ application: UIApplication) { note("didEnterBackground", application) }
  func applicationWillEnterForeground(_ application: UIApplication) { note("willEnterForeground", application) }
  func applicationWillTerminate(_ application: UIApplication) { note("willTerminate", application) }
}
