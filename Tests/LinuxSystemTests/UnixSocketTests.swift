import Glibc
import Testing

@testable import LinuxSystem

@Suite struct UnixSocketTests {
  private func receive(_ raw: Int32, _ buffer: inout [UInt8]) throws -> (Int, [Int32]) {
    _ = try Syscall.poll(raw, for: .readable, timeoutMilliseconds: 20_000)
    guard var received = try UnixSocket.receive(raw, into: &buffer) else { return (-1, []) }
    return (received.count, received.descriptors.takeAll())
  }

  private func exchange(_ path: String) throws {
    let listener = try UnixSocket.listen(path)
    #expect(try UnixSocket.accept(listener.raw) == nil)
    let client = try UnixSocket.connect(path)
    _ = try Syscall.poll(listener.raw, for: .readable, timeoutMilliseconds: 20_000)
    let server = try UnixSocket.accept(listener.raw)?.take() ?? -1
    defer { close(server) }
    #expect(
      try UnixSocket.peerCredentials(server)
        == PeerCredentials(userID: geteuid(), groupID: getegid(), processID: getpid()))
    #expect(fcntl(server, F_GETFD) & FD_CLOEXEC != 0)
    #expect(fcntl(server, F_GETFL) & O_NONBLOCK != 0)
    let hello = Array("hello".utf8)
    #expect(try UnixSocket.send(client.raw, hello.span) == 5)
    var buffer = [UInt8](repeating: 0, count: 64)
    #expect(try receive(server, &buffer).0 == 5)
    #expect(Array(buffer.prefix(5)) == hello)
    let mode = try Files.status(path: path, followingSymlinks: false).st_mode
    #expect(mode & 0o7777 == 0o600)
  }

  @Test func listensConnectsAndKnowsItsPeer() throws {
    let folder = try TemporaryDirectory()
    try exchange(folder.path + "/s.sock")
  }

  @Test func reachesAPathLongerThanTheKernelTakes() throws {
    let folder = try TemporaryDirectory()
    let deep = folder.path + "/" + Array(repeating: String(repeating: "d", count: 60), count: 4).joined(separator: "/")
    try Files.makePrivateDirectory(deep)
    try exchange(deep + "/ferryd.sock")
    let long = deep + "/" + String(repeating: "n", count: 120)
    #expect(errorNumber { _ = try UnixSocket.listen(long) } == ENAMETOOLONG)
  }

  @Test func replacesOnlyADeadSocket() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/s.sock"
    do {
      let first = try UnixSocket.listen(path)
      #expect(errorNumber { _ = try UnixSocket.listen(path) } == EADDRINUSE)
      #expect(try UnixSocket.connect(path).raw >= 0)
      withExtendedLifetime(first) {}
    }
    #expect(errorNumber { _ = try UnixSocket.connect(path) } == ECONNREFUSED)
    let second = try UnixSocket.listen(path)
    #expect(try UnixSocket.connect(path).raw >= 0)
    withExtendedLifetime(second) {}

    // Connecting to a regular file is refused as well: it must not be taken for a dead socket.
    let file = try folder.file("file", "precious")
    #expect(errorNumber { _ = try UnixSocket.listen(file) } == EADDRINUSE)
    #expect(try text(file) == "precious")
  }

  @Test func aFullBacklogIsSomebodyWhoListens() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/s.sock"
    let listener = try UnixSocket.listen(path, backlog: 0)
    let first = try UnixSocket.connect(path, nonblocking: true)
    #expect(errorNumber { _ = try UnixSocket.connect(path, nonblocking: true) } == EAGAIN)
    #expect(errorNumber { _ = try UnixSocket.listen(path) } == EADDRINUSE)
    withExtendedLifetime(listener) {}
    withExtendedLifetime(first) {}
  }

  @Test func carriesDescriptorsInOrder() throws {
    let folder = try TemporaryDirectory()
    let pair = try UnixSocket.socketPair()
    let one = try OwnedDescriptor.open(folder.file("1", "one"), .read)
    let two = try OwnedDescriptor.open(folder.file("2", "two!"), .read)
    let bytes: [UInt8] = [1, 2, 3]
    #expect(try UnixSocket.send(pair.first.raw, bytes.span, descriptors: [one.raw, two.raw]) == 3)
    var buffer = [UInt8](repeating: 0, count: 8)
    let (count, raws) = try receive(pair.second.raw, &buffer)
    var batch = DescriptorBatch(adopting: raws)
    #expect(count == 3)
    #expect(batch.count == 2)
    let first = batch.takeFirst()?.take() ?? -1
    let second = batch.takeFirst()?.take() ?? -1
    defer { for raw in [first, second] { close(raw) } }
    #expect(fcntl(first, F_GETFD) & FD_CLOEXEC != 0)
    #expect(try Files.identity(descriptor: first) == Files.identity(descriptor: one.raw))
    #expect(try Files.identity(descriptor: second) == Files.identity(descriptor: two.raw))
  }

  @Test func truncatedControlDataIsAnErrorAndLeaksNothing() throws {
    let folder = try TemporaryDirectory()
    let path = try folder.file("1")
    let file = try OwnedDescriptor.open(path, .read)
    let pair = try UnixSocket.socketPair()
    let bytes: [UInt8] = [7]
    for (sent, capacity) in [(3, 2), (2, 1), (16, 15), (1, 0)] {
      let raws = [Int32](repeating: file.raw, count: sent)
      #expect(try UnixSocket.send(pair.first.raw, bytes.span, descriptors: raws) == 1)
      var buffer = [UInt8](repeating: 0, count: 8)
      #expect(
        errorNumber { _ = try UnixSocket.receive(pair.second.raw, into: &buffer, capacity: capacity) } == EBADMSG)
    }
    #expect(try descriptorsOpen(on: path) == 1)
    #expect(
      errorNumber {
        _ = try UnixSocket.send(
          pair.first.raw, bytes.span, descriptors: [Int32](repeating: file.raw, count: 17))
      } == EINVAL)
  }

  /// Descriptors of this process that stand for the file at `path`.
  private func descriptorsOpen(on path: String) throws -> Int {
    let wanted = try Files.identity(path: path)
    return (0..<1024).count { (raw: Int32) in
      (try? Files.identity(descriptor: raw)).map { $0.isSameFile(as: wanted) } ?? false
    }
  }

  @Test func saysWhenThereIsNothingNoRoomOrNoPeer() throws {
    var second: OwnedDescriptor?
    let first = try UnixSocket.socketPair().split(second: &second)
    var buffer = [UInt8](repeating: 0, count: 8)
    let raw = second.take()!.take()
    #expect(try UnixSocket.receive(raw, into: &buffer) == nil)
    let block = [UInt8](repeating: 0, count: 1 << 16)
    var sends = 0
    while let sent = try UnixSocket.send(first.raw, block.span) {
      sends += 1
      try #require(sent > 0 && sends < 10_000)
    }
    #expect(sends > 0)
    close(raw)
    let number = errorNumber { _ = try UnixSocket.send(first.raw, block.span) }
    #expect(number == EPIPE || number == ECONNRESET)
  }

  @Test func endOfStreamIsZeroBytes() throws {
    var second: OwnedDescriptor?
    let first = try UnixSocket.socketPair().split(second: &second)
    second = nil
    var buffer = [UInt8](repeating: 0, count: 8)
    #expect(try receive(first.raw, &buffer).0 == 0)
  }
}
