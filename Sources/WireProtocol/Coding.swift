package import FoundationEssentials

/// Text of JSON-RPC 2.0 messages, one a line (https://www.jsonrpc.org/specification).
package enum WireCoding {
  /// A request as it came: its id (nil for a notification, which is not answered) and what it asks.
  package struct IncomingRequest: Sendable {
    package var id: Int64?
    package var request: ClientRequest
  }

  /// Why a line is not a request; `id` is what could be read of it.
  package struct RejectedRequest: Error, Sendable {
    package var id: Int64?
    package var error: WireError
  }

  package enum IncomingMessage: Sendable {
    case result(id: Int64, line: Data)
    case failure(id: Int64?, WireError)
    case notification(DaemonNotification)
    /// A notification of a later release of this version: to be ignored.
    case unknownNotification(method: String)
  }

  // MARK: The daemon's side

  package static func decodeRequest(_ line: Data) throws(RejectedRequest) -> IncomingRequest {
    let decoder = JSONDecoder()
    do {
      let envelope = try decoder.decode(RequestEnvelope.self, from: line)
      return IncomingRequest(id: envelope.id, request: envelope.request)
    } catch {
      let probe = try? decoder.decode(ProbeEnvelope.self, from: line)
      throw RejectedRequest(id: probe?.id, error: explain(error, probe: probe))
    }
  }

  package static func encodeResult(id: Int64, _ result: some Encodable & Sendable) -> Data {
    Data(line(id: id, result: result))
  }

  package static func encodeError(id: Int64?, _ error: WireError) -> Data {
    Data(line(id: id, error: error))
  }

  package static func encodeNotification(_ notification: DaemonNotification) -> Data {
    Data(line(notification))
  }

  /// One line, its newline included.
  package static func line(id: Int64, result: some Encodable & Sendable) -> [UInt8] {
    guard let result = result as? any LineWritable else { return Array(encode(ResultEnvelope(id: id, result: result))) }
    return line { line in
      line.member("id", id)
      line.member("result", result)
    }
  }

  package static func line(id: Int64?, error: WireError) -> [UInt8] {
    Array(encode(ErrorEnvelope(id: id, error: error)))
  }

  package static func line(_ notification: DaemonNotification) -> [UInt8] {
    line { line in
      line.member("method", notification.name.rawValue)
      line.member("params", notification)
    }
  }

  private static func line(_ members: (inout LineText) -> Void) -> [UInt8] {
    var line = LineText(capacity: 1024)
    line.object { line in
      line.member("jsonrpc", "2.0")
      members(&line)
    }
    line.append("\n")
    return line.bytes
  }

  // MARK: The client's side

  package static func encodeRequest(id: Int64?, _ request: ClientRequest) -> Data {
    if let parameters = request.quickParameters {
      return Data(
        line { line in
          line.member("id", id)
          line.member("method", request.name.rawValue)
          line.name("params")
          parameters.write(to: &line)
        })
    }
    return encode(RequestEnvelope(id: id, request: request))
  }

  /// - Parameter line: one message without its newline.
  package static func decodeMessage(_ line: ArraySlice<UInt8>) throws(WireError) -> IncomingMessage {
    if let message = quickMessage(line) { return message }
    return try decodeMessage(Data(line))
  }

  package static func decodeMessage(_ line: Data) throws(WireError) -> IncomingMessage {
    let decoder = JSONDecoder()
    do {
      switch try decoder.decode(MessageEnvelope.self, from: line) {
      case .failure(let id, let error): return .failure(id: id, error)
      case .notification(let notification): return .notification(notification)
      case .unknownNotification(let method): return .unknownNotification(method: method)
      case .result(let id): return .result(id: id, line: line)
      }
    } catch let error as WireError {
      throw error
    } catch {
      throw WireError(.parseError, "the daemon sent a line that is no message: \(summary(error))")
    }
  }

  package static func decodeResult<Result: Decodable>(_ type: Result.Type, _ line: Data) throws(WireError) -> Result {
    if line == emptyResult, let result = EmptyResult() as? Result { return result }
    do {
      return try JSONDecoder().decode(ResultOnly<Result>.self, from: line).result
    } catch {
      throw WireError(.parseError, "the daemon's reply has not the expected shape: \(summary(error))")
    }
  }

  // MARK: Inside

  private static func encode(_ value: some Encodable) -> Data {
    let encoder = JSONEncoder()
    // A number that JSON cannot write arrives as a text, and is refused there with the member's name.
    encoder.nonConformingFloatEncodingStrategy = .convertToString(
      positiveInfinity: "inf", negativeInfinity: "-inf", nan: "nan")
    // Sorted, a request tells its method before its parameters, as the daemon's quick reader wants it.
    encoder.outputFormatting = [.withoutEscapingSlashes, .sortedKeys]
    do {
      var line = try encoder.encode(value)
      line.append(0x0A)
      return line
    } catch {
      // Nothing of our messages is known to end here.
      return Data("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,\"message\":\"unencodable\"}}\n".utf8)
    }
  }

  private static func explain(_ error: any Error, probe: ProbeEnvelope?) -> WireError {
    guard let probe else { return WireError(.parseError, "the line is no JSON object: \(summary(error))") }
    guard probe.jsonrpc == "2.0" else {
      return WireError(.invalidRequest, "the member \"jsonrpc\" must be \"2.0\"")
    }
    guard let method = probe.method else { return WireError(.invalidRequest, "the member \"method\" is missing") }
    guard ClientRequest.Name(rawValue: method) != nil else {
      return WireError(.methodNotFound, "there is no method \"\(method.prefix(64))\"; see docs/Protocol.md")
    }
    return WireError(.invalidParameters, "\(method): \(summary(error))")
  }

  /// Names the member and what is wrong with it, never its value, which may be a secret.
  static func summary(_ error: any Error) -> String {
    func path(_ context: DecodingError.Context) -> String {
      let path = context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".")
      return path.isEmpty ? "the message" : path
    }
    guard let error = error as? DecodingError else { return "unreadable" }
    switch error {
    case .keyNotFound(let key, let context): return "\(path(context)) lacks \"\(key.stringValue)\""
    case .typeMismatch(_, let context): return "\(path(context)) has the wrong type"
    case .valueNotFound(_, let context): return "\(path(context)) is null"
    case .dataCorrupted(let context): return "\(path(context)) is not valid"
    @unknown default: return "unreadable"
    }
  }
}

