import Foundation
import Glibc
import LoopbackServer
import Testing

@testable import BackgroundURLSession

/// A private system bus with NetworkManager's mock (DaemonTests/Fixtures/device_bus.py); it ends with this process.
private final class NetworkBus {
  let address: String
  private let process = Process()
  private let commands = Pipe()
  private let answers = Pipe()

  init() throws {
    let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("DaemonTests/Fixtures/device_bus.py").path
    process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
    process.arguments = [script]
    process.standardInput = commands
    process.standardOutput = answers
    try process.run()
    address = Self.line(answers)
    try tell("start networkmanager")
  }

  private static func line(_ pipe: Pipe) -> String {
    var line = Data()
    while let byte = try? pipe.fileHandleForReading.read(upToCount: 1), let first = byte.first, first != 0x0A {
      line.append(first)
    }
    return String(decoding: line, as: UTF8.self)
  }

  func tell(_ command: String) throws {
    try commands.fileHandleForWriting.write(contentsOf: Data("\(command)\n".utf8))
    try #require(Self.line(answers) == "ok")
  }

  /// 1 yes, 2 no, 3 yes as it guesses.
  func say(metered: Int) throws { try tell("set networkmanager Metered u \(metered)") }

  func end() throws {
    try commands.fileHandleForWriting.close()
    process.waitUntilExit()
  }
}

private final class Waiter: NSObject, URLSessionDataDelegate, Sendable {
  let messages: AsyncStream<String>
  private let continuation: AsyncStream<String>.Continuation

  override init() { (messages, continuation) = AsyncStream.makeStream() }

  func urlSession(_ session: URLSession, taskIsWaitingForConnectivity task: URLSessionTask) {
    continuation.yield("waits")
  }
  func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
    continuation.yield("data")
  }
  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    let error = error as? URLError
    continuation.yield("ends \(error?.code.rawValue ?? 0) \(error?.networkUnavailableReason?.rawValue ?? -1)")
  }

  func next() async -> String? {
    for await message in messages { return message }
    return nil
  }
}

/// Ordinary sessions that must not use some networks, with the real sources: in a process of its own, whose environment
/// names the bus.
@Suite("Networks that ordinary sessions must not use", .serialized, .timeLimit(.minutes(2)))
struct OrdinaryNetworkTests {
  /// The deadline of a child.
  private static let seconds: UInt32 = 60

  private static func bus() throws -> NetworkBus {
    alarm(seconds)
    let bus = try NetworkBus()
    unsafe setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.address, 1)
    return bus
  }

  /// curl takes it for 127.0.0.1; the name is none of this machine itself.
  private static func far(_ server: LocalServer, _ adjust: (inout URLRequest) -> Void = { _ in }) throws -> URLRequest {
    let url = server.url("/").replacingOccurrences(of: "127.0.0.1", with: "127.1")
    var request = URLRequest(url: try #require(URL(string: url)))
    adjust(&request)
    return request
  }

  private static func session(
    _ delegate: Waiter? = nil, _ adjust: (URLSessionConfiguration) -> Void = { _ in }
  ) -> URLSession {
    let configuration = URLSessionConfiguration.ephemeral
    adjust(configuration)
    return URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
  }

  private static func reason(_ session: URLSession, _ request: URLRequest) async -> URLError.NetworkUnavailableReason? {
    do {
      _ = try await session.data(for: request)
    } catch let error as URLError where error.code == .notConnectedToInternet {
      return error.networkUnavailableReason
    } catch {
      Issue.record(error)
    }
    return nil
  }

  private static var threads: Set<String> {
    let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    return Set(
      tasks.compactMap { try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8) }
        .map { $0.trimmingCharacters(in: .newlines) })
  }

  @Test("a task that no network may carry fails and says which network there is")
  func fails() async {
    await #expect(processExitsWith: .success) {
      let bus = try OrdinaryNetworkTests.bus()
      let server = try LocalServer.start { _ in .text("hello") }
      try bus.say(metered: 1)
      // Who forbids nothing pays nothing.
      let plain = OrdinaryNetworkTests.session()
      _ = try await plain.data(for: OrdinaryNetworkTests.far(server))
      #expect(!OrdinaryNetworkTests.threads.contains("ferry-device"))
      let sparing = OrdinaryNetworkTests.session { $0.allowsExpensiveNetworkAccess = false }
      #expect(await OrdinaryNetworkTests.reason(sparing, try OrdinaryNetworkTests.far(server)) == .expensive)
      #expect(OrdinaryNetworkTests.threads.contains("ferry-device"))
      let request = try OrdinaryNetworkTests.far(server) { $0.allowsConstrainedNetworkAccess = false }
      #expect(await OrdinaryNetworkTests.reason(plain, request) == .constrained)
      // This machine itself is no network that anybody pays for.
      let near = URLRequest(url: try #require(URL(string: server.url("/"))))
      _ = try await sparing.data(for: near)
      #expect(server.requestCount == 2)
      try bus.end()
    }
  }

  @Test("a session that waits is told once, and begins when the network allows it")
  func waits() async {
    await #expect(processExitsWith: .success) {
      let bus = try OrdinaryNetworkTests.bus()
      let server = try LocalServer.start { _ in .text("hello") }
      try bus.say(metered: 3)
      let waiter = Waiter()
      let session = OrdinaryNetworkTests.session(waiter) {
        $0.allowsCellularAccess = false
        $0.waitsForConnectivity = true
      }
      session.dataTask(with: try OrdinaryNetworkTests.far(server)).resume()
      #expect(await waiter.next() == "waits")
      #expect(server.requestCount == 0)
      try bus.say(metered: 4)
      #expect(await waiter.next() == "data")
      #expect(await waiter.next() == "ends 0 -1")
      try bus.end()
    }
  }

  @Test("a task that runs when its network becomes expensive fails and says so")
  func becomesExpensive() async {
    await #expect(processExitsWith: .success) {
      let bus = try OrdinaryNetworkTests.bus()
      let gate = Gate()
      let server = try LocalServer.start { _ in .generated(length: 20_000).stall(afterBytes: 10_000, until: gate) }
      try bus.say(metered: 2)
      let waiter = Waiter()
      let session = OrdinaryNetworkTests.session(waiter) { $0.allowsExpensiveNetworkAccess = false }
      session.dataTask(with: try OrdinaryNetworkTests.far(server)).resume()
      #expect(await waiter.next() == "data")
      try bus.say(metered: 1)
      var message = await waiter.next()
      while message == "data" { message = await waiter.next() }
      #expect(message == "ends -1009 1")
      gate.open()
      try bus.end()
    }
  }
}
