// swift-tools-version: 6.2
import PackageDescription

// Small programs as their authors wrote them for macOS and iOS: only an import line differs. No setting of this package
// makes it easier for them than a new Swift package is.
let ferry: [Target.Dependency] = [.product(name: "BackgroundURLSession", package: "ferry")]
let life: [Target.Dependency] = [.product(name: "AppLifecycle", package: "ferry")]

let package = Package(
  name: "compatibility",
  platforms: [.macOS(.v15), .iOS(.v18)],
  dependencies: [.package(name: "ferry", path: "..")],
  targets: [
    .executableTarget(name: "PodcastDownloads", dependencies: ferry),
    .executableTarget(name: "bgtool", dependencies: ferry),
    .executableTarget(name: "DocumentFetcher", dependencies: ferry),
    .executableTarget(name: "MediaSync", dependencies: ferry),
    .executableTarget(name: "FeedReader", dependencies: life),
    .executableTarget(name: "UpdateFeed", dependencies: ferry),
    .executableTarget(name: "PhotoUploader", dependencies: ferry),
    .executableTarget(name: "MapPacks", dependencies: life),
    .executableTarget(name: "HomeServer", dependencies: ferry),
    .target(name: "Catalogue", dependencies: ferry),
    .testTarget(name: "CatalogueTests", dependencies: ["Catalogue"] + ferry),
    .testTarget(
      name: "CompatibilityTests",
      dependencies: [
        .product(name: "LoopbackServer", package: "ferry"), "PodcastDownloads", "bgtool", "DocumentFetcher",
        "MediaSync", "FeedReader", "UpdateFeed", "PhotoUploader", "MapPacks",
        "HomeServer",
      ]),
  ],
  swiftLanguageModes: [.v6]
)
