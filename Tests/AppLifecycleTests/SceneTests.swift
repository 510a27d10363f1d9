import Foundation
import Synchronization
import Testing
import WireProtocol

@testable import AppLifecycle

/// What the apps below do; they are values that the module makes itself.
@MainActor private enum Diary {
  static var lines: [String] = []
}

private struct PhaseApp: App {
  @Environment(\.scenePhase) private var phase
  @State private var changes = 0

  var body: some Scene {
    WindowGroup {
      NavigationStack {
        List(0..<3, id: \.self) { number in
          Text("Row \(number)").font(.headline)
        }
        if changes > 0 { ProgressView(value: 0.5) } else { EmptyView() }
      }
      .task { Diary.lines.append("drawn") }
    }
    .onChange(of: phase) { old, new in
      changes += 1
      Diary.lines.append("\(old) to \(new)")
    }
    .onChange(of: changes, initial: true) { Diary.lines.append("\(changes) changes") }
  }
}

private struct TaskApp: App {
  var body: some Scene {
    WindowGroup { Text("Nothing") }
      .backgroundTask(.urlSession("books")) { await MainActor.run { Diary.lines.append("books") } }
      .backgroundTask(.urlSession(matching: { $0.hasPrefix("map.") })) { identifier in
        await MainActor.run { Diary.lines.append("matched \(identifier)") }
      }
      .backgroundTask(.appRefresh("refresh")) { await MainActor.run { Diary.lines.append("refresh") } }
  }
}

private struct EndlessApp: App {
  var body: some Scene {
    WindowGroup { EmptyView() }
      .backgroundTask(.urlSession) { _ in
        try? await Task.sleep(for: .seconds(3600))  // sleep: until it is cancelled
        let isCancelled = Task.isCancelled
        await MainActor.run { Diary.lines.append("cancelled \(isCancelled)") }
      }
  }
}

@MainActor @Suite(.serialized, .timeLimit(.minutes(1))) struct SceneTests {
  init() { Diary.lines = [] }

  @Test func anAppFollowsItsPhaseAndDrawsNothing() {
    let stage = Stage()
    let host = SceneHost(PhaseApp())
    stage.application.sceneHost = host
    stage.application.launch()
    stage.application.moveToBackground()
    host.update()
    #expect(
      Diary.lines.filter { $0.contains(" to ") } == [
        "inactive to active", "active to inactive", "inactive to background",
      ])
    #expect(Diary.lines.last == "3 changes")
    #expect(!Diary.lines.contains("drawn"))
  }

  @Test func aBackgroundTaskTakesTheEventsOfItsSession() async {
    let stage = Stage(launch: 1, session: "books")
    let delegate = DiaryDelegate()
    stage.application.delegate = delegate
    stage.application.sceneHost = SceneHost(TaskApp())
    stage.application.launch()
    stage.road.wake(session: "map.north", launch: 2)
    await stage.settle { stage.road.handled.count == 2 }
    #expect(Set(Diary.lines) == ["books", "matched map.north"])
    #expect(Set(stage.road.handled.map(\.launch)) == [1, 2])
    #expect(!delegate.lines.contains { $0.hasPrefix("handleEvents") })
    // What no scene wants is the delegate's.
    stage.road.wake(session: "other", launch: 3)
    await stage.settle { stage.road.handled.count == 3 }
    #expect(delegate.lines.last == "handleEvents other background")
  }

  @Test func aBackgroundTaskThatTakesTooLongIsCancelled() async {
    let stage = Stage(
      launch: 1, session: "books",
      allowance: BackgroundAllowance(lasts: .milliseconds(40), warnsAfter: .milliseconds(20), kill: { _ in }))
    stage.application.sceneHost = SceneHost(EndlessApp())
    stage.application.launch()
    await stage.settle { !stage.road.handled.isEmpty }
    #expect(Diary.lines == ["cancelled true"])
  }

  @Test func aTerminationCancelsBackgroundTasks() async {
    let stage = Stage(launch: 1, session: "books")
    stage.application.sceneHost = SceneHost(EndlessApp())
    stage.application.launch()
    stage.application.terminate()
    await stage.settle { !stage.road.handled.isEmpty }
    #expect(Diary.lines == ["cancelled true"])
  }
}
