import Glibc
import Testing
import TransferCore

@testable import LinuxSystem

@Suite struct ChildProcessTests {
  /// Runs a shell script with its output in a file; the output.
  private func shell(
    _ script: String, _ folder: TemporaryDirectory, environment: [String: String] = [:], newSession: Bool = false,
    directory: String? = nil
  ) throws -> String {
    let path = folder.path + "/out-\(Clocks.randomWord())"
    let output = try Files.createPrivate(path)
    let child = try ChildProcess.spawn(
      path: "/bin/sh", arguments: ["sh", "-c", script], environment: environment, directory: directory,
      standardOutput: .descriptor(output.raw), standardError: .descriptor(output.raw), newSession: newSession)
    #expect(try ChildProcess.wait(child) == .exited(code: 0))
    return try text(path)
  }

  @Test func startsWithExactlyWhatItWasGiven() throws {
    let folder = try TemporaryDirectory()
    // Without close-on-exec, as careless code would leave it.
    let leak = dup(try OwnedDescriptor.open("/dev/null", .read).raw)
    defer { close(leak) }
    let script = "echo \"$A|$0\"; pwd; for d in /proc/$$/fd/*; do echo ${d##*/}; done; cat /proc/$$/fdinfo/0 | head -2"
    let lines = try shell(
      script, folder, environment: ["A": "x = y", "PATH": "/bin:/usr/bin"], directory: folder.path
    ).split(separator: "\n")
    #expect(lines.prefix(5) == ["x = y|sh", Substring(folder.path), "0", "1", "2"])
  }

  @Test func leadsASessionAndHasNoBlockedSignals() throws {
    let folder = try TemporaryDirectory()
    // `exec`: a shell blocks signals itself while it starts another program.
    let script = "echo $$; cut -d' ' -f6 /proc/$$/stat; exec grep -E 'SigBlk|SigIgn' /proc/self/status"
    let lines = try shell(script, folder, environment: ["PATH": "/bin:/usr/bin"], newSession: true)
      .split(separator: "\n")
    try #require(lines.count == 4)
    #expect(lines[0] == lines[1])
    let masks = lines[2...].compactMap { UInt64($0.suffix(16), radix: 16) }
    // 32 and 33 are the C library's own; its posix_spawn leaves them ignored.
    #expect(masks.map { $0 & ~0x1_8000_0000 } == [0, 0])
  }

  @Test func streamsMayBeSwapped() throws {
    let folder = try TemporaryDirectory()
    let out = try Files.createPrivate(folder.path + "/o")
    let error = try Files.createPrivate(folder.path + "/e")
    let child = try ChildProcess.spawn(
      path: "/bin/sh", arguments: ["sh", "-c", "echo o; echo e >&2"], environment: [:],
      standardOutput: .descriptor(out.raw), standardError: .descriptor(error.raw), newSession: false)
    #expect(try ChildProcess.wait(child) == .exited(code: 0))
    #expect(try text(folder.path + "/o") == "o\n")
    #expect(try text(folder.path + "/e") == "e\n")
  }

  /// By its output a process can be told from others before it has an environment of its own.
  @Test func aProcessIsKnownByItsOutput() throws {
    let folder = try TemporaryDirectory()
    let output = try Files.createPrivate(folder.path + "/o")
    _ = try Files.createPrivate(folder.path + "/other")
    let child = try ChildProcess.spawn(
      path: "/bin/sleep", arguments: ["sleep", "60"], environment: [:], standardOutput: .descriptor(output.raw),
      standardError: .null, newSession: false)
    #expect(ProcessTable.environment(of: child) == nil)
    #expect(ProcessTable.writes(child, to: folder.path + "/o"))
    #expect(!ProcessTable.writes(child, to: folder.path + "/other"))
    #expect(!ProcessTable.writes(child, to: folder.path + "/none"))
    #expect(!ProcessTable.writes(getpid(), to: folder.path + "/o"))
    kill(child, SIGKILL)
    #expect(try ChildProcess.wait(child) == .signalled(number: SIGKILL))
  }

