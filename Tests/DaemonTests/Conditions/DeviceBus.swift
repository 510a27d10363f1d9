import Foundation
import Glibc
import LinuxSystem

/// A private system bus with services that say what the test wants (Fixtures/device_bus.py).
final class DeviceBus: Sendable {
  let address: String
  private let process: Int32
  private let commands: OwnedDescriptor
  private let answers: OwnedDescriptor

  init() throws {
    let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("Fixtures/device_bus.py").path
    let (commandsOut, commandsIn) = try Self.pipe()
    let (answersOut, answersIn) = try Self.pipe()
    process = try ChildProcess.spawn(
      path: "/usr/bin/python3", arguments: ["python3", script],
      environment: ["PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"],
      standardInput: .descriptor(commandsOut.raw), standardOutput: .descriptor(answersIn.raw), newSession: false)
    commands = commandsIn
    answers = answersOut
    _ = consume commandsOut
    _ = consume answersIn
    address = try Self.line(answers.raw)
  }

  deinit { end() }

  private func end() {
    kill(process, SIGTERM)
    _ = try? ChildProcess.wait(process)
  }

  private static func pipe() throws -> (read: OwnedDescriptor, write: OwnedDescriptor) {
    var ends: [Int32] = [-1, -1]
    guard unsafe Glibc.pipe(&ends) == 0 else { throw SystemError(errno, operation: "pipe") }
    for end in ends { try Syscall.setCloseOnExec(end) }
    return (OwnedDescriptor(adopting: ends[0]), OwnedDescriptor(adopting: ends[1]))
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
    try Syscall.writeAll(commands.raw, Array("\(command)\n".utf8))
    let answer = try Self.line(answers.raw)
    guard answer == "ok" else { throw Late("\(command): \(answer)") }
  }
}
