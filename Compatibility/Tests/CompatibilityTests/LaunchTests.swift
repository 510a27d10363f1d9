import Foundation
import LoopbackServer
import Testing

/// Apps whose process is gone are launched once, collect everything, and are left alone.
@Suite(.serialized, .timeLimit(.minutes(2))) struct LaunchTests {
  private func withDesk<R>(_ body: (Desk) async throws -> R) async throws -> R {
    let desk = try Desk()
    defer { desk.clear() }
    return try await body(desk)
  }

  @Test func aUIKitAppIsLaunchedToCollect() async throws {
    let go = Gate()
    let server = try LocalServer.start { _ in .generated(length: 50_000, seed: 5).hold(until: go) }
    defer { server.stop() }
    try await withDesk { desk in
      try ["/north", "/south", "/west"].map(server.url).joined(separator: "\n")
        .write(to: desk.caches.appendingPathComponent("packs.txt"), atomically: true, encoding: .utf8)
      let app = try desk.start("MapPacks")
      try await desk.wait { desk.lines(".cache/diary.txt").contains("asked for west") }
      #expect(await server.waitForRequests(1))
      await app.kill()
      let before = desk.lines(".cache/diary.txt")
      #expect(
        before == [
          "didFinishLaunching foreground", "didBecomeActive", "asked for north", "asked for south", "asked for west",
        ])
      go.open()
      try await desk.wait { desk.lines(".cache/diary.txt").contains("handler") }
      let diary = Array(desk.lines(".cache/diary.txt").dropFirst(before.count))
      #expect(diary.prefix(2) == ["didFinishLaunching background", "handleEvents com.example.maps"])
      #expect(diary.last == "handler")
      for name in ["north", "south", "west"] {
        let file = try #require(diary.firstIndex(of: "file \(name)"))
        #expect(diary.firstIndex(of: "complete \(name) 0") == file + 1)
        #expect(desk.content(".cache/\(name)").count == 50_000)
      }
      #expect(diary.count == 9)
      // It sleeps, and hears of its end.
      let launched = desk.launched
      #expect(launched.count == 1)
      for pid in launched { kill(pid, SIGTERM) }
      try await desk.wait { desk.launched.isEmpty }
      #expect(desk.lines(".cache/diary.txt").last == "willTerminate")
    }
  }

  @Test func aSwiftUIAppIsLaunchedToCollect() async throws {
    let go = Gate()
    let server = try LocalServer.start { _ in .generated(length: 50_000, seed: 5).hold(until: go) }
    defer { server.stop() }
    try await withDesk { desk in
      try ["/news", "/sport"].map(server.url).joined(separator: "\n")
        .write(to: desk.caches.appendingPathComponent("feeds.txt"), atomically: true, encoding: .utf8)
      let app = try desk.start("FeedReader")
      try await desk.wait { desk.lines(".cache/diary.txt").contains("asked for sport") }
      #expect(await server.waitForRequests(1))
      await app.kill()
      let before = desk.lines(".cache/diary.txt")
      #expect(before == ["launched", "phase active", "asked for news", "asked for sport"])
      go.open()
      try await desk.wait { desk.lines(".cache/diary.txt").contains("handled") }
      let diary = Array(desk.lines(".cache/diary.txt").dropFirst(before.count))
      #expect(diary.prefix(2) == ["launched", "background task"])
      #expect(diary.suffix(2) == ["finished events", "handled"])
      #expect(Set(diary).isSuperset(of: ["file news", "file sport", "complete 1 nil", "complete 2 nil"]))
      #expect(desk.launched.count == 1)
    }
  }
}
