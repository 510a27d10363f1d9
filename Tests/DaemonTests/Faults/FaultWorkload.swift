import FoundationEssentials
import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import WireProtocol

/// The mixed work of one fault run: what is asked for, what the server answers, and what must have come of it.
final class FaultWorkload: Sendable {
  enum Item: String, CaseIterable, Sendable {
    case managed, cut, placed, replaced, renamed, decoded, big, digest
    case upload, again, once, data
    /// These never end by themselves: the client ends them.
    case cancelled, removed, gone

    var content: GeneratedContent {
      switch self {
      case .managed, .again, .once: GeneratedContent(length: 20_000, seed: seed)
      case .cut: GeneratedContent(length: 300_000, seed: seed)
      // Beyond 4 MiB the part file is synced while it grows.
      case .big: GeneratedContent(length: 5_500_000, seed: seed)
      case .placed, .replaced, .renamed, .decoded, .digest, .upload: GeneratedContent(length: 50_000, seed: seed)
      case .data: GeneratedContent(length: 3000, seed: seed)
      // Never sent whole, however often it is continued.
      case .cancelled, .removed, .gone: GeneratedContent(length: 40_000_000, seed: seed)
      }
    }

    private var seed: UInt64 { UInt64(rawValue.utf8.reduce(7) { $0 * 31 % 10_007 + Int($1) }) }

    var isEndless: Bool {
      switch self {
      case .cancelled, .removed, .gone: true
      case .managed, .cut, .placed, .replaced, .renamed, .decoded, .big, .digest, .upload, .again, .once, .data: false
      }
    }

    var isRemoved: Bool { self == .removed || self == .gone }

    /// What stands in the user's folder in the end.
    var resultNames: [String] {
      switch self {
      case .placed, .decoded, .big, .replaced: [rawValue]
      case .renamed: [rawValue, "renamed (1)"]
      case .managed, .cut, .digest, .upload, .again, .once, .data, .cancelled, .removed, .gone: []
      }
    }
  }

  static let answer = Array("the server's answer to the upload\n".utf8)
  /// Bytes after which the first answer of `item` breaks off; nil: it does not.
  private static func breaks(_ item: Item) -> Int? {
    switch item {
    case .cut: 200_000
    case .big: 5_000_000
    case .cancelled, .removed, .gone: 250_000
    case .managed, .placed, .replaced, .renamed, .decoded, .digest, .upload, .again, .once, .data: nil
    }
  }

  let server: LocalServer
  private let home: DaemonHome
  private let digest: String
  var source: String { home.path + "/source" }
  static let earlier = Array("what stood there before".utf8)

  /// - Parameter stalls: first answers that break off stop there in place of ending the connection.
  init(_ home: DaemonHome, stalls: Bool) throws {
    self.home = home
    digest = try Self.digestOfContent.get()
    let answers = Mutex<[String: Int]>([:])
    server = try LocalServer.start { request in
      guard let item = Item(rawValue: String(request.path.dropFirst())) else { return .status(404) }
      let number = answers.withLock { answers in
        answers[item.rawValue, default: 0] += 1
        return answers[item.rawValue, default: 0]
      }
      return Self.response(item, isFirst: number == 1, stalls: stalls)
    }
    try Files.atomicWrite(source, Item.upload.content.allBytes)
    for item in [Item.replaced, .renamed] { try Files.atomicWrite(home.out + "/\(item.rawValue)", Self.earlier) }
  }

  private static func response(_ item: Item, isFirst: Bool, stalls: Bool) -> Response {
    let content = item.content
    if item == .upload { return .bytes(answer) }
    if item == .again, isFirst { return .resetWithoutAnswer() }
    if item == .decoded {
      return Response.bytes([]).contentEncoding("gzip", bytes: Gzip.stored(content.allBytes)).etag("\"z\"")
    }
    let whole = Response.generated(length: content.length, seed: content.seed).etag("\"\(content.seed)\"")
    guard let count = breaks(item) else { return whole }
    if item.isEndless { return whole.stall(afterBytes: count) }
    guard isFirst else { return whole }
    return stalls ? whole.stall(afterBytes: count) : whole.cut(afterBytes: count)
  }

