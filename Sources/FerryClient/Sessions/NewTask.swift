public import FoundationEssentials
import TransferCore
package import WireProtocol

/// A header field of a request.
public struct Header: Hashable, Sendable {
  /// The field's name (RFC 9110 section 5.1); upper and lower case are the same to servers.
  public var name: String
  /// The field's value (RFC 9110 section 5.5).
  public var value: String
  /// Dropped when a redirect leaves the origin, and never shown or logged. Authorization and Cookie always are.
  public var isSecret: Bool

  /// A field, by default one that is no secret.
  public init(_ name: String, _ value: String, isSecret: Bool = false) {
    self.name = name
    self.value = value
    self.isSecret = isSecret
  }
}

/// A method that may carry a body (RFC 9110 section 9.3, RFC 5789).
public enum UploadMethod: String, Hashable, Sendable, CaseIterable {
  /// Replaces what is at the address; may be tried again.
  case put = "PUT"
  /// Hands the body to the address; is not tried again when its answer was lost, unless it has an Idempotency-Key.
  case post = "POST"
  /// Changes what is at the address; as ``post``.
  case patch = "PATCH"
}

/// What happens when a download's destination exists at the end.
public enum Collision: String, Hashable, Sendable, CaseIterable {
  /// The task fails.
  case fail
  /// The new file takes its place, in one step.
  case replace
  /// "name (1).suffix" and so on.
  case rename
}

/// What a task may be told beside what it carries. Every member has a default.
public struct TaskOptions: Hashable, Sendable {
  /// Which answers of the server count as success.
  public enum StatusRule: String, Hashable, Sendable, CaseIterable {
    /// 2xx; 408, 425, 429, 500, 502, 503 and 504 are tried again; the others fail.
    case successOnly
    /// Every answer is delivered as it came, as URLSession does.
    case any
  }

  /// Fields of the request, in this order; a name may come more than once. Default: none but the daemon's own.
  public var headers: [Header] = []
  /// Which answers count as success. Default: ``StatusRule/successOnly``.
  public var statusRule = StatusRule.successOnly
  /// Keep a download that came compressed as it came.
  public var keepsEncoding = false
  /// No progress for so long restarts the attempt.
  public var requestTimeout = Duration.seconds(60)
  /// The task ends so long after its creation, retries included.
  public var resourceTimeout = Duration.seconds(604_800)
  /// Shown by `ferry list` and in ``TaskStatus``; at most 64 KiB.
  public var label: String?
  /// 0 … 1.
  public var priority = 0.5
  /// Waits for external power and a network that is not metered, but at most until half of ``resourceTimeout`` is over,
  /// or a day before its end where that is later.
  public var isDiscretionary = false
  /// False: waits while the network is metered.
  public var allowsExpensiveNetwork = true
  /// False: waits while a person wants the network to be used sparingly.
  public var allowsConstrainedNetwork = true
  /// Waits while the device runs on its battery.
  public var requiresExternalPower = false
  /// Bytes that the response will have, header fields included: a download waits while the disk has no room for them.
  public var expectedToReceive: Int64?
  /// Bytes that the request will have, header fields included; shown, and nothing else.
  public var expectedToSend: Int64?
  /// Not before this date.
  public var earliestBegin: Date?
  /// Waits for ``Session/resume(_:)``.
  public var startsSuspended = false
  /// Enqueueing again under the same key gives the task that the key already has, so that a program that crashed
  /// between enqueueing and writing down its receipt makes no second task. Nil: a fresh key, which guards only against
  /// a lost connection.
  public var key: String?
  /// A POST or PATCH gets an Idempotency-Key header, the same on every attempt, unless it has one.
  public var addsIdempotencyKey = true

  /// Shown to the URL's own origin when it asks, and to nobody else. Default: none.
  public var credential: Credential?
  /// The same for the proxy.
  public var proxyCredential: Credential?
  /// In place of the session's, member by member.
  public var tls = TLSOptions()
  /// In place of ``SessionOptions/answersChallenges``; nil: as the session.
  public var answersChallenges: Bool?
  /// Asks (``TaskQuestion/Kind/delayedRequest``) when ``earliestBegin`` has come, in case the request is out of date.
  public var asksBeforeBegin = false

