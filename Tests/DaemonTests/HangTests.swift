import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// What hangs (a resolver, a mount, a slow disk) stops nobody else.
@Suite(.timeLimit(.minutes(5))) struct HangTests {
  private static let canMount = geteuid() == 0 && SmallFilesystem.isPossible
  private static let hasFUSE = canMount && Shell.isWritable("/dev/fuse")
  private static let hasCompiler = Shell.isExecutable("/usr/bin/cc")

  /// A nameserver that takes questions and never answers, on a loopback address of its own.
  private final class SilentNameserver {
    let address: String
    private let descriptor: Int32

    init() throws {
      let raw = socket(AF_INET, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
      descriptor = raw
      for _ in 0..<50 {
        let parts = (UInt8.random(in: 1...254), UInt8.random(in: 1...254))
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = UInt16(53).bigEndian
        name.sin_addr.s_addr = (UInt32(127) << 24 | UInt32(77) << 16 | UInt32(parts.0) << 8 | UInt32(parts.1)).bigEndian
        let result = unsafe withUnsafePointer(to: &name) { pointer in
          unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe bind(raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
          }
        }
        if result == 0 {
          address = "127.77.\(parts.0).\(parts.1)"
          return
        }
      }
      address = ""
      throw Late("a port 53 on some loopback address")
    }

    deinit { close(descriptor) }

    /// Whether somebody has asked.
    func wasAsked(seconds: Double) throws -> Bool {
      try !Syscall.poll(descriptor, for: .readable, timeoutMilliseconds: Int32(seconds * 1000)).isEmpty
    }
  }

  @Test(.enabled(if: canMount, "needs the right to mount in a namespace of its own"))
  func aResolverThatHangsStopsNobodyElse() throws {
    let nameserver = try SilentNameserver()
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 1_000_000, seed: 3)
    server.put("/f", content)
    let home = try DaemonHome()
    try Files.atomicWrite(
      home.path + "/resolv.conf", Array("nameserver \(nameserver.address)\noptions timeout:20 attempts:3\n".utf8))
    try Files.atomicWrite(home.path + "/nsswitch.conf", Array("hosts: files dns\n".utf8))
    let script = """
      mount --bind '\(home.path)/resolv.conf' "$(realpath /etc/resolv.conf)" &&
      mount --bind '\(home.path)/nsswitch.conf' /etc/nsswitch.conf &&
      exec '\(DaemonHome.executable("ferryd"))' --foreground
      """
    let daemon = try Program(
      "/usr/bin/unshare", ["-m", "/bin/sh", "-c", script],
      environment: home.environment.merging(["PATH": "/usr/sbin:/usr/bin:/sbin:/bin"]) { $1 }, folder: home.path)
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    // More names than may be looked up at once, each of a host of its own.
    let hanging = try client.enqueue(
      (0..<48).map { .download("http://host\($0).ferry.test/x", to: home.out + "/x\($0)") }, in: session)
    #expect(try nameserver.wasAsked(seconds: 30), "the look-ups must hang, not fail: \(daemon.errorText)")
    let began = ContinuousClock.now
    let id = try client.download(server.url("/f"), to: home.out + "/f", in: session)
    let task = try client.waitForEnd(of: id)
    #expect(task.state == "succeeded")
    expectContent(task.file, content)
    // An attempt that hangs can be taken back, and at once.
    let first = try #require(hanging[0].id)
    _ = try client.call(.taskCancel(TaskIdentifiersParameters(ids: [first])), TaskIdentifiersResult.self)
    #expect(try client.waitForEnd(of: first).state == "cancelled")
    #expect(ContinuousClock.now - began < .seconds(10), "that took as long as a look-up")
    let stopped = ContinuousClock.now
    daemon.signal(SIGTERM)
    #expect(try daemon.wait() == .exited(code: 0))
    #expect(ContinuousClock.now - stopped < .seconds(5))
  }

  /// A mount that can be made to hang.
  private final class HangingMount {
    let path: String
    private let home: DaemonHome
    private let program: Program
    private var control: String { home.path + "/hang" }

    init(_ home: DaemonHome) throws {
      self.home = home
      path = home.path + "/mnt"
      try Files.makePrivateDirectory(path)
      program = try Program(
        "/usr/bin/python3",
        [Files.parent(of: #filePath) + "/Fixtures/hanging_filesystem.py", path, home.path + "/hang"],
        environment: home.environment, folder: home.path)
      try eventually("it is mounted: \(program.errorText)", is: { program.outputText.contains("mounted") })
    }

    deinit { end() }

    func hang() throws { try Files.atomicWrite(control, []) }
    func goOn() throws { try Files.remove(control) }

    /// With its server the mount's calls end in errors.
    func end() {
      program.kill()
      _ = try? Shell.run("/bin/umount", ["-l", path])
    }
  }

  @Test(.enabled(if: hasFUSE, "needs /dev/fuse and the right to mount"))
  func aDeadMountStopsOnlyItsOwnTasks() throws {
    let server = try ContentServer()
    defer { server.stop() }
    let content = GeneratedContent(length: 6_000_000, seed: 3)
    server.put("/dead", content) { $0.throttled(bytes: 64 << 10, every: .milliseconds(5)) }
    for path in ["/well", "/later"] { server.put(path, content) }
    server.put("/after", content) { $0.throttled(bytes: 64 << 10, every: .milliseconds(5)) }
    let home = try DaemonHome()
    let mount = try HangingMount(home)
    defer { mount.end() }
    let daemon = try home.startForeground()
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let dead = try client.download(server.url("/dead"), to: mount.path + "/dead", in: session)
    try client.waitForBytes(of: dead, atLeast: 1_000_000)
    try mount.hang()
    // Accepting a task looks at its folder, and hangs too; its answer comes when the mount does.
    let asked = try client.send(
      .taskEnqueue(
        TaskEnqueueParameters(session: session, tasks: [.download(server.url("/later"), to: mount.path + "/later")])))
    let began = ContinuousClock.now
    let well = try client.download(server.url("/well"), to: home.out + "/well", in: session)
    let task = try client.waitForEnd(of: well)
    #expect(task.state == "succeeded")
    expectContent(task.file, content)
    #expect(try client.show(dead).state == "running")
    #expect(ContinuousClock.now - began < .seconds(10))
    try mount.goOn()
    #expect(try client.waitForEnd(of: dead).state == "succeeded")
    expectContent(mount.path + "/dead", content)
    let later = try #require(try client.reply(to: asked, TaskEnqueueResult.self).tasks[0].id)
    #expect(try client.waitForEnd(of: later).state == "succeeded")
    expectContent(mount.path + "/later", content)
    // It hangs again in the middle of a write, which the kernel lets nobody end. The daemon stops all the same: it lets
    // go of its state, and the next one goes on while the old process is still held by the mount.
    let last = try client.download(server.url("/after"), to: mount.path + "/after", in: session)
    try client.waitForBytes(of: last, atLeast: 500_000)
    try mount.hang()
    let stopped = ContinuousClock.now
    daemon.signal(SIGTERM)
    try eventually("the daemon lets go", is: { home.daemonProcessID == nil })
    #expect(ContinuousClock.now - stopped < .seconds(5))
    try home.startForeground()
    let next = try home.connect()
    server.put("/more", content)
    let more = try next.download(server.url("/more"), to: home.out + "/more", in: try next.open("s", collects: false))
    #expect(try next.waitForEnd(of: more).state == "succeeded")
    try mount.goOn()
    #expect(try daemon.wait() == .exited(code: 0))
    #expect(try next.waitForEnd(of: last).state == "succeeded")
    expectContent(mount.path + "/after", content)
  }

  /// fdatasync(2) takes two seconds for files of one folder.
  private static let slowDisk = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    #include <string.h>
    #include <unistd.h>
    int fdatasync(int descriptor) {
      static int (*real)(int);
      char link[64], path[4096];
      if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
      snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
      ssize_t count = readlink(link, path, sizeof path - 1);
      path[count > 0 ? count : 0] = 0;
      if (strstr(path, "/ferry-small-")) sleep(2);
      return real(descriptor);
    }
    """

  @Test(.enabled(if: canMount && hasCompiler, "needs the right to mount, and a C compiler"))
  func aSlowDiskStopsOnlyItsOwnTasks() throws {
    let small = try SmallFilesystem(kibibytes: 64 << 10)
    let server = try ContentServer()
    defer { server.stop() }
    let large = GeneratedContent(length: 14 << 20, seed: 3)
    let content = GeneratedContent(length: 6_000_000, seed: 4)
    server.put("/slow", large)
    let home = try DaemonHome()
    try Files.atomicWrite(home.path + "/slow.c", Array(Self.slowDisk.utf8))
    let built = try Shell.output(
      "/usr/bin/cc", ["-shared", "-fPIC", "-o", home.path + "/slow.so", home.path + "/slow.c", "-ldl"])
    try #require(built.status == .exited(code: 0), "\(built.errors)")
    try home.startForeground(["LD_PRELOAD": home.path + "/slow.so"])
    let client = try home.connect()
    let session = try client.open("s", collects: false)
    let began = ContinuousClock.now
    let slow = try client.download(server.url("/slow"), to: small.path + "/slow", in: session)
    try client.waitForBytes(of: slow, atLeast: 1 << 20)
    // One after another, so that each would wait for the disk if anything did.
    for number in 0..<3 {
      server.put("/\(number)", content)
      let id = try client.download(server.url("/\(number)"), to: home.out + "/\(number)", in: session)
      #expect(try client.waitForEnd(of: id).state == "succeeded")
      expectContent(home.out + "/\(number)", content)
    }
    #expect(try !client.show(slow).hasEnded, "the others did not wait for it")
    let task = try client.waitForEnd(of: slow)
    #expect(task.state == "succeeded")
    expectContent(task.file, large)
    #expect(ContinuousClock.now - began > .seconds(4), "the disk was slow indeed")
    #expect(try server.fetchedTwice("/slow").isEmpty)
  }
}
