import FerryClient
import Foundation
import Testing
import WireProtocol

@testable import AppLifecycle

@MainActor @Suite(.timeLimit(.minutes(1))) struct ApplicationTests {
  @Test func aPersonStartsTheApp() {
    let stage = Stage()
    let delegate = DiaryDelegate()
    stage.application.delegate = delegate
    stage.application.launch()
    #expect(
      delegate.lines == ["willFinishLaunching inactive", "didFinishLaunching inactive", "didBecomeActive active"])
    #expect(
      stage.road.requests == [
        .appRegister(
          AppRegisterParameters(
            app: "reader", command: ["/opt/reader"], taskIdentifiers: ["reader.refresh"], backgroundModes: ["fetch"])),
        .appAttach(AppAttachParameters(app: "reader", state: "foreground")),
      ])
    #expect(stage.application.backgroundTimeRemaining == .greatestFiniteMagnitude)
  }

  @Test func theDaemonLaunchesTheApp() async {
    let stage = Stage(launch: 4, session: "books")
    let delegate = DiaryDelegate()
    delegate.callsHandler = false
    stage.application.delegate = delegate
    stage.application.launch()
    #expect(
      delegate.lines == [
        "willFinishLaunching background", "didFinishLaunching background", "handleEvents books background",
      ])
    // A program that the daemon launched is registered already.
    #expect(stage.road.requests == [.appAttach(AppAttachParameters(app: "reader", state: "background", launch: 4))])
    let left = stage.application.backgroundTimeRemaining
    #expect(left > 20 && left <= 30)
    delegate.handlers[0]()
    await stage.settle { !stage.road.handled.isEmpty }
    #expect(stage.road.handled == [AppHandledParameters(app: "reader", session: "books", launch: 4)])
  }

  @Test func aSecondCallOfTheHandlerIsIgnored() async {
    let stage = Stage(launch: 4, session: "books")
    let delegate = DiaryDelegate()
    delegate.callsHandler = false
    stage.application.delegate = delegate
    stage.application.launch()
    delegate.handlers[0]()
    delegate.handlers[0]()
    stage.road.wake(session: "maps", launch: 5)
    await stage.settle { delegate.handlers.count == 2 }
    delegate.handlers[1]()
    await stage.settle { stage.road.handled.count >= 2 }
    #expect(stage.road.handled.map(\.launch) == [4, 5])
  }

  @Test func aRunningAppIsWoken() async {
    let stage = Stage()
    let delegate = DiaryDelegate()
    stage.application.delegate = delegate
    stage.application.launch()
    stage.application.moveToBackground()
    stage.road.wake(session: "other", launch: 1, app: "another.app")
    stage.road.wake(session: "books", launch: 2)
    await stage.settle { !stage.road.handled.isEmpty }
    #expect(delegate.lines.last == "handleEvents books background")
    #expect(stage.road.handled == [AppHandledParameters(app: "reader", session: "books", launch: 2)])
  }

  @Test func theSameWakeIsHandledOnce() async {
    let stage = Stage(launch: 4, session: "books")
    let delegate = DiaryDelegate()
    delegate.callsHandler = false
    stage.application.delegate = delegate
    stage.application.launch()
    stage.road.wake(session: "books", launch: 4)
    stage.road.wake(session: "books", launch: 5)
    await stage.settle { delegate.handlers.count == 2 }
    #expect(delegate.lines.filter { $0.hasPrefix("handleEvents") }.count == 2)
  }

  @Test func itGoesToTheBackgroundAndComesBack() {
    let stage = Stage()
    let delegate = DiaryDelegate()
    stage.application.delegate = delegate
    stage.application.launch()
    delegate.lines = []
    stage.application.moveToBackground()
    stage.application.moveToBackground()
    stage.application.moveToForeground()
    #expect(
      delegate.lines == [
        "willResignActive active", "didEnterBackground background", "willEnterForeground background",
        "didBecomeActive active",
      ])
    #expect(
      stage.road.requests.suffix(2) == [
        .appState(AppStateParameters(app: "reader", state: "background")),
        .appState(AppStateParameters(app: "reader", state: "foreground")),
      ])
  }

  @Test func observersHearToo() {
    let stage = Stage()
    let names = [
      UIApplication.didFinishLaunchingNotification, UIApplication.didBecomeActiveNotification,
      UIApplication.willResignActiveNotification, UIApplication.didEnterBackgroundNotification,
      UIApplication.willEnterForegroundNotification,
    ]
    let heard = Heard()
    let tokens = names.map { name in
      NotificationCenter.default.addObserver(forName: name, object: stage.application, queue: nil) { note in
        heard.names.append(note.name.rawValue)
      }
    }
    stage.application.launch()
    stage.application.moveToBackground()
    stage.application.moveToForeground()
    for token in tokens { NotificationCenter.default.removeObserver(token) }
    #expect(
      heard.names == [
        "UIApplicationDidFinishLaunchingNotification", "UIApplicationDidBecomeActiveNotification",
        "UIApplicationWillResignActiveNotification", "UIApplicationDidEnterBackgroundNotification",
        "UIApplicationWillEnterForegroundNotification", "UIApplicationDidBecomeActiveNotification",
      ])
  }

  @Test func afterAReconnectTheDaemonKnowsAgain() async {
    let stage = Stage(launch: 4, session: "books")
    let delegate = DiaryDelegate()
    delegate.callsHandler = false
    stage.application.delegate = delegate
    stage.application.launch()
    stage.road.reconnect()
    await stage.settle { stage.road.requests.count == 2 }
    #expect(
      stage.road.requests.last == .appAttach(AppAttachParameters(app: "reader", state: "background", launch: 4)))
    delegate.handlers[0]()
    await stage.settle { !stage.road.handled.isEmpty }
    stage.road.reconnect()
    await stage.settle { stage.road.requests.count == 4 }
    // The launch is over; the process is just there.
    #expect(stage.road.requests.last == .appAttach(AppAttachParameters(app: "reader", state: "background")))
  }

  @Test func withoutADaemonTheAppRunsAllTheSame() {
    let stage = Stage(road: ScriptedRoad(refusing: .daemonUnavailable("no daemon answers")))
    let delegate = DiaryDelegate()
    stage.application.delegate = delegate
    stage.application.launch()
    #expect(delegate.lines.last == "didBecomeActive active")
  }

  @Test func theAsyncFormReturnsAndTheDaemonHears() async {
    final class AsyncDelegate: NSObject, UIApplicationDelegate {
      var sessions: [String] = []
      func application(_ application: UIApplication, handleEventsForBackgroundURLSession identifier: String) async {
        sessions.append(identifier)
      }
    }
    let stage = Stage(launch: 9, session: "books")
    let delegate = AsyncDelegate()
    stage.application.delegate = delegate
    stage.application.launch()
    await stage.settle { !stage.road.handled.isEmpty }
    #expect(delegate.sessions == ["books"])
    #expect(stage.road.handled.map(\.launch) == [9])
  }

  /// Foundation's NSObject has no required initializer on Linux, and delegates are made of their class.
  @Test func aDelegateIsMadeOfItsClass() {
    class Plain: NSObject {
      var words = ["a", "b"]
    }
    class Derived: Plain {
      var number = 7
      override init() {
        super.init()
        words.append("c")
      }
    }
    class Responder: UIResponder {
      var number = 8
    }
    let derived = Instantiation.object(of: Derived.self) as? Derived
    #expect(derived?.number == 7 && derived?.words == ["a", "b", "c"])
    #expect((Instantiation.object(of: Plain.self) as? Plain)?.words == ["a", "b"])
    #expect((Instantiation.object(of: Responder.self) as? Responder)?.number == 8)
  }

  @Test func aHostileEnvironmentIsNoLaunch() {
    #expect(LaunchSurroundings(environment: ["FERRY_LAUNCH": "many"]).launch == nil)
    #expect(LaunchSurroundings(environment: ["FERRY_LAUNCH": "3", "FERRY_LAUNCH_SESSION": ""]).session == nil)
  }
}

private final class Heard: @unchecked Sendable {
  // Notifications are posted on the main actor.
  var names: [String] = []
}
