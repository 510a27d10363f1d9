#if !canImport(Darwin)
  internal import Foundation
  internal import InProcessTransfers
  internal import WireProtocol

  /// Whose servers have which keys: `NSPinnedDomains` of `NSAppTransportSecurity` in a program's `Info.plist`.
  enum PinnedDomains {
    /// The program's own; read once.
    static let declared: [WirePinnedDomain] = {
      let security = Bundle.main.object(forInfoDictionaryKey: "NSAppTransportSecurity") as? [String: Any]
      guard let pinned = security?["NSPinnedDomains"] else { return [] }
      guard let domains = pinned as? [String: Any] else {
        Diagnostics.log("NSPinnedDomains is no dictionary, and pins nothing")
        return []
      }
      return read(domains)
    }()

    /// What cannot be kept is not left out: no server of such a domain is the right one.
    static func read(_ domains: [String: Any]) -> [WirePinnedDomain] {
      domains.sorted { $0.key < $1.key }.map { name, value in
        let domain = domain(name)
        let entry = value as? [String: Any] ?? [:]
        var keys = (entry["NSPinnedLeafIdentities"] as? [Any])?.map(key) ?? []
        let breadth = entry["NSIncludesSubdomains"]
        let isUnclear = domain.isPattern || breadth != nil && !(breadth is Bool)
        if isUnclear || entry["NSPinnedCAIdentities"] != nil || keys.isEmpty || keys.contains(nil) {
          Diagnostics.log(
            "NSPinnedDomains, \(name): only NSPinnedLeafIdentities of SPKI-SHA256-BASE64 can be kept here, and no "
              + "server of the domain is connected to")
          keys = []
        }
        return WirePinnedDomain(
          domain: domain.name, includesSubdomains: isUnclear || breadth as? Bool ?? false,
          keys: keys.compactMap(\.self))
      }
    }

    /// As connections know it. `*.name` and `.name` are none of Apple's forms: it is not known whom they are meant for.
    private static func domain(_ text: String) -> (name: String, isPattern: Bool) {
      var name = text[...]
      while name.hasSuffix(".") { name.removeLast() }
      let stem = name.drop { $0 == "*" || $0 == "." }
      let known = TransferHome.name(of: String(stem)).lowercased()
      if known.utf8.contains(where: { $0 >= 0x80 }) {
        Diagnostics.log("NSPinnedDomains, \(text): a domain is to be written in ASCII (xn--...), else it is not found")
      }
      return (known, stem.startIndex != name.startIndex)
    }

    private static func key(_ identity: Any) -> String? {
      guard let text = (identity as? [String: Any])?["SPKI-SHA256-BASE64"] as? String,
        Data(base64Encoded: text)?.count == 32
      else { return nil }
      return "sha256//\(text)"
    }
  }
#endif
