import Foundation
import LoopbackServer
import Testing

/// Each program does what its author expects (the head of its source says what), against a real daemon and server.
@Suite(.serialized, .timeLimit(.minutes(1))) struct ProgramTests {
  private func withDesk<R>(_ body: (Desk) async throws -> R) async throws -> R {
    let desk = try Desk()
    defer { desk.clear() }
    return try await body(desk)
  }

  private static let content: @Sendable (Request) -> Response = { request in
    switch request.path {
    case "/missing.mp3": .status(404)
    default: .generated(length: 300_000, seed: UInt64(request.path.utf8.count)).etag("\"1\"")
    }
  }

  private func isWhole(_ bytes: [UInt8], of path: String) -> Bool {
    bytes == GeneratedContent(length: 300_000, seed: UInt64(path.utf8.count)).bytes(0..<300_000)
  }

  @Test func mainActorDelegate() async throws {
    let server = try LocalServer.start(handler: Self.content)
    defer { server.stop() }
    try await withDesk { desk in
      let lines = try await desk.run(
        "PodcastDownloads", desk.home.path, server.url("/a.mp3"), server.url("/bb.mp3"), server.url("/missing.mp3"))
      #expect(lines.count == 4 && lines.last == "all done")
      #expect(lines.contains("a.mp3: status 200, 300000 bytes"))
      #expect(lines.contains("bb.mp3: status 200, 300000 bytes"))
      #expect(lines.contains { $0.hasPrefix("missing.mp3: status 404") })
      #expect(isWhole(desk.content("a.mp3"), of: "/a.mp3") && isWhole(desk.content("bb.mp3"), of: "/bb.mp3"))
    }
  }

  @Test func aToolThatLeavesAndComesBack() async throws {
    let rest = Gate()
    let server = try LocalServer.start { _ in
      .generated(length: 1_000_000, seed: 3).etag("\"1\"").throttled(bytes: 20_000, every: .milliseconds(50))
        .stall(afterBytes: 900_000, until: rest)
    }
    defer { server.stop() }
    try await withDesk { desk in
      #expect(try await desk.run("bgtool", "start", server.url("/file")) == ["started task 1"])
      func received() async throws -> Int? {
        let words = try await desk.run("bgtool", "status").first?.split(separator: " ")
        return words.flatMap { $0.last }.flatMap { Int($0) }
      }
      let first = try #require(try await received())
      var second = first
      while second <= first { second = try #require(try await received()) }
      rest.open()
      let lines = try await desk.run("bgtool", "resume")
      #expect(lines.suffix(4).first == "didFinishDownloadingTo task 1 bytes 1000000")
      #expect(lines.contains("in the daemon's folder: true"))
      #expect(lines.contains { $0.hasPrefix("didCompleteWithError task 1 started by") && $0.hasSuffix("nil") })
      #expect(lines.last == "didFinishEvents")
      #expect(server.requests.count == 1 && server.requests.first?.headers["Range"] == nil)
    }
  }

  @Test func anUploadGoesOnWithoutItsTool() async throws {
    let answer = Gate()
    let server = try LocalServer.start { request in
      .text("\(request.method) \(request.path) \(request.headers["Content-Length"] ?? "")").hold(until: answer)
    }
    defer { server.stop() }
    try await withDesk { desk in
      let file = desk.home.appendingPathComponent("film.mov")
      try Data(count: 5_000_000).write(to: file)
      #expect(try await desk.run("bgtool", "upload", file.path, server.url("/uploads")) == ["started task 1"])
      // The program has ended; its file may go.
      try FileManager.default.removeItem(at: file)
      answer.open()
      let lines = try await desk.run("bgtool", "resume")
      #expect(lines.contains("didReceive POST /uploads 5000000"))
      #expect(lines.contains("didCompleteWithError task 1 upload nil"))
    }
  }

  @Test func singletonWithClosuresByTask() async throws {
    let server = try LocalServer.start { request in
      request.path == "/never"
        ? .text("").hold(until: Gate()) : .generated(length: 1000 * request.path.utf8.count, seed: 1)
    }
    defer { server.stop() }
    try await withDesk { desk in
      let lines = try await desk.run(
        "DocumentFetcher", server.url("/a"), server.url("/bb"), server.url("/ccc"), server.url("/never"))
      #expect(lines == ["a: 2000 bytes", "bb: 3000 bytes", "ccc: 4000 bytes", "never: error -999"])
      #expect(server.requests.allSatisfy { $0.headers["X-Client"] == "DocumentFetcher" })
    }
  }

  @Test func severalSessionsByIdentifier() async throws {
    let server = try LocalServer.start(handler: Self.content)
    defer { server.stop() }
    try await withDesk { desk in
      let lines = try await desk.run("MediaSync", server.url("/photo.jpg"), server.url("/song.mp3"))
      for line in [
        "photos file of task 1", "photos completed task 1 true", "photos invalid true", "music file of task 1",
        "music completed task 1 true", "music finished events", "music tasks left: 0",
      ] { #expect(lines.contains(line), "\(line) is missing in \(lines)") }
    }
  }

  @Test func actorWithAStream() async throws {
    let server = try LocalServer.start(handler: Self.content)
    defer { server.stop() }
    try await withDesk { desk in
      let lines = try await desk.run("UpdateFeed", server.url("/one"), server.url("/three"))
      #expect(
        lines == [
          "task 1", "task 2", "task 1 ended well at 1.0", "task 1 file update-1", "task 2 ended well at 1.0",
          "task 2 file update-2", "the stream has ended",
        ])
      #expect(isWhole(desk.content("update-1"), of: "/one") && isWhole(desk.content("update-2"), of: "/three"))
    }
  }

  @Test func uploadQueueThatTriesAgain() async throws {
    let server = try LocalServer.start { request in .text("stored \(request.path)") }
    defer { server.stop() }
    try await withDesk { desk in
      var files: [String] = []
      for (index, name) in ["first.jpg", "interrupted.jpg", "last.jpg"].enumerated() {
        let file = desk.home.appendingPathComponent(name)
        try Data(GeneratedContent(length: 200_000, seed: UInt64(index)).bytes(0..<200_000)).write(to: file)
        files.append(file.path)
      }
      let lines = try await desk.run("PhotoUploader", server.url("/photos"), files[0], files[1], files[2])
      #expect(
        lines == [
          "first.jpg: status 200, sent 200000, retries 0, answer stored /photos/first.jpg",
          "interrupted.jpg: status 200, sent 200000, retries 1, answer stored /photos/interrupted.jpg",
          "last.jpg: status 200, sent 200000, retries 0, answer stored /photos/last.jpg",
        ])
      for (index, name) in ["first.jpg", "interrupted.jpg", "last.jpg"].enumerated() {
        let whole = GeneratedContent(length: 200_000, seed: UInt64(index)).bytes(0..<200_000)
        let stored = server.requests.last { $0.path == "/photos/\(name)" }
        #expect(stored?.body == whole && stored?.method == "PUT")
        #expect(stored?.headers["Content-Type"] == "image/jpeg")
      }
    }
  }

  @Test func aCertificateThatCameWithTheApp() async throws {
    try await withDesk { desk in
      try Data(count: 3000).write(to: desk.home.appendingPathComponent("hours.json"))
      let own = try SignedServer(desk, "own")
      defer { own.stop() }
      let strange = try SignedServer(desk, "strange")
      defer { strange.stop() }
      let lines = try await desk.run(
        "HomeServer", own.certificate, own.url("hours.json"), strange.url("hours.json?strange"))
      #expect(
        lines == [
          "hours.json: 3000 bytes", "hours.json: error -999", "hours.json: downloaded 3000 bytes",
          "hours.json: error -999",
        ])
    }
  }
}
