import CZlib
import Glibc
package import LinuxSystem
package import TransferCore

/// Undoes the Content-Encoding of a finished file (RFC 9110 section 8.4.1). Blocks: for a worker.
package enum ContentDecoder {
  /// Decoded content may be so much larger than what came: a few kilobytes can hold terabytes.
  private static let factor: Int64 = 1000
  private static let floorBytes: Int64 = 64 << 20

  /// The most content that so many encoded bytes may hold.
  package static func limitBytes(encodedBytes: Int64) -> Int64 {
    let (product, isTooLarge) = encodedBytes.multipliedReportingOverflow(by: factor)
    return isTooLarge ? .max : max(floorBytes, product)
  }

  /// Reads `source` from its first byte to its end and writes the content to `target` from offset 0.
  /// - Parameters:
  ///   - coding: `gzip`, `x-gzip` or `deflate`; others are refused by name.
  ///   - source: open for reading; its own position does not matter.
  ///   - target: open for writing, and empty.
  ///   - limitBytes: more content than this is refused: a few kilobytes can hold terabytes.
  ///   - keptRoom: what is left free beside it.
  /// - Returns: length of the content in bytes.
  /// - Throws: `contentDecodingFailed` for data that is broken, cut off or too large; `noSpace`, `fileWriteFailed`,
  ///   `fileReadFailed` for what the files say.
  package static func decode(
    _ coding: String, from source: Int32, to target: Int32, limitBytes: Int64, leaving keptRoom: KeptRoom? = nil
  ) throws(DecodingFailure) -> Int64 {
    let name = coding.asciiLowercased
    guard ["gzip", "x-gzip", "deflate"].contains(name) else {
      throw refusal("The content encoding \"\(shown(coding))\" cannot be undone here; fetch with --raw to keep it.")
    }
    let isDeflate = name == "deflate"
    let inflation = try Inflation(
      isRaw: isDeflate && !startsLikeZlib(source), source: source, target: target, limitBytes: limitBytes,
      keptRoom: keptRoom)
    return try inflation.run(allowsMembers: !isDeflate)
  }

  private static func shown(_ coding: String) -> String {
    String(decoding: coding.utf8.prefix(32).map { (0x21...0x7E).contains($0) ? $0 : 0x3F }, as: UTF8.self)
  }

  /// "deflate" is the zlib format (RFC 1950), but some servers send the bare stream (RFC 1951); both are accepted, as
  /// browsers do. The first two bytes tell: method 8, and a multiple of 31.
  private static func startsLikeZlib(_ source: Int32) -> Bool {
    var head: [UInt8] = [0, 0]
    guard unsafe pread(source, &head, 2, 0) == 2 else { return true }
    return head[0] & 0x0F == 8 && (Int(head[0]) << 8 | Int(head[1])) % 31 == 0
  }

  static func refusal(_ detail: String) -> DecodingFailure {
    DecodingFailure(failure: TransferFailure(.contentDecodingFailed, .permanent, detail: detail))
  }
}

package struct DecodingFailure: Error, Hashable {
  package var failure: TransferFailure
}

/// One run of zlib over a file.
@safe private final class Inflation {
  /// On the heap: zlib keeps the address and refuses another one.
  private let stream: UnsafeMutablePointer<z_stream>
  private let source: Int32
  private let target: Int32
  private let limitBytes: Int64
  private let keptRoom: KeptRoom?
  private var input = [UInt8](repeating: 0, count: 128 * 1024)
  private var output = [UInt8](repeating: 0, count: 256 * 1024)
  private var read: Int64 = 0
  private var written: Int64 = 0

  init(
    isRaw: Bool, source: Int32, target: Int32, limitBytes: Int64, keptRoom: KeptRoom?
  ) throws(DecodingFailure) {
    self.keptRoom = keptRoom
    self.source = source
    self.target = target
    self.limitBytes = limitBytes
    unsafe stream = .allocate(capacity: 1)
    unsafe stream.initialize(to: z_stream())
    // zlib.h: -15 is the bare stream, 15 + 32 tells gzip from zlib by its header.
    guard unsafe czlib_inflate_init(stream, isRaw ? -15 : 47) == Z_OK else {
      throw DecodingFailure(failure: TransferFailure(.internalFault, .transient, detail: "zlib: out of memory."))
    }
  }

