import CurlEngine
import Foundation
import Glibc
import Testing
import TransferCore

@Suite struct Content {
  /// A file of its own that is gone at the end.
  final class Scratch {
    let path = FileManager.default.temporaryDirectory.appendingPathComponent("ferry-\(UUID().uuidString)").path
    let descriptor: Int32

    init(_ bytes: [UInt8] = []) {
      descriptor = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
      precondition(unsafe write(descriptor, bytes, bytes.count) == bytes.count)
    }

    deinit {
      close(descriptor)
      unsafe unlink(path)
    }

    var content: [UInt8] { (try? Data(contentsOf: URL(fileURLWithPath: path))).map(Array.init) ?? [] }
  }

  /// gzip(1) of bytes, or what Python's zlib makes of them.
  static func encode(_ bytes: [UInt8], _ program: String) throws -> [UInt8] {
    let plain = Scratch(bytes)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    let script =
      switch program {
      case "gzip": "import sys,gzip;o=gzip.compress"
      case "zlib": "import sys,zlib;o=zlib.compress"
      default: "import sys,zlib;o=lambda b:zlib.compress(b)[2:-4]"
      }
    process.arguments = [
      "python3", "-c", script + ";sys.stdout.buffer.write(o(open(sys.argv[1],'rb').read()))", plain.path,
    ]
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    let encoded = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return Array(encoded)
  }

  static func decode(_ coding: String, _ bytes: [UInt8], limit: Int64 = 1 << 40) throws -> [UInt8] {
    let source = Scratch(bytes)
    let target = Scratch()
    let count = try ContentDecoder.decode(
      coding, from: source.descriptor, to: target.descriptor, limitBytes: limit)
    #expect(Int(count) == target.content.count)
    return target.content
  }

  @Test(arguments: [("gzip", "gzip"), ("x-gzip", "gzip"), ("deflate", "zlib"), ("deflate", "raw")])
  func whatWasEncodedComesBack(coding: String, program: String) throws {
    for bytes in [[], Array("hello".utf8), pattern(700_000), [UInt8](repeating: 7, count: 3_000_000)] {
      #expect(try Self.decode(coding, Self.encode(bytes, program)) == bytes)
    }
  }

  @Test func severalMembersAreOneContent() throws {
    let two = try Self.encode(Array("hello ".utf8), "gzip") + Self.encode(Array("world".utf8), "gzip")
    #expect(try Self.decode("gzip", two) == Array("hello world".utf8))
    #expect(try Self.decode("gzip", two + [0, 0, 0]) == Array("hello world".utf8))
  }

  @Test func brokenContentIsRefused() throws {
    let whole = try Self.encode(pattern(100_000), "gzip")
    for bad in [Array(whole.dropLast()), Array(whole.prefix(20)), [], [1, 2, 3], whole + [9, 9, 9]] {
      let failure = #expect(throws: DecodingFailure.self) { try Self.decode("gzip", bad) }
      #expect(failure?.failure.code == .contentDecodingFailed)
    }
    var flipped = whole
    flipped[5000] ^= 0xFF
    #expect(throws: DecodingFailure.self) { try Self.decode("gzip", flipped) }
  }

  @Test func aBombIsRefused() throws {
    let bomb = try Self.encode([UInt8](repeating: 0, count: 10_000_000), "gzip")
    let failure = #expect(throws: DecodingFailure.self) { try Self.decode("gzip", bomb, limit: 1_000_000) }
    #expect(failure?.failure.code == .contentDecodingFailed)
    #expect(failure?.failure.detail.contains("1000000") == true)
  }

  @Test func anUnknownCodingIsNamed() throws {
    let failure = #expect(throws: DecodingFailure.self) { try Self.decode("br", [1]) }
    #expect(failure?.failure.detail.contains("\"br\"") == true)
  }

  @Test func aFullDiskIsSaidToBeOne() throws {
    let source = Scratch(try Self.encode(pattern(10_000), "gzip"))
    let full = unsafe open("/dev/full", O_WRONLY | O_CLOEXEC)
    defer { close(full) }
    let failure = #expect(throws: DecodingFailure.self) {
      try ContentDecoder.decode("gzip", from: source.descriptor, to: full, limitBytes: 1 << 30)
    }
    #expect(failure?.failure.code == .noSpace)
  }

  @Test func aDigestIsThatOfTheStandard() throws {
    // FIPS 180-4's example, and the empty message.
    let empty = Scratch()
    #expect(
      try StreamingDigest.sha256(ofFileDescriptor: empty.descriptor).hex
        == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    let abc = Scratch(Array("abc".utf8))
    let found = try StreamingDigest.sha256(ofFileDescriptor: abc.descriptor)
    #expect(found.hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(found.bytes == 3)
    let bytes = pattern(1_000_000)
    let digest = try StreamingDigest()
    for start in stride(from: 0, to: bytes.count, by: 77_777) {
      digest.update(Array(bytes[start..<min(start + 77_777, bytes.count)]).span)
    }
    let large = Scratch(bytes)
    #expect(try digest.finish() == StreamingDigest.sha256(ofFileDescriptor: large.descriptor).hex)
  }

  @Test func anUnreadableFileIsNamed() throws {
    let failure = #expect(throws: DigestFailure.self) { try StreamingDigest.sha256(ofFileDescriptor: -1) }
    #expect(failure?.failure.code == .fileReadFailed)
  }
}
