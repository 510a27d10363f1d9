import Foundation
import Testing

/// `openssl s_server` with a certificate that it has signed itself; it serves the files of the desk's home.
struct SignedServer {
  /// In DER, as an app has it in its bundle.
  let certificate: String
  private let port: Int
  private let process = Process()
  private let output = Pipe()

  init(_ desk: Desk, _ name: String) throws {
    let key = desk.home.appendingPathComponent("\(name).key").path
    let text = desk.home.appendingPathComponent("\(name).pem").path
    certificate = desk.home.appendingPathComponent("\(name).der").path
    let make = """
      openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
        -keyout '\(key)' -out '\(text)'
      openssl x509 -in '\(text)' -outform der -out '\(certificate)'
      """
    let maker = Process()
    maker.executableURL = URL(fileURLWithPath: "/bin/sh")
    maker.arguments = ["-ec", make]
    maker.standardError = FileHandle.nullDevice
    try maker.run()
    maker.waitUntilExit()
    try #require(maker.terminationStatus == 0, "openssl made no certificate")

    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", text, "-key", key, "-WWW"]
    process.currentDirectoryURL = desk.home
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    process.standardInput = FileHandle.nullDevice
    try process.run()
    // "ACCEPT 127.0.0.1:40123": the kernel chose.
    var said = ""
    while !said.contains("ACCEPT") || !said.hasSuffix("\n") {
      let more = output.fileHandleForReading.availableData
      try #require(!more.isEmpty, "openssl ended: \(said)")
      said += String(decoding: more, as: UTF8.self)
    }
    let number = said.split(separator: ":").last?.trimmingCharacters(in: .whitespacesAndNewlines)
    port = try #require(number.flatMap { Int($0) }, "openssl says \(said)")
  }

  func url(_ name: String) -> String { "https://localhost:\(port)/\(name)" }

  func stop() { process.terminate() }
}
