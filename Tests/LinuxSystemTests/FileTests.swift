import Glibc
import Testing
import TransferCore

@testable import LinuxSystem

@Suite struct FilesTests {
  @Test func opensOnlyBeneath() throws {
    let folder = try TemporaryDirectory()
    try Files.makePrivateDirectory(folder.path + "/in/deep")
    try folder.file("in/deep/f", "x")
    try folder.file("outside", "secret")
    try prepared(unsafe symlink("../outside", folder.path + "/in/link"))
    try prepared(unsafe symlink("deep", folder.path + "/in/inner"))
    try prepared(unsafe symlink("/etc", folder.path + "/in/etc"))
    let directory = try OwnedDescriptor.openDirectory(folder.path + "/in")
    let raw = directory.raw
    // Both ways must mean the same: the kernel's and the walk of older kernels.
    for walk in [false, true] {
      func open(_ name: String) throws -> OwnedDescriptor {
        try walk
          ? Files.walkBeneath(raw, name, O_RDONLY) : Files.openBeneath(raw, name, .read)
      }
      for name in ["deep/f", "./deep//f"] {
        let file = try open(name)
        #expect(try Files.identity(descriptor: file.raw).sizeBytes == 1, "\(name)")
      }
      for name in ["link", "inner/f", "etc/passwd", "nothing", "deep/f/g"] {
        #expect(throws: SystemError.self, "\(name)") { _ = try open(name) }
      }
    }
    for name in ["../outside", "deep/../../outside", "/etc/passwd", "", "a\0b"] {
      #expect(throws: SystemError.self, "\(name)") { _ = try Files.openBeneath(raw, name, .read) }
    }
    let made = try Files.openBeneath(raw, "deep/new", .readWrite, creating: true)
    #expect(try Files.status(descriptor: made.raw).st_mode & 0o777 == 0o600)
    #expect(errorNumber { _ = try Files.openBeneath(raw, "deep/new", .readWrite, creating: true) } == EEXIST)
  }

  @Test func createsPrivatelyAndNeverThroughALink() throws {
    let folder = try TemporaryDirectory()
    try prepared(unsafe symlink(folder.path + "/target", folder.path + "/link"))
    #expect(errorNumber { _ = try Files.createPrivate(folder.path + "/link") } == EEXIST)
    #expect(!exists(folder.path + "/target"))
  }

  @Test func makesPrivateDirectoriesOnlyOfItsOwn() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/a/b/c"
    try Files.makePrivateDirectory(path)
    try Files.makePrivateDirectory(path + "/")
    #expect(try Files.status(path: path, followingSymlinks: false).st_mode & 0o7777 == 0o700)

    try prepared(unsafe chmod(path, 0o755))
    try Files.makePrivateDirectory(path)
    #expect(try Files.status(path: path, followingSymlinks: false).st_mode & 0o7777 == 0o700)

    try prepared(unsafe chmod(path, 0o720))
    #expect(errorNumber { try Files.makePrivateDirectory(path) } == EPERM)

    try prepared(unsafe symlink(folder.path + "/a", folder.path + "/link"))
    #expect(throws: SystemError.self) { try Files.makePrivateDirectory(folder.path + "/link") }
    let file = try folder.file("file")
    #expect(errorNumber { try Files.makePrivateDirectory(file) } == ENOTDIR)
    #expect(errorNumber { try Files.makePrivateDirectory(file + "/below") } == ENOTDIR)
    #expect(errorNumber { try Files.makePrivateDirectory("relative") } == EINVAL)
  }

  @Test(.enabled(if: geteuid() == 0)) func refusesAnothersDirectory() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/theirs"
    try Files.makePrivateDirectory(path)
    try prepared(unsafe chown(path, 65534, 65534))
    do {
      try Files.makePrivateDirectory(path)
      Issue.record("accepted")
    } catch {
      #expect(error.number == EPERM)
      #expect(error.description.contains("owned by user 65534"))
    }
  }

  @Test func writesAtomically() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/record"
    for content in ["first", "", "a longer one"] {
      try Files.atomicWrite(path, Array(content.utf8))
      #expect(try text(path) == content)
    }
    #expect(throws: SystemError.self) { try Files.atomicWrite(folder.path + "/none/record", []) }
    #expect(try namesIn(folder.path) == ["record"])
    #expect(errorNumber { _ = try Files.read(path, limitBytes: 3) } == EFBIG)
  }

  @Test func identityChangesWithContent() throws {
    let folder = try TemporaryDirectory()
    let path = try folder.file("f", "one")
    let file = try OwnedDescriptor.open(path, .readWrite)
    let first = try Files.identity(path: path)
    #expect(try Files.identity(descriptor: file.raw) == first)
    var times = [timespec(tv_sec: 1, tv_nsec: 1), timespec(tv_sec: 1, tv_nsec: 7)]
    try prepared(unsafe futimens(file.raw, &times))
    let second = try Files.identity(path: path)
    #expect(second != first && second.isSameFile(as: first))
    #expect(second.modifiedNanoseconds == 1_000_000_007)
    try Files.syncFile(file.raw)
    try Files.syncDirectory(folder.path)
    Files.startWriteback(file.raw)
    #expect(try Files.freeBytes(path: folder.path) > 0)
  }
}

