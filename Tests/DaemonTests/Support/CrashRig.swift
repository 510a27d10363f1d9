import Glibc
import LinuxSystem
import LoopbackServer
import Synchronization
import Testing
import WireProtocol

/// A server whose paths have content of their own; the first answer of each can be made to go wrong. It knows what was
/// fetched twice.
final class ContentServer: Sendable {
  struct Item: Sendable {
    var content: GeneratedContent
    var first: @Sendable (Response) -> Response
    var etag: Bool
    var answers = 0
  }

  private let items: Monitored
  let server: LocalServer

  final class Monitored: Sendable {
    let table = Mutex<[String: Item]>([:])

    func answer(_ path: String) -> Response {
      let found = table.withLock { table -> (Item, Bool)? in
        guard let item = table[path] else { return nil }
        table[path]?.answers += 1
        return (item, item.answers == 0)
      }
      guard let (item, isFirst) = found else { return .status(404) }
      var response = Response.generated(length: item.content.length, seed: item.content.seed)
      if item.etag { response = response.etag("\"\(item.content.seed)\"") }
      return isFirst ? item.first(response) : response
    }
  }

  init() throws {
    let items = Monitored()
    self.items = items
    var configuration = LocalServer.Configuration()
    // What the kernel holds for a slow reader is fetched twice when the reader dies: keep it small.
    configuration.sendBufferByteCount = 64 << 10
    server = try LocalServer.start(configuration: configuration) { items.answer($0.path) }
  }

  func stop() { server.stop() }
  func url(_ path: String) -> String { server.url(path) }

  func put(
    _ path: String, _ content: GeneratedContent, etag: Bool = true,
    first: @escaping @Sendable (Response) -> Response = { $0 }
  ) {
    items.table.withLock { $0[path] = Item(content: content, first: first, etag: etag) }
  }

  func content(_ path: String) -> GeneratedContent? { items.table.withLock { $0[path]?.content } }

  /// For each request of a path but the first: bytes that were sent before and that it asked for again.
  func fetchedTwice(_ path: String) throws -> [Int] {
    // Attempts of one task follow each other, so that the order of beginnings is the order of ends.
    let requests = server.requests.filter { $0.path == path }
    let ended = try eventually("the exchanges of \(path) end") { () -> [Exchange]? in
      let ended = server.exchanges.filter { $0.request?.path == path }
      return ended.count == requests.count ? ended : nil
    }
    var twice: [Int] = []
    var reached = 0
    for (request, exchange) in zip(requests, ended) {
      let start = Self.rangeStart(request)
      if request.receivedAt != requests[0].receivedAt { twice.append(max(0, reached - start)) }
      reached = max(reached, start + exchange.bodyBytesSent)
    }
    return twice
  }

  /// Body bytes of the first answer on a path that were sent.
  func firstAnswerBytes(_ path: String) -> Int? { server.exchanges.first { $0.request?.path == path }?.bodyBytesSent }

  static func rangeStart(_ request: Request) -> Int {
    guard let text = request.headers["Range"], text.hasPrefix("bytes="), text.hasSuffix("-") else { return 0 }
    return Int(text.dropFirst(6).dropLast()) ?? 0
  }
}

/// A client that comes back when its daemon died, and keeps a book of deliveries: none twice after it was acknowledged,
/// none with a hole before it.
final class PersistentClient {
  let home: DaemonHome
  let sessionName: String
  private var current: (client: ProtocolClient, session: Int64)?
  private(set) var acknowledged: Set<Int64> = []

  init(_ home: DaemonHome, session: String = "s") {
    self.home = home
    sessionName = session
  }

  /// Runs `body` with a connection whose session is open; again with a new one when the daemon died in it.
  func perform<T>(
    _ what: String, seconds: Double = 60, _ body: (ProtocolClient, Int64) throws -> T
  ) throws -> T {
    let deadline = Deadline(seconds: seconds)
    while true {
      do {
        let (client, session) = try connection(deadline)
        return try body(client, session)
      } catch ProtocolClient.Failure.ended {
        current = nil
      } catch is SystemError {
        current = nil
      }
      if deadline.isOver { throw Late("\(what): the daemon died again and again: \(home.logText.suffix(2000))") }
    }
  }

  private func connection(_ deadline: Deadline) throws -> (ProtocolClient, Int64) {
    if let current { return current }
    let client = try home.connect(seconds: Double(deadline.milliseconds) / 1000)
    let session = try client.open(sessionName)
    current = (client, session)
    return (client, session)
  }

  /// Goes away without a word.
  func vanish() {
    current?.client.close()
    current = nil
  }

  func enqueue(_ url: String, to path: String?, key: String) throws -> Int64 {
    try perform("enqueueing \(url)") { client, session in
      try client.enqueue(.download(url, to: path, key: key), in: session)
    }
  }

  func waitForEnd(of id: Int64) throws -> TaskSnapshot {
    try perform("the end of task \(id)") { client, _ in try client.waitForEnd(of: id) }
  }

  func waitForBytes(of id: Int64, atLeast count: Int64) throws {
    try perform("\(count) bytes of task \(id)") { client, _ in try client.waitForBytes(of: id, atLeast: count) }
  }

  /// The next delivery that was not acknowledged before.
  func delivery() throws -> DeliveryNotice {
    let notice = try perform("a delivery") { client, session in
      do {
        return try client.delivery()
      } catch let late as Late {
        let tasks = try client.list().map { "\($0.id) \($0.kind) \($0.state) \($0.received) \($0.reason ?? "")" }
        throw Late("\(late) in session \(session): \(tasks) \(try client.status()) \(home.logText.suffix(3000))")
      }
    }
    #expect(!acknowledged.contains(notice.number), "delivery \(notice.number) came again after its acknowledgement")
    return notice
  }

  func acknowledge(_ notice: DeliveryNotice) throws {
    try perform("acknowledging \(notice.number)") { client, session in
      try client.acknowledge([notice.number], in: session)
      // Offered on this connection before the acknowledgement was answered: no second time.
      client.drop { if case .delivery(let offer) = $0 { offer.number == notice.number } else { false } }
    }
    acknowledged.insert(notice.number)
  }

  /// Waits until so many things were said; they stay. Fewer, when nothing more comes.
  func waitForNotifications(_ count: Int) throws {
    try perform("\(count) notifications") { client, _ in
      var seen = 0
      do {
        try client.wait(for: "notifications", seconds: 2) { _ in
          seen += 1
          return seen >= count ? () : nil
        }
      } catch is Late {
        // All that there was to say has been said.
      }
    }
  }

  /// Sends an acknowledgement and does not wait: it may be lost.
  func throwAcknowledgement(_ notice: DeliveryNotice) throws {
    _ = try perform("acknowledging \(notice.number)") { client, session in
      try client.send(
        .deliveryAcknowledge(DeliveryAcknowledgeParameters(session: session, numbers: [notice.number])))
    }
  }
}
