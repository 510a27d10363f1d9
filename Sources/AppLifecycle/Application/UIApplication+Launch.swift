#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import WireProtocol

  extension UIApplication {
    /// From the start of the process to its first state.
    func launch() {
      applicationState = surroundings.launch == nil ? .inactive : .background
      if surroundings.launch != nil { leases.enterBackground() }
      introduce()
      let delegate = delegate
      _ = delegate?.application(self, willFinishLaunchingWithOptions: nil)
      _ = delegate?.application(self, didFinishLaunchingWithOptions: nil)
      NotificationCenter.default.post(name: Self.didFinishLaunchingNotification, object: self)
      sceneHost?.update()
      if let launch = surroundings.launch {
        if let session = surroundings.session { wake(SessionWake(session: session, launch: launch)) }
      } else {
        becomeActive()
      }
    }

    /// Registers a program that a person started, and says what state this process is in.
    private func introduce() {
      guard let road = openRoad() else { return }
      if surroundings.launch == nil, let registration = surroundings.registration {
        ask(.appRegister(registration))
      }
      attach(through: road)
    }

    private func openRoad() -> (any DaemonRoad)? {
      if let road { return road }
      let events = DaemonEvents(
        woken: { [weak self] notice in
          DispatchQueue.main.async { MainActor.assumeIsolated { self?.woken(notice) } }
        },
        reconnected: { [weak self] in
          DispatchQueue.main.async { MainActor.assumeIsolated { self?.attachAgain() } }
        })
      do throws(ConnectionFailure) {
        road = try connect(surroundings.environment, events)
      } catch {
        Diagnostics.log("the daemon does not know that \(surroundings.app) runs: \(error.message)")
      }
      return road
    }

    private func attach(through road: any DaemonRoad) {
      let state = applicationState == .background ? "background" : "foreground"
      // A launch that was handled is over; the process goes on as one that nobody waits for.
      let launch = isLaunchHandled ? nil : surroundings.launch
      ask(.appAttach(AppAttachParameters(app: surroundings.app, state: state, launch: launch)))
    }

    private func attachAgain() {
      if let road { attach(through: road) }
    }

    /// Blocks until the daemon answered; what it refuses is reported, and the app goes on.
    func ask(_ request: ClientRequest) {
      guard let road else { return }
      do throws(ConnectionFailure) {
        try road.ask(request)
      } catch {
        Diagnostics.log("\(request.name.rawValue) of \(surroundings.app): \(error.message)")
      }
    }

    // MARK: Events of a session

    private func woken(_ notice: AppWakeNotice) {
      guard notice.app == surroundings.app else { return }
      wake(SessionWake(session: notice.session, launch: notice.launch))
    }

    /// Hands a session's events to whoever is there for them.
    func wake(_ wake: SessionWake) {
      guard openWakes[wake] == nil else { return }
      if applicationState == .background { leases.enterBackground() }
      let call = HandlerCall(session: wake.session) { [weak self] in
        DispatchQueue.main.async { MainActor.assumeIsolated { self?.handled(wake) } }
      }
      openWakes[wake] = call
      if let sceneHost, sceneHost.handle(session: wake.session, within: leases.allowance.warnsAfter, then: call) {
        return
      }
      guard let delegate else {
        Diagnostics.log("the session \(wake.session) has something to collect, and the app has no delegate")
        return call.call()
      }
      delegate.application(
        self, handleEventsForBackgroundURLSession: wake.session, completionHandler: call.completionHandler)
    }

    private func handled(_ wake: SessionWake) {
      guard openWakes.removeValue(forKey: wake) != nil else { return }
      if wake.launch == surroundings.launch { isLaunchHandled = true }
      road?.tell(
        .appHandled(AppHandledParameters(app: surroundings.app, session: wake.session, launch: wake.launch)))
    }
  }
#endif