/// The names in a folder, sorted.
func namesIn(_ path: String) throws -> [String] {
  guard let directory = unsafe opendir(path) else { throw SystemError.current("opendir", path: path) }
  defer { unsafe closedir(directory) }
  var names: [String] = []
  while let entry = unsafe readdir(directory) {
    let name = unsafe withUnsafePointer(to: entry.pointee.d_name) {
      unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
    }
    if name != "." && name != ".." { names.append(name) }
  }
  return names.sorted()
}

@Suite struct FilePlacementTests {
  @Test func publishesUnderEachPolicy() throws {
    let folder = try TemporaryDirectory()
    let destination = folder.path + "/file.txt"
    #expect(
      try FilePlacement.publish(part: folder.file("p1", "1"), as: destination, policy: .noReplace) == destination)
    let part = try folder.file("p2", "2")
    #expect(throws: FilePlacement.Refusal.nameTaken(path: destination)) {
      try FilePlacement.publish(part: part, as: destination, policy: .noReplace)
    }
    #expect(try text(part) == "2")
    #expect(try text(destination) == "1")
    #expect(
      try FilePlacement.publish(part: part, as: destination, policy: .rename) == folder.path + "/file (1).txt")
    #expect(
      try FilePlacement.publish(part: folder.file("p3", "3"), as: destination, policy: .rename)
        == folder.path + "/file (2).txt")
    #expect(try FilePlacement.publish(part: folder.file("p4", "4"), as: destination, policy: .replace) == destination)
    #expect(try text(destination) == "4")
    #expect(try namesIn(folder.path) == ["file (1).txt", "file (2).txt", "file.txt"])
  }

  @Test func aDanglingLinkTakesTheName() throws {
    let folder = try TemporaryDirectory()
    let destination = folder.path + "/f"
    try prepared(unsafe symlink("nowhere", destination))
    #expect(throws: FilePlacement.Refusal.nameTaken(path: destination)) {
      try FilePlacement.publish(part: folder.file("p"), as: destination, policy: .noReplace)
    }
    #expect(throws: FilePlacement.Refusal.self) {
      try FilePlacement.publish(part: folder.path + "/missing", as: folder.path + "/g", policy: .noReplace)
    }
  }

  @Test func fallsBackToLinksAndThenToReserving() throws {
    let folder = try TemporaryDirectory()
    let taken = try folder.file("taken", "old")
    let fallbacks: [(String, FileIdentity, String) throws -> Bool] = [
      { try FilePlacement.linkUnlessTaken($0, $1, $2) },
      { part, _, path in try FilePlacement.reserveUnlessTaken(part, path) },
    ]
    for (index, fallback) in fallbacks.enumerated() {
      let part = try folder.file("part\(index)", "new")
      let identity = try Files.identity(path: part)
      #expect(try !fallback(part, identity, taken))
      #expect(try text(taken) == "old")
      #expect(try fallback(part, identity, folder.path + "/free\(index)"))
      #expect(try text(folder.path + "/free\(index)") == "new")
      #expect(!exists(part))
    }
  }

  /// A crash between link and unlink leaves both names: publishing again ends it.
  @Test(arguments: [FilePlacement.Policy.noReplace, .rename])
  func finishesWhatACrashLeft(policy: FilePlacement.Policy) throws {
    let folder = try TemporaryDirectory()
    let part = try folder.file("part", "new")
    let destination = folder.path + "/done"
    try prepared(unsafe link(part, destination))
    #expect(try FilePlacement.publish(part: part, as: destination, policy: policy) == destination)
    #expect(try namesIn(folder.path) == ["done"])
    // One file under two spellings of one name must not be taken for two links.
    #expect(throws: FilePlacement.Refusal.nameTaken(path: folder.path + "/./done")) {
      try FilePlacement.publish(part: destination, as: folder.path + "/./done", policy: .noReplace)
    }
    #expect(try text(destination) == "new")
  }

  @Test func findsWhatWasPlacedBeforeACrash() throws {
    let folder = try TemporaryDirectory()
    let destination = try folder.file("f.bin", "other")
    let part = try folder.file("part", "new")
    let identity = try Files.identity(path: part)
    #expect(try FilePlacement.alreadyPlaced(identity, destination: destination, policy: .rename) == nil)
    let placed = try FilePlacement.publish(part: part, as: destination, policy: .rename)
    #expect(try FilePlacement.alreadyPlaced(identity, destination: destination, policy: .rename) == placed)
    #expect(try FilePlacement.alreadyPlaced(identity, destination: destination, policy: .noReplace) == nil)
  }

  @Test func copiesAcrossFilesystems() throws {
    let here = try TemporaryDirectory()
    let there = try TemporaryDirectory(under: "/dev/shm")
    let hereDevice = try Files.identity(path: here.path).device
    try #require(try Files.identity(path: there.path).device != hereDevice)
    let content = String(repeating: "0123456789", count: 100_000)
    let destination = there.path + "/big.tar.gz"
    for (policy, expected) in [
      (FilePlacement.Policy.noReplace, destination), (.rename, there.path + "/big (1).tar.gz"),
      (.replace, destination),
    ] {
      let part = try here.file("part", content)
      let identity = try Files.identity(path: part)
      // Left by an earlier run that was killed.
      try there.file(".ferry-copy-\(identity.device)-\(identity.inode)", "half")
      #expect(try FilePlacement.publish(part: part, as: destination, policy: policy) == expected)
      #expect(try text(expected) == content)
      #expect(!exists(part))
      #expect(try FilePlacement.alreadyPlaced(identity, destination: destination, policy: policy) == expected)
    }
    let part = try here.file("part", "x")
    #expect(throws: FilePlacement.Refusal.nameTaken(path: destination)) {
      try FilePlacement.publish(part: part, as: destination, policy: .noReplace)
    }
    #expect(exists(part))
    #expect(try namesIn(there.path) == ["big (1).tar.gz", "big.tar.gz"])
  }

  @Test(.enabled(if: geteuid() == 0)) func saysHowMuchRoomIsMissing() throws {
    let folder = try TemporaryDirectory()
    let small = folder.path + "/small"
    try Files.makePrivateDirectory(small)
    let mounted = try run("/bin/mount", ["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", small])
    guard mounted == .exited(code: 0) else { return }
    defer { _ = try? run("/bin/umount", [small]) }
    let part = try folder.file("part", String(repeating: "x", count: 100_000))
    do {
      _ = try FilePlacement.publish(part: part, as: small + "/f", policy: .noReplace)
      Issue.record("placed")
    } catch {
      guard case .noSpace(_, let needed, let free) = error else { throw error }
      #expect(needed == 100_000)
      #expect(free <= 65_536)
    }
    #expect(try namesIn(small) == [])
    #expect(exists(part))
  }

  @Test(arguments: [
    ("/d/name.ext", 1, "/d/name (1).ext"), ("/d/name", 2, "/d/name (2)"), ("/d/.bashrc", 1, "/d/.bashrc (1)"),
    ("/d/a.tar.gz", 3, "/d/a (3).tar.gz"), ("/d/.tar.gz", 1, "/d/.tar (1).gz"), ("/d.x/name", 1, "/d.x/name (1)"),
    ("/d/dot.", 1, "/d/dot. (1)"), ("/d/n.ext", 0, "/d/n.ext"),
  ])
  func namesCandidates(path: String, number: Int, expected: String) {
    #expect(FilePlacement.candidate(path, number) == expected)
  }

  @Test func keepsCandidatesWithinTheLimitOfNames() {
    let candidate = FilePlacement.candidate("/d/" + String(repeating: "ü", count: 125) + ".ext", 10)
    #expect(Files.lastComponent(of: candidate).utf8.count <= 255)
    #expect(candidate.hasSuffix("ü (10).ext"))
  }
}