  /// Every member at its default.
  public init() {}
}

/// A task before it is enqueued.
public struct NewTask: Hashable, Sendable {
  let kind: TaskStatus.Kind
  let url: URL
  let method: String
  let source: LocalPath?
  let destination: LocalPath?
  let collision: Collision
  let sha256: String?
  let options: TaskOptions
  /// Goes on from what the daemon keeps under this token, which says all but the options.
  var resumeToken: String?

  /// Fetches `url` into `file`, whose folder must exist. Nil: into the daemon's own folder, where the file belongs to
  /// the daemon until the result is acknowledged; move it away before.
  ///
  /// - Parameter sha256: 64 hex digits that the content must have.
  public static func download(
    _ url: URL, to file: LocalPath? = nil, collision: Collision = .fail, sha256: String? = nil,
    options: TaskOptions = TaskOptions()
  ) -> NewTask {
    NewTask(
      kind: .download, url: url, method: "GET", source: nil, destination: file, collision: collision, sha256: sha256,
      options: options)
  }

  /// Goes on where another download ended, into the same place; of `options` the headers, the status rule and
  /// `keepsEncoding` are those of that download. The data can be used once.
  ///
  /// - Throws: `resumeDataInvalid` where the data is not what a task of Ferry gave.
  public static func download(
    resuming resumeData: Data, options: TaskOptions = TaskOptions()
  ) throws(FerryError) -> NewTask {
    let ticket: ResumeTicket
    do throws(ResumeTicket.Fault) {
      ticket = try ResumeTicket([UInt8](resumeData))
    } catch {
      throw FerryError(.resumeDataInvalid, "the resume data cannot be used: \(error.words)")
    }
    var task = NewTask(
      kind: .download, url: URL(filePath: "/"), method: "GET", source: nil, destination: nil, collision: .fail,
      sha256: nil, options: options)
    task.resumeToken = ticket.token.description
    return task
  }

  /// Fetches `url` into a folder, under the last component of the URL's path.
  public static func download(
    _ url: URL, intoFolder folder: LocalPath, collision: Collision = .rename, sha256: String? = nil,
    options: TaskOptions = TaskOptions()
  ) -> NewTask {
    download(
      url, to: LocalPath(folder.path + "/" + fileName(for: url)), collision: collision, sha256: sha256, options: options
    )
  }

  /// Sends `file` as the body of a request.
  public static func upload(
    _ file: LocalPath, to url: URL, method: UploadMethod = .put, options: TaskOptions = TaskOptions()
  ) -> NewTask {
    NewTask(
      kind: .upload, url: url, method: method.rawValue, source: file, destination: nil, collision: .fail, sha256: nil,
      options: options)
  }

  /// The name a download gets in a folder: the last component of the path; "download" where there is none that a file
  /// may have.
  package static func fileName(for url: URL) -> String {
    let name = url.path(percentEncoded: false).split(separator: "/").last.map(String.init) ?? ""
    // NAME_MAX of Linux's filesystems is 255 bytes; the part file needs a few more than the name.
    let isUsable = name != "." && name != ".." && !name.isEmpty && name.utf8.count <= 200 && !name.utf8.contains(0)
    return isUsable ? name : "download"
  }

