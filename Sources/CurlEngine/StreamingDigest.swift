import CCrypto
import Glibc
package import TransferCore

/// SHA-256 of bytes as they come, by OpenSSL (which uses the processor's own instructions).
@safe package final class StreamingDigest {
  private let context: OpaquePointer
  private var hasFailed = false

  /// - Throws: `internalFault` when OpenSSL offers no SHA-256 (no memory, or a policy that forbids it).
  package init() throws(DigestFailure) {
    guard let context = unsafe EVP_MD_CTX_new() else { throw DigestFailure.unavailable }
    guard unsafe EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else {
      unsafe EVP_MD_CTX_free(context)
      throw DigestFailure.unavailable
    }
    unsafe self.context = context
  }

  deinit { unsafe EVP_MD_CTX_free(context) }

  package func update(_ bytes: Span<UInt8>) {
    // SAFETY: OpenSSL reads within the span during the call.
    unsafe bytes.withUnsafeBytes { buffer in
      if unsafe EVP_DigestUpdate(context, buffer.baseAddress, buffer.count) != 1 { hasFailed = true }
    }
  }

  /// 64 lower-case hex digits. The digest takes no more bytes afterwards.
  package func finish() throws(DigestFailure) -> String {
    var bytes = [UInt8](repeating: 0, count: 32)
    var length: UInt32 = 0
    guard !hasFailed, unsafe EVP_DigestFinal_ex(context, &bytes, &length) == 1, length == 32 else {
      throw DigestFailure.unavailable
    }
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  /// SHA-256 of a file from its first byte to its end, whatever the descriptor's own position. Blocks: for a worker.
  /// - Returns: 64 lower-case hex digits, and how many bytes were read.
  package static func sha256(ofFileDescriptor descriptor: Int32) throws(DigestFailure) -> (hex: String, bytes: Int64) {
    let digest = try StreamingDigest()
    var buffer = [UInt8](repeating: 0, count: 256 * 1024)
    var offset: Int64 = 0
    while true {
      let count = unsafe pread(descriptor, &buffer, buffer.count, off_t(offset))
      if count < 0 {
        if errno == EINTR { continue }
        throw DigestFailure.unreadable(errno)
      }
      if count == 0 { return (try digest.finish(), offset) }
      digest.update(buffer.span.extracting(first: count))
      offset += Int64(count)
    }
  }
}

package enum DigestFailure: Error, Hashable {
  /// OpenSSL offers no SHA-256.
  case unavailable
  /// Reading the file failed with this errno.
  case unreadable(Int32)

  package var failure: TransferFailure {
    switch self {
    case .unavailable:
      TransferFailure(.internalFault, .permanent, detail: "OpenSSL offers no SHA-256.")
    case .unreadable(let error):
      TransferFailure(
        .fileReadFailed, .transient, domain: "errno", number: Int(error),
        detail: "Reading the file for its digest failed: \(SystemFailure.text(error)).")
    }
  }
}
