#if !canImport(Darwin)
  import Foundation
  public import FoundationNetworking

  // FoundationNetworking's request lacks them, and has no room for more: what URLProtocol keeps with a request is lost
  // on the way back from NSMutableURLRequest. So they are kept in a header field, which never goes out.
  extension URLRequest {
    static let forbiddenNetworksField = "Ferry-Forbidden-Networks"

    /// Whether a metered network may carry the request. Default: true. False waits for another in a background session,
    /// and in an ordinary one whose configuration says so; else it fails. A configuration that forbids it is not
    /// overruled.
    public var allowsExpensiveNetworkAccess: Bool {
      get { !forbiddenNetworks.contains("expensive") }
      set { set("expensive", isForbidden: !newValue) }
    }

    /// Whether a network that a person wants to be used sparingly may carry the request. Default: true. False is as for
    /// ``allowsExpensiveNetworkAccess``.
    public var allowsConstrainedNetworkAccess: Bool {
      get { !forbiddenNetworks.contains("constrained") }
      set { set("constrained", isForbidden: !newValue) }
    }

    private var forbiddenNetworks: Set<Substring> {
      Set((value(forHTTPHeaderField: Self.forbiddenNetworksField) ?? "").split(separator: ","))
    }

    private mutating func set(_ network: Substring, isForbidden: Bool) {
      var networks = forbiddenNetworks
      if isForbidden { networks.insert(network) } else { networks.remove(network) }
      setValue(
        networks.isEmpty ? nil : networks.sorted().joined(separator: ","),
        forHTTPHeaderField: Self.forbiddenNetworksField)
    }
  }
#endif