// MARK: - Envelopes

private enum EnvelopeKey: String, CodingKey {
  case jsonrpc, id, method, params, result, error
}

private struct ProbeEnvelope: Decodable {
  var jsonrpc: String?
  var id: Int64?
  var method: String?

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: EnvelopeKey.self)
    jsonrpc = try? container.decode(String.self, forKey: .jsonrpc)
    id = try? container.decode(Int64.self, forKey: .id)
    method = try? container.decode(String.self, forKey: .method)
  }
}

/// What the daemon sends. A result is only recognised: what it must look like, the request knows.
private enum MessageEnvelope: Decodable {
  case result(id: Int64)
  case failure(id: Int64?, WireError)
  case notification(DaemonNotification)
  case unknownNotification(method: String)

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: EnvelopeKey.self)
    if let error = try container.decodeIfPresent(ErrorObject.self, forKey: .error) {
      self = .failure(id: try container.decodeIfPresent(Int64.self, forKey: .id), error.wireError)
    } else if let method = try container.decodeIfPresent(String.self, forKey: .method) {
      if let name = DaemonNotification.Name(rawValue: method) {
        self = .notification(try NotificationEnvelope.decode(name, container))
      } else {
        self = .unknownNotification(method: method)
      }
    } else {
      self = .result(id: try container.decode(Int64.self, forKey: .id))
    }
  }
}

private struct ErrorObject: Codable {
  struct Name: Codable { var name: String }
  var code: Int
  var message: String
  var data: Name?

  init(_ error: WireError) {
    code = error.name.code
    message = error.message
    data = Name(name: error.name.rawValue)
  }

  var wireError: WireError {
    let name =
      data.flatMap { WireError.Name(rawValue: $0.name) } ?? WireError.Name.allCases.first { $0.code == code }
    return WireError(name ?? .internalError, message)
  }
}

private struct ResultOnly<Result: Decodable>: Decodable { var result: Result }

private struct ResultEnvelope<Result: Encodable>: Encodable {
  var jsonrpc = "2.0"
  var id: Int64
  var result: Result
}

private struct ErrorEnvelope: Encodable {
  var id: Int64?
  var error: WireError

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: EnvelopeKey.self)
    try container.encode("2.0", forKey: .jsonrpc)
    try container.encode(id, forKey: .id)
    try container.encode(ErrorObject(error), forKey: .error)
  }
}

private struct RequestEnvelope: Codable {
  var id: Int64?
  var request: ClientRequest