@Suite struct UploadPinTests {
  @Test func prefersReflinkThenHardLink() throws {
    let folder = try TemporaryDirectory()
    let source = try folder.file("source", "body")
    let before = try Files.identity(path: source)
    let pin = try UploadPin.pin(source: source, into: folder.path, name: "pinned", copyBoundBytes: 1 << 20)
    #expect(pin.kind == .reflink || pin.kind == .hardLink)
    if pin.kind == .hardLink { #expect(pin.identity == before) }
    try prepared(unsafe unlink(source))
    #expect(try text(pin.path) == "body")
    #expect(try Files.identity(descriptor: pin.file.raw) == pin.identity)
    let again = try folder.file("source")
    #expect(
      errorNumber { _ = try UploadPin.pin(source: again, into: folder.path, name: "pinned", copyBoundBytes: 0) }
        == EEXIST)
  }

  /// On a small XFS in a file, where this machine can make one.
  @Test(.enabled(if: geteuid() == 0 && exists("/sbin/mkfs.xfs"))) func sharesBlocksWhereTheFilesystemCan() throws {
    let folder = try TemporaryDirectory()
    let image = try folder.file("image", "")
    let file = try OwnedDescriptor.open(image, .write)
    try Files.truncate(file.raw, toBytes: 320 << 20)
    let mount = folder.path + "/mount"
    try Files.makePrivateDirectory(mount)
    try #require(try run("/sbin/mkfs.xfs", ["-q", "-m", "reflink=1", image]) == .exited(code: 0))
    guard try run("/bin/mount", ["-o", "loop", image, mount]) == .exited(code: 0) else { return }
    defer { _ = try? run("/bin/umount", [mount]) }
    let source = try Files.createPrivate(mount + "/source")
    try Syscall.writeAll(source.raw, Array("body".utf8))
    do {
      let pin = try UploadPin.pin(source: mount + "/source", into: mount, name: "pinned", copyBoundBytes: 0)
      #expect(pin.kind == .reflink)
      try Syscall.writeAll(source.raw, Array("BODY".utf8).span, at: 0)
      #expect(try text(pin.path) == "body")
      #expect(try Files.identity(path: pin.path) == pin.identity)
    }
    close(source.take())
  }

