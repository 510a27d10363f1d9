import TransferCore

extension LaunchPolicy {
  /// The product's policy. In debug builds `FERRY_TEST_LAUNCHES` changes it, so that tests need not wait for minutes:
  /// `delay:500,longest:4000,grant:3000,end:300,restart:300`, each in milliseconds.
  static func of(_ environment: [String: String]) -> LaunchPolicy {
    var policy = LaunchPolicy.standard
    #if DEBUG
      for entry in environment["FERRY_TEST_LAUNCHES"]?.split(separator: ",") ?? [] {
        let parts = entry.split(separator: ":")
        guard parts.count == 2, let milliseconds = Int64(parts[1]) else { continue }
        let value = Duration.milliseconds(milliseconds)
        switch parts[0] {
        case "delay": policy.firstDelay = value
        case "longest": policy.longestDelay = value
        case "grant": policy.grant = value
        case "end": policy.terminationGrace = value
        case "restart": policy.restartGrace = value
        default: continue
        }
      }
    #endif
    return policy
  }
}
