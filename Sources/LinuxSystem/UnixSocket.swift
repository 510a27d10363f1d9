import CLinux
import Glibc

/// Who is at the other end of a Unix socket, as the kernel saw it when the connection was made (unix(7), SO_PEERCRED).
package struct PeerCredentials: Hashable, Sendable {
  package let userID: UInt32
  package let groupID: UInt32
  package let processID: Int32
}

/// Stream sockets in the filesystem, and descriptors that travel over them.
package enum UnixSocket {
  // MARK: Endpoints

  /// Binds and listens; the listener is non-blocking, its file has mode 0600.
  ///
  /// A socket file that nobody listens on (connecting is refused) is replaced; the caller holds the instance lock, so
  /// nobody else does the same now. EADDRINUSE when somebody listens, or when the name belongs to anything but a
  /// socket of this user. Paths longer than the kernel takes are reached through a descriptor of their folder.
  package static func listen(_ path: String, backlog: Int32 = 128) throws(SystemError) -> OwnedDescriptor {
    let socket = try make()
    // unix_bind() takes the mode of the socket's own inode, less the umask, for the file: no moment with a wider mode.
    try Syscall.retrying("fchmod") { fchmod(socket.raw, 0o600) }
    do {
      try bind(socket.raw, path)
    } catch  where error.number == EADDRINUSE {
      try removeStale(path)
      try bind(socket.raw, path)
    }
    try Syscall.retrying("listen", path: path) { Glibc.listen(socket.raw, backlog) }
    return socket
  }

  /// Connects. ENOENT: no such socket; ECONNREFUSED: a socket file without a listener; EAGAIN (only when
  /// `nonblocking`): the listener's backlog is full.
  package static func connect(_ path: String, nonblocking: Bool = false) throws(SystemError) -> OwnedDescriptor {
    let socket = try make()
    if !nonblocking { try Syscall.setNonblocking(socket.raw, false) }
    try withKernelPath(path) { name throws(SystemError) in
      try Syscall.retrying("connect", path: path) { unsafe clinux_unix_connect(socket.raw, name) }
    }
    return socket
  }

  /// The next connection, non-blocking and close-on-exec; nil when there is none (any more).
  ///
  /// EMFILE and ENFILE are thrown while the connection stays in the backlog: a level-triggered loop must stop
  /// listening to the socket for a while.
  package static func accept(_ listener: Int32) throws(SystemError) -> OwnedDescriptor? {
    while true {
      let raw = clinux_accept(listener)
      if raw >= 0 { return OwnedDescriptor(adopting: raw) }
      switch errno {
      case EINTR, ECONNABORTED, EPROTO: continue
      case EAGAIN: return nil
      case let number: throw SystemError(number, operation: "accept4")
      }
    }
  }

  package static func peerCredentials(_ socket: Int32) throws(SystemError) -> PeerCredentials {
    var user: UInt32 = 0
    var group: UInt32 = 0
    var process: Int32 = 0
    guard unsafe clinux_peer_credentials(socket, &user, &group, &process) == 0 else {
      throw .current("getsockopt SO_PEERCRED")
    }
    return PeerCredentials(userID: user, groupID: group, processID: process)
  }

  /// Two connected stream sockets.
  package static func socketPair(nonblocking: Bool = true) throws(SystemError) -> SocketPair {
    var raws: [Int32] = [-1, -1]
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | (nonblocking ? SOCK_NONBLOCK.rawValue : 0))
    try Syscall.retrying("socketpair") { unsafe socketpair(AF_UNIX, type, 0, &raws) }
    return SocketPair(first: OwnedDescriptor(adopting: raws[0]), second: OwnedDescriptor(adopting: raws[1]))
  }

  // MARK: Messages

  /// The most descriptors one message may carry. The kernel's own limit is 253 (SCM_MAX_FD); ours keeps what a hostile
  /// peer can make us hold small.
  package static let descriptorsPerMessage = 16

  /// Sends some of `bytes`, and all of `descriptors` with the first of them; says how many bytes went, nil when there
  /// is no room (nothing was sent then, no descriptor either). The descriptors stay the caller's.
  ///
  /// EPIPE and ECONNRESET: the peer is gone (no SIGPIPE). EINVAL: descriptors without a byte to carry them, or too
  /// many.
  package static func send(
    _ socket: Int32, _ bytes: Span<UInt8>, descriptors: [Int32] = []
  ) throws(SystemError) -> Int? {
    guard descriptors.isEmpty || !bytes.isEmpty, descriptors.count <= descriptorsPerMessage else {
      throw SystemError(
        EINVAL, operation: "sendmsg",
        detail: "descriptors need a byte to carry them and are at most \(descriptorsPerMessage)")
    }
    return try Syscall.retryingUnlessBlocked("sendmsg") {
      unsafe bytes.withUnsafeBytes { bytes in
        unsafe clinux_send_descriptors(socket, bytes.baseAddress, bytes.count, descriptors, descriptors.count)
      }
    }
  }

  /// What one call of `receive` brought.
  package struct Received: ~Copyable {
    /// Bytes at the start of the buffer; 0 is the end of the stream.
    package let count: Int
    package var descriptors: DescriptorBatch
  }

  /// Receives at most `buffer.count` bytes and the descriptors that came with them, close-on-exec; nil: nothing there.
  ///
  /// Truncated control data (more descriptors than `descriptorsPerMessage`, or than this process may open) throws
  /// EBADMSG after closing whatever did arrive: what is left cannot be matched to messages any more, so the caller
  /// ends the connection.
  package static func receive(
    _ socket: Int32, into buffer: inout [UInt8]
  ) throws(SystemError) -> Received? {
    try receive(socket, into: &buffer, capacity: descriptorsPerMessage)
  }

  static func receive(
    _ socket: Int32, into buffer: inout [UInt8], capacity: Int
  ) throws(SystemError) -> Received? {
    guard !buffer.isEmpty else { throw SystemError(EINVAL, operation: "recvmsg", detail: "an empty buffer") }
    var raws = [Int32](repeating: -1, count: capacity)
    var arrived = 0
    var truncated: Int32 = 0
    let count = try Syscall.retryingUnlessBlocked("recvmsg") {
      unsafe buffer.withUnsafeMutableBytes { bytes in
        unsafe clinux_receive_descriptors(
          socket, bytes.baseAddress, bytes.count, &raws, capacity, &arrived, &truncated)
      }
    }
    guard let count else { return nil }
    guard truncated == 0 else {
      throw SystemError(
        EBADMSG, operation: "recvmsg",
        detail: "the control data was truncated: too many descriptors in one message, or too many open")
    }
    return Received(count: count, descriptors: DescriptorBatch(adopting: Array(raws.prefix(arrived))))
  }

  // MARK: Addresses

  private static func make() throws(SystemError) -> OwnedDescriptor {
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
    return try OwnedDescriptor(adopting: Syscall.retrying("socket") { socket(AF_UNIX, type, 0) })
  }

  private static func bind(_ socket: Int32, _ path: String) throws(SystemError) {
    try withKernelPath(path) { name throws(SystemError) in
      try Syscall.retrying("bind", path: path) { unsafe clinux_unix_bind(socket, name) }
    }
  }

  private static func removeStale(_ path: String) throws(SystemError) {
    let found = try Files.status(path: path, followingSymlinks: false)
    // Connecting to a file that is no socket is refused just as connecting to a dead socket is, hence this check.
    guard found.st_mode & S_IFMT == S_IFSOCK, found.st_uid == geteuid() else {
      throw SystemError(
        EADDRINUSE, operation: "bind", path: path,
        detail: "the name belongs to something that is not a socket of this user; move it away")
    }
    do {
      _ = try connect(path, nonblocking: true)
    } catch  where error.number == ECONNREFUSED {
      try Files.remove(path)
      return
    } catch  where error.number == ENOENT {
      return
    } catch  where error.number == EAGAIN {
      throw SystemError(EADDRINUSE, operation: "bind", path: path, detail: "another process listens there")
    }
    throw SystemError(EADDRINUSE, operation: "bind", path: path, detail: "another process listens there")
  }

  /// Calls `body` with a name of `path` that fits into an address. Too long a path becomes `/proc/self/fd/N/name`, N
  /// being its folder.
  private static func withKernelPath(
    _ path: String, _ body: (String) throws(SystemError) -> Void
  ) throws(SystemError) {
    guard !path.isEmpty, !path.utf8.contains(0) else {
      throw SystemError(EINVAL, operation: "socket address", path: path, detail: "empty, or with a NUL byte")
    }
    let limit = clinux_unix_path_limit()
    if path.utf8.count <= limit { return try body(path) }
    let parent = Files.parent(of: path)
    let folder = OwnedDescriptor(
      adopting: try Syscall.retrying("open", path: parent) { unsafe clinux_open_directory_path(parent) })
    let text = "/proc/self/fd/\(folder.raw)/\(Files.lastComponent(of: path))"
    guard text.utf8.count <= limit else {
      throw SystemError(
        ENAMETOOLONG, operation: "socket address", path: path, detail: "its last component is too long for a socket")
    }
    try body(text)
    // The name is good only while the folder is open.
    withExtendedLifetime(folder) {}
  }
}

/// Both ends of a socket pair.
package struct SocketPair: ~Copyable, Sendable {
  package let first: OwnedDescriptor
  package let second: OwnedDescriptor

  /// The pair in two hands: returns the first end, `second` receives the other.
  package consuming func split(second other: inout OwnedDescriptor?) -> OwnedDescriptor {
    other = consume second
    return first
  }
}
