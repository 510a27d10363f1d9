import CCrypto

/// Bytes on their way into and out of OpenSSL.
enum OpenSSLBytes {
  /// What an `i2d_…` function writes, which allocates for a null pointer; nil when it fails.
  static func of(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>) -> Int32) -> [UInt8]? {
    var written: UnsafeMutablePointer<UInt8>?
    let count = unsafe write(&written)
    guard count > 0, let start = unsafe written else { return nil }
    defer { unsafe CRYPTO_free(start, nil, 0) }
    // SAFETY: OpenSSL wrote so many bytes there.
    return unsafe Array(UnsafeBufferPointer(start: start, count: Int(count)))
  }

  /// All that is left in a BIO in memory.
  static func all(in source: OpaquePointer) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: unsafe BIO_ctrl_pending(source))
    let count = unsafe bytes.withUnsafeMutableBytes { buffer in
      // SAFETY: OpenSSL writes at most as many bytes as the buffer holds.
      unsafe BIO_read(source, buffer.baseAddress, Int32(clamping: buffer.count))
    }
    return Array(bytes.prefix(max(0, Int(count))))
  }

  /// A BIO with a copy of these bytes, to be freed by the caller.
  static func input(_ bytes: [UInt8]) -> OpaquePointer? {
    guard let input = unsafe BIO_new(BIO_s_mem()) else { return nil }
    let count = unsafe bytes.withUnsafeBytes { buffer in
      // SAFETY: OpenSSL reads within the buffer during the call.
      unsafe BIO_write(input, buffer.baseAddress, Int32(clamping: buffer.count))
    }
    guard count == bytes.count else {
      unsafe BIO_free(input)
      return nil
    }
    return unsafe input
  }
}

package enum Digest {
  /// `sha256//` and the base 64 of the SHA-256; nil where OpenSSL offers none.
  package static func pin(of bytes: [UInt8]) -> String? {
    var digest = [UInt8](repeating: 0, count: 32)
    var length: UInt32 = 0
    guard unsafe EVP_Digest(bytes, bytes.count, &digest, &length, EVP_sha256(), nil) == 1, length == 32 else {
      return nil
    }
    return "sha256//" + base64(digest)
  }

  package static func base64(_ bytes: [UInt8]) -> String {
    var text = [UInt8](repeating: 0, count: (bytes.count + 2) / 3 * 4 + 1)
    // SAFETY: four characters for each three bytes, and a NUL.
    let count = unsafe EVP_EncodeBlock(&text, bytes, Int32(clamping: bytes.count))
    return String(decoding: text.prefix(max(0, Int(count))), as: UTF8.self)
  }
}
