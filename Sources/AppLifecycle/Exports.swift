// One import gives a program what `import UIKit` or `import SwiftUI` gives it on Apple's systems, as far as a program
// without a screen can have it: the life cycle here, URLSession, Foundation, and Observation.
@_exported public import BackgroundURLSession
@_exported public import Observation

#if canImport(SwiftUI)
  @_exported public import SwiftUI
#endif
#if canImport(UIKit)
  @_exported public import UIKit
#endif
