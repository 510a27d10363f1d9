import FoundationEssentials
import Testing
import WireProtocol

@Suite struct RoundTripTests {
  private static func isOneLine(_ line: Data) -> Bool {
    line.last == 0x0A && line.dropLast().allSatisfy { $0 != 0x0A && $0 != 0x0D }
  }

  @Test(arguments: ClientRequest.Name.allCases)
  func aRequestArrivesAsItWasSent(_ name: ClientRequest.Name) throws {
    let request = Samples.request(name)
    #expect(request.name == name)
    let line = WireCoding.encodeRequest(id: 42, request)
    #expect(Self.isOneLine(line))
    let incoming = try WireCoding.decodeRequest(line)
    #expect(incoming.id == 42)
    #expect(incoming.request == request)
    #expect(try WireCoding.decodeRequest(WireCoding.encodeRequest(id: nil, request)).id == nil)
  }

  @Test(arguments: DaemonNotification.Name.allCases)
  func aNotificationArrivesAsItWasSent(_ name: DaemonNotification.Name) throws {
    let notification = Samples.notification(name)
    #expect(notification.name == name)
    let line = WireCoding.encodeNotification(notification)
    #expect(Self.isOneLine(line))
    guard case .notification(let arrived) = try WireCoding.decodeMessage(line) else {
      Issue.record("no notification")
      return
    }
    #expect(arrived == notification)
  }

  private func roundTrip<Result: Codable & Hashable & Sendable>(_ result: Result) throws {
    let line = WireCoding.encodeResult(id: 7, result)
    #expect(Self.isOneLine(line))
    guard case .result(id: 7, let arrived) = try WireCoding.decodeMessage(line) else {
      Issue.record("no result")
      return
    }
    #expect(try WireCoding.decodeResult(Result.self, arrived) == result)
  }

  @Test func resultsArriveAsTheyWereSent() throws {
    try roundTrip(EmptyResult())
    try roundTrip(HelloResult(version: 1, daemon: "ferryd/0.1", pid: 1, capabilities: ["a"]))
    try roundTrip(SessionOpenResult(session: 1, nextTaskNumber: 2, isNew: true))
    try roundTrip(
      TaskEnqueueResult(tasks: [
        EnqueuedTask(id: 1, number: 2, existed: false, pin: "copy"),
        EnqueuedTask(error: WireError(.invalidURL, "no")),
      ]))
    try roundTrip(TaskListResult(tasks: [Samples.snapshot], next: 9))
    try roundTrip(TaskShowResult(task: Samples.snapshot))
    try roundTrip(TaskIdentifiersResult(ids: [1], unknown: [2]))
    try roundTrip(
      TaskIdentifiersResult(
        ids: [1], unknown: [], kept: [WireKeptPart(id: 1, resumeToken: String(repeating: "a", count: 32), received: 5)])
    )
    try roundTrip(
      DaemonStatusResult(
        pid: 1, version: "0.1", stateDirectory: "/s", socket: "/x", log: "/l", uptimeSeconds: 1, tasks: ["waiting": 2],
        sessions: 3, peers: 4, commits: 5, degraded: "disk", quarantined: ["q"], turnMicroseconds: ["100": 6]))
  }

  @Test(arguments: WireError.Name.allCases)
  func anErrorIsAnObjectWithCodeMessageAndName(_ name: WireError.Name) throws {
    struct Line: Decodable {
      struct Failure: Decodable {
        struct Name: Decodable { var name: String }
        var code: Int
        var message: String
        var data: Name
      }
      var jsonrpc: String
      var id: Int64?
      var error: Failure
    }
    let error = WireError(name, "because \"this\"")
    let line = WireCoding.encodeError(id: 3, error)
    let shape = try JSONDecoder().decode(Line.self, from: line)
    #expect(shape.jsonrpc == "2.0")
    #expect(shape.id == 3)
    #expect(shape.error.code == name.code)
    #expect(shape.error.data.name == name.rawValue)
    guard case .failure(id: 3, let arrived) = try WireCoding.decodeMessage(line) else {
      Issue.record("no failure")
      return
    }
    #expect(arrived == error)
    // The id is there, and null, when it could not be read (JSON-RPC 2.0 section 5).
    #expect(String(decoding: WireCoding.encodeError(id: nil, error), as: UTF8.self).contains("\"id\":null"))
  }

  @Test func errorCodesAreDistinct() {
    #expect(Set(WireError.Name.allCases.map(\.code)).count == WireError.Name.allCases.count)
  }

  @Test func anErrorOfAnotherReleaseIsUnderstoodByItsCode() throws {
    let line = Data(#"{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"m","data":{"name":"later"}}}"#.utf8)
    guard case .failure(_, let error) = try WireCoding.decodeMessage(line) else {
      Issue.record("no failure")
      return
    }
    #expect(error.name == .taskUnknown)
    let unknown = Data(#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#.utf8)
    guard case .failure(_, let other) = try WireCoding.decodeMessage(unknown) else {
      Issue.record("no failure")
      return
    }
    #expect(other == WireError(.internalError, "m"))
  }

  @Test func membersOfALaterReleaseAreIgnored() throws {
    let line = Data(
      #"{"jsonrpc":"2.0","id":1,"method":"task.show","later":[1],"params":{"id":3,"more":{"x":null}}}"#.utf8)
    #expect(try WireCoding.decodeRequest(line).request == .taskShow(TaskShowParameters(id: 3)))
    let notice = Data(#"{"jsonrpc":"2.0","method":"task.sung","params":{}}"#.utf8)
    guard case .unknownNotification(method: "task.sung") = try WireCoding.decodeMessage(notice) else {
      Issue.record("not recognised")
      return
    }
  }

  @Test func aNumberThatJSONCannotWriteIsRefusedWithItsName() throws {
    for number in [Double.nan, .infinity, -.infinity] {
      var task = Samples.bareSpecification
      task.priority = number
      let line = WireCoding.encodeRequest(id: 5, .taskEnqueue(TaskEnqueueParameters(session: 1, tasks: [task])))
      let rejected = #expect(throws: WireCoding.RejectedRequest.self) { try WireCoding.decodeRequest(line) }
      #expect(rejected?.id == 5)
      #expect(rejected?.error.message.contains("priority") == true)
    }
  }

  /// Reported, not asserted: the goal is less than 15 µs a task in a release build.
  @Test func theCostOfALargeBatchIsReported() throws {
    var task = WireTaskSpecification(kind: "download", url: "https://example.org/files/archive-000001.tar.gz")
    task.destination = "/home/user/Downloads/archive-000001.tar.gz"
    task.headers = [WireHeader(name: "User-Agent", value: "test/1")]
    task.key = "2F7F1B1E-96D5-4F0A-8A7E-000000000000"
    task.priority = 0.5
    task.statusRule = "successOnly"
    let request = ClientRequest.taskEnqueue(
      TaskEnqueueParameters(session: 1, tasks: Array(repeating: task, count: 1000)))
    let clock = ContinuousClock()
    var line = Data()
    let encoding = (0..<5).map { _ in clock.measure { line = WireCoding.encodeRequest(id: 1, request) } }.min()
    let decoding = try (0..<5).map { _ in try clock.measure { _ = try WireCoding.decodeRequest(line) } }.min()
    func microseconds(_ duration: Duration?) -> String {
      let tenths = Int(((duration ?? .zero) / .microseconds(1)) / 100)
      return "\(tenths / 10).\(tenths % 10) µs"
    }
    print("a task of a batch of 1,000: \(microseconds(encoding)) to encode, \(microseconds(decoding)) to decode")
    #expect(line.count < WireLimits.messageBytes)
  }
}
