#if !canImport(Darwin)
  internal import Foundation

  /// What Apple's background sessions refuse with an exception, in the same words. `fatalError` and not a precondition,
  /// because an optimised precondition says nothing.
  enum Refusal {
    static func completionHandler() -> Never {
      fatalError("Completion handler blocks are not supported in background sessions. Use a delegate instead.")
    }

    static func uploadFromMemory() -> Never {
      fatalError("Upload tasks from NSData are not supported in background sessions.")
    }

    static func uploadFromStream() -> Never {
      fatalError("Upload tasks from streams are not supported in background sessions.")
    }

    static func unreadable(_ file: URL) -> Never {
      fatalError("Cannot read file at \(file.absoluteString)")
    }

    static func canRead(_ file: URL) -> Bool {
      guard file.isFileURL,
        let type = try? FileManager.default.attributesOfItem(atPath: file.resolvingSymlinksInPath().path)[.type],
        type as? FileAttributeType == .typeRegular
      else { return false }
      return FileManager.default.isReadableFile(atPath: file.path)
    }
  }
#endif
