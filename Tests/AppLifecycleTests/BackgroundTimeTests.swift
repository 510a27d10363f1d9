import Foundation
import Synchronization
import Testing

@testable import AppLifecycle

@MainActor @Suite(.timeLimit(.minutes(1))) struct BackgroundTimeTests {
  private static func short(_ reasons: Reasons) -> BackgroundAllowance {
    BackgroundAllowance(
      lasts: .milliseconds(40), warnsAfter: .milliseconds(20), grace: .milliseconds(20), kill: { reasons.add($0) })
  }

  @Test func whoDoesNotEndLosesTheProcess() async {
    let reasons = Reasons()
    let stage = Stage(allowance: Self.short(reasons))
    stage.application.launch()
    var expired = 0
    let task = stage.application.beginBackgroundTask(withName: "save") { expired += 1 }
    #expect(task != .invalid)
    stage.application.moveToBackground()
    await stage.settle { !reasons.all.isEmpty }
    #expect(expired == 1)
    #expect(
      reasons.all == [
        "the time in the background is over and endBackgroundTask was not called for: save"
      ])
  }

  @Test func whoEndsInTheHandlerGoesOn() async {
    let reasons = Reasons()
    let stage = Stage(allowance: Self.short(reasons))
    stage.application.launch()
    let tasks = Tasks()
    for _ in 0..<2 {
      tasks.begun.append(
        stage.application.beginBackgroundTask {
          MainActor.assertIsolated()
          for task in tasks.begun { stage.application.endBackgroundTask(task) }
        })
    }
    #expect(Set(tasks.begun).count == 2)
    stage.application.moveToBackground()
    #expect(stage.application.backgroundTimeRemaining <= 0.04)
    await stage.settle {
      let task = stage.application.beginBackgroundTask()
      stage.application.endBackgroundTask(task)
      return task == .invalid
    }
    // Past the moment in which it would have been ended.
    await withCheckedContinuation { continuation in
      DispatchQueue.main.asyncAfter(deadline: .now() + 0.05) { continuation.resume() }
    }
    #expect(reasons.all.isEmpty)
  }

  @Test func whoComesBackInTimeIsNotWarned() async {
    let reasons = Reasons()
    let stage = Stage(allowance: Self.short(reasons))
    stage.application.launch()
    var expired = 0
    let task = stage.application.beginBackgroundTask { expired += 1 }
    stage.application.moveToBackground()
    stage.application.moveToForeground()
    await withCheckedContinuation { continuation in
      DispatchQueue.main.asyncAfter(deadline: .now() + 0.1) { continuation.resume() }
    }
    #expect(expired == 0 && reasons.all.isEmpty)
    #expect(stage.application.backgroundTimeRemaining == .greatestFiniteMagnitude)
    stage.application.endBackgroundTask(task)
    stage.application.endBackgroundTask(task)
    stage.application.endBackgroundTask(.invalid)
  }

  @Test func anActivityHearsOfItsEnd() async {
    let reasons = Reasons()
    let stage = Stage(allowance: Self.short(reasons))
    stage.application.launch()
    let calls = Reasons()
    let goOn = DispatchSemaphore(value: 0)
    stage.application.leases.perform("index", on: .global()) { isOver in
      calls.add("\(isOver)")
      if isOver { goOn.signal() } else { goOn.wait() }
    }
    stage.application.moveToBackground()
    await stage.settle { calls.all.count == 2 }
    #expect(calls.all == ["false", "true"])
    stage.application.leases.perform("late", on: .global()) { isOver in calls.add("late \(isOver)") }
    await stage.settle { calls.all.count == 3 }
    #expect(calls.all.last == "late true")
  }

  @Test func anyThreadMayBeginAndEnd() async {
    let application = Stage().application
    await withTaskGroup(of: Int.self) { group in
      for _ in 0..<50 {
        group.addTask {
          let task = application.beginBackgroundTask(withName: nil)
          application.endBackgroundTask(task)
          return task.rawValue
        }
      }
      var numbers: Set<Int> = []
      for await number in group { numbers.insert(number) }
      #expect(numbers.count == 50)
    }
  }
}

@MainActor private final class Tasks {
  var begun: [UIBackgroundTaskIdentifier] = []
}

private final class Reasons: Sendable {
  private let reasons = Mutex<[String]>([])
  var all: [String] { reasons.withLock { $0 } }
  func add(_ reason: String) { reasons.withLock { $0.append(reason) } }
}
