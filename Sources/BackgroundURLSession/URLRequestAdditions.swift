#if !canImport(Darwin)
  import Foundation
  public import FoundationNetworking

  // FoundationNetworking's request lacks them; it carries what is kept under a key along with it.
  extension URLRequest {
    private static let expensiveKey = "ferry.allowsExpensiveNetworkAccess"
    private static let constrainedKey = "ferry.allowsConstrainedNetworkAccess"

    /// Whether a metered network may carry the request. Default: true. False waits for another in a background session;
    /// a configuration that forbids it is not overruled.
    public var allowsExpensiveNetworkAccess: Bool {
      get { flag(Self.expensiveKey) }
      set { set(Self.expensiveKey, newValue) }
    }

    /// Whether a network that a person wants to be used sparingly may carry the request. Default: true. False waits for
    /// another in a background session; a configuration that forbids it is not overruled.
    public var allowsConstrainedNetworkAccess: Bool {
      get { flag(Self.constrainedKey) }
      set { set(Self.constrainedKey, newValue) }
    }

    private func flag(_ key: String) -> Bool { URLProtocol.property(forKey: key, in: self) as? Bool ?? true }

    private mutating func set(_ key: String, _ value: Bool) {
      guard let copy = _bridgeToObjectiveC().mutableCopy() as? NSMutableURLRequest else { return }
      if value {
        URLProtocol.removeProperty(forKey: key, in: copy)
      } else {
        URLProtocol.setProperty(false, forKey: key, in: copy)
      }
      self = URLRequest._unconditionallyBridgeFromObjectiveC(copy)
    }
  }
#endif