  init(id: Int64?, request: ClientRequest) {
    self.id = id
    self.request = request
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: EnvelopeKey.self)
    guard try container.decode(String.self, forKey: .jsonrpc) == "2.0" else {
      throw DecodingError.dataCorruptedError(forKey: .jsonrpc, in: container, debugDescription: "version")
    }
    id = try container.decodeIfPresent(Int64.self, forKey: .id)
    func params<T: Decodable>(_ type: T.Type) throws -> T { try container.decode(type, forKey: .params) }
    func empty() throws -> EmptyParameters {
      try container.decodeIfPresent(EmptyParameters.self, forKey: .params) ?? EmptyParameters()
    }
    request =
      switch try container.decode(ClientRequest.Name.self, forKey: .method) {
      case .hello: .hello(try params(HelloParameters.self))
      case .sessionOpen: .sessionOpen(try params(SessionOpenParameters.self))
      case .sessionClose: .sessionClose(try params(SessionCloseParameters.self))
      case .sessionInvalidate: .sessionInvalidate(try params(SessionInvalidateParameters.self))
      case .taskEnqueue: .taskEnqueue(try params(TaskEnqueueParameters.self))
      case .taskResume: .taskResume(try params(TaskIdentifiersParameters.self))
      case .taskSuspend: .taskSuspend(try params(TaskIdentifiersParameters.self))
      case .taskCancel: .taskCancel(try params(TaskIdentifiersParameters.self))
      case .taskRemove: .taskRemove(try params(TaskIdentifiersParameters.self))
      case .taskUpdate: .taskUpdate(try params(TaskUpdateParameters.self))
      case .taskAnswer: .taskAnswer(try params(TaskAnswerParameters.self))
      case .taskList: .taskList(try params(TaskListParameters.self))
      case .taskShow: .taskShow(try params(TaskShowParameters.self))
      case .taskWatch: .taskWatch(try params(TaskWatchParameters.self))
      case .deliveryAcknowledge: .deliveryAcknowledge(try params(DeliveryAcknowledgeParameters.self))
      case .conditionsShow: .conditionsShow(try empty())
      case .conditionsSet: .conditionsSet(try params(ConditionsSetParameters.self))
      case .conditionsClear:
        .conditionsClear(
          try container.decodeIfPresent(ConditionsClearParameters.self, forKey: .params) ?? ConditionsClearParameters())
      case .daemonStatus: .daemonStatus(try empty())
      case .daemonStop: .daemonStop(try empty())
      case .appRegister: .appRegister(try params(AppRegisterParameters.self))
      case .appList: .appList(try empty())
      case .appShow: .appShow(try params(AppParameters.self))
      case .appRemove: .appRemove(try params(AppParameters.self))
      case .appFront: .appFront(try params(AppParameters.self))
      case .appForceQuit: .appForceQuit(try params(AppParameters.self))
      case .appAttach: .appAttach(try params(AppAttachParameters.self))
      case .appState: .appState(try params(AppStateParameters.self))
      case .appHandled: .appHandled(try params(AppHandledParameters.self))
      case .daemonRestart: .daemonRestart(try empty())
      }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: EnvelopeKey.self)
    try container.encode("2.0", forKey: .jsonrpc)
    try container.encodeIfPresent(id, forKey: .id)
    try container.encode(request.name, forKey: .method)
    switch request {
    case .hello(let parameters): try container.encode(parameters, forKey: .params)
    case .sessionOpen(let parameters): try container.encode(parameters, forKey: .params)
    case .sessionClose(let parameters): try container.encode(parameters, forKey: .params)
    case .sessionInvalidate(let parameters): try container.encode(parameters, forKey: .params)
    case .taskEnqueue(let parameters): try container.encode(parameters, forKey: .params)
    case .taskResume(let parameters), .taskSuspend(let parameters), .taskCancel(let parameters),
      .taskRemove(let parameters):
      try container.encode(parameters, forKey: .params)
    case .taskAnswer(let parameters): try container.encode(parameters, forKey: .params)
    case .taskUpdate(let parameters): try container.encode(parameters, forKey: .params)
    case .taskList(let parameters): try container.encode(parameters, forKey: .params)
    case .taskShow(let parameters): try container.encode(parameters, forKey: .params)
    case .taskWatch(let parameters): try container.encode(parameters, forKey: .params)
    case .deliveryAcknowledge(let parameters): try container.encode(parameters, forKey: .params)
    case .conditionsSet(let parameters): try container.encode(parameters, forKey: .params)
    case .conditionsClear(let parameters): try container.encode(parameters, forKey: .params)
    case .daemonStatus(let parameters), .daemonStop(let parameters), .daemonRestart(let parameters),
      .appList(let parameters), .conditionsShow(let parameters):
      try container.encode(parameters, forKey: .params)
    case .appRegister(let parameters): try container.encode(parameters, forKey: .params)
    case .appShow(let parameters), .appRemove(let parameters), .appFront(let parameters),
      .appForceQuit(let parameters):
      try container.encode(parameters, forKey: .params)
    case .appAttach(let parameters): try container.encode(parameters, forKey: .params)
    case .appState(let parameters): try container.encode(parameters, forKey: .params)
    case .appHandled(let parameters): try container.encode(parameters, forKey: .params)
    }
  }
}

private enum NotificationEnvelope {
  static func decode(
    _ name: DaemonNotification.Name, _ container: KeyedDecodingContainer<EnvelopeKey>
  ) throws -> DaemonNotification {
    func params<T: Decodable>(_ type: T.Type) throws -> T { try container.decode(type, forKey: .params) }
    return switch name {
    case .taskProgress: .taskProgress(try params(TaskProgressNotice.self))
    case .taskState: .taskState(try params(TaskStateNotice.self))
    case .taskResumed: .taskResumed(try params(TaskResumedNotice.self))
    case .taskResponse: .taskResponse(try params(TaskResponseNotice.self))
    case .taskData: .taskData(try params(TaskBytesNotice.self))
    case .taskRemoved: .taskRemoved(try params(TaskRemovedNotice.self))
    case .taskQuestion: .taskQuestion(try params(TaskQuestionNotice.self))
    case .delivery: .delivery(try params(DeliveryNotice.self))
    case .sessionEnded: .sessionEnded(try params(SessionEndedNotice.self))
    case .goodbye: .goodbye(try params(GoodbyeNotice.self))
    case .appWake: .appWake(try params(AppWakeNotice.self))
    }
  }
}
