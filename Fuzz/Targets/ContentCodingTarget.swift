import CurlEngine
import Glibc
import LinuxSystem
import TransferCore

/// Bodies that say they are compressed.
enum ContentCodingTarget {
  private static let limitBytes: Int64 = 1 << 20

  static func run(_ bytes: [UInt8]) throws {
    var source = ByteSource(bytes)
    let coding = source.one(of: ["gzip", "x-gzip", "deflate", "br"])
    let (input, output) = Self.files
    try Files.truncate(input, toBytes: 0)
    try Files.truncate(output, toBytes: 0)
    let body = source.remainder()
    try Syscall.writeAll(input, body.span, at: 0)
    let length: Int64
    do throws(DecodingFailure) {
      length = try ContentDecoder.decode(coding, from: input, to: output, limitBytes: limitBytes)
    } catch {
      try require(error.failure.code == .contentDecodingFailed, "\(error.failure)")
      return
    }
    try require(length <= limitBytes, "more content than allowed")
    var status = stat()
    try require(unsafe fstat(output, &status) == 0 && Int64(status.st_size) == length, "\(length) is not its length")
    try require(coding != "br", "a coding that nobody knows here")
  }

  /// Two files without a name, kept for all runs.
  private static let files: (input: Int32, output: Int32) = (namelessFile(), namelessFile())

  private static func namelessFile() -> Int32 {
    let path = "\(FuzzFolder.path)/ferry-fuzz-\(String(Clocks.randomWord(), radix: 36))"
    do {
      let file = try Files.createPrivate(path)
      unsafe unlink(path)
      return file.take()
    } catch {
      fatalError("no file can be made: \(error)")
    }
  }
}
