import Foundation
import Testing
import WireProtocol

/// The reader of frequent messages must read what the general decoder reads, and accept nothing else.
@Suite struct QuickReadingTests {
  static let requests: [String] = [
    #"{"jsonrpc":"2.0","id":5,"method":"delivery.acknowledge","params":{"session":3,"numbers":[9223372036854775807]}}"#,
    #"{"jsonrpc": "2.0", "id": null, "method": "delivery.acknowledge", "params": {"numbers": [], "session": -3}}"#,
    #"{"method":"task.enqueue","params":{"session":1,"tasks":[{"kind":"download","url":"http://a/\u0041\/\"\\","#
      + #""destination":"/tmp/ü","collision":null,"headers":[["A","b"],["C",""]],"priority":0.25,"key":"k","#
      + #""isSuspended":true,"earliestBeginMilliseconds":17},{"url":"u","kind":"download"}]},"jsonrpc":"2.0","id":1}"#,
    #"{"jsonrpc":"2.0","id":1,"method":"task.enqueue","params":{"session":1,"tasks":[{"kind":"download","url":"u","#
      + #""destination":"/tmp/a\nb","priority":1,"sha256":"ab","statusRule":"any","method":"GET"}]}}"#,
  ]

  static let messages: [String] = [
    #"{"jsonrpc":"2.0","id":5,"result":{}}"#,
    #"{"result": {}, "id": 6, "jsonrpc": "2.0"}"#,
    #"{"jsonrpc":"2.0","method":"task.progress","params":{"id":1,"received":10,"expected":20,"sent":0}}"#,
    #"{"jsonrpc":"2.0","method":"delivery","params":{"session":1,"number":8,"kind":"finishEvents"}}"#,
    #"{"jsonrpc":"2.0","method":"delivery","params":{"session":1,"number":7,"kind":"completion","task":{"id":9,"#
      + #""session":"s","app":"a","sessionID":1,"number":4,"kind":"download","state":"succeeded","method":"GET","#
      + #""url":"http://a/","received":5,"expected":5,"sent":0,"attempts":1,"priority":0.5,"createdMilliseconds":3,"#
      + #""file":"/f","response":{"status":200,"headers":[["ETag","\"x\""]],"url":"http://a/","httpVersion":"1.1"}}}}"#,
  ]

  private func read(_ line: [UInt8], general: Bool) -> String {
    do throws(WireCoding.RejectedRequest) {
      let incoming = general ? try WireCoding.decodeRequest(Data(line)) : try WireCoding.decodeRequest(line[...])
      return "\(incoming.id ?? -1) \(incoming.request)"
    } catch {
      return "refused \(error.error)"
    }
  }

  private func hear(_ line: [UInt8], general: Bool) -> String {
    do throws(WireError) {
      switch general ? try WireCoding.decodeMessage(Data(line)) : try WireCoding.decodeMessage(line[...]) {
      case .notification(let notification): return "\(notification)"
      case .result(let id, let line):
        return "\(id) \((try? WireCoding.decodeResult(EmptyResult.self, line)).map { "\($0)" } ?? "other")"
      case .failure(let id, let error): return "\(id ?? -1) \(error)"
      case .unknownNotification(let method): return method
      }
    } catch {
      return "refused \(error)"
    }
  }

  /// Each line, and each with one byte changed, left out or doubled, means the same to both.
  private func compare(_ line: String, stride step: Int = 1, _ read: ([UInt8], Bool) -> String) {
    let bytes = Array(line.utf8)
    #expect(read(bytes, false) == read(bytes, true))
    for index in stride(from: 0, to: bytes.count, by: step) {
      for replacement: UInt8 in [0x00, 0x20, 0x22, 0x2D, 0x2E, 0x30, 0x39, 0x5C, 0x5D, 0x65, 0x6E, 0x7B, 0x7D, 0xFF] {
        var damaged = bytes
        damaged[index] = replacement
        #expect(read(damaged, false) == read(damaged, true), "\(String(decoding: damaged, as: UTF8.self))")
      }
      var shorter = bytes
      shorter.remove(at: index)
      #expect(read(shorter, false) == read(shorter, true), "\(String(decoding: shorter, as: UTF8.self))")
      var longer = bytes
      longer.insert(bytes[index], at: index)
      #expect(read(longer, false) == read(longer, true), "\(String(decoding: longer, as: UTF8.self))")
    }
  }

  @Test(arguments: requests) func requestsMeanTheSame(_ line: String) { compare(line) { read($0, general: $1) } }
  @Test(arguments: messages) func messagesMeanTheSame(_ line: String) { compare(line) { hear($0, general: $1) } }

