public import FoundationEssentials
import TransferCore
package import WireProtocol

/// What a program keeps of a task: its durable name. It can be stored and used by another process, also after a reboot.
public struct Receipt: Codable, Hashable, Sendable, Identifiable {
  /// The daemon-wide number; what `ferry list` shows.
  public let id: Int64
  /// Counted from 1 within the session.
  public let number: Int64
  /// The session that the app named.
  public let session: String
  /// Who owns the session; see ``Ferry/app``.
  public let app: String
  /// How an upload's source was kept safe from what happens to it after enqueueing; nil for downloads.
  public let pin: SourcePin?

  package init(id: Int64, number: Int64, session: String, app: String, pin: SourcePin?) {
    self.id = id
    self.number = number
    self.session = session
    self.app = app
    self.pin = pin
  }
}

/// How an upload's source was kept safe.
public enum SourcePin: String, Codable, Hashable, Sendable {
  /// A copy-on-write clone: later changes of the source do not reach it.
  case reflink
  /// A second name for the same file: deletion does no harm, a change in place fails the task.
  case hardLink
  /// A copy of its bytes.
  case copy
  /// Only the path is known; a deletion or change fails the task.
  case none
}

/// Why a task failed, or why it waits after a failed attempt.
public struct TaskFailure: Error, Codable, Hashable, Sendable, CustomStringConvertible {
  /// A stable name, as "hostNotFound"; listed in docs/Protocol.md.
  public let code: String
  /// It may go better later.
  public let isTransient: Bool
  /// What `number` belongs to: "curl", "errno", "http", or "".
  public let domain: String
  /// curl's own (libcurl-errors(3)), that of errno(3), or the status of HTTP, as `domain` says; 0 without a domain.
  public let number: Int
  /// One sentence: the cause and, where there is one, the remedy.
  public let detail: String

  package init(_ wire: WireFailure) {
    code = wire.code
    isTransient = wire.isTransient
    domain = wire.domain
    number = wire.number
    detail = wire.detail
  }

  /// The code and the sentence, for logs.
  public var description: String { "\(code): \(detail)" }
}

/// The head of the response that was taken.
public struct TransferResponse: Hashable, Sendable {
  /// The status code (RFC 9110 section 15): 200, 404 …
  public let status: Int
  /// The fields in the order in which they came; a name may come more than once.
  public let headers: [Header]
  /// As the server of the final URL sent it: "1.1", "2" …
  public let httpVersion: String

  package init(_ wire: WireResponse) {
    status = wire.status
    headers = wire.headers.map { Header($0.name, $0.value) }
    httpVersion = wire.httpVersion
  }
}

/// A task as it stood when the daemon last told.
public struct TaskStatus: Hashable, Sendable, Identifiable {
  /// Which way the bytes go; `data` is a small exchange whose response goes to the program and not to a file.
  public enum Kind: String, Codable, Hashable, Sendable {
    /// To a file.
    case download
    /// From a file.
    case upload
    /// To the program.
    case data
  }

  /// Where a task is between its creation and its end.
  public enum State: String, Codable, Hashable, Sendable {
    /// Waits for `resume`.
    case suspended
    /// ``TaskStatus/reason`` says for what.
    case waiting
    /// An attempt is under way.
    case running
    /// Only the app can say how it goes on; ``TaskStatus/question`` tells what is asked.
    case asking
    /// All bytes are in; they are being checked, synced and placed.
    case finalizing
    /// It has ended well.
    case succeeded
    /// It has ended without its result.
    case failed
    /// It was ended by the app or a person.
    case cancelled

    /// The task has ended, and its state will not change again.
    public var isFinished: Bool {
      switch self {
      case .succeeded, .failed, .cancelled: true
      case .suspended, .waiting, .running, .asking, .finalizing: false
      }
    }
  }

  package let snapshot: TaskSnapshot
  package init(_ snapshot: TaskSnapshot) { self.snapshot = snapshot }

