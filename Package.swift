// swift-tools-version: 6.2
import PackageDescription

// One settings array for every Swift target, tests included, so that no corner of the package is held to less.
let settings: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  .enableUpcomingFeature("InferIsolatedConformances"),
]

func library(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: settings)
}
func program(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .executableTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}
func tests(_ name: String, _ dependencies: [Target.Dependency], exclude: [String] = []) -> Target {
  .testTarget(name: name, dependencies: dependencies, exclude: exclude, swiftSettings: settings)
}

let package = Package(
  name: "ferry",
  products: [
    .library(name: "AppLifecycle", targets: ["AppLifecycle"]),
    .library(name: "BackgroundURLSession", targets: ["BackgroundURLSession"]),
    .library(name: "FerryClient", targets: ["FerryClient"]),
    .library(name: "LoopbackServer", targets: ["LoopbackServer"]),
    .executable(name: "ferry", targets: ["ferry"]),
    .executable(name: "ferryd", targets: ["ferryd"]),
    .executable(name: "loopback-server", targets: ["loopback-server"]),
  ],
  targets: [
    // Foreign interfaces. Only the owner of each may import it (Tests/TidyTests checks).
    .target(name: "CLinux"),
    .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"])]),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),

    // Opens libsystemd when it is needed; only its headers (libsystemd-dev) are needed to build.
    .target(name: "CSystemd"),

    // The daemon, from the decisions outwards.
    library("TransferCore"),
    library("LinuxSystem", ["CLinux", "TransferCore"]),
    library("WireProtocol", ["TransferCore"]),
    library("TransferStore", ["CSQLite", "TransferCore"]),
    library("Certificates", ["CCrypto"]),
    library("CurlEngine", ["CCurl", "CCrypto", "CZlib", "Certificates", "LinuxSystem", "TransferCore"]),
    library("DeviceConditions", ["CSystemd", "LinuxSystem", "TransferCore"]),
    library(
      "TransferDaemon",
      ["CurlEngine", "DeviceConditions", "LinuxSystem", "TransferCore", "TransferStore", "WireProtocol"]),
    program("ferryd", ["TransferDaemon"]),

    // The same engine in a program's own process.
    library("InProcessTransfers", ["CurlEngine", "DeviceConditions", "LinuxSystem", "TransferCore"]),

    // The clients.
    library("FerryClient", ["LinuxSystem", "TransferCore", "WireProtocol"]),
    library(
      "BackgroundURLSession",
      [
        .target(name: "FerryClient", condition: .when(platforms: [.linux])),
        .target(name: "InProcessTransfers", condition: .when(platforms: [.linux])),
        .target(name: "Certificates", condition: .when(platforms: [.linux])),
      ]),
    library(
      "AppLifecycle", ["BackgroundURLSession", .target(name: "FerryClient", condition: .when(platforms: [.linux]))]),
    program("ferry", ["FerryClient", "LinuxSystem", "TransferCore", "WireProtocol"]),

    // The decisions, in a world of faults.
    library("TransferSimulation", ["TransferCore"]),
    program("ferry-simulate", ["TransferSimulation"]),

    // A scriptable HTTP server for tests, ours and users'.
    library("LoopbackServer", ["LinuxSystem"]),
    program("loopback-server", ["LoopbackServer"]),

    tests("TransferCoreTests", ["TransferCore"]),
    tests("LinuxSystemTests", ["LinuxSystem", "TransferCore"]),
    tests("WireProtocolTests", ["WireProtocol", "TransferCore"]),
    tests("TransferStoreTests", ["TransferStore", "TransferCore"]),
    tests("CurlEngineTests", ["CurlEngine", "LoopbackServer", "LinuxSystem", "TransferCore"]),
    tests("DeviceConditionsTests", ["DeviceConditions", "LinuxSystem", "TransferCore"]),
    tests("LoopbackServerTests", ["LoopbackServer", "loopback-server"]),
    tests("FerryClientTests", ["FerryClient", "LoopbackServer", "ferryd"]),
    tests("AppLifecycleTests", ["AppLifecycle", "FerryClient", "WireProtocol"]),
    tests("BackgroundURLSessionTests", ["BackgroundURLSession", "LoopbackServer", "ferryd"]),
    tests(
      "InProcessTransfersTests",
      ["InProcessTransfers", "DeviceConditions", "LinuxSystem", "LoopbackServer", "TransferCore"]),
    tests(
      "DaemonTests",
      ["FerryClient", "LoopbackServer", "LinuxSystem", "TransferCore", "WireProtocol", "ferryd", "ferry"],
      exclude: ["Fixtures"]),
    tests("SimulationTests", ["TransferSimulation", "TransferCore"]),
    tests("TidyTests", []),

    // What hostile bytes may do to us: fuzz targets as plain functions, replayed over the kept corpus as ordinary
    // tests.
    .target(
      name: "FuzzTargets",
      dependencies: [
        "CCurl", "CLinux", "CSQLite", "CurlEngine", "LinuxSystem", "TransferCore", "TransferDaemon", "TransferStore",
        "WireProtocol",
      ],
      path: "Fuzz/Targets", swiftSettings: settings),
    tests("FuzzTests", ["FuzzTargets"]),
  ],
  cLanguageStandard: .gnu17
)

// The fuzzer's own program links only with its runtime: scripts/fuzz asks for it.
if Context.environment["FERRY_FUZZ"] != nil {
  package.targets.append(
    .executableTarget(
      name: "ferry-fuzz", dependencies: ["FuzzTargets"], path: "Fuzz/Driver", swiftSettings: settings))
  package.products.append(.executable(name: "ferry-fuzz", targets: ["ferry-fuzz"]))
}