  @Test func theFrequentOnesAreReadQuickly() throws {
    for line in Self.messages { #expect(WireCoding.quickMessage(Array(line.utf8)[...]) != nil, "\(line)") }
    // The third has an escape by number and its method behind its parameters or before: the general decoder's.
    for index in [0, 1, 3] { #expect(WireCoding.quickRequest(Array(Self.requests[index].utf8)[...]) != nil) }
    let acknowledgement = ClientRequest.deliveryAcknowledge(DeliveryAcknowledgeParameters(session: 1, numbers: [4]))
    let line = [UInt8](WireCoding.encodeRequest(id: 3, acknowledgement).dropLast())
    #expect(WireCoding.quickRequest(line[...])?.request == acknowledgement)
    let done = [UInt8](WireCoding.encodeResult(id: 3, EmptyResult()).dropLast())
    #expect(WireCoding.quickMessage(done[...]) != nil)
  }

  /// What is sent thousands of times a second is read quickly, whatever its members are: a member that the quick reader
  /// does not know sends every message that has it to the general decoder, which takes five times as long.
  @Test func everyMemberOfAResultAndOfATaskIsReadQuickly() throws {
    var snapshot = Samples.snapshot
    for member in Mirror(reflecting: snapshot).children {
      #expect("\(member.value)" != "nil", "the sample lacks \(member.label ?? "")")
    }
    snapshot.blockers = nil
    snapshot.question = nil
    for seconds in [0.00005, 1e-06, 12_345_678.9] {
      snapshot.metrics?.transactions[0].domainLookupEndSeconds = seconds
      let notice = DaemonNotification.delivery(
        DeliveryNotice(session: 1, number: 2, kind: "completion", task: snapshot))
      let line = [UInt8](WireCoding.encodeNotification(notice).dropLast())
      guard case .notification(let read)? = WireCoding.quickMessage(line[...]) else {
        Issue.record("not read quickly: \(String(decoding: line, as: UTF8.self))")
        return
      }
      #expect(read == notice)
    }

    var task = Samples.specification
    for member in Mirror(reflecting: task).children {
      #expect("\(member.value)" != "nil", "the sample lacks \(member.label ?? "")")
    }
    // An escape by number is the general decoder's.
    task.description = "line\nbreak\ttab \"quoted\" ü"
    task.tls = nil
    task.credential = nil
    task.proxyCredential = nil
    let batch = TaskEnqueueParameters(session: 1, tasks: [task, Samples.bareSpecification])
    let request = ClientRequest.taskEnqueue(batch)
    let line = [UInt8](WireCoding.encodeRequest(id: 3, request).dropLast())
    #expect(WireCoding.quickRequest(line[...])?.request == request)
  }

  @Test func aWholeResultDamagedMeansTheSame() {
    var snapshot = Samples.snapshot
    snapshot.blockers = nil
    snapshot.question = nil
    snapshot.metrics?.transactions.removeLast()
    let notice = DaemonNotification.taskState(TaskStateNotice(task: snapshot))
    compare(String(decoding: WireCoding.encodeNotification(notice).dropLast(), as: UTF8.self), stride: 41) {
      hear($0, general: $1)
    }
  }

  static let fractions =
    ["1e-05", "5e-324", "1e-400", "-1e5", "1e+22", "123456789.123456789", "1e400", "1e", "1e+", "0.0", "-0", "-0.0"]
    + ["0e5", "0.5e3", "1.e3", "1E5", "9007199254740993", "0.1e-7"]
    + ["1", ""].map { "0." + String(repeating: "0", count: 400) + $0 }

  @Test(arguments: fractions)
  func fractionsMeanTheSame(_ number: String) {
    let task = #"{"kind":"download","url":"u","priority":\#(number)}"#
    let line = Array(
      #"{"jsonrpc":"2.0","id":1,"method":"task.enqueue","params":{"session":1,"tasks":[\#(task)]}}"#.utf8)
    #expect(read(line, general: false) == read(line, general: true))
  }

  @Test(arguments: ["", "null,", "1.5", "1e3", "01", "-0", "9223372036854775808", "\"1\"", "1 2"])
  func oddNumbersAreLeftToTheGeneralDecoder(_ number: String) {
    let parameters = #"{"session":\#(number),"numbers":[1]}"#
    let line = Array(#"{"jsonrpc":"2.0","id":1,"method":"delivery.acknowledge","params":\#(parameters)}"#.utf8)
    #expect(WireCoding.quickRequest(line[...]) == nil)
    #expect(read(line, general: false) == read(line, general: true))
  }
}