  func specification() throws(FerryError) -> WireTaskSpecification {
    var wire = WireTaskSpecification(kind: kind.rawValue, url: resumeToken == nil ? url.absoluteString : "")
    wire.resumeToken = resumeToken
    if resumeToken != nil {
      try apply(options, to: &wire)
      return wire
    }
    guard let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https", url.host() != nil else {
      throw FerryError(.invalidURL, "\(url.absoluteString) is not an absolute http or https URL")
    }
    if method != "GET" { wire.method = method }
    if !options.headers.isEmpty {
      wire.headers = options.headers.map { WireHeader(name: $0.name, value: $0.value) }
      let secret = options.headers.filter(\.isSecret).map(\.name)
      if !secret.isEmpty { wire.secretHeaders = secret }
    }
    if let source { wire.source = try source.canonical }
    if let destination {
      wire.destination = try destination.canonical
      wire.collision = collision.rawValue
    }
    wire.sha256 = sha256?.lowercased()
    wire.statusRule = options.statusRule.rawValue
    if options.keepsEncoding { wire.keepsEncoding = true }
    try apply(options, to: &wire)
    if options.addsIdempotencyKey, method == "POST" || method == "PATCH" { wire.addsIdempotencyKey = true }
    return wire
  }

  private func apply(_ options: TaskOptions, to wire: inout WireTaskSpecification) throws(FerryError) {
    wire.requestTimeoutSeconds = try Self.seconds(options.requestTimeout, "requestTimeout")
    wire.resourceTimeoutSeconds = try Self.seconds(options.resourceTimeout, "resourceTimeout")
    wire.description = options.label
    guard options.priority >= 0, options.priority <= 1 else {
      throw FerryError(.invalidArgument, "priority must be 0 … 1, not \(options.priority)")
    }
    wire.priority = options.priority
    if options.isDiscretionary { wire.isDiscretionary = true }
    var requires: [String] = []
    if !options.allowsExpensiveNetwork { requires.append("unmetered") }
    if !options.allowsConstrainedNetwork { requires.append("unconstrained") }
    if options.requiresExternalPower { requires.append("externalPower") }
    if !requires.isEmpty { wire.requires = requires }
    for (bytes, name) in [(options.expectedToSend, "expectedToSend"), (options.expectedToReceive, "expectedToReceive")]
    where bytes ?? 0 < 0 {
      throw FerryError(.invalidArgument, "\(name) counts bytes and must not be negative")
    }
    wire.clientExpectsToSend = options.expectedToSend
    wire.clientExpectsToReceive = options.expectedToReceive
    wire.earliestBeginMilliseconds = options.earliestBegin?.wireMilliseconds
    if options.startsSuspended { wire.isSuspended = true }
    wire.key = options.key ?? UUID().uuidString
    wire.credential = options.credential?.wire
    wire.proxyCredential = options.proxyCredential?.wire
    if options.tls != TLSOptions() { wire.tls = try options.tls.wire() }
    wire.answersChallenges = options.answersChallenges
    if options.asksBeforeBegin { wire.asksBeforeBegin = true }
  }

  private static func seconds(_ duration: Duration, _ name: String) throws(FerryError) -> Double {
    guard duration > .zero else { throw FerryError(.invalidArgument, "\(name) must be more than nothing") }
    return duration / .seconds(1)
  }
}

extension Date {
  /// Clamped to what 64 bits hold.
  package var wireMilliseconds: Int64 { Int64(exactly: (timeIntervalSince1970 * 1000).rounded()) ?? .max }

  package init(wireMilliseconds: Int64) { self.init(timeIntervalSince1970: Double(wireMilliseconds) / 1000) }
}

/// Batches that fit the daemon's bounds.
package enum EnqueueBatches {
  /// Splits in order; each batch fits one message (``WireLimits/messageBytes``) and ``WireLimits/tasksInBatch``.
  package static func split(_ tasks: [WireTaskSpecification]) -> [ArraySlice<WireTaskSpecification>] {
    var batches: [ArraySlice<WireTaskSpecification>] = []
    var start = 0
    var bytes = 0
    for (index, task) in tasks.enumerated() {
      let size = estimatedBytes(task)
      if index > start, index - start >= WireLimits.tasksInBatch / 4 || bytes + size > WireLimits.messageBytes / 2 {
        batches.append(tasks[start..<index])
        start = index
        bytes = 0
      }
      bytes += size
    }
    if start < tasks.count { batches.append(tasks[start...]) }
    return batches
  }

  /// Texts are counted twice, as escapes make them longer; one whose every byte is a control character would need six.
  private static func estimatedBytes(_ task: WireTaskSpecification) -> Int {
    let texts = [task.url, task.source, task.destination, task.description, task.key].compactMap { $0?.utf8.count }
    let headers = (task.headers ?? []).map { $0.name.utf8.count + $0.value.utf8.count + 8 }
    return 512 + 2 * (texts.reduce(0, +) + headers.reduce(0, +)) + (task.body?.utf8.count ?? 0)
  }
}
