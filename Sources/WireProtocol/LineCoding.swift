import FoundationEssentials

/// The same coding for callers that hold bytes and know no Foundation.
extension WireCoding {
  /// - Parameter line: one message without its newline.
  package static func decodeRequest(_ line: ArraySlice<UInt8>) throws(RejectedRequest) -> IncomingRequest {
    if let request = quickRequest(line) { return request }
    return try decodeRequest(Data(line))
  }

  package static func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

  /// Nil when the text is not base 64.
  package static func bytes(base64 text: String) -> [UInt8]? { Data(base64Encoded: text).map { [UInt8]($0) } }
}

extension WireCoding {
  /// The content of a file that registers an app: the parameters of `app.register`.
  package static func decodeRegistration(_ bytes: [UInt8]) throws(WireError) -> AppRegisterParameters {
    do {
      return try JSONDecoder().decode(AppRegisterParameters.self, from: Data(bytes))
    } catch {
      throw WireError(.invalidParameters, "It is no registration: \(summary(error)).")
    }
  }
}
