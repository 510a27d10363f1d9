import FoundationEssentials
import Testing
import WireProtocol

/// Lines that no well-meaning peer sends: each is refused with a reason, none traps.
@Suite struct HostileLineTests {
  struct Hostile: Sendable, CustomTestStringConvertible {
    var name: String
    var bytes: [UInt8]
    var expected: WireError.Name
    /// Whether the id 7 of the line must be found for the reply.
    var hasID = false
    var testDescription: String { name }

    init(_ name: String, _ text: String, _ expected: WireError.Name, id: Bool = false) {
      self.name = name
      bytes = Array(text.utf8)
      self.expected = expected
      hasID = id
    }
    init(_ name: String, bytes: [UInt8], _ expected: WireError.Name, id: Bool = false) {
      self.name = name
      self.bytes = bytes
      self.expected = expected
      hasID = id
    }
  }

  private static func request(_ method: String, _ params: String) -> String {
    #"{"jsonrpc":"2.0","id":7,"method":"\#(method)","params":\#(params)}"#
  }

  /// A text or number that breaks JSON's rules is found when its member is read, so that the reply has the id; a line
  /// whose structure is broken is no message at all.
  static let lines: [Hostile] = [
    Hostile("empty", "", .parseError),
    Hostile("space", "   ", .parseError),
    Hostile("words", "GET / HTTP/1.1", .parseError),
    Hostile("half an object", #"{"jsonrpc":"2.0","id":7"#, .parseError),
    Hostile("two objects", #"{"jsonrpc":"2.0"}{"jsonrpc":"2.0"}"#, .parseError),
    Hostile("an array", "[]", .parseError),
    Hostile("a number", "1", .parseError),
    Hostile("null", "null", .parseError),
    Hostile("a NUL byte", bytes: [0], .parseError),
    Hostile("bytes that are no UTF-8", bytes: [0xFF, 0xFE, 0x80], .parseError),
    Hostile("no version", #"{"id":7,"method":"daemon.status"}"#, .invalidRequest, id: true),
    Hostile("another version", #"{"jsonrpc":"1.0","id":7,"method":"daemon.status"}"#, .invalidRequest, id: true),
    Hostile("no method", #"{"jsonrpc":"2.0","id":7}"#, .invalidRequest, id: true),
    Hostile("a method that is a number", #"{"jsonrpc":"2.0","id":7,"method":1}"#, .invalidRequest, id: true),
    Hostile("an unknown method", request("task.sing", "{}"), .methodNotFound, id: true),
    Hostile("a very long method", request(String(repeating: "m", count: 100_000), "{}"), .methodNotFound, id: true),
    Hostile("no params", #"{"jsonrpc":"2.0","id":7,"method":"task.show"}"#, .invalidParameters, id: true),
    Hostile("params that are a text", request("task.show", "\"x\""), .invalidParameters, id: true),
    Hostile("params that are an array", request("task.show", "[1]"), .invalidParameters, id: true),
    Hostile("params that are null", request("task.show", "null"), .invalidParameters, id: true),
    Hostile("a missing member", request("task.show", "{}"), .invalidParameters, id: true),
    Hostile("a member of another type", request("task.show", #"{"id":"1"}"#), .invalidParameters, id: true),
    Hostile("a fraction", request("task.show", #"{"id":1.5}"#), .invalidParameters, id: true),
    Hostile(
      "a number beyond 64 bits", request("task.show", #"{"id":9223372036854775808}"#), .invalidParameters, id: true),
    Hostile("a huge exponent", request("task.show", #"{"id":1e999999}"#), .invalidParameters, id: true),
    Hostile(
      "a number of a million digits", request("task.show", #"{"id":\#(String(repeating: "9", count: 1_000_000))}"#),
      .invalidParameters, id: true),
    Hostile("a leading zero", request("task.show", #"{"id":01}"#), .invalidParameters, id: true),
    Hostile("a bare minus", request("task.show", #"{"id":-}"#), .invalidParameters, id: true),
    Hostile("NaN", request("task.show", #"{"id":NaN}"#), .parseError),
    Hostile("an id that is a text", #"{"jsonrpc":"2.0","id":"a","method":"daemon.status"}"#, .invalidParameters),
    Hostile("an id beyond 64 bits", #"{"jsonrpc":"2.0","id":1e99,"method":"daemon.status"}"#, .invalidParameters),
    Hostile(
      "a header of three texts",
      request("task.enqueue", #"{"session":1,"tasks":[{"kind":"download","url":"u","headers":[["a","b","c"]]}]}"#),
      .invalidParameters, id: true),
    Hostile(
      "a header of one text",
      request("task.enqueue", #"{"session":1,"tasks":[{"kind":"download","url":"u","headers":[["a"]]}]}"#),
      .invalidParameters, id: true),
    Hostile("a null in a list", request("task.cancel", #"{"ids":[1,null]}"#), .invalidParameters, id: true),
    Hostile(
      "a lone surrogate", request("task.update", #"{"id":1,"description":"\ud800"}"#), .invalidParameters, id: true),
    Hostile(
      "a reversed pair of surrogates", request("task.update", #"{"id":1,"description":"\udc00\ud800"}"#),
      .invalidParameters, id: true),
    Hostile(
      "an unknown escape", request("task.update", #"{"id":1,"description":"\x41"}"#), .invalidParameters, id: true),
    Hostile(
      "a raw control character", request("task.update", "{\"id\":1,\"description\":\"a\u{1}b\"}"), .invalidParameters,
      id: true),
    Hostile(
      "half a UTF-8 character in a text",
      bytes: Array(#"{"jsonrpc":"2.0","id":7,"method":"task.update","params":{"id":1,"description":""#.utf8)
        + [0xE2, 0x82] + Array(#""}}"#.utf8), .invalidParameters, id: true),
    Hostile(
      "an overlong UTF-8 slash",
      bytes: Array(#"{"jsonrpc":"2.0","id":7,"method":"task.update","params":{"id":1,"description":""#.utf8)
        + [0xC0, 0xAF] + Array(#""}}"#.utf8), .invalidParameters, id: true),
    Hostile("arrays 100,000 deep", String(repeating: "[", count: 100_000), .parseError),
    Hostile("objects 100,000 deep", String(repeating: #"{"a":"#, count: 100_000), .parseError),
    Hostile(
      "closed arrays 100,000 deep in params",
      request("task.show", String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)),
      .parseError),
    Hostile(
      "a text that never ends", #"{"jsonrpc":"2.0","id":7,"method":"# + "\"" + String(repeating: "x", count: 1_000_000),
      .parseError),
  ]

  @Test(arguments: lines)
  func isRefusedWithAReason(_ hostile: Hostile) throws {
    let rejected = #expect(throws: WireCoding.RejectedRequest.self) {
      try WireCoding.decodeRequest(Data(hostile.bytes))
    }
    #expect(rejected?.error.name == hostile.expected, "\(String(describing: rejected?.error))")
    #expect(rejected?.id == (hostile.hasID ? 7 : nil))
    #expect((rejected?.error.message.utf8.count ?? 0) < 500, "the reply must not repeat what the peer sent")
  }

  @Test(arguments: lines)
  func asAMessageOfTheDaemonItDoesNoHarm(_ hostile: Hostile) {
    // Some are a valid message in this direction; those that are not are errors, not traps.
    _ = try? WireCoding.decodeMessage(Data(hostile.bytes))
    _ = try? WireCoding.decodeResult(TaskShowResult.self, Data(hostile.bytes))
  }

  @Test func refusalsNeverRepeatAValue() throws {
    let secret = "hunter2hunter2"
    for line in [
      #"{"jsonrpc":"2.0","id":7,"method":"task.show","params":{"id":"\#(secret)"}}"#,
      Self.request(
        "task.enqueue",
        #"{"session":1,"tasks":[{"kind":"download","url":"u","headers":[["Authorization","\#(secret)",1]]}]}"#),
    ] {
      let rejected = #expect(throws: WireCoding.RejectedRequest.self) { try WireCoding.decodeRequest(Data(line.utf8)) }
      #expect(rejected?.error.message.contains(secret) == false)
    }
  }

  @Test func aRepeatedMemberIsTakenOnce() throws {
    // RFC 8259 section 4 leaves the meaning open; what matters is that both ends of us see one value, and no trap.
    let line = Data(#"{"jsonrpc":"2.0","id":7,"method":"task.show","params":{"id":1,"id":2}}"#.utf8)
    guard case .taskShow(let parameters) = try WireCoding.decodeRequest(line).request else {
      Issue.record("another method")
      return
    }
    #expect([1, 2].contains(parameters.id))
  }

  /// Every prefix of a good line, and every line with one byte changed.
  @Test(arguments: [ClientRequest.Name.taskEnqueue, .sessionOpen])
  func damagedLinesAreRefusedOrRead(_ name: ClientRequest.Name) {
    let line = Array(WireCoding.encodeRequest(id: 7, Samples.request(name)).dropLast())
    for length in 0..<line.count {
      #expect(throws: WireCoding.RejectedRequest.self) { try WireCoding.decodeRequest(Data(line.prefix(length))) }
    }
    for index in line.indices {
      for replacement: UInt8 in [0x00, 0x22, 0x5C, 0x7B, 0x5D, 0x39, 0xFF] {
        var damaged = line
        damaged[index] = replacement
        _ = try? WireCoding.decodeRequest(Data(damaged))
      }
    }
  }
}
