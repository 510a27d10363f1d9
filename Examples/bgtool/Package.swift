// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "bgtool",
  platforms: [.macOS(.v13)],
  dependencies: [.package(name: "ferry", path: "../..")],
  targets: [
    .executableTarget(
      name: "bgtool", dependencies: [.product(name: "BackgroundURLSession", package: "ferry")])
  ],
  swiftLanguageModes: [.v6]
)
