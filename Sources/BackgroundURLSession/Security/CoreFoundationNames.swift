#if !canImport(Darwin)
  public import Foundation

  // The few names of Core Foundation that code about certificates uses: on Linux they are Swift's own types, so that
  // `data as CFData` and `chain as? [SecCertificate]` compile as they stand.

  /// Bytes.
  public typealias CFData = Data
  /// A list of anything.
  public typealias CFArray = [Any]
  /// A text.
  public typealias CFString = String
  /// A count.
  public typealias CFIndex = Int
  /// Anything.
  public typealias CFTypeRef = Any
  /// An error.
  public typealias CFError = NSError

  /// Who allocates: nobody here chooses.
  public enum CFAllocator: Sendable {}

  /// Nil, as what it stands for.
  public let kCFAllocatorDefault: CFAllocator? = nil
#endif
