#if !canImport(Darwin)
  internal import Foundation
  internal import WireProtocol

  extension UIApplication {
    /// Sends the app to the background, as a person does who turns to another app. Only here: on a machine without a
    /// screen nobody else can.
    ///
    /// The delegate hears `applicationWillResignActive` and `applicationDidEnterBackground`; what was begun with
    /// ``beginBackgroundTask(withName:expirationHandler:)`` has about 30 s from now. Transfers that are created from
    /// now on start when the daemon thinks fit.
    public func moveToBackground() {
      guard applicationState != .background else { return }
      if applicationState == .active {
        announce(Self.willResignActiveNotification) { $0.applicationWillResignActive(self) }
        enter(.inactive)
      }
      enter(.background)
      leases.enterBackground()
      announce(Self.didEnterBackgroundNotification) { $0.applicationDidEnterBackground(self) }
    }

    /// Brings the app to the front, as a person does who turns to it. Only here: on a machine without a screen nobody
    /// else can.
    ///
    /// The delegate hears `applicationWillEnterForeground` and `applicationDidBecomeActive`. The daemon takes it as the
    /// person's word that the app is wanted: launches that were delayed are no longer.
    public func moveToForeground() {
      guard applicationState != .active else { return }
      if applicationState == .background {
        announce(Self.willEnterForegroundNotification) { $0.applicationWillEnterForeground(self) }
        leases.enterForeground()
      }
      enter(.inactive)
      becomeActive()
    }

    func becomeActive() {
      enter(.active)
      announce(Self.didBecomeActiveNotification) { $0.applicationDidBecomeActive(self) }
    }

    /// Tells the daemon first, so that what the delegate does then counts as done in that state.
    private func enter(_ state: State) {
      let wasForeground = applicationState != .background
      applicationState = state
      let isForeground = state != .background
      if isForeground != wasForeground {
        ask(.appState(AppStateParameters(app: surroundings.app, state: isForeground ? "foreground" : "background")))
      }
      sceneHost?.update()
    }

    /// First the delegate, then the observers, as UIKit does.
    func announce(_ name: NSNotification.Name, _ tell: (any UIApplicationDelegate) -> Void) {
      if let delegate { tell(delegate) }
      NotificationCenter.default.post(name: name, object: self)
    }

    /// The process is about to end, by a signal.
    func terminate() {
      // A closure of `backgroundTask` hears of its end by the cancellation of its task.
      sceneHost?.cancelBackgroundTasks()
      announce(Self.willTerminateNotification) { $0.applicationWillTerminate(self) }
    }
  }
#endif
