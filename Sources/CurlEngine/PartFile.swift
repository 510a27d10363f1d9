package import LinuxSystem

/// An opened part file. Whoever gets it owns the descriptor.
package struct PartFile: Sendable {
  /// Open for writing, close-on-exec.
  package var descriptor: Int32
  /// Its length in bytes.
  package var size: Int64
  package var access: FileAccess

  package init(descriptor: Int32, size: Int64, access: FileAccess) {
    self.descriptor = descriptor
    self.size = size
    self.access = access
  }
}

/// The opened source of an upload. Whoever gets it owns the descriptor.
package struct BodyFile: Sendable {
  /// Open for reading, close-on-exec.
  package var descriptor: Int32
  package var access: FileAccess

  /// In place of a file: then `descriptor` is -1.
  package var feed: BodyFeed?

  package init(descriptor: Int32, access: FileAccess) {
    self.descriptor = descriptor
    self.access = access
  }

  package init(feed: BodyFeed, access: FileAccess) {
    self.init(descriptor: -1, access: access)
    self.feed = feed
  }
}

/// How the calls on a file are made.
package struct FileAccess: Sendable {
  /// On a local filesystem the loop thread reads and writes itself; on one that can hang (NFS, FUSE) every call is the
  /// worker's.
  package var isLocal: Bool
  /// The worker of the file's filesystem. It also syncs local files.
  package var worker: any FileWorker
  /// False for a file that need not outlive its process: it is never synced.
  package var isDurable = true
  /// What writing must leave free.
  package var keptRoom: KeptRoom?

  package init(isLocal: Bool, worker: any FileWorker) {
    self.isLocal = isLocal
    self.worker = worker
  }
}

/// A thread for file calls that may block.
package protocol FileWorker: AnyObject, Sendable {
  /// Runs `call` later on the worker's thread, after all those submitted before it; false when its queue is full.
  func submit(_ call: @escaping @Sendable () -> Void) -> Bool
}
