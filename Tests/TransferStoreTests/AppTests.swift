import Testing
import TransferCore

@testable import TransferStore

/// Apps and their launches.
@Suite struct AppTests {
  let folder: TemporaryFolder
  init() throws { folder = try TemporaryFolder() }

  static func app(_ id: String = "org.example") -> AppRecord {
    AppRecord(
      registration: AppRegistration(
        id: id, command: ["/bin/ünï", "-a", ""], taskIdentifiers: ["t1", "t2"], backgroundModes: ["fetch"],
        file: "/data/a.json"),
      registeredAt: WallInstant(milliseconds: 1), isForceQuit: true, lastLaunch: 7, delay: .seconds(120),
      lastLaunchAt: WallInstant(milliseconds: -2))
  }

  static func launch(_ number: Int64, app: String = "org.example") -> LaunchRecord {
    LaunchRecord(
      app: app, number: number, session: "séance", reason: .challenge, isWake: true,
      decidedAt: WallInstant(milliseconds: 3), startedAt: WallInstant(milliseconds: 4),
      attachedAt: WallInstant(milliseconds: 5), handledAt: WallInstant(milliseconds: 6),
      endedAt: WallInstant(milliseconds: 7), processID: 4711, outcome: .exitedEarly, detail: "It ended.",
      output: "a\nb\n")
  }

  private func reopened(_ changes: [[StoreChange]]) throws -> StoredState {
    let store = try TransferStore(path: folder.database)
    for batch in changes { try store.apply(batch) }
    store.close()
    return try TransferStore(path: folder.database).load()
  }

  @Test func everyFieldComesBack() throws {
    let bare = AppRecord(
      registration: AppRegistration(id: "b", command: ["/b"]), registeredAt: WallInstant(milliseconds: 0))
    let open = LaunchRecord(
      app: "org.example", number: 8, session: "", reason: .sessionEvents, decidedAt: WallInstant(milliseconds: 0))
    let state = try reopened([
      [.app(.put(Self.app())), .app(.putLaunch(Self.launch(7))), .app(.put(bare)), .app(.putLaunch(open))]
    ])
    #expect(state.apps.map(\.registration.id) == ["b", "org.example"])
    #expect(state.apps[0] == bare)
    var mended = Self.app()
    mended.lastLaunch = 8
    #expect(state.apps[1] == mended, "a number is never given twice")
    #expect(state.launches == [Self.launch(7), open])
    #expect(state.quarantined.isEmpty)
  }

  @Test func changesReplaceAndRemove() throws {
    var changed = Self.launch(1)
    changed.outcome = .handled
    let state = try reopened([
      [.app(.put(Self.app("a"))), .app(.put(Self.app("b")))],
      [.app(.putLaunch(Self.launch(1, app: "a"))), .app(.putLaunch(Self.launch(2, app: "a")))],
      [.app(.putLaunch(Self.launch(1, app: "b")))],
      [.app(.removeLaunch(app: "a", number: 2)), .app(.remove("b")), .app(.put(Self.app("a")))],
    ])
    #expect(state.apps.map(\.registration.id) == ["a"])
    #expect(state.launches.map { "\($0.app) \($0.number)" } == ["a 1"])
    let store = try TransferStore(path: folder.database)
    #expect(throws: StoreError.self) { try store.apply([.app(.putLaunch(Self.launch(1, app: "nobody")))]) }
    var relative = Self.app("c")
    relative.registration.command = ["c"]
    #expect(try storeError { () throws(StoreError) in try store.apply([.app(.put(relative))]) }.kind == .invalidValue)
  }

  static let damages = [
    ("app", "command = 'relative' || char(10)", "command is no absolute path"),
    ("app", "command = ''", "command is no absolute path"), ("app", "command = '/a'", "command does not end"),
    ("app", "is_force_quit = 2", "is_force_quit is neither"), ("app", "delay_ms = -1", "delay_ms is negative"),
    ("app", "last_launch = 'x'", "last_launch holds text"),
    ("app", "task_identifiers = x'00'", "task_identifiers holds a blob"),
    ("launch", "number = 0", "number is not positive"), ("launch", "reason = 'fun'", "reason has an unknown name"),
    ("launch", "outcome = 'lucky'", "outcome has an unknown name"),
    ("launch", "output = x'ff'", "output holds a blob"), ("launch", "process_id = -4", "process_id is negative"),
  ]

  @Test(arguments: damages) func aBadRowIsSetAside(table: String, statement: String, reason: String) throws {
    _ = try reopened([
      [.app(.put(Self.app("a"))), .app(.put(Self.app("b"))), .app(.putLaunch(Self.launch(1, app: "a")))],
      [.app(.putLaunch(Self.launch(2, app: "a"))), .app(.putLaunch(Self.launch(1, app: "b")))],
    ])
    let row = table == "app" ? "id = 'a'" : "app = 'a' AND number = 1"
    try folder.tamper("UPDATE \(table) SET \(statement) WHERE \(row)")
    let store = try TransferStore(path: folder.database)
    let state = try store.load()
    #expect(state.quarantined.first { $0.table == table }?.reason.hasPrefix(reason) == true, "\(state.quarantined)")
    #expect(state.apps.map(\.registration.id) == (table == "app" ? ["b"] : ["a", "b"]))
    #expect(state.launches.map { "\($0.app) \($0.number)" } == (table == "app" ? ["b 1"] : ["a 2", "b 1"]))
    let again = try store.load()
    #expect(again.quarantined.isEmpty)
    #expect(again.apps == state.apps && again.launches == state.launches)
  }

  @Test func aDatabaseOfTheFirstVersionIsRescuedToo() throws {
    try DatabaseFiles.prepare(folder.database)
    let old = try Connection(path: folder.database)
    try OpenDatabase.configure(old, Migration.all.filter { $0.version == 1 })
    old.close()
    let store = try TransferStore(path: folder.database)
    try store.rebuild(because: "a test")
    #expect(try store.load() == StoredState())
  }
}