  func specification(_ item: Item) -> WireTaskSpecification {
    let url = server.url("/\(item.rawValue)")
    var wanted = WireTaskSpecification.download(url, key: item.rawValue)
    switch item {
    case .managed, .cut, .gone: break
    case .placed, .big, .cancelled, .removed, .decoded: wanted.destination = home.out + "/\(item.rawValue)"
    case .replaced, .renamed:
      wanted.destination = home.out + "/\(item.rawValue)"
      wanted.collision = item == .replaced ? "replace" : "rename"
    case .digest: wanted.sha256 = digest
    case .upload:
      wanted = .upload(source, to: url)
      wanted.key = item.rawValue
    case .again, .once:
      wanted.method = "POST"
      wanted.body = WireCoding.base64(Array("body of \(item.rawValue)".utf8))
      wanted.addsIdempotencyKey = item == .again
    case .data:
      wanted = WireTaskSpecification(kind: "data", url: url)
      wanted.key = item.rawValue
    }
    wanted.description = item.rawValue
    return wanted
  }

  /// SHA-256 of the content that is asked for with one.
  private static let digestOfContent = Result<String, any Error> {
    let folder = "/tmp/ferry-digest-\(getpid())-\(String(Clocks.randomWord(), radix: 36))"
    try Files.makePrivateDirectory(folder)
    defer { Shell.remove(folder) }
    try Files.atomicWrite(folder + "/content", Item.digest.content.allBytes)
    let result = try Shell.output("/usr/bin/sha256sum", [folder + "/content"])
    return String(result.output.prefix(64))
  }

  // MARK: What must hold

  /// What is wrong with a file that should hold an item's content; nil when nothing is.
  func fault(of path: String?, _ item: Item) -> String? {
    guard let path else { return "\(item): there is no path" }
    let content = item.content
    guard let bytes = try? Files.read(path, limitBytes: content.length + 1) else {
      return "\(item): no file at \(path)"
    }
    if item == .upload { return bytes == Self.answer ? nil : "\(item): another answer at \(path)" }
    guard bytes.count == content.length else { return "\(item): \(bytes.count) bytes at \(path)" }
    return content.verify(bytes).map { "\(item): \(path): \($0)" }
  }

  /// What the server saw that must not be.
  func faultsAtServer(hasUploaded: Bool) -> [String] {
    var faults: [String] = []
    let requests = server.requests
    let once = requests.filter { $0.path == "/once" }.count
    if once > 1 { faults.append("what may not be repeated was sent \(once) times") }
    let bodies = requests.filter { $0.path == "/upload" && $0.isBodyComplete }
    if bodies.contains(where: { $0.bodyDigest != Item.upload.content.digest }) { faults.append("a wrong upload body") }
    if hasUploaded, bodies.isEmpty { faults.append("an upload succeeded of which the server has no whole body") }
    for request in requests where request.path == "/again" && request.isBodyComplete {
      if request.bodyText != "body of again" { faults.append("a wrong body of a POST") }
    }
    if Set(requests.filter { $0.path == "/again" }.map { $0.headers["Idempotency-Key"] }).count > 1 {
      faults.append("a repeated request under two keys")
    }
    return faults
  }

  /// What is wrong in the user's folder, when all has ended.
  func faultsInFolder(succeeded: Set<Item>) -> [String] {
    var expected = Set(["replaced", "renamed"])
    for item in succeeded { expected.formUnion(item.resultNames) }
    let found = DaemonHome.names(in: home.out)
    return found == expected.sorted() ? [] : ["the user's folder has \(found) in place of \(expected.sorted())"]
  }
}
