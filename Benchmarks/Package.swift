// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that nobody who uses ferry builds it. The figures themselves are in `harness/`.
let package = Package(
  name: "ferry-benchmarks",
  dependencies: [.package(name: "ferry", path: "..")],
  targets: [
    .executableTarget(
      name: "collect", dependencies: [.product(name: "FerryClient", package: "ferry")],
      swiftSettings: [.swiftLanguageMode(.v6), .strictMemorySafety(), .treatAllWarnings(as: .error)]),
    .executableTarget(
      name: "delegate", dependencies: [.product(name: "BackgroundURLSession", package: "ferry")],
      swiftSettings: [.swiftLanguageMode(.v6), .strictMemorySafety(), .treatAllWarnings(as: .error)]),
    .executableTarget(
      name: "sessions", dependencies: [.product(name: "BackgroundURLSession", package: "ferry")],
      swiftSettings: [.swiftLanguageMode(.v6), .strictMemorySafety(), .treatAllWarnings(as: .error)]),
  ]
)