  @Test func reportsWhatCannotBeStarted() throws {
    let folder = try TemporaryDirectory()
    let plain = try folder.file("plain", "text")
    for (path, number) in [("/none", ENOENT), (plain, EACCES), (folder.path, EACCES)] {
      #expect(
        errorNumber { _ = try ChildProcess.spawn(path: path, arguments: ["x"], environment: [:], newSession: true) }
          == number)
    }
    for environment in [["A=B": "c"], ["": "c"], ["A": "b\0c"]] {
      #expect(
        errorNumber {
          _ = try ChildProcess.spawn(
            path: "/bin/true", arguments: ["true"], environment: environment, newSession: false)
        } == EINVAL)
    }
  }

  @Test func watchesAnEndOnTheLoop() throws {
    let loop = try EventLoop()
    let input = try UnixSocket.socketPair(nonblocking: false)
    let child = try ChildProcess.spawn(
      path: "/bin/cat", arguments: ["cat"], environment: [:], standardInput: .descriptor(input.first.raw),
      newSession: true)
    let watch = try ChildProcess.watch(child)
    var ended = false
    _ = try loop.register(descriptor: watch.raw, interest: .readable) { _ in ended = true }
    #expect(try loop.poll() == 0)
    #expect(try ChildProcess.reap(child) == nil)
    try ChildProcess.signal(watch.raw, SIGTERM)
    try turn(loop) { ended }
    #expect(try ChildProcess.reap(child) == .signalled(number: SIGTERM))
    #expect(errorNumber { try ChildProcess.signal(watch.raw, SIGTERM) } == ESRCH)
    #expect(errorNumber { _ = try ChildProcess.wait(child) } == ECHILD)
  }

  @Test func knowsItsOwnPath() throws {
    let path = try ChildProcess.executablePath()
    #expect(path.hasPrefix("/"))
    #expect(try Files.identity(path: path).isSameFile(as: Files.identity(path: "/proc/self/exe")))
  }
}

@Suite struct InstanceLockTests {
  @Test func oneHolderAtATime() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/ferryd.lock"
    #expect(try !InstanceLock.isHeld(path))
    #expect(try InstanceLock.read(path) == nil)
    do {
      let lock = try InstanceLock.acquire(path)
      let isHeld = lock != nil
      #expect(isHeld)
      let record = InstanceLock.Record(processID: getpid(), socketPath: "/run/user/1000/ferry/ferryd.sock")
      try lock?.write(record)
      let short = InstanceLock.Record(processID: 1, socketPath: "/s")
      try lock?.write(short)
      #expect(try InstanceLock.read(path) == short)
      try lock?.write(record)
      #expect(try text(path) == "\(getpid())\n/run/user/1000/ferry/ferryd.sock\n")
      // Another open file description, though of one process, is another holder; looking does not take or drop it.
      #expect(try InstanceLock.isHeld(path))
      let second = try InstanceLock.acquire(path) != nil
      #expect(!second)
      #expect(try InstanceLock.isHeld(path))
      #expect(errorNumber { try lock?.write(.init(processID: 1, socketPath: "/a\nb")) } == EINVAL)
    }
    #expect(try !InstanceLock.isHeld(path))
    #expect(try InstanceLock.read(path)?.processID == getpid())
    let third = try InstanceLock.acquire(path) != nil
    #expect(third)
  }

  @Test func anotherProcessIsRefusedAndDeathReleases() async throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/ferryd.lock"
    let mine = try InstanceLock.acquire(path)
    await #expect(processExitsWith: .exitCode(7)) { [path = path as String] in
      let isHeld = try InstanceLock.isHeld(path)
      let isMine = try InstanceLock.acquire(path) != nil
      exit(isHeld && !isMine ? 7 : 1)
    }
    mine.release()
    await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
      let lock = try InstanceLock.acquire(path)
      try lock?.write(.init(processID: getpid(), socketPath: "/dead"))
      if lock != nil { kill(getpid(), SIGKILL) }
    }
    #expect(try InstanceLock.read(path)?.socketPath == "/dead")
    let again = try InstanceLock.acquire(path) != nil
    #expect(again)
  }

  @Test func aReplacedFileIsNotMistakenForTheLock() throws {
    let folder = try TemporaryDirectory()
    let path = folder.path + "/ferryd.lock"
    let first = try InstanceLock.acquire(path)
    try prepared(unsafe unlink(path))
    #expect(try !InstanceLock.isHeld(path))
    let second = try InstanceLock.acquire(path) != nil
    #expect(second)
    first.release()
    try prepared(unsafe symlink("elsewhere", folder.path + "/link"))
    #expect(errorNumber { _ = try InstanceLock.acquire(folder.path + "/link") } == ELOOP)
  }

  @Test(arguments: ["", "\n", "12", "12\n/s", "x\n/s\n", "-1\n/s\n", "12\nrelative\n", "12\n\n"])
  func aRecordThatIsNotWholeIsNone(content: String) {
    #expect(InstanceLock.Record(parsing: content) == nil)
  }
}

