import Glibc

/// A door through which strangers' bytes come in. Each target feeds its input to the real code behind one door and
/// checks what must hold whatever the bytes are; a trap is a finding by itself.
package enum FuzzTarget: String, CaseIterable, Sendable {
  /// One line from a client.
  case wireRequest
  /// One line from a daemon.
  case wireMessage
  /// A stream of bytes from a client, cut anywhere.
  case peerLines
  case contentRange
  /// HTTP dates and Retry-After.
  case httpDate
  /// The lines of a response's head, judged.
  case response
  /// What a server says on its connection, through libcurl into a file.
  case answer
  /// URLs, beside libcurl's reader.
  case url
  /// A task, a network and a session as a client describes them.
  case intake
  /// Values in columns of the store.
  case storedRows
  /// The store's file itself.
  case storedBytes
  case mountTable
  case lockRecord
  /// gzip and deflate.
  case contentCoding
  /// Resume data, as a program gives it back.
  case resumeTicket

  /// - Throws: ``FuzzFinding`` when something is not as it must be.
  package func run(_ bytes: [UInt8]) throws {
    switch self {
    case .wireRequest: try WireTargets.request(bytes)
    case .wireMessage: try WireTargets.message(bytes)
    case .peerLines: try PeerTarget.run(bytes)
    case .contentRange: try HeaderTargets.contentRange(bytes)
    case .httpDate: try HeaderTargets.date(bytes)
    case .response: try HeaderTargets.response(bytes)
    case .answer: try AnswerTarget.run(bytes)
    case .url: try URLTarget.run(bytes)
    case .intake: try IntakeTarget.run(bytes)
    case .storedRows: try StoreTargets.rows(bytes)
    case .storedBytes: try StoreTargets.file(bytes)
    case .mountTable: try SystemTargets.mountTable(bytes)
    case .lockRecord: try SystemTargets.lockRecord(bytes)
    case .contentCoding: try ContentCodingTarget.run(bytes)
    case .resumeTicket: try ResumeTicketTarget.run(bytes)
    }
  }

  /// Longer inputs find nothing new.
  package var longestInput: Int {
    switch self {
    case .contentRange, .httpDate, .resumeTicket: 96
    case .url, .lockRecord: 512
    case .wireRequest, .wireMessage, .response, .answer, .intake, .mountTable, .contentCoding: 4096
    case .peerLines: 128
    case .storedRows, .storedBytes: 512
    }
  }
}

/// A rule that does not hold.
package struct FuzzFinding: Error, CustomStringConvertible {
  package var description: String
  init(_ description: String) { self.description = description }
}

func require(_ condition: Bool, _ message: @autoclosure () -> String) throws {
  if !condition { throw FuzzFinding(message()) }
}

/// Makes values of an input, from its front; zeros when it is used up.
struct ByteSource {
  private(set) var rest: ArraySlice<UInt8>
  init(_ bytes: [UInt8]) { rest = bytes[...] }

  var isEmpty: Bool { rest.isEmpty }

  mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }
  mutating func bool() -> Bool { byte() & 1 == 1 }

  mutating func word() -> UInt64 { (0..<8).reduce(UInt64(0)) { value, _ in value << 8 | UInt64(byte()) } }

  /// Small numbers, the borders of 64 bits, and any others.
  mutating func integer() -> Int64 {
    switch byte() % 8 {
    case 0: 0
    case 1: Int64(byte())
    case 2: -Int64(byte())
    case 3: Int64.max - Int64(byte())
    case 4: Int64.min + Int64(byte())
    case 5: Int64(byte()) << Int64(byte() % 63)
    default: Int64(bitPattern: word())
    }
  }

  mutating func bytes(_ count: Int) -> ArraySlice<UInt8> {
    let taken = rest.prefix(count)
    rest = rest.dropFirst(count)
    return taken
  }

  mutating func text() -> String { String(decoding: bytes(Int(byte())), as: UTF8.self) }
  mutating func optionalText() -> String? { bool() ? text() : nil }
  mutating func one<T>(of choices: [T]) -> T { choices[Int(byte()) % choices.count] }

  mutating func remainder() -> [UInt8] {
    defer { rest = [] }
    return Array(rest)
  }
}

/// Where files of the targets lie: in memory, for a start of the store costs several syncs.
enum FuzzFolder {
  static let path = unsafe access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
}
