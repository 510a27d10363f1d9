import FerryClient

/// `collect APP SESSION COUNT`: a fresh client of the native interface takes COUNT results that wait, acknowledges
/// each, and ends. What the figure "results collected" measures beside the bare protocol.
@main
struct Collect {
  static func main() async throws {
    guard CommandLine.arguments.count == 4, let wanted = Int(CommandLine.arguments[3]) else {
      fatalError("usage: collect APP SESSION COUNT")
    }
    let ferry = Ferry(app: CommandLine.arguments[1])
    let session = try await ferry.session(CommandLine.arguments[2])
    try await withThrowingTaskGroup(of: Void.self) { group in
      var taken = 0
      for await event in session.events {
        guard case .finished(let result) = event else { continue }
        // Acknowledgements overlap, as in a program that hands each result to a task of its own.
        group.addTask { try await result.acknowledge() }
        taken += 1
        if taken == wanted { break }
      }
      try await group.waitForAll()
    }
    session.close()
  }
}
