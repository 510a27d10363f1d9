/// The name that a download gets where the person chose none.
enum FileName {
  static let fallback = "download"
  /// NAME_MAX of Linux's file systems.
  private static let maximumBytes = 255

  /// The last component of the URL's path, percent-decoded, as a name that stays in its folder and on one line: no
  /// separators, no control characters, no leading dot. An empty one is ``fallback``.
  static func fromURL(_ url: String) -> String {
    var rest = Substring(url)
    if let scheme = rest.range(ofText: "://") {
      rest = rest[scheme.upperBound...]
      guard let slash = rest.firstIndex(where: { $0 == "/" || $0 == "?" || $0 == "#" }) else { return fallback }
      rest = rest[slash...]
    }
    let path = rest.prefix { $0 != "?" && $0 != "#" }
    let component = path.lastIndex(of: "/").map { path[path.index(after: $0)...] } ?? path
    return sanitized(percentDecoded(component))
  }

  static func sanitized(_ name: String) -> String {
    // What an encoded separator hid before it is no part of the name.
    let last = name.split(omittingEmptySubsequences: false) { $0 == "/" || $0 == "\\" }.last.map(String.init) ?? ""
    var result = ""
    for scalar in last.unicodeScalars {
      result.unicodeScalars.append(TerminalText.isHarmful(scalar) ? "_" : scalar)
    }
    result = String(result.drop { $0 == "." || $0 == " " })
    while let end = result.last, end == " " { result.removeLast() }
    result = shortened(result)
    return result.isEmpty ? fallback : result
  }

  /// "%41" becomes "A"; what is no escape stays, and bytes that are no UTF-8 become U+FFFD.
  static func percentDecoded(_ text: some StringProtocol) -> String {
    func digit(_ byte: UInt8) -> UInt8? {
      switch byte {
      case 0x30...0x39: byte - 0x30
      case 0x41...0x46: byte - 0x37
      case 0x61...0x66: byte - 0x57
      default: nil
      }
    }
    let source = Array(text.utf8)
    var bytes: [UInt8] = []
    var index = 0
    while index < source.count {
      if source[index] == 0x25, index + 2 < source.count, let high = digit(source[index + 1]),
        let low = digit(source[index + 2])
      {
        bytes.append(high << 4 | low)
        index += 3
      } else {
        bytes.append(source[index])
        index += 1
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Keeps a short extension, cuts the stem; leaves room for the suffixes of a part file and of a renamed copy.
  private static func shortened(_ name: String) -> String {
    let limit = maximumBytes - 32
    guard name.utf8.count > limit else { return name }
    var ending = ""
    if let dot = name.lastIndex(of: "."), name[dot...].utf8.count <= 16 { ending = String(name[dot...]) }
    var stem = String(name.dropLast(ending.count))
    while stem.utf8.count + ending.utf8.count > limit, !stem.isEmpty { stem.removeLast() }
    return stem + ending
  }
}

extension StringProtocol {
  /// The first occurrence of an ASCII text.
  func range(ofText needle: String) -> Range<Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(needle) { return start..<index(start, offsetBy: needle.count) }
      start = index(after: start)
    }
    return nil
  }
}