  /// The daemon-wide number, as ``Receipt/id``.
  public var id: Int64 { snapshot.id }
  /// What the task was given when it was enqueued.
  public var receipt: Receipt {
    Receipt(
      id: id, number: snapshot.number, session: snapshot.session, app: snapshot.app,
      pin: snapshot.pin.flatMap(SourcePin.init(rawValue:)))
  }
  /// A kind that this release does not know counts as data.
  public var kind: Kind { Kind(rawValue: snapshot.kind) ?? .data }
  /// A state that this release does not know counts as waiting.
  public var state: State { State(rawValue: snapshot.state) ?? .waiting }
  /// Why it does not run now, in words.
  public var reason: String? { snapshot.reason }
  /// What it asks; nil unless it is ``State/asking``.
  public var question: TaskQuestion? { TaskQuestion(snapshot.question, receipt) }
  /// The request's method, as it was asked for: "GET", "PUT" …
  public var method: String { snapshot.method }
  /// As it was asked for.
  public var url: URL? { URL(string: snapshot.url) }
  /// After redirects.
  public var currentURL: URL? { URL(string: snapshot.currentURL ?? snapshot.url) }
  /// As in ``TaskOptions/label``; nil where none was given.
  public var label: String? { snapshot.description }
  /// 0 … 1.
  public var priority: Double { snapshot.priority }
  /// Body bytes held, or received of an upload's response.
  public var receivedBytes: Int64 { snapshot.received }
  /// Nil while unknown.
  public var expectedBytes: Int64? { snapshot.expected }
  /// In the current attempt.
  public var sentBytes: Int64 { snapshot.sent }
  /// Bytes of the request's body; nil where it has none, or while unknown.
  public var expectedBytesToSend: Int64? { snapshot.expectedToSend }
  /// Attempts begun so far.
  public var attempts: Int64 { snapshot.attempts }
  /// The response that was taken; nil until its head is in.
  public var response: TransferResponse? { snapshot.response.map(TransferResponse.init) }
  /// Also of the last attempt of a task that waits.
  public var failure: TaskFailure? { snapshot.error.map(TaskFailure.init) }
  /// When it was enqueued, by the wall clock.
  public var created: Date { Date(wireMilliseconds: snapshot.createdMilliseconds) }
  /// When it ended, by the wall clock; nil until then.
  public var finished: Date? { snapshot.finishedMilliseconds.map(Date.init(wireMilliseconds:)) }
  /// No attempt is made before this date; only while it waits, and nil where it waits for something else.
  public var nextAttempt: Date? { snapshot.nextAttemptMilliseconds.map(Date.init(wireMilliseconds:)) }

  /// When a result goes that nobody acknowledges; nil where none waits.
  public var expires: Date? { snapshot.expiresMilliseconds.map(Date.init(wireMilliseconds:)) }
  /// What ``Session/download(resuming:options:)`` needs to go on where this task ended; nil where it cannot be.
  public var resumeData: Data? {
    snapshot.resumeToken.flatMap { ResumeTicket.data(token: $0, received: snapshot.received) }
  }

  /// Nil until the task has finished.
  public var outcome: TaskOutcome? {
    switch state {
    case .suspended, .waiting, .running, .asking, .finalizing: return nil
    case .succeeded: return .succeeded(FinishedTransfer(snapshot, receipt))
    case .cancelled: return .cancelled
    case .failed:
      let unknown = WireFailure(
        code: "internalFault", isTransient: false, domain: "", number: 0, detail: "the daemon gave no cause")
      return .failed(TaskFailure(snapshot.error ?? unknown))
    }
  }
}

/// How a task ended.
public enum TaskOutcome: Hashable, Sendable {
  /// Well, with what it brought.
  case succeeded(FinishedTransfer)
  /// Without its result, and why.
  case failed(TaskFailure)
  /// The app or a person cancelled it.
  case cancelled
}

/// What a task brought.
public struct FinishedTransfer: Hashable, Sendable {
  /// What the task was given when it was enqueued.
  public let receipt: Receipt
  /// After redirects.
  public let finalURL: URL?
  /// The response that the body came with; nil where the daemon kept none.
  public let response: TransferResponse?
  /// The strong ETag, or Last-Modified where it may be trusted, of what was fetched.
  public let validator: String?
  /// Bytes of the body that were received.
  public let sizeBytes: Int64
  /// Body bytes sent.
  public let sentBytes: Int64
  /// Lower-case hex, where it was computed.
  public let sha256: String?
  /// Attempts that it took, the last one included.
  public let attempts: Int64
  /// False when the response ended with its connection, so that nothing told whether it was whole.
  public let isLengthVerified: Bool
  /// Bytes that were fetched and thrown away.
  public let wastedBytes: Int64
  /// A download's file. Without a destination of its own it is removed once the result is acknowledged.
  public let file: LocalPath?
  /// The body of an upload's response, removed once the result is acknowledged.
  public let body: LocalPath?

  init(_ snapshot: TaskSnapshot, _ receipt: Receipt) {
    self.receipt = receipt
    finalURL = URL(string: snapshot.response?.url ?? snapshot.currentURL ?? snapshot.url)
    response = snapshot.response.map(TransferResponse.init)
    validator = snapshot.validator
    sizeBytes = snapshot.received
    sentBytes = snapshot.sent
    sha256 = snapshot.sha256
    attempts = snapshot.attempts
    isLengthVerified = snapshot.isLengthVerified ?? true
    wastedBytes = snapshot.wasted ?? 0
    file = snapshot.file.map { LocalPath($0) }
    body = snapshot.body.map { LocalPath($0) }
  }
}
