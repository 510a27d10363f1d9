#if !canImport(Darwin)
  internal import Foundation
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
        let entry = value as? [String: Any] ?? [:]
        var keys = (entry["NSPinnedLeafIdentities"] as? [Any])?.map(key) ?? []
        if entry["NSPinnedCAIdentities"] != nil || keys.isEmpty || keys.contains(nil) {
          Diagnostics.log(
            "NSPinnedDomains, \(name): only NSPinnedLeafIdentities of SPKI-SHA256-BASE64 can be kept here, and no "
              + "server of the domain is connected to")
          keys = []
        }
        return WirePinnedDomain(
          domain: name, includesSubdomains: entry["NSIncludesSubdomains"] as? Bool ?? false,
          keys: keys.compactMap(\.self))
      }
    }

    private static func key(_ identity: Any) -> String? {
      guard let text = (identity as? [String: Any])?["SPKI-SHA256-BASE64"] as? String,
        Data(base64Encoded: text)?.count == 32
      else { return nil }
      return "sha256//\(text)"
    }
  }
#endif
