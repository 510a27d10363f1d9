#if !canImport(Darwin)
  internal import FerryClient
  internal import Foundation
  internal import WireProtocol

  /// What a process finds when it starts: who it is, and whether the daemon started it, and for what.
  struct LaunchSurroundings: Sendable {
    let environment: [String: String]
    /// `FERRY_APP_ID`, else the executable's name.
    let app: String
    /// The daemon's number of this launch (`FERRY_LAUNCH`); nil when a person started the process.
    let launch: Int64?
    /// The identifier of the session that it was launched for.
    let session: String?
    /// Nil when the executable's path cannot be read.
    let registration: AppRegisterParameters?

    init(environment: [String: String], executable: String? = Self.executable, bundle: BundleKeys = BundleKeys(.main)) {
      self.environment = environment
      app = AppIdentifier.standard(environment)
      launch = environment["FERRY_LAUNCH"].flatMap { Int64($0) }
      session = environment["FERRY_LAUNCH_SESSION"].flatMap { $0.isEmpty ? nil : $0 }
      registration = executable.map { [app] path in
        // Without arguments, as an app is launched: the ones of this start are about what the person wanted now.
        AppRegisterParameters(
          app: app, command: [path], taskIdentifiers: bundle.taskIdentifiers, backgroundModes: bundle.backgroundModes)
      }
    }

    private static let executable: String? = {
      let link = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
      return link.flatMap { $0.hasPrefix("/") && !$0.hasSuffix(" (deleted)") ? $0 : nil }
    }()
  }

  /// What a program declares in an `Info.plist` beside its executable, or in `NAME.resources/` there.
  struct BundleKeys: Sendable {
    var taskIdentifiers: [String] = []
    var backgroundModes: [String] = []

    init() {}

    init(_ bundle: Bundle) {
      func texts(_ key: String) -> [String] { bundle.object(forInfoDictionaryKey: key) as? [String] ?? [] }
      taskIdentifiers = texts("BGTaskSchedulerPermittedIdentifiers")
      backgroundModes = texts("UIBackgroundModes")
    }
  }
#endif
