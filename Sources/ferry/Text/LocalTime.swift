import Glibc

enum LocalTime {
  /// "2025-11-30 14:05:09 +0100" in the zone of this process.
  static func text(milliseconds: Int64) -> String {
    var seconds = time_t(milliseconds / 1000)
    var parts = unsafe tm()
    guard unsafe localtime_r(&seconds, &parts) != nil else { return "\(milliseconds) ms after 1970" }
    var bytes = [CChar](repeating: 0, count: 64)
    // SAFETY: the buffer's own length is its bound.
    let count = unsafe strftime(&bytes, bytes.count, "%Y-%m-%d %H:%M:%S %z", &parts)
    return String(decoding: bytes.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
