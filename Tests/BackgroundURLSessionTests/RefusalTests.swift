import Foundation
import Testing

@testable import BackgroundURLSession

private func text(_ result: ExitTest.Result?) -> String {
  String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
}

/// What Apple's background sessions refuse with an exception ends the program here, with the same words.
@Suite("What background sessions refuse", .timeLimit(.minutes(2)))
struct RefusalTests {
  static let completionText =
    "Completion handler blocks are not supported in background sessions. Use a delegate instead."

  @Test("completion handlers")
  func completionHandlers() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let session = Stage().session(nil)
      _ = session.dataTask(with: URL(string: "http://host.test/")!) { _, _, _ in }
    }
    #expect(text(result).contains(Self.completionText))
  }

  @Test("async methods")
  func asyncMethods() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let session = Stage().session(nil)
      _ = try await session.download(from: URL(string: "http://host.test/")!)
    }
    #expect(text(result).contains(Self.completionText))
  }

  @Test("uploads from memory")
  func uploadFromData() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let request = URLRequest(url: URL(string: "http://host.test/")!)
      _ = Stage().session(nil).uploadTask(with: request, from: Data())
    }
    #expect(text(result).contains("Upload tasks from NSData are not supported in background sessions."))
  }

  @Test("uploads from streams")
  func uploadFromStream() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let request = URLRequest(url: URL(string: "http://host.test/")!)
      _ = Stage().session(nil).uploadTask(withStreamedRequest: request)
    }
    #expect(text(result).contains("Upload tasks from streams are not supported in background sessions."))
  }

  @Test("uploads of files that are not there")
  func missingFile() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let request = URLRequest(url: URL(string: "http://host.test/")!)
      _ = Stage().session(nil).uploadTask(with: request, fromFile: URL(fileURLWithPath: "/no/such/file"))
    }
    #expect(text(result).contains("Cannot read file at file:///no/such/file"))
  }

  @Test("tasks of an invalidated session")
  func invalidated() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let session = Stage().session(nil)
      session.finishTasksAndInvalidate()
      _ = session.downloadTask(with: URL(string: "http://host.test/")!)
    }
    #expect(text(result).contains("Attempted to create a task in a session that has been invalidated"))
  }

  @Test("an empty identifier")
  func emptyIdentifier() async throws {
    let result = try await #require(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      _ = URLSessionConfiguration.background(withIdentifier: "")
    }
    #expect(text(result).contains("identifier"))
  }

  @Test("a second object of one identifier is logged in Apple's words")
  func secondObject() async throws {
    let result = try await #require(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let stage = Stage()
      _ = stage.session(nil, identifier: "twice")
      _ = stage.session(nil, identifier: "twice")
    }
    #expect(text(result).contains("A background URLSession with identifier twice already exists!"))
  }
}
