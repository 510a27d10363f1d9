import CLinux
import Glibc

/// A file descriptor with exactly one owner, closed when that owner goes. All openers here set close-on-exec.
///
/// Keep the owner in a variable while `raw` is used: in `use(try open(path, .read).raw)` the owner is a temporary, gone
/// before `use` begins.
package struct OwnedDescriptor: ~Copyable, Sendable {
  package let raw: Int32

  /// Takes ownership of an open descriptor.
  package init(adopting raw: Int32) {
    self.raw = raw
  }

  deinit {
    // close(2): on Linux the descriptor is gone even after EINTR; trying again would close somebody else's.
    _ = Glibc.close(raw)
  }

  /// Hands the ownership to the caller, who closes it.
  package consuming func take() -> Int32 {
    let raw = raw
    discard self
    return raw
  }

  /// A second descriptor of the same open file description.
  package borrowing func duplicate() throws(SystemError) -> OwnedDescriptor {
    try OwnedDescriptor.duplicate(of: raw)
  }

  package static func duplicate(of raw: Int32) throws(SystemError) -> OwnedDescriptor {
    let copy = fcntl(raw, F_DUPFD_CLOEXEC, 0)
    guard copy >= 0 else { throw .current("fcntl F_DUPFD_CLOEXEC") }
    return OwnedDescriptor(adopting: copy)
  }

  /// How to open an existing file.
  package enum Access: Sendable {
    case read, write, readWrite

    var flags: Int32 {
      switch self {
      case .read: O_RDONLY
      case .write: O_WRONLY
      case .readWrite: O_RDWR
      }
    }
  }

  /// Opens an existing file. `O_NONBLOCK` is set, so that a FIFO in the place of a file cannot hang the caller; it has
  /// no effect on regular files (open(2)).
  package static func open(
    _ path: String, _ access: Access, followingSymlinks: Bool = true
  ) throws(SystemError) -> OwnedDescriptor {
    let flags = access.flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (followingSymlinks ? 0 : O_NOFOLLOW)
    return try OwnedDescriptor(
      adopting: Syscall.retrying("open", path: path) { unsafe Glibc.open(path, flags) })
  }

  /// Opens a directory for reading, syncing or as the start of `Files.openBeneath`.
  package static func openDirectory(
    _ path: String, followingSymlinks: Bool = true
  ) throws(SystemError) -> OwnedDescriptor {
    let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (followingSymlinks ? 0 : O_NOFOLLOW)
    return try OwnedDescriptor(
      adopting: Syscall.retrying("open", path: path) { unsafe Glibc.open(path, flags) })
  }

  /// An eventfd with a counter of zero. Blocking unless said otherwise.
  static func eventCounter(nonblocking: Bool) throws(SystemError) -> OwnedDescriptor {
    let flags = Int32(EFD_CLOEXEC) | (nonblocking ? Int32(EFD_NONBLOCK) : 0)
    return try OwnedDescriptor(adopting: Syscall.retrying("eventfd") { eventfd(0, flags) })
  }
}

/// Descriptors that arrived together, in order. Those nobody took are closed when it goes.
package struct DescriptorBatch: ~Copyable, Sendable {
  private var raws: [Int32]

  package init(adopting raws: [Int32] = []) {
    self.raws = raws
  }

  deinit {
    for raw in raws { _ = Glibc.close(raw) }
  }

  package var count: Int { raws.count }
  package var isEmpty: Bool { raws.isEmpty }

  /// The first of those left.
  package mutating func takeFirst() -> OwnedDescriptor? {
    raws.isEmpty ? nil : OwnedDescriptor(adopting: raws.removeFirst())
  }

  /// Hands all that are left to the caller, who closes them.
  package mutating func takeAll() -> [Int32] {
    let all = raws
    raws = []
    return all
  }

  /// Moves the descriptors of `other` behind those here.
  package mutating func append(_ other: consuming DescriptorBatch) {
    raws += other.takeAll()
  }
}
