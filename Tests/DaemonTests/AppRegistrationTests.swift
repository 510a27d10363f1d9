import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import WireProtocol

/// How apps become known, what is refused, and programs that cannot be started.
@Suite(.serialized, .timeLimit(.minutes(5))) struct AppRegistrationTests {
  let home: DaemonHome
  let client: ProtocolClient

  init() throws {
    home = try DaemonHome(["FERRY_TEST_LAUNCHES": "delay:300,grant:8000,end:300,restart:200"])
    try home.startForeground()
    client = try home.connect()
  }

  private func ferry(_ arguments: String...) throws -> (status: ChildProcess.ExitStatus, output: String, errors: String)
  {
    try home.run("ferry", arguments)
  }

  private func app(_ id: String) throws -> AppSnapshot {
    try client.call(.appShow(AppParameters(app: id)), AppShowResult.self).app
  }

  @Test func theCommandRegistersListsShowsAndRemoves() throws {
    let made = try ferry(
      "app", "register", "org.x", "--task-identifier", "org.x.refresh", "--background-mode", "fetch", "--json",
      "--exec", "/bin/echo", "--json", "-n", "two words")
    #expect(made.status == .exited(code: 0), "\(made)")
    let shown = try JSONDecoder().decode(AppSnapshot.self, from: Data(made.output.utf8))
    #expect(shown.command == ["/bin/echo", "--json", "-n", "two words"])
    #expect(shown.taskIdentifiers == ["org.x.refresh"] && shown.backgroundModes == ["fetch"])
    let listed = try ferry("app", "list")
    #expect(listed.output.contains("org.x") && listed.output.contains("/bin/echo --json -n two words"), "\(listed)")
    let page = try ferry("app", "show", "org.x")
    #expect(page.output.contains("Nothing waits for it."), "\(page)")
    let removed = try ferry("app", "remove", "org.x", "--json")
    #expect(removed.status == .exited(code: 0) && removed.output.contains("org.x"))
    for command in ["show", "remove", "front", "force-quit"] {
      let missing = try ferry("app", command, "org.x")
      #expect(missing.status == .exited(code: 4), "\(command): \(missing)")
      #expect(missing.errors.contains("No app \"org.x\" is registered"), "\(missing)")
    }
    #expect(try ferry("app", "register", "org.x", "--exec", "echo").status == .exited(code: 2))
    #expect(try ferry("app", "register", "org.x").status == .exited(code: 2))
    #expect(try ferry("app").status == .exited(code: 2))
  }

  /// What can be seen of the program is said while the person is there; it may be right by the time of the launch.
  @Test func theCommandSaysWhatIsWrongWithTheProgram() throws {
    let file = home.path + "/program"
    try Files.atomicWrite(file, Array("#!/bin/sh\n".utf8))
    #expect(unsafe chmod(file, 0o600) == 0)
    for (path, words) in [
      (home.path + "/nothing", "does not exist yet"), (home.path, "is a folder"), (file, "is not executable yet"),
    ] {
      let made = try ferry("app", "register", "org.x", "--exec", path)
      #expect(made.status == .exited(code: 0), "\(made)")
      #expect(made.errors.contains("\(path) \(words)"), "\(made)")
    }
    #expect(unsafe chmod(file, 0o700) == 0)
    #expect(try ferry("app", "register", "org.x", "--exec", file).errors.isEmpty)
  }

  @Test func registrationsOutliveTheDaemon() throws {
    _ = try ferry("app", "register", "org.y", "--exec", "/bin/true")
    try home.killDaemon()
    try home.startForeground()
    let again = try home.connect()
    let list = try again.call(.appList(EmptyParameters()), AppListResult.self)
    #expect(list.apps.map(\.app) == ["org.y"])
  }

  @Test(arguments: [
    #"{"app":"a","command":[]}"#, #"{"app":"a","command":["relative"]}"#, #"{"app":"","command":["/bin/x"]}"#,
    #"{"app":"a","command":["/bin/x\u0000"]}"#, #"{"app":"a","command":["/bin/x","a\nb"]}"#, #"{"app":"a"}"#,
    #"{"app":"a","command":["/bin/x"],"taskIdentifiers":[""]}"#, #"["app"]"#, "nothing", "",
  ])
  func hostileRegistrationsAreRefusedWithTheReason(text: String) throws {
    let folder = home.path + "/data/apps"
    try Files.atomicWrite(folder + "/good.json", Array(#"{"app":"good","command":["/bin/true"]}"#.utf8))
    try Files.atomicWrite(folder + "/bad.json", Array(text.utf8))
    let list = try eventually("both files are seen: \(home.logText)") { () -> AppListResult? in
      let list = try client.call(.appList(EmptyParameters()), AppListResult.self)
      return list.apps.isEmpty || list.refused.isEmpty ? nil : list
    }
    #expect(list.apps.map(\.app) == ["good"])
    #expect(list.apps[0].file == folder + "/good.json")
    #expect(list.refused.map(\.file) == [folder + "/bad.json"])
    #expect(list.refused[0].reason.count > 10)
    if text.hasPrefix("{") {
      let line = #"{"jsonrpc":"2.0","id":99,"method":"app.register","params":\#(text)}"# + "\n"
      try client.send(raw: Array(line.utf8))
      #expect(throws: ProtocolClient.Failure.self) { try client.reply(to: 99, EmptyResult.self) }
    }
  }

  @Test func filesRegisterChangeAndGo() throws {
    let path = home.path + "/data/apps/a.json"
    func wait(_ what: String, _ isThere: (AppListResult) -> Bool) throws -> AppListResult {
      try eventually(what) {
        let list = try client.call(.appList(EmptyParameters()), AppListResult.self)
        return isThere(list) ? list : nil
      }
    }
    try Files.atomicWrite(path, Array(#"{"app":"org.file","command":["/bin/true"]}"#.utf8))
    _ = try wait("it is registered") { $0.apps.first?.command == ["/bin/true"] }
    // What a file says is not changed by a request, nor removed.
    _ = try client.call(
      .appRegister(AppRegisterParameters(app: "org.file", command: ["/bin/false"])), EmptyResult.self)
    #expect(try app("org.file").command == ["/bin/true"])
    let refused = try ferry("app", "remove", "org.file")
    #expect(refused.status == .exited(code: 2) && refused.errors.contains("remove the file"), "\(refused)")
    try Files.atomicWrite(path, Array(#"{"app":"org.file","command":["/bin/true","2"]}"#.utf8))
    _ = try wait("it is changed") { $0.apps.first?.command == ["/bin/true", "2"] }
    // Others could write their own command into it.
    #expect(unsafe chmod(path, 0o666) == 0)
    let list = try wait("it is refused") { $0.apps.isEmpty && !$0.refused.isEmpty }
    #expect(list.refused[0].reason.contains("chmod go-w"), "\(list.refused)")
    try Files.remove(path)
    _ = try wait("it is gone") { $0.apps.isEmpty && $0.refused.isEmpty }
  }

  /// Failure case 53.
  @Test func programsThatCannotBeStartedAreNamedWithTheRemedy() throws {
    let server = try LocalServer.start { _ in .generated(length: 10, seed: 1) }
    defer { server.stop() }
    func script(_ name: String, _ text: String, _ mode: mode_t) throws -> String {
      let path = home.path + "/" + name
      try Files.atomicWrite(path, Array(text.utf8))
      #expect(unsafe chmod(path, mode) == 0)
      return path
    }
    let cases: [(String, String)] = [
      (home.path + "/nothing", "there is no such file"),
      (home.path, "it is a folder"),
      (try script("closed", "#!/bin/sh\n", 0o600), "it is not executable"),
      (try script("lost", "#!/no/such/interpreter\n", 0o700), "interpreter that its first line names does not exist"),
      (try script("text", "just words\n", 0o700), "it is no program"),
    ]
    for (index, (path, reason)) in cases.enumerated() {
      let id = "org.case\(index)"
      _ = try client.call(.appRegister(AppRegisterParameters(app: id, command: [path])), EmptyResult.self)
      let process = try home.connect()
      let session = try process.open("s", app: id)
      process.close()
      let other = try home.connect()
      _ = try other.enqueue(.download(server.url("/a")), in: session)
      other.close()
      let shown = try eventually("\(path) is tried twice: \(home.logText.suffix(1000))") { () -> AppSnapshot? in
        let shown = try app(id)
        return shown.launches.count { $0.outcome == "startFailed" } >= 2 ? shown : nil
      }
      #expect(shown.launches[0].detail.contains(reason), "\(shown.launches[0].detail)")
      #expect(shown.launches[0].detail.contains(path))
      #expect(shown.launches[1].decidedMilliseconds - shown.launches[0].decidedMilliseconds >= 290)
    }
  }

  @Test func forceQuitCancelsAndKeepsFromLaunchesUntilTheAppIsOpened() throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in .generated(length: 10, seed: 1).hold(until: gate) }
    defer { server.stop() }
    let mark = home.path + "/ran"
    _ = try client.call(
      .appRegister(AppRegisterParameters(app: "org.q", command: ["/usr/bin/touch", mark])), EmptyResult.self)
    let process = try home.connect()
    let session = try process.open("s", app: "org.q")
    let id = try process.download(server.url("/a"), in: session)
    try eventually("the request is out", is: { gate.waiters == 1 })
    process.close()
    let quit = try ferry("app", "force-quit", "org.q")
    #expect(quit.status == .exited(code: 0), "\(quit)")
    let task = try client.show(id)
    #expect(task.state == "cancelled" && task.cancelCause == "forceQuit")
    #expect(try app("org.q").isForceQuit)
    #expect(try app("org.q").reason.hasPrefix("A person ended it"))
    #expect(try app("org.q").launches.isEmpty)
    #expect(try ferry("app", "front", "org.q").status == .exited(code: 0))
    try eventually("it is launched", is: { (try? Files.read(mark, limitBytes: 1)) != nil })
    #expect(try app("org.q").isForceQuit == false)
    // What it did not collect is offered when its session is opened again.
    let next = try home.connect()
    _ = try next.open("s", app: "org.q")
    #expect(try next.delivery().task?.cancelCause == "forceQuit")
  }

  @Test func stateAndHandledAreCheckedAndHarmless() throws {
    let loose = try home.connect()
    #expect(throws: ProtocolClient.Failure.self) {
      try loose.call(.appState(AppStateParameters(app: "x", state: "background")), EmptyResult.self)
    }
    #expect(throws: ProtocolClient.Failure.self) {
      try loose.call(.appAttach(AppAttachParameters(app: "x", state: "asleep")), EmptyResult.self)
    }
    _ = try loose.call(.appAttach(AppAttachParameters(app: "x", state: "background", launch: 9)), EmptyResult.self)
    _ = try loose.call(.appState(AppStateParameters(app: "x", state: "foreground")), EmptyResult.self)
    _ = try loose.call(.appHandled(AppHandledParameters(app: "x", session: "s", launch: 9)), EmptyResult.self)
  }
}