  @Test func aHardLinkShowsAWriteInPlaceByItsIdentity() throws {
    let folder = try TemporaryDirectory()
    let source = try folder.file("source", "body")
    let pin = try UploadPin.pin(source: source, into: folder.path, name: "pinned", copyBoundBytes: 0)
    let writer = try OwnedDescriptor.open(source, .write)
    try Syscall.writeAll(writer.raw, Array("BODYBODY".utf8))
    let now = try Files.identity(descriptor: pin.file.raw)
    #expect(pin.kind == .hardLink ? now != pin.identity : now == pin.identity)
  }

  @Test func copiesOrHoldsWhatItCannotLink() throws {
    let folder = try TemporaryDirectory()
    let other = try TemporaryDirectory(under: "/dev/shm")
    let source = try other.file("source", "body")
    let copy = try UploadPin.pin(source: source, into: folder.path, name: "copy", copyBoundBytes: 4)
    #expect(copy.kind == .copy)
    #expect(try text(copy.path) == "body")
    let held = try UploadPin.pin(source: source, into: folder.path, name: "held", copyBoundBytes: 3)
    #expect(held.kind == .none)
    #expect(held.path == source)
    try prepared(unsafe unlink(source))
    var buffer = [UInt8](repeating: 0, count: 8)
    #expect(try Syscall.read(held.file.raw, into: &buffer, at: 0) == 4)
    #expect(try namesIn(folder.path) == ["copy"])
  }

  @Test(.enabled(if: geteuid() == 0)) func neverLinksAnothersFile() throws {
    let folder = try TemporaryDirectory()
    let source = try folder.file("source", "body")
    try prepared(unsafe chown(source, 65534, 65534))
    let pin = try UploadPin.pin(source: source, into: folder.path, name: "pinned", copyBoundBytes: 100)
    #expect(pin.kind == .copy || pin.kind == .reflink)
  }

  @Test func copiesFromTheBeginningWhateverTheOffset() throws {
    let folder = try TemporaryDirectory()
    let other = try TemporaryDirectory(under: "/dev/shm")
    let opened = try OwnedDescriptor.open(other.file("source", "body"), .read)
    #expect(lseek(opened.raw, 3, SEEK_SET) == 3)
    let pin = try UploadPin.pin(
      opened.duplicate(), at: "source", into: folder.path, name: "pinned", copyBoundBytes: 100)
    #expect(try text(pin.path) == "body")
    #expect(lseek(opened.raw, 0, SEEK_CUR) == 3)
  }