extension Optional where Wrapped == InstanceLock {
  /// Ends the lock here.
  consuming func release() {}
}

@Suite struct SignalTests {
  @Test func arriveOnTheLoop() async {
    await #expect(processExitsWith: .exitCode(0)) {
      let loop = try EventLoop()
      let source = try SignalSource()
      var numbers: [Int32] = []
      _ = try loop.register(descriptor: source.descriptor, interest: .readable) { _ in
        while let arrival = try? source.next() { numbers.append(arrival.number) }
      }
      // To this thread: others of the test process have not blocked them.
      for number in [SIGHUP, SIGTERM, SIGHUP, SIGINT] { pthread_kill(pthread_self(), number) }
      pthread_kill(pthread_self(), SIGPIPE)
      try turn(loop) { numbers.count >= 3 }
      exit(numbers.sorted() == [SIGHUP, SIGINT, SIGTERM] ? 0 : 1)
    }
  }
}

@Suite struct FaultPointTests {
  @Test func parsesItsPlan() throws {
    let injector = try FaultInjector(parsing: "a.b:2:EIO,c:1:kill,,d:3:stop,e:1:EDQUOT,f:1:20ms")
    #expect(
      injector.faults.map(\.action) == [.fail(EIO), .kill, .stop, .fail(EDQUOT), .wait(milliseconds: 20)])
    for text in [
      "a", "a:1:ms", "a:1:-5ms", "a:0:EIO", "a:-1:EIO", "a:1:EWHAT", "a:1", ":1:EIO", "a:1:EIO:x", "a:x:kill",
    ] {
      #expect(errorNumber { _ = try FaultInjector(parsing: text) } == EINVAL, "\(text)")
    }
  }

  @Test func firesAtTheNthPassageOnly() throws {
    let injector = try FaultInjector(parsing: "p:2:ENOSPC")
    try injector.reach("p")
    try injector.reach("q")
    #expect(errorNumber { try injector.reach("p") } == ENOSPC)
    try injector.reach("p")
    #expect(injector.passages == ["p": 3, "q": 1])
  }

  #if DEBUG
    @Test func killsTheProcessThatIsTold() async {
      await #expect(processExitsWith: .signal(SIGKILL)) {
        unsafe setenv("FERRY_FAULT", "worker.fsync:2:kill", 1)
        try FaultPoint.reach("worker.fsync")
        if FaultPoint.passages != ["worker.fsync": 1] { exit(1) }
        try FaultPoint.reach("worker.fsync")
      }
    }

    @Test func refusesAPlanItCannotRead() async {
      await #expect(processExitsWith: .exitCode(64)) {
        unsafe setenv("FERRY_FAULT", "worker.fsync:often:kill", 1)
        try FaultPoint.reach("worker.fsync")
      }
    }
  #endif

  @Test func costsNothingWhenUnset() throws {
    try FaultPoint.reach("anything")
    #expect(FaultPoint.passages.isEmpty)
  }
}

