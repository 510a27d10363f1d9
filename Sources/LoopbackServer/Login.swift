/// Who may see a response, as HTTP asks for it (RFC 7617, RFC 7616): answers with a challenge until it is met.
///
/// ```swift
/// let login = Login.digest(user: "ann", password: "secret")
/// LocalServer.start { login.isShown(by: $0) ? .text("hello") : login.challenge }
/// ```
public struct Login: Sendable {
  enum Scheme: Sendable { case basic, digest }

  let scheme: Scheme
  let user: String
  let password: String
  let realm: String
  let nonce: String
  let isProxy: Bool

  /// Basic.
  public static func basic(
    user: String, password: String, realm: String = "loopback", isProxy: Bool = false
  )
    -> Login
  {
    Login(scheme: .basic, user: user, password: password, realm: realm, nonce: "", isProxy: isProxy)
  }

  /// Digest with MD5 and `qop=auth`.
  public static func digest(
    user: String, password: String, realm: String = "loopback", nonce: String = "0123456789abcdef",
    isProxy: Bool = false
  ) -> Login {
    Login(scheme: .digest, user: user, password: password, realm: realm, nonce: nonce, isProxy: isProxy)
  }

  /// 401 with the challenge, or 407 for a proxy's. Its body is one that must never reach a file.
  public var challenge: Response {
    let parameters =
      switch scheme {
      case .basic: "Basic realm=\"\(realm)\""
      case .digest: "Digest realm=\"\(realm)\", qop=\"auth\", algorithm=MD5, nonce=\"\(nonce)\""
      }
    return Response.text("the challenge's own body").status(isProxy ? 407 : 401)
      .header(isProxy ? "Proxy-Authenticate" : "WWW-Authenticate", parameters)
  }

  /// The request carries what the challenge asks for.
  public func isShown(by request: Request) -> Bool {
    guard let field = request.headers[isProxy ? "Proxy-Authorization" : "Authorization"] else { return false }
    switch scheme {
    case .basic: return field == "Basic " + Base64.encode(Array("\(user):\(password)".utf8))
    case .digest: return isDigest(field, of: request)
    }
  }

  private func isDigest(_ field: String, of request: Request) -> Bool {
    guard field.hasPrefix("Digest ") else { return false }
    var parts: [String: String] = [:]
    for part in field.dropFirst(7).split(separator: ",") {
      let pair = part.split(separator: "=", maxSplits: 1).map { $0.drop(while: { $0 == " " }) }
      guard pair.count == 2 else { continue }
      parts[String(pair[0])] = pair[1].filter { $0 != "\"" }
    }
    guard parts["username"] == user, parts["nonce"] == nonce, let uri = parts["uri"], uri == request.target,
      let count = parts["nc"], let client = parts["cnonce"]
    else { return false }
    let first = MD5.hex("\(user):\(realm):\(password)")
    let second = MD5.hex("\(request.method):\(uri)")
    return parts["response"] == MD5.hex("\(first):\(nonce):\(count):\(client):auth:\(second)")
  }
}

enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  static func encode(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      var word: UInt32 = 0
      for offset in 0..<3 { word = word << 8 | (offset < group.count ? UInt32(bytes[start + offset]) : 0) }
      for digit in 0..<4 {
        text.append(digit <= group.count ? alphabet[Int(word >> UInt32(18 - 6 * digit) & 63)] : UInt8(ascii: "="))
      }
    }
    return String(decoding: text, as: UTF8.self)
  }
}