  @Test func refusesWhatIsNoRegularFileWithoutHanging() throws {
    let folder = try TemporaryDirectory()
    let fifo = folder.path + "/fifo"
    try prepared(unsafe mkfifo(fifo, 0o600))
    for (source, name, number) in [
      (fifo, "p", EINVAL), (folder.path, "p", EINVAL), ("/dev/zero", "p", EINVAL), (folder.path + "/none", "p", ENOENT),
      (try folder.file("f"), "../p", EINVAL),
    ] {
      #expect(
        errorNumber { _ = try UploadPin.pin(source: source, into: folder.path, name: name, copyBoundBytes: 9) }
          == number)
    }
    let writeOnly = try OwnedDescriptor.open(folder.path + "/f", .write)
    #expect(
      errorNumber {
        _ = try UploadPin.pin(
          OwnedDescriptor.duplicate(of: writeOnly.raw), at: "f", into: folder.path, name: "p", copyBoundBytes: 9)
      } == EBADF)
  }
}

@Suite struct FilesystemMapTests {
  private let table = """
    27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
    22 27 0:21 / /proc rw,relatime - proc proc rw
    40 27 0:40 / /home rw shared:1 - btrfs /dev/sdb rw
    41 40 0:41 / /home/net rw shared:2 master:3 - nfs4 server:/export rw
    42 27 0:42 / /media/My\\040Disk\\134x rw - fuse.sshfs a@b:/ rw
    43 27 0:43 / /covered rw - xfs /dev/sdc rw
    44 43 0:44 / /covered/below rw - cifs //s/share rw
    45 43 0:45 / /covered rw - tmpfs tmpfs rw
    46 27 0:46 / /odd rw - newfs x rw
    not a line
    """

  @Test(arguments: [
    ("/", "/", true), ("/etc/passwd", "/", true), ("/home", "/home", true), ("/home/me/file", "/home", true),
    ("/home/net/a", "/home/net", false), ("/home/network/a", "/home", true), ("/homestead", "/", true),
    ("/home/./net//a", "/home/net", false), ("/home/net/../a", "/home", true), ("/../..", "/", true),
    ("/media/My Disk\\x/f", "/media/My Disk\\x", false), ("/odd/f", "/odd", false),
  ])
  func findsTheMountOfAPath(path: String, mountPoint: String, isLocal: Bool) {
    let found = FilesystemMap(mountinfo: table).filesystem(of: path)
    #expect(found?.mountPoint == mountPoint)
    #expect(found?.isLocal == isLocal)
  }

  @Test func aLaterMountCoversWhatLiesBelow() {
    let found = FilesystemMap(mountinfo: table).filesystem(of: "/covered/below/file")
    #expect(found?.type == "tmpfs")
    #expect(found?.mountID == 45)
  }

  @Test func survivesTablesThatAreNoTree() {
    #expect(FilesystemMap(mountinfo: "").filesystem(of: "/a") == nil)
    #expect(FilesystemMap(mountinfo: table).filesystem(of: "relative") == nil)
    let cycle = "1 2 0:1 / / rw - ext4 a rw\n2 1 0:2 / / rw - xfs b rw\n"
    #expect(FilesystemMap(mountinfo: cycle).filesystem(of: "/a") != nil)
    let rootless = "5 4 0:1 / /home rw - nfs a rw\n"
    #expect(FilesystemMap(mountinfo: rootless).filesystem(of: "/home/x")?.type == "nfs")
    #expect(FilesystemMap(mountinfo: rootless).filesystem(of: "/tmp") == nil)
  }

  @Test func unescapesAsTheKernelEscapes() {
    #expect(FilesystemMap.unescape(#"a\040b\011c\012d\134e"#) == "a b\tc\nd\\e")
    #expect(FilesystemMap.unescape(#"end\04"#) == #"end\04"#)
    #expect(FilesystemMap.unescape(#"\999\400"#) == #"\999\400"#)
  }

  @Test func knowsThisMachine() throws {
    let map = try FilesystemMap.current()
    #expect(map.filesystem(of: "/proc/self/status")?.type == "proc")
    #expect(map.filesystem(of: "/dev/shm/x")?.type == "tmpfs")
  }

  @Test(arguments: ["nfs", "nfs4", "cifs", "smb3", "fuse", "fuse.sshfs", "fuseblk", "9p", "ceph", "afs", "autofs"])
  func remoteTypesAreNotLocal(type: String) {
    #expect(!Filesystem(mountID: 1, mountPoint: "/", device: "8:1", type: type).isLocal)
  }
}
