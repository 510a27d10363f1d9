import Foundation
import Glibc
import LinuxSystem
import LoopbackServer
import Testing
import TransferCore
import WireProtocol

/// Where files go: rows 12, 20, 41, 43 and 44 of docs/FailureCases.md.
@Suite(.timeLimit(.minutes(2))) struct PlacementCases {
  /// Row 12.
  @Test func twoTasksNeverWriteTheSamePath() throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in ResumeCases.whole().hold(until: gate) }
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    try Files.makePrivateDirectory(scene.path("a"))
    try Files.makePrivateDirectory(scene.path("b"))
    try FileManager.default.createSymbolicLink(atPath: scene.path("alias"), withDestinationPath: scene.path("a"))
    try FileManager.default.createSymbolicLink(atPath: scene.path("b/up"), withDestinationPath: "..")
    let first = try scene.get(server.url("/file"), to: "a/file")
    let spellings = [
      "a/file", "alias/file", "b/../a/file", "b/up/a/file", "a/./file", "a//file", "b/up/alias/../a/file",
    ]
    for spelling in spellings {
      let refusal = #expect(throws: WireError.self, "\(spelling)") { try scene.get(server.url("/file"), to: spelling) }
      #expect(refusal?.name == .destinationClaimed, "\(spelling)")
      #expect(refusal?.message.contains("Task \(first)") == true)
    }
    // In one batch, and after a restart, too.
    let batch = try scene.enqueue(
      ["alias/other", "a/other"].map { name in
        var task = WireTaskSpecification(kind: "download", url: server.url("/other"))
        task.destination = scene.path(name)
        return task
      })
    #expect(batch[0].error == nil)
    #expect(batch[1].error?.name == .destinationClaimed)
    try scene.restart()
    #expect(throws: WireError.self) { try scene.get(server.url("/file"), to: "alias/file") }
    gate.open()
    #expect(try scene.ended(first).state == "succeeded")
    try ResumeCases.expectWhole(scene, "a/file")
    // The claim ends with the task.
    let again = try scene.get(server.url("/file"), to: "alias/file") { $0.collision = "replace" }
    #expect(try scene.ended(again).state == "succeeded")
    try scene.waitForNames(["file", "other"], in: scene.path("a"))
  }

  static let dispositions = [
    "attachment; filename=\"../../escaped\"", "attachment; filename=\"..\\\\escaped\"",
    "attachment; filename=/tmp/escaped",
    "attachment; filename=\"%2e%2e%2fescaped\"", "attachment; filename=\"\"", "attachment; filename=.",
    "attachment; filename=\".escaped\"", "attachment; filename*=UTF-8''..%2Fescaped",
    "attachment; filename=\"a\u{1}b\"",
  ]

  /// Row 20: no header of the answer chooses a path.
  @Test func contentDispositionNeverChoosesAPath() throws {
    let names = Self.dispositions
    let server = try LocalServer.start { request in
      let index = Int(request.path.split(separator: "/").last ?? "") ?? 0
      return Response.text("x").header("Content-Disposition", names[index])
    }
    defer { server.stop() }
    let scene = try Scene()
    try Files.makePrivateDirectory(scene.path("in"))
    try Files.makePrivateDirectory(scene.path("in/dir"))
    let ids = try names.indices.map { try scene.get(server.url("/\($0)"), to: "in/dir/file\($0)") }
    for id in ids { #expect(try scene.ended(id).state == "succeeded") }
    try scene.waitForNames(["in"])
    try scene.waitForNames(["dir"], in: scene.path("in"))
    try scene.waitForNames(names.indices.map { "file\($0)" }.sorted(), in: scene.path("in/dir"))
  }

  /// Row 20: nor does the URL, where the command derives a name from it.
  @Test(arguments: [
    ("/..%2F..%2Fescaped", "escaped"), ("/a%5C..%5Cescaped", "escaped"), ("/%2e%2e", "download"),
    ("/.hidden", "hidden"),
    ("/", "download"), ("/x%00y", "x_y"), ("/x%0Ay", "x_y"), ("/plain.tar.gz?query=/../x#/../y", "plain.tar.gz"),
  ])
  func theNameFromTheURLStaysInItsFolder(path: String, name: String) throws {
    let server = try LocalServer.start { _ in
      Response.text("x").header("Content-Disposition", "attachment; filename=other")
    }
    defer { server.stop() }
    let scene = try Scene()
    try Files.makePrivateDirectory(scene.path("dir"))
    let outcome = try Tool.run(
      "\(Scene.programFolder)/ferry", ["get", server.url(path), "-o", scene.path("dir")],
      environment: ["FERRY_HOME": scene.home, "HOME": scene.folder])
    #expect(outcome.status == 0, "\(outcome.output)")
    try scene.waitForNames(["dir"])
    try scene.waitForNames([name], in: scene.path("dir"))
  }

  /// Row 43: bytes are collected beside their destination, on its filesystem, and nothing else is left there.
  @Test func bytesAreCollectedOnTheDestinationsFilesystem() throws {
    let server = try Script.start(
      { _ in ResumeCases.whole().stall(afterBytes: 100_000) }, { _ in ResumeCases.whole() })
    defer { server.stop() }
    let scene = try Scene()
    let other = "/dev/shm/ferry-case-\(Clocks.randomWord())"
    try Files.makePrivateDirectory(other)
    defer { try? FileManager.default.removeItem(atPath: other) }
    var task = WireTaskSpecification(kind: "download", url: server.url("/file"))
    task.destination = "\(other)/result"
    let id = try scene.enqueue(task)
    try scene.wait(id, for: "100,000 bytes") { $0.received == 100_000 }
    #expect(try FileManager.default.contentsOfDirectory(atPath: other) == [".ferry-\(id).part"])
    try scene.restart()
    #expect(try scene.ended(id).state == "succeeded")
    #expect(ResumeCases.content.verify(try Files.read("\(other)/result", limitBytes: 1 << 20)) == nil)
    let deadline = BootInstant.now() + .seconds(10)
    while try FileManager.default.contentsOfDirectory(atPath: other) != ["result"] {
      try #require(BootInstant.now() < deadline)
      _ = try scene.show(id)
    }
  }

  /// Row 44.
  @Test(arguments: ["fail", "replace", "rename"])
  func aDestinationThatAppearsMeanwhileIsTreatedAsWasAgreed(collision: String) throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in ResumeCases.whole().stall(afterBytes: 100_000, until: gate) }
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    let id = try scene.get(server.url("/file"), to: "result.bin") { $0.collision = collision }
    try scene.wait(id, for: "100,000 bytes") { $0.received == 100_000 }
    _ = try scene.write("result.bin", Array("a stranger's".utf8))
    gate.open()
    let task = try scene.ended(id)
    switch collision {
    case "fail":
      #expect(task.state == "failed")
      #expect(task.error?.code == "fileExists")
      #expect(try scene.bytes("result.bin") == Array("a stranger's".utf8))
      // What was fetched is still there, and goes with the task.
      #expect(try scene.names() == [".ferry-\(id).part", "result.bin"])
      _ = try scene.call(.taskRemove(TaskIdentifiersParameters(ids: [id])), TaskIdentifiersResult.self)
      try scene.waitForNames(["result.bin"])
    case "replace":
      #expect(task.state == "succeeded")
      try ResumeCases.expectWhole(scene, "result.bin")
      try scene.waitForNames(["result.bin"])
    default:
      #expect(task.state == "succeeded")
      #expect(task.file == scene.path("result (1).bin"))
      #expect(try scene.bytes("result.bin") == Array("a stranger's".utf8))
      try ResumeCases.expectWhole(scene, "result (1).bin")
      try scene.waitForNames(["result (1).bin", "result.bin"])
    }
  }

  /// Row 44: what exists at the start is refused at once.
  @Test func aDestinationThatExistsIsRefusedBeforeAnythingIsFetched() throws {
    let server = try LocalServer.start { _ in .text("x") }
    defer { server.stop() }
    let scene = try Scene()
    _ = try scene.write("result", [])
    let refusal = #expect(throws: WireError.self) { try scene.get(server.url("/file")) }
    #expect(refusal?.name == .destinationExists)
    #expect(server.acceptedConnections == 0)
  }

  /// Row 44: a symbolic link that appears at the destination is not followed.
  @Test func aLinkAtTheDestinationIsReplacedAndNotFollowed() throws {
    let gate = Gate()
    let server = try LocalServer.start { _ in ResumeCases.whole().stall(afterBytes: 100_000, until: gate) }
    defer { server.stop() }
    defer { gate.open() }
    let scene = try Scene()
    _ = try scene.write("precious", Array("precious".utf8))
    let id = try scene.get(server.url("/file")) { $0.collision = "replace" }
    try scene.wait(id, for: "100,000 bytes") { $0.received == 100_000 }
    try FileManager.default.createSymbolicLink(
      atPath: scene.path("result"), withDestinationPath: scene.path("precious"))
    gate.open()
    #expect(try scene.ended(id).state == "succeeded")
    #expect(try scene.bytes("precious") == Array("precious".utf8))
    try ResumeCases.expectWhole(scene)
  }

  enum Moment: String, CaseIterable, Sendable { case before, during, duringWithoutValidator }

  /// Row 41, on a real small filesystem in a mount namespace of the daemon's own.
  @Test(.enabled(if: SmallDisk.isPossible, "needs unshare(1) with mount namespaces"), arguments: Moment.allCases)
  func aFullDiskIsWaitedOutAndNothingIsFetchedMeanwhile(filled: Moment) throws {
    let length = 3_000_000
    let gate = Gate()
    let server = try LocalServer.start { _ in
      let answer = Response.generated(length: length, seed: 5).stall(afterBytes: 1_000_000, until: gate)
      return filled == .duringWithoutValidator ? answer : answer.etag("\"a\"")
    }
    defer { server.stop() }
    defer { gate.open() }
    let folder = try Scene.temporaryFolder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let scene = try Scene(wrapper: SmallDisk.command(folder, bytes: 4 << 20))
    // The mount is seen through the daemon's own root.
    let disk = "/proc/\(scene.processID)/root\(folder)"
    let filler = "\(disk)/filler"
    let fill = { try Data(count: 2 << 20).write(to: URL(filePath: filler)) }
    if filled == .before { try fill() }
    var task = WireTaskSpecification(kind: "download", url: server.url("/file"))
    task.destination = "\(folder)/result"
    let id = try scene.enqueue(task)
    if filled != .before {
      try scene.wait(id, for: "1,000,000 bytes") { $0.received == 1_000_000 }
      try fill()
    }
    gate.open()
    let waiting = try scene.wait(id, for: "the lack of space") { $0.state == "waiting" && $0.error?.code == "noSpace" }
    let before = server.requestCount
    // Two looks later nothing more was asked for, and the reason says what is needed.
    let later = try scene.wait(id, for: "another look at the space") {
      $0.attempts >= waiting.attempts + 2 && $0.state == "waiting"
    }
    #expect(server.requestCount == before)
    #expect(later.reason?.contains("more are needed") == true, "\(later.reason ?? "")")
    try FileManager.default.removeItem(atPath: filler)
    let ended = try scene.ended(id)
    #expect(ended.state == "succeeded", "\(Scene.text(ended))")
    if filled == .during { #expect(server.requests.last?.headers["Range"] != nil) }
    let found = try Files.read("\(disk)/result", limitBytes: 1 << 23)
    #expect(found.count == length)
    #expect(GeneratedContent(length: length, seed: 5).verify(found) == nil)
  }
}

/// A tmpfs of a few megabytes that only the daemon (and what it starts) sees.
enum SmallDisk {
  static func command(_ folder: String, bytes: Int) -> [String] {
    let flags = geteuid() == 0 ? "-m" : "-rm"
    return [
      "/usr/bin/unshare", flags, "/bin/sh", "-c", "mount -t tmpfs -o size=\(bytes) ferry \(folder) && exec \"$@\"",
      "sh",
    ]
  }

  static let isPossible: Bool = {
    guard let folder = try? Scene.temporaryFolder() else { return false }
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let command = Self.command(folder, bytes: 1 << 20)
    return (try? Tool.run(command[0], Array(command.dropFirst()) + ["/bin/true"]).status) == 0
  }()
}