@Suite struct ServiceNoticeTests {
  @Test(arguments: [false, true]) func readinessIsToldWhereItIsAskedFor(isAbstract: Bool) throws {
    let folder = try TemporaryDirectory()
    let name = (isAbstract ? "@" : "") + folder.path + "/notify"
    let script = """
      import socket, sys
      path = sys.argv[1]
      listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
      listener.bind("\\0" + path[1:] if path[0] == "@" else path)
      listener.settimeout(30)
      sys.exit(listener.recv(100) != b"READY=1")
      """
    let listener = try ChildProcess.spawn(
      path: "/usr/bin/python3", arguments: ["python3", "-c", script, name], environment: [:], newSession: false)
    let end = BootInstant.now() + .seconds(30)
    // Until the listener has its name; what is not heard is sent again.
    while BootInstant.now() < end, try ChildProcess.reap(listener).map({ #expect($0 == .exited(code: 0)) }) == nil {
      try? ServiceNotice.ready(in: ["NOTIFY_SOCKET": name])
      _ = poll(nil, 0, 10)
    }
    #expect(BootInstant.now() < end)
  }

  @Test func nobodyWhoAsksIsToldNothing() throws {
    try ServiceNotice.ready(in: [:])
    for address in ["", "vsock:2:1", "relative"] { try ServiceNotice.ready(in: ["NOTIFY_SOCKET": address]) }
  }
}

@Suite struct SocketActivationTests {
  @Test func takesWhatIsMeantForThisProcess() throws {
    // Above what anything else in this process opens, in a row.
    let first: Int32 = 700
    let null = try OwnedDescriptor.open("/dev/null", .read)
    for raw in first..<(first + 2) { #expect(dup2(null.raw, raw) == raw) }
    let mine = ["LISTEN_PID": "\(getpid())", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "ferryd.socket:x:y"]
    var inherited = try SocketActivation.inherited(mine, processID: getpid(), first: first)
    #expect(inherited.names == ["ferryd.socket", "x"])
    let raws = inherited.descriptors.takeAll()
    #expect(raws == [first, first + 1])
    for raw in raws {
      #expect(fcntl(raw, F_GETFD) & FD_CLOEXEC != 0)
      close(raw)
    }
    #expect(errorNumber { _ = try SocketActivation.inherited(mine, processID: getpid(), first: 900) } == EBADF)
  }

  @Test(arguments: [
    [:], ["LISTEN_FDS": "1"], ["LISTEN_PID": "1", "LISTEN_FDS": "1"], ["LISTEN_PID": "x", "LISTEN_FDS": "1"],
  ])
  func ignoresWhatIsNot(environment: [String: String]) throws {
    let inherited = try SocketActivation.inherited(environment, processID: getpid(), first: 3)
    let isEmpty = inherited.descriptors.isEmpty
    #expect(isEmpty)
  }

  @Test(arguments: ["", "-1", "65", "99999999999999999999", "two"])
  func refusesACountThatIsNone(count: String) {
    #expect(
      errorNumber {
        _ = try SocketActivation.inherited(
          ["LISTEN_PID": "\(getpid())", "LISTEN_FDS": count], processID: getpid(), first: 3)
      } == EINVAL)
  }

  @Test func removesTheVariables() async {
    await #expect(processExitsWith: .exitCode(0)) {
      unsafe setenv("LISTEN_PID", "1", 1)
      unsafe setenv("LISTEN_FDS", "1", 1)
      let isEmpty = try SocketActivation.takeInherited().descriptors.isEmpty
      exit(isEmpty && ProcessEnvironment.current()["LISTEN_FDS"] == nil ? 0 : 1)
    }
  }
}

@Suite struct FerryDirectoriesTests {
  private func resolve(
    _ environment: [String: String], _ folder: TemporaryDirectory, userID: uid_t = geteuid()
  ) throws(SystemError) -> FerryDirectories {
    try FerryDirectories.resolve(
      environment, userID: userID, runtimeRoot: folder.path + "/run", temporaryRoot: folder.path + "/tmp")
  }

  @Test func ferryHomeHoldsEverything() throws {
    let folder = try TemporaryDirectory()
    let found = try resolve(["FERRY_HOME": folder.path + "/home/", "XDG_STATE_HOME": "/elsewhere"], folder)
    #expect(found.state == folder.path + "/home")
    #expect(found.socketPath == folder.path + "/home/ferryd.sock")
    #expect(found.lockPath == folder.path + "/home/ferryd.lock")
    try found.prepare()
    #expect(errorNumber { _ = try resolve(["FERRY_HOME": "relative"], folder) } == EINVAL)
  }