  deinit {
    // Harmless for a stream that was never set up: Z_STREAM_ERROR.
    unsafe inflateEnd(stream)
    unsafe stream.deallocate()
  }

  /// RFC 1952 section 2.2: a gzip file is one or more members.
  func run(allowsMembers: Bool) throws(DecodingFailure) -> Int64 {
    var isEnded = false
    while true {
      let count = try fill()
      guard count > 0 else {
        guard isEnded else { throw ContentDecoder.refusal("The encoded content is cut off.") }
        return written
      }
      var taken = 0
      // A full output buffer means that zlib may hold more without any new input.
      var isFull = false
      while taken < count || isFull && !isEnded {
        if isEnded {
          guard allowsMembers, !isPadding(from: taken, to: count) else { return written }
          guard unsafe inflateReset(stream) == Z_OK else { throw ContentDecoder.refusal("The content is broken.") }
          isEnded = false
        }
        (isEnded, isFull) = try inflateOnce(&taken, of: count)
      }
    }
  }

  /// Zeros behind the last member are padding (gzip(1) ignores them).
  private func isPadding(from start: Int, to end: Int) -> Bool { input[start..<end].allSatisfy { $0 == 0 } }

  private func fill() throws(DecodingFailure) -> Int {
    while true {
      let count = unsafe pread(source, &input, input.count, off_t(read))
      if count >= 0 {
        read += Int64(count)
        return count
      }
      guard errno != EINTR else { continue }
      throw DecodingFailure(
        failure: TransferFailure(
          .fileReadFailed, .transient, domain: "errno", number: Int(errno),
          detail: "Reading the encoded file failed: \(SystemFailure.text(errno))."))
    }
  }

  /// One call of zlib. `isEnded`: the stream is over; `isFull`: the output was filled.
  private func inflateOnce(
    _ taken: inout Int, of count: Int
  ) throws(DecodingFailure) -> (isEnded: Bool, isFull: Bool) {
    let start = taken
    var used = 0
    var made = 0
    // SAFETY: both arrays outlive the call, and the counts given are what is left of them.
    let status = unsafe input.withUnsafeMutableBufferPointer { input in
      unsafe output.withUnsafeMutableBufferPointer { output in
        unsafe stream.pointee.next_in = input.baseAddress.map { unsafe $0 + start }
        unsafe stream.pointee.avail_in = UInt32(count - start)
        unsafe stream.pointee.next_out = output.baseAddress
        unsafe stream.pointee.avail_out = UInt32(output.count)
        let status = unsafe inflate(stream, Z_NO_FLUSH)
        used = unsafe count - start - Int(stream.pointee.avail_in)
        made = unsafe output.count - Int(stream.pointee.avail_out)
        return status
      }
    }
    taken += used
    // Z_BUF_ERROR: nothing to do for want of input.
    guard status == Z_OK || status == Z_STREAM_END || (status == Z_BUF_ERROR && taken == count) else {
      throw ContentDecoder.refusal("The encoded content is broken at byte \(read - Int64(count - taken)).")
    }
    try emit(made)
    return (status == Z_STREAM_END, made == output.count)
  }

  private func emit(_ count: Int) throws(DecodingFailure) {
    guard written + Int64(count) <= limitBytes else {
      throw ContentDecoder.refusal("The decoded content is larger than \(limitBytes) bytes.")
    }
    if let keptRoom, !keptRoom.admits(count, to: target) {
      throw DecodingFailure(failure: SystemFailure.writing(ENOSPC))
    }
    var done = 0
    while done < count {
      let result = unsafe output.withUnsafeBytes {
        unsafe pwrite(target, $0.baseAddress.map { unsafe $0 + done }, count - done, off_t(written))
      }
      if result > 0 {
        done += result
        written += Int64(result)
      } else if result == 0 || errno != EINTR {
        throw DecodingFailure(failure: SystemFailure.writing(result == 0 ? EIO : errno))
      }
    }
  }
}
