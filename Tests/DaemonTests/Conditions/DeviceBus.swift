import Foundation
import Glibc
import LinuxSystem

/// A private system bus with services that say what the test wants (Fixtures/device_bus.py).
final class DeviceBus: Sendable {
  let address: String
  private let process: Int32
  /// Takes commands, gives answers.
  private let ends: SocketPair

  init() throws {
    let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("Fixtures/device_bus.py").path
    ends = try UnixSocket.socketPair(nonblocking: false)
    process = try ChildProcess.spawn(
      path: "/usr/bin/python3", arguments: ["python3", script],
      environment: ["PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"], standardInput: .descriptor(ends.second.raw),
      standardOutput: .descriptor(ends.second.raw), newSession: false)
    address = try Self.line(ends.first.raw)
  }

  deinit {
    kill(process, SIGTERM)
    _ = try? ChildProcess.wait(process)
  }

  private static func line(_ descriptor: Int32) throws -> String {
    var line: [UInt8] = []
    var byte = [UInt8](repeating: 0, count: 1)
    while true {
      let ready = try Syscall.poll(descriptor, for: .readable, timeoutMilliseconds: Int32(generousSeconds * 1000))
      guard ready.contains(.readable), try Syscall.read(descriptor, into: &byte) == 1 else {
        throw Late("an answer of device_bus.py: \(String(decoding: line, as: UTF8.self))")
      }
      if byte[0] == 0x0A { return String(decoding: line, as: UTF8.self) }
      line.append(byte[0])
    }
  }

  /// One command of the script.
  func tell(_ command: String) throws {
    try Syscall.writeAll(ends.first.raw, Array("\(command)\n".utf8))
    let answer = try Self.line(ends.first.raw)
    guard answer == "ok" else { throw Late("\(command): \(answer)") }
  }
}