  @Test func followsTheBaseDirectorySpecification() throws {
    let folder = try TemporaryDirectory()
    let runtime = folder.path + "/runtime"
    try Files.makePrivateDirectory(runtime)
    let full = try resolve(
      ["XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": runtime, "HOME": "/home/me", "FERRY_HOME": ""], folder)
    #expect(full.state == "/s/ferry")
    #expect(full.socketPath == runtime + "/ferry/ferryd.sock")
    let relative = try resolve(["XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r", "HOME": "/home/me"], folder)
    #expect(relative.state == "/home/me/.local/state/ferry")
    #expect(relative.socketPath == folder.path + "/tmp/ferry-\(geteuid())/ferryd.sock")
  }

  @Test func takesTheRuntimeFolderOnlyIfItIsOursAlone() throws {
    let folder = try TemporaryDirectory()
    let ours = "\(folder.path)/run/\(geteuid())"
    try Files.makePrivateDirectory(ours)
    #expect(try resolve(["HOME": "/h"], folder).socketDirectory == ours + "/ferry")
    // A cron job or `sudo -E`: the variable names another's folder, or one that is gone.
    #expect(try resolve(["HOME": "/h", "XDG_RUNTIME_DIR": "/nowhere"], folder).socketDirectory == ours + "/ferry")
    try prepared(unsafe chmod(ours, 0o755))
    #expect(try resolve(["HOME": "/h"], folder).socketDirectory == "\(folder.path)/tmp/ferry-\(geteuid())")
    #expect(try resolve(["HOME": "/h"], folder, userID: 4711).socketDirectory == folder.path + "/tmp/ferry-4711")
  }

  @Test func findsTheHomeInTheUserDatabase() throws {
    let folder = try TemporaryDirectory()
    #expect(try resolve([:], folder, userID: 0).state == "/root/.local/state/ferry")
    #expect(errorNumber { _ = try resolve([:], folder, userID: 3_999_999_999) } == ENOENT)
  }

  @Test func refusesASymlinkInThePlaceOfTheSocketFolder() throws {
    let folder = try TemporaryDirectory()
    try Files.makePrivateDirectory(folder.path + "/tmp")
    try prepared(unsafe symlink("/", "\(folder.path)/tmp/ferry-\(geteuid())"))
    let found = try resolve(["XDG_STATE_HOME": folder.path], folder)
    #expect(throws: SystemError.self) { try found.prepare() }
  }
}

@Suite struct SystemErrorTests {
  @Test func namesAndExplains() {
    let error = SystemError(ENOENT, operation: "open", path: "/a")
    #expect(error.description == "open /a: No such file or directory (ENOENT)")
    #expect(SystemError(9999, operation: "x").description == "x: errno 9999")
    #expect(SystemError.number(named: "EDQUOT") == EDQUOT)
    #expect(SystemError.number(named: "ENONSENSE") == nil)
  }

  @Test func pollTellsABadDescriptorFromATimeout() throws {
    #expect(errorNumber { _ = try Syscall.poll(100_000, for: .readable, timeoutMilliseconds: 0) } == EBADF)
    let counter = try OwnedDescriptor.eventCounter(nonblocking: true)
    let before = BootInstant.now()
    #expect(try Syscall.poll(counter.raw, for: .readable, timeoutMilliseconds: 5) == [])
    #expect(BootInstant.now() >= before.advanced(byNanoseconds: 5_000_000))
  }

  @Test func clocksAgreeWithTheKernel() throws {
    let uptime = try text("/proc/uptime").split(separator: ".").first.flatMap { Int64($0) }
    let seconds = BootInstant.now().nanoseconds / 1_000_000_000
    #expect(abs(seconds - (uptime ?? 0)) <= 5)
    #expect(try Clocks.bootID().count == 36)
    #expect(Clocks.randomWord() != Clocks.randomWord())
    #expect(abs(Clocks.wallSeconds() - Int64(time(nil))) <= 2)
    #expect(BootInstant(nanoseconds: .max).advanced(byNanoseconds: 1).nanoseconds == .max)
    #expect(BootInstant(nanoseconds: .min).advanced(byNanoseconds: -1).nanoseconds == .min)
  }

  #if DEBUG
    @Test func aTestMayPretendAReboot() async {
      await #expect(processExitsWith: .exitCode(0)) {
        unsafe setenv("FERRY_TEST_BOOT_ID", "another-boot", 1)
        exit(try Clocks.bootID() == "another-boot" ? 0 : 1)
      }
    }
  #endif
}
