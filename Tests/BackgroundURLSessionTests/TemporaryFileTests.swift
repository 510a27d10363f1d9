import Foundation
import Glibc
import LoopbackServer
import Testing

@testable import BackgroundURLSession

/// Each in a process of its own, whose temporary folder is looked at.
@Suite("Temporary files of ordinary sessions", .timeLimit(.minutes(1)))
struct TemporaryFileTests {
  private let folder = FileManager.default.temporaryDirectory
    .appendingPathComponent("ferry-t\(UInt32.random(in: 0 ... .max))")

  private func left() -> [String] {
    defer { try? FileManager.default.removeItem(at: folder) }
    return (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? ["the folder is gone"]
  }

  private static func use(_ folder: String) throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    unsafe setenv("TMPDIR", folder, 1)
  }

  private static func contents(_ folder: String) -> [String] {
    (FileManager.default.enumerator(atPath: folder)?.allObjects ?? []).map { "\($0)" }
  }

  /// A download of which some bytes came, and no more will.
  private static func stalled(_ server: LocalServer) async -> URLSessionDownloadTask {
    let received = Gate()
    let recorder = Recorder { line in
      if line.hasPrefix("wrote") { received.open() }
    }
    let session = URLSession(configuration: .ephemeral, delegate: recorder, delegateQueue: nil)
    let task = session.downloadTask(with: request(server, "/stalled"))
    task.resume()
    _ = await received.wait(seconds: 30)
    return task
  }

  private static func server() throws -> LocalServer {
    try LocalServer.start { request in
      switch request.path {
      case "/stalled": .generated(length: 1_000_000).etag("\"a\"").stall(afterBytes: 300_000)
      case "/cut": .generated(length: 1_000_000).cut(afterBytes: 300_000)
      default: .generated(length: 1_000_000)
      }
    }
  }

  @Test("nothing stays of downloads that were handed over, were cancelled, or failed")
  func whileTheProcessLives() async throws {
    await #expect(processExitsWith: .success) { [folder = folder.path as String] in
      try TemporaryFileTests.use(folder)
      let server = try TemporaryFileTests.server()
      let session = URLSession(configuration: .ephemeral)
      let task = await TemporaryFileTests.stalled(server)
      #expect(TemporaryFileTests.contents(folder).count == 2, "it is collected here")
      task.cancel()
      await #expect(throws: URLError.self) { try await session.download(for: request(server, "/cut")) }
      let error: (any Error)? = await withCheckedContinuation { continuation in
        session.downloadTask(with: request(server)) { continuation.resume(returning: $2) }.resume()
      }
      #expect(error == nil)
      try await eventually { TemporaryFileTests.contents(folder) == [] }
    }
    #expect(left() == [])
  }

  @Test("what is kept for resume data, and what is on its way, goes with the process")
  func atItsEnd() async throws {
    await #expect(processExitsWith: .success) { [folder = folder.path as String] in
      try TemporaryFileTests.use(folder)
      let server = try TemporaryFileTests.server()
      let kept = await TemporaryFileTests.stalled(server)
      #expect(await kept.cancelByProducingResumeData() != nil)
      _ = await TemporaryFileTests.stalled(server)
      #expect(TemporaryFileTests.contents(folder).count == 3)
      exit(0)
    }
    #expect(left() == [])
  }
}
