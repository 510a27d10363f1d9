// One import gives a program what `import Foundation` gives it on Apple's systems: Foundation, the value types of
// FoundationNetworking, and this module's URLSession, which shadows FoundationNetworking's.
@_exported public import Foundation

#if !canImport(Darwin)
  @_exported public import FoundationNetworking
#endif
