import FoundationEssentials
import TransferCore
import TransferDaemon
import WireProtocol

/// Lines of the protocol: what is read can be written, and means the same again.
enum WireTargets {
  static func request(_ bytes: [UInt8]) throws {
    let incoming: WireCoding.IncomingRequest
    do throws(WireCoding.RejectedRequest) {
      incoming = try WireCoding.decodeRequest(bytes[...])
    } catch {
      try checkRefusal(error)
      return
    }
    let line = WireCoding.encodeRequest(id: incoming.id, incoming.request)
    try require(line.last == 0x0A && line.dropLast().allSatisfy { $0 != 0x0A }, "a request is not one line")
    let again = try WireCoding.decodeRequest(line)
    try require(again.id == incoming.id && again.request == incoming.request, "a request does not survive its coding")
    guard case .taskEnqueue(let parameters) = incoming.request else { return }
    for specification in parameters.tasks.prefix(8) { try IntakeTarget.check(specification) }
  }

  private static func checkRefusal(_ refusal: WireCoding.RejectedRequest) throws {
    try require(refusal.error.message.utf8.count < 1000, "a refusal repeats what the peer sent")
    let line = WireCoding.encodeError(id: refusal.id, refusal.error)
    guard case .failure(let id, let error) = try WireCoding.decodeMessage(line) else {
      throw FuzzFinding("a refusal is not read as one")
    }
    try require(id == refusal.id && error == refusal.error, "a refusal does not survive its coding")
  }

  static func message(_ bytes: [UInt8]) throws {
    let message: WireCoding.IncomingMessage
    do throws(WireError) {
      message = try WireCoding.decodeMessage(Data(bytes))
    } catch {
      try require(error.message.utf8.count < 1000, "an error repeats what the peer sent")
      return
    }
    switch message {
    case .notification(let notification):
      guard case .notification(let again) = try WireCoding.decodeMessage(WireCoding.encodeNotification(notification))
      else { throw FuzzFinding("a notification is not read as one") }
      try require(again == notification, "a notification does not survive its coding")
    case .failure(let id, let error):
      guard case .failure(let againID, let again) = try WireCoding.decodeMessage(WireCoding.encodeError(id: id, error))
      else { throw FuzzFinding("an error is not read as one") }
      try require(againID == id && again == error, "an error does not survive its coding")
    case .result(let id, let line): try result(id, line)
    case .unknownNotification: break
    }
  }

  private static func result(_ id: Int64, _ line: Data) throws {
    try check(HelloResult.self, id, line)
    try check(SessionOpenResult.self, id, line)
    try check(TaskEnqueueResult.self, id, line)
    try check(TaskIdentifiersResult.self, id, line)
    try check(TaskListResult.self, id, line)
    try check(TaskShowResult.self, id, line)
    try check(DaemonStatusResult.self, id, line)
    try check(EmptyResult.self, id, line)
  }

  private static func check<R: Codable & Hashable & Sendable>(_ type: R.Type, _ id: Int64, _ line: Data) throws {
    let result: R
    do throws(WireError) {
      result = try WireCoding.decodeResult(type, line)
    } catch {
      return
    }
    let again = try WireCoding.decodeResult(type, WireCoding.encodeResult(id: id, result))
    try require(again == result, "a \(type) does not survive its coding")
  }
}
